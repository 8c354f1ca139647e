/* SPDX-License-Identifier: Apache-2.0 */
/* host_agree.c - from which one state all shards go on, and that they agree on it (11, 12).  The
 * numbers in brackets are those of README.md. */
#include "node/duty/host/host_state.h"

static bool servers_here(const struct master *m)
{
	for (uint32_t k = 0; k < m->plan->crew.servers; k++)
		if (m->server[k].state != SERVER_AWAY &&
		    m->server[k].stated < m->server[k].hosted && !m->waits.servers_due)
			return false;
	return m->waits.servers_due || tw_master_servers_live(m) == m->plan->crew.servers;
}

/* (12) */
static bool one_state(struct master *m)
{
	const bool adopted = tw_master_adopted_any(m);
	const bool lost = tw_master_assigned(m) < m->plan->problem.shards;
	uint64_t round = 0;
	bool behind = false;

	for (uint32_t s = 0; adopted && s < m->plan->problem.shards; s++) {
		const struct shard_info *i = &m->shard[s];

		if (i->place != SHARD_ADOPTED)
			continue;
		behind = behind || i->host_cut != m->restart.generation;
		if (i->round > round)
			round = i->round;
	}
	for (uint32_t s = 0; adopted && s < m->plan->problem.shards; s++)
		behind = behind ||
			 (m->shard[s].place == SHARD_ADOPTED && m->shard[s].round + 1 < round);
	return !(adopted && (lost || m->dealer->forgets)) && !behind && !(m->restart.begun && lost);
}

static void roll_back(struct master *m, struct tw_context *ctx)
{
	m->restart.history = HISTORY_ROLLED_BACK;
	for (uint32_t s = 0; s < m->plan->problem.shards; s++) {
		if (m->shard[s].place >= SHARD_ASSIGNED)
			tw_shard_put(m, &m->shard[s], SHARD_HOMELESS);
		tw_block_drop(m->shard[s].host);
		m->shard[s].host = NULL;
	}
	tw_deal_forget(m, ctx);
	if (m->cuts.last)
		tw_say(ctx, TW_WARNING, "the cluster is restored from checkpoint %llu",
		       (unsigned long long)m->cuts.last);
	else
		tw_say(ctx, TW_WARNING,
		       "there is no checkpoint yet: the cluster restarts from the initial weights");
}

/* Shards and workers that outlived a master may come from several of its generations. */
static void one_generation(struct master *m, struct tw_context *ctx)
{
	bool mixed = false;

	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		mixed = mixed || (m->shard[s].place == SHARD_ADOPTED &&
				  m->shard[s].host_cut != m->restart.generation);
	/* leases of another generation were forgotten by those who held them */
	for (uint32_t k = 0; k < m->plan->crew.workers; k++)
		if (m->member[k].live && m->member[k].held.count &&
		    m->member[k].held.generation != m->restart.generation) {
			tw_deal_return(m, ctx, k);
			tw_deal_asks(m, k);
		}
	if (mixed) {
		tw_master_new_generation(m, ctx);
		tw_deal_forget(m, ctx);
		tw_spans_clear(&m->dealing.taken);
		tw_orphans_restart(m);
	}
}

/* Every shard is there and so are enough workers: all that is missing is that they agree. */
static void agree(struct master *m, struct tw_context *ctx)
{
	m->phase = PHASE_AGREE;
	m->since = tw_now(ctx);
	m->restart.asks++;
	if (tw_master_rounds(m) && tw_master_adopted_any(m)) {
		if (!tw_master_has_replicas(m)) /* else it is complete */
			tw_round_master_complete(m, ctx);
		tw_deal_forget(m, ctx);
		tw_master_new_generation(m, ctx);
	} else if (m->restart.history != HISTORY_KNOWN) {
		one_generation(m, ctx);
	}
	tw_verdict_master_agree(m, ctx);
	tw_replicas_ask_anew(m, REPLICA_AGREED);
	tw_mix_master_speaker(m);
	for (uint32_t s = 0; s < m->plan->problem.shards; s++) {
		m->shard[s].agreed = false;
		tw_master_full_view(m, ctx, s);
		if (!tw_master_ask(m, ctx, s, tw_master_untimed(m)))
			return;
	}
}

void tw_host_gather(struct master *m, struct tw_context *ctx)
{
	const uint32_t shards = m->plan->problem.shards;

	if (m->restart.loading || !servers_here(m) || !tw_host_takeover(m, ctx))
		return;
	if (tw_master_is_one(m) && m->restart.history != HISTORY_ROLLED_BACK &&
	    !(m->restart.move == MOVE_BEGUN && m->restart.begun) && !one_state(m))
		roll_back(m, ctx);
	if (tw_plan_is_with_stage(m->plan) && tw_cells_misplaced(m))
		roll_back(m, ctx);
	if (m->places[SHARD_HOSTED] + m->places[SHARD_ADOPTED] < shards) {
		if (tw_master_assigned(m) < shards)
			tw_host_assign(m, ctx);
		return;
	}
	if (!tw_host_bring(m, ctx))
		return;
	/* once it has begun, `run` pauses when there are too few */
	if (m->restart.begun || tw_master_live(m) == m->plan->crew.workers ||
	    (tw_master_live(m) >= m->plan->crew.min && tw_master_live(m) && m->waits.over))
		agree(m, ctx);
}

/* What every shard has applied. */
static enum tw_status done_with(const struct master *m, struct tw_spans *out)
{
	enum tw_status st = TW_OK;

	for (uint32_t s = 0; s < m->plan->problem.shards && st == TW_OK; s++)
		st = s ? tw_spans_intersect(out, &m->shard[s].applied)
		       : tw_spans_copy(out, &m->shard[s].applied);
	return st;
}

/* What is dealt already, when nobody remembers. */
static enum tw_status rebuild_taken(struct master *m)
{
	const bool adopted = tw_master_adopted_any(m);
	struct tw_spans all;
	enum tw_status st;

	tw_spans_init(&all, m->heap);
	st = done_with(m, &all);
	if (st == TW_OK)
		st = tw_spans_unite(&m->dealing.taken, &all);
	if (tw_spans_total(&m->dealing.taken) > m->dealing.frontier)
		m->dealing.frontier = tw_spans_total(&m->dealing.taken);
	/* a master that was not there counts as dealt again what it cannot know better: what some
	 * shard has applied twice, or has applied and will apply again */
	tw_spans_clear(&all);
	for (uint32_t s = 0; s < m->plan->problem.shards && st == TW_OK; s++)
		st = tw_spans_unite(&all, &m->shard[s].twice);
	if (adopted && tw_spans_total(&all) > m->count.redealt)
		m->count.redealt = tw_spans_total(&all);
	tw_spans_clear(&all);
	for (uint32_t s = 0; s < m->plan->problem.shards && st == TW_OK; s++)
		st = tw_spans_unite(&all, &m->shard[s].applied);
	if (st == TW_OK)
		st = tw_spans_subtract(&all, &m->dealing.taken);
	if (!tw_master_rounds(m))
		m->count.redealt += tw_spans_total(&all);
	for (uint32_t k = 0; k < m->plan->crew.workers && adopted; k++)
		for (uint32_t i = 0; i < m->member[k].held.count; i++)
			m->count.redealt +=
				m->member[k].held.lease[i].to - m->member[k].held.lease[i].from;
	tw_spans_release(&all);
	return st;
}

static bool has_agreed(const struct master *m, uint32_t shard)
{
	return m->shard[shard].agreed;
}

void tw_host_agreed(struct master *m, struct tw_context *ctx)
{
	if (!tw_replicas_all(m, REPLICA_AGREED) ||
	    !tw_master_every_shard(m, &m->restart.lacks, has_agreed))
		return;
	if (m->restart.history != HISTORY_KNOWN && rebuild_taken(m) != TW_OK) {
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for the history of a run");
		return;
	}
	/* they outlive whoever counted before us */
	if (m->restart.history != HISTORY_KNOWN || tw_master_rounds(m))
		tw_master_applied(m, &m->count.steps, &m->count.samples);
	tw_figures_steady_agreed(m);
	tw_eval_master_agreed(m, tw_master_adopted_any(m));
	m->restart.history = HISTORY_KNOWN;
	if (m->restart.move == MOVE_BEGUN)
		m->restart.move = MOVE_NONE;
	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		if (m->shard[s].place == SHARD_ADOPTED)
			tw_shard_put(m, &m->shard[s], SHARD_HOSTED);
	m->phase = PHASE_RELEASE;
	if (m->restart.release > tw_now(ctx))
		tw_timer(ctx, TIMER_RELEASE, m->restart.release - tw_now(ctx));
}
