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
	tw_block_drop(g->sent[s->memory - 1].block);
	memmove(g->sent + 1, g->sent, (s->memory - 1) * sizeof *g->sent);
	g->sent[0] = (struct sent){ s->version.n, tw_block_keep(b) };
	return TW_OK;
}

/* A worker that computes on `base` will never again compute on what it was sent before. */
void tw_shard_forget_sent(struct shard *s, struct guest *g, uint64_t base)
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
		if (c->decode(s->plan->down_options, s->wire->data, len,
			      tw_block_floats(s->decoded), s->trainable) != TW_OK)
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
	struct tw_block *wire, *decoded;
	struct tw_msg *m;

	if (tw_shard_lockfree(s)) {
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
		tw_shard_fill(s, g, m, number);
		m->h.flags |= flags | bad_flags(g);
		m->payload = tw_block_keep(wire);
		m->h.payload = (uint32_t)wire->bytes;
		tw_send(ctx, m);
	}
	if (tw_shard_lockfree(s))
		tw_block_drop(wire);
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
