/* SPDX-License-Identifier: Apache-2.0 */
/* master_eval.c - evaluation at a pinned version.
 *
 *  (1) an evaluation's chunks are the same whoever computes them, and are summed in order.
 *  (2) a chunk whose worker goes is given to another.
 *  (3) nothing here costs virtual time.
 *  (4) an evaluation is of the views that shards keep, and its label is what these have: the master
 *      says when a view is to be kept, the shard keeps it at that very version, and says what is in
 *      it.  Under rounds all views are of one round; elsewhere each is the first that has as many
 *      samples as were asked for.
 *  (5) evaluations are due when ceil(k * train.evaluate * samples of an epoch) samples are applied,
 *      k = 1, 2, ..., and at the end.  Those that pass while one is under way are passed over. */
#include "node/master/master.h"

#include <math.h>
#include <string.h>

/* --- when ------------------------------------------------------------------------------------- */

/* (5); 0.55 of 100 samples are 55, although a double makes a little more of it. */
static uint64_t threshold(const struct master *m, uint64_t k)
{
	const double x = (double)k * (m->plan->evaluate_every * (double)m->plan->problem.samples);

	return (uint64_t)ceil(x * (1 - 1e-12));
}

/* The last threshold that so many samples reach. */
static uint64_t reached(const struct master *m, uint64_t samples)
{
	const double step = m->plan->evaluate_every * (double)m->plan->problem.samples;
	uint64_t k;

	if (samples > (uint64_t)1 << 53) /* a shard said so: no run has as many */
		samples = (uint64_t)1 << 53;
	k = (uint64_t)((double)samples / step);
	while (k && threshold(m, k) > samples) /* doubles round */
		k--;
	while (threshold(m, k + 1) <= samples)
		k++;
	return k;
}

void tw_score_agreed(struct master *m, bool adopted)
{
	double samples = 0;

	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		samples += (double)m->shard[s].tally.samples;
	if (!m->steady.dealt)
		m->steady.from = samples / m->plan->problem.shards;
	/* the master before us has evaluated what it could */
	if (adopted && m->plan->evaluate_every > 0 &&
	    reached(m, m->count.samples) > m->scores.evaluated_at)
		m->scores.evaluated_at = reached(m, m->count.samples);
}

/* --- evaluation ------------------------------------------------------------------------------- */

static void send_pin(struct tw_context *ctx, struct tw_msg *msg, const struct tw_body_pin *what)
{
	if (!msg)
		return;
	msg->h.flags = TW_FLAG_FREE;
	msg->b.pin = *what;
	tw_send(ctx, msg);
}

void tw_score_send_pin(struct master *m, struct tw_context *ctx, uint32_t shard,
		       const struct tw_body_pin *what)
{
	/* whoever evaluates reads from its own replica */
	for (uint32_t k = tw_replicas_next(m, 0); k != TW_NO_SLOT; k = tw_replicas_next(m, k + 1))
		if (m->member[k].node != m->shard[shard].node &&
		    !(what->what == TW_PIN_KEEP && tw_replica_said(m, k, shard, REPLICA_PINNED)))
			send_pin(ctx, tw_replica_to_shard(m, ctx, k, shard, TW_PIN), what);
	send_pin(ctx, tw_master_to_shard(m, ctx, shard, TW_PIN), what);
}

void tw_score_pin_shard(struct master *m, struct tw_context *ctx, uint32_t shard)
{
	const struct tw_body_pin what = { .pin = m->eval.pin,
					  .what = TW_PIN_KEEP,
					  .round = m->eval.round,
					  .samples = m->eval.samples };

	if (m->eval.state != EVAL_OFF &&
	    (!m->shard[shard].pinned || !tw_replicas_all(m, REPLICA_PINNED)))
		tw_score_send_pin(m, ctx, shard, &what);
}

/* Nobody computes anything for an evaluation. */
static void forget_chunks(struct master *m)
{
	for (uint32_t c = 0; c < m->scores.chunks; c++) {
		if (m->scores.chunk[c].asked && !m->scores.chunk[c].done)
			m->member[m->scores.chunk[c].slot].chunk = NO_CHUNK;
		m->scores.chunk[c] = (struct chunk){ 0 };
	}
	m->scores.done = 0;
}

/* Ask every shard to keep its view when it has so much. */
static void start(struct master *m, struct tw_context *ctx, uint64_t number, uint64_t round,
		  uint64_t samples)
{
	forget_chunks(m);
	m->eval = (struct evaluation){ .state = EVAL_AWAITED,
				       .pin = ((uint64_t)ctx->boot << 32) | ++m->restart.counter,
				       .number = number,
				       .round = round,
				       .samples = samples };
	tw_replicas_ask_anew(m, REPLICA_PINNED);
	for (uint32_t s = 0; s < m->plan->problem.shards; s++) {
		m->shard[s].pinned = false;
		tw_score_pin_shard(m, ctx, s);
	}
}

/* Outside rounds shards are told ahead of time. */
static void await_next(struct master *m, struct tw_context *ctx)
{
	uint64_t k;

	if (m->eval.state != EVAL_OFF || tw_master_rounds(m) || !(m->plan->evaluate_every > 0) ||
	    m->wish.finish)
		return;
	k = reached(m, m->count.samples);
	k = 1 + (k > m->scores.evaluated_at ? k : m->scores.evaluated_at);
	/* what was dealt again may be applied again */
	if (threshold(m, k) < m->plan->dealing.positions + m->count.redealt)
		start(m, ctx, k, 0, threshold(m, k));
}

void tw_score_begin(struct master *m, struct tw_context *ctx)
{
	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		tw_score_pin_shard(m, ctx, s);
	await_next(m, ctx);
}

void tw_score_committed(struct master *m, struct tw_context *ctx)
{
	uint64_t k;

	if (m->eval.state != EVAL_OFF || !(m->plan->evaluate_every > 0) || tw_deal_exhausted(m))
		return;
	k = reached(m, m->count.samples);
	if (k > m->scores.evaluated_at)
		start(m, ctx, k, m->rounds.number, 0);
}

void tw_score_more(struct master *m, struct tw_context *ctx, uint64_t samples, uint64_t steps)
{
	m->count.samples += samples;
	m->count.steps += steps;
	await_next(m, ctx);
	/* a shard that lost updates may never have as many: a whole interval later it waits no
	 * more */
	if (m->eval.state != EVAL_AWAITED || !m->eval.number ||
	    m->count.samples < threshold(m, m->eval.number + 1))
		return;
	m->eval.state = EVAL_HURRIED;
	m->eval.samples = 0;
	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		tw_score_pin_shard(m, ctx, s);
}

static void unpin(struct master *m, struct tw_context *ctx)
{
	const struct tw_body_pin what = { .pin = m->eval.pin, .what = TW_PIN_RELEASE };

	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		if (tw_shard_has_home(&m->shard[s]))
			tw_score_send_pin(m, ctx, s, &what);
}

void tw_score_again(struct master *m, struct tw_context *ctx)
{
	unpin(m, ctx);
	start(m, ctx, m->eval.number, tw_master_rounds(m) ? m->rounds.number : 0, 0);
}

void tw_score_viewed(struct master *m, struct tw_context *ctx)
{
	m->eval.state = EVAL_PINNED;
	tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_PINNED, .seq = m->eval.pin });
	tw_score_deal(m, ctx);
}

void tw_score_abort(struct master *m, struct tw_context *ctx)
{
	if (m->eval.state == EVAL_OFF)
		return;
	m->eval.state = EVAL_OFF;
	forget_chunks(m);
	unpin(m, ctx);
}

static void chunk_range(const struct master *m, uint32_t k, uint64_t *from, uint32_t *count)
{
	const uint64_t n = m->plan->problem.tests;

	*from = n * k / m->scores.chunks;
	*count = (uint32_t)(n * (k + 1) / m->scores.chunks - *from);
}

uint64_t tw_score_chunk_from(const struct master *m, uint32_t chunk)
{
	uint64_t from;
	uint32_t count;

	chunk_range(m, chunk, &from, &count);
	return from;
}

/* Threshold k is dealt with, and so are all that were reached meanwhile. */
static void pass_over(struct master *m, uint64_t k)
{
	const double have = m->eval.label.samples;
	const uint64_t known = have > (double)m->count.samples ? (uint64_t)have : m->count.samples;
	const uint64_t past = reached(m, known);

	k = past > k ? past : k;
	if (k > m->scores.evaluated_at)
		m->scores.evaluated_at = k;
}

static void conclude(struct master *m, struct tw_context *ctx)
{
	const bool final = m->phase == PHASE_SCORE;
	double loss = 0, correct = 0, samples = 0;

	for (uint32_t k = 0; k < m->scores.chunks; k++) {
		loss += m->scores.chunk[k].loss;
		correct += m->scores.chunk[k].correct;
		samples += (double)m->scores.chunk[k].samples;
	}
	m->scores.loss = loss / samples;
	m->scores.accuracy = m->scores.chunk[0].correct < 0 ? -1 : correct / samples;
	m->eval.state = EVAL_OFF;
	if (m->eval.number) /* (5) */
		pass_over(m, m->eval.number);
	unpin(m, ctx);
	tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_EVAL,
					.value = m->scores.loss,
					.extra = m->scores.accuracy,
					.label = m->eval.label,
					.seq = m->eval.pin,
					.count = final });
	if (m->scores.loss <= m->plan->ends.loss ||
	    (m->scores.accuracy >= 0 && m->scores.accuracy >= m->plan->ends.accuracy)) {
		m->wish.finish = true;
		if (!m->scores.goal.reached)
			m->scores.goal = (struct tw_goal){ .reached = true,
							   .samples = m->eval.label.samples,
							   .updates = m->eval.label.updates,
							   .loss = m->scores.loss,
							   .accuracy = m->scores.accuracy,
							   .at = m->eval.at };
	}
	if (final)
		tw_score_finish(m, ctx, TW_OK);
	else
		await_next(m, ctx);
}

/* (4) */
static struct tw_point label_of(const struct master *m)
{
	struct tw_point l = { .train_loss = m->count.loss_samples ? m->count.train_loss : NAN };
	double late = 0, contributions = 0;

	for (uint32_t s = 0; s < m->plan->problem.shards; s++) {
		const struct tw_body_pin *v = &m->shard[s].view;

		l.samples += (double)v->samples;
		l.steps += (double)v->steps;
		l.updates += (double)v->updates;
		l.rate += v->rate;
		late += (double)v->staleness_sum;
		contributions += (double)v->staleness_count;
	}
	l.samples /= m->plan->problem.shards;
	l.steps /= m->plan->problem.shards;
	l.updates /= m->plan->problem.shards;
	l.rate /= m->plan->problem.shards;
	l.staleness = contributions > 0 ? late / contributions : NAN;
	if (m->optimise)
		l.updates = (double)m->optimise->descent.iterations;
	return l;
}

static bool all_pinned(const struct master *m)
{
	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		if (!m->shard[s].pinned)
			return false;
	return tw_replicas_all(m, REPLICA_PINNED);
}

static bool one_round(const struct master *m)
{
	for (uint32_t s = 1; s < m->plan->problem.shards; s++)
		if (m->shard[s].view.round != m->shard[0].view.round)
			return false;
	return true;
}

/* All views are kept, for the first time; false: they do not belong together. */
static bool views_kept(struct master *m, struct tw_context *ctx)
{
	if (tw_master_rounds(m) && !one_round(m)) {
		/* some were told when they were further already: nobody is further than this */
		unpin(m, ctx);
		start(m, ctx, m->eval.number, m->rounds.number, 0);
		return false;
	}
	m->eval.state = EVAL_PINNED;
	m->eval.label = label_of(m);
	m->eval.at = tw_now(ctx);
	m->since = m->eval.at;
	if (tw_plan_is_loose(m->plan) && m->phase != PHASE_SCORE) { /* else they are equal */
		m->eval.state = EVAL_VIEWING;
		tw_calm_view(m, ctx);
		return false;
	}
	tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_PINNED, .seq = m->eval.pin });
	tw_replicas_compare(m, ctx);
	return true;
}

/* Does it have the views, on its own node or on servers? */
static bool may_score(const struct master *m, uint32_t slot)
{
	const bool mean = tw_plan_is_loose(m->plan) && m->phase != PHASE_SCORE;
	const enum replica_word word = mean ? REPLICA_VIEWED : REPLICA_PINNED;

	return m->member[slot].chunk == NO_CHUNK &&
	       (!tw_master_has_replicas(m) ||
		m->member[slot].replica.heard[word] == m->plan->problem.shards);
}

/* The first live member at or after k that computes no chunk.  At most m->scores.chunks do. */
static uint32_t next_free(const struct master *m, uint32_t k)
{
	const struct tw_slots *live = &m->members.live;

	for (k = tw_slots_next(live, k); k != TW_NO_SLOT && !may_score(m, k);)
		k = tw_slots_next(live, k + 1);
	return k;
}

/* Give chunks that nobody works on to workers that work on none. */
void tw_score_deal(struct master *m, struct tw_context *ctx)
{
	if (m->eval.state == EVAL_OFF || m->eval.state == EVAL_VIEWING ||
	    (m->eval.state != EVAL_PINNED && (!all_pinned(m) || !views_kept(m, ctx))))
		return;
	if (m->scores.done == m->scores.chunks) {
		conclude(m, ctx);
		return;
	}
	for (uint32_t c = 0, k = 0; c < m->scores.chunks; c++) {
		struct tw_msg *msg;

		if (m->scores.chunk[c].asked)
			continue;
		k = next_free(m, k);
		if (k == TW_NO_SLOT)
			return;
		msg = tw_master_to_worker(m, ctx, k, TW_EVAL);
		if (!msg)
			return;
		msg->h.incarnation = m->member[k].incarnation;
		msg->h.flags = TW_FLAG_FREE;
		msg->b.eval.pin = m->eval.pin;
		chunk_range(m, c, &msg->b.eval.from, &msg->b.eval.count);
		m->scores.chunk[c].asked = true;
		m->scores.chunk[c].slot = k;
		m->scores.chunk[c].since = tw_now(ctx);
		m->member[k].chunk = c;
		tw_stuck_given_chunk(m, ctx, &m->member[k]);
		tw_send(ctx, msg);
	}
}

void tw_score_pinned(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	struct shard_info *i;

	if (msg->h.shard >= m->plan->problem.shards || msg->h.view != m->restart.generation)
		return;
	i = &m->shard[msg->h.shard];
	if (tw_master_has_replicas(m) && msg->b.pin.what == TW_PIN_KEEP &&
	    m->eval.state != EVAL_OFF && msg->b.pin.pin == m->eval.pin) {
		const uint32_t slot = tw_master_slot_at(m, msg->from.node);

		if (msg->b.pin.round != m->eval.round) { /* as in views_kept */
			unpin(m, ctx);
			start(m, ctx, m->eval.number, m->rounds.number, 0);
			return;
		}
		if (tw_replica_says(m, msg->from.node, msg->h.shard, REPLICA_PINNED))
			m->member[slot].replica.digest ^= msg->b.pin.digest;
		if (i->node != msg->from.node)
			tw_score_deal(m, ctx);
	}
	if (i->node != msg->from.node)
		return;
	if (msg->b.pin.what == TW_PIN_COUNT)
		tw_score_steady(m, i, &msg->b.pin);
	if (msg->b.pin.what != TW_PIN_KEEP || m->eval.state == EVAL_OFF ||
	    msg->b.pin.pin != m->eval.pin || i->pinned)
		return;
	i->pinned = true;
	i->view = msg->b.pin;
	tw_score_deal(m, ctx);
}

void tw_score_result(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	const struct tw_body_result *r = &msg->b.result;
	struct member *e = &m->member[msg->h.from];
	struct chunk *c;
	uint64_t from;
	uint32_t count;

	if (m->eval.state == EVAL_OFF || r->pin != m->eval.pin || e->chunk == NO_CHUNK)
		return;
	c = &m->scores.chunk[e->chunk];
	chunk_range(m, e->chunk, &from, &count);
	if (from != r->from || count != r->count || c->done)
		return;
	c->done = true;
	c->loss = r->loss;
	c->correct = r->correct;
	c->samples = r->count;
	tw_stuck_scored(m, ctx, c);
	m->scores.done++;
	e->chunk = NO_CHUNK;
	tw_score_deal(m, ctx);
}

void tw_score_lost(struct master *m, struct tw_context *ctx, uint32_t slot)
{
	struct member *e = &m->member[slot];

	if (e->chunk == NO_CHUNK)
		return;
	m->scores.chunk[e->chunk].asked = false;
	e->chunk = NO_CHUNK;
	tw_score_deal(m, ctx);
}

void tw_score_final(struct master *m, struct tw_context *ctx)
{
	m->phase = PHASE_SCORE;
	m->since = tw_now(ctx);
	start(m, ctx, 0, tw_master_rounds(m) ? m->rounds.number : 0, 0);
}
