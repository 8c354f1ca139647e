/* SPDX-License-Identifier: Apache-2.0 */
/* master_cells.c - workers of several cells: who has which place.  Who joins is in
 * master_cells_join.c, which has the rules. */
#include "node/master/master.h"

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
void tw_cells_put(struct master *m, struct tw_context *ctx, struct cell_info *c, bool here)
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

		tw_cells_put(m, ctx, c, false);
		tw_master_refuse_node(ctx, c->node, m->member[slot].incarnation, TW_REFUSED_FENCED);
	}
}

void tw_cells_vacate(struct master *m, struct tw_context *ctx, uint32_t node)
{
	struct cell_info *c = tw_cell_on(m, node);

	if (c)
		tw_cells_put(m, ctx, c, false);
}

/* --- shards on the nodes of cells (4) ------------------------------------------------------- */

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
		tw_host_lose(m, ctx, node);
		return;
	}
	for (uint32_t s = 0; boot && s < m->plan->problem.shards; s++)
		if (m->shard[s].node == node && m->shard[s].boot == boot)
			tw_host_resync(m, ctx, s);
}
