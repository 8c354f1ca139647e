/* SPDX-License-Identifier: Apache-2.0 */
/* ranks.c - benches on the ranks of an MPI: all ranks run the same bench, and rank 0 reports. */
#include "bench/harness/ranks.h"

#include "run/run.h"

enum tw_status tw_bench_ranks(const struct tw_bench_how *how, uint32_t wanted, struct tw_error *why)
{
	if (tw_ranks_count(how->ranks) == wanted)
		return TW_OK;
	return tw_fail(why, TW_BAD_INPUT,
		       "this bench is for %u ranks, and the launcher started %u; use mpirun -n %u",
		       wanted, tw_ranks_count(how->ranks), wanted);
}

/* The job, which only rank 0 has (NULL elsewhere), with this engine on all ranks. */
static enum tw_status run(const struct tw_bench_how *how, struct tw_job *job,
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

enum tw_status tw_bench_ranks_null(const struct tw_bench_how *how, const struct tw_null_job *q,
				   size_t warm, double *period, struct tw_error *why)
{
	struct tw_null_engine *idle = tw_heap_zeros(&tw_heap_system, sizeof *idle);
	struct tw_job *job = NULL;
	enum tw_status status = TW_OK;

	if (!idle)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the engine");
	tw_null_engine_init(idle, q->parameters, (uint64_t)q->steps * q->workers);
	if (!tw_ranks_rank(how->ranks))
		status = tw_null_job_read(q, TW_WORLD_MPI, &job, why);
	if (status == TW_OK)
		status = run(how, job, &idle->engine, why);
	if (status == TW_OK)
		*period = tw_null_engine_period(idle, 1, warm, q->steps);
	tw_job_free(job);
	tw_heap_system.put(&tw_heap_system, idle);
	return status;
}
