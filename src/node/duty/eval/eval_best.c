/* SPDX-License-Identifier: Apache-2.0 */
/* eval_best.c - the master's side of train.keep: best: which evaluation is the best, who keeps its
 * views, and when none was better for long.  The numbers in brackets are those of README.md. */
#include "node/duty/eval/eval.h"
#include "base/digest.h"
#include "node/duty/eval/eval_state.h"
#include "node/kernel/master_post.h"
#include "node/kernel/master_roster.h"
#include "node/kernel/phase.h"

#include <math.h>

/* --- keeping it ------------------------------------------------------------------------------- */

/* (10) */
static bool is_best(const struct master *m)
{
	const struct tw_kept *k = &m->eval->best.kept;
	const struct scores *o = &m->eval->scores;

	if (!m->plan->keeping.best || isnan(o->loss) || m->phase == PHASE_SCORE)
		return false;
	if (!k->pin || tw_eval_scores_are_enough(m))
		return true;
	if (m->plan->keeping.by_accuracy && o->accuracy != k->accuracy)
		return o->accuracy > k->accuracy;
	return o->loss < k->loss;
}

void tw_eval_best_tell(struct master *m, struct tw_context *ctx, uint32_t shard)
{
	const struct best *b = &m->eval->best;
	struct tw_body_pin what = { .pin = b->asked, .what = TW_PIN_ASK };

	if (b->asked && !m->eval->view[shard].told)
		tw_eval_master_send_pin(m, ctx, shard, &what);
	if (m->eval->now.state != EVAL_KEEPING || shard < b->shown)
		return;
	what = (struct tw_body_pin){ .pin = b->next.pin, .what = TW_PIN_BEST, .kept = b->next };
	tw_eval_master_send_pin(m, ctx, shard, &what);
	what.round = 1;
	if (shard == b->shown)
		tw_eval_views_send(ctx, tw_master_to_shard(m, ctx, shard, TW_PIN), &what);
}

static void show_again(struct master *m)
{
	struct best *b = &m->eval->best;

	b->shown = 0;
	b->model = (struct tw_mingling){ .of = m->plan->problem.constants };
	if (b->digest)
		tw_digest_reset(b->digest);
}

static void keep(struct master *m, struct tw_context *ctx)
{
	struct best *b = &m->eval->best;

	show_again(m);
	m->eval->now.state = EVAL_KEEPING;
	b->next =
		(struct tw_kept){ .pin = m->eval->now.pin,
				  .number = m->eval->now.number ? tw_eval_views_passed(m)
								: m->eval->scores.evaluated_at + 1,
				  .loss = m->eval->scores.loss,
				  .accuracy = m->eval->scores.accuracy,
				  .samples = m->eval->now.label.samples };
	tw_replicas_ask_anew(m, REPLICA_KEPT);
	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		tw_eval_best_tell(m, ctx, s);
}

/* May the run end because none was better for long? */
static void judge(struct master *m, struct tw_context *ctx)
{
	struct best *b = &m->eval->best;
	const uint64_t patience = m->plan->keeping.patience;

	if (b->ending == ENDING_MADE_NOW)
		b->ending = ENDING_MADE;
	if (!m->eval->now.number || !b->kept.pin || !patience || tw_wishes(m, TW_WISH_GOAL) ||
	    m->eval->scores.evaluated_at < b->kept.number + patience)
		return;
	b->out_of_patience = true;
	tw_wish_put(m, TW_WISH_GOAL, true);
	tw_say(ctx, TW_INFO,
	       "no evaluation since epoch %.4g was better (train.patience): the run ends",
	       b->kept.samples / (double)m->plan->problem.samples);
}

static void conclude(struct master *m, struct tw_context *ctx, const char *digest)
{
	tw_eval_scores_conclude(m, ctx, digest);
	judge(m, ctx);
	tw_eval_views_go_on(m, ctx);
}

bool tw_eval_master_scored(struct master *m, struct tw_context *ctx)
{
	struct scores *o = &m->eval->scores;

	if (m->eval->now.state != EVAL_SCORED || m->eval->best.asked)
		return false;
	tw_eval_scores_add_up(o->chunk, o->chunks, &o->loss, &o->accuracy);
	if (is_best(m) && m->cuts.owed) /* a cut has one best on all shards */
		return false;
	if (is_best(m))
		keep(m, ctx);
	else
		conclude(m, ctx, NULL);
	return true;
}

static void digest_some(void *digest, const float *values, size_t n)
{
	tw_digest_add(digest, values, n * sizeof *values);
}

/* PART with a pin: the view of this shard that is kept, for its digest. */
void tw_eval_best_take(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	const struct tw_problem *p = &m->plan->problem;
	const uint32_t s = msg->h.shard;
	struct best *b = &m->eval->best;
	const size_t from = p->border[s], n = p->border[s + 1] - from;
	const size_t trained = from >= p->trainable      ? 0
			       : n < p->trainable - from ? n
							 : p->trainable - from;
	char text[TW_DIGEST_TEXT];

	if (m->eval->now.state != EVAL_KEEPING || s != b->shown || msg->h.seq != b->next.pin ||
	    msg->h.payload != n * sizeof(float))
		return;
	tw_mingle(&b->model, (const float *)(const void *)tw_msg_payload(msg), trained, digest_some,
		  b->digest);
	b->shown++;
	if (b->shown < p->shards) {
		tw_eval_best_tell(m, ctx, b->shown);
		return;
	}
	tw_digest_text(b->digest, text);
	b->kept = b->next;
	conclude(m, ctx, text);
}

/* --- what shards keep ------------------------------------------------------------------------- */

/* Shards do not keep the same: none of it is of use. */
static void forget(struct master *m, struct tw_context *ctx)
{
	const struct tw_body_pin what = { .pin = m->eval->now.pin, .what = TW_PIN_BEST };

	m->eval->best.kept = (struct tw_kept){ 0 };
	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		if (tw_shard_has_home(&m->shard[s]))
			tw_eval_master_send_pin(m, ctx, s, &what);
}

void tw_eval_best_begin(struct master *m, struct tw_context *ctx)
{
	m->eval->best.ending = ENDING_NONE;
	if (!m->plan->keeping.best)
		return;
	if (m->eval->now.state != EVAL_KEEPING)
		m->eval->best.asked = tw_eval_views_new_pin(m, ctx);
	for (uint32_t s = 0; s < m->plan->problem.shards; s++) {
		m->eval->view[s].told = false;
		tw_eval_best_tell(m, ctx, s);
	}
}

static bool has_told(const struct master *m, uint32_t shard)
{
	return m->eval->view[shard].told;
}

/* (11): all have told what they keep. */
static void learn(struct master *m, struct tw_context *ctx)
{
	struct best *b = &m->eval->best;
	const struct tw_kept before = b->kept, *first = &m->eval->view[0].best;
	bool same = true;

	b->asked = 0;
	for (uint32_t s = 1; s < m->plan->problem.shards; s++)
		same = same && tw_kept_same(&m->eval->view[s].best, first);
	if (!same) {
		forget(m, ctx);
		tw_say(ctx, TW_WARNING,
		       "the weights of the best evaluation%s are lost with a server: the best is "
		       "chosen among the evaluations that follow (train.keep)",
		       before.pin ? " so far" : "");
		return;
	}
	if (before.pin && !tw_kept_same(&before, first))
		tw_say(ctx, TW_WARNING,
		       "the run goes back, and so does the best evaluation: that of epoch %.4g is "
		       "lost (train.keep)",
		       before.samples / (double)m->plan->problem.samples);
	b->kept = *first;
	if (first->pin && tw_master_has_replicas(m)) { /* which others have it? */
		const struct tw_body_pin what = { .pin = first->pin, .what = TW_PIN_ASK };

		tw_replicas_ask_anew(m, REPLICA_KEPT);
		for (uint32_t s = 0; s < m->plan->problem.shards; s++)
			tw_eval_master_send_pin(m, ctx, s, &what);
	}
}

void tw_eval_best_hear(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	const struct tw_body_pin *b = &msg->b.pin;
	const uint32_t s = msg->h.shard;
	struct best *e = &m->eval->best;
	struct kept_view *v = &m->eval->view[s];
	const bool keeping = m->eval->now.state == EVAL_KEEPING;
	const struct tw_kept *best = keeping ? &e->next : &e->kept;

	if (tw_master_has_replicas(m) && best->pin && tw_kept_same(&b->kept, best))
		tw_replica_says(m, msg->from.node, s, REPLICA_KEPT);
	if (m->shard[s].node != msg->from.node)
		return;
	if (e->asked && b->pin == e->asked && !v->told) {
		v->told = true;
		v->best = b->kept;
		if (tw_master_every_shard(m, &e->lacks, has_told))
			learn(m, ctx);
	} else if (keeping && b->pin == best->pin && !tw_kept_same(&b->kept, best)) {
		/* a replica that came after the view was kept speaks now */
		forget(m, ctx);
		tw_say(ctx, TW_WARNING,
		       "the weights of the best evaluation so far are lost with a worker: the best "
		       "is chosen among the evaluations that follow (train.keep)");
		conclude(m, ctx, NULL);
	}
}

void tw_eval_master_speaker(struct master *m)
{
	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		m->eval->view[s].kept = m->eval->view[s].told = false;
	show_again(m);
}

void tw_eval_master_pin_again(struct master *m, struct tw_context *ctx, uint32_t slot)
{
	const struct tw_body_pin what = { .pin = m->eval->best.kept.pin, .what = TW_PIN_ASK };

	for (uint32_t s = 0; s < m->plan->problem.shards && what.pin; s++) /* does it have it? */
		tw_eval_views_send(ctx, tw_replica_to_shard(m, ctx, slot, s, TW_PIN), &what);
	tw_eval_views_pin_awaited(m, ctx);
}

/* --- what others ask -------------------------------------------------------------------------- */

bool tw_eval_master_awaits_cut(const struct master *m)
{
	return m->eval->now.state == EVAL_SCORED && !m->eval->best.asked;
}

bool tw_eval_master_keeps(const struct master *m)
{
	return m->eval->now.state == EVAL_KEEPING;
}

bool tw_eval_best_owes(const struct master *m, uint32_t shard)
{
	const struct best *b = &m->eval->best;

	return (b->asked && !m->eval->view[shard].told) ||
	       (m->eval->now.state == EVAL_KEEPING && shard == b->shown);
}

uint32_t tw_eval_master_shown(const struct master *m)
{
	return m->eval->best.shown;
}
