/* SPDX-License-Identifier: Apache-2.0 */
/* verdict.c - whether one method is better than another, by runs of the same seeds. */
#include "compare/verdict.h"

#include <math.h>

const char *const tw_compare_verdicts[] = {
	[TW_COMPARE_BETTER] = "better",
	[TW_COMPARE_WORSE] = "worse",
	[TW_COMPARE_NOT_RESOLVED] = "not resolved",
	[TW_COMPARE_UNKNOWN] = "unknown",
};

static size_t count(const struct tw_mark *mark, size_t n, int kind)
{
	size_t found = 0;

	for (size_t k = 0; k < n; k++)
		found += (int)mark[k].kind == kind;
	return found;
}

static double value_of(const struct tw_mark *mark)
{
	return mark->kind == TW_MARK_VALUE ? mark->value : NAN;
}

/* By the seeds in which both have a value. */
static void judge_pairs(struct tw_contrast *j, bool more)
{
	const struct tw_paired *p = &j->paired;

	j->verdict = TW_COMPARE_NOT_RESOLVED;
	if (p->difference == 0 && p->half == 0)
		j->reason = "both are equal in every run";
	if (fabs(p->difference) <= p->half)
		return;
	if ((p->difference > 0) == more && j->lost)
		j->reason = "it is better where both have a value, and lost in other seeds";
	else if ((p->difference > 0) != more && j->won)
		j->reason = "it is worse where both have a value, and the other one lost in other "
			    "seeds";
	else
		j->verdict = (p->difference > 0) == more ? TW_COMPARE_BETTER : TW_COMPARE_WORSE;
}

/* There is at most one pair. */
static void judge_few(struct tw_contrast *j, size_t n, size_t values_a, size_t values_b)
{
	j->verdict = TW_COMPARE_UNKNOWN;
	if (!values_a && !values_b)
		j->reason = "no run of either has a value";
	else if (!values_a || !values_b)
		j->reason = "no run of one of them has a value";
	else if (n < 2)
		j->reason = "one seed says nothing about noise";
	else
		j->reason = "there are fewer than 2 seeds in which both have a value";
	if (n >= 2 && values_a && values_b && (j->lost || j->won))
		j->verdict = TW_COMPARE_NOT_RESOLVED;
}

struct tw_contrast tw_judge(const struct tw_mark *a, const struct tw_mark *b, size_t n, bool more)
{
	const size_t values_a = count(a, n, TW_MARK_VALUE), values_b = count(b, n, TW_MARK_VALUE);
	struct tw_contrast j = { .reason = NULL };
	struct tw_pairing p = { 0 };

	for (size_t k = 0; k < n; k++) {
		tw_pairing_add(&p, value_of(&a[k]), value_of(&b[k]));
		j.lost += a[k].kind == TW_MARK_LOST && b[k].kind == TW_MARK_VALUE;
		j.won += a[k].kind == TW_MARK_VALUE && b[k].kind == TW_MARK_LOST;
	}
	j.paired = tw_pairing_end(&p);
	if (!values_a && values_b && count(a, n, TW_MARK_LOST))
		j.verdict = TW_COMPARE_WORSE;
	else if (values_a && !values_b && count(b, n, TW_MARK_LOST))
		j.verdict = TW_COMPARE_BETTER;
	else if (j.paired.pairs < 2)
		judge_few(&j, n, values_a, values_b);
	else
		judge_pairs(&j, more);
	return j;
}
