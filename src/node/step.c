/* SPDX-License-Identifier: Apache-2.0 */
/* step.c - the worker's half of the line:
 *
 *	compute → clip → [local rule step] → [decay → prepare] → encode (+ residual) → push
 *	decode → merge
 *
 *  (1) a computation reads views that it holds itself, so an answer that comes meanwhile tears
 *      nothing.
 *  (2) what was pushed is kept until every shard has closed it, and is sent again in order.
 *  (3) a contribution is weight and divide beside the vector: `vector / divide` is the mean, and
 *      it counts `weight` among others; both are 1 for a full batch, so that N workers of b and one
 *      worker that accumulates N batches of b add the same numbers in the same order. */
#include "node/part.h"
#include "node/worker.h"
#include "vec/vec.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static size_t total(const struct worker *w)
{
	return w->plan->problem.trainable + w->plan->problem.buffers;
}

static void *zeros(struct worker *w, size_t bytes)
{
	return tw_heap_zeros(w->heap, bytes ? bytes : 1);
}

bool tw_step_has_state(const struct worker *w)
{
	return tw_plan_worker_keeps(w->plan);
}

static enum tw_status open_outgoing(struct worker *w, struct outgoing *o)
{
	const size_t s = w->plan->problem.shards;

	o->base = zeros(w, s * sizeof *o->base);
	o->number = zeros(w, s * sizeof *o->number);
	o->rate = zeros(w, s * sizeof *o->rate);
	o->payload = zeros(w, s * sizeof *o->payload);
	o->at = zeros(w, s * sizeof *o->at);
	o->bytes = zeros(w, s * sizeof *o->bytes);
	if (!o->base || !o->number || !o->rate || !o->payload || !o->at || !o->bytes)
		return TW_NO_MEMORY;
	return TW_OK;
}

static enum tw_status open_residuals(struct worker *w)
{
	const struct tw_plan *p = w->plan;
	size_t bytes = 0;

	if (!p->traffic.up->state_bytes)
		return TW_OK;
	w->residual_at = zeros(w, p->problem.shards * sizeof *w->residual_at);
	if (!w->residual_at)
		return TW_NO_MEMORY;
	for (uint32_t s = 0; s < p->problem.shards; s++) {
		const size_t one = p->traffic.up->state_bytes(p->traffic.up_options,
							      tw_worker_trainable(w, s));

		w->residual_at[s] = bytes;
		bytes += (one + 63) / 64 * 64;
	}
	w->residual = zeros(w, bytes);
	return w->residual ? TW_OK : TW_NO_MEMORY;
}

enum tw_status tw_step_open(struct worker *w)
{
	const struct tw_plan *p = w->plan;
	const size_t s = p->problem.shards, bytes = total(w) * sizeof(float);

	w->piece = zeros(w, s * sizeof *w->piece);
	w->using = zeros(w, s * sizeof *w->using);
	w->base = zeros(w, s * sizeof *w->base);
	w->base_rate = zeros(w, s * sizeof *w->base_rate);
	w->group_base = zeros(w, s * sizeof *w->group_base);
	w->group_rate = zeros(w, s * sizeof *w->group_rate);
	w->eval_view = zeros(w, s * sizeof *w->eval_view);
	w->eval_piece = zeros(w, s * sizeof *w->eval_piece);
	w->pool = tw_pool_new(w->heap, bytes);
	if (!w->piece || !w->using || !w->base || !w->base_rate || !w->group_base ||
	    !w->group_rate || !w->eval_view || !w->eval_piece || !w->pool)
		return TW_NO_MEMORY;
	for (int k = 0; k < TW_CREDITS; k++)
		if (open_outgoing(w, &w->out[k]) != TW_OK)
			return TW_NO_MEMORY;
	if (p->near.rule &&
	    (!(w->momentum = zeros(w, bytes)) || !(w->momentum_rate = zeros(w, s * sizeof(float)))))
		return TW_NO_MEMORY;
	if (p->local.rule && (!(w->local = zeros(w, bytes)) || !(w->drift = zeros(w, bytes))))
		return TW_NO_MEMORY;
	for (uint32_t k = 0; p->local.rule && k < p->local.rule->arrays; k++)
		if (!(w->local_array[k] = zeros(w, bytes)))
			return TW_NO_MEMORY;
	if (p->delay.steps) {
		w->past = zeros(w, tw_plan_memory(p) * s * sizeof *w->past);
		w->past_version = zeros(w, tw_plan_memory(p) * s * sizeof *w->past_version);
		if (!w->past || !w->past_version)
			return TW_NO_MEMORY;
	}
	return open_residuals(w);
}

void tw_outgoing_clear(struct worker *w, struct outgoing *o)
{
	for (uint32_t s = 0; o->payload && s < w->plan->problem.shards; s++) {
		tw_block_drop(o->payload[s]);
		o->payload[s] = NULL;
	}
}

static void drop_views(struct worker *w)
{
	for (uint32_t s = 0; w->using && s < w->plan->problem.shards; s++) {
		tw_block_drop(w->using[s]);
		w->using[s] = NULL;
	}
}

void tw_step_reset(struct worker *w)
{
	for (uint32_t k = 0; k < w->outs; k++)
		tw_outgoing_clear(w, &w->out[k]);
	w->outs = 0;
	tw_block_drop(w->group);
	tw_block_drop(w->sum);
	w->group = w->sum = NULL;
	w->micros = w->summed = w->ranges = w->range_samples = w->range_steps = 0;
	w->group_weight = 0;
	w->range_loss = 0;
	w->cycle = 0;
	w->own = 0;
	w->fetch_due = false;
	w->transmitted = false;
	for (uint32_t k = 0; w->past && k < tw_plan_memory(w->plan) * w->plan->problem.shards;
	     k++) {
		tw_block_drop(w->past[k]);
		w->past[k] = NULL;
	}
	w->pasts = 0;
	if (w->drift)
		tw_vec_fill(w->drift, 0.0f, total(w));
}

void tw_step_close(struct worker *w)
{
	tw_step_reset(w);
	drop_views(w);
	tw_block_drop(w->gradient);
	for (uint32_t s = 0; w->eval_view && s < w->plan->problem.shards; s++)
		tw_block_drop(w->eval_view[s]);
	for (int k = 0; k < TW_CREDITS; k++) {
		struct outgoing *o = &w->out[k];
		void *const parts[] = { o->base, o->number, o->rate, o->payload, o->at, o->bytes };

		for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
			w->heap->put(w->heap, parts[i]);
	}
	void *const plain[] = { w->piece,        w->using,      w->base,        w->base_rate,
				w->group_base,   w->group_rate, w->eval_view,   w->eval_piece,
				w->momentum,     w->local,      w->drift,       w->past,
				w->past_version, w->residual,   w->residual_at, w->momentum_rate };
	for (size_t k = 0; k < sizeof plain / sizeof plain[0]; k++)
		w->heap->put(w->heap, plain[k]);
	for (uint32_t k = 0; k < TW_RULE_ARRAYS; k++)
		w->heap->put(w->heap, w->local_array[k]);
	tw_pool_free(w->pool);
}

/* --- computing --------------------------------------------------------------------------- */

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
	return d < w->pasts - 1 ? (uint32_t)d : w->pasts - 1;
}

static void look(struct worker *w, uint32_t s, uint64_t position)
{
	const struct tw_plan *p = w->plan;
	struct link *l = &w->link[s];

	w->base[s] = l->version;
	w->base_rate[s] = l->rate;
	w->using[s] = tw_block_keep(l->view);
	if (p->delay.steps) {
		const size_t at = (size_t)delay_for(w, position) * p->problem.shards + s;

		tw_block_drop(w->using[s]);
		w->using[s] = tw_block_keep(w->past[at]);
		w->base[s] = w->past_version[at];
	}
	w->piece[s] = (struct tw_piece){ tw_block_floats(w->using[s]), p->problem.border[s],
					 p->problem.border[s + 1] - p->problem.border[s] };
}

static void forget_partial(struct worker *w)
{
	tw_block_drop(w->group);
	w->group = NULL;
	w->micros = w->ranges = w->range_samples = w->range_steps = 0;
	w->group_weight = 0;
	w->range_loss = 0;
}

void tw_step_start(struct worker *w, struct tw_context *ctx, struct held *lease)
{
	const struct tw_plan *p = w->plan;
	const uint64_t left = lease->to - lease->next;
	const uint32_t count = left < lease->batch ? (uint32_t)left : lease->batch;

	if (tw_worker_rounds(w) && lease->next == lease->from)
		forget_partial(w); /* batches of a stripe whose round closed without it */
	if (!w->gradient || atomic_load_explicit(&w->gradient->refs, memory_order_acquire) != 1) {
		tw_block_drop(w->gradient);
		w->gradient = tw_pool_take(w->pool);
	}
	if (!w->gradient) {
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for a gradient of %zu parameters",
			   total(w));
		return;
	}
	for (uint32_t s = 0; s < p->problem.shards; s++)
		look(w, s, lease->next);
	if (w->local)
		w->piece[0] = (struct tw_piece){ w->local, 0, total(w) };
	w->compute = (struct tw_compute){ .in = { .from = lease->next,
						  .count = count,
						  .piece = w->piece,
						  .pieces = w->local ? 1 : p->problem.shards },
					  .gradient = tw_block_floats(w->gradient),
					  .epoch_position = lease->next,
					  .id = lease->id };
	w->compute.in.cancel = &w->compute.cancel;
	w->busy = true;
	w->stale = false;
	tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_STEP,
					.slot = w->slot,
					.incarnation = w->incarnation,
					.seq = w->seq,
					.from = lease->next,
					.count = count });
	ctx->world->compute(ctx, &w->compute);
}

/* --- pushing ----------------------------------------------------------------------------- */

static bool transmits(const struct worker *w, double c, uint64_t draw)
{
	const struct tw_rng rng = tw_rng_make(w->plan->seed, TW_RNG_SKIP);
	double mean = 0;

	if (isnan(c) || !w->transmitted)
		return true;
	for (uint32_t s = 0; s < w->plan->problem.shards; s++)
		mean += w->link[s].statistic;
	mean /= (double)w->plan->problem.trainable;
	return tw_rng_uniform(&rng, 1, draw) < 1.0 / (1.0 + c / (mean + 1e-4));
}

static enum tw_status encode_slice(struct worker *w, struct outgoing *o, struct tw_block *vector,
				   uint32_t s)
{
	const struct tw_plan *p = w->plan;
	const size_t from = p->problem.border[s], n = p->problem.border[s + 1] - from;
	const size_t t = tw_worker_trainable(w, s);
	const float *x = tw_block_floats(vector) + from;
	const struct tw_rng rng = tw_rng_make(p->seed, TW_RNG_CODEC);
	struct tw_block *b;
	size_t len;

	if (p->traffic.up->traits & TW_CODEC_IDENTITY) {
		o->payload[s] = tw_block_keep(vector);
		o->at[s] = from * sizeof(float);
		o->bytes[s] = n * sizeof(float);
		return TW_OK;
	}
	len = p->traffic.up->bound(p->traffic.up_options, t);
	b = tw_block_new(w->heap, len + (n - t) * sizeof(float));
	if (!b)
		return TW_NO_MEMORY;
	o->payload[s] = b;
	if (p->traffic.up->encode(p->traffic.up_options,
				  w->residual ? (uint8_t *)w->residual + w->residual_at[s] : NULL,
				  &rng, o->body.range[0].from, x, t, b->data, &len) != TW_OK)
		return TW_NO_ROOM;
	memcpy(b->data + len, x + t, (n - t) * sizeof(float));
	o->at[s] = 0;
	o->bytes[s] = len + (n - t) * sizeof(float);
	return TW_OK;
}

/* The worker's half of a rule whose momentum lives here.  A slice that is not finite would be in
 * the momentum for good: it goes as it is, and its shard refuses it. */
static void prepare(struct worker *w, float *g)
{
	const struct tw_plan *p = w->plan;

	for (uint32_t s = 0; s < p->problem.shards; s++) {
		const size_t from = p->problem.border[s], n = tw_worker_trainable(w, s);
		const struct tw_prepare half = { .v = w->momentum + from,
						 .g = g + from,
						 .u = g + from,
						 .n = n,
						 .rate = w->group_rate[s],
						 .before = w->momentum_rate[s] };

		if (!tw_vec_finite(g + from, p->problem.border[s + 1] - from))
			continue;
		p->near.rule->prepare(p->near.options, &half);
		w->momentum_rate[s] = half.rate;
	}
}

static void send_all(struct worker *w, struct tw_context *ctx, const struct outgoing *o)
{
	const uint32_t shards = w->plan->problem.shards;
	/* workers start at different shards, or the last to come would do all the work alone */
	const uint32_t first = (uint32_t)((uint64_t)w->slot * shards /
					  (w->plan->crew.workers ? w->plan->crew.workers : 1));

	for (uint32_t k = 0; k < shards; k++)
		tw_worker_send_push(w, ctx, o, (first + k) % shards);
}

static void contribute(struct worker *w, struct tw_context *ctx, struct tw_block *vector,
		       float weight, float divide, bool fetch)
{
	const struct tw_plan *p = w->plan;
	struct outgoing *o = &w->out[w->outs];
	const bool sends = transmits(w, p->traffic.skip_push, 2 * w->range[0].from);
	const bool reads = fetch && transmits(w, p->traffic.skip_fetch, 2 * w->range[0].from + 1);

	HOLDS(2, w->outs < TW_CREDITS);
	if (w->momentum && divide != 1.0f) { /* the momentum takes means */
		tw_vec_scale(tw_block_floats(vector), 1.0f / divide, total(w));
		divide = 1.0f;
	}
	w->fetch_due = false;
	w->seq++;
	w->outs++;
	o->seq = w->seq;
	o->flags = (reads ? TW_FLAG_ANSWER : 0) | (sends ? 0 : TW_FLAG_SKIPPED);
	o->body = (struct tw_body_push){
		.clock = ++w->clock,
		.steps = w->range_steps,
		.own = w->local ? w->own : 0,
		.samples = w->range_samples,
		.ranges = w->ranges,
		.weight = weight,
		.divide = divide,
		.progress = w->ranges ? (double)w->range[0].from / (double)p->problem.samples : 0,
		.loss = w->range_loss
	};
	memcpy(o->body.range, w->range, w->ranges * sizeof *w->range);
	for (uint32_t k = 0; k < w->held_count; k++) {
		if (tw_worker_rounds(w) && w->held[k].id == w->compute.id)
			o->body.round = w->held[k].round;
		if (!w->held[k].closing && w->held[k].next == w->held[k].to)
			w->held[k].closing = w->seq;
	}
	if (w->momentum && vector)
		prepare(w, tw_block_floats(vector));
	for (uint32_t s = 0; s < p->problem.shards; s++) {
		o->base[s] = w->group_base[s];
		o->rate[s] = w->group_rate[s];
		o->number[s] = 0;
		if (sends && encode_slice(w, o, vector, s) != TW_OK) {
			tw_give_up(ctx, TW_NO_MEMORY, "no memory for a contribution");
			return;
		}
		if (!reads)
			continue;
		o->number[s] = ++w->numbers;
		w->link[s].wants = true;
		w->link[s].asked = false;
		w->link[s].number = o->number[s];
	}
	w->transmitted = true;
	w->own++;
	w->ranges = w->range_samples = w->range_steps = 0;
	w->range_loss = 0;
	if (w->drift)
		tw_vec_fill(w->drift, 0.0f, total(w));
	w->since = tw_now(ctx);
	send_all(w, ctx, o);
}

/* Add x to *sum (a block of the pool's, made when needed), weighing it. */
static bool add_to(struct worker *w, struct tw_context *ctx, struct tw_block **sum, uint32_t count,
		   float weight, const float *x)
{
	const size_t n = total(w);

	if (!*sum)
		*sum = tw_pool_take(w->pool);
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

/* A gradient (of `accumulate` batches) is complete in *group, weighing `weight`; `divide` makes it
 * a mean.  Push it, or add it to what is pushed later. */
static void gradient_ready(struct worker *w, struct tw_context *ctx, struct tw_block *group,
			   float weight, float divide, bool flush)
{
	const struct tw_plan *p = w->plan;
	bool fetch;

	w->cycle++;
	fetch = !flush && w->cycle % p->traffic.fetch == 0;
	w->fetch_due = fetch;
	if (p->traffic.push == 1) {
		contribute(w, ctx, group, weight, divide, fetch);
		return;
	}
	if (divide != 1.0f)
		tw_vec_scale(tw_block_floats(group), 1.0f / divide, total(w));
	if (!add_to(w, ctx, &w->sum, w->summed, 1.0f, tw_block_floats(group)))
		return;
	w->summed++;
	if (w->cycle % p->traffic.push == 0 || w->ranges == TW_RANGES) {
		struct tw_block *sum = w->sum;

		w->sum = NULL;
		w->summed = 0;
		contribute(w, ctx, sum, 1.0f, 1.0f, fetch);
		tw_block_drop(sum);
	}
}

bool tw_step_flush(struct worker *w, struct tw_context *ctx)
{
	struct tw_block *b;

	if (w->outs >= TW_CREDITS || w->busy)
		return false;
	if (w->micros) {
		b = w->group;
		w->group = NULL;
		w->micros = 0;
		gradient_ready(w, ctx, b, w->group_weight, w->group_weight, true);
		tw_block_drop(b);
	}
	if (w->summed && w->outs < TW_CREDITS) {
		b = w->sum;
		w->sum = NULL;
		w->summed = 0;
		contribute(w, ctx, b, 1.0f, 1.0f, false);
		tw_block_drop(b);
		return true;
	}
	return false;
}

void tw_step_farewell(struct worker *w, struct tw_context *ctx)
{
	const struct tw_plan *p = w->plan;
	struct tw_block *b;

	if (!w->momentum || w->outs >= TW_CREDITS || !w->transmitted)
		return;
	b = tw_pool_take(w->pool);
	if (!b) {
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for a last push");
		return;
	}
	tw_vec_fill(tw_block_floats(b), 0.0f, total(w));
	p->near.rule->farewell(p->near.options, w->momentum, tw_block_floats(b),
			       p->problem.trainable);
	tw_step_forget_momentum(w);
	for (uint32_t s = 0; s < p->problem.shards; s++)
		w->group_base[s] = w->link[s].version, w->group_rate[s] = w->link[s].rate;
	/* prepare() on a zero momentum would scale it: send it as it is */
	float *kept = w->momentum;
	w->momentum = NULL;
	contribute(w, ctx, b, 1.0f, 1.0f, false);
	w->momentum = kept;
	tw_block_drop(b);
}

static void clip(struct worker *w, float *g)
{
	const double norm = sqrt(tw_vec_square(g, w->plan->problem.trainable));

	if (norm > w->plan->clip)
		tw_vec_scale(g, (float)(w->plan->clip / norm), w->plan->problem.trainable);
}

/* Where the shards only subtract, the worker decays, at the views that the gradient is of. */
static void decay_gradient(struct worker *w, float *g)
{
	const struct tw_plan *p = w->plan;

	for (uint32_t s = 0; s < p->problem.shards; s++)
		tw_vec_axpy(g + p->problem.border[s], p->decay, tw_block_floats(w->using[s]),
			    tw_worker_trainable(w, s));
}

static void local_step(struct worker *w, const float *g)
{
	const struct tw_plan *p = w->plan;
	struct tw_apply a = { .w = w->local,
			      .out = w->local,
			      .g = g,
			      .n = p->problem.trainable,
			      .rate = p->local.rate,
			      .count = ++w->local_count };

	for (uint32_t k = 0; k < p->local.rule->arrays; k++)
		a.array[k] = w->local_array[k];
	tw_vec_sub(w->drift, w->drift, w->local, p->problem.trainable);
	p->local.rule->apply(p->local.options, &a);
	tw_vec_add(w->drift, w->local, p->problem.trainable);
}

static void take_range(struct worker *w, uint64_t from, uint32_t count, uint64_t lease)
{
	struct tw_range *last = w->ranges ? &w->range[w->ranges - 1] : NULL;

	w->range_samples += count;
	w->range_steps++;
	w->range_loss += w->compute.score.loss;
	if (last && last->lease == (uint32_t)lease && last->from + last->count == from) {
		last->count += count;
		return;
	}
	w->range[w->ranges++] = (struct tw_range){ from, count, (uint32_t)lease };
}

static void count_step(struct worker *w, struct tw_context *ctx, struct held *h)
{
	const struct tw_inputs *in = &w->compute.in;

	h->next += in->count;
	w->steps++;
	w->samples += in->count;
	w->losses += in->count;
	w->loss += w->compute.score.loss;
	tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_GRADIENT,
					.slot = w->slot,
					.count = in->count,
					.from = in->from,
					.value = w->compute.score.loss });
}

/* The gradient as it was computed becomes what contributions are made of; the views that it is of
 * are given back. */
static void finish_gradient(struct worker *w, float *g)
{
	const struct tw_plan *p = w->plan;

	if (p->clip > 0)
		clip(w, g);
	if (w->momentum && p->decay != 0.0f && !(p->near.rule->traits & TW_RULE_OWN_DECAY))
		decay_gradient(w, g);
	drop_views(w);
}

void tw_step_computed(struct worker *w, struct tw_context *ctx)
{
	const struct tw_plan *p = w->plan;
	const struct tw_inputs in = w->compute.in;
	const uint64_t lease = w->compute.id;
	struct held *h = NULL;
	struct tw_block *g = w->gradient;
	float weight;

	w->busy = false;
	for (uint32_t k = 0; k < w->held_count; k++)
		if (w->held[k].id == lease)
			h = &w->held[k];
	if (w->stale || !h || w->compute.status != TW_OK) {
		drop_views(w);
		if (!w->stale && h && w->compute.status != TW_CANCELLED)
			tw_give_up(ctx, w->compute.status, "a gradient could not be computed: %s",
				   tw_status_name(w->compute.status));
		return;
	}
	count_step(w, ctx, h);
	finish_gradient(w, tw_block_floats(g));
	if (w->micros == 0 && w->summed == 0)
		for (uint32_t s = 0; s < p->problem.shards; s++) {
			w->group_base[s] = w->base[s];
			w->group_rate[s] = w->base_rate[s];
		}
	take_range(w, in.from, in.count, lease);
	weight = (float)(in.count / h->nominal);
	if (w->local)
		local_step(w, tw_block_floats(g));
	if (p->dealing.accumulate == 1) {
		gradient_ready(w, ctx, g, weight, 1.0f, false);
		return;
	}
	if (!add_to(w, ctx, &w->group, w->micros, weight, tw_block_floats(g)))
		return;
	w->group_weight = w->micros ? w->group_weight + weight : weight;
	w->micros++;
	if (w->micros == p->dealing.accumulate || (tw_worker_rounds(w) && h->next == h->to) ||
	    w->ranges == TW_RANGES) {
		struct tw_block *group = w->group;

		w->group = NULL;
		w->micros = 0;
		gradient_ready(w, ctx, group, w->group_weight, w->group_weight, false);
		tw_block_drop(group);
	}
}

/* --- fetching ---------------------------------------------------------------------------- */

void tw_step_fetched(struct worker *w, struct tw_context *ctx)
{
	const struct tw_plan *p = w->plan;

	(void)ctx;
	w->own = 0;
	for (uint32_t s = 0; s < p->problem.shards; s++)
		if (w->link[s].least > w->clock)
			w->clock = w->link[s].least;
	w->clock_known = true;
	if (w->local) {
		for (uint32_t s = 0; s < p->problem.shards; s++)
			tw_vec_copy(w->local + p->problem.border[s],
				    tw_block_floats(w->link[s].view),
				    p->problem.border[s + 1] - p->problem.border[s]);
		if (p->traffic.merge == TW_MERGE_KEEP)
			tw_vec_add(w->local, w->drift, p->problem.trainable);
		else
			tw_vec_fill(w->drift, 0.0f, total(w));
	}
	if (p->delay.steps) {
		const uint32_t depth = tw_plan_memory(p), s = p->problem.shards;

		for (uint32_t k = 0; k < s; k++)
			tw_block_drop(w->past[(depth - 1) * s + k]);
		memmove(w->past + s, w->past, (depth - 1) * s * sizeof *w->past);
		memmove(w->past_version + s, w->past_version,
			(depth - 1) * s * sizeof *w->past_version);
		for (uint32_t k = 0; k < s; k++) {
			w->past[k] = tw_block_keep(w->link[k].view);
			w->past_version[k] = w->link[k].version;
		}
		if (w->pasts < depth)
			w->pasts++;
	}
}

/* --- the worker's part of a cut ------------------------------------------------------------ */

/* The rate of the momentum from parameter `from` on. */
struct part_rate {
	uint64_t from;
	float rate;
	uint32_t zero;
};

/* As they go into a part, *bytes long; NULL without memory. */
static struct part_rate *pack_momentum_rates(struct worker *w, size_t *bytes)
{
	const uint32_t shards = w->momentum ? w->plan->problem.shards : 0;
	struct part_rate *rates = zeros(w, shards * sizeof *rates);

	for (uint32_t s = 0; rates && s < shards; s++)
		rates[s] = (struct part_rate){ w->plan->problem.border[s], w->momentum_rate[s], 0 };
	*bytes = shards * sizeof *rates;
	return rates;
}

/* The shards may have other borders now: each takes the rate that its first parameter had. */
static enum tw_status restore_momentum_rates(struct worker *w, const struct tw_array *a)
{
	if (!a || a->kind != TW_BYTES || a->n == 0 || a->n % sizeof(struct part_rate))
		return TW_BAD_BYTES;
	for (uint32_t s = 0; s < w->plan->problem.shards; s++)
		for (size_t k = 0; k < a->n / sizeof(struct part_rate); k++) {
			struct part_rate one;

			memcpy(&one, (const uint8_t *)a->at + k * sizeof one, sizeof one);
			if (!(one.rate >= 0.0f && one.rate <= FLT_MAX))
				return TW_BAD_BYTES;
			if (one.from <= w->plan->problem.border[s])
				w->momentum_rate[s] = one.rate;
		}
	return TW_OK;
}

struct tw_block *tw_step_part(struct worker *w)
{
	struct tw_array list[3 + TW_RULE_ARRAYS];
	size_t count = 0, rates_bytes;
	struct part_rate *rates = pack_momentum_rates(w, &rates_bytes);
	struct tw_block *b;

	if (!rates)
		return NULL;

	list[count] = (struct tw_array){ .n = sizeof w->local_count,
					 .kind = TW_BYTES,
					 .at = &w->local_count };
	snprintf(list[count++].name, sizeof list[0].name, "worker");
	if (w->momentum) {
		list[count] =
			(struct tw_array){ .n = total(w), .kind = TW_FLOATS, .at = w->momentum };
		snprintf(list[count++].name, sizeof list[0].name, "momentum");
		list[count] = (struct tw_array){ .n = rates_bytes, .kind = TW_BYTES, .at = rates };
		snprintf(list[count++].name, sizeof list[0].name, "momentum.rates");
	}
	for (uint32_t k = 0; w->plan->local.rule && k < w->plan->local.rule->arrays; k++) {
		list[count] = (struct tw_array){ .n = total(w),
						 .kind = TW_FLOATS,
						 .at = w->local_array[k] };
		snprintf(list[count++].name, sizeof list[0].name, "local.%u", k);
	}
	b = tw_part_pack(w->heap, list, count);
	w->heap->put(w->heap, rates);
	return b;
}

static enum tw_status restore_floats(struct worker *w, const struct tw_array *list, size_t count,
				     const char *name, float *to)
{
	const struct tw_array *a = tw_part_find(list, count, name);

	if (!a || a->kind != TW_FLOATS || a->n != total(w))
		return TW_BAD_BYTES;
	memcpy(to, a->at, a->n * sizeof(float));
	return TW_OK;
}

enum tw_status tw_step_restore(struct worker *w, const uint8_t *bytes, size_t len)
{
	const struct tw_array *a;
	struct tw_array *list;
	enum tw_status st;
	size_t count;
	char name[40];

	st = tw_part_unpack(bytes, len, w->heap, &list, &count);
	if (st != TW_OK)
		return st;
	a = tw_part_find(list, count, "worker");
	if (!a || a->n != sizeof w->local_count)
		st = TW_BAD_BYTES;
	else
		memcpy(&w->local_count, a->at, sizeof w->local_count);
	if (st == TW_OK && w->momentum)
		st = restore_floats(w, list, count, "momentum", w->momentum);
	if (st == TW_OK && w->momentum)
		st = restore_momentum_rates(w, tw_part_find(list, count, "momentum.rates"));
	for (uint32_t k = 0; w->plan->local.rule && k < w->plan->local.rule->arrays && st == TW_OK;
	     k++) {
		snprintf(name, sizeof name, "local.%u", k);
		st = restore_floats(w, list, count, name, w->local_array[k]);
	}
	w->heap->put(w->heap, list);
	return st;
}

void tw_step_forget_momentum(struct worker *w)
{
	if (!w->momentum)
		return;
	tw_vec_fill(w->momentum, 0.0f, total(w));
	tw_vec_fill(w->momentum_rate, 0.0f, w->plan->problem.shards);
}

void tw_step_blank(struct worker *w)
{
	w->local_count = 0;
	tw_step_forget_momentum(w);
	for (uint32_t k = 0; w->plan->local.rule && k < w->plan->local.rule->arrays; k++)
		tw_vec_fill(w->local_array[k], 0.0f, total(w));
}
