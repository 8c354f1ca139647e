/* SPDX-License-Identifier: Apache-2.0 */
/* shard_answer.c - what a worker is sent, and what is remembered of it.
 *
 * Responsible for (2) of the rules in shard.c: an answer comes from one version, and what the
 * worker decodes from it is what `delay` and `gap` compare with later. */
#include "node/duty/eval/eval.h"
#include "node/shard/shard.h"

#include <string.h>

/* --- what was sent -------------------------------------------------------------------------- */

static bool remembers(const struct shard *s)
{
	return (s->plan->staleness->traits & TW_STALENESS_SENT) || s->plan->gaps;
}

static enum tw_status keep_sent(struct shard *s, struct shard_worker *g, struct tw_block *b)
{
	const uint32_t memory = s->members.memory;
	const uint64_t n = s->slice.version.n;

	if (!remembers(s))
		return TW_OK;
	if (!g->sent) {
		g->sent = tw_heap_zeros(s->heap, memory * sizeof *g->sent);
		if (!g->sent)
			return TW_NO_MEMORY;
	}
	if (g->sent[0].block == b && g->sent[0].n == n)
		return TW_OK;
	if (g->sent[0].block && g->sent[0].n == n && tw_slice_shows_each(&s->slice))
		return TW_OK; /* made again from the same version: the same numbers */
	tw_block_drop(g->sent[memory - 1].block);
	memmove(g->sent + 1, g->sent, (memory - 1) * sizeof *g->sent);
	g->sent[0] = (struct shard_worker_sent){ n, tw_block_keep(b) };
	return TW_OK;
}

const float *tw_shard_find_sent(const struct shard *s, const struct shard_worker *g,
				uint64_t version)
{
	for (uint32_t k = 0; k < s->members.memory; k++)
		if (g->sent[k].block && g->sent[k].n == version)
			return tw_block_floats(g->sent[k].block);
	/* its worker has gone, or an answer was sent twice: no distance is known */
	return NULL;
}

static void forget_sent(struct shard_worker_sent *one)
{
	tw_block_drop(one->block);
	one->block = NULL;
}

void tw_shard_forget_older(struct shard *s, struct shard_worker *g, uint64_t base)
{
	for (uint32_t k = 1; k < s->members.memory; k++)
		if (g->sent[k].n < base)
			forget_sent(&g->sent[k]);
}

void tw_shard_forget_all_sent(struct shard *s, struct shard_worker *g)
{
	for (uint32_t k = 0; g->sent && k < s->members.memory; k++)
		forget_sent(&g->sent[k]);
}

/* --- answers -------------------------------------------------------------------------------- */

/* What this worker is answered is what it will compute on: the view of an evaluation is not. */
static void will_compute(struct shard *s, uint32_t slot)
{
	s->spread.read = s->slice.history.contributions;
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
		st = keep_sent(s, g, a.decoded);
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

/* --- reading -------------------------------------------------------------------------------- */

/* The view of an evaluation, if it is kept. */
static void pull_pinned(struct shard *s, struct tw_context *ctx, const struct shard_worker *g,
			const struct tw_body_pull *p)
{
	struct tw_block *view = tw_eval_shard_view(s, p->pin);
	struct tw_msg *m;

	if (!view)
		return;
	m = answer(s, ctx, g, TW_PARAMS, p->number);
	if (!m)
		return;
	m->b.params.pin = p->pin;
	m->h.flags = TW_FLAG_FREE;
	m->payload = tw_block_keep(view);
	m->h.payload = (uint32_t)(s->slice.n * sizeof(float));
	tw_send(ctx, m);
}

/* Does the worker have what it would be sent? */
static bool is_unchanged(const struct shard *s, const struct tw_msg *m)
{
	const struct tw_version *have = &m->b.pull.have, *now = &s->slice.version;

	return !(m->h.flags & TW_FLAG_FRESH) && have->incarnation == now->incarnation &&
	       have->n == now->n && !tw_shard_lockfree(s) && !s->slice.view.moved;
}

void tw_shard_pull(struct shard *s, struct tw_context *ctx, const struct tw_msg *m)
{
	const struct tw_body_pull *p = &m->b.pull;
	const uint32_t slot = tw_shard_sender(s, m);
	struct shard_worker *g = tw_shard_worker(s, slot);
	uint32_t whom;

	if (p->pin) {
		pull_pinned(s, ctx, g, p);
		return;
	}
	if (tw_shard_outdated(g, p->number))
		return;
	if (p->link > g->link)
		tw_shard_worker_close(g, p->link, g->seq, true);
	tw_shard_clock(s, slot, p->clock);
	if (m->h.flags & TW_FLAG_LEAVE)
		tw_spread_leaves(s, ctx, slot);
	if (tw_shard_may_read(s, slot, p->round, &whom)) {
		tw_shard_unpark(s, slot);
		if (is_unchanged(s, m))
			tw_shard_answer_unchanged(s, ctx, slot, p->number);
		else
			tw_shard_answer(s, ctx, slot, p->number, 0);
	} else {
		tw_shard_park(s, ctx, slot, p->number, p->round);
	}
	tw_shard_release(s, ctx); /* its clock may be what others have waited for */
}
