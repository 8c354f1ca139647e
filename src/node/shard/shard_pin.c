/* SPDX-License-Identifier: Apache-2.0 */
/* shard_pin.c - views that are kept for evaluations, and what is told of them.
 *
 * Responsible for (10) of the rules in shard.c. */
#include "node/shard/shard.h"

#include <xxhash.h>

/* What is in the parameters now. */
static struct tw_body_pin in_view(const struct shard *s, uint64_t number, uint32_t what)
{
	const struct tw_tally *t = &s->slice.tally;

	return (struct tw_body_pin){ .pin = number,
				     .what = what,
				     .round = s->slice.round,
				     .samples = t->samples,
				     .steps = t->steps,
				     .updates = t->updates,
				     .staleness_sum = t->staleness_sum,
				     .staleness_count = t->staleness_count,
				     .rate = tw_slice_rate(&s->slice) };
}

static void tell_pin(struct shard *s, struct tw_context *ctx, const struct tw_body_pin *what)
{
	struct tw_msg *m = tw_shard_to_master(s, ctx, TW_PIN);

	if (!m)
		return;
	m->h.flags = TW_FLAG_FREE;
	m->b.pin = *what;
	tw_send(ctx, m);
}

void tw_shard_forget_view(struct shard *s)
{
	tw_block_drop(s->pin.view);
	s->pin = (struct shard_pin){ .state = PIN_NONE };
}

void tw_shard_keep_view(struct shard *s, struct tw_context *ctx)
{
	struct shard_pin *p = &s->pin;

	if (p->state != PIN_AWAITED || s->slice.round < p->want.round ||
	    s->slice.tally.samples < p->want.samples)
		return;
	p->view = tw_slice_snapshot(&s->slice);
	if (!p->view) {
		tw_shard_forget_view(s);
		tw_give_up(ctx, TW_NO_MEMORY, "no memory to pin a version");
		return;
	}
	p->state = PIN_KEPT;
	p->has = in_view(s, p->want.pin, TW_PIN_KEEP);
	if (tw_shard_is_replica(s)) /* seeded, so that shards do not cancel each other out */
		p->has.digest = XXH3_64bits_withSeed(p->view->data, s->slice.n * sizeof(float),
						     s->index + 1);
	tell_pin(s, ctx, &p->has);
}

static void keep(struct shard *s, struct tw_context *ctx, const struct tw_body_pin *b)
{
	if (b->pin == s->pin.want.pin && s->pin.state == PIN_KEPT) { /* the answer was lost */
		tell_pin(s, ctx, &s->pin.has);
		return;
	}
	tw_shard_forget_view(s);
	s->pin = (struct shard_pin){ .state = PIN_AWAITED, .want = *b };
	tw_shard_keep_view(s, ctx);
}

void tw_shard_pin(struct shard *s, struct tw_context *ctx, const struct tw_msg *m)
{
	const struct tw_body_pin *b = &m->b.pin;
	struct tw_body_pin now;

	if (!s->hosted || m->h.view != s->fence.generation)
		return;
	switch (b->what) {
	case TW_PIN_COUNT:
		now = in_view(s, b->pin, TW_PIN_COUNT);
		tell_pin(s, ctx, &now);
		return;
	case TW_PIN_RELEASE:
		if (b->pin == s->pin.want.pin)
			tw_shard_forget_view(s);
		return;
	case TW_PIN_KEEP:
		keep(s, ctx, b);
		return;
	default:
		s->slice.tally.refused++;
	}
}
