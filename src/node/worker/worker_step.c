/* SPDX-License-Identifier: Apache-2.0 */
/* worker_step.c - a worker's computation: what it reads, when it starts, and what comes of its
 * result.
 *
 *	compute → clip → [local rule step] → [decay] → a contribution (worker_contribution.c)
 *
 *  (1) a computation reads views that it holds itself, so an answer that comes meanwhile tears
 *      nothing.
 *  (2) it is abandoned, not forgotten: `computed` comes in any case, and only then may the next one
 *      start. */
#include "node/duty/eval/eval.h"
#include "node/duty/figures/figures.h"
#include "node/duty/online/online.h"
#include "node/duty/samples/samples.h"
#include "node/worker/worker.h"
#include "vec/vec.h"

#include <math.h>

static void *zeros(struct worker *w, size_t bytes)
{
	return tw_heap_zeros(w->heap, bytes ? bytes : 1);
}

enum tw_status tw_step_open(struct worker *w)
{
	const size_t holders = w->exchange.holders;
	const size_t depth = w->plan->delay.steps ? tw_plan_memory(w->plan) : 0;
	struct past *past;

	w->step.piece = zeros(w, holders * sizeof *w->step.piece);
	w->shard = zeros(w, holders * sizeof *w->shard);
	w->step.pool = tw_pool_new(w->heap, tw_worker_total(w) * sizeof(float));
	if (!w->step.piece || !w->shard || !w->step.pool)
		return TW_NO_MEMORY;
	if (!depth)
		return TW_OK;
	past = zeros(w, holders * depth * sizeof *past);
	for (size_t k = 0; past && k < holders; k++)
		w->shard[k].past = past + k * depth;
	return past ? TW_OK : TW_NO_MEMORY;
}

static void drop_views(struct worker *w)
{
	for (uint32_t k = 0; k < w->exchange.holders; k++) {
		tw_block_drop(w->shard[k].using);
		w->shard[k].using = NULL;
	}
}

void tw_step_forget_past(struct worker *w)
{
	for (uint32_t k = 0; k < w->exchange.holders; k++)
		for (uint32_t i = 0; i < w->step.pasts; i++) {
			tw_block_drop(w->shard[k].past[i].view);
			w->shard[k].past[i].view = NULL;
		}
	w->step.pasts = 0;
}

void tw_step_close(struct worker *w)
{
	if (w->shard && w->exchange.holders) {
		drop_views(w);
		tw_step_forget_past(w);
		w->heap->put(w->heap, w->shard[0].past);
	}
	tw_block_drop(w->step.gradient);
	tw_block_drop(w->step.compute.lent);
	w->heap->put(w->heap, w->step.piece);
	w->heap->put(w->heap, w->shard);
	tw_pool_free(w->step.pool);
}

void tw_step_abandon(struct worker *w, struct tw_context *ctx)
{
	if (w->step.state == STEP_IDLE)
		return;
	w->step.state = STEP_ABANDONED;
	ctx->world->cancel(ctx, &w->step.compute);
}

/* --- starting ----------------------------------------------------------------------------- */

/* How many versions back this step computes (sim.delay). */
static uint32_t delay_for(const struct worker *w, uint64_t position)
{
	const struct tw_plan *p = w->plan;
	const struct tw_rng rng = tw_rng_make(p->seed, TW_RNG_SKIP);
	const double u = tw_rng_uniform(&rng, UINT64_MAX, position);
	const double progress = (double)position / (double)p->problem.samples;
	double mean = p->delay.steps, d;

	if (p->delay.ramp > 0 && progress < p->delay.ramp)
		mean *= progress / p->delay.ramp;
	switch (p->delay.law) {
	case TW_DELAY_UNIFORM:
		d = floor(u * (2 * mean + 1));
		break;
	case TW_DELAY_GEOMETRIC:
		d = mean > 0 ? floor(log(u) / log(mean / (mean + 1))) : 0;
		break;
	default:
		d = floor(mean);
	}
	return d < w->step.pasts - 1 ? (uint32_t)d : w->step.pasts - 1;
}

/* (1) */
static void look(struct worker *w, uint32_t k, uint64_t position)
{
	const struct holder *h = &w->exchange.holder[k];
	struct worker_shard *s = &w->shard[k];

	/* with an own copy, answers that came before others do not count yet */
	s->base = w->plan->traffic.overlap && w->kept.parameters ? s->merged : h->seen;
	s->using = tw_block_keep(h->view);
	if (w->plan->delay.steps) {
		const struct past *then = &s->past[delay_for(w, position)];

		tw_block_drop(s->using);
		s->using = tw_block_keep(then->view);
		s->base.version = then->version;
	}
	w->step.piece[k] =
		(struct tw_piece){ tw_block_floats(s->using), h->range.from, h->range.n };
}

bool tw_step_take_gradient(struct worker *w)
{
	struct tw_block *g = w->step.gradient;

	if (g && atomic_load_explicit(&g->refs, memory_order_acquire) == 1)
		return true;
	tw_block_drop(g);
	w->step.gradient = tw_pool_take(w->step.pool);
	return w->step.gradient;
}

void tw_step_start(struct worker *w, struct tw_context *ctx, struct held *lease)
{
	uint64_t at;
	const uint32_t count = tw_worker_next_step(w, lease, &at);
	const float *local = w->kept.shown ? w->kept.shown : w->kept.parameters;
	struct worker_step *s = &w->step;

	tw_kept_take_back(w);
	if (tw_worker_rounds(w) && lease->next == lease->from) {
		tw_worker_forget_group(&w->building);
		w->building.summed = 0;
	}
	if (!tw_step_take_gradient(w)) {
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for a gradient of %zu parameters",
			   tw_worker_total(w));
		return;
	}
	for (uint32_t k = 0; k < w->exchange.holders; k++)
		look(w, k, lease->next);
	if (local)
		s->piece[0] = (struct tw_piece){ local, 0, tw_worker_total(w) };
	s->compute = (struct tw_compute){ .in = { .from = at,
						  .count = count,
						  .piece = s->piece,
						  .pieces = local ? 1 : w->exchange.holders,
						  .given = tw_samples_worker_take(w, at, count),
						  .about = tw_worker_about(w, ctx) },
					  .gradient = tw_block_floats(s->gradient),
					  .epoch_position = lease->next,
					  .id = lease->id,
					  .again = s->again };
	if (tw_worker_deltas(w))
		s->compute.in.about.applied = tw_kept_progress(w, lease->next);
	s->compute.in.cancel = &s->compute.cancel;
	s->state = STEP_COMPUTING;
	if (w->plan->traffic.adaptive)
		s->began = tw_now(ctx);
	tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_STEP,
					.slot = w->me.id.slot,
					.incarnation = w->me.id.incarnation,
					.step.clock = w->exchange.seq,
					.from = lease->next,
					.count = count });
	ctx->world->compute(ctx, &s->compute);
}

/* --- finished ----------------------------------------------------------------------------- */

static void clip(struct worker *w, float *g)
{
	const double norm = sqrt(tw_vec_square(g, w->plan->problem.trainable));

	if (norm > w->plan->clip)
		tw_vec_scale(g, (float)(w->plan->clip / norm), w->plan->problem.trainable);
}

void tw_step_count(struct worker *w, struct tw_context *ctx, uint64_t from, uint32_t count,
		   double loss)
{
	w->steps++;
	w->samples += count;
	w->losses += count;
	w->loss += loss;
	tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_GRADIENT,
					.slot = w->me.id.slot,
					.count = count,
					.from = from,
					.step.loss = loss });
}

/* The gradient as it was computed becomes what contributions are made of; the views that it is of
 * are given back. */
static void finish_gradient(struct worker *w, float *g)
{
	const struct tw_plan *p = w->plan;

	if (p->clip > 0)
		clip(w, g);
	if (w->kept.momentum && p->decay != 0.0f && !(p->near.rule->traits & TW_RULE_OWN_DECAY))
		tw_kept_decay(w, g);
	drop_views(w);
}

/* Somebody outside has it in memory of his own. */
static void take_lent(struct worker_step *s)
{
	if (!s->compute.lent)
		return;
	tw_block_drop(s->gradient);
	s->gradient = s->compute.lent;
	s->compute.lent = NULL;
}

void tw_step_made(struct worker *w, struct tw_context *ctx)
{
	const struct tw_compute *c = &w->step.compute;
	struct held *h = tw_worker_held(w, c->id);
	const bool wanted = w->step.state == STEP_COMPUTING && h;

	w->step.state = STEP_IDLE;
	take_lent(&w->step);
	if (!wanted || c->status != TW_OK) {
		drop_views(w);
		if (wanted && c->status != TW_CANCELLED)
			tw_give_up(ctx, c->status, "a gradient could not be computed: %s",
				   tw_status_name(c->status));
		return;
	}
	w->step.again = 0;
	h->next += c->in.count;
	if (w->plan->traffic.adaptive)
		w->busy += tw_now(ctx) - w->step.began;
	tw_step_count(w, ctx, c->in.from, c->in.count, c->score.loss);
	tw_online_worker_predicted(w, ctx, c);
	finish_gradient(w, tw_block_floats(w->step.gradient));
	tw_worker_contribute(w, ctx,
			     &(struct tw_computed){ .position = c->epoch_position,
						    .lease = h->id,
						    .round = h->round,
						    .nominal = h->nominal,
						    .loss = c->score.loss,
						    .count = c->in.count,
						    .last = h->next == h->to },
			     w->step.gradient);
}

static void evaluated(struct worker *w, struct tw_context *ctx)
{
	const struct tw_eval_passed p = tw_eval_worker_computed(w, ctx);

	if (w->driver->passed)
		w->driver->passed(w, ctx, &p);
	if (p.done && !p.block)
		tw_eval_worker_tell(w, ctx);
	tw_block_drop(p.block);
}

void tw_step_computed(struct tw_actor *a, struct tw_context *ctx, struct tw_compute *c)
{
	struct worker *w = (struct worker *)a;

	if (c->pass.kind == TW_PASS_EVALUATE) {
		evaluated(w, ctx);
	} else {
		w->driver->computed(w, ctx);
		tw_worker_advance(w, ctx);
	}
	if (w->driver->rested)
		w->driver->rested(w, ctx);
}

/* --- fetched ------------------------------------------------------------------------------ */

/* sim.delay: views of this fetch and of those before it. */
static void remember_views(struct worker *w)
{
	const uint32_t depth = tw_plan_memory(w->plan);

	for (uint32_t k = 0; k < w->exchange.holders; k++) {
		const struct holder *h = &w->exchange.holder[k];
		struct past *past = w->shard[k].past;

		tw_block_drop(past[depth - 1].view);
		for (uint32_t i = depth - 1; i > 0; i--)
			past[i] = past[i - 1];
		past[0] = (struct past){ tw_block_keep(h->view), h->seen.version };
	}
	if (w->step.pasts < depth)
		w->step.pasts++;
}

bool tw_step_merges(const struct worker *w, const struct held *lease)
{
	const struct worker_building *b = &w->building;
	const uint64_t group = (uint64_t)lease->batch * w->plan->dealing.accumulate;
	const uint32_t steps = lease->next == lease->from ? 0 : b->summed;

	if (lease->next != lease->from && b->micros) /* in the middle of a step */
		return false;
	return steps >= w->plan->traffic.delay || lease->to - lease->next <= group;
}

void tw_step_fetched(struct worker *w)
{
	struct exchange *x = &w->exchange;

	w->building.merge_due = false;
	w->building.own = 0;
	w->building.own_samples = 0;
	for (uint32_t k = 0; k < x->holders; k++)
		if (x->holder[k].least > x->clock)
			x->clock = x->holder[k].least;
	x->clock_known = true;
	if (w->kept.parameters)
		tw_kept_merge(w);
	if (w->plan->delay.steps)
		remember_views(w);
}
