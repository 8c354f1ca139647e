/* SPDX-License-Identifier: Apache-2.0 */
/* eval_scores.c - the master's side of an evaluation: who scores which chunk, and the result.  The
 * numbers in brackets are those of README.md. */
#include "node/duty/eval/eval.h"
#include "node/duty/eval/eval_state.h"
#include "node/kernel/ledger.h"
#include "node/kernel/master_post.h"
#include "node/kernel/master_roster.h"
#include "node/kernel/phase.h"

static void chunk_range(const struct master *m, uint32_t k, uint64_t *from, uint32_t *count)
{
	const bool held = k >= m->eval->scores.chunks;
	const uint64_t n = held ? m->plan->problem.held : m->plan->problem.tests;
	const uint32_t all = held ? m->eval->scores.held : m->eval->scores.chunks;

	k -= held ? m->eval->scores.chunks : 0;
	*from = n * k / all;
	*count = (uint32_t)(n * (k + 1) / all - *from);
	*from += held ? m->plan->problem.tests : 0;
}

/* Chunks of the evaluation under way: what is held back is scored at the end (13). */
static uint32_t chunks_now(const struct master *m)
{
	return m->eval->scores.chunks + (m->phase == PHASE_SCORE ? m->eval->scores.held : 0);
}

bool tw_eval_scores_are_enough(const struct master *m)
{
	const struct scores *o = &m->eval->scores;

	return o->loss <= m->plan->ends.loss ||
	       (o->accuracy >= 0 && o->accuracy >= m->plan->ends.accuracy);
}

/* (7) */
static void reach_goal(struct master *m)
{
	struct scores *o = &m->eval->scores;

	tw_wish_put(m, TW_WISH_GOAL, true);
	if (m->phase != PHASE_SCORE && !m->plan->keeping.best) /* else it is the best */
		o->delivers = m->eval->now.pin;
	if (!o->goal.reached)
		o->goal = (struct tw_goal){ .reached = true,
					    .samples = m->eval->now.label.samples,
					    .updates = m->eval->now.label.updates,
					    .loss = o->loss,
					    .accuracy = o->accuracy,
					    .at = m->eval->now.at };
}

void tw_eval_scores_add_up(const struct chunk *chunk, uint32_t count, double *loss,
			   double *accuracy)
{
	double sum = 0, correct = 0, samples = 0;

	for (uint32_t k = 0; k < count; k++) {
		sum += chunk[k].loss;
		correct += chunk[k].correct;
		samples += (double)chunk[k].samples;
	}
	*loss = sum / samples;
	*accuracy = chunk[0].correct < 0 ? -1 : correct / samples;
}

void tw_eval_scores_conclude(struct master *m, struct tw_context *ctx, const char *digest)
{
	const bool final = m->phase == PHASE_SCORE;

	if (tw_eval_scores_are_enough(m))
		reach_goal(m);
	tw_eval_views_settle(m, ctx);
	if (!final || !tw_eval_master_delivers(m)) /* else it was told before */
		tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_EVAL,
						.eval = { .pin = m->eval->now.pin,
							  .loss = m->eval->scores.loss,
							  .accuracy = m->eval->scores.accuracy,
							  .point = m->eval->now.label,
							  .digest = digest,
							  .final = final } });
	m->eval->final_made = m->eval->final_made || final;
}

/* Does it have the views, on its own node or on servers? */
static bool may_score(const struct master *m, uint32_t slot)
{
	const bool mean = tw_plan_is_loose(m->plan) && m->phase != PHASE_SCORE;
	const enum replica_word word = mean ? REPLICA_VIEWED : REPLICA_PINNED;

	return m->eval->chunk_of[slot] == NO_CHUNK &&
	       (!tw_master_has_replicas(m) ||
		m->member[slot].replica.heard[word] == m->plan->problem.shards);
}

/* The first live member at or after k that computes no chunk. */
static uint32_t next_free(const struct master *m, uint32_t k)
{
	const struct tw_slots *live = &m->members.live;

	for (k = tw_slots_next(live, k); k != TW_NO_SLOT && !may_score(m, k);)
		k = tw_slots_next(live, k + 1);
	return k;
}

void tw_eval_scores_deal(struct master *m, struct tw_context *ctx)
{
	const enum eval_state state = m->eval->now.state;

	if ((state == EVAL_AWAITED || state == EVAL_HURRIED) && tw_eval_views_all_kept(m))
		tw_eval_views_kept(m, ctx);
	if (m->eval->now.state != EVAL_PINNED)
		return;
	if (m->eval->scores.done == chunks_now(m)) {
		struct scores *o = &m->eval->scores;

		m->eval->now.state = EVAL_SCORED;
		if (m->plan->keeping.best && m->phase != PHASE_SCORE)
			return; /* the master looks at it when it drives */
		tw_eval_scores_add_up(o->chunk, o->chunks, &o->loss, &o->accuracy);
		if (o->held && m->phase == PHASE_SCORE)
			tw_eval_scores_add_up(o->chunk + o->chunks, o->held, &o->held_loss,
					      &o->held_accuracy);
		tw_eval_scores_conclude(m, ctx, NULL);
		if (m->phase != PHASE_SCORE)
			tw_eval_views_go_on(m, ctx);
		return;
	}
	for (uint32_t c = 0, k = 0; c < chunks_now(m); c++) {
		struct tw_msg *msg;

		if (m->eval->scores.chunk[c].asked)
			continue;
		k = next_free(m, k);
		if (k == TW_NO_SLOT)
			return;
		msg = tw_master_to_worker(m, ctx, k, TW_EVAL);
		if (!msg)
			return;
		msg->h.incarnation = m->member[k].incarnation;
		msg->h.flags = TW_FLAG_FREE;
		msg->b.eval.pin = m->eval->now.pin;
		chunk_range(m, c, &msg->b.eval.from, &msg->b.eval.count);
		m->eval->scores.chunk[c].asked = true;
		m->eval->scores.chunk[c].slot = k;
		m->eval->scores.chunk[c].since = tw_now(ctx);
		m->eval->chunk_of[k] = c;
		tw_master_may_be_due(m, tw_now(ctx));
		tw_send(ctx, msg);
	}
}

void tw_eval_scores_hear_view(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	const struct tw_body_pin *b = &msg->b.pin;
	const struct evaluation *now = &m->eval->now;
	struct kept_view *v = &m->eval->view[msg->h.shard];
	const uint32_t speaker = m->shard[msg->h.shard].node;

	if (b->what != TW_PIN_KEEP || now->state == EVAL_OFF || now->state >= EVAL_SCORED ||
	    b->pin != now->pin)
		return;
	if (tw_master_has_replicas(m)) {
		const uint32_t slot = tw_master_slot_at(m, msg->from.node);

		if (b->round != now->round) { /* as in tw_eval_views_kept */
			tw_eval_master_again(m, ctx);
			return;
		}
		if (tw_replica_says(m, msg->from.node, msg->h.shard, REPLICA_PINNED)) {
			m->member[slot].replica.digest ^= b->digest;
			tw_eval_views_add(&m->eval->now.has, b);
		}
		if (speaker != msg->from.node)
			tw_eval_scores_deal(m, ctx);
	}
	if (speaker != msg->from.node || v->kept)
		return;
	v->kept = true;
	v->has = *b;
	tw_eval_scores_deal(m, ctx);
}

void tw_eval_scores_hear(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	const struct tw_body_result *r = &msg->b.result;
	struct eval_master *e = m->eval;
	uint32_t *of = &e->chunk_of[msg->h.from];
	struct chunk *c;
	uint64_t from;
	uint32_t count;

	if (e->now.state == EVAL_OFF || r->pin != e->now.pin || *of == NO_CHUNK)
		return;
	c = &e->scores.chunk[*of];
	chunk_range(m, *of, &from, &count);
	if (from != r->from || count != r->count || c->done)
		return;
	c->done = true;
	c->loss = r->loss;
	c->correct = r->correct;
	c->samples = r->count;
	tw_pace_add(&m->pace.score, c->slot, tw_now(ctx) - c->since, c->samples);
	e->scores.done++;
	*of = NO_CHUNK;
	tw_eval_scores_deal(m, ctx);
}

/* (2) */
void tw_eval_scores_take_from(struct master *m, struct tw_context *ctx, uint32_t slot)
{
	uint32_t *of = &m->eval->chunk_of[slot];

	if (*of != NO_CHUNK)
		m->eval->scores.chunk[*of].asked = false;
	*of = NO_CHUNK;
	tw_eval_scores_deal(m,
			    ctx); /* its replica's view may have been the last that was missing */
}

bool tw_eval_master_final(struct master *m, struct tw_context *ctx)
{
	m->phase = PHASE_SCORE;
	m->since = tw_now(ctx);
	/* (7), (10): they were evaluated; (13) */
	if (tw_eval_master_delivers(m) && !m->eval->scores.held)
		return false;
	m->eval->final_made = false;
	tw_eval_views_start(m, ctx, 0, tw_master_rounds(m) ? m->rounds.number : 0, 0);
	return true;
}

void tw_eval_master_go(struct master *m, struct tw_context *ctx)
{
	tw_eval_scores_deal(m, ctx);
}

void tw_eval_master_average(struct master *m)
{
	m->eval->now.state = EVAL_VIEWING;
}

void tw_eval_master_viewed(struct master *m, struct tw_context *ctx)
{
	if (m->eval->now.state != EVAL_COMPLETE && m->eval->now.state != EVAL_VIEWING)
		return;
	m->eval->now.state = EVAL_PINNED;
	tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_PINNED, .eval.pin = m->eval->now.pin });
	tw_eval_scores_deal(m, ctx);
}

uint64_t tw_eval_master_delivers(const struct master *m)
{
	const struct best *b = &m->eval->best;

	if (m->eval->scores.delivers)
		return m->eval->scores.delivers;
	return tw_wishes(m, TW_WISH_GOAL) || b->ending == ENDING_MADE ? b->kept.pin : 0;
}

uint64_t tw_eval_master_from(const struct master *m, uint32_t slot)
{
	uint64_t from;
	uint32_t count;

	chunk_range(m, m->eval->chunk_of[slot], &from, &count);
	return from;
}
