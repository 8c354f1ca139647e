/* SPDX-License-Identifier: Apache-2.0 */
/* shard_lockfree.c - HOGWILD: workers write a shard's parameters themselves, many at a time, and
 * the shard keeps the books afterwards.
 *
 * What a worker says is handed on to the shard itself as a message that is RELAYED, with the
 * worker's address as its tail, and APPLIED where its push is in the parameters already. */
#include "node/shard/shard.h"
#include "node/half.h"
#include "vec/vec.h"

#include <math.h>

/* w = fmaf(a, x, w) while others do the same; what x leaves alone is not touched. */
static void add_shared(_Atomic uint32_t *w, const float *x, float a, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		union {
			uint32_t bits;
			float value;
		} one;

		if (x[i] == 0.0f)
			continue;
		one.bits = atomic_load_explicit(&w[i], memory_order_relaxed);
		one.value = fmaf(a, x[i], one.value);
		atomic_store_explicit(&w[i], one.bits, memory_order_relaxed);
	}
}

static bool is_good(const struct shard *s, const struct tw_msg *m)
{
	return m->h.type == TW_PUSH && s->hosted && m->payload &&
	       m->h.payload == s->slice.n * sizeof(float) && tw_shard_plausible(s, &m->b.push) &&
	       tw_vec_finite((const float *)tw_msg_payload(m), s->slice.n);
}

/* Only elements with a gradient are written, so workers whose samples touch different elements
 * never overwrite each other. */
static void add_gradient(struct shard *s, const struct tw_msg *m)
{
	const struct slice *p = &s->slice;
	const struct tw_body_push *b = &m->b.push;
	const float *g = (const float *)tw_msg_payload(m);
	const float rate = b->rate; /* that it was told: what is applied is counted elsewhere */
	_Atomic uint32_t *w = (_Atomic uint32_t *)p->w->data;
	float factor;

	for (size_t at = 0, n; at < p->trainable; at += n) {
		n = tw_half_run(&s->plan->far, p->from + at, p->trainable - at, &factor);
		add_shared(w + at, g + at, -rate * factor / b->account.divide, n);
	}
	add_shared(w + p->trainable, g + p->trainable,
		   1.0f / (b->account.divide * (float)(s->plan->crew.workers)),
		   p->n - p->trainable);
}

static void relay(struct tw_context *ctx, const struct tw_msg *m)
{
	struct tw_msg *note = tw_msg_to(ctx, ctx->self, (enum tw_type)m->h.type);
	struct tw_addr *sender;

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

void tw_shard_shared(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	struct shard *s = (struct shard *)a;

	m->h.flags &= ~(uint32_t)(TW_FLAG_RELAYED | TW_FLAG_APPLIED);
	if (is_good(s, m)) {
		add_gradient(s, m);
		m->h.flags |= TW_FLAG_APPLIED;
	}
	relay(ctx, m);
}
