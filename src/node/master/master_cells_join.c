/* SPDX-License-Identifier: Apache-2.0 */
/* master_cells_join.c - workers of several cells: who gets which place, and when a worker is whole.
 *
 *  (1) a node has one place: a slot, and a cell of it.  Before training begins it gets the one that
 *      it wishes for, if that is vacant.  Otherwise the worker that misses fewest cells gets it, so
 *      that as many workers as possible are whole.
 *  (2) a worker is admitted when all of its places are taken; its cells get one identity, and are
 *      told where the others are.
 *  (3) where one cell is lost, or asks anew, the worker is lost: its places are vacant, and the
 *      others are fenced and ask again.  So an asking cell is never a member.
 *  (4) where cells hold the shards of their stages, a node that holds some gets the place of that
 *      stage again.  A node that is gone has taken its shards along, and all go back to a cut. */
#include "node/master/master.h"

#include <stdio.h>

/* --- joining -------------------------------------------------------------------------------- */

static struct cell_info *vacant_in(const struct master *m, uint32_t slot, uint32_t wished)
{
	const uint32_t cells = tw_plan_cells(m->plan);
	uint32_t cell = 0;

	if (wished < cells && !tw_cell_at(m, slot, wished)->here)
		return tw_cell_at(m, slot, wished);
	while (tw_cell_at(m, slot, cell)->here)
		cell++;
	return tw_cell_at(m, slot, cell);
}

/* (4): the place of the stage whose shards this node holds, or else of one whose shards nobody
 * holds; NULL: there is none. */
static struct cell_info *vacant_with_shards(const struct master *m, uint32_t node, uint32_t boot)
{
	struct cell_info *other = NULL;

	for (uint32_t s = 0; s < m->plan->problem.shards; s++) {
		const struct shard_info *i = &m->shard[s];
		struct cell_info *c = tw_cell_at(
			m, 0, tw_plan_cell_for(m->plan, m->plan->staging.stage_of[s], 0));

		if (c->here)
			continue;
		if (i->node == node && i->boot == boot)
			return c;
		if (!i->boot && !other)
			other = c;
	}
	return other;
}

/* (1); NULL: there is no vacancy. */
static struct cell_info *vacancy(const struct master *m, uint32_t node,
				 const struct tw_body_hello *wish)
{
	const struct cell_book *b = &m->members.cells;
	const uint32_t cells = tw_plan_cells(m->plan);
	const bool wishes = wish->slot < m->plan->crew.workers;

	if (!m->restart.begun && wishes && wish->cell < cells &&
	    !tw_cell_at(m, wish->slot, wish->cell)->here)
		return tw_cell_at(m, wish->slot, wish->cell);
	if (tw_plan_is_with_stage(m->plan) && vacant_with_shards(m, node, wish->boot))
		return vacant_with_shards(m, node, wish->boot);
	for (uint32_t k = cells; k-- > 0;) {
		const uint32_t slot = wishes && tw_slots_has(&b->level[k], wish->slot)
					      ? wish->slot
					      : tw_slots_next(&b->level[k], 0);

		if (slot != TW_NO_SLOT)
			return vacant_in(m, slot, wish->cell);
	}
	return NULL;
}

void tw_cells_missing(const struct master *m, uint32_t *slot, struct tw_addr *whom)
{
	const struct tw_body_hello any = { .slot = UINT32_MAX, .cell = UINT32_MAX };
	const struct cell_info *c = vacancy(m, UINT32_MAX, &any);

	if (!c)
		return;
	*slot = tw_cell_slot(m, c);
	*whom = (struct tw_addr){ tw_plan_cell_node(m->plan, *slot, tw_cell_number(m, c)),
				  TW_WORKER, (uint16_t)tw_cell_number(m, c) };
}

/* Did it know who it is, or did its memory go? */
static bool starts_anew(const struct master *m, uint32_t slot, const struct cell_info *c,
			const struct tw_msg *msg)
{
	return c->boot != msg->b.hello.boot || msg->h.incarnation == m->member[slot].incarnation;
}

/* What a worker still needs, for people. */
static void say_missing(const struct master *m, struct tw_context *ctx, uint32_t slot)
{
	const uint32_t cells = tw_plan_cells(m->plan), here = m->members.cells.here[slot];
	char list[120] = "";
	size_t at = 0;

	for (uint32_t k = 0; k < cells && at + 16 < sizeof list; k++)
		if (!tw_cell_at(m, slot, k)->here)
			at += (size_t)snprintf(list + at, sizeof list - at, "%s%u", at ? ", " : "",
					       tw_plan_stage_of(m->plan, k));
	tw_say(ctx, TW_INFO, "worker %u has %u of %u cells; %u more must join, for stage%s %s",
	       slot, here, cells, cells - here, cells - here > 1 ? "s" : "", list);
}

void tw_cells_admit(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	struct cell_info *c = tw_cell_on(m, msg->from.node);
	uint32_t slot = c ? tw_cell_slot(m, c) : TW_NO_SLOT;

	if (c && m->member[slot].live && !starts_anew(m, slot, c, msg)) { /* it asked twice */
		tw_master_welcome_cell(m, ctx, slot, tw_cell_number(m, c));
		return;
	}
	if (c && m->member[slot].live)
		tw_master_remove(m, ctx, slot, TW_GONE);
	if (tw_master_is_barred(m, msg->from.node, msg->b.hello.boot)) {
		tw_master_refuse_node(ctx, msg->from.node, msg->h.incarnation, TW_REFUSED_STUCK);
		return;
	}
	c = tw_cell_on(m, msg->from.node);
	if (!c)
		c = vacancy(m, msg->from.node, &msg->b.hello);
	if (!c) {
		tw_master_refuse_node(ctx, msg->from.node, msg->h.incarnation, TW_REFUSED_FULL);
		return;
	}
	m->waits.came = true;
	tw_cells_hold(m, ctx, msg->from.node, msg->b.hello.boot);
	c->node = msg->from.node;
	c->boot = msg->b.hello.boot;
	tw_cells_put(m, ctx, c, true);
	slot = tw_cell_slot(m, c);
	if (m->members.cells.here[slot] < tw_plan_cells(m->plan)) {
		say_missing(m, ctx, slot);
		return;
	}
	tw_master_take_in(m, ctx, slot, tw_cell_at(m, slot, 0)->node,
			  tw_cell_at(m, slot, 0)->boot); /* (2) */
}

/* --- going ---------------------------------------------------------------------------------- */

/* Whose word it is against whose, nobody else can tell: the accused one goes. */
void tw_cells_accused(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	const uint32_t slot = msg->h.from, liar = msg->b.refuse.slot;
	const struct cell_info *by = m->members.cells.cell ? tw_cell_on(m, msg->from.node) : NULL;
	const struct cell_info *c;

	if (!by || liar >= tw_plan_cells(m->plan) || liar == tw_cell_number(m, by))
		return;
	c = tw_cell_at(m, slot, liar);
	tw_say(ctx, TW_WARNING, "worker %u.%u is removed: it said to worker %u.%u what cannot be",
	       slot, liar, slot, tw_cell_number(m, by));
	tw_master_bar(m, slot, c->node, c->boot);
	tw_master_expel(m, ctx, slot, c->node, TW_REFUSED_LIES);
}

void tw_cells_down(struct master *m, struct tw_context *ctx, uint32_t node)
{
	struct cell_info *c = tw_cell_on(m, node);

	if (c && m->member[tw_cell_slot(m, c)].live) {
		tw_say(ctx, TW_INFO, "worker %u.%u is lost, and worker %u with it",
		       tw_cell_slot(m, c), tw_cell_number(m, c), tw_cell_slot(m, c));
		tw_master_remove(m, ctx, tw_cell_slot(m, c), TW_GONE);
	} else {
		tw_cells_vacate(m, ctx, node);
	}
}

void tw_cells_up(struct master *m, struct tw_context *ctx, uint32_t node, uint32_t boot)
{
	struct cell_info *c = tw_cell_on(m, node);

	if (!c)
		return;
	if (c->boot != boot) {
		tw_cells_down(m, ctx, node); /* it lost its memory */
	} else if (m->member[tw_cell_slot(m, c)].live) {
		tw_master_reconnected(m, ctx, tw_cell_slot(m, c));
		tw_figures_master_ask_cell(m, ctx, c);
	}
}
