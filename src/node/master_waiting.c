/* SPDX-License-Identifier: Apache-2.0 */
/* master_waiting.c - for whom the master waits, and for what: for people, and to find out who is
 * stuck.
 *
 * The world asks now and then and not at every event, so the search for the first one may walk. */
#include "node/master.h"

/* It was too late for its round and has not come home. */
static bool is_late(const struct member *e)
{
	return e->stripe.state == STRIPE_BEHIND && e->appetite == APPETITE_NONE;
}

bool tw_master_waits_for(const struct master *m, uint32_t slot)
{
	const struct member *e = &m->member[slot];

	if (!e->live)
		return false;
	if (m->phase == PHASE_SNAP)
		return tw_cut_workers_keep_state(m) && !e->part;
	if (m->phase == PHASE_SCORE)
		return e->chunk != NO_CHUNK;
	if (m->phase == PHASE_DRAIN)
		return e->held.count != 0 || is_late(e);
	if (m->phase != PHASE_RUN)
		return false;
	if (e->chunk != NO_CHUNK)
		return true;
	if (!tw_master_rounds(m)) /* there is no more to deal, and the run cannot end */
		return e->held.count && tw_deal_exhausted(m);
	return m->rounds.open && (e->stripe.state == STRIPE_STAGING || is_late(e));
}

static const char *expected_of(const struct master *m, uint32_t slot)
{
	const struct member *e = &m->member[slot];

	switch (m->phase) {
	case PHASE_SNAP:
		return "its part of the checkpoint";
	case PHASE_SCORE:
		return "its score";
	case PHASE_DRAIN:
		return "its lease";
	default:
		return m->rounds.open && e->stripe.state != STRIPE_NONE ? "its contribution"
		       : e->chunk != NO_CHUNK                           ? "its score"
									: "its lease";
	}
}

/* What a shard is waited for; NULL: nothing. */
static const char *owes(const struct master *m, const struct shard_info *i)
{
	switch (m->phase) {
	case PHASE_GATHER:
		return tw_shard_has_home(i)         ? NULL
		       : i->place == SHARD_ASSIGNED ? "it is not taken yet"
						    : "a server to host it";
	case PHASE_AGREE:
		return i->agreed ? NULL : "its state";
	case PHASE_SNAP:
		return i->part ? NULL : "its part of the checkpoint";
	case PHASE_COUNT:
		return i->counted && i->vector ? NULL : "its last parameters";
	case PHASE_SCORE:
		return i->pinned ? NULL : "the version to evaluate";
	default:
		return NULL;
	}
}

bool tw_master_waiting(const struct tw_actor *a, struct tw_wait *out)
{
	const struct master *m = (const struct master *)a;

	*out = (struct tw_wait){ .since = m->since, .step = m->rounds.number };
	if (m->phase == PHASE_SAVE || (m->phase == PHASE_GATHER && m->restart.loading)) {
		out->whom = tw_master_addr();
		out->why = m->phase == PHASE_SAVE ? "its checkpoint to be written"
						  : "the newest checkpoint to be read";
		return true;
	}
	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		if ((out->why = owes(m, &m->shard[s]))) {
			const bool placed = m->shard[s].place >= SHARD_ASSIGNED;

			out->whom = (struct tw_addr){ placed ? m->shard[s].node : UINT32_MAX,
						      TW_SHARD, (uint16_t)s };
			return true;
		}
	if ((m->phase == PHASE_GATHER && tw_master_live(m) < m->plan->crew.workers) ||
	    m->waits.paused) {
		const uint32_t missing = tw_slots_first_free(&m->members.live);

		out->slot = missing == TW_NO_SLOT ? 0 : missing;
		out->whom =
			(struct tw_addr){ tw_plan_worker_node(m->plan, out->slot), TW_WORKER, 0 };
		out->why = "it has not joined";
		out->step = 0;
		return true;
	}
	for (uint32_t k = 0; k < m->plan->crew.workers; k++)
		if (tw_master_waits_for(m, k)) {
			out->slot = k;
			out->whom = (struct tw_addr){ m->member[k].node, TW_WORKER, 0 };
			out->why = expected_of(m, k);
			return true;
		}
	return false;
}
