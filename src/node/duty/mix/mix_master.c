/* SPDX-License-Identifier: Apache-2.0 */
/* mix_master.c - replicas that differ while they train (plan.topology.mixing): when they are made
 * equal, and what is made of them for an evaluation.
 *
 *  (1) nobody joins or goes within a generation.  Whoever does is the end of it: nobody gets work
 *      any more, everybody settles, and the next generation begins with equal replicas.
 *  (2) replicas are settled when each has all contributions of the others, and no exchange of
 *      parameters is open.  Nobody has work then, so it stays so.
 *  (3) settled replicas take the mean of their parameters before a cut, at the end and where
 *      somebody has gone.  All adopt it (COMMIT) when all have it, or nobody does, and say so.
 *  (4) where contributions spread, one of a worker that has gone may have reached only some.  Then
 *      the speaker's replica takes the place of all others: the contribution is in all of them or
 *      in none.  Elsewhere, too, everybody gets a copy of what the speaker counted.
 *  (5) where replicas mix in rounds, rounds end and begin with those who are there
 *      (duty/round); only (3) is of use.
 *  (6) an evaluation is of the mean of all views, which nobody trains on. */
#include "node/duty/mix/mix.h"
#include "node/master/master.h"

#include <stddef.h>

/* How equal replicas are.  tw_mix_master_begin and tw_mix_master_lost reset the state. */
enum calm_state {
	CALM_NOT,
	CALM_SETTLING,
	CALM_AVERAGING,
	CALM_ADOPTING, /* all have the mean, and were told to adopt it */
	CALM_EQUAL,    /* all have the same parameters, or will have the speaker's */
};

struct mix_master {
	enum calm_state state;
	uint32_t attempt; /* of the last formation but one of views */
	uint32_t views;   /* number of the formation that takes the mean of views ... */
	uint32_t viewers; /* ... and its members */
};

/* --- words ------------------------------------------------------------------------------------ */

static void send_form(struct master *m, struct tw_context *ctx, uint32_t slot, uint32_t shard,
		      enum tw_form_what what)
{
	const uint32_t attempt = what == TW_FORM_VIEWS ? m->mix->views : m->mix->attempt;
	struct tw_msg *msg = tw_replica_to_shard(m, ctx, slot, shard, TW_FORM);
	struct tw_member *tail =
		msg ? tw_msg_tail(ctx, msg, m->replicas.ready * sizeof *tail) : NULL;
	uint32_t count = 0;

	if (!tail)
		return;
	msg->h.flags = what == TW_FORM_VIEWS ? TW_FLAG_FREE : 0;
	msg->b.form = (struct tw_body_form){ m->rounds.number, attempt, what };
	for (uint32_t k = tw_replicas_next(m, 0); k != TW_NO_SLOT; k = tw_replicas_next(m, k + 1))
		tail[count++] = (struct tw_member){ k, m->member[k].incarnation, TW_LIVE,
						    m->member[k].node };
	tw_send(ctx, msg);
}

static void form_all(struct master *m, struct tw_context *ctx, enum tw_form_what what)
{
	if (what == TW_FORM_VIEWS)
		m->mix->views = tw_replicas_new_attempt(m, ctx);
	else
		m->mix->attempt = tw_replicas_new_attempt(m, ctx);
	tw_replicas_ask_anew(m, what == TW_FORM_VIEWS ? REPLICA_VIEWED : REPLICA_CALM);
	for (uint32_t k = tw_replicas_next(m, 0); k != TW_NO_SLOT; k = tw_replicas_next(m, k + 1))
		for (uint32_t s = 0; s < m->plan->problem.shards; s++)
			send_form(m, ctx, k, s, what);
}

static void commit_to(struct master *m, struct tw_context *ctx, uint32_t slot)
{
	for (uint32_t s = 0; s < m->plan->problem.shards; s++) {
		struct tw_msg *msg = tw_replica_to_shard(m, ctx, slot, s, TW_COMMIT);

		if (!msg)
			return;
		msg->b.commit = (struct tw_body_commit){ .round = m->rounds.number,
							 .attempt = m->mix->attempt };
		tw_send(ctx, msg);
	}
}

/* --- equal ------------------------------------------------------------------------------------ */

static void settle(struct master *m, struct tw_context *ctx)
{
	m->mix->state = CALM_SETTLING;
	m->since = tw_now(ctx);
	form_all(m, ctx, TW_FORM_SETTLE);
}

/* (3), (4) */
static void average(struct master *m, struct tw_context *ctx)
{
	if (m->replicas.torn && tw_plan_spreads(m->plan)) {
		m->mix->state = CALM_EQUAL;
		return;
	}
	m->mix->state = CALM_AVERAGING;
	form_all(m, ctx, TW_FORM_PARAMETERS);
}

static void adopt(struct master *m, struct tw_context *ctx)
{
	for (uint32_t k = tw_replicas_next(m, 0); k != TW_NO_SLOT; k = tw_replicas_next(m, k + 1))
		commit_to(m, ctx, k);
	tw_replicas_ask_anew(m, REPLICA_CALM);
	m->mix->state = CALM_ADOPTING;
}

bool tw_mix_master_calm(struct master *m, struct tw_context *ctx)
{
	const bool said = m->replicas.ready && tw_replicas_all(m, REPLICA_CALM);

	if (!m->mix || m->mix->state == CALM_EQUAL || !m->replicas.ready)
		return true;
	if (m->mix->state == CALM_NOT && tw_replicas_asked(m))
		return false; /* whose copy is on its way takes part */
	if (m->mix->state == CALM_NOT && !tw_master_rounds(m))
		settle(m, ctx);
	else if (m->mix->state == CALM_NOT || (m->mix->state == CALM_SETTLING && said))
		average(m, ctx);
	else if (m->mix->state == CALM_AVERAGING && said)
		adopt(m, ctx);
	else if (m->mix->state == CALM_ADOPTING && said)
		m->mix->state = CALM_EQUAL;
	return m->mix->state == CALM_EQUAL;
}

void tw_mix_master_reform(struct master *m, struct tw_context *ctx)
{
	tw_eval_master_views_gone(m, ctx);
	tw_checkpoint_master_abort(m);
	if (m->replicas.torn)
		tw_replicas_copy_all(m);
	tw_master_new_generation(m, ctx);
	tw_deal_forget(m, ctx);
	m->phase = PHASE_GATHER;
	m->since = tw_now(ctx);
}

void tw_mix_master_begin(struct master *m, struct tw_context *ctx)
{
	if (!m->mix)
		return;
	m->mix->state = CALM_NOT;
	m->replicas.torn = false;
	if (!tw_master_rounds(m))
		form_all(m, ctx, TW_FORM_SPREAD);
}

/* So that a run that resumes is the run that was not stopped: who speaks decides how long some
 * messages take. */
void tw_mix_master_speaker(struct master *m)
{
	const uint32_t first = tw_replicas_next_speaker(m);

	for (uint32_t s = 0; m->mix && first != TW_NO_SLOT && s < m->plan->problem.shards; s++)
		m->shard[s].node = m->member[first].node;
}

void tw_mix_master_lost(struct master *m, struct tw_context *ctx)
{
	if (!m->mix || m->phase == PHASE_OVER)
		return;
	if (m->mix->state != CALM_EQUAL) { /* else the others have what they need */
		m->mix->state = CALM_NOT;
		m->replicas.torn = m->restart.begun && !tw_master_rounds(m);
	}
	if (tw_eval_master_averages(m))
		tw_eval_master_again(m, ctx);
}

void tw_mix_master_have(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	const struct tw_body_have *h = &msg->b.have;
	const uint32_t slot = tw_master_slot_at(m, msg->from.node);

	if (slot == UINT32_MAX || msg->h.shard >= m->plan->problem.shards || !h->attempt)
		return;
	if (h->attempt == m->mix->attempt &&
	    !(m->mix->state == CALM_ADOPTING) == !(msg->h.flags & TW_FLAG_APPLIED))
		tw_replica_says(m, msg->from.node, msg->h.shard, REPLICA_CALM);
	if (h->attempt == m->mix->views && tw_eval_master_averages(m)) {
		tw_replica_says(m, msg->from.node, msg->h.shard, REPLICA_VIEWED);
		if (m->replicas.full[REPLICA_VIEWED] == m->mix->viewers)
			tw_eval_master_viewed(m, ctx);
	}
}

void tw_mix_master_view(struct master *m, struct tw_context *ctx)
{
	m->mix->viewers = m->replicas.ready;
	form_all(m, ctx, TW_FORM_VIEWS);
}

void tw_mix_master_resync(struct master *m, struct tw_context *ctx, uint32_t slot)
{
	static const enum tw_form_what what[] = { [CALM_NOT] = TW_FORM_SPREAD,
						  [CALM_SETTLING] = TW_FORM_SETTLE,
						  [CALM_AVERAGING] = TW_FORM_PARAMETERS,
						  [CALM_ADOPTING] = TW_FORM_PARAMETERS,
						  [CALM_EQUAL] = TW_FORM_PARAMETERS };

	if (!m->mix || m->member[slot].replica.state != REPLICA_READY || !m->mix->attempt)
		return;
	for (uint32_t s = 0; s < m->plan->problem.shards; s++) {
		if (!tw_master_rounds(m) || m->mix->state != CALM_NOT)
			send_form(m, ctx, slot, s, what[m->mix->state]);
		if (tw_eval_master_averages(m))
			send_form(m, ctx, slot, s, TW_FORM_VIEWS);
	}
	if (m->mix->state >= CALM_ADOPTING)
		commit_to(m, ctx, slot);
}

bool tw_mix_master_waits(const struct master *m, uint32_t *slot, const char **why)
{
	const struct mix_master *x = m->mix;

	if (!x || m->phase != PHASE_DRAIN || x->state == CALM_NOT || x->state == CALM_EQUAL)
		return false;
	*why = x->state == CALM_SETTLING ? "its replica to have all contributions"
					 : "its replica to have the mean of all";
	*slot = tw_replicas_next(m, 0);
	while (*slot != TW_NO_SLOT &&
	       m->member[*slot].replica.heard[REPLICA_CALM] >= m->plan->problem.shards)
		*slot = tw_replicas_next(m, *slot + 1);
	return *slot != TW_NO_SLOT;
}

/* --- the duty -------------------------------------------------------------------------------- */

static bool wanted(const struct tw_plan *plan)
{
	return tw_plan_is_loose(plan);
}

const struct tw_duty tw_mix_master = {
	.name = "mix",
	.bytes = sizeof(struct mix_master),
	.place = offsetof(struct master, mix),
	.wanted = wanted,
};
