/* SPDX-License-Identifier: Apache-2.0 */
/* counts.c - how many samples a gradient has, and how many contributions an update. */
#include "spec/field.h"

#define COLLECTS_MOST ((uint32_t)1 << 20) /* no gate waits for more contributions */

uint32_t tw_job_batch(const struct tw_job *job)
{
	const uint32_t n = job->cluster.workers;

	if (!job->data.global_batch)
		return job->data.batch;
	return (uint32_t)(((uint64_t)job->data.global_batch + n - 1) / n);
}

uint32_t tw_job_most_batch(const struct tw_job *job)
{
	const uint32_t live = job->cluster.min ? job->cluster.min : 1;

	if (!job->data.global_batch)
		return job->data.batch;
	return (uint32_t)(((uint64_t)job->data.global_batch + live - 1) / live);
}

/* `count` contributions of workers that are equally quick. */
static struct tw_collected evenly(uint32_t count, uint32_t workers)
{
	const uint32_t each = count / workers, more = count % workers;

	return (struct tw_collected){
		.count = count,
		.workers = count < workers ? count : workers,
		.missing = count < workers ? workers - count : 0,
		.inverse = (double)more / (each + 1) + (each ? (double)(workers - more) / each : 0),
	};
}

uint32_t tw_job_collects(const struct tw_job *job)
{
	const struct tw_plan *p = &job->plan;
	const uint32_t workers = job->cluster.workers;
	const bool several = tw_gate_keeps(p->gate, p->gate_options) != TW_KEEP_EACH;
	const uint32_t most = several ? COLLECTS_MOST : workers;
	struct tw_collected kept = evenly(1, workers);

	if (p->gate->traits & TW_GATE_ROUNDS)
		return tw_gate_quorum(p->gate, p->gate_options, workers, 0);
	if (!(p->gate->traits & TW_GATE_COLLECTS) || !p->gate->full)
		return 1;
	while (kept.count < most && !p->gate->full(p->gate_options, &kept))
		kept = evenly(kept.count + 1, workers);
	return kept.count;
}
