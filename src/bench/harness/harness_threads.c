/* SPDX-License-Identifier: Apache-2.0 */
/* harness_threads.c - a job through the real actors in threads, with an engine and a heap of the
 * bench's. */
#include "bench/harness/harness_threads.h"

#include "run/placement.h"
#include "strategy/gate.h"
#include "world/memory_store.h"
#include "world/threads/threads.h"

#include <string.h>

static enum tw_status run(struct tw_job *job, struct tw_engine *engine, struct tw_heap *heap,
			  const struct tw_log *log, struct tw_error *why)
{
	const struct tw_threads_options options = {
		.lockfree = (job->plan.gate->traits & TW_GATE_LOCKFREE) != 0,
	};
	struct tw_store *store = tw_memory_store_new(heap);
	struct tw_placement cast = { .seat = NULL };
	struct tw_ran ran;
	struct tw_cluster cluster = {
		.nodes = tw_placement_nodes(&job->plan),
		.seed = job->plan.seed,
		.engine = engine,
		.store = store,
		.heap = heap,
		.log = log,
	};
	enum tw_status status;

	if (!store || tw_placement_init(&cast, &job->plan, false) != TW_OK) {
		tw_memory_store_free(store);
		return tw_fail(why, TW_NO_MEMORY, "no memory for the actors");
	}
	cluster.seat = cast.seat;
	cluster.seats = cast.seats;
	memset(&ran, 0, sizeof ran);
	status = tw_threads_run(&cluster, &options, &ran);
	if (status != TW_OK)
		tw_fail(why, status, "the actors failed: %s", ran.error.text);
	tw_totals_release(&ran.totals);
	tw_placement_release(&cast);
	tw_memory_store_free(store);
	return status;
}

enum tw_status tw_harness_threads_run(struct tw_job *job, struct tw_engine *engine,
				      struct tw_heap *heap, const struct tw_log *log,
				      struct tw_error *why)
{
	const enum tw_status status = tw_job_finish_plan(job, engine, why);

	return status == TW_OK ? run(job, engine, heap, log, why) : status;
}
