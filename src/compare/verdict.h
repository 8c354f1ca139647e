/* SPDX-License-Identifier: Apache-2.0 */
/* verdict.h - whether one method is better than another, by runs of the same seeds.
 *
 * A run has a value, or it *lost*: it diverged, or did not reach the target, and is worse than any
 * run with a value.  A run that failed, or whose measure does not exist, says nothing. */
#ifndef TW_COMPARE_VERDICT_H
#define TW_COMPARE_VERDICT_H

#include "base/statistics.h"

#include <stdbool.h>

/* What one run came to. */
struct tw_mark {
	enum { TW_MARK_VALUE, TW_MARK_LOST, TW_MARK_NOTHING } kind;
	double value; /* of TW_MARK_VALUE */
};

enum tw_compare_verdict {
	TW_COMPARE_BETTER,
	TW_COMPARE_WORSE,
	TW_COMPARE_NOT_RESOLVED, /* these seeds do not show a difference */
	TW_COMPARE_UNKNOWN,      /* there is nothing to compare */
};
extern const char *const tw_compare_verdicts[]; /* "better", "not resolved" */

struct tw_contrast {
	struct tw_paired paired; /* over the seeds in which both have a value */
	size_t lost, won;        /* seeds in which only this method, or only the other one, lost */
	enum tw_compare_verdict verdict;
	const char *reason; /* a part of a sentence, where the interval is not the reason; NULL */
};

/* Method a against b: a[k] and b[k] have the same seed.  `more`: more is better.
 *
 *  - All runs of one lost, and the other one has a value: the first one is worse.
 *  - Else the 95 % interval of the differences decides, if it excludes 0; but no method is better
 *    that lost runs which the other one did not lose. */
struct tw_contrast tw_judge(const struct tw_mark *a, const struct tw_mark *b, size_t n, bool more);

#endif
