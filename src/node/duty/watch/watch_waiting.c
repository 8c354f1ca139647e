/* SPDX-License-Identifier: Apache-2.0 */
/* watch_waiting.c - for whom the master waits, for what, and how long (1, 2).  The numbers in
 * brackets are those of README.md. */
#include "node/duty/watch/watch_state.h"

/* --- how long --------------------------------------------------------------------------------- */

/* Is there a shard without a server?  One that is on its way to one has it. */
static bool homeless(const struct master *m)
{
	return m->places[SHARD_HOMELESS];
}

/* Is cluster.wait counted for workers to come?  Before training begins: from the first worker on,
 * or from the start of a master that comes after another. */
static bool wants_workers(const struct master *m, const struct tw_context *ctx)
{
	if (m->restart.begun)
		return m->waits.paused && !tw_wishes(m, TW_WISH_STOP);
	return (m->phase == PHASE_GATHER || m->phase == PHASE_AGREE) &&
	       (m->waits.came || ctx->boot > 1);
}

static void count_wait(struct master *m, struct tw_context *ctx, uint32_t timer, bool wants,
		       bool *counting)
{
	if (wants == *counting)
		return;
	*counting = wants;
	tw_timer(ctx, timer, wants ? m->plan->crew.wait : -1);
}

/* (1) */
void tw_watch_master_count(struct master *m, struct tw_context *ctx)
{
	count_wait(m, ctx, TIMER_PAUSE, wants_workers(m, ctx), &m->watch->counting_workers);
	count_wait(m, ctx, TIMER_HOMELESS, m->phase == PHASE_GATHER && m->waits.lost && homeless(m),
		   &m->watch->counting_homes);
}

/* Servers had time to come back.  At a first start, where there is nothing to come back to, those
 * who are started by hand have as long as workers have. */
void tw_watch_master_servers_due(struct master *m, struct tw_context *ctx)
{
	const int64_t more = m->plan->crew.wait - m->plan->crew.limit;

	m->waits.servers_due = m->restart.begun || m->waits.patient || m->waits.outlived ||
			       !m->restart.looked || m->cuts.last || more <= 0 ||
			       tw_master_servers_live(m) == m->plan->crew.servers;
	if (m->waits.servers_due)
		return;
	m->waits.patient = true;
	tw_timer(ctx, TIMER_GATHER, more);
}

void tw_watch_master_homeless(struct master *m, struct tw_context *ctx)
{
	m->watch->counting_homes = false;
	tw_say(ctx, TW_WARNING, "shards have had no server for %.0f s: stopping",
	       (double)m->plan->crew.wait / 1e9);
	tw_finish_master_end(m, ctx, TW_INTERRUPTED);
}

/* Too few came before training began; says so and ends the run. */
static void give_up_start(struct master *m, struct tw_context *ctx)
{
	if (tw_master_too_few(m))
		tw_say(ctx, TW_WARNING,
		       "only %u of at least %u workers joined in %.3g s: stopping; use a longer "
		       "cluster.wait to wait longer",
		       tw_master_live(m), m->plan->crew.min,
		       (m->waits.over ? 2.0 : 1.0) * (double)m->plan->crew.wait /
			       (double)TW_SECOND);
	else
		tw_say(ctx, TW_WARNING,
		       "only %u of %u servers joined, and some shards have no server: stopping",
		       tw_master_servers_live(m), m->plan->crew.servers);
	tw_finish_master_end(m, ctx, TW_INTERRUPTED);
}

/* cluster.wait is over, and workers were waited for all the time. */
void tw_watch_master_waited(struct master *m, struct tw_context *ctx)
{
	const bool reading = m->restart.loading || !homeless(m); /* shards are on their way */
	const bool nobody = tw_master_live(m) == 0 && ctx->boot > 1;

	m->watch->counting_workers = false;
	if (m->restart.begun && tw_master_too_few(m)) {
		tw_say(ctx, TW_WARNING,
		       "not enough workers joined in %.0f s: stopping at a checkpoint",
		       (double)m->plan->crew.wait / 1e9);
		tw_wish_put(m, TW_WISH_STOP, true);
	} else if (m->restart.begun) {
		m->waits.paused = false; /* they came while the shards were brought back */
	} else if ((m->waits.over && (tw_master_too_few(m) || !reading)) || nobody) {
		give_up_start(m, ctx);
	} else {
		m->waits.over = true;
	}
}

/* --- for whom --------------------------------------------------------------------------------- */

bool tw_watch_waits_for(const struct master *m, uint32_t slot)
{
	const struct member *e = &m->member[slot];

	if (!e->live)
		return false;
	if (m->phase == PHASE_SNAP)
		return tw_checkpoint_master_owes(m, slot);
	if (m->phase == PHASE_SCORE)
		return tw_eval_master_has_chunk(m, slot);
	if (m->phase == PHASE_DRAIN)
		return e->held.count != 0 || tw_watch_is_behind(m, slot);
	if (m->phase != PHASE_RUN)
		return false;
	if (tw_eval_master_has_chunk(m, slot))
		return true;
	return m->dealer->waits(m, slot);
}

static const char *expected_of(const struct master *m, uint32_t slot)
{
	const char *work;

	switch (m->phase) {
	case PHASE_SNAP:
		return "its part of the checkpoint";
	case PHASE_SCORE:
		return "its score";
	case PHASE_DRAIN:
		return "its lease";
	default:
		work = m->dealer->work ? m->dealer->work(m, slot) : NULL;
		return work ? work : tw_eval_master_has_chunk(m, slot) ? "its score" : "its lease";
	}
}

struct tw_addr tw_watch_holds_up(const struct master *m, uint32_t slot)
{
	uint32_t cell;

	if (!tw_plan_is_staged(m->plan))
		return (struct tw_addr){ m->member[slot].node, TW_WORKER, 0 };
	cell = tw_figures_master_culprit(m, slot);
	return (struct tw_addr){ tw_cell_at(m, slot, cell)->node, TW_WORKER, (uint16_t)cell };
}

const char *tw_watch_shard_owes(const struct master *m, uint32_t shard)
{
	const struct shard_info *i = &m->shard[shard];

	switch (m->phase) {
	case PHASE_GATHER:
		return tw_shard_has_home(i)             ? NULL
		       : i->place == SHARD_ASSIGNED     ? "its server to take it"
		       : tw_plan_is_with_stage(m->plan) ? "a node for its stage"
							: "a server to host it";
	case PHASE_AGREE:
		return i->agreed ? NULL : "its state";
	case PHASE_RUN:
		return m->dealer->owes ? m->dealer->owes(m, shard) : NULL;
	default:
		return tw_duties_waits(&m->duties, shard);
	}
}

bool tw_watch_master_waiting(const struct tw_actor *a, struct tw_wait *out)
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
		if ((out->why = tw_watch_shard_owes(m, s))) {
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
		if (tw_plan_is_staged(m->plan))
			tw_cells_missing(m, &out->slot, &out->whom);
		out->why = "it has not joined";
		out->step = 0;
		if (m->waits.paused) /* checkpoints go on meanwhile */
			out->since = m->waits.since;
		return true;
	}
	if (tw_mix_master_waits(m, &out->slot, &out->why)) {
		out->whom = (struct tw_addr){ m->member[out->slot].node, TW_WORKER, 0 };
		return true;
	}
	for (uint32_t k = 0; k < m->plan->crew.workers; k++)
		if (tw_watch_waits_for(m, k)) {
			out->slot = k;
			out->whom = tw_watch_holds_up(m, k);
			out->why = expected_of(m, k);
			return true;
		}
	return false;
}
