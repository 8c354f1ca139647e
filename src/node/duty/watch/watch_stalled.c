/* SPDX-License-Identifier: Apache-2.0 */
/* watch_stalled.c - who holds up the others, where only shards know (9 to 13).  The numbers in
 * brackets are those of README.md. */
#include "node/duty/watch/watch_state.h"

#define PATIENCE 10 /* times the first step */

enum tw_status tw_watch_stalled_open(struct master *m)
{
	const size_t slots = m->plan->crew.workers;
	struct stalled *s = &m->watch->stalled;

	if (!m->plan->crew.stuck)
		return TW_OK;
	s->whom = tw_heap_zeros(m->heap, slots * sizeof *s->whom);
	s->depth = tw_heap_zeros(m->heap, slots * sizeof *s->depth);
	s->votes = tw_heap_zeros(m->heap, slots * sizeof *s->votes);
	s->applied = tw_heap_zeros(m->heap, m->plan->problem.shards * sizeof *s->applied);
	return s->whom && s->depth && s->votes && s->applied ? TW_OK : TW_NO_MEMORY;
}

void tw_watch_stalled_close(struct master *m)
{
	m->heap->put(m->heap, m->watch->stalled.whom);
	m->heap->put(m->heap, m->watch->stalled.depth);
	m->heap->put(m->heap, m->watch->stalled.votes);
	m->heap->put(m->heap, m->watch->stalled.applied);
}

/* Is what was asked last about this formation of the round that is open? */
static bool is_about(const struct master *m, uint32_t attempt)
{
	const struct stalled *s = &m->watch->stalled;

	return s->asked && s->attempt == attempt && s->round == m->rounds.number;
}

static bool ask_shard(struct master *m, struct tw_context *ctx, struct tw_msg *msg)
{
	if (!msg)
		return false;
	msg->h.flags = TW_FLAG_HELD;
	msg->b.ask.number = m->watch->stalled.attempt;
	tw_send(ctx, msg);
	m->watch->stalled.left++;
	return true;
}

/* All shards of all replicas, or of all servers. */
static void ask(struct master *m, struct tw_context *ctx, uint32_t attempt)
{
	const bool replicas = tw_master_has_replicas(m);
	struct stalled *s = &m->watch->stalled;

	s->asked = true;
	s->at = tw_now(ctx);
	s->left = 0;
	s->attempt = attempt;
	s->round = m->rounds.number;
	for (uint32_t k = 0; k < m->plan->crew.workers; k++) {
		s->whom[k] = STALLED_SILENT;
		s->votes[k] = 0;
	}
	for (uint32_t shard = 0; shard < m->plan->problem.shards && !replicas; shard++)
		if (tw_shard_has_home(&m->shard[shard]) &&
		    !ask_shard(m, ctx, tw_master_to_shard(m, ctx, shard, TW_ASK)))
			return;
	for (uint32_t k = tw_replicas_next(m, 0); k != TW_NO_SLOT; k = tw_replicas_next(m, k + 1))
		for (uint32_t shard = 0; shard < m->plan->problem.shards; shard++)
			if (!ask_shard(m, ctx, tw_replica_to_shard(m, ctx, k, shard, TW_ASK)))
				return;
}

void tw_watch_stalled_ask(struct master *m, struct tw_context *ctx)
{
	ask(m, ctx, ++m->watch->stalled.questions);
}

/* Somebody has waited for another one since about then. */
static void note_first(struct master *m, struct tw_context *ctx, const struct tw_body_have *h)
{
	const int64_t now = tw_now(ctx);
	const int64_t since =
		h->loss >= 0.0 && h->loss < (double)now ? now - (int64_t)h->loss : now;

	if (!m->watch->stalled.first || since < m->watch->stalled.first)
		m->watch->stalled.first = since;
}

/* Of the answers of its shards, the one nearest to where the chain begins. */
void tw_watch_stalled_hear(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	const uint32_t slot = tw_master_slot_at(m, msg->from.node);
	const struct tw_body_have *h = &msg->b.have;
	struct stalled *s = &m->watch->stalled;
	bool first;

	if (!s->asked || h->attempt != s->attempt || s->round != m->rounds.number ||
	    msg->h.shard >= m->plan->problem.shards)
		return;
	s->left -= s->left != 0;
	if (!tw_master_has_replicas(m)) { /* (13) */
		if (h->round != s->applied[msg->h.shard] && !tw_plan_holds_by_workers(m->plan))
			m->watch->moved = tw_now(ctx); /* what workers hold, they might make up */
		s->applied[msg->h.shard] = h->round;
		if (h->slot < m->plan->crew.workers && m->member[h->slot].live) {
			s->votes[h->slot]++;
			note_first(m, ctx, h);
		}
		return;
	}
	if (slot == TW_NO_SLOT)
		return;
	first = s->whom[slot] >= STALLED_NOBODY;
	if (h->slot >= m->plan->crew.workers) {
		s->whom[slot] = first ? STALLED_NOBODY : s->whom[slot];
		return;
	}
	if (first || h->slot == slot || (h->steps < s->depth[slot] && s->whom[slot] != slot)) {
		s->whom[slot] = h->slot;
		s->depth[slot] = h->steps;
	}
	if (h->slot != slot)
		note_first(m, ctx, h);
}

/* --- whom the answers lead to --------------------------------------------------------------- */

static bool waits_for_another(const struct master *m, uint32_t slot)
{
	const uint32_t whom = m->watch->stalled.whom[slot];

	return whom < STALLED_NOBODY && whom != slot && m->member[whom].live;
}

/* (10) The end of the chain.  In a circle, the one whom somebody waits for who depends on the
 * fewest others. */
static uint32_t end_of_chain(const struct master *m, uint32_t slot)
{
	const struct stalled *s = &m->watch->stalled;
	uint32_t least = UINT32_MAX, worst = slot;

	for (uint32_t k = 0; k < m->replicas.ready && waits_for_another(m, slot); k++)
		slot = s->whom[slot];
	if (!waits_for_another(m, slot))
		return slot;
	for (uint32_t k = 0; k < m->replicas.ready; k++, slot = s->whom[slot])
		if (s->depth[slot] < least) {
			least = s->depth[slot];
			worst = s->whom[slot];
		}
	return worst;
}

/* Whom most chains lead to; TW_NO_SLOT: nobody waits.  *from: one who waits for it. */
static uint32_t culprit(struct master *m, uint32_t *from)
{
	uint32_t *votes = m->watch->stalled.votes, worst = TW_NO_SLOT;

	for (uint32_t k = 0; k < m->plan->crew.workers; k++)
		votes[k] = 0;
	for (uint32_t k = tw_replicas_next(m, 0); k != TW_NO_SLOT; k = tw_replicas_next(m, k + 1))
		if (waits_for_another(m, k)) {
			const uint32_t end = end_of_chain(m, k);

			votes[end] += end != k;
			if (worst == TW_NO_SLOT || votes[end] > votes[worst])
				worst = end;
			if (worst == end)
				*from = k;
		}
	for (uint32_t k = tw_replicas_next(m, 0); k != TW_NO_SLOT && worst == TW_NO_SLOT;
	     k = tw_replicas_next(m, k + 1))
		if (m->watch->stalled.whom[k] == k && m->replicas.full[REPLICA_HAS])
			worst = k; /* others are done, and its worker is not */
	return worst;
}

uint32_t tw_watch_stalled_culprit(struct master *m)
{
	uint32_t worst = TW_NO_SLOT, from;

	if (!m->watch->stalled.asked)
		return TW_NO_SLOT;
	if (tw_master_has_replicas(m))
		return culprit(m, &from);
	for (uint32_t k = 0; k < m->plan->crew.workers; k++)
		if (m->watch->stalled.votes[k] && m->member[k].live &&
		    (worst == TW_NO_SLOT ||
		     m->watch->stalled.votes[k] > m->watch->stalled.votes[worst]))
			worst = k;
	return worst;
}

/* False: nobody says that it waits for another one. */
static bool remove_culprit(struct master *m, struct tw_context *ctx, int64_t waited)
{
	uint32_t from = TW_NO_SLOT;
	const uint32_t who = culprit(m, &from);

	if (who == TW_NO_SLOT)
		return false;
	m->watch->stalled.asked = false; /* (12) */
	if (m->watch->stalled.votes[who] == 1 && m->watch->stalled.whom[who] != who &&
	    m->replicas.ready > 2) {
		tw_say(ctx, TW_WARNING,
		       "worker %u waits for worker %u, and nobody else does: one of them holds up "
		       "the round",
		       from, who); /* (11) */
		tw_watch_expel(m, ctx, from, tw_watch_holds_up(m, from), waited);
	}
	tw_watch_expel(m, ctx, who, tw_watch_holds_up(m, who), waited);
	return true;
}

int64_t tw_watch_stalled_patience(const struct master *m, int64_t since)
{
	const int64_t first = m->watch->stalled.first;
	const int64_t took = first > since ? first - since : 0;

	if (!first)
		return INT64_MAX;
	return PATIENCE * took > m->plan->crew.stuck ? PATIENCE * took : m->plan->crew.stuck;
}

void tw_watch_check_stalled(struct master *m, struct tw_context *ctx)
{
	int64_t patience = tw_watch_patience(m, TW_NO_SLOT), formed, since;
	const int64_t now = tw_now(ctx);
	uint32_t attempt;
	bool about;

	if (m->phase != PHASE_RUN || !tw_master_has_replicas(m) ||
	    !tw_round_master_forms(m, &attempt, &formed))
		return;
	about = is_about(m, attempt);
	since = formed > m->watch->awake_since ? formed : m->watch->awake_since;
	if (now - since < m->plan->crew.stuck / 2)
		return;
	if (patience == INT64_MAX && about)
		patience = tw_watch_stalled_patience(m, formed);
	if (about && now - since >= patience && remove_culprit(m, ctx, now - since))
		return;
	if (!about)
		m->watch->stalled.first = 0;
	ask(m, ctx, attempt);
}
