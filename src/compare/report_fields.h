/* SPDX-License-Identifier: Apache-2.0 */
/* report_fields.h - finds things in a report. */
#ifndef TW_COMPARE_REPORT_FIELDS_H
#define TW_COMPARE_REPORT_FIELDS_H

#include "base/json.h"
#include "compare/measures.h"

/* The row with this rank, from 1 on; NULL: none. */
const json_t *tw_report_row(const json_t *report, size_t rank);
/* The measure that rows are ranked by. */
enum tw_measure tw_report_measure(const json_t *report);

/* What the runs of a row differ by: "seeds" or "folds"; one of them. */
const char *tw_report_many(const json_t *report);
const char *tw_report_one(const json_t *report);

#endif
