/* SPDX-License-Identifier: Apache-2.0 */
/* stage_plan.c - the stages of a plan: cuts, shards, what each computes and keeps.
 *
 *  (1) a shard belongs to one stage: the borders of stages are borders of shards, among trainable
 *      parameters as among buffers.
 *  (2) model.stages lists one layer less than there are stages. */
#include "spec/stages.h"

#include "engine/stages.h"
#include "spec/field.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A run of the vector that belongs to one stage. */
struct piece {
	size_t from, to;
	uint32_t stage, shards;
};

/* --- cuts --------------------------------------------------------------------------------- */

static enum tw_status too_many(const struct tw_job *job, const struct tw_engine *e,
			       struct tw_error *why)
{
	return tw_job_refuse(job, why, "cluster.stages",
			     "%u stages do not fit this model, which can be cut in %zu places; use "
			     "at most %zu",
			     job->plan.staging.stages, e->cuts - 2, e->cuts - 1);
}

/* Elements between two cuts. */
static size_t between(const struct tw_engine *e, size_t a, size_t b)
{
	return e->cut[b].trainable - e->cut[a].trainable + e->cut[b].buffers - e->cut[a].buffers;
}

/* The layers of "[3, 7]" as texts; `stages` was counted from them. */
static enum tw_status listed_cuts(struct tw_job *job, const struct tw_engine *e, uint32_t *cut,
				  struct tw_error *why)
{
	const uint32_t count = job->plan.staging.stages - 1;
	const char **after = tw_arena_get(&job->arena, (count + 1) * sizeof *after);
	char *text = tw_arena_text(&job->arena, job->network.stages), *rest;
	struct tw_error inner = { 0 };

	if (!after || !text)
		return tw_fail(why, TW_NO_MEMORY, "%s: no memory for its stages", job->file);
	for (uint32_t k = 0; k < count; k++, text = NULL) {
		after[k] = strtok_r(text, "[], ", &rest);
		HOLDS(2, after[k]);
	}
	if (tw_stages_find(e, after, count, cut + 1, &inner) != TW_OK)
		return tw_job_refuse(job, why, "model.stages", "%s", inner.text);
	return TW_OK;
}

/* The speed of the slowest machine of each stage, where the machines of all workers are listed. */
static void find_speeds(const struct tw_job *job, double *speed)
{
	const struct tw_staging *s = &job->plan.staging;
	const struct tw_machines *m = &job->sim.machines;
	const bool listed = job->world == TW_WORLD_SIM && m->count &&
			    m->count == job->cluster.workers * s->cells;

	for (uint32_t k = 0; k < s->stages; k++)
		speed[k] = listed ? INFINITY : 1;
	for (uint32_t c = 0; listed && c < m->count; c++) {
		const uint32_t k = tw_plan_stage_of(&job->plan, c % s->cells);

		speed[k] = fmin(speed[k], m->at[c].speed);
	}
}

/* Stages that take equally long, each with parameters. */
static enum tw_status balance(struct tw_job *job, const struct tw_engine *e, uint32_t *cut,
			      struct tw_error *why)
{
	const uint32_t stages = job->plan.staging.stages;
	double *compute = tw_arena_get(&job->arena, 2 * e->cuts * sizeof *compute);
	bool *counts = tw_arena_get(&job->arena, e->cuts * sizeof *counts);
	double speed[64];
	const struct tw_stage_costs costs = { .compute = compute,
					      .lanes = job->plan.staging.lanes,
					      .speed = speed,
					      .cross = compute ? compute + e->cuts : NULL,
					      .counts = counts,
					      .parts = e->cuts - 1 };
	enum tw_status st = TW_NO_MEMORY;

	find_speeds(job, speed);
	if (compute && counts) {
		tw_stages_flops(e, compute, compute + e->cuts, counts);
		st = tw_stages_balance(job->arena.heap, &costs, stages, cut + 1);
	}
	if (st == TW_NO_MEMORY)
		return tw_fail(why, TW_NO_MEMORY, "%s: no memory for its stages", job->file);
	if (st == TW_OK)
		return TW_OK;
	return tw_job_refuse(job, why, "cluster.stages",
			     "%u stages do not fit this model, because every stage needs "
			     "parameters; use fewer",
			     stages);
}

/* What `auto` has become. */
static enum tw_status tell_cuts(struct tw_job *job, const struct tw_engine *e, const uint32_t *cut,
				struct tw_error *why)
{
	char text[64 * (TW_MODEL_CUT_NAME + 2) + 4];
	size_t at = 0;

	if (job->model != TW_MODEL_NETWORK)
		return TW_OK;
	text[0] = '\0';
	for (uint32_t k = 1; k < job->plan.staging.stages; k++)
		at += (size_t)snprintf(text + at, sizeof text - at, "%s%s", k > 1 ? ", " : "[",
				       e->cut[cut[k]].after);
	if (!at)
		return TW_OK;
	snprintf(text + at, sizeof text - at, "]");
	job->network.stages = tw_arena_text(&job->arena, text);
	return job->network.stages
		       ? TW_OK
		       : tw_fail(why, TW_NO_MEMORY, "%s: no memory for its stages", job->file);
}

static enum tw_status find_cuts(struct tw_job *job, const struct tw_engine *e, uint32_t *cut,
				struct tw_error *why)
{
	const uint32_t stages = job->plan.staging.stages;
	const bool automatic =
		job->model != TW_MODEL_NETWORK || strcmp(job->network.stages, "auto") == 0;
	enum tw_status st;

	if (!e->cuts)
		return tw_job_refuse(job, why, "strategy.pipeline.schedule",
				     "this model cannot be cut into stages");
	if (stages > e->cuts - 1)
		return too_many(job, e, why);
	cut[0] = 0;
	cut[stages] = (uint32_t)e->cuts - 1;
	st = automatic ? balance(job, e, cut, why) : listed_cuts(job, e, cut, why);
	for (uint32_t k = 0; st == TW_OK && k < stages; k++)
		if (!between(e, cut[k], cut[k + 1]))
			return tw_job_refuse(job, why, "model.stages",
					     "stage %u would have no parameters; cut elsewhere", k);
	return st == TW_OK ? tell_cuts(job, e, cut, why) : st;
}

/* --- shards ------------------------------------------------------------------------------- */

/* The runs of the vector in order: trainable ones of all stages, then buffers; (1). */
static uint32_t pieces_of(const struct tw_job *job, const struct tw_engine *e, const uint32_t *cut,
			  struct piece *out)
{
	uint32_t count = 0;

	for (int buffers = 0; buffers < 2; buffers++)
		for (uint32_t s = 0; s < job->plan.staging.stages; s++) {
			const struct tw_model_cut *a = &e->cut[cut[s]], *b = &e->cut[cut[s + 1]];
			const size_t from = buffers ? a->buffers : a->trainable;
			const size_t to = buffers ? b->buffers : b->trainable;

			if (to > from)
				out[count++] = (struct piece){ from, to, s, 1 };
		}
	return count;
}

/* `more` shards beyond one for each piece go where shards are longest. */
static void spread(struct piece *piece, uint32_t count, uint32_t more)
{
	while (more--) {
		struct piece *longest = piece;

		for (uint32_t k = 1; k < count; k++)
			if ((piece[k].to - piece[k].from) / piece[k].shards >
			    (longest->to - longest->from) / longest->shards)
				longest = &piece[k];
		if ((longest->to - longest->from) / longest->shards < 2)
			return;
		longest->shards++;
	}
}

/* The borders of a piece's shards, at its tensors where they are near. */
static enum tw_status cut_piece(const struct tw_engine *e, const struct piece *p, size_t *border)
{
	size_t first = 0, last, *tensor;

	while (e->tensor[first] < p->from)
		first++;
	for (last = first; e->tensor[last] < p->to; last++)
		;
	tensor = malloc((last - first + 1) * sizeof *tensor);
	if (!tensor)
		return TW_NO_MEMORY;
	for (size_t k = first; k <= last; k++)
		tensor[k - first] = e->tensor[k] - p->from;
	tw_job_borders(tensor, last - first, p->shards, border);
	for (uint32_t k = 0; k <= p->shards; k++)
		border[k] += p->from;
	free(tensor);
	return TW_OK;
}

static enum tw_status cut_shards(struct tw_job *job, const struct tw_engine *e,
				 const struct piece *piece, uint32_t pieces, uint32_t *stage_of,
				 struct tw_error *why)
{
	struct tw_plan *p = &job->plan;
	size_t *border = tw_arena_get(&job->arena, (p->problem.shards + 1) * sizeof *border);
	uint32_t at = 0;

	for (uint32_t k = 0; border && k < pieces; k++) {
		if (cut_piece(e, &piece[k], border + at) != TW_OK)
			border = NULL;
		for (uint32_t i = 0; i < piece[k].shards; i++)
			stage_of[at++] = piece[k].stage;
	}
	p->problem.border = border;
	return border ? TW_OK : tw_fail(why, TW_NO_MEMORY, "%s: no memory for the plan", job->file);
}

static enum tw_status plan_shards(struct tw_job *job, const struct tw_engine *e,
				  const uint32_t *cut, struct tw_error *why)
{
	struct tw_plan *p = &job->plan;
	struct piece piece[2 * 64];
	const uint32_t pieces = pieces_of(job, e, cut, piece);
	const uint32_t usual = tw_job_usual_shards(job, e->trainable + e->buffers);
	const uint32_t wanted = job->cluster.shards ? job->cluster.shards
				: usual > pieces    ? usual
						    : pieces;
	uint32_t *stage_of, shards = 0;

	if (wanted < pieces)
		return tw_job_refuse(job, why, "cluster.shards",
				     "%u shards are too few: a shard belongs to one stage, and "
				     "parameters and running statistics of %u stages are %u "
				     "ranges; use at least %u",
				     wanted, p->staging.stages, pieces, pieces);
	spread(piece, pieces, wanted - pieces);
	for (uint32_t k = 0; k < pieces; k++)
		shards += piece[k].shards;
	if (job->cluster.shards && shards != wanted)
		return tw_job_refuse(job, why, "cluster.shards",
				     "%u shards do not fit a model of %zu parameters; use %u to "
				     "%u",
				     wanted, e->trainable + e->buffers, pieces, shards);
	p->problem.shards = shards;
	p->staging.stage_of = stage_of = tw_arena_get(&job->arena, shards * sizeof *stage_of);
	if (!stage_of)
		return tw_fail(why, TW_NO_MEMORY, "%s: no memory for the plan", job->file);
	return cut_shards(job, e, piece, pieces, stage_of, why);
}

/* --- stages ------------------------------------------------------------------------------- */

/* Bytes of so many floats between stages. */
static size_t coded(const struct tw_plan *p, size_t floats)
{
	return floats ? p->traffic.act->bound(p->traffic.act_options, floats) : 0;
}

/* What the lanes of a stage keep, each at most. */
static struct tw_pipe_keeps keeps_of(const struct tw_staging *p, const struct tw_pipe_shape *shape,
				     uint32_t first, uint32_t lanes)
{
	struct tw_pipe_keeps all = { 0 };

	for (uint32_t k = 0; k < lanes; k++) {
		const struct tw_pipe_keeps one =
			tw_pipeline_keeps(p->schedule, p->options, shape, first + k);

		all.depth = one.depth > all.depth ? one.depth : all.depth;
		all.versions = one.versions > all.versions ? one.versions : all.versions;
		all.late = one.late > all.late ? one.late : all.late;
		all.own = one.own > all.own ? one.own : all.own;
		all.mismatch = one.mismatch > all.mismatch ? one.mismatch : all.mismatch;
	}
	return all;
}

/* Shares of a step that forward and backward of a stage take: sim.compute.stages, or by operations.
 */
static enum tw_status find_shares(struct tw_job *job, double part, struct tw_stage *stage,
				  uint32_t s, struct tw_error *why)
{
	const struct tw_f64s *given = &job->sim.stages;
	const uint32_t stages = job->plan.staging.stages;
	double all = 0;

	stage->forward = part / (1 + job->sim.backward);
	stage->backward = stage->forward * job->sim.backward;
	for (size_t k = 0; k < given->count; k++)
		all += given->at[k];
	if (given->count && (given->count != 2 * (size_t)stages || !(all > 0)))
		return tw_job_refuse(job, why, "sim.compute.stages",
				     "has %zu numbers%s for %u stages; give the forward and the "
				     "backward of each, %u numbers that are not all 0",
				     given->count, all > 0 ? "" : " with the sum 0", stages,
				     2 * stages);
	if (given->count) {
		stage->forward = given->at[2 * s] / all;
		stage->backward = given->at[2 * s + 1] / all;
	}
	stage->backward += job->strategy.recompute ? stage->forward : 0;
	return TW_OK;
}

static enum tw_status plan_stage(struct tw_job *job, const struct tw_engine *e, const uint32_t *cut,
				 uint32_t s, struct tw_stage *out, struct tw_error *why)
{
	const struct tw_plan *p = &job->plan;
	const struct tw_pipe_shape shape = tw_plan_pipe_shape(p);
	const struct tw_model_cut *a = &e->cut[cut[s]], *b = &e->cut[cut[s + 1]];
	const double all = e->cut[e->cuts - 1].flops, part = (b->flops - a->flops) / all;
	const uint32_t usual = tw_job_batch(job), most = tw_job_most_batch(job);
	const uint32_t batch = most < p->problem.samples ? most : (uint32_t)p->problem.samples;
	struct tw_needs needs = { 0 };
	uint32_t *shard = tw_arena_get(&job->arena, p->problem.shards * sizeof *shard);

	if (!shard)
		return tw_fail(why, TW_NO_MEMORY, "%s: no memory for the plan", job->file);
	*out = (struct tw_stage){
		.first = cut[s],
		.last = cut[s + 1],
		.shard = shard,
		.in = a,
		.out = b,
		.sends = s + 1 < shape.stages ? tw_model_cut_floats(b, batch, false) : 0,
		.returns = s ? tw_model_cut_floats(a, batch, true) : 0,
		.cell = tw_pipe_first_cell(&shape, s),
		.lanes = tw_pipe_lanes(&shape, s),
	};
	out->keeps = keeps_of(&p->staging, &shape, out->cell, out->lanes);
	out->batch = batch;
	out->send_bytes = out->sends ? coded(p, tw_model_cut_floats(b, usual, false)) : 0;
	out->return_bytes = out->returns ? coded(p, tw_model_cut_floats(a, usual, true)) : 0;
	if (find_shares(job, all > 0 ? part : 1.0 / shape.stages, out, s, why) != TW_OK)
		return TW_BAD_INPUT;
	for (uint32_t k = 0; k < p->problem.shards; k++)
		if (p->staging.stage_of[k] == s) {
			shard[out->shards++] = k;
			out->floats += p->problem.border[k + 1] - p->problem.border[k];
		}
	if (e->class->needs(e, out->first, out->last, batch, &needs) != TW_OK)
		return tw_fail(why, TW_NO_MEMORY, "%s: no memory to prepare stage %u of the model",
			       job->file, s);
	out->scratch = needs.scratch;
	out->stash = job->strategy.recompute ? 0 : needs.stash;
	return TW_OK;
}

enum tw_status tw_job_plan_stages(struct tw_job *job, const struct tw_engine *engine,
				  struct tw_error *why)
{
	struct tw_staging *s = &job->plan.staging;
	uint32_t cut[64 + 1];
	struct tw_stage *stage;
	enum tw_status st = find_cuts(job, engine, cut, why);

	if (st == TW_OK)
		st = plan_shards(job, engine, cut, why);
	stage = tw_arena_get(&job->arena, s->stages * sizeof *stage);
	if (st == TW_OK && !stage)
		st = tw_fail(why, TW_NO_MEMORY, "%s: no memory for the plan", job->file);
	for (uint32_t k = 0; st == TW_OK && k < s->stages; k++)
		st = plan_stage(job, engine, cut, k, &stage[k], why);
	s->stage = stage;
	return st;
}
