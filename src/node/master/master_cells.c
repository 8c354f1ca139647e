/* SPDX-License-Identifier: Apache-2.0 */
/* master_cells.c - workers of several cells: who is there, and when a worker is whole.
 *
 *  (1) a cell has the place of its node: cell k of all has slot k / cells, and is cell k % cells
 *      of it.  A node that comes back takes its place again.
 *  (2) a worker is admitted when all of its cells have asked; they get one identity.
 *  (3) where one cell is lost, or asks anew, the worker is lost: the others are fenced and ask
 *      again.  So an asking cell is never a member. */
#include "node/master/master.h"

enum tw_status tw_cells_init(struct master *m)
{
	if (!tw_plan_is_staged(m->plan))
		return TW_OK;
	m->members.cell =
		tw_heap_zeros(m->heap, (size_t)m->plan->crew.workers * tw_plan_cells(m->plan) *
					       sizeof *m->members.cell);
	return m->members.cell ? TW_OK : TW_NO_MEMORY;
}

struct cell_info *tw_cell_at(const struct master *m, uint32_t slot, uint32_t cell)
{
	return &m->members.cell[slot * tw_plan_cells(m->plan) + cell];
}

uint32_t tw_cells_slot_of(const struct master *m, uint32_t node)
{
	const uint32_t first = tw_plan_cell_node(m->plan, 0, 0);
	const uint32_t slot = node < first ? UINT32_MAX : (node - first) / tw_plan_cells(m->plan);

	return slot < m->plan->crew.workers ? slot : TW_NO_SLOT;
}

static uint32_t cell_of(const struct master *m, uint32_t node)
{
	return (node - tw_plan_cell_node(m->plan, 0, 0)) % tw_plan_cells(m->plan);
}

/* (2) */
static bool is_whole(const struct master *m, uint32_t slot)
{
	for (uint32_t c = 0; c < tw_plan_cells(m->plan); c++)
		if (!tw_cell_at(m, slot, c)->here)
			return false;
	return true;
}

/* Did it know who it is, or did its memory go? */
static bool starts_anew(const struct master *m, uint32_t slot, const struct cell_info *c,
			const struct tw_msg *msg)
{
	return c->boot != msg->b.hello.boot || msg->h.incarnation == m->member[slot].incarnation;
}

void tw_cells_admit(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	const uint32_t slot = tw_cells_slot_of(m, msg->from.node);
	struct cell_info *c;

	if (slot == TW_NO_SLOT)
		return;
	c = tw_cell_at(m, slot, cell_of(m, msg->from.node));
	if (m->member[slot].live && !starts_anew(m, slot, c, msg)) { /* it asked twice */
		tw_master_welcome_cell(m, ctx, slot, cell_of(m, msg->from.node));
		return;
	}
	if (m->member[slot].live)
		tw_master_remove(m, ctx, slot, TW_GONE);
	m->waits.came = true;
	c->here = true;
	c->boot = msg->b.hello.boot;
	if (is_whole(m, slot))
		tw_master_take_in(m, ctx, slot, tw_plan_cell_node(m->plan, slot, 0),
				  tw_cell_at(m, slot, 0)->boot);
}

void tw_cells_lost(struct master *m, struct tw_context *ctx, uint32_t slot)
{
	if (!tw_plan_is_staged(m->plan))
		return;
	for (uint32_t c = 0; c < tw_plan_cells(m->plan); c++) {
		tw_cell_at(m, slot, c)->here = false;
		tw_master_refuse_node(ctx, tw_plan_cell_node(m->plan, slot, c),
				      m->member[slot].incarnation, TW_REFUSED_FENCED);
	}
}

void tw_cells_down(struct master *m, struct tw_context *ctx, uint32_t node)
{
	const uint32_t slot = tw_cells_slot_of(m, node);

	if (slot == TW_NO_SLOT)
		return;
	if (m->member[slot].live)
		tw_master_remove(m, ctx, slot, TW_GONE);
	tw_cell_at(m, slot, cell_of(m, node))->here = false;
}

void tw_cells_up(struct master *m, struct tw_context *ctx, uint32_t node, uint32_t boot)
{
	const uint32_t slot = tw_cells_slot_of(m, node);

	if (slot == TW_NO_SLOT)
		return;
	if (tw_cell_at(m, slot, cell_of(m, node))->boot != boot)
		tw_cells_down(m, ctx, node); /* it lost its memory */
	else if (m->member[slot].live)
		tw_master_reconnected(m, ctx, slot);
}
