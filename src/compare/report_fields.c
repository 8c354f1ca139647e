/* SPDX-License-Identifier: Apache-2.0 */
/* report_fields.c - reads the fields of a report, or of a result, where some may be missing. */
#include "compare/report_fields.h"

#include <math.h>
#include <string.h>

const char *tw_report_string(const json_t *o, const char *name)
{
	const char *t = json_string_value(json_object_get(o, name));

	return t ? t : "";
}

double tw_report_number(const json_t *o, const char *name)
{
	const json_t *v = json_object_get(o, name);

	return json_is_number(v) ? json_number_value(v) : NAN;
}

size_t tw_report_count(const json_t *o, const char *name)
{
	return (size_t)json_integer_value(json_object_get(o, name));
}

const json_t *tw_report_row(const json_t *report, size_t rank)
{
	const json_t *row;
	size_t k;

	json_array_foreach(json_object_get(report, "rows"), k, row)
	{
		if (tw_report_count(row, "rank") == rank)
			return row;
	}
	return NULL;
}

enum tw_measure tw_report_measure(const json_t *report)
{
	const char *name = tw_report_string(report, "measure");
	size_t k = 0;

	while (k + 1 < TW_MEASURES && strcmp(tw_measure_kinds[k].name, name) != 0)
		k++;
	return (enum tw_measure)k;
}
