/* SPDX-License-Identifier: Apache-2.0 */
/* worker_own_steps.c - a worker that steps on its own copy of the parameters: local steps between
 * fetches (strategy.local), own updates that it has not read back (strategy.cache), and deltas
 * (send: delta).
 *
 *  (1) `base` is what the copy was after the last fetch or push, so base - parameters is what was
 *      not pushed yet.  An elastic step is pushed after its fetch, which leaves `base` as it is.
 *  (2) a copy that outlives a fetch (tw_plan_own_parameters) is replaced by the first one only.
 *  (3) the state of its rule is its own; with strategy.average_state every fetch replaces it with
 *      the mean of all.
 *  (4) `shown` is what the worker's rule shows of the copy, and is made again whenever it moves.
 *  (5) where parts of the vector are pushed in turn, a part is merged when it was pushed, or when
 *      others pushed it meanwhile.  Its `base` is then the view itself, so what is left of the own
 *      copy is pushed the next time.  After a drained checkpoint everything but the last part was
 *      merged already: only `base` is taken from the views. */
#include "node/worker/worker.h"
#include "node/half.h"
#include "vec/vec.h"

#include <math.h>

/* --- local parameters --------------------------------------------------------------------- */

void tw_kept_local_step(struct worker *w, const float *g)
{
	const struct tw_plan *p = w->plan;
	struct worker_kept *k = &w->kept;
	struct tw_apply a = { .w = k->parameters,
			      .out = k->parameters,
			      .g = g,
			      .n = p->problem.trainable,
			      .rate = p->local.rate,
			      .count = ++k->count };

	for (uint32_t i = 0; i < p->local.rule->arrays; i++)
		a.array[i] = k->array[i];
	tw_vec_sub(k->drift, k->drift, k->parameters, p->problem.trainable);
	p->local.rule->apply(p->local.options, &a);
	tw_vec_add(k->drift, k->parameters, p->problem.trainable);
}

void tw_kept_add_update(struct worker *w, const float *g)
{
	const struct tw_half *far = &w->plan->far;
	const uint64_t own = w->building.own_samples;

	for (uint32_t k = 0; k < w->exchange.holders; k++) {
		const struct holder *h = &w->exchange.holder[k];
		const struct tw_holding *r = &h->range;
		float *at = w->kept.parameters + r->from;
		const struct tw_apply a = { .w = at,
					    .out = at,
					    .g = g + r->from,
					    .n = r->trainable,
					    .rate = tw_plan_rate(w->plan, h->base.applied + own) };

		if (tw_vec_finite(g + r->from, r->n)) /* else the shard refuses it */
			tw_half_apply(far, &a, r->from);
	}
}

/* The part of a holder in the worker's own copy, for its rule. */
static struct tw_apply own_range(struct worker *w, uint32_t s)
{
	const struct tw_rule *rule = tw_plan_own_steps(w->plan).rule;
	const struct tw_holding *r = &w->exchange.holder[s].range;
	float *own = w->kept.parameters + r->from;
	struct tw_apply a = { .w = own, .out = own, .n = r->trainable, .rate = w->shard[s].rate };

	for (uint32_t i = 0; i < rule->arrays; i++)
		a.array[i] = w->kept.array[i] + r->from;
	return a;
}

/* What the worker computes on, where its rule shows another vector than it keeps. */
static void show_own(struct worker *w)
{
	const struct tw_half own = tw_plan_own_steps(w->plan);
	struct worker_kept *k = &w->kept;
	const size_t n = w->plan->problem.trainable;

	if (!k->shown)
		return;
	for (uint32_t s = 0; s < w->exchange.holders; s++) {
		const struct tw_apply a = own_range(w, s);
		const size_t from = w->exchange.holder[s].range.from;

		tw_half_view(&own, &a, from, k->shown + from);
	}
	tw_vec_copy(k->shown + n, k->parameters + n, tw_worker_total(w) - n);
}

/* The part of a view in the own copy: 1 - alpha of its trainable values, all of its buffers. */
static void mix(struct worker *w, const struct holder *h)
{
	const float alpha = w->plan->traffic.alpha;
	const struct tw_holding *r = &h->range;
	const float *view = tw_block_floats(h->view);
	float *own = w->kept.parameters + r->from;

	for (size_t j = 0; j < r->trainable; j++)
		own[j] = fmaf(alpha, own[j] - view[j], view[j]);
	tw_vec_copy(own + r->trainable, view + r->trainable, r->n - r->trainable);
}

/* The averaged state takes the place of the own one.  A worker that has made no step yet looks
 * ahead with the rate of the answer. */
static void take_state(struct worker *w)
{
	const uint32_t arrays = tw_plan_state_arrays(w->plan);
	struct worker_kept *k = &w->kept;

	k->count = 0;
	for (uint32_t i = 0; i < w->exchange.holders; i++) {
		const struct holder *h = &w->exchange.holder[i];
		const struct tw_holding *r = &h->range;

		for (uint32_t a = 0; a < arrays; a++)
			tw_vec_copy(k->array[a] + r->from,
				    tw_block_floats(h->view) + (1 + a) * r->n, r->n);
		k->count = h->count > k->count ? h->count : k->count;
		if (w->shard[i].rate == 0.0f)
			w->shard[i].rate = h->seen.rate;
	}
}

static void replace(struct worker *w, const struct holder *h)
{
	tw_vec_copy(w->kept.parameters + h->range.from, tw_block_floats(h->view), h->range.n);
}

/* (5) */
static void merge_in_part(struct worker *w, struct holder *h, struct tw_version *merged)
{
	struct worker_kept *k = &w->kept;
	const struct tw_version now = h->seen.version;
	const bool moved = now.n != merged->n || now.incarnation != merged->incarnation;

	*merged = now;
	if (k->own && !k->rejoined && !moved && !tw_plan_carries(w->plan, h->shard, h->round - 1))
		return;
	if (!k->own || (!k->rejoined && w->plan->traffic.merge != TW_MERGE_MIX))
		replace(w, h);
	else if (!k->rejoined)
		mix(w, h);
	tw_vec_copy(k->base + h->range.from, tw_block_floats(h->view), h->range.n);
}

void tw_kept_rejoin(struct worker *w, bool open)
{
	if (!tw_plan_streams(w->plan))
		return;
	w->kept.own = w->kept.own && !open;
	w->kept.rejoined = true;
}

void tw_kept_merge(struct worker *w)
{
	struct worker_kept *k = &w->kept;
	const enum tw_merges merge = w->plan->traffic.merge;
	const bool stays = k->own && merge == TW_MERGE_ELASTIC;
	const bool streams = tw_plan_streams(w->plan);

	for (uint32_t i = 0; i < w->exchange.holders; i++)
		if (streams)
			merge_in_part(w, &w->exchange.holder[i], &w->shard[i].merged.version);
		else if (!k->own || !tw_plan_own_parameters(w->plan))
			replace(w, &w->exchange.holder[i]);
		else if (merge == TW_MERGE_MIX)
			mix(w, &w->exchange.holder[i]);
	/* what a checkpoint left unmerged is merged in time, as if it had come just now */
	w->building.merge_due = k->own && k->rejoined && w->plan->traffic.delay;
	k->own = true;
	if (w->plan->traffic.average_state)
		take_state(w);
	for (uint32_t i = 0; i < w->exchange.holders; i++)
		w->shard[i].merged = w->exchange.holder[i].seen;
	k->rejoined = false;
	if (merge == TW_MERGE_KEEP)
		tw_vec_add(k->parameters, k->drift, w->plan->problem.trainable);
	else if (k->drift)
		tw_vec_fill(k->drift, 0.0f, tw_worker_total(w));
	if (k->base && !stays && !streams) /* an elastic step is pushed after its fetch */
		tw_vec_copy(k->base, k->parameters, tw_worker_total(w));
	show_own(w);
}

/* What the worker gave away and no shard has taken is its own again. */
void tw_kept_take_back(struct worker *w)
{
	struct exchange *x = &w->exchange;
	const size_t n = w->plan->problem.trainable;

	if (!x->has_returned || tw_worker_busy(w))
		return;
	tw_vec_sub(w->kept.parameters, w->kept.parameters, x->returned, n);
	tw_vec_fill(x->returned, 0.0f, n);
	x->has_returned = false;
	show_own(w);
}

/* --- deltas ------------------------------------------------------------------------------- */

/* In a round, all that is dealt before it is applied. */
static uint64_t own_progress(const struct worker *w, uint32_t s, uint64_t from, uint64_t before)
{
	const uint64_t own = w->building.own_samples + before;

	return tw_worker_rounds(w) ? from : w->shard[s].merged.applied + own;
}

static float own_rate(const struct worker *w, uint32_t s)
{
	const struct worker_building *b = &w->building;

	return tw_plan_rate(w->plan, own_progress(w, s, b->group_from, b->group_before));
}

uint64_t tw_kept_progress(const struct worker *w, uint64_t position)
{
	const struct worker_building *b = &w->building;

	return b->micros ? own_progress(w, 0, b->group_from, b->group_before)
			 : own_progress(w, 0, position, b->account.samples);
}

/* Buffers of the own copy: they are changed, or where the step was taken outside, new. */
static void step_buffers(struct worker *w, const struct tw_rule *rule, const float *g)
{
	const size_t n = w->plan->problem.trainable, buffers = tw_worker_total(w) - n;

	if (rule->traits & TW_RULE_OUTSIDE)
		tw_vec_copy(w->kept.parameters + n, g + n, buffers);
	else
		tw_vec_add(w->kept.parameters + n, g + n, buffers);
}

bool tw_kept_own_step(struct worker *w, float *g)
{
	const struct tw_plan *p = w->plan;
	const struct tw_half own = tw_plan_own_steps(p);
	struct worker_kept *k = &w->kept;
	const size_t n = p->problem.trainable;
	const bool decays = own.rule->traits & TW_RULE_OWN_DECAY;

	tw_kept_take_back(w);
	if (!tw_vec_finite(g, tw_worker_total(w)))
		return false;
	if (!decays && p->decay != 0.0f)
		tw_vec_axpy(g, p->decay, k->parameters, n);
	k->count++;
	for (uint32_t s = 0; s < w->exchange.holders; s++) {
		struct tw_apply a = own_range(w, s);

		w->shard[s].rate = own_rate(w, s);
		a.rate = w->shard[s].rate;
		a.g = g + w->exchange.holder[s].range.from;
		a.count = k->count;
		a.workers = p->crew.workers;
		a.decay = decays ? p->decay : 0.0f;
		tw_half_apply(&own, &a, w->exchange.holder[s].range.from);
	}
	step_buffers(w, own.rule, g);
	show_own(w);
	return true;
}

/* -alpha (own - view): what the shard adds, the own copy gives away. */
static void elastic(float alpha, const struct holder *h, float *own, float *out)
{
	const float *view = tw_block_floats(h->view);

	for (size_t j = 0; j < h->range.trainable; j++)
		out[j] = -alpha * (own[j] - view[j]);
	if (tw_vec_finite(out, h->range.trainable)) /* else the shard refuses it */
		tw_vec_add(own, out, h->range.trainable);
}

/* (5) */
static void delta_in_part(struct worker *w, uint64_t round, float *out)
{
	for (uint32_t i = 0; i < w->exchange.holders; i++) {
		struct holder *h = &w->exchange.holder[i];
		const size_t from = h->range.from, n = h->range.trainable;
		const float *base = w->kept.base + from, *own = w->kept.parameters + from;

		h->base = h->seen; /* what `base` is of */
		if (!tw_plan_carries(w->plan, h->shard, round))
			continue;
		tw_vec_sub(out + h->range.at, base, own, n);
		tw_vec_sub(out + h->range.at + n, own + n, base + n, h->range.n - n);
	}
}

/* Buffers are changes, and not subtracted where they arrive; the state goes as it is. */
void tw_kept_delta(struct worker *w, uint64_t round, float *out)
{
	const uint32_t arrays = tw_plan_state_arrays(w->plan);
	const struct tw_traffic *t = &w->plan->traffic;
	struct worker_kept *k = &w->kept;

	tw_kept_take_back(w);
	if (tw_plan_streams(w->plan)) {
		delta_in_part(w, round, out);
		return;
	}
	for (uint32_t i = 0; i < w->exchange.holders; i++) {
		const struct tw_holding *r = &w->exchange.holder[i].range;
		float *own = k->parameters + r->from, *base = k->base + r->from, *d = out + r->at;

		if (t->merge == TW_MERGE_ELASTIC)
			elastic(t->alpha, &w->exchange.holder[i], own, d);
		else
			tw_vec_sub(d, base, own, r->trainable);
		tw_vec_sub(d + r->trainable, own + r->trainable, base + r->trainable,
			   r->n - r->trainable);
		for (uint32_t a = 0; a < arrays; a++)
			tw_vec_copy(d + (1 + a) * r->n, k->array[a] + r->from, r->n);
		tw_vec_copy(base, own, r->n);
	}
	show_own(w);
}
