/* SPDX-License-Identifier: Apache-2.0 */
/* memory_check.c - what a process cannot do without, against what it may use. */
#include "run/memory_check.h"

#include "base/machine/memory_room.h"
#include "node/plan.h"
#include "spec/help/suggest.h"

#include <stdio.h>

/* Bytes that are needed for sure. */
struct need {
	uint64_t shards;  /* parameters, the version after them, arrays of rule and policy */
	uint64_t workers; /* parameters that came, gradients, what computations need */
};

static uint64_t bytes_of(size_t floats)
{
	return (uint64_t)floats * sizeof(float);
}

/* An update is made beside the version that workers read, unless they write it themselves or what
 * comes is sparse. */
static uint64_t shards_need(const struct tw_plan *p, size_t floats)
{
	const bool in_place = (p->gate->traits & TW_GATE_LOCKFREE) || p->traffic.up->add;

	return bytes_of(floats) * (tw_plan_part_arrays(p) + !in_place);
}

/* `apart`: it does not read the parameters where the shards have them. */
static uint64_t worker_need(const struct tw_plan *p, size_t floats, uint64_t scratch, bool apart)
{
	const bool sums = p->dealing.accumulate > 1;

	return bytes_of(floats) * (1 + sums + apart) + scratch;
}

static size_t all_floats(const struct tw_plan *p)
{
	return p->problem.trainable + p->problem.buffers;
}

static const struct tw_stage *stage_at(const struct tw_plan *p, uint32_t place)
{
	return &p->staging.stage[tw_plan_stage_of(p, place % tw_plan_cells(p))];
}

static uint64_t stage_need(const struct tw_plan *p, uint32_t place, bool apart)
{
	const struct tw_stage *s = stage_at(p, place);

	return worker_need(p, s->floats, s->scratch + s->stash * s->keeps.depth, apart);
}

/* Of one worker, or of all cells of one. */
static uint64_t whole_worker(const struct tw_plan *p, const struct tw_engine *e, bool apart)
{
	uint64_t sum = 0;

	if (!tw_plan_is_staged(p))
		return worker_need(p, all_floats(p), e->scratch_bytes, apart);
	for (uint32_t k = 0; k < tw_plan_cells(p); k++)
		sum += stage_need(p, k, apart);
	return sum;
}

static struct need of_cell(const struct tw_plan *p, uint32_t place)
{
	const bool holds = tw_plan_is_with_stage(p);
	const size_t floats = stage_at(p, place)->floats;

	return (struct need){ holds ? shards_need(p, floats) : 0, stage_need(p, place, !holds) };
}

static struct need of_any_cell(const struct tw_plan *p, uint32_t place)
{
	struct need least = of_cell(p, place == UINT32_MAX ? 0 : place);

	for (uint32_t k = 1; place == UINT32_MAX && k < tw_plan_cells(p); k++) {
		const struct need one = of_cell(p, k);

		if (one.shards + one.workers < least.shards + least.workers)
			least = one;
	}
	return least;
}

static struct need of_part(const struct tw_plan *p, const struct tw_engine *e,
			   enum tw_memory_part part, uint32_t place)
{
	const uint64_t all = shards_need(p, all_floats(p));
	const bool replicas = tw_plan_has_peers(p);

	switch (part) {
	case TW_MEMORY_ALL:
		return (struct need){ replicas ? all * p->crew.workers : all,
				      p->crew.workers * whole_worker(p, e, false) };
	case TW_MEMORY_WORKER:
		return tw_plan_is_staged(p)
			       ? of_any_cell(p, place)
			       : (struct need){ replicas ? all : 0, whole_worker(p, e, !replicas) };
	default:
		return (struct need){ p->crew.servers ? all / p->crew.servers : 0, 0 };
	}
}

/* "1.3 GiB". */
static const char *shown(uint64_t bytes, char out[32])
{
	const double mib = (double)bytes / (1 << 20);

	if (mib < 1024)
		snprintf(out, 32, "%.0f MiB", mib);
	else
		snprintf(out, 32, "%.1f GiB", mib / 1024);
	return out;
}

/* What would help. */
static const char *remedy(const struct tw_plan *p, enum tw_memory_part part)
{
	if (part == TW_MEMORY_ALL)
		return "cut the model into stages and give each a process of its own "
		       "(--processes, or serve and join), with strategy: {pipeline: [flushing "
		       "pipeline]}, cluster: {stages: 4, place: with-stage}";
	if (part == TW_MEMORY_MASTER || part == TW_MEMORY_SERVER)
		return tw_plan_is_staged(p) ? "use cluster: {place: with-stage}, or more servers"
					    : "use more servers";
	return tw_plan_is_staged(p) ? "use more stages" : "cut the model into stages";
}

enum tw_status tw_memory_check(const struct tw_job *job, const struct tw_engine *engine,
			       enum tw_memory_part part, uint32_t place, struct tw_error *why)
{
	const struct tw_plan *p = &job->plan;
	const struct need n = of_part(p, engine, part, place);
	const struct tw_memory_room room = tw_memory_room();
	char all[32], shards[32], workers[32], left[32], text[400];

	if (n.shards + n.workers <= room.bytes)
		return TW_OK;
	return tw_fail(why, TW_BAD_INPUT,
		       "%s: this process needs at least %s of memory (%s for parameters and their "
		       "next version, %s for computing), and %s leaves it %s; %s",
		       job->file, shown(n.shards + n.workers, all), shown(n.shards, shards),
		       shown(n.workers, workers), room.by, shown(room.bytes, left),
		       tw_suggest(job, remedy(p, part), text, sizeof text));
}
