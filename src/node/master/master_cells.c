/* SPDX-License-Identifier: Apache-2.0 */
/* master_cells.c - workers of several cells: who has which place, and when a worker is whole.
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

/* --- the book ------------------------------------------------------------------------------- */

static enum tw_status levels_init(struct master *m, uint32_t cells)
{
	const uint32_t slots = m->plan->crew.workers;
	struct cell_book *b = &m->members.cells;

	b->level = tw_heap_zeros(m->heap, cells * sizeof *b->level);
	for (uint32_t k = 0; b->level && k < cells; k++)
		if (tw_slots_init(&b->level[k], m->heap, slots) != TW_OK)
			return TW_NO_MEMORY;
	for (uint32_t k = 0; b->level && k < slots; k++)
		tw_slots_put(&b->level[0], k, true);
	return b->level ? TW_OK : TW_NO_MEMORY;
}

enum tw_status tw_cells_init(struct master *m)
{
	const uint32_t cells = tw_plan_cells(m->plan), slots = m->plan->crew.workers;
	struct cell_book *b = &m->members.cells;
	uint32_t chains = 1;

	if (!tw_plan_is_staged(m->plan))
		return TW_OK;
	while (chains < slots * cells)
		chains *= 2;
	b->mask = chains - 1;
	b->cell = tw_heap_zeros(m->heap, (size_t)slots * cells * sizeof *b->cell);
	b->here = tw_heap_zeros(m->heap, slots * sizeof *b->here);
	b->at_node = m->heap->get(m->heap, chains * sizeof *b->at_node);
	b->name = tw_heap_zeros(m->heap, cells * sizeof *b->name);
	if (!b->cell || !b->here || !b->at_node || !b->name)
		return TW_NO_MEMORY;
	for (uint32_t k = 0; k < chains; k++)
		b->at_node[k] = UINT32_MAX;
	return levels_init(m, cells);
}

void tw_cells_release(struct master *m)
{
	struct cell_book *b = &m->members.cells;

	for (uint32_t k = 0; b->level && k < tw_plan_cells(m->plan); k++)
		tw_slots_release(&b->level[k]);
	m->heap->put(m->heap, b->level);
	m->heap->put(m->heap, b->name);
	m->heap->put(m->heap, b->at_node);
	m->heap->put(m->heap, b->here);
	m->heap->put(m->heap, b->cell);
}

/* A place is taken, or is vacant again. */
static void put(struct master *m, struct tw_context *ctx, struct cell_info *c, bool here)
{
	const uint32_t slot = tw_cell_slot(m, c), cells = tw_plan_cells(m->plan);
	struct cell_book *b = &m->members.cells;
	uint32_t *link = &b->at_node[c->node & b->mask];

	if (c->here == here)
		return;
	c->here = here;
	tw_figures_master_forget(m, c);
	tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_CELL,
					.slot = slot,
					.cell = { .number = tw_cell_number(m, c),
						  .node = c->node,
						  .taken = here } });
	if (b->here[slot] < cells)
		tw_slots_put(&b->level[b->here[slot]], slot, false);
	if (here) {
		c->next_at = *link;
		*link = (uint32_t)(c - b->cell);
		b->here[slot]++;
	} else {
		while (&b->cell[*link] != c)
			link = &b->cell[*link].next_at;
		*link = c->next_at;
		b->here[slot]--;
	}
	if (b->here[slot] < cells)
		tw_slots_put(&b->level[b->here[slot]], slot, true);
}

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
	put(m, ctx, c, true);
	slot = tw_cell_slot(m, c);
	if (m->members.cells.here[slot] < tw_plan_cells(m->plan)) {
		say_missing(m, ctx, slot);
		return;
	}
	tw_master_take_in(m, ctx, slot, tw_cell_at(m, slot, 0)->node,
			  tw_cell_at(m, slot, 0)->boot); /* (2) */
}

void tw_cells_name(struct master *m, struct tw_context *ctx, const struct tw_member *who)
{
	struct tw_member *list = m->members.cells.name;

	for (uint32_t k = 0; k < tw_plan_cells(m->plan); k++) {
		list[k] = *who;
		list[k].node = tw_cell_at(m, who->slot, k)->node;
	}
	tw_members(ctx, list, tw_plan_cells(m->plan));
}

/* --- going ---------------------------------------------------------------------------------- */

void tw_cells_lost(struct master *m, struct tw_context *ctx, uint32_t slot)
{
	if (!tw_plan_is_staged(m->plan))
		return;
	for (uint32_t k = 0; k < tw_plan_cells(m->plan); k++) {
		struct cell_info *c = tw_cell_at(m, slot, k);

		put(m, ctx, c, false);
		tw_master_refuse_node(ctx, c->node, m->member[slot].incarnation, TW_REFUSED_FENCED);
	}
}

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
	} else if (c)
		put(m, ctx, c, false);
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

/* --- shards on the nodes of cells (4) ------------------------------------------------------- */

const struct cell_info *tw_cell_of_shard(const struct master *m, uint32_t shard)
{
	const uint32_t stage = m->plan->staging.stage_of[shard];

	return m->member[0].live ? tw_cell_at(m, 0, tw_plan_cell_for(m->plan, stage, 0)) : NULL;
}

bool tw_cells_misplaced(const struct master *m)
{
	for (uint32_t s = 0; s < m->plan->problem.shards; s++) {
		const struct cell_info *c = tw_cell_of_shard(m, s);

		if (c && m->shard[s].place >= SHARD_ASSIGNED && m->shard[s].node != c->node)
			return true;
	}
	return false;
}

/* Shards of this node that another life of it had; false: there are none. */
static bool forget_boots(struct master *m, uint32_t node, uint32_t boot)
{
	bool any = false;

	for (uint32_t s = 0; s < m->plan->problem.shards; s++) {
		struct shard_info *i = &m->shard[s];

		if (i->node != node || !i->boot || i->boot == boot)
			continue;
		i->boot = 0;
		any = true;
	}
	return any;
}

void tw_cells_hold(struct master *m, struct tw_context *ctx, uint32_t node, uint32_t boot)
{
	if (!tw_plan_is_with_stage(m->plan))
		return;
	if (forget_boots(m, node, boot)) {
		tw_master_lose_shards(m, ctx, node);
		return;
	}
	for (uint32_t s = 0; boot && s < m->plan->problem.shards; s++)
		if (m->shard[s].node == node && m->shard[s].boot == boot)
			tw_master_resync_shard(m, ctx, s);
}
