/* SPDX-License-Identifier: Apache-2.0 */
/* eval_views.c - the master's side of an evaluation: the views that shards keep for it, and its
 * label.  The numbers in brackets are those of README.md. */
#include "node/duty/eval/eval.h"
#include "node/duty/eval/eval_state.h"
#include "node/kernel/ledger.h"
#include "node/kernel/master_post.h"
#include "node/kernel/master_roster.h"
#include "node/kernel/phase.h"

#include <math.h>

void tw_eval_views_send(struct tw_context *ctx, struct tw_msg *msg, const struct tw_body_pin *what)
{
	if (!msg)
		return;
	msg->h.flags = TW_FLAG_FREE;
	msg->b.pin = *what;
	tw_send(ctx, msg);
}

void tw_eval_master_send_pin(struct master *m, struct tw_context *ctx, uint32_t shard,
			     const struct tw_body_pin *what)
{
	/* whoever evaluates reads from its own replica */
	for (uint32_t k = tw_replicas_next(m, 0); k != TW_NO_SLOT; k = tw_replicas_next(m, k + 1))
		if (m->member[k].node != m->shard[shard].node &&
		    !(what->what == TW_PIN_KEEP && what->pin == m->eval->now.pin &&
		      tw_replica_said(m, k, shard, REPLICA_PINNED)))
			tw_eval_views_send(ctx, tw_replica_to_shard(m, ctx, k, shard, TW_PIN),
					   what);
	tw_eval_views_send(ctx, tw_master_to_shard(m, ctx, shard, TW_PIN), what);
}

void tw_eval_views_pin(struct master *m, struct tw_context *ctx, uint32_t shard)
{
	struct tw_body_pin what = { .pin = m->eval->now.pin,
				    .what = TW_PIN_KEEP,
				    .round = m->eval->now.round,
				    .samples = m->eval->now.samples };

	if (m->eval->now.state != EVAL_OFF &&
	    (!m->eval->view[shard].kept || !tw_replicas_all(m, REPLICA_PINNED)))
		tw_eval_master_send_pin(m, ctx, shard, &what);
	if (m->eval->now.state == EVAL_OFF || !m->eval->now.number || tw_master_rounds(m))
		return;
	for (uint64_t k = m->eval->now.number + 1; k <= m->eval->scores.told; k++) { /* (6) */
		what.pin = m->eval->scores.pin[k % m->eval->scores.pins];
		what.samples = tw_eval_due_threshold(m, k);
		tw_eval_master_send_pin(m, ctx, shard, &what);
	}
}

/* Nobody computes anything for an evaluation. */
static void forget_chunks(struct master *m)
{
	for (uint32_t c = 0; c < m->eval->scores.chunks + m->eval->scores.held; c++) {
		if (m->eval->scores.chunk[c].asked && !m->eval->scores.chunk[c].done)
			m->eval->chunk_of[m->eval->scores.chunk[c].slot] = NO_CHUNK;
		m->eval->scores.chunk[c] = (struct chunk){ 0 };
	}
	m->eval->scores.done = 0;
}

uint64_t tw_eval_views_new_pin(struct master *m, struct tw_context *ctx)
{
	return ((uint64_t)ctx->boot << 32) | ++m->restart.counter;
}

/* The pin of a threshold that shards were told of, or are told of now. */
static uint64_t pin_of(struct master *m, struct tw_context *ctx, uint64_t k)
{
	struct scores *o = &m->eval->scores;

	if (k > o->told) {
		o->told = k;
		o->pin[k % o->pins] = tw_eval_views_new_pin(m, ctx);
	}
	return o->pin[k % o->pins];
}

void tw_eval_views_start(struct master *m, struct tw_context *ctx, uint64_t number, uint64_t round,
			 uint64_t samples)
{
	const bool ahead = number && !tw_master_rounds(m); /* (6) */

	forget_chunks(m);
	m->eval->now = (struct evaluation){ .state = EVAL_AWAITED,
					    .pin = ahead ? pin_of(m, ctx, number)
							 : tw_eval_views_new_pin(m, ctx),
					    .number = number,
					    .round = round,
					    .samples = samples };
	tw_replicas_ask_anew(m, REPLICA_PINNED);
	for (uint32_t s = 0; s < m->plan->problem.shards; s++) {
		m->eval->view[s].kept = false;
		tw_eval_views_pin(m, ctx, s);
	}
}

/* Outside rounds shards are told ahead of time. */
static void await_next(struct master *m, struct tw_context *ctx)
{
	const uint64_t k = m->eval->scores.evaluated_at + 1;

	if (m->eval->now.state == EVAL_OFF && !tw_master_rounds(m) && m->plan->evaluate_every > 0 &&
	    !tw_wishes(m, TW_WISH_GOAL) && tw_eval_due_has(m, k))
		tw_eval_views_start(m, ctx, k, 0, tw_eval_due_threshold(m, k));
}

void tw_eval_master_ahead(struct master *m, struct tw_context *ctx)
{
	const uint64_t most = m->count.samples + m->dealing.open_samples;
	struct scores *o = &m->eval->scores;

	if (!tw_eval_due_tells_ahead(m))
		return;
	for (uint64_t k = o->told + 1; k < m->eval->now.number + o->pins &&
				       tw_eval_due_threshold(m, k) <= most && tw_eval_due_has(m, k);
	     k++) {
		const struct tw_body_pin what = { .pin = pin_of(m, ctx, k),
						  .what = TW_PIN_KEEP,
						  .samples = tw_eval_due_threshold(m, k) };

		for (uint32_t s = 0; s < m->plan->problem.shards; s++)
			tw_eval_master_send_pin(m, ctx, s, &what);
	}
}

void tw_eval_views_begin(struct master *m, struct tw_context *ctx)
{
	if (m->eval->now.state == EVAL_VIEWING) /* who takes the mean went with the generation */
		tw_eval_master_again(m, ctx);
	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		tw_eval_views_pin(m, ctx, s);
	await_next(m, ctx);
}

void tw_eval_master_committed(struct master *m, struct tw_context *ctx)
{
	uint64_t k;

	if (m->eval->now.state != EVAL_OFF || !(m->plan->evaluate_every > 0) ||
	    tw_eval_due_is_last_round(m))
		return;
	k = tw_eval_due_reached(m, m->count.samples);
	if (k > m->eval->scores.evaluated_at)
		tw_eval_views_start(m, ctx, k, m->rounds.number, 0);
}

/* Shards that have not kept a view keep what they have. */
static void hurry(struct master *m, struct tw_context *ctx)
{
	m->eval->now.state = EVAL_HURRIED;
	m->eval->now.samples = 0;
	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		tw_eval_views_pin(m, ctx, s);
}

void tw_eval_views_count_more(struct master *m, struct tw_context *ctx)
{
	await_next(m, ctx);
	/* a shard that lost updates may never have as many: a whole interval later it waits no
	 * more */
	if (m->eval->now.state == EVAL_AWAITED && m->eval->now.number &&
	    m->count.samples >= tw_eval_due_threshold(m, m->eval->now.number + 1))
		hurry(m, ctx);
}

static bool thresholds_are_even(struct master *m, struct tw_context *ctx)
{
	if (!tw_deal_exhausted(m) || tw_wishes(m, TW_WISH_STOP | TW_WISH_GOAL) ||
	    m->eval->now.state == EVAL_OFF || !m->eval->now.number)
		return true;
	if (m->eval->now.state == EVAL_AWAITED && !tw_master_rounds(m)) {
		if (m->count.samples < tw_eval_due_threshold(m, m->eval->now.number))
			return true;
		hurry(m, ctx); /* nobody will have more */
	}
	return m->eval->now.state == EVAL_OFF;
}

/* (12) */
bool tw_eval_views_are_even(struct master *m, struct tw_context *ctx)
{
	struct best *b = &m->eval->best;

	if (!thresholds_are_even(m, ctx))
		return false;
	if (!m->plan->keeping.best || !tw_deal_exhausted(m) ||
	    tw_wishes(m, TW_WISH_STOP | TW_WISH_GOAL) || b->ending == ENDING_MADE)
		return true;
	if (b->ending == ENDING_NONE) {
		tw_eval_master_abort(m, ctx); /* what is awaited does not come any more */
		b->ending = ENDING_MADE_NOW;
		tw_eval_views_start(m, ctx, 0, tw_master_rounds(m) ? m->rounds.number : 0, 0);
	}
	return false;
}

/* Shards keep no view up to this pin. */
static void unpin(struct master *m, struct tw_context *ctx, uint64_t pin)
{
	const struct tw_body_pin what = { .pin = pin, .what = TW_PIN_RELEASE };

	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		if (tw_shard_has_home(&m->shard[s]))
			tw_eval_master_send_pin(m, ctx, s, &what);
}

/* Shards keep no view, and are told of all thresholds again. */
static void unpin_all(struct master *m, struct tw_context *ctx)
{
	struct scores *o = &m->eval->scores;
	const uint64_t last = o->told > o->evaluated_at ? o->pin[o->told % o->pins] : 0;

	unpin(m, ctx, last > m->eval->now.pin ? last : m->eval->now.pin);
	o->told = o->evaluated_at;
}

void tw_eval_master_again(struct master *m, struct tw_context *ctx)
{
	unpin_all(m, ctx);
	tw_eval_views_start(m, ctx, m->eval->now.number, tw_master_rounds(m) ? m->rounds.number : 0,
			    0);
}

void tw_eval_master_abort(struct master *m, struct tw_context *ctx)
{
	if (m->eval->now.state == EVAL_OFF)
		return;
	m->eval->now.state = EVAL_OFF;
	forget_chunks(m);
	unpin_all(m, ctx);
}

void tw_eval_master_views_gone(struct master *m, struct tw_context *ctx)
{
	tw_eval_master_abort(m, ctx);
	m->eval->best.ending = ENDING_NONE;
	if (!m->eval->scores.delivers && !m->eval->best.out_of_patience &&
	    !(m->plan->keeping.best && m->eval->scores.goal.reached))
		return;
	/* (7) cannot be kept: train on, and reach it again */
	m->eval->scores.delivers = 0;
	m->eval->scores.goal = (struct tw_goal){ .reached = false };
	m->eval->best.out_of_patience = false;
	tw_wish_put(m, TW_WISH_GOAL, false);
}

uint64_t tw_eval_views_passed(const struct master *m)
{
	const double have = m->eval->now.label.samples;
	const uint64_t past =
		m->eval->now.number && have > 0 ? tw_eval_due_reached(m, (uint64_t)have) : 0;

	return past > m->eval->now.number ? past : m->eval->now.number;
}

void tw_eval_views_settle(struct master *m, struct tw_context *ctx)
{
	struct scores *o = &m->eval->scores;
	const uint64_t k = tw_eval_views_passed(m);

	m->eval->now.state = EVAL_OFF;
	o->seen = m->eval->now.label;
	if (m->eval->now.number && k > o->evaluated_at) /* (5) */
		o->evaluated_at = k;
	if (o->delivers) /* (7) */
		return;
	if (m->eval->now.number && !tw_master_rounds(m))
		unpin(m, ctx, o->pin[(k < o->told ? k : o->told) % o->pins]);
	else
		unpin(m, ctx, m->eval->now.pin);
	if (o->told < o->evaluated_at)
		o->told = o->evaluated_at;
}

void tw_eval_views_go_on(struct master *m, struct tw_context *ctx)
{
	m->dealing.again = true; /* (6): there may be room */
	if (tw_master_rounds(m))
		tw_eval_master_committed(m, ctx);
	else
		await_next(m, ctx);
}

void tw_eval_views_add(struct view_sums *sum, const struct tw_body_pin *v)
{
	sum->samples += (double)v->samples;
	sum->steps += (double)v->steps;
	sum->updates += (double)v->updates;
	sum->contributions += (double)v->staleness_count;
	sum->views++;
}

/* (4) */
static struct tw_point label_of(const struct master *m)
{
	struct tw_point l = { .train_loss = m->count.loss_samples ? m->count.train_loss : NAN };
	struct view_sums speakers = { .views = 0 }, all;
	double late = 0, contributions;

	for (uint32_t s = 0; s < m->plan->problem.shards; s++) {
		const struct tw_body_pin *v = &m->eval->view[s].has;

		tw_eval_views_add(&speakers, v);
		l.rate += v->rate;
		late += (double)v->staleness_sum;
	}
	contributions = speakers.contributions;
	all = tw_plan_is_loose(m->plan) ? m->eval->now.has : speakers; /* else replicas are equal */
	l.samples = all.samples / all.views;
	l.steps = all.steps / all.views;
	l.updates = tw_master_updates(m, all.updates, all.contributions) / all.views;
	l.rate /= m->plan->problem.shards;
	l.staleness = contributions > 0 ? late / contributions : NAN;
	if (m->dealer->labels)
		l.updates = m->dealer->updates(m);
	return l;
}

static bool keeps_view(const struct master *m, uint32_t shard)
{
	return m->eval->view[shard].kept;
}

bool tw_eval_views_all_kept(struct master *m)
{
	return tw_replicas_all(m, REPLICA_PINNED) &&
	       tw_master_every_shard(m, &m->eval->now.lacks, keeps_view);
}

static bool one_round(const struct master *m)
{
	for (uint32_t s = 1; s < m->plan->problem.shards; s++)
		if (m->eval->view[s].has.round != m->eval->view[0].has.round)
			return false;
	return true;
}

/* Was this view evaluated before, or is it the one that is evaluated at the end? */
static bool is_known(const struct master *m)
{
	const struct tw_point *l = &m->eval->now.label;
	const bool ends = m->phase == PHASE_DRAIN && tw_deal_exhausted(m);

	if (!m->eval->now.number || tw_master_rounds(m))
		return false;
	if (m->eval->now.state == EVAL_HURRIED && /* it was not waited for */
	    ((l->updates == m->eval->scores.seen.updates &&
	      l->samples == m->eval->scores.seen.samples) ||
	     (ends && l->samples < (double)tw_eval_due_threshold(m, m->eval->now.number))))
		return true;
	return l->samples >= (double)(m->plan->dealing.positions + m->count.redealt);
}

void tw_eval_views_kept(struct master *m, struct tw_context *ctx)
{
	struct evaluation *now = &m->eval->now;

	if (tw_master_rounds(m) && !one_round(m)) {
		/* some were told when they were further already: nobody is further than this */
		tw_eval_master_again(m, ctx);
		return;
	}
	now->label = label_of(m);
	if (is_known(m)) {
		tw_eval_views_settle(m, ctx);
		tw_eval_views_go_on(m, ctx);
		return;
	}
	now->state = EVAL_COMPLETE;
	now->at = m->since = tw_now(ctx);
}

void tw_eval_views_pin_awaited(struct master *m, struct tw_context *ctx)
{
	for (uint32_t s = 0; s < m->plan->problem.shards && m->eval->now.state == EVAL_AWAITED; s++)
		tw_eval_views_pin(m, ctx, s);
}
