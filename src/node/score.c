/* SPDX-License-Identifier: Apache-2.0 */
/* score.c - evaluation at a pinned version, and the end of a run.
 *
 *  (1) an evaluation's chunks are the same whoever computes them, and are summed in order.
 *  (2) a chunk whose worker goes is given to another.
 *  (3) nothing here costs virtual time. */
#include "node/master.h"

#include <math.h>
#include <string.h>

/* --- evaluation ------------------------------------------------------------------------------- */

void tw_score_pin_shard(struct master *m, struct tw_context *ctx, uint32_t shard)
{
	struct tw_msg *msg;

	if (!m->evaluating || m->shard[shard].pinned)
		return;
	msg = tw_master_to_shard(m, ctx, shard, TW_PIN);
	if (!msg)
		return;
	msg->h.flags = TW_FLAG_FREE;
	msg->b.pin.pin = m->pin;
	tw_send(ctx, msg);
}

void tw_score_start(struct master *m, struct tw_context *ctx, bool final)
{
	m->pin = ((uint64_t)ctx->boot << 32) | ++m->counter;
	m->evaluating = true;
	m->chunks_done = 0;
	m->since = tw_now(ctx);
	if (final)
		m->phase = PHASE_SCORE;
	memset(m->chunk, 0, m->chunks * sizeof *m->chunk);
	for (uint32_t k = 0; k < m->plan->workers; k++)
		m->member[k].evaluating = false;
	for (uint32_t s = 0; s < m->plan->shards; s++) {
		m->shard[s].pinned = false;
		tw_score_pin_shard(m, ctx, s);
	}
}

static void unpin(struct master *m, struct tw_context *ctx)
{
	for (uint32_t s = 0; s < m->plan->shards; s++) {
		struct tw_msg *msg;

		if (!m->shard[s].hosted)
			continue;
		msg = tw_master_to_shard(m, ctx, s, TW_PIN);
		if (!msg)
			return;
		msg->h.flags = TW_FLAG_FREE;
		msg->b.pin = (struct tw_body_pin){ m->pin, 1, 0 };
		tw_send(ctx, msg);
	}
}

void tw_score_abort(struct master *m, struct tw_context *ctx)
{
	if (!m->evaluating)
		return;
	m->evaluating = false;
	for (uint32_t k = 0; k < m->plan->workers; k++)
		m->member[k].evaluating = false;
	unpin(m, ctx);
}

static void chunk_range(const struct master *m, uint32_t k, uint64_t *from, uint32_t *count)
{
	const uint64_t n = m->plan->tests;

	*from = n * k / m->chunks;
	*count = (uint32_t)(n * (k + 1) / m->chunks - *from);
}

static void conclude(struct master *m, struct tw_context *ctx)
{
	const bool final = m->phase == PHASE_SCORE;
	double loss = 0, correct = 0, samples = 0;

	for (uint32_t k = 0; k < m->chunks; k++) {
		loss += m->chunk[k].loss;
		correct += m->chunk[k].correct;
		samples += (double)m->chunk[k].samples;
	}
	m->loss = loss / samples;
	m->accuracy = m->chunk[0].correct < 0 ? -1 : correct / samples;
	m->evaluating = false;
	unpin(m, ctx);
	tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_EVAL,
					.value = m->loss,
					.extra = m->accuracy,
					.from = tw_spans_total(&m->taken),
					.count = final });
	if (m->loss <= m->plan->until_loss ||
	    (m->accuracy >= 0 && m->accuracy >= m->plan->until_accuracy))
		m->want_finish = true;
	if (final)
		tw_score_finish(m, ctx, TW_OK);
}

/* Give chunks that nobody works on to workers that work on none. */
void tw_score_deal(struct master *m, struct tw_context *ctx)
{
	if (!m->evaluating)
		return;
	for (uint32_t s = 0; s < m->plan->shards; s++)
		if (!m->shard[s].pinned)
			return;
	if (m->chunks_done == m->chunks) {
		conclude(m, ctx);
		return;
	}
	for (uint32_t c = 0, k = 0; c < m->chunks; c++) {
		struct tw_msg *msg;

		if (m->chunk[c].asked)
			continue;
		while (k < m->plan->workers && (!m->member[k].live || m->member[k].evaluating))
			k++;
		if (k == m->plan->workers)
			return;
		msg = tw_master_to_worker(m, ctx, k, TW_EVAL);
		if (!msg)
			return;
		msg->h.incarnation = m->member[k].incarnation;
		msg->h.flags = TW_FLAG_FREE;
		msg->b.eval.pin = m->pin;
		chunk_range(m, c, &msg->b.eval.from, &msg->b.eval.count);
		m->chunk[c].asked = true;
		m->chunk[c].slot = k;
		m->chunk[c].since = tw_now(ctx);
		m->member[k].evaluating = true;
		m->member[k].chunk = c;
		tw_send(ctx, msg);
	}
}

void tw_score_pinned(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	if (msg->h.shard >= m->plan->shards || !m->evaluating || msg->b.pin.pin != m->pin ||
	    msg->h.view != m->generation || m->shard[msg->h.shard].node != msg->from.node)
		return;
	m->shard[msg->h.shard].pinned = true;
	tw_score_deal(m, ctx);
}

void tw_score_result(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	const struct tw_body_result *r = &msg->b.result;
	struct member *e = &m->member[msg->h.from];
	struct chunk *c;
	uint64_t from;
	uint32_t count;

	if (!m->evaluating || r->pin != m->pin || !e->evaluating)
		return;
	c = &m->chunk[e->chunk];
	chunk_range(m, e->chunk, &from, &count);
	if (from != r->from || count != r->count || c->done)
		return;
	c->done = true;
	c->loss = r->loss;
	c->correct = r->correct;
	c->samples = r->count;
	tw_stuck_scored(m, ctx, c);
	m->chunks_done++;
	e->evaluating = false;
	tw_score_deal(m, ctx);
}

void tw_score_lost(struct master *m, struct tw_context *ctx, uint32_t slot)
{
	struct member *e = &m->member[slot];

	if (!e->evaluating)
		return;
	e->evaluating = false;
	if (!m->chunk[e->chunk].done)
		m->chunk[e->chunk].asked = false;
	tw_score_deal(m, ctx);
}

/* --- the end ---------------------------------------------------------------------------------- */

void tw_score_count_shard(struct master *m, struct tw_context *ctx, uint32_t shard)
{
	struct tw_msg *msg;

	if (m->phase != PHASE_COUNT || (m->shard[shard].vector && m->shard[shard].counted))
		return;
	msg = tw_master_to_shard(m, ctx, shard, TW_SNAP);
	if (!msg)
		return;
	/* not free of time: it must not overtake the last COMMIT */
	msg->b.snap = (struct tw_body_snap){ 0, 1, 1 };
	tw_send(ctx, msg);
	msg = tw_master_to_shard(m, ctx, shard, TW_ASK);
	if (!msg)
		return;
	msg->b.ask.number = m->asks;
	tw_send(ctx, msg);
}

/* Fetch the final vectors and tallies, then score them. */
void tw_score_count(struct master *m, struct tw_context *ctx)
{
	if (m->phase != PHASE_COUNT) {
		tw_score_abort(m, ctx);
		m->phase = PHASE_COUNT;
		m->since = tw_now(ctx);
		m->asks++;
		for (uint32_t s = 0; s < m->plan->shards; s++) {
			m->shard[s].counted = false;
			tw_block_drop(m->shard[s].vector);
			m->shard[s].vector = NULL;
			tw_score_count_shard(m, ctx, s);
		}
		return;
	}
	for (uint32_t s = 0; s < m->plan->shards; s++)
		if (!m->shard[s].vector || !m->shard[s].counted)
			return;
	if (m->stopping)
		tw_score_finish(m, ctx, TW_INTERRUPTED);
	else
		tw_score_start(m, ctx, true);
}

static void add_tally(struct tw_tally *to, const struct tw_tally *t)
{
	to->updates += t->updates;
	to->contributions += t->contributions;
	to->staleness_sum += t->staleness_sum;
	to->staleness_count += t->staleness_count;
	if (t->staleness_max > to->staleness_max)
		to->staleness_max = t->staleness_max;
	if (t->refused > to->refused)
		to->refused = t->refused;
	to->fenced += t->fenced;
	to->dropped_pushes += t->dropped_pushes;
	to->dropped_samples += t->dropped_samples;
	to->steps += t->steps;
	to->samples += t->samples;
	for (int k = 0; k < TW_HISTOGRAM; k++)
		to->histogram[k] += t->histogram[k];
}

/* Has every shard said what it has at the end? */
static bool counted(const struct master *m)
{
	for (uint32_t s = 0; s < m->plan->shards; s++)
		if (!m->shard[s].counted)
			return false;
	return true;
}

/* Samples applied more than once by some shard; updates that some shard lost. */
static enum tw_status add_up(struct master *m, struct tw_totals *t)
{
	const uint64_t unit = tw_deal_unit(m);
	struct tw_spans twice, all;
	enum tw_status st;
	uint64_t lost = 0;

	tw_spans_init(&twice, m->heap);
	tw_spans_init(&all, m->heap);
	st = tw_spans_copy(&all, &m->taken);
	for (uint32_t s = 0; s < m->plan->shards && st == TW_OK; s++) {
		st = tw_spans_unite(&all, &m->shard[s].applied);
		if (st == TW_OK)
			st = tw_spans_unite(&twice, &m->shard[s].twice);
	}
	t->repeated = tw_spans_total(&twice);
	t->dealt = tw_spans_total(&all);
	for (uint32_t s = 0; s < m->plan->shards && counted(m) && !tw_master_rounds(m); s++)
		lost += (t->dealt - tw_spans_total(&m->shard[s].applied) + unit - 1) / unit;
	t->lost_updates = (lost + m->plan->shards - 1) / m->plan->shards;
	tw_spans_release(&twice);
	tw_spans_release(&all);
	return st;
}

void tw_score_finish(struct master *m, struct tw_context *ctx, enum tw_status status)
{
	const struct tw_plan *p = m->plan;
	struct tw_totals t = { .status = status,
			       .steps = m->steps,
			       .samples = m->samples,
			       .redealt = m->redealt,
			       .dropped = m->dropped,
			       .refused = m->refused,
			       .loss = m->loss,
			       .accuracy = m->accuracy,
			       .train_loss = m->train_loss,
			       .workers = p->workers,
			       .shards = p->shards,
			       .cut = m->cut };
	uint64_t steps, samples;

	tw_master_applied(m, &steps, &samples);
	if (counted(m) || samples > t.samples) {
		t.steps = steps;
		t.samples = samples;
	}
	t.epochs = (double)tw_spans_total(&m->taken) / (double)p->samples;
	for (uint32_t s = 0; s < p->shards; s++)
		add_tally(&t.tally, &m->shard[s].tally);
	t.updates = (double)t.tally.updates / p->shards;
	if (!tw_master_rounds(m)) /* contributions; the most that any shard refused */
		t.refused = t.tally.refused;
	t.dropped += t.tally.dropped_samples / p->shards;
	if (add_up(m, &t) != TW_OK)
		goto fail;
	if (status == TW_OK) {
		t.vector = tw_heap_zeros(m->heap, p->shards * sizeof *t.vector);
		if (!t.vector)
			goto fail;
		t.vector_heap = m->heap;
		for (uint32_t s = 0; s < p->shards; s++)
			t.vector[s] = tw_block_keep(m->shard[s].vector);
	}
	for (uint32_t k = 0; k < p->workers; k++)
		if (m->member[k].live) {
			struct tw_msg *msg = tw_master_to_worker(m, ctx, k, TW_BYE);

			if (msg)
				tw_send(ctx, msg);
		}
	m->phase = PHASE_OVER;
	ctx->world->finish(ctx, status, &t);
	return;
fail:
	tw_give_up(ctx, TW_NO_MEMORY, "no memory for the result");
}
