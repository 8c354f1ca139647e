/* SPDX-License-Identifier: Apache-2.0 */
/* phase.c - what the run is to stop for. */
#include "node/kernel/phase.h"
#include "node/kernel/master_roster.h"

bool tw_master_must_move(const struct master *m)
{
	if (m->restart.move == MOVE_PUT_OFF || !tw_servers_staying(m))
		return false;
	for (uint32_t k = 0; k < m->plan->crew.servers; k++)
		if (tw_server_leaves(m, k))
			return true;
	return false;
}
