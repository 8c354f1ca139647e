/* SPDX-License-Identifier: Apache-2.0 */
/* shard_answer.c - what a worker is sent, what is remembered of it, and requests that wait.
 *
 * Responsible for (2) of the rules in shard.c: an answer comes from one version, and what the
 * worker decodes from it is what `delay` and `gap` compare with later. */
#include "node/shard.h"
#include "vec/vec.h"

#include <string.h>

/* --- answers ------------------------------------------------------------------------------ */

static bool remembers(const struct shard *s)
{
	return (s->plan->staleness->traits & TW_STALENESS_SENT) || s->plan->gaps;
}

static enum tw_status keep_sent(struct shard *s, struct guest *g, struct tw_block *b)
{
	if (!remembers(s))
		return TW_OK;
	if (!g->sent) {
		g->sent = tw_heap_zeros(s->heap, s->memory * sizeof *g->sent);
		if (!g->sent)
			return TW_NO_MEMORY;
	}
	if (g->sent[0].block == b && g->sent[0].n == s->version.n)
		return TW_OK;
	if (g->sent[0].block && g->sent[0].n == s->version.n && tw_line_shows_each(s))
		return TW_OK; /* made again from the same version: the same numbers */
	tw_block_drop(g->sent[s->memory - 1].block);
	memmove(g->sent + 1, g->sent, (s->memory - 1) * sizeof *g->sent);
	g->sent[0] = (struct sent){ s->version.n, tw_block_keep(b) };
	return TW_OK;
}

/* A worker that computes on `base` will never again compute on what it was sent before. */
void tw_shard_forget_sent(struct shard *s, struct guest *g, uint64_t base)
{
	if (!g->sent || s->plan->delay.steps)
		return;
	for (uint32_t k = 1; k < s->memory; k++)
		if (g->sent[k].block && g->sent[k].n < base) {
			tw_block_drop(g->sent[k].block);
			g->sent[k].block = NULL;
		}
}

/* What travels, and what a worker will decode from it: new references. */
struct answer {
	struct tw_block *wire, *decoded;
};

static void drop_answer(struct answer *a)
{
	tw_block_drop(a->wire);
	tw_block_drop(a->decoded);
	*a = (struct answer){ NULL, NULL };
}

static enum tw_status encode_answer(struct shard *s, struct tw_block *shown, struct answer *out)
{
	const struct tw_codec *c = s->plan->traffic.down;
	const struct tw_rng rng = tw_rng_make(s->plan->seed, TW_RNG_CODEC);
	const size_t tail = (s->n - s->trainable) * sizeof(float);
	size_t len = c->bound(s->plan->traffic.down_options, s->trainable);

	if (c->traits & TW_CODEC_IDENTITY) {
		*out = (struct answer){ tw_block_keep(shown), tw_block_keep(shown) };
		return TW_OK;
	}
	*out = (struct answer){ tw_block_new(s->heap, len + tail), tw_pool_take(s->pool) };
	if (!out->wire || !out->decoded ||
	    c->encode(s->plan->traffic.down_options, NULL, &rng, s->version.n,
		      tw_block_floats(shown), s->trainable, out->wire->data, &len) != TW_OK ||
	    c->decode(s->plan->traffic.down_options, out->wire->data, len,
		      tw_block_floats(out->decoded), s->trainable) != TW_OK) {
		drop_answer(out);
		return TW_NO_MEMORY;
	}
	memcpy(out->wire->data + len, tw_block_floats(shown) + s->trainable, tail);
	memcpy(tw_block_floats(out->decoded) + s->trainable, tw_block_floats(shown) + s->trainable,
	       tail);
	out->wire->bytes = len + tail;
	return TW_OK;
}

/* What all workers see is encoded once per version. */
static enum tw_status shared_answer(struct shard *s, struct answer *out)
{
	struct tw_block *shown = tw_line_shown(s);
	struct answer made;

	if (!shown)
		return TW_NO_MEMORY;
	if (!s->wire) {
		if (encode_answer(s, shown, &made) != TW_OK)
			return TW_NO_MEMORY;
		s->wire = made.wire;
		s->decoded = made.decoded;
	}
	*out = (struct answer){ tw_block_keep(s->wire), tw_block_keep(s->decoded) };
	return TW_OK;
}

static enum tw_status own_answer(struct shard *s, const struct guest *g, struct answer *out)
{
	struct tw_block *shown = tw_line_shown_to(s, g);
	enum tw_status st = shown ? encode_answer(s, shown, out) : TW_NO_MEMORY;

	tw_block_drop(shown);
	return st;
}

void tw_shard_fill(struct shard *s, const struct guest *g, struct tw_msg *m, uint64_t number)
{
	m->h.view = s->generation;
	m->h.shard = m->h.from = s->index;
	m->h.incarnation = g->incarnation;
	m->b.params =
		(struct tw_body_params){ .version = s->version,
					 .seq = g->seq,
					 .round = s->round,
					 .number = number,
					 .least = s->clocks.active_count ? s->clocks.least : 0,
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

struct tw_block *tw_shard_snapshot(struct shard *s)
{
	return tw_shard_lockfree(s) ? glance(s) : tw_block_keep(s->w);
}

/* The worker is told, whichever answer reaches it. */
static uint32_t bad_flags(const struct guest *g)
{
	return tw_guest_is_bad(g) ? TW_FLAG_REFUSED | TW_FLAG_NUMBERS : 0;
}

void tw_shard_answer(struct shard *s, struct tw_context *ctx, uint32_t slot, uint64_t number,
		     uint32_t flags)
{
	struct guest *g = &s->guest[slot];
	struct answer a = { NULL, NULL };
	enum tw_status st;
	struct tw_msg *m;

	if (tw_shard_lockfree(s))
		st = (a.wire = glance(s)) ? TW_OK : TW_NO_MEMORY;
	else
		st = tw_line_shows_each(s) ? own_answer(s, g, &a) : shared_answer(s, &a);
	if (st == TW_OK && a.decoded)
		st = keep_sent(s, g, a.decoded);
	m = st == TW_OK ? tw_msg_to(ctx, g->addr, TW_PARAMS) : NULL;
	if (m) {
		tw_shard_fill(s, g, m, number);
		m->h.flags |= flags | bad_flags(g);
		m->payload = tw_block_keep(a.wire);
		m->h.payload = (uint32_t)a.wire->bytes;
		tw_send(ctx, m);
	}
	drop_answer(&a);
	if (st != TW_OK)
		tw_give_up(ctx, st, "no memory for an answer of %zu parameters", s->n);
}

void tw_shard_acknowledge(struct shard *s, struct tw_context *ctx, uint32_t slot, uint32_t flags)
{
	struct tw_msg *m = tw_msg_to(ctx, s->guest[slot].addr, TW_ACK);

	if (!m)
		return;
	m->h.view = s->generation;
	m->h.shard = m->h.from = s->index;
	m->h.flags = flags | bad_flags(&s->guest[slot]);
	m->h.incarnation = s->guest[slot].incarnation;
	m->b.ack.seq = s->guest[slot].seq;
	m->b.ack.version = s->version;
	tw_send(ctx, m);
}

/* --- requests that wait ------------------------------------------------------------------- */

/* A request that was late on its way, while the worker has a newer one parked here. */
bool tw_shard_outdated(const struct guest *g, uint64_t number)
{
	return g->parked && number < g->number;
}

void tw_shard_park(struct shard *s, struct tw_context *ctx, uint32_t slot, uint64_t number,
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

void tw_shard_unpark(struct shard *s, uint32_t slot)
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

bool tw_shard_may_read(const struct shard *s, uint32_t slot, uint64_t round, uint32_t *whom)
{
	const struct tw_gate *gate = s->plan->gate;

	*whom = UINT32_MAX;
	if (tw_shard_rounds(s))
		return s->round >= round;
	return !gate->may_read || gate->may_read(s->plan->gate_options, &s->clocks, slot, whom);
}

void tw_shard_release(struct shard *s, struct tw_context *ctx)
{
	uint32_t kept = 0, whom;

	for (uint32_t k = 0; k < s->queued; k++) {
		const uint32_t slot = s->queue[k];
		struct guest *g = &s->guest[slot];

		if (!tw_shard_may_read(s, slot, g->round, &whom)) {
			s->queue[kept++] = slot;
			continue;
		}
		g->parked = false;
		tw_shard_answer(s, ctx, slot, g->number, 0);
	}
	s->queued = kept;
}
