/* SPDX-License-Identifier: Apache-2.0 */
/* findings.h - ranks the rows of a comparison, and says in sentences what it shows. */
#ifndef TW_COMPARE_FINDINGS_H
#define TW_COMPARE_FINDINGS_H

#include "compare/measures.h"

struct tw_ranking {
	size_t *place;         /* of each row, from 1 on; the baseline's among the others */
	size_t best, baseline; /* rows; SIZE_MAX: none */
};
/* By the mean of the comparison's measure over the seeds, where a run that diverged or missed the
 * target counts as the worst there is (measures.h), and one that failed does not count.  The best
 * is no baseline, and has a run with a value. */
void tw_ranking_make(const struct tw_compare_runs *r, struct tw_ranking *rank);

/* What the report shows, in a few sentences; and what its reader must know: divergence, failures,
 * values at the edge of what was tried, a target that nobody reached, too few seeds.  Both are
 * arrays of texts. */
json_t *tw_findings(const json_t *report);
json_t *tw_findings_notes(const json_t *report, const char *const *note, size_t notes);

#endif
