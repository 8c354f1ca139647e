/* SPDX-License-Identifier: Apache-2.0 */
/* bench.c - the list of benches, and running them. */
#include "bench/bench.h"

#include "base/machine/isa.h"

/* sim and growth first: they measure memory, and count what the process held before. */
const struct tw_bench *const tw_bench_all[] = {
	&tw_bench_sim,       &tw_bench_growth,   &tw_bench_codec,     &tw_bench_exchange,
	&tw_bench_compute,   &tw_bench_scale,    &tw_bench_allreduce, &tw_bench_connections,
	&tw_bench_optimiser, &tw_bench_pipeline, &tw_bench_session,   NULL
};

static enum tw_status run_some(const struct tw_bench *one, const struct tw_bench_how *how,
			       json_t *cases, struct tw_error *why)
{
	enum tw_status status = TW_OK;

	if (one)
		return one->run(how, cases, why);
	for (size_t i = 0; tw_bench_all[i] && status == TW_OK; i++)
		status = tw_bench_all[i]->run(how, cases, why);
	return status;
}

enum tw_status tw_bench_run(const struct tw_bench *one, const struct tw_bench_how *how,
			    json_t **result, struct tw_error *why)
{
	json_t *all = json_pack("{s:s, s:s, s:[], s:[]}", "version", TW_VERSION, "isa",
				tw_isa_name(tw_isa()), "cases", "notes");
	struct tw_bench_how mine = *how;
	enum tw_status status;

	if (!all)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the cases");
	mine.facts = all;
	mine.notes = json_object_get(all, "notes");
	if (mine.rounds > TW_BENCH_ROUNDS)
		mine.rounds = TW_BENCH_ROUNDS;
	status = run_some(one, &mine, json_object_get(all, "cases"), why);
	if (status == TW_OK)
		*result = all;
	else
		json_decref(all);
	return status;
}
