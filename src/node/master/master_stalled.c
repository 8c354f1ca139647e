/* SPDX-License-Identifier: Apache-2.0 */
/* master_stalled.c - who holds up a round of replicas.
 *
 * The master hears of a sum only when it is complete.  If a round takes too long, it asks all
 * replicas for whom they wait (ASK, HAVE), and removes whom the answers lead to: one whose worker
 * has not finished its step, or one that keeps its piece of the sum to itself.
 *
 *  (1) a round is too long after cluster.stuck, or ten times the longest of the last rounds,
 *      whichever is longer.  Where no round was finished yet, the first replica that waits for
 *      another one shows how long a step takes.
 *  (2) in a chain of replicas that wait, the last one holds up the others: it says that its own
 *      worker is busy, or that it waits for nobody, or says nothing.  In a circle, sums tell: who
 *      waits for the input of another one, and not for a sum, knows whom to blame.
 *  (3) an answer may be a lie.  If only one says that it waits, and not for itself, one of the two
 *      lies, and nobody knows which: both are removed, unless they are alone.
 *  (4) one question at a time: after a removal there is another formation. */
#include "node/master/master.h"

#define PATIENCE 10 /* times the first step */

enum tw_status tw_stalled_init(struct master *m)
{
	const size_t slots = m->plan->crew.workers;

	m->stalled.whom = tw_heap_zeros(m->heap, slots * sizeof *m->stalled.whom);
	m->stalled.depth = tw_heap_zeros(m->heap, slots * sizeof *m->stalled.depth);
	m->stalled.votes = tw_heap_zeros(m->heap, slots * sizeof *m->stalled.votes);
	return m->stalled.whom && m->stalled.depth && m->stalled.votes ? TW_OK : TW_NO_MEMORY;
}

void tw_stalled_release(struct master *m)
{
	m->heap->put(m->heap, m->stalled.whom);
	m->heap->put(m->heap, m->stalled.depth);
	m->heap->put(m->heap, m->stalled.votes);
}

static bool is_about_now(const struct master *m)
{
	const struct stalled *s = &m->stalled;

	return s->asked && s->attempt == m->replicas.forming && s->round == m->rounds.number;
}

static void ask(struct master *m, struct tw_context *ctx)
{
	const struct replicas *r = &m->replicas;
	struct stalled *s = &m->stalled;

	if (!is_about_now(m))
		s->first = 0;
	s->asked = true;
	s->attempt = r->forming;
	s->round = m->rounds.number;
	for (uint32_t k = 0; k < m->plan->crew.workers; k++)
		s->whom[k] = STALLED_SILENT;
	for (uint32_t k = 0; k < r->count; k++)
		for (uint32_t shard = 0; shard < m->plan->problem.shards; shard++) {
			struct tw_msg *msg =
				tw_replica_to_shard(m, ctx, r->form[k].slot, shard, TW_ASK);

			if (!msg)
				return;
			msg->h.flags = TW_FLAG_HELD;
			msg->b.ask.number = r->forming;
			tw_send(ctx, msg);
		}
}

/* Of the answers of its shards, the one nearest to where the chain begins. */
void tw_stalled_hears(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	const uint32_t slot = tw_master_slot_at(m, msg->from.node);
	const struct tw_body_have *h = &msg->b.have;
	struct stalled *s = &m->stalled;
	bool first;

	if (slot == TW_NO_SLOT || !is_about_now(m) || msg->h.view != m->restart.generation ||
	    h->attempt != s->attempt)
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
	if (h->slot != slot && !s->first)
		s->first = tw_now(ctx);
}

/* --- whom the answers lead to --------------------------------------------------------------- */

static bool waits_for_another(const struct master *m, uint32_t slot)
{
	const uint32_t whom = m->stalled.whom[slot];

	return whom < STALLED_NOBODY && whom != slot && m->member[whom].live;
}

/* (2) The end of the chain.  In a circle, the one whom somebody waits for who depends on the fewest
 * others. */
static uint32_t end_of_chain(const struct master *m, uint32_t slot)
{
	const struct stalled *s = &m->stalled;
	uint32_t least = UINT32_MAX, worst = slot;

	for (uint32_t k = 0; k < m->replicas.count && waits_for_another(m, slot); k++)
		slot = s->whom[slot];
	if (!waits_for_another(m, slot))
		return slot;
	for (uint32_t k = 0; k < m->replicas.count; k++, slot = s->whom[slot])
		if (s->depth[slot] < least) {
			least = s->depth[slot];
			worst = s->whom[slot];
		}
	return worst;
}

/* Whom most chains lead to; TW_NO_SLOT: nobody waits.  *from: one who waits for it. */
static uint32_t culprit(struct master *m, uint32_t *from)
{
	const struct replicas *r = &m->replicas;
	uint32_t *votes = m->stalled.votes, worst = TW_NO_SLOT;

	for (uint32_t k = 0; k < m->plan->crew.workers; k++)
		votes[k] = 0;
	for (uint32_t k = 0; k < r->count; k++)
		if (waits_for_another(m, r->form[k].slot)) {
			const uint32_t end = end_of_chain(m, r->form[k].slot);

			votes[end] += end != r->form[k].slot;
			if (worst == TW_NO_SLOT || votes[end] > votes[worst])
				worst = end;
			if (worst == end)
				*from = r->form[k].slot;
		}
	for (uint32_t k = 0; k < r->count && worst == TW_NO_SLOT; k++)
		if (m->stalled.whom[r->form[k].slot] == r->form[k].slot && r->full[REPLICA_HAS])
			worst = r->form[k].slot; /* others are done, and its worker is not */
	return worst;
}

/* False: nobody says that it waits for another one. */
static bool remove_culprit(struct master *m, struct tw_context *ctx, int64_t waited)
{
	uint32_t from = TW_NO_SLOT;
	const uint32_t who = culprit(m, &from);

	if (who == TW_NO_SLOT)
		return false;
	m->stalled.asked = false; /* (4) */
	if (m->stalled.votes[who] == 1 && m->stalled.whom[who] != who && m->replicas.count > 2) {
		tw_say(ctx, TW_WARNING,
		       "worker %u waits for worker %u, and nobody else does: one of them holds up "
		       "the round",
		       from, who); /* (3) */
		tw_stuck_expel(m, ctx, from, waited);
	}
	tw_stuck_expel(m, ctx, who, waited);
	return true;
}

void tw_stalled_check(struct master *m, struct tw_context *ctx, int64_t patience)
{
	const struct replicas *r = &m->replicas;
	const int64_t now = tw_now(ctx);
	const int64_t since = r->since > m->watch.awake_since ? r->since : m->watch.awake_since;
	const struct stalled *s = &m->stalled;

	if (!tw_master_has_replicas(m) || m->phase != PHASE_RUN || !m->rounds.open || !r->formed ||
	    now - since < m->plan->crew.stuck / 2)
		return;
	if (patience == INT64_MAX && is_about_now(m) && s->first) { /* (1) */
		patience = PATIENCE * (s->first - r->since);
		patience = patience > m->plan->crew.stuck ? patience : m->plan->crew.stuck;
	}
	if (!is_about_now(m) || now - since < patience || !remove_culprit(m, ctx, now - since))
		ask(m, ctx);
}
