/* SPDX-License-Identifier: Apache-2.0 */
/* shard.c - one contiguous range of the parameters, and the right to change it.
 *
 *  (1) a version is (incarnation, n); n counts applied updates and never goes back; a shard that is
 *      hosted again begins a new incarnation, and a push on another incarnation is refused and
 *      answered with what there is now.
 *  (2) an answer comes from one version: a snapshot is counted, and written by nobody while held.
 *  (3) a contribution (worker, incarnation, seq) is taken once: an older seq is acknowledged again
 *      and not applied, a seq that leaves a gap is left alone until the sender fills the gap, so a
 *      sender may always resend what was not acknowledged, in order.
 *  (4) a slice is applied whole or not at all: it is checked (length, finite values) before.
 *  (5) under round gates only COMMIT applies: what is staged waits for it, whoever dies meanwhile.
 *  (6) what is older than the shard's generation is fenced.
 *  (7) it obeys the newest master only.
 *
 * See docs/RATIONALE.md for why a shard, and not a chunk, is the unit of all this. */
#include "node/part.h"
#include "node/shard.h"
#include "vec/vec.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool rounds(const struct shard *s)
{
	return s->plan->gate->traits & TW_GATE_ROUNDS;
}

/* --- memory ----------------------------------------------------------------------------- */

static void guest_clear(struct shard *s, struct guest *g)
{
	for (uint32_t k = 0; g->sent && k < s->memory; k++)
		tw_block_drop(g->sent[k].block);
	if (g->sent)
		s->heap->put(s->heap, g->sent);
	tw_block_drop(g->mine);
	tw_block_drop(g->last);
	g->sent = NULL;
	g->mine = g->last = NULL;
}

static void unstage(struct guest *g)
{
	tw_block_drop(g->staged);
	g->staged = NULL;
}

static void let_go(struct shard *s)
{
	for (uint32_t k = 0; s->guest && k < s->plan->workers; k++) {
		guest_clear(s, &s->guest[k]);
		unstage(&s->guest[k]);
	}
	for (uint32_t k = 0; s->bucket && k < s->collected; k++)
		tw_block_drop(s->bucket[k].block);
	tw_line_changed(s);
	tw_block_drop(s->w);
	tw_block_drop(s->pinned);
	for (uint32_t k = 0; k < TW_RULE_ARRAYS; k++)
		s->heap->put(s->heap, s->array[k]);
	for (uint32_t k = 0; k < TW_STALENESS_ARRAYS; k++)
		s->heap->put(s->heap, s->policy[k]);
	void *const plain[] = { s->tile,  s->guest, s->clock,  s->active,
				s->idle, s->queue, s->bucket, s->last_set };
	for (size_t k = 0; k < sizeof plain / sizeof plain[0]; k++)
		s->heap->put(s->heap, plain[k]);
	tw_spans_release(&s->applied);
	tw_spans_release(&s->twice);
	tw_pool_free(s->pool);
	*s = (struct shard){ .plan = s->plan,
			     .heap = s->heap,
			     .index = s->index,
			     .generation = s->generation,
			     .term = s->term };
	tw_spans_init(&s->applied, s->heap);
	tw_spans_init(&s->twice, s->heap);
}

static struct tw_actor *shard_new(struct tw_heap *heap, const void *arg)
{
	const struct tw_role_arg *a = arg;
	struct shard *s = tw_heap_zeros(heap, sizeof *s);

	if (!s)
		return NULL;
	s->plan = a->plan;
	s->heap = heap;
	s->index = a->index;
	tw_spans_init(&s->applied, heap);
	tw_spans_init(&s->twice, heap);
	return (struct tw_actor *)s;
}

static void shard_free(struct tw_actor *a)
{
	struct shard *s = (struct shard *)a;

	if (!s)
		return;
	let_go(s);
	s->heap->put(s->heap, s);
}

static void *zeros(struct shard *s, size_t bytes)
{
	return tw_heap_zeros(s->heap, bytes ? bytes : 1);
}

/* Everything a hosted shard needs; TW_NO_MEMORY leaves what there is to let_go. */
static enum tw_status furnish(struct shard *s)
{
	const struct tw_plan *p = s->plan;
	const size_t all = p->workers;

	s->from = p->border[s->index];
	s->n = p->border[s->index + 1] - s->from;
	s->trainable = p->trainable <= s->from		 ? 0
		       : p->trainable - s->from < s->n ? p->trainable - s->from
						       : s->n;
	s->memory = tw_plan_memory(p);
	s->streams = s->n * sizeof(float) > 1u << 20;
	s->rate_max = tw_schedule_largest(&p->schedule);
	s->pool = tw_pool_new(s->heap, s->n * sizeof(float));
	s->tile = zeros(s, 4 * TW_TILE * sizeof(float));
	s->guest = zeros(s, all * sizeof *s->guest);
	s->clock = zeros(s, all * sizeof *s->clock);
	s->active = zeros(s, all);
	s->idle = zeros(s, all);
	s->queue = zeros(s, all * sizeof *s->queue);
	s->bucket = zeros(s, (all + 1) * sizeof *s->bucket);
	s->last_set = zeros(s, all * sizeof *s->last_set);
	if (!s->pool || !s->tile || !s->guest || !s->clock || !s->active || !s->idle || !s->queue ||
	    !s->bucket || !s->last_set)
		return TW_NO_MEMORY;
	s->clocks = (struct tw_clocks){ .clock = s->clock, .active = s->active, .slots = p->workers };
	for (uint32_t k = 0; k < p->rule->arrays; k++)
		if (!(s->array[k] = zeros(s, s->n * sizeof(float))))
			return TW_NO_MEMORY;
	for (uint32_t k = 0; k < p->staleness->arrays; k++)
		if (!(s->policy[k] = zeros(s, s->n * sizeof(float))))
			return TW_NO_MEMORY;
	s->w = tw_pool_take(s->pool);
	return s->w ? TW_OK : TW_NO_MEMORY;
}

/* --- clocks ----------------------------------------------------------------------------- */

static void find_least(struct shard *s)
{
	struct tw_clocks *c = &s->clocks;

	c->active_count = 0;
	s->at_least = 0;
	for (uint32_t k = 0; k < c->slots; k++) {
		if (!s->active[k])
			continue;
		c->active_count++;
		if (s->at_least == 0 || s->clock[k] < c->least) {
			c->least = s->clock[k];
			c->least_slot = k;
			s->at_least = 1;
		} else if (s->clock[k] == c->least) {
			s->at_least++;
		}
	}
}

static void tick(struct shard *s, uint32_t slot)
{
	if (s->active[slot] && s->clock[slot] == s->clocks.least) {
		s->clock[slot]++;
		if (--s->at_least == 0 || s->clocks.least_slot == slot)
			find_least(s);
		return;
	}
	s->clock[slot]++;
}

static void set_active(struct shard *s, uint32_t slot)
{
	const bool on = s->guest[slot].state == TW_LIVE && !s->idle[slot];

	if (on == s->active[slot])
		return;
	/* a joiner, or one that comes back from idleness, starts at the smallest live clock */
	if (on && s->clocks.active_count && s->clock[slot] < s->clocks.least)
		s->clock[slot] = s->clocks.least;
	s->active[slot] = on;
	find_least(s);
}

/* --- answers ---------------------------------------------------------------------------- */

static bool remembers(const struct shard *s)
{
	return (s->plan->staleness->traits & TW_STALENESS_SENT) || s->plan->gaps;
}

static enum tw_status keep_sent(struct shard *s, struct guest *g, struct tw_block *b)
{
	if (!remembers(s))
		return TW_OK;
	if (!g->sent) {
		g->sent = zeros(s, s->memory * sizeof *g->sent);
		if (!g->sent)
			return TW_NO_MEMORY;
	}
	if (g->sent[0].block == b && g->sent[0].n == s->version.n)
		return TW_OK;
	tw_block_drop(g->sent[s->memory - 1].block);
	memmove(g->sent + 1, g->sent, (s->memory - 1) * sizeof *g->sent);
	g->sent[0] = (struct sent){ s->version.n, tw_block_keep(b) };
	return TW_OK;
}

/* A worker that computes on `base` will never again compute on what it was sent before. */
static void forget_sent(struct shard *s, struct guest *g, uint64_t base)
{
	if (!g->sent || s->plan->delay)
		return;
	for (uint32_t k = 1; k < s->memory; k++)
		if (g->sent[k].block && g->sent[k].n < base) {
			tw_block_drop(g->sent[k].block);
			g->sent[k].block = NULL;
		}
}

/* What travels (a reference of the shard's) and what the worker will decode from it. */
static enum tw_status encoded(struct shard *s, struct tw_block **wire, struct tw_block **decoded)
{
	const struct tw_codec *c = s->plan->down;
	const struct tw_rng rng = tw_rng_make(s->plan->seed, TW_RNG_CODEC);
	const size_t tail = (s->n - s->trainable) * sizeof(float);
	struct tw_block *shown = tw_line_shown(s);
	size_t len;

	if (!shown)
		return TW_NO_MEMORY;
	if (c->traits & TW_CODEC_IDENTITY) {
		*wire = *decoded = shown;
		return TW_OK;
	}
	if (!s->wire) {
		len = c->bound(s->plan->down_options, s->trainable);
		s->wire = tw_block_new(s->heap, len + tail);
		s->decoded = tw_pool_take(s->pool);
		if (!s->wire || !s->decoded)
			goto fail;
		if (c->encode(s->plan->down_options, NULL, &rng, s->version.n,
			      tw_block_floats(shown), s->trainable, s->wire->data, &len) != TW_OK)
			goto fail;
		if (c->decode(s->plan->down_options, s->wire->data, len, tw_block_floats(s->decoded),
			      s->trainable) != TW_OK)
			goto fail;
		memcpy(s->wire->data + len, tw_block_floats(shown) + s->trainable, tail);
		memcpy(tw_block_floats(s->decoded) + s->trainable,
		       tw_block_floats(shown) + s->trainable, tail);
		s->wire->bytes = len + tail;
	}
	*wire = s->wire;
	*decoded = s->decoded;
	return TW_OK;
fail:
	tw_block_drop(s->wire);
	tw_block_drop(s->decoded);
	s->wire = s->decoded = NULL;
	return TW_NO_MEMORY;
}

static void fill_params(struct shard *s, const struct guest *g, struct tw_msg *m, uint64_t number)
{
	m->h.view = s->generation;
	m->h.shard = m->h.from = s->index;
	m->h.incarnation = g->incarnation;
	m->b.params = (struct tw_body_params){ .version = s->version,
					       .seq = g->seq,
					       .round = s->round,
					       .number = number,
					       .statistic = s->statistic,
					       .rate = tw_line_rate(s),
					       .live = s->live };
}

/* A copy of parameters that others are writing (LOCKFREE). */
static struct tw_block *glance(struct shard *s)
{
	struct tw_block *b = tw_pool_take(s->pool);
	const _Atomic uint32_t *from = (const _Atomic uint32_t *)s->w->data;

	if (!b)
		return NULL;
	for (size_t i = 0; i < s->n; i++)
		((uint32_t *)b->data)[i] = atomic_load_explicit(&from[i], memory_order_relaxed);
	return b;
}

static bool lockfree(const struct shard *s)
{
	return s->plan->gate->traits & TW_GATE_LOCKFREE;
}

static void answer(struct shard *s, struct tw_context *ctx, uint32_t slot, uint64_t number,
		   uint32_t flags)
{
	struct guest *g = &s->guest[slot];
	struct tw_block *wire, *decoded;
	struct tw_msg *m;

	if (lockfree(s)) {
		wire = decoded = glance(s);
		if (!wire) {
			tw_give_up(ctx, TW_NO_MEMORY, "no memory for an answer");
			return;
		}
	} else if (encoded(s, &wire, &decoded) != TW_OK || keep_sent(s, g, decoded) != TW_OK) {
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for an answer of %zu parameters", s->n);
		return;
	}
	m = tw_msg_to(ctx, g->addr, TW_PARAMS);
	if (m) {
		fill_params(s, g, m, number);
		m->h.flags |= flags;
		m->payload = tw_block_keep(wire);
		m->h.payload = (uint32_t)wire->bytes;
		tw_send(ctx, m);
	}
	if (lockfree(s))
		tw_block_drop(wire);
}

static void acknowledge(struct shard *s, struct tw_context *ctx, uint32_t slot, uint32_t flags)
{
	struct tw_msg *m = tw_msg_to(ctx, s->guest[slot].addr, TW_ACK);

	if (!m)
		return;
	m->h.view = s->generation;
	m->h.shard = m->h.from = s->index;
	m->h.flags = flags;
	m->h.incarnation = s->guest[slot].incarnation;
	m->b.ack.seq = s->guest[slot].seq;
	m->b.ack.version = s->version;
	tw_send(ctx, m);
}

static void park(struct shard *s, struct tw_context *ctx, uint32_t slot, uint64_t number,
		 uint64_t round)
{
	struct guest *g = &s->guest[slot];

	if (!g->parked) {
		g->parked = true;
		g->since = tw_now(ctx);
		s->queue[s->queued++] = slot;
	}
	g->number = number;
	g->round = round;
}

static void unpark(struct shard *s, uint32_t slot)
{
	uint32_t kept = 0;

	if (!s->guest[slot].parked)
		return;
	s->guest[slot].parked = false;
	for (uint32_t k = 0; k < s->queued; k++)
		if (s->queue[k] != slot)
			s->queue[kept++] = s->queue[k];
	s->queued = kept;
}

static bool may_read(const struct shard *s, uint32_t slot, uint64_t round, uint32_t *whom)
{
	const struct tw_gate *gate = s->plan->gate;

	*whom = UINT32_MAX;
	if (rounds(s))
		return s->round >= round;
	return !gate->may_read || gate->may_read(s->plan->gate_options, &s->clocks, slot, whom);
}

/* Answer every parked request that may go now, oldest first. */
static void release(struct shard *s, struct tw_context *ctx)
{
	uint32_t kept = 0, whom;

	for (uint32_t k = 0; k < s->queued; k++) {
		const uint32_t slot = s->queue[k];
		struct guest *g = &s->guest[slot];

		if (!may_read(s, slot, g->round, &whom)) {
			s->queue[kept++] = slot;
			continue;
		}
		g->parked = false;
		answer(s, ctx, slot, g->number, 0);
	}
	s->queued = kept;
}

/* --- contributions ---------------------------------------------------------------------- */

/* The slice as floats, checked whole; NULL with *st saying why. */
static struct tw_block *unpacked(struct shard *s, const struct tw_msg *m, const float **at,
				 enum tw_status *st)
{
	const struct tw_codec *c = s->plan->up;
	const size_t tail = (s->n - s->trainable) * sizeof(float);
	const size_t len = m->h.payload;
	struct tw_block *b;

	*st = TW_BAD_BYTES;
	if (!m->payload || len < tail)
		return NULL;
	if (c->traits & TW_CODEC_IDENTITY) {
		*at = (const float *)tw_msg_payload(m);
		if (len != s->n * sizeof(float) || !tw_vec_finite(*at, s->n))
			return NULL;
		*st = TW_OK;
		return tw_block_keep(m->payload);
	}
	b = tw_pool_take(s->pool);
	if (!b) {
		*st = TW_NO_MEMORY;
		return NULL;
	}
	*st = c->decode(s->plan->up_options, tw_msg_payload(m), len - tail, tw_block_floats(b),
			s->trainable);
	memcpy(tw_block_floats(b) + s->trainable, tw_msg_payload(m) + len - tail, tail);
	*at = tw_block_floats(b);
	if (*st == TW_OK && !tw_vec_finite(tw_block_floats(b) + s->trainable, s->n - s->trainable))
		*st = TW_BAD_BYTES;
	if (*st == TW_OK)
		return b;
	tw_block_drop(b);
	return NULL;
}

static void have(struct shard *s, struct tw_context *ctx, uint32_t slot, uint32_t flags)
{
	const struct guest *g = &s->guest[slot];
	struct tw_msg *m = tw_msg_to(ctx, tw_master_addr(), TW_HAVE);

	if (!m)
		return;
	m->h.view = s->generation;
	m->h.shard = m->h.from = s->index;
	m->h.flags = flags;
	m->b.have = (struct tw_body_have){ .round = g->push.round,
					   .slot = slot,
					   .incarnation = g->incarnation,
					   .samples = g->push.samples,
					   .steps = g->push.steps,
					   .loss = g->push.loss };
	tw_send(ctx, m);
}

static uint64_t staleness_of(const struct shard *s, const struct tw_body_push *p)
{
	const uint64_t since = s->version.n - p->base.n;

	return since > p->own ? since - p->own : 0;
}

static void flush_bucket(struct shard *s, struct tw_context *ctx)
{
	enum tw_status st = tw_line_update(s, ctx, s->bucket, s->collected);

	for (uint32_t k = 0; k < s->collected; k++)
		tw_block_drop(s->bucket[k].block);
	s->collected = 0;
	if (st != TW_OK)
		tw_give_up(ctx, st, "no memory for an update of %zu parameters", s->n);
}

/* A contribution that the gate has not seen: through the line now, or into the bucket. */
static void admit(struct shard *s, struct tw_context *ctx, uint32_t slot, struct tw_block *b,
		  const float *at, const struct tw_body_push *push)
{
	const struct tw_gate *gate = s->plan->gate;
	struct guest *g = &s->guest[slot];
	struct contribution *c = &s->bucket[s->collected];

	*c = (struct contribution){ .slot = slot,
				    .incarnation = g->incarnation,
				    .seq = g->seq,
				    .tau = staleness_of(s, push),
				    .block = tw_block_keep(b),
				    .g = at,
				    .push = *push };
	s->collected++;
	forget_sent(s, g, push->base.n);
	if (gate->admit(s->plan->gate_options, slot, c->tau) == TW_APPLY ||
	    gate->full(s->plan->gate_options, s->collected))
		flush_bucket(s, ctx);
	tick(s, slot);
}

static void refuse(struct shard *s, struct tw_context *ctx, uint32_t slot, const struct tw_msg *m)
{
	s->guest[slot].seq = m->h.seq;
	tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_REFUSED, .shard = s->index, .slot = slot,
					.seq = m->h.seq });
	if (m->h.flags & TW_FLAG_ANSWER)
		answer(s, ctx, slot, m->b.push.number, TW_FLAG_REFUSED);
	else
		acknowledge(s, ctx, slot, TW_FLAG_REFUSED);
}

/* The answer to a push that was taken: now, when the gate allows, or an acknowledgement only. */
static void reply(struct shard *s, struct tw_context *ctx, uint32_t slot, const struct tw_msg *m)
{
	uint32_t whom;

	if (!(m->h.flags & TW_FLAG_ANSWER)) {
		acknowledge(s, ctx, slot, 0);
	} else if (may_read(s, slot, m->b.push.round + 1, &whom)) {
		unpark(s, slot);
		answer(s, ctx, slot, m->b.push.number, 0);
	} else {
		park(s, ctx, slot, m->b.push.number, m->b.push.round + 1);
		acknowledge(s, ctx, slot, TW_FLAG_HELD);
	}
}

static void stage(struct shard *s, struct tw_context *ctx, uint32_t slot, struct tw_block *b,
		  const float *at, const struct tw_msg *m)
{
	struct guest *g = &s->guest[slot];

	unstage(g);
	g->staged = tw_block_keep(b);
	g->staged_at = at;
	g->staged_incarnation = m->h.incarnation;
	g->push = m->b.push;
	g->staged_seq = m->h.seq;
	forget_sent(s, g, m->b.push.base.n);
	if (m->h.flags & TW_FLAG_ANSWER)
		park(s, ctx, slot, m->b.push.number, m->b.push.round + 1);
	have(s, ctx, slot, 0);
}

static void member(struct shard *s, struct tw_context *ctx, const struct tw_member *m);

/* Somebody who was removed, and has not heard of it. */
static void turn_away(struct tw_context *ctx, const struct tw_msg *m)
{
	struct tw_msg *no;

	if (m->h.flags & TW_FLAG_RELAYED)
		return;
	no = tw_msg_to(ctx, m->from, TW_REFUSE);
	if (!no)
		return;
	no->h.incarnation = m->h.incarnation;
	no->b.refuse.why = TW_REFUSED_FENCED;
	tw_send(ctx, no);
}

/* Is this message from a worker that may talk to this shard?  Its guest is up to date then. */
static struct guest *admitted(struct shard *s, struct tw_context *ctx, const struct tw_msg *m)
{
	const uint32_t slot = m->h.from;
	struct guest *g;

	if (!s->hosted || slot >= s->plan->workers || m->h.view != s->generation) {
		s->tally.fenced++;
		return NULL;
	}
	g = &s->guest[slot];
	if (m->h.incarnation < g->incarnation ||
	    (m->h.incarnation == g->incarnation && g->state != TW_LIVE)) {
		s->tally.fenced++;
		turn_away(ctx, m);
		return NULL;
	}
	if (m->h.incarnation > g->incarnation) /* the master's view is on its way */
		member(s, ctx, &(struct tw_member){ slot, m->h.incarnation, TW_LIVE, 0 });
	if (m->h.flags & TW_FLAG_RELAYED)
		memcpy(&g->addr, m->tail->data, sizeof g->addr);
	else
		g->addr = m->from;
	return g;
}

/* The books of a contribution that a lock-free worker applied by itself. */
static void count(struct shard *s, struct tw_context *ctx, uint32_t slot,
		  const struct tw_body_push *push)
{
	const struct contribution c = { .slot = slot,
					.incarnation = s->guest[slot].incarnation,
					.seq = s->guest[slot].seq,
					.tau = staleness_of(s, push),
					.push = *push };

	if (tw_line_count(s, ctx, &c) != TW_OK)
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for a shard's history");
	tick(s, slot);
}

static void push(struct shard *s, struct tw_context *ctx, struct tw_msg *m)
{
	struct guest *g = admitted(s, ctx, m);
	const uint32_t slot = m->h.from;
	enum tw_status st = TW_OK;
	const float *at = NULL;
	struct tw_block *b;

	if (!g)
		return;
	if (m->h.seq <= g->seq) { /* (3): seen */
		if (rounds(s) || !(m->h.flags & TW_FLAG_ANSWER))
			acknowledge(s, ctx, slot, 0);
		if (m->h.flags & TW_FLAG_ANSWER)
			reply(s, ctx, slot, m);
		return;
	}
	if (m->b.push.ranges > TW_RANGES || !(m->b.push.weight > 0.0f) ||
	    !(m->b.push.divide > 0.0f) ||
	    m->b.push.base.n > s->version.n) {
		s->tally.refused++;
		refuse(s, ctx, slot, m);
		return;
	}
	if (m->b.push.base.incarnation != s->version.incarnation) { /* (1) */
		s->tally.fenced++;
		refuse(s, ctx, slot, m);
		return;
	}
	if (m->h.seq != g->seq + 1) /* (3): a gap */
		return;
	if (rounds(s) && m->b.push.round < s->round) { /* too late */
		g->seq = m->h.seq;
		s->tally.dropped_pushes++;
		tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_DROP, .shard = s->index,
						.slot = slot, .seq = m->h.seq,
						.from = m->b.push.range[0].from,
						.count = m->b.push.samples });
		answer(s, ctx, slot, m->b.push.number, TW_FLAG_DROPPED);
		return;
	}
	if (m->h.flags & TW_FLAG_APPLIED)
		b = tw_block_keep(s->w);
	else if (m->h.flags & TW_FLAG_SKIPPED)
		b = tw_block_keep(g->last), at = g->last_at;
	else
		b = unpacked(s, m, &at, &st);
	if (st == TW_NO_MEMORY) {
		tw_give_up(ctx, st, "no memory for a contribution");
		return;
	}
	if (!b) {
		s->tally.refused++;
		if (rounds(s)) {
			g->push = m->b.push;
			g->seq = m->h.seq;
			have(s, ctx, slot, TW_FLAG_REFUSED);
			if (m->h.flags & TW_FLAG_ANSWER)
				park(s, ctx, slot, m->b.push.number, m->b.push.round + 1);
			return;
		}
		refuse(s, ctx, slot, m);
		return;
	}
	if (rounds(s)) {
		stage(s, ctx, slot, b, at, m);
		tw_block_drop(b);
		return;
	}
	g->seq = m->h.seq;
	if (m->h.flags & TW_FLAG_APPLIED) {
		count(s, ctx, slot, &m->b.push);
	} else {
		if (s->plan->skip_push == s->plan->skip_push) { /* not NAN: it may skip pushes */
			tw_block_keep(b);
			tw_block_drop(g->last);
			g->last = b;
			g->last_at = at;
		}
		admit(s, ctx, slot, b, at, &m->b.push);
	}
	tw_block_drop(b);
	reply(s, ctx, slot, m);
	if (s->queued && (s->plan->gate->traits & TW_GATE_HOLDS))
		release(s, ctx);
}

static void commit(struct shard *s, struct tw_context *ctx, const struct tw_msg *m)
{
	const uint32_t count = m->b.commit.count;
	const struct tw_member *set = m->tail ? (const void *)m->tail->data : NULL;

	if (!s->hosted || m->h.view != s->generation || m->b.commit.round != s->round)
		return;
	HOLDS(5, count <= s->plan->workers && count * sizeof *set == m->h.tail);
	for (uint32_t k = 0; k < count; k++) {
		struct guest *g = &s->guest[set[k].slot];

		HOLDS(5, g->staged && g->push.round == s->round &&
				 g->staged_incarnation == set[k].incarnation);
		s->bucket[k] = (struct contribution){ .slot = set[k].slot,
						      .incarnation = set[k].incarnation,
						      .seq = g->staged_seq,
						      .tau = staleness_of(s, &g->push),
						      .block = g->staged,
						      .g = g->staged_at,
						      .push = g->push };
		g->staged = NULL;
		if (g->staged_incarnation == g->incarnation)
			g->seq = g->staged_seq;
	}
	s->collected = count;
	flush_bucket(s, ctx);
	if (count)
		memcpy(s->last_set, set, m->h.tail);
	s->last_count = count;
	s->round++;
	tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_COMMIT, .shard = s->index,
					.round = s->round - 1, .count = count,
					.version = s->version.n });
	for (uint32_t k = 0; k < s->plan->workers; k++) { /* staged, but not in the set */
		struct guest *g = &s->guest[k];

		if (!g->staged)
			continue;
		unstage(g);
		if (g->staged_incarnation == g->incarnation)
			g->seq = g->staged_seq;
		s->tally.dropped_pushes++;
		tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_DROP, .shard = s->index, .slot = k,
						.seq = g->seq, .from = g->push.range[0].from,
						.count = g->push.samples });
	}
	release(s, ctx);
}

/* --- reading ---------------------------------------------------------------------------- */

static void pull(struct shard *s, struct tw_context *ctx, const struct tw_msg *m)
{
	const struct tw_body_pull *p = &m->b.pull;
	struct guest *g = admitted(s, ctx, m);
	const uint32_t slot = m->h.from;
	uint32_t whom;

	if (!g)
		return;
	if (p->pin) {
		struct tw_msg *a;

		if (p->pin != s->pin || !s->pinned)
			return;
		a = tw_msg_to(ctx, g->addr, TW_PARAMS);
		if (!a)
			return;
		fill_params(s, g, a, p->number);
		a->b.params.pin = p->pin;
		a->h.flags = TW_FLAG_FREE;
		a->payload = tw_block_keep(s->pinned);
		a->h.payload = (uint32_t)(s->n * sizeof(float));
		tw_send(ctx, a);
		return;
	}
	if (m->h.seq > g->seq)
		g->seq = m->h.seq;
	if (!may_read(s, slot, p->round, &whom)) {
		park(s, ctx, slot, p->number, p->round);
		return;
	}
	unpark(s, slot);
	if (!(m->h.flags & TW_FLAG_FRESH) && p->have.incarnation == s->version.incarnation &&
	    p->have.n == s->version.n && !lockfree(s)) {
		struct tw_msg *a = tw_msg_to(ctx, g->addr, TW_UNCHANGED);

		if (!a)
			return;
		fill_params(s, g, a, p->number);
		tw_send(ctx, a);
		return;
	}
	answer(s, ctx, slot, p->number, 0);
}

static void pin(struct shard *s, struct tw_context *ctx, const struct tw_msg *m)
{
	struct tw_msg *kept;

	if (!s->hosted || m->h.view != s->generation)
		return;
	if (m->b.pin.release || m->b.pin.pin != s->pin) {
		tw_block_drop(s->pinned);
		s->pinned = NULL;
	}
	if (m->b.pin.release)
		return;
	if (!s->pinned)
		s->pinned = lockfree(s) ? glance(s) : tw_block_keep(s->w);
	s->pin = m->b.pin.pin;
	if (!s->pinned) {
		tw_give_up(ctx, TW_NO_MEMORY, "no memory to pin a version");
		return;
	}
	kept = tw_msg_to(ctx, m->from, TW_PIN);
	if (!kept)
		return;
	kept->h.view = s->generation;
	kept->h.shard = kept->h.from = s->index;
	kept->h.flags = TW_FLAG_FREE;
	kept->b.pin = m->b.pin;
	tw_send(ctx, kept);
}

/* --- members ---------------------------------------------------------------------------- */

static void forget(struct shard *s, uint32_t slot)
{
	struct guest *g = &s->guest[slot];

	unpark(s, slot);
	if (g->mine && s->plan->rule->leave) {
		s->plan->rule->leave(s->plan->rule_options, s->array, tw_block_floats(g->mine),
				     s->trainable);
		tw_line_changed(s);
	}
	guest_clear(s, g);
}

static enum tw_status make_mine(struct shard *s, struct guest *g)
{
	if (!(s->plan->rule->traits & TW_RULE_PER_WORKER) || s->plan->send == TW_SEND_MOMENTUM ||
	    g->mine)
		return TW_OK;
	g->mine = tw_block_new(s->heap, s->n * sizeof(float));
	if (!g->mine)
		return TW_NO_MEMORY;
	memset(g->mine->data, 0, g->mine->bytes);
	return TW_OK;
}

static void member(struct shard *s, struct tw_context *ctx, const struct tw_member *m)
{
	struct guest *g = &s->guest[m->slot];

	if (m->incarnation < g->incarnation)
		return;
	if (m->incarnation > g->incarnation) {
		if (g->state == TW_LIVE)
			forget(s, m->slot);
		g->incarnation = m->incarnation;
		g->seq = 0;
		g->state = TW_GONE;
		s->idle[m->slot] = false;
	}
	if (m->state == TW_LIVE && g->state != TW_LIVE) {
		g->state = TW_LIVE;
		if (make_mine(s, g) != TW_OK)
			tw_give_up(ctx, TW_NO_MEMORY, "no memory for a worker's arrays");
	} else if (m->state != TW_LIVE && g->state == TW_LIVE) {
		forget(s, m->slot);
		g->state = (uint8_t)m->state;
	}
	set_active(s, m->slot);
}

static void view(struct shard *s, struct tw_context *ctx, const struct tw_msg *m)
{
	const struct tw_member *list = m->tail ? (const void *)m->tail->data : NULL;
	const size_t count = m->h.tail / sizeof *list;

	if (!s->hosted || m->h.view < s->generation)
		return;
	if (m->h.view > s->generation) { /* (6): everybody starts anew from here */
		s->generation = m->h.view;
		for (uint32_t k = 0; k < s->plan->workers; k++) {
			struct guest *g = &s->guest[k];

			unstage(g);
			unpark(s, k);
			for (uint32_t i = 0; g->sent && i < s->memory; i++) {
				tw_block_drop(g->sent[i].block);
				g->sent[i].block = NULL;
			}
			tw_block_drop(g->last);
			g->last = NULL;
			s->clock[k] = 0;
		}
		find_least(s);
	}
	if (m->h.flags & TW_FLAG_FULL)
		for (uint32_t k = 0; k < s->plan->workers; k++) {
			size_t i = 0;

			while (i < count && list[i].slot != k)
				i++;
			if (i < count)
				continue;
			if (s->guest[k].state == TW_LIVE || s->guest[k].mine)
				forget(s, k);
			s->guest[k].state = TW_GONE;
			set_active(s, k);
		}
	for (size_t k = 0; k < count; k++)
		if (list[k].slot < s->plan->workers)
			member(s, ctx, &list[k]);
	s->live = m->b.view.live;
	if (s->queued)
		release(s, ctx);
}

static void idle(struct shard *s, struct tw_context *ctx, const struct tw_msg *m)
{
	const struct tw_body_idle *i = &m->b.idle;

	if (!s->hosted || m->h.view != s->generation || i->slot >= s->plan->workers ||
	    s->guest[i->slot].incarnation != i->incarnation)
		return;
	s->idle[i->slot] = i->idle;
	set_active(s, i->slot);
	if (s->queued)
		release(s, ctx);
}

/* --- taking and giving up the range ------------------------------------------------------ */

static const char *const numbers_name = "shard";

struct numbers { /* the bytes array of a shard's part */
	uint64_t version, round, corrections, contributions;
	double progress, statistic;
	struct tw_tally tally;
};

static enum tw_status restore_array(struct shard *s, const struct tw_array *list, size_t count,
				    const char *name, float *to)
{
	const struct tw_array *a = tw_part_find(list, count, name);

	if (!a || a->kind != TW_FLOATS || a->from != s->from || a->n != s->n)
		return TW_BAD_BYTES;
	memcpy(to, a->at, s->n * sizeof(float));
	return TW_OK;
}

static enum tw_status restore_spans(struct tw_spans *spans, const struct tw_array *list,
				    size_t count, const char *name)
{
	const struct tw_array *a = tw_part_find(list, count, name);

	if (!a || a->kind != TW_BYTES || a->n % sizeof(struct tw_span))
		return TW_BAD_BYTES;
	for (size_t k = 0; k < a->n / sizeof(struct tw_span); k++) {
		struct tw_span one;
		enum tw_status st;

		memcpy(&one, (const uint8_t *)a->at + k * sizeof one, sizeof one);
		if (one.from >= one.to)
			return TW_BAD_BYTES;
		st = tw_spans_add(spans, one.from, one.to, NULL);
		if (st != TW_OK)
			return st;
	}
	return TW_OK;
}

static void policy_name(char *out, size_t room, uint32_t k)
{
	snprintf(out, room, "staleness.%u", k);
}

static enum tw_status restore(struct shard *s, const struct tw_array *list, size_t count)
{
	const struct tw_array *a = tw_part_find(list, count, numbers_name);
	enum tw_status st = restore_array(s, list, count, "parameters", tw_block_floats(s->w));
	struct numbers x;
	char name[40];

	if (!a || a->n != sizeof x)
		return TW_BAD_BYTES;
	memcpy(&x, a->at, sizeof x);
	s->version.n = x.version;
	s->round = x.round;
	s->corrections = x.corrections;
	s->contributions = x.contributions;
	s->progress = x.progress;
	s->statistic = x.statistic;
	s->tally = x.tally;
	for (uint32_t k = 0; k < s->plan->rule->arrays && st == TW_OK; k++) {
		snprintf(name, sizeof name, "rule.%s", s->plan->rule->array_names[k]);
		st = restore_array(s, list, count, name, s->array[k]);
	}
	for (uint32_t k = 0; k < s->plan->staleness->arrays && st == TW_OK; k++) {
		policy_name(name, sizeof name, k);
		st = restore_array(s, list, count, name, s->policy[k]);
	}
	for (uint32_t k = 0; k < s->plan->workers && st == TW_OK; k++) {
		snprintf(name, sizeof name, "worker.%u", k);
		if (!tw_part_find(list, count, name))
			continue;
		st = make_mine(s, &s->guest[k]);
		if (st == TW_OK && s->guest[k].mine)
			st = restore_array(s, list, count, name, tw_block_floats(s->guest[k].mine));
	}
	if (st == TW_OK)
		st = restore_spans(&s->applied, list, count, "applied");
	return st == TW_OK ? restore_spans(&s->twice, list, count, "twice") : st;
}

static void hosted(struct shard *s, struct tw_context *ctx)
{
	struct tw_msg *m = tw_msg_to(ctx, tw_master_addr(), TW_HOSTED);

	if (!m)
		return;
	m->h.view = s->generation;
	m->h.shard = m->h.from = s->index;
	m->b.host.shard = s->index;
	m->b.host.incarnation = s->version.incarnation;
	tw_send(ctx, m);
}

static void host(struct shard *s, struct tw_context *ctx, const struct tw_msg *m)
{
	const struct tw_body_host *h = &m->b.host;
	enum tw_status st;

	if (s->hosted && s->version.incarnation >= h->incarnation) { /* sent again */
		if (s->version.incarnation == h->incarnation && !h->unhost)
			hosted(s, ctx);
		return;
	}
	let_go(s);
	if (h->unhost)
		return;
	s->generation = m->h.view;
	s->live = h->live;
	st = furnish(s);
	if (st == TW_OK && h->cut == 0) {
		st = ctx->engine->class->init(ctx->engine, s->from, s->n, tw_block_floats(s->w));
	} else if (st == TW_OK) {
		struct tw_array *list;
		size_t count;

		st = m->payload ? tw_part_unpack(m->payload->data, m->h.payload, s->heap, &list,
						 &count)
				: TW_BAD_BYTES;
		if (st == TW_OK) {
			st = restore(s, list, count);
			s->heap->put(s->heap, list);
		}
	}
	if (st != TW_OK) {
		let_go(s);
		tw_give_up(ctx, st, "shard %u cannot be taken from cut %llu: %s", s->index,
			   (unsigned long long)h->cut, tw_status_name(st));
		return;
	}
	s->hosted = true;
	s->version.incarnation = h->incarnation;
	tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_HOSTED, .shard = s->index,
					.incarnation = h->incarnation, .version = s->version.n,
					.seq = h->cut, .before = tw_block_floats(s->w),
					.n = s->n, .from = s->from });
	hosted(s, ctx);
}

/* What is applied, and what is collected and will be; and what is, or will be, applied twice. */
static enum tw_status in_hand(const struct shard *s, struct tw_spans *out, struct tw_spans *twice)
{
	enum tw_status st = tw_spans_copy(out, &s->applied);

	if (st == TW_OK)
		st = tw_spans_copy(twice, &s->twice);

	for (uint32_t k = 0; k < s->collected; k++)
		for (uint32_t r = 0; r < s->bucket[k].push.ranges && st == TW_OK; r++) {
			const struct tw_range *range = &s->bucket[k].push.range[r];

			if (tw_spans_within(out, range->from, range->from + range->count))
				st = tw_spans_add(twice, range->from, range->from + range->count,
						  NULL);
			if (st == TW_OK)
				st = tw_spans_add(out, range->from, range->from + range->count,
						  NULL);
		}
	return st;
}

static void send_state(struct shard *s, struct tw_context *ctx, uint64_t asked, uint32_t flags,
		       const struct tw_spans *hand, const struct tw_spans *twice)
{
	const size_t a = hand->count, t = twice->count;
	struct tw_msg *m = tw_msg_to(ctx, tw_master_addr(), TW_STATE);
	struct tw_span *tail;

	if (!m)
		return;
	m->h.view = s->generation;
	m->h.shard = m->h.from = s->index;
	m->h.flags = flags;
	m->b.state = (struct tw_body_state){ .version = s->version,
					     .round = s->round,
					     .contributions = s->contributions,
					     .asked = asked,
					     .spans = (uint32_t)a,
					     .twice = (uint32_t)t,
					     .members = s->last_count,
					     .progress = s->progress };
	tail = tw_msg_tail(ctx, m, (a + t + s->last_count) * sizeof *tail);
	if (!tail)
		return;
	if (a)
		memcpy(tail, hand->span, a * sizeof *tail);
	if (t)
		memcpy(tail + a, twice->span, t * sizeof *tail);
	if (s->last_count)
		memcpy(tail + a + t, s->last_set, s->last_count * sizeof *tail);
	m->payload = tw_block_new(ctx->heap, sizeof s->tally);
	if (!m->payload) {
		ctx->world->msg_free(ctx, m);
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for a shard's state");
		return;
	}
	memcpy(m->payload->data, &s->tally, sizeof s->tally);
	m->h.payload = sizeof s->tally;
	tw_send(ctx, m);
}

static void state(struct shard *s, struct tw_context *ctx, uint64_t asked, uint32_t flags)
{
	struct tw_spans hand, twice;

	if (!s->hosted)
		return;
	tw_spans_init(&hand, s->heap);
	tw_spans_init(&twice, s->heap);
	if (in_hand(s, &hand, &twice) == TW_OK)
		send_state(s, ctx, asked, flags, &hand, &twice);
	else
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for a shard's state");
	tw_spans_release(&hand);
	tw_spans_release(&twice);
}

/* --- cuts ------------------------------------------------------------------------------- */

static struct tw_array floats(const struct shard *s, const char *name, const float *at)
{
	struct tw_array a = { .from = s->from, .n = s->n, .kind = TW_FLOATS, .at = at };

	snprintf(a.name, sizeof a.name, "%s", name);
	return a;
}

static struct tw_array bytes_of(const char *name, const void *at, size_t bytes)
{
	struct tw_array a = { .n = bytes, .kind = TW_BYTES, .at = at };

	snprintf(a.name, sizeof a.name, "%s", name);
	return a;
}

static struct tw_block *packed(struct shard *s)
{
	const struct tw_plan *p = s->plan;
	const size_t most = 4 + TW_RULE_ARRAYS + TW_STALENESS_ARRAYS + p->workers;
	struct tw_array *list = s->heap->get(s->heap, most * sizeof *list);
	struct tw_block *w = lockfree(s) ? glance(s) : tw_block_keep(s->w);
	struct numbers x = { s->version.n,     s->round,     s->corrections, s->contributions,
			     s->progress, s->statistic, s->tally };
	struct tw_block *b;
	size_t count = 0;
	char name[40];

	if (!list || !w) {
		tw_block_drop(w);
		s->heap->put(s->heap, list);
		return NULL;
	}
	list[count++] = bytes_of(numbers_name, &x, sizeof x);
	list[count++] = bytes_of("applied", s->applied.span, s->applied.count * sizeof(struct tw_span));
	list[count++] = bytes_of("twice", s->twice.span, s->twice.count * sizeof(struct tw_span));
	list[count++] = floats(s, "parameters", tw_block_floats(w));
	for (uint32_t k = 0; k < p->rule->arrays; k++) {
		snprintf(name, sizeof name, "rule.%s", p->rule->array_names[k]);
		list[count++] = floats(s, name, s->array[k]);
	}
	for (uint32_t k = 0; k < p->staleness->arrays; k++) {
		policy_name(name, sizeof name, k);
		list[count++] = floats(s, name, s->policy[k]);
	}
	for (uint32_t k = 0; k < p->workers; k++)
		if (s->guest[k].mine && s->guest[k].state == TW_LIVE) {
			snprintf(name, sizeof name, "worker.%u", k);
			list[count++] = floats(s, name, tw_block_floats(s->guest[k].mine));
		}
	b = tw_part_pack(s->heap, list, count);
	tw_block_drop(w);
	s->heap->put(s->heap, list);
	return b;
}

static void snap(struct shard *s, struct tw_context *ctx, const struct tw_msg *m)
{
	struct tw_msg *out;

	if (!s->hosted || m->h.view != s->generation)
		return;
	if (m->b.snap.flush && s->collected)
		flush_bucket(s, ctx);
	if (!m->b.snap.part)
		return;
	out = tw_msg_to(ctx, tw_master_addr(), TW_PART);
	if (!out)
		return;
	out->h.view = s->generation;
	out->h.shard = out->h.from = s->index;
	out->b.part.cut = m->b.snap.cut;
	out->b.part.round = s->round;
	out->payload = m->b.snap.cut ? packed(s) : tw_block_keep(s->w);
	if (!out->payload) {
		ctx->world->msg_free(ctx, out);
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for a cut of shard %u", s->index);
		return;
	}
	out->h.payload = (uint32_t)out->payload->bytes;
	out->h.flags = m->h.flags & TW_FLAG_FREE;
	tw_send(ctx, out);
}

/* --- lock-free workers -------------------------------------------------------------------- */

/* HOGWILD: many threads at a time.  Only elements with a gradient are written, so workers whose
 * samples touch different elements never overwrite each other. */
static void shard_shared(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	struct shard *s = (struct shard *)a;
	const float *g;
	float rate;
	_Atomic uint32_t *w;
	struct tw_addr *sender;
	struct tw_msg *note;

	if (m->h.type == TW_PUSH && s->hosted && m->payload &&
	    m->h.payload == s->n * sizeof(float) &&
	    tw_vec_finite((const float *)tw_msg_payload(m), s->n)) {
		g = (const float *)tw_msg_payload(m);
		w = (_Atomic uint32_t *)s->w->data;
		rate = tw_schedule_rate(&s->plan->schedule, m->b.push.progress);
		for (size_t i = 0; i < s->trainable; i++) {
			union {
				uint32_t bits;
				float value;
			} x;

			if (g[i] == 0.0f)
				continue;
			x.bits = atomic_load_explicit(&w[i], memory_order_relaxed);
			x.value = fmaf(-rate, g[i] / m->b.push.divide, x.value);
			atomic_store_explicit(&w[i], x.bits, memory_order_relaxed);
		}
		m->h.flags |= TW_FLAG_APPLIED;
	}
	note = tw_msg_to(ctx, ctx->self, (enum tw_type)m->h.type);
	if (!note)
		return;
	note->h = m->h;
	note->b = m->b;
	note->payload = m->h.flags & TW_FLAG_APPLIED ? NULL : tw_block_keep(m->payload);
	note->payload_at = m->payload_at;
	note->h.payload = note->payload ? m->h.payload : 0;
	note->h.flags |= TW_FLAG_RELAYED;
	sender = tw_msg_tail(ctx, note, sizeof *sender);
	if (!sender)
		return;
	*sender = m->from;
	tw_send(ctx, note);
}

/* --- the actor --------------------------------------------------------------------------- */

static void shard_start(struct tw_actor *a, struct tw_context *ctx)
{
	(void)a;
	(void)ctx;
}

static void shard_message(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	struct shard *s = (struct shard *)a;

	/* (7): what an earlier master said may still be on its way when a later one has asked */
	if (m->from.role == TW_MASTER) {
		if (m->h.incarnation < s->term)
			return;
		s->term = m->h.incarnation;
	}
	switch (m->h.type) {
	case TW_PUSH:
		push(s, ctx, m);
		break;
	case TW_PULL:
		pull(s, ctx, m);
		break;
	case TW_COMMIT:
		commit(s, ctx, m);
		break;
	case TW_VIEW:
		view(s, ctx, m);
		break;
	case TW_IDLE:
		idle(s, ctx, m);
		break;
	case TW_HOST:
		host(s, ctx, m);
		break;
	case TW_ASK:
		state(s, ctx, m->b.ask.number, m->h.flags & TW_FLAG_FREE);
		break;
	case TW_PIN:
		pin(s, ctx, m);
		break;
	case TW_SNAP:
		snap(s, ctx, m);
		break;
	default:
		s->tally.refused++;
	}
}

static void shard_up(struct tw_actor *a, struct tw_context *ctx, uint32_t node, uint32_t boot)
{
	struct shard *s = (struct shard *)a;

	if (node != 0)
		return;
	if (boot > s->term)
		s->term = boot;
	if (!s->hosted)
		return;
	state(s, ctx, 0, 0);
	for (uint32_t k = 0; k < s->plan->workers; k++)
		if (s->guest[k].staged)
			have(s, ctx, k, 0);
}

static void shard_timer(struct tw_actor *a, struct tw_context *ctx, uint32_t timer)
{
	(void)a;
	(void)ctx;
	(void)timer;
}

static void shard_down(struct tw_actor *a, struct tw_context *ctx, uint32_t node)
{
	(void)a;
	(void)ctx;
	(void)node;
}

static bool shard_waiting(const struct tw_actor *a, struct tw_wait *out)
{
	const struct shard *s = (const struct shard *)a;
	const struct guest *g;
	uint32_t whom;

	if (!s->queued)
		return false;
	g = &s->guest[s->queue[0]];
	may_read(s, s->queue[0], g->round, &whom);
	*out = (struct tw_wait){ .slot = whom,
				 .step = s->round,
				 .since = g->since,
				 .whom = { whom == UINT32_MAX ? 0
							      : s->guest[whom].addr.node,
					   whom == UINT32_MAX ? TW_MASTER : TW_WORKER, 0 },
				 .why = whom == UINT32_MAX ? "the commit of the round"
							   : "its next contribution" };
	return true;
}

const struct tw_actor_class tw_shard_class = {
	.name = "shard",
	.new = shard_new,
	.free = shard_free,
	.start = shard_start,
	.message = shard_message,
	.timer = shard_timer,
	.down = shard_down,
	.up = shard_up,
	.waiting = shard_waiting,
	.shared = shard_shared,
};
