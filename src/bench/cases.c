/* SPDX-License-Identifier: Apache-2.0 */
/* cases.c - what benches report: cases, pairs, shares of a core, notes. */
#include "bench/bench.h"

#include <stdio.h>
#include <string.h>

#define QUIET 0.95 /* of a core: less, and somebody else computes too */

double tw_paired(const double *a, const double *b, size_t n)
{
	double ratio[TW_BENCH_ROUNDS];

	for (size_t i = 0; i < n; i++)
		ratio[i] = a[i] / b[i];
	return tw_median(ratio, n);
}

enum tw_status tw_bench_case(json_t *cases, const char *name, double value, const char *unit,
			     double floor, struct tw_error *why)
{
	json_t *row = json_pack("{s:s, s:f, s:s, s:f, s:f}", "name", name, "value", value, "unit",
				unit, "floor", floor, "ratio", floor > 0.0 ? value / floor : 0.0);

	if (!row || json_array_append_new(cases, row))
		return tw_fail(why, TW_NO_MEMORY, "no memory for the cases");
	return TW_OK;
}

enum tw_status tw_bench_paired(json_t *cases, const char *name, double value, const char *unit,
			       double floor, double ratio, json_t *more, struct tw_error *why)
{
	json_t *row = json_pack("{s:s, s:f, s:s, s:n, s:n}", "name", name, "value", value, "unit",
				unit, "floor", "ratio");
	bool failed = !row;

	if (row && floor > 0.0)
		failed = json_object_set_new(row, "floor", json_real(floor)) ||
			 json_object_set_new(row, "ratio", json_real(ratio));
	if (row && more)
		failed = json_object_update(row, more) || failed;
	json_decref(more);
	if (failed)
		json_decref(row);
	if (failed || json_array_append_new(cases, row))
		return tw_fail(why, TW_NO_MEMORY, "no memory for the cases");
	return TW_OK;
}

enum tw_status tw_bench_note(const struct tw_bench_how *how, struct tw_error *why,
			     const char *format, ...)
{
	char text[800];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	if (json_array_append_new(how->notes, json_string(text)))
		return tw_fail(why, TW_NO_MEMORY, "no memory for the notes");
	return TW_OK;
}

enum tw_status tw_bench_share(const struct tw_bench_how *how, json_t *cases, const char *what,
			      double share, struct tw_error *why)
{
	char name[60];
	json_t *c;
	size_t k;

	snprintf(name, sizeof name, "%s_cpu_share", what);
	if (json_object_set_new(how->facts, name, json_real(share)))
		return tw_fail(why, TW_NO_MEMORY, "no memory for the facts");
	if (share >= (how->quiet > 0.0 ? how->quiet : QUIET))
		return TW_OK;
	json_array_foreach(cases, k, c)
	{
		const char *of = json_string_value(json_object_get(c, "name"));

		if (strncmp(of, what, strlen(what)) == 0 && of[strlen(what)] == '-')
			json_object_set_new(c, "ratio", json_null());
	}
	return tw_bench_note(
		how, why,
		"%s: the machine was busy, and the bench got only %.0f %% of a core, so there are "
		"no ratios: measure again when it is idle",
		what, 100.0 * share);
}
