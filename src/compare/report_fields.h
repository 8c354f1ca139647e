/* SPDX-License-Identifier: Apache-2.0 */
/* report_fields.h - reads the fields of a report, or of a result, where some may be missing. */
#ifndef TW_COMPARE_REPORT_FIELDS_H
#define TW_COMPARE_REPORT_FIELDS_H

#include "compare/measures.h"

/* The text, "" where there is none; the number, NAN where there is none; the count, else 0. */
const char *tw_report_string(const json_t *o, const char *name);
double tw_report_number(const json_t *o, const char *name);
size_t tw_report_count(const json_t *o, const char *name);
/* The row with this rank, from 1 on; NULL: none. */
const json_t *tw_report_row(const json_t *report, size_t rank);
/* The measure that rows are ranked by. */
enum tw_measure tw_report_measure(const json_t *report);

#endif
