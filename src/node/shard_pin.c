/* SPDX-License-Identifier: Apache-2.0 */
/* shard_pin.c - views that are kept for evaluations, and what is told of them.
 *
 * Responsible for (10) of the rules in shard.c. */
#include "node/shard.h"

/* What is in the parameters now. */
static struct tw_body_pin in_view(const struct shard *s, uint64_t number, uint32_t what)
{
	return (struct tw_body_pin){ .pin = number,
				     .what = what,
				     .round = s->round,
				     .samples = s->tally.samples,
				     .steps = s->tally.steps,
				     .updates = s->tally.updates,
				     .staleness_sum = s->tally.staleness_sum,
				     .staleness_count = s->tally.staleness_count,
				     .rate = tw_line_rate(s) };
}

static void tell_pin(struct shard *s, struct tw_context *ctx, const struct tw_body_pin *what)
{
	struct tw_msg *m = tw_msg_to(ctx, tw_master_addr(), TW_PIN);

	if (!m)
		return;
	m->h.view = s->generation;
	m->h.shard = m->h.from = s->index;
	m->h.flags = TW_FLAG_FREE;
	m->b.pin = *what;
	tw_send(ctx, m);
}

void tw_shard_keep_view(struct shard *s, struct tw_context *ctx)
{
	struct pinning *p = &s->pin;

	if (!p->awaited || s->round < p->want.round || s->tally.samples < p->want.samples)
		return;
	p->awaited = false;
	p->view = tw_shard_snapshot(s);
	if (!p->view) {
		tw_give_up(ctx, TW_NO_MEMORY, "no memory to pin a version");
		return;
	}
	p->has = in_view(s, p->want.pin, TW_PIN_KEEP);
	tell_pin(s, ctx, &p->has);
}

static void forget_view(struct shard *s)
{
	tw_block_drop(s->pin.view);
	s->pin = (struct pinning){ .awaited = false };
}

void tw_shard_pin(struct shard *s, struct tw_context *ctx, const struct tw_msg *m)
{
	const struct tw_body_pin *b = &m->b.pin;
	struct tw_body_pin now;

	if (!s->hosted || m->h.view != s->generation)
		return;
	switch (b->what) {
	case TW_PIN_COUNT:
		now = in_view(s, b->pin, TW_PIN_COUNT);
		tell_pin(s, ctx, &now);
		return;
	case TW_PIN_RELEASE:
		if (b->pin == s->pin.want.pin)
			forget_view(s);
		return;
	case TW_PIN_KEEP:
		break;
	default:
		s->tally.refused++;
		return;
	}
	if (b->pin == s->pin.want.pin && s->pin.view) { /* the answer was lost */
		tell_pin(s, ctx, &s->pin.has);
		return;
	}
	forget_view(s);
	s->pin.awaited = true;
	s->pin.want = *b;
	tw_shard_keep_view(s, ctx);
}
