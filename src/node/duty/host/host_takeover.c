/* SPDX-License-Identifier: Apache-2.0 */
/* host_takeover.c - replicas that outlived a master: a new one goes on with what they have (13 to
 * 17).  The numbers in brackets are those of README.md. */
#include "node/duty/host/host_state.h"

/* Is there anything to take over?  Only before this master has begun anything. */
static bool applies(const struct master *m, const struct tw_context *ctx)
{
	const struct tw_plan *p = m->plan;

	if (!tw_master_has_replicas(m) || !tw_master_rounds(m) || tw_plan_is_loose(p) ||
	    tw_plan_worker_goes_back(p)) /* (16) */
		return false;
	if (ctx->boot < 2 || m->restart.begun || m->host->over ||
	    m->restart.history != HISTORY_UNKNOWN)
		return false;
	for (uint32_t s = 0; s < p->problem.shards; s++)
		if (m->shard[s].place != SHARD_HOMELESS)
			return false;
	return true;
}

void tw_host_came_back(struct master *m, struct tw_context *ctx, uint32_t slot)
{
	struct replica *r = &m->member[slot].replica;

	if (!applies(m, ctx))
		return;
	r->outlived = true;
	r->stated = 0;
	r->torn = false;
	for (uint32_t s = 0; s < m->plan->problem.shards; s++) {
		struct tw_msg *msg = tw_replica_to_shard(m, ctx, slot, s, TW_ASK);

		if (!msg)
			return;
		tw_send(ctx, msg);
	}
}

bool tw_host_takeover_state(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	const uint32_t slot = tw_master_slot_at(m, msg->from.node);
	const struct tw_body_state *b = &msg->b.state;
	struct shard_info *i = &m->shard[msg->h.shard];
	struct replica *r;

	if (!applies(m, ctx) || slot == TW_NO_SLOT || !m->member[slot].replica.outlived)
		return false;
	r = &m->member[slot].replica;
	if (msg->h.shard != r->stated) /* they are asked in order, on one connection */
		return false;
	r->torn = r->torn || (r->stated && (r->round != b->round || r->generation != msg->h.view));
	r->round = b->round;
	r->generation = msg->h.view;
	r->stated++;
	/* (13) books of the newest */
	if (m->host->stated &&
	    (msg->h.view < i->host_cut || (msg->h.view == i->host_cut && b->round <= i->round)))
		return false;
	i->host_cut = msg->h.view;
	i->incarnation = b->version.incarnation;
	m->host->stated = true;
	return true; /* its books are taken */
}

static bool all_stated(const struct master *m)
{
	const struct tw_slots *live = &m->members.live;

	for (uint32_t k = tw_slots_next(live, 0); k != TW_NO_SLOT; k = tw_slots_next(live, k + 1))
		if (m->member[k].replica.outlived &&
		    m->member[k].replica.stated < m->plan->problem.shards)
			return false;
	return tw_master_live(m) == m->plan->crew.workers;
}

/* (14) */
static bool is_whole(const struct master *m, uint32_t slot, uint64_t generation, uint64_t round)
{
	const struct replica *r = &m->member[slot].replica;

	return r->outlived && !r->torn && r->stated == m->plan->problem.shards &&
	       r->generation == generation && r->round == round;
}

static void adopt_from(struct master *m, uint32_t slot, uint64_t generation, uint64_t round)
{
	for (uint32_t s = 0; s < m->plan->problem.shards; s++) {
		tw_shard_put(m, &m->shard[s], SHARD_ADOPTED);
		m->shard[s].node = m->member[slot].node;
	}
	m->restart.generation = generation;
	m->rounds.number = round;
}

static void decide(struct master *m, struct tw_context *ctx)
{
	const struct tw_slots *live = &m->members.live;
	uint64_t generation = 0, round = 0;
	bool found = false;

	m->host->over = true;
	for (uint32_t s = 0; s < m->plan->problem.shards && m->host->stated; s++)
		if (m->shard[s].host_cut > generation) {
			generation = m->shard[s].host_cut;
			round = m->shard[s].round;
		} else if (m->shard[s].host_cut == generation && m->shard[s].round > round) {
			round = m->shard[s].round;
		}
	for (uint32_t k = tw_slots_next(live, 0); k != TW_NO_SLOT && generation;
	     k = tw_slots_next(live, k + 1)) {
		if (!is_whole(m, k, generation, round))
			continue;
		if (!found)
			adopt_from(m, k, generation, round);
		found = true;
		tw_replica_is_ready(m, k);
	}
	if (found) {
		m->count.refused = 0; /* (17) */
		tw_say(ctx, TW_WARNING,
		       "the run goes on after round %llu, which workers still have",
		       (unsigned long long)round);
		tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_TAKEOVER, .round = round });
	}
	for (uint32_t s = 0; s < m->plan->problem.shards && !found; s++)
		m->shard[s].host_cut = m->shard[s].incarnation = 0;
}

bool tw_host_takeover(struct master *m, struct tw_context *ctx)
{
	if (!applies(m, ctx))
		return true;
	if (!all_stated(m) && !m->waits.servers_due) /* (15) */
		return false;
	decide(m, ctx);
	return true;
}
