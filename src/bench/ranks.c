/* SPDX-License-Identifier: Apache-2.0 */
/* ranks.c - benches on the ranks of an MPI: all ranks run the same bench, and rank 0 reports. */
#include "bench/ranks.h"

#include "run/run.h"

#define STEPS_MOST 256

enum tw_status tw_bench_ranks(const struct tw_bench_how *how, uint32_t wanted, struct tw_error *why)
{
	if (tw_ranks_count(how->ranks) == wanted)
		return TW_OK;
	return tw_fail(why, TW_BAD_INPUT,
		       "this bench is for %u ranks, and the launcher started %u; use mpirun -n %u",
		       wanted, tw_ranks_count(how->ranks), wanted);
}

enum tw_status tw_bench_ranks_run(const struct tw_bench_how *how, struct tw_job *job,
				  struct tw_engine *engine, struct tw_error *why)
{
	/* what the actors say of their coming and going is no part of a bench */
	const struct tw_log quiet = { .sink = how->log->sink,
				      .arg = how->log->arg,
				      .level = TW_WARNING };
	const struct tw_run_request q = { .log = &quiet, .engine = engine, .ranks = how->ranks };
	json_t *result = NULL;
	enum tw_status status;

	if (!job)
		return tw_ranks_follow_once(how->ranks, engine)
			       ? TW_OK
			       : tw_fail(why, TW_CANCELLED, "rank 0 has ended");
	status = tw_run(&q, job, &result, why);
	json_decref(result);
	return status;
}

double tw_bench_ranks_period(const struct tw_null_engine *idle, size_t warm, size_t steps)
{
	const int64_t *at = idle->at + warm;
	double x[STEPS_MOST];

	if (atomic_load(&idle->calls) < warm + steps || steps > STEPS_MOST)
		return 0.0;
	for (size_t i = 0; i + 1 < steps; i++)
		x[i] = (double)(at[i + 1] - at[i]) / (double)TW_SECOND;
	return tw_median(x, steps - 1);
}
