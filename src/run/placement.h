/* SPDX-License-Identifier: Apache-2.0 */
/* placement.h - the actors of a plan and their nodes. */
#ifndef TW_RUN_PLACEMENT_H
#define TW_RUN_PLACEMENT_H

#include "actor/cluster.h"
#include "node/plan.h"

struct tw_placement {
	struct tw_seat *seat;
	size_t seats;
	struct tw_role_arg *arg; /* what the seats point to */
};

/* Node 0 is the master; each server node has a server and a dormant shard of every number, which
 * wakes when the master tells the server to host it; then one worker per node.  The plan must
 * outlive the cast.  `resume`: the world's clock resumes from that of the checkpoint (sim). */
enum tw_status tw_placement_init(struct tw_placement *c, const struct tw_plan *plan, bool resume);
/* Only the master and the first server: what `serve` runs itself. */
enum tw_status tw_placement_serve(struct tw_placement *c, const struct tw_plan *plan);
/* Only a server, or a worker, at this node; it wishes for this slot, a cell for this place.
 * UINT32_MAX: it takes whatever is free. */
enum tw_status tw_placement_join(struct tw_placement *c, const struct tw_plan *plan, uint32_t node,
				 bool server, uint32_t wish);
/* On which of `ranks` MPI ranks each node is: one element per node, freed by free(); NULL without
 * memory.  The master is on rank 0, servers on the first ranks, workers, or their cells, on the last:
 * those of a job with no more workers and servers than ranks have a rank each, and with as many workers as ranks
 * every rank has one. */
uint32_t *tw_placement_spread(const struct tw_plan *plan, uint32_t ranks);
/* Only what is on this rank. */
enum tw_status tw_placement_rank(struct tw_placement *c, const struct tw_plan *plan,
				 const uint32_t *rank_of, uint32_t rank);
void tw_placement_release(struct tw_placement *c);
static inline uint32_t tw_placement_nodes(const struct tw_plan *p)
{
	return 1 + p->crew.servers + p->crew.workers * tw_plan_cells(p);
}

#endif
