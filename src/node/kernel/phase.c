/* SPDX-License-Identifier: Apache-2.0 */
/* phase.c - what the run is to stop for, and when it may: see phase.h. */
#include "node/kernel/phase.h"
#include "node/kernel/dealer.h"
#include "node/kernel/ledger.h"
#include "node/kernel/master_roster.h"

/* A server leaves, and others stay who can take its shards. */
static bool must_move(const struct master *m)
{
	if (m->restart.move == MOVE_PUT_OFF || !tw_servers_staying(m))
		return false;
	for (uint32_t k = 0; k < m->plan->crew.servers; k++)
		if (tw_server_leaves(m, k))
			return true;
	return false;
}

/* Outside rounds, replicas that differ are of one generation: nobody joins or goes within it. */
static bool must_equalise(const struct master *m)
{
	return tw_plan_is_loose(m->plan) && !tw_master_rounds(m) &&
	       (m->replicas.torn || m->replicas.ready != tw_master_live(m));
}

uint32_t tw_phase_wishes(const struct master *m)
{
	return m->wish | (must_move(m) ? TW_WISH_MOVE : 0) |
	       (must_equalise(m) ? TW_WISH_EQUALISE : 0);
}

bool tw_phase_goes_on(const struct master *m)
{
	return m->phase == PHASE_RUN && !m->waits.paused && !tw_phase_wishes(m) &&
	       !tw_deal_exhausted(m);
}

bool tw_phase_at_border(const struct master *m)
{
	return !m->dealer->border || m->dealer->border(m);
}

bool tw_phase_is_drained(const struct master *m)
{
	return !m->dealing.open_leases && tw_phase_at_border(m);
}
