/* SPDX-License-Identifier: Apache-2.0 */
/* report_fields.c - finds things in a report. */
#include "compare/report_fields.h"

#include <string.h>

const json_t *tw_report_row(const json_t *report, size_t rank)
{
	const json_t *row;
	size_t k;

	json_array_foreach(json_object_get(report, "rows"), k, row)
	{
		if (tw_count_at(row, "rank") == rank)
			return row;
	}
	return NULL;
}

enum tw_measure tw_report_measure(const json_t *report)
{
	const char *name = tw_text_at(report, "measure");
	size_t k = 0;

	while (k + 1 < TW_MEASURES && strcmp(tw_measure_kinds[k].name, name) != 0)
		k++;
	return (enum tw_measure)k;
}

const char *tw_report_many(const json_t *report)
{
	return tw_count_at(report, "folds") ? "folds" : "seeds";
}

const char *tw_report_one(const json_t *report)
{
	return tw_count_at(report, "folds") ? "fold" : "seed";
}
