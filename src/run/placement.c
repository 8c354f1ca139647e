/* SPDX-License-Identifier: Apache-2.0 */
/* placement.c - the actors of a plan and where they sit. */
#include "run/placement.h"

#include <stdlib.h>

/* Room for the seats and what they are told: the master's, each shard's, each worker's. */
static enum tw_status make_room(struct tw_placement *c, const struct tw_plan *p, size_t seats,
				uint32_t workers)
{
	*c = (struct tw_placement){
		.seat = calloc(seats, sizeof *c->seat),
		.arg = calloc(1 + (size_t)p->problem.shards + workers, sizeof *c->arg),
	};
	if (!c->seat || !c->arg) {
		tw_placement_release(c);
		return TW_NO_MEMORY;
	}
	c->arg[0] = (struct tw_role_arg){ .plan = p };
	for (uint32_t k = 0; k < p->problem.shards; k++)
		c->arg[1 + k] = (struct tw_role_arg){ .plan = p, .index = k };
	return TW_OK;
}

static void seat(struct tw_placement *c, struct tw_addr addr, const struct tw_actor_class *class,
		 const struct tw_role_arg *arg)
{
	c->seat[c->seats++] = (struct tw_seat){ addr, class, arg };
}

static void seat_master(struct tw_placement *c, bool resume)
{
	c->arg[0].resume = resume;
	seat(c, tw_master_addr(), &tw_master_class, c->arg);
}

static void seat_server(struct tw_placement *c, const struct tw_plan *p, uint32_t node)
{
	seat(c, (struct tw_addr){ node, TW_SERVER, 0 }, &tw_server_class, c->arg);
	for (uint32_t k = 0; k < p->problem.shards; k++)
		seat(c, (struct tw_addr){ node, TW_SHARD, (uint16_t)k }, &tw_shard_class,
		     &c->arg[1 + k]);
}

static void seat_worker(struct tw_placement *c, const struct tw_plan *p, uint32_t node,
			uint32_t slot, struct tw_role_arg *arg)
{
	*arg = (struct tw_role_arg){ .plan = p, .index = slot };
	if (tw_plan_holds_by_workers(p)) /* its replica, or the shards of its stage */
		seat_server(c, p, node);
	seat(c, (struct tw_addr){ node, TW_WORKER, 0 }, &tw_worker_class, arg);
}

enum tw_status tw_placement_init(struct tw_placement *c, const struct tw_plan *p, bool resume)
{
	const uint32_t cells = p->crew.workers * tw_plan_cells(p);
	const size_t holders = tw_plan_holds_by_workers(p) ? cells : p->crew.servers;
	const size_t seats = 1 + holders * (1 + p->problem.shards) + cells;

	if (make_room(c, p, seats, cells) != TW_OK)
		return TW_NO_MEMORY;
	seat_master(c, resume);
	for (uint32_t n = 1; n <= p->crew.servers; n++)
		seat_server(c, p, n);
	for (uint32_t k = 0; k < cells; k++) /* of cells: their places */
		seat_worker(c, p, tw_plan_cell_node(p, 0, k), k,
			    &c->arg[1 + p->problem.shards + k]);
	return TW_OK;
}

enum tw_status tw_placement_serve(struct tw_placement *c, const struct tw_plan *p)
{
	if (make_room(c, p, 2 + (size_t)p->problem.shards, 0) != TW_OK)
		return TW_NO_MEMORY;
	seat_master(c, false);
	if (!tw_plan_holds_by_workers(p))
		seat_server(c, p, 1);
	return TW_OK;
}

enum tw_status tw_placement_join(struct tw_placement *c, const struct tw_plan *p, uint32_t node,
				 bool server, uint32_t wish)
{
	if (make_room(c, p, 2 + (size_t)p->problem.shards, 1) != TW_OK)
		return TW_NO_MEMORY;
	if (server)
		seat_server(c, p, node);
	else
		seat_worker(c, p, node, wish, &c->arg[1 + p->problem.shards]);
	return TW_OK;
}

uint32_t *tw_placement_spread(const struct tw_plan *p, uint32_t ranks)
{
	uint32_t *rank_of = calloc(tw_placement_nodes(p), sizeof *rank_of);
	const uint32_t workers = p->crew.workers * tw_plan_cells(p); /* or their cells */

	for (uint32_t k = 0; rank_of && k < p->crew.servers; k++)
		rank_of[1 + k] = k % ranks;
	for (uint32_t k = 0; rank_of && k < workers; k++)
		rank_of[tw_plan_cell_node(p, 0, k)] =
			workers <= ranks ? ranks - workers + k
					 : (uint32_t)((uint64_t)k * ranks / workers);
	return rank_of;
}

enum tw_status tw_placement_rank(struct tw_placement *c, const struct tw_plan *p,
				 const uint32_t *rank_of, uint32_t rank)
{
	const enum tw_status status = tw_placement_init(c, p, false);
	size_t kept = 0;

	for (size_t k = 0; status == TW_OK && k < c->seats; k++)
		if (rank_of[c->seat[k].addr.node] == rank)
			c->seat[kept++] = c->seat[k];
	c->seats = kept;
	return status;
}

void tw_placement_release(struct tw_placement *c)
{
	free(c->seat);
	free(c->arg);
	*c = (struct tw_placement){ .seat = NULL };
}
