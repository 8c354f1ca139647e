/* SPDX-License-Identifier: Apache-2.0 */
/* dry_run.c - an engine of another's size whose gradients are zeros, in the simulator. */
#include "run/dry_run.h"

#include "run/placement.h"
#include "world/memory_store.h"

#include <string.h>

#define YEAR (366 * 86400 * (int64_t)1000000000)

static enum tw_status init(const struct tw_engine *e, size_t from, size_t n, float *out)
{
	memset(out, 0, n * sizeof *out);
	return TW_OK;
}

static enum tw_status gradient(const struct tw_engine *e, void *scratch, const struct tw_inputs *in,
			       float *out, struct tw_score *score)
{
	memset(out, 0, tw_engine_moving(e) * sizeof *out);
	*score = (struct tw_score){ .samples = in->count };
	return TW_OK;
}

static enum tw_status evaluate(const struct tw_engine *e, void *scratch, const struct tw_inputs *in,
			       struct tw_score *score)
{
	*score = (struct tw_score){ .samples = in->count };
	return TW_OK;
}

static enum tw_status run(const struct tw_engine *e, void *scratch, const struct tw_inputs *in,
			  const struct tw_pass *p, float *change, struct tw_score *score)
{
	const struct tw_model_cut *a = &e->cut[p->first];
	const struct tw_model_cut *b = &e->cut[p->last ? p->last : e->cuts - 1];

	*score = (struct tw_score){ 0 };
	if (b == &e->cut[e->cuts - 1] && p->kind != TW_PASS_BACKWARD)
		score->samples = in->count;
	if (p->y)
		memset(p->y, 0, tw_model_cut_floats(b, in->count, false) * sizeof *p->y);
	if (p->dx)
		memset(p->dx, 0, tw_model_cut_floats(a, in->count, true) * sizeof *p->dx);
	if (p->kind == TW_PASS_BACKWARD || p->kind == TW_PASS_GRADIENT)
		memset(change, 0,
		       (b->trainable - a->trainable + b->buffers - a->buffers) * sizeof *change);
	return TW_OK;
}

static const struct tw_engine_class hollow = {
	.name = "hollow",
	.init = init,
	.gradient = gradient,
	.evaluate = evaluate,
	.run = run,
};

enum tw_status tw_dry_run(const struct tw_job *job, const struct tw_engine *engine, double *seconds,
			  struct tw_error *why)
{
	const struct tw_plan *p = &job->plan;
	const struct tw_log quiet = { .sink = NULL };
	struct tw_engine zeros = *engine;
	struct tw_placement cast;
	struct tw_store *store = tw_memory_store_new(&tw_heap_system);
	struct tw_ran ran = { 0 };
	enum tw_status st = store ? tw_placement_init(&cast, p, false) : TW_NO_MEMORY;

	if (st != TW_OK) {
		tw_memory_store_free(store);
		return tw_fail(why, st, "no memory for a run in the simulator");
	}
	zeros.class = &hollow;
	tw_sim_run(&(struct tw_cluster){ .seat = cast.seat,
					 .seats = cast.seats,
					 .nodes = tw_placement_nodes(p),
					 .cells = tw_plan_cells(p),
					 .seed = p->seed,
					 .engine = &zeros,
					 .store = store,
					 .heap = &tw_heap_system,
					 .log = &quiet },
		   &job->sim, job->fault, job->faults, NULL, YEAR, &ran);
	st = ran.error.status;
	*seconds = (double)ran.virtual_ns * 1e-9;
	tw_totals_release(&ran.totals);
	tw_placement_release(&cast);
	tw_memory_store_free(store);
	return st == TW_OK ? TW_OK : tw_fail(why, st, "%s", ran.error.text);
}
