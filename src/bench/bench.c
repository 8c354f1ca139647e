/* SPDX-License-Identifier: Apache-2.0 */
/* bench.c - the list of benches, and what they share. */
#include "bench/bench.h"

#include "vec/clone.h"

#include <stdlib.h>

/* sim first: its memory case counts what the process held before. */
const struct tw_bench *const tw_bench_all[] = { &tw_bench_sim, &tw_bench_codec, &tw_bench_exchange,
						NULL };

static int ascending(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y ? 1 : 0;
}

double tw_median(double *x, size_t n)
{
	if (!n)
		return 0.0;
	qsort(x, n, sizeof *x, ascending);
	return n % 2 ? x[n / 2] : 0.5 * (x[n / 2 - 1] + x[n / 2]);
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

enum tw_status tw_bench_run(const struct tw_bench *one, const struct tw_log *log, json_t **result,
			    struct tw_error *why)
{
	json_t *cases = json_array();
	enum tw_status status = TW_OK;

	if (!cases)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the cases");
	if (one)
		status = one->run(log, cases, why);
	for (size_t i = 0; !one && tw_bench_all[i] && status == TW_OK; i++)
		status = tw_bench_all[i]->run(log, cases, why);
	if (status == TW_OK) {
		*result = json_pack("{s:s, s:s, s:O}", "version", TW_VERSION, "isa",
				    tw_isa_name(tw_isa()), "cases", cases);
		if (!*result)
			status = tw_fail(why, TW_NO_MEMORY, "no memory for the cases");
	}
	json_decref(cases);
	return status;
}
