/* SPDX-License-Identifier: Apache-2.0 */
/* report.h - what a comparison came to: one JSON object, from which everything else is made.
 *
 * In `sim` the object has no wall-clock time and depends on nothing but the comparison: the same
 * command gives the same bytes.  docs/COMPARE.md describes its fields. */
#ifndef TW_COMPARE_REPORT_H
#define TW_COMPARE_REPORT_H

#include "compare/measures.h"

#include <stdio.h>

#define TW_REPORT_POINTS 2000  /* of one curve in the report, at most */
#define TW_REPORT_CHART  20000 /* of all curves together */
#define TW_REPORT_BYTES  3000000

/* Curves have at most `points` points each.  NULL without memory. */
json_t *tw_report_make(const struct tw_compare_runs *r, const size_t *chosen, size_t points);
/* How many points a curve may have so that all together are not too many. */
size_t tw_report_points(const struct tw_comparison *c);

/* As report.json has it; for free(); NULL without memory. */
char *tw_report_text(const json_t *report);
/* What people read first: who is best, by how much, at which cost; at most 100 columns wide. */
void tw_report_table(const json_t *report, FILE *out);
/* One line for each run (report.csv), and one for each evaluation (curves.csv). */
void tw_report_runs_csv(const struct tw_compare_runs *r, FILE *out);
void tw_report_curves_csv(const struct tw_compare_runs *r, FILE *out);
/* One page that needs nothing else.  TW_NO_MEMORY. */
enum tw_status tw_report_page(const json_t *report, FILE *out);

/* Write them all to the directory.  *report is the caller's reference. */
enum tw_status tw_report_write(const struct tw_compare_runs *r, const size_t *chosen,
			       const char *dir, json_t **report, struct tw_error *why);

#endif
