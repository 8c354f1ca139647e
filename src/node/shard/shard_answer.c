/* SPDX-License-Identifier: Apache-2.0 */
/* shard_answer.c - what a worker is sent.
 *
 * Responsible for (2) of the rules in shard.c: an answer comes from one version, and what the
 * worker decodes from it is what `delay` and `gap` compare with later. */
#include "node/duty/eval/eval.h"
#include "node/shard/shard.h"

/* --- answers -------------------------------------------------------------------------------- */

/* What this worker is answered is what it will compute on: the view of an evaluation is not. */
static void will_compute(struct shard *s, uint32_t slot)
{
	s->readers.counted = s->slice.history.contributions;
	tw_shard_reads(s, slot);
}

/* An answer with its body, without its payload. */
static struct tw_msg *answer(struct shard *s, struct tw_context *ctx, const struct shard_worker *g,
			     enum tw_type type, uint64_t number)
{
	const struct tw_clocks *c = &s->clocks.seen;
	struct tw_msg *m = tw_shard_to_worker(s, ctx, g, type);

	if (m)
		m->b.params = (struct tw_body_params){ .version = s->slice.version,
						       .link = g->link,
						       .round = s->slice.round,
						       .number = number,
						       .least = c->active_count ? c->least : 0,
						       .statistic = s->slice.history.statistic,
						       .applied = tw_spans_total(
							       &s->slice.history.applied),
						       .unapplied = g->unapplied,
						       .late = g->late,
						       .count = s->slice.state_count };
	return m;
}

void tw_shard_answer(struct shard *s, struct tw_context *ctx, uint32_t slot, uint64_t number,
		     uint32_t flags)
{
	struct shard_worker *g = tw_shard_worker(s, slot);
	struct slice_answer a;
	enum tw_status st = tw_slice_show(&s->slice, slot, &a);
	struct tw_msg *m;

	if (st == TW_OK && a.decoded)
		st = tw_shard_keep_sent(s, g, a.decoded);
	m = st == TW_OK ? answer(s, ctx, g, TW_PARAMS, number) : NULL;
	if (m) {
		will_compute(s, slot);
		m->h.flags |= flags | tw_shard_worker_flags(g);
		m->payload = tw_block_keep(a.wire);
		m->h.payload = (uint32_t)a.wire->bytes;
		s->slice.tally.down_slices++;
		s->slice.tally.down_raw += s->slice.n * sizeof(float);
		s->slice.tally.down_encoded += m->h.payload;
		tw_send(ctx, m);
	}
	tw_slice_answer_drop(&a);
	if (st != TW_OK)
		tw_give_up(ctx, st, "no memory for an answer of %zu parameters", s->slice.n);
}

void tw_shard_answer_unchanged(struct shard *s, struct tw_context *ctx, uint32_t slot,
			       uint64_t number)
{
	const struct shard_worker *g = tw_shard_worker(s, slot);
	struct tw_msg *m = answer(s, ctx, g, TW_UNCHANGED, number);

	if (!m)
		return;
	m->h.flags |= tw_shard_worker_flags(g);
	will_compute(s, slot);
	tw_send(ctx, m);
}

void tw_shard_acknowledge(struct shard *s, struct tw_context *ctx, uint32_t slot, uint32_t flags)
{
	const struct shard_worker *g = tw_shard_worker(s, slot);
	struct tw_msg *m = tw_shard_to_worker(s, ctx, g, TW_ACK);

	if (!m)
		return;
	m->h.flags = flags | tw_shard_worker_flags(g);
	m->b.ack.link = g->link;
	m->b.ack.unapplied = g->unapplied;
	m->b.ack.late = g->late;
	m->b.ack.version = s->slice.version;
	tw_send(ctx, m);
}

void tw_shard_answer_view(struct shard *s, struct tw_context *ctx, uint32_t slot,
			  const struct tw_body_pull *p)
{
	struct tw_block *view = tw_eval_shard_view(s, p->pin);
	struct tw_msg *m;

	if (!view)
		return;
	m = answer(s, ctx, tw_shard_worker(s, slot), TW_PARAMS, p->number);
	if (!m)
		return;
	m->b.params.pin = p->pin;
	m->h.flags = TW_FLAG_FREE;
	m->payload = tw_block_keep(view);
	m->h.payload = (uint32_t)(s->slice.n * sizeof(float));
	tw_send(ctx, m);
}
