/* SPDX-License-Identifier: Apache-2.0 */
/* worker_contribution.c - gradients on their way to a push:
 *
 *	batches → [summed: accumulate] → [summed: push] → [plan.near] → encoded → pushed
 *
 *  (1) a contribution is weight and divide beside the vector: `vector / divide` is the mean, and it
 *      counts `weight` among others; both are 1 for a full batch, so that N workers of b and one
 *      worker that accumulates N batches of b add the same numbers in the same order.
 *  (2) what keeps something from one contribution to the next, a momentum, a residual or a cached
 *      copy of the parameters, is given means: divide is 1 then.
 *  (3) what is pushed by one who leaves takes along all that its codec owes, not encoded.
 *  (4) strategy.cache: the gate that would hold the answer at a shard is asked here, with the least
 *      clock that the last answer told.  That was true of the cached copy, and clocks only grow: a
 *      worker that the gate lets go on with it has all that the gate wants it to have.  What was
 *      computed on an earlier life of a shard is refused there, so that is read again.
 *  (5) merge: elastic outside rounds: every exchange is with parameters as they are now, the last
 *      one before a drain, a leave or the end of the run as well.  Nothing else is begun between
 *      the moment when it is due and its push. */
#include "node/worker/worker.h"
#include "vec/vec.h"

#include <float.h>
#include <math.h>
#include <string.h>

static bool codec_remembers(const struct worker *w)
{
	return w->plan->traffic.up->traits & TW_CODEC_REMEMBERS;
}

static void forget_ranges(struct worker_building *b)
{
	b->ranges = 0;
	b->account = (struct tw_account){ .drift = b->account.drift };
}

void tw_worker_forget_group(struct worker_building *b)
{
	tw_block_drop(b->group);
	b->group = NULL;
	b->micros = 0;
	b->weight = 0;
	forget_ranges(b);
}

void tw_worker_reset_building(struct worker_building *b)
{
	tw_worker_forget_group(b);
	tw_block_drop(b->sum);
	*b = (struct worker_building){ .group = NULL };
}

void tw_worker_forget_building(struct worker *w, struct tw_context *ctx)
{
	struct worker_building *b = &w->building;

	for (uint32_t k = 0; k < b->ranges; k++)
		if (!tw_ledger_again(w, ctx, &b->range[k]))
			return;
	tw_worker_forget_group(b);
	tw_block_drop(b->sum);
	b->sum = NULL;
	b->summed = 0;
	/* no contribution will carry the last samples of these */
	for (uint32_t k = 0; k < w->leases.count; k++)
		if (!w->leases.held[k].closing && w->leases.held[k].next == w->leases.held[k].to)
			w->leases.held[k].over = true;
}

/* --- pushing ------------------------------------------------------------------------------ */

/* B-FASGD's draw with constant `c`. */
static bool transmits(const struct worker *w, double c, uint64_t draw)
{
	struct tw_rng rng;
	double mean = 0;

	if (isnan(c) || !w->building.transmitted)
		return true;
	rng = tw_rng_make(w->plan->seed, TW_RNG_SKIP);
	for (uint32_t k = 0; k < w->exchange.holders; k++)
		mean += w->exchange.holder[k].statistic;
	mean /= (double)w->plan->problem.trainable;
	return tw_rng_uniform(&rng, 1, draw) < 1.0 / (1.0 + c / (mean + 1e-4));
}

/* What is not finite is refused for other reasons than its norm. */
static float to_float(double norm)
{
	return !isfinite(norm) ? 0.0f : norm < (double)FLT_MAX ? (float)norm : FLT_MAX;
}

/* Steps that the pushed state has seen, if one is pushed. */
static uint32_t state_count(const struct worker *w)
{
	const uint64_t count = w->kept.count;

	if (!w->plan->traffic.average_state)
		return 0;
	return count < UINT32_MAX ? (uint32_t)count : UINT32_MAX;
}

/* The round of what was computed last; 0 where there are none. */
static uint64_t round_of(const struct worker *w)
{
	return tw_worker_rounds(w) ? w->building.round : 0;
}

static struct tw_body_push body_of(struct worker *w, float weight, float divide)
{
	const struct worker_building *b = &w->building;
	struct tw_body_push body = { .round = round_of(w),
				     .account = b->account,
				     .own = w->kept.parameters ? b->own : 0,
				     .ranges = b->ranges,
				     .count = state_count(w),
				     .lanes = w->driver->pushers ? w->driver->pushers(w) : 0 };

	body.account.weight = weight;
	body.account.divide = divide;
	memcpy(body.range, b->range, b->ranges * sizeof *b->range);
	return body;
}

static void push(struct worker *w, struct tw_context *ctx, struct tw_offer *offer)
{
	struct worker_building *b = &w->building;

	b->fetch_due = false;
	b->farewells += offer->plain;
	forget_ranges(b); /* the offer has them */
	if (tw_exchange_push(&w->exchange, ctx, offer) != TW_OK) {
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for a contribution");
		return;
	}
	b->transmitted = true;
	b->pushed = offer->body.round + 1;
	b->own++;
	b->own_samples += offer->body.account.samples;
	if (w->kept.drift)
		tw_kept_forget_drift(w);
	w->since = tw_now(ctx);
}

static void contribute_gradient(struct worker *w, struct tw_context *ctx, struct tw_block *vector,
				float weight, float divide, bool fetch)
{
	const struct tw_traffic *t = &w->plan->traffic;
	const uint64_t first = w->building.range[0].from;
	const bool put_off = t->overlap && fetch && tw_exchange_asks(&w->exchange);
	struct tw_offer offer = {
		.vector = vector,
		.skips = !transmits(w, t->skip_push, 2 * first),
		.reads = fetch && !put_off && transmits(w, t->skip_fetch, 2 * first + 1),
		.in_part = t->fragments > 1,
		.plain = codec_remembers(w) && w->me.state == WORKER_LEAVING && !w->stage, /* (3) */
	};

	if ((w->kept.momentum || codec_remembers(w) || t->cache) && divide != 1.0f) { /* (2) */
		tw_vec_scale(tw_block_floats(vector), 1.0f / divide, tw_worker_total(w));
		divide = 1.0f;
	}
	offer.body = body_of(w, weight, divide);
	tw_worker_close_leases(w, w->exchange.seq + 1);
	if (w->kept.momentum)
		tw_kept_prepare(w, tw_block_floats(vector));
	if (t->cache)
		tw_kept_add_update(w, tw_block_floats(vector));
	push(w, ctx, &offer);
	w->building.fetch_due = put_off;
}

/* --- adding up ---------------------------------------------------------------------------- */

/* Add x to *sum (a block of the pool's, made when needed), weighing it. */
static bool add_to(struct worker *w, struct tw_context *ctx, struct tw_block **sum, uint32_t count,
		   float weight, const float *x)
{
	const size_t n = tw_worker_total(w);

	if (!*sum)
		*sum = tw_pool_take(w->step.pool);
	if (!*sum) {
		tw_give_up(ctx, TW_NO_MEMORY, "no memory to add gradients");
		return false;
	}
	if (count == 0 && weight == 1.0f)
		tw_vec_copy(tw_block_floats(*sum), x, n);
	else if (count == 0)
		tw_vec_scale_to(tw_block_floats(*sum), weight, x, n);
	else if (weight == 1.0f)
		tw_vec_add(tw_block_floats(*sum), x, n);
	else
		tw_vec_axpy(tw_block_floats(*sum), weight, x, n);
	return true;
}

/* How far the own parameters that are pushed were from the centre.  An elastic push is a share of
 * that. */
static float drift_of(const struct worker *w, uint64_t round, const float *delta)
{
	const struct tw_traffic *t = &w->plan->traffic;
	const bool elastic = t->merge == TW_MERGE_ELASTIC && t->alpha > 0.0f;
	double square = 0;

	for (uint32_t k = 0; k < w->exchange.holders; k++) {
		const struct tw_holding *r = &w->exchange.holder[k].range;

		if (tw_plan_carries(w->plan, w->exchange.holder[k].shard, round))
			square += tw_vec_square(delta + r->at, r->trainable);
	}
	return to_float(elastic ? sqrt(square) / (double)t->alpha : sqrt(square));
}

/* Where the worker's own steps led: a mean of samples where updates are means, or itself. */
static void push_delta(struct worker *w, struct tw_context *ctx, bool flush)
{
	const struct tw_plan *p = w->plan;
	struct worker_building *b = &w->building;
	const double full = tw_plan_stripe(p, b->nominal, b->ranges ? b->range[0].from : 0);
	const bool total = p->far.rule->traits & TW_RULE_TOTAL;
	struct tw_block *delta =
		tw_pool_take(p->traffic.average_state ? w->kept.with_state : w->step.pool);
	bool fetch;

	if (!delta) {
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for a delta");
		return;
	}
	b->summed = 0;
	b->cycle++;
	fetch = !flush &&
		(tw_worker_rounds(w) || b->cycle % (p->traffic.fetch / p->traffic.push) == 0);
	tw_kept_delta(w, round_of(w), tw_block_floats(delta));
	b->account.drift = drift_of(w, round_of(w), tw_block_floats(delta));
	contribute_gradient(w, ctx, delta,
			    total ? 1.0f : (float)((double)b->account.samples / full), 1.0f, fetch);
	b->elastic_due = false;
	tw_block_drop(delta);
}

/* Elastic steps outside rounds compare with fresh parameters, whatever makes them due: these are
 * asked for first (5). */
static void delta_due(struct worker *w, struct tw_context *ctx, bool flush)
{
	if (w->plan->traffic.merge == TW_MERGE_ELASTIC && !tw_worker_rounds(w))
		w->building.elastic_due = true;
	else
		push_delta(w, ctx, flush);
}

bool tw_worker_read_again(struct worker *w, struct tw_context *ctx)
{
	struct exchange *x = &w->exchange;

	for (uint32_t k = 0; !w->building.reads_again && k < x->holders; k++)
		if (!x->holder[k].known)
			return false;
	for (uint32_t k = 0; !w->building.reads_again && k < x->holders; k++)
		if (x->holder[k].request == TW_REQUEST_NONE)
			tw_exchange_pull(x, ctx, &x->holder[k], 0);
	w->building.reads_again = true;
	return tw_exchange_has_all(x);
}

bool tw_worker_elastic(struct worker *w, struct tw_context *ctx)
{
	if (!tw_exchange_has_credit(&w->exchange) || !tw_worker_read_again(w, ctx))
		return false;
	w->building.reads_again = false;
	for (uint32_t k = 0; k < w->exchange.holders; k++)
		w->exchange.holder[k].base = w->exchange.holder[k].seen;
	push_delta(w, ctx, true);
	return true;
}

/* Steps between two pushes: as the master says of this worker, or as the job says of all. */
static uint32_t period(struct worker *w)
{
	const uint32_t usual = tw_plan_period(w->plan, w->building.range[0].from);
	const struct held *h = tw_worker_held(w, w->step.compute.id);

	return h && h->period && usual > 1 ? h->period : usual;
}

/* One step on the worker's own parameters; `last`: its lease is computed to the end. */
static void own_step(struct worker *w, struct tw_context *ctx, struct tw_block *mean, bool last)
{
	struct worker_building *b = &w->building;

	if (tw_kept_own_step(w, tw_block_floats(mean)))
		b->account.own_steps++;
	else if (b->account.skipped++, w->bad++ % 100 == 0)
		tw_say(ctx, TW_WARNING,
		       "worker %u skips a gradient that is not finite (%llu so far)", w->me.id.slot,
		       (unsigned long long)w->bad);
	b->summed++;
	if (tw_worker_rounds(w) ? last : b->summed >= period(w) || b->ranges == TW_RANGES)
		delta_due(w, ctx, false);
}

static void push_sum(struct worker *w, struct tw_context *ctx, bool fetch)
{
	struct tw_block *sum = w->building.sum;

	w->building.sum = NULL;
	w->building.summed = 0;
	contribute_gradient(w, ctx, sum, 1.0f, 1.0f, fetch);
	tw_block_drop(sum);
}

/* (4): may the worker compute on with what it has after one more push? */
static bool is_fresh(const struct worker *w)
{
	const struct tw_plan *p = w->plan;

	for (uint32_t k = 0; k < w->exchange.holders; k++) {
		const struct holder *h = &w->exchange.holder[k];
		const struct tw_clocks c = { .active_count = p->crew.workers, .least = h->least };
		uint32_t whom;

		if (h->seen.version.incarnation < h->incarnation ||
		    !p->gate->may_read(p->gate_options, &c, w->exchange.clock + 1, &whom))
			return false;
	}
	return true;
}

/* A gradient (of `accumulate` batches) is complete, weighing `weight`; `divide` makes it a mean.
 * Push it, or add it to what is pushed later. */
static void gradient_ready(struct worker *w, struct tw_context *ctx, struct tw_block *group,
			   float weight, float divide, bool flush, bool last)
{
	const struct tw_traffic *t = &w->plan->traffic;
	struct worker_building *b = &w->building;
	bool fetch;

	if (t->delta) {
		if (divide != 1.0f)
			tw_vec_scale(tw_block_floats(group), 1.0f / divide, tw_worker_total(w));
		own_step(w, ctx, group, last);
		return;
	}
	b->cycle++;
	fetch = !flush && (b->cycle % t->fetch == 0 || (t->overlap && b->fetch_due)) &&
		!(t->cache && is_fresh(w)) && w->leasing->fetches;
	b->fetch_due = fetch;
	if (t->push == 1) {
		contribute_gradient(w, ctx, group, weight, divide, fetch);
		return;
	}
	if (divide != 1.0f)
		tw_vec_scale(tw_block_floats(group), 1.0f / divide, tw_worker_total(w));
	if (!add_to(w, ctx, &b->sum, b->summed, 1.0f, tw_block_floats(group)))
		return;
	b->summed++;
	if (b->cycle % t->push == 0 || b->ranges == TW_RANGES)
		push_sum(w, ctx, fetch);
}

static void group_ready(struct worker *w, struct tw_context *ctx, bool flush, bool last)
{
	struct tw_block *group = w->building.group;

	w->building.group = NULL;
	w->building.micros = 0;
	gradient_ready(w, ctx, group, w->building.weight, w->building.weight, flush, last);
	tw_block_drop(group);
}

static void add_range(struct worker_building *b, const struct tw_computed *c)
{
	struct tw_range *last = b->ranges ? &b->range[b->ranges - 1] : NULL;
	const uint32_t lease = (uint32_t)c->lease;

	tw_account_add(&b->account,
		       &(struct tw_account){ .loss = c->loss, .steps = 1, .samples = c->count });
	if (last && last->lease == lease && last->from + last->count == c->position)
		last->count += c->count;
	else
		b->range[b->ranges++] = (struct tw_range){ c->position, c->count, lease };
}

void tw_worker_contribute(struct worker *w, struct tw_context *ctx, const struct tw_computed *done,
			  struct tw_block *gradient)
{
	struct worker_building *b = &w->building;
	const uint32_t accumulate = w->plan->dealing.accumulate;
	const float weight = (float)(done->count / done->nominal);
	const bool last = done->last;

	b->round = done->round;
	b->nominal = done->nominal;
	if (b->micros == 0 && b->summed == 0)
		for (uint32_t k = 0; k < w->exchange.holders; k++)
			w->exchange.holder[k].base = w->shard[k].base;
	if (b->micros == 0) {
		b->group_from = done->position;
		b->group_before = b->account.samples;
	}
	add_range(b, done);
	if (w->kept.drift)
		tw_kept_local_step(w, tw_block_floats(gradient));
	if (accumulate == 1) {
		gradient_ready(w, ctx, gradient, weight, 1.0f, false, last);
		return;
	}
	if (!add_to(w, ctx, &b->group, b->micros, weight, tw_block_floats(gradient)))
		return;
	b->weight = b->micros ? b->weight + weight : weight;
	b->micros++;
	if (b->micros == accumulate || (tw_worker_rounds(w) && last) || b->ranges == TW_RANGES)
		group_ready(w, ctx, false, last);
}

/* --- before it drains or leaves ----------------------------------------------------------- */

void tw_worker_flush(struct worker *w, struct tw_context *ctx)
{
	if (!tw_exchange_has_credit(&w->exchange) || tw_worker_busy(w))
		return;
	if (w->building.micros)
		group_ready(w, ctx, true, false);
	if (!w->building.summed || !tw_exchange_has_credit(&w->exchange))
		return;
	if (tw_worker_deltas(w))
		delta_due(w, ctx, true);
	else
		push_sum(w, ctx, false);
	if (w->building.elastic_due)
		tw_worker_elastic(w, ctx);
}

bool tw_worker_owes(const struct worker *w)
{
	return (w->kept.momentum && w->building.transmitted) || tw_exchange_owes(&w->exchange);
}

void tw_worker_farewell(struct worker *w, struct tw_context *ctx)
{
	const struct tw_plan *p = w->plan;
	struct tw_block *b = tw_pool_take(w->step.pool);
	struct tw_offer offer = { .vector = b, .plain = codec_remembers(w) };

	if (!b) {
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for a last push");
		return;
	}
	tw_vec_fill(tw_block_floats(b), 0.0f, tw_worker_total(w));
	if (w->kept.momentum)
		p->near.rule->farewell(p->near.options, w->kept.momentum, tw_block_floats(b),
				       p->problem.trainable);
	tw_kept_forget_momentum(w);
	for (uint32_t k = 0; k < w->exchange.holders; k++)
		w->exchange.holder[k].base = w->exchange.holder[k].seen;
	offer.body = body_of(w, 1.0f, 1.0f);
	push(w, ctx, &offer); /* a momentum that is empty now has no part in it */
	tw_block_drop(b);
	w->building.transmitted = false; /* nothing is left to say */
}
