/* SPDX-License-Identifier: Apache-2.0 */
/* master_roster.c - who is there, as the master knows: members, cells, replicas, shards.
 *
 * Only questions, and the words that replicas say: nothing here sends a message. */
#include "node/kernel/master_roster.h"

#include <string.h>

/* --- shards ---------------------------------------------------------------------------------- */

bool tw_master_every_shard(const struct master *m, uint32_t *lacks,
			   bool (*has)(const struct master *m, uint32_t shard))
{
	for (uint32_t k = 0; k < m->plan->problem.shards; k++) {
		if (!has(m, *lacks))
			return false;
		if (++*lacks == m->plan->problem.shards)
			*lacks = 0;
	}
	return true;
}

uint32_t tw_master_servers_live(const struct master *m)
{
	uint32_t here = 0;

	for (uint32_t k = 0; k < m->plan->crew.servers; k++)
		here += m->server[k].state != SERVER_AWAY;
	return here;
}

void tw_master_heard_survivor(struct master *m)
{
	m->waits.outlived = true;
	m->waits.servers_due = m->waits.servers_due || m->waits.patient;
}

void tw_master_applied(const struct master *m, uint64_t *steps, uint64_t *samples)
{
	uint64_t all_steps = 0, all_samples = 0;
	const uint32_t n = m->plan->problem.shards;

	for (uint32_t s = 0; s < n; s++) {
		all_steps += m->shard[s].tally.steps;
		all_samples += m->shard[s].tally.samples;
	}
	*steps = (all_steps + n / 2) / n;
	*samples = (all_samples + n / 2) / n;
}

/* --- cells and members ----------------------------------------------------------------------- */

uint32_t tw_servers_staying(const struct master *m)
{
	uint32_t count = 0;

	for (uint32_t k = 0; k < m->plan->crew.servers; k++)
		count += m->server[k].state == SERVER_HERE;
	return count;
}

struct cell_info *tw_cell_at(const struct master *m, uint32_t slot, uint32_t cell)
{
	return &m->members.cells.cell[slot * tw_plan_cells(m->plan) + cell];
}

struct cell_info *tw_cell_on(const struct master *m, uint32_t node)
{
	const struct cell_book *b = &m->members.cells;

	for (uint32_t k = b->at_node[node & b->mask]; k != UINT32_MAX; k = b->cell[k].next_at)
		if (b->cell[k].node == node)
			return &b->cell[k];
	return NULL;
}

uint32_t tw_cell_slot(const struct master *m, const struct cell_info *c)
{
	return (uint32_t)(c - m->members.cells.cell) / tw_plan_cells(m->plan);
}

uint32_t tw_cell_number(const struct master *m, const struct cell_info *c)
{
	return (uint32_t)(c - m->members.cells.cell) % tw_plan_cells(m->plan);
}

uint32_t tw_master_slot_at(const struct master *m, uint32_t node)
{
	const struct cell_info *c;
	uint32_t first = TW_NO_SLOT;

	if (tw_plan_is_staged(m->plan)) {
		c = tw_cell_on(m, node);
		return c && m->member[tw_cell_slot(m, c)].live ? tw_cell_slot(m, c) : TW_NO_SLOT;
	}
	for (uint32_t k = m->members.at_node[node & m->members.mask]; k != TW_NO_SLOT;
	     k = m->member[k].next_at)
		if (k < first && m->member[k].node == node)
			first = k;
	return first;
}

bool tw_master_is_of(const struct master *m, uint32_t node, uint32_t slot)
{
	if (tw_plan_is_staged(m->plan))
		return tw_master_slot_at(m, node) == slot;
	return m->member[slot].live && m->member[slot].node == node;
}

/* --- replicas -------------------------------------------------------------------------------- */

uint32_t tw_replicas_next(const struct master *m, uint32_t slot)
{
	if (!tw_master_has_replicas(m))
		return TW_NO_SLOT;
	do
		slot = tw_slots_next(&m->members.live, slot);
	while (slot != TW_NO_SLOT && m->member[slot].replica.state != REPLICA_READY && ++slot);
	return slot;
}

static uint64_t *bits_of(const struct master *m, uint32_t slot, enum replica_word word)
{
	return m->replicas.bits + ((size_t)slot * REPLICA_WORDS + word) * m->replicas.words;
}

uint32_t tw_replicas_owes(const struct master *m, enum replica_word word)
{
	uint32_t slot = tw_replicas_next(m, 0);

	while (slot != TW_NO_SLOT && tw_replica_said_all(m, slot, word))
		slot = tw_replicas_next(m, slot + 1);
	return slot;
}

bool tw_replica_said(const struct master *m, uint32_t slot, uint32_t shard, enum replica_word word)
{
	return bits_of(m, slot, word)[shard / 64] >> shard % 64 & 1;
}

bool tw_replica_says(struct master *m, uint32_t node, uint32_t shard, enum replica_word word)
{
	const uint32_t slot = tw_master_slot_at(m, node);

	if (slot == UINT32_MAX || tw_replica_said(m, slot, shard, word))
		return false;
	bits_of(m, slot, word)[shard / 64] |= UINT64_C(1) << shard % 64;
	m->member[slot].replica.heard[word]++;
	m->replicas.full[word] += tw_replica_said_all(m, slot, word);
	return true;
}

void tw_replica_ask_anew(struct master *m, uint32_t slot, enum replica_word word)
{
	m->replicas.full[word] -= tw_replica_said_all(m, slot, word);
	m->member[slot].replica.heard[word] = 0;
	if (word == REPLICA_PINNED)
		m->member[slot].replica.digest = 0;
	memset(bits_of(m, slot, word), 0, m->replicas.words * sizeof *m->replicas.bits);
}

void tw_replicas_ask_anew(struct master *m, enum replica_word word)
{
	for (uint32_t k = 0; tw_master_has_replicas(m) && k < m->plan->crew.workers; k++)
		tw_replica_ask_anew(m, k, word);
}

void tw_replica_is_ready(struct master *m, uint32_t slot)
{
	m->member[slot].replica.state = REPLICA_READY;
	m->replicas.ready++;
}

bool tw_master_adopted_any(const struct master *m)
{
	return m->places[SHARD_ADOPTED];
}

void tw_master_bar(struct master *m, uint32_t slot, uint32_t node, uint32_t boot)
{
	m->member[slot].barred_node = node;
	m->member[slot].barred_boot = boot;
	tw_slots_put(&m->members.barred, slot, true);
}

bool tw_master_is_barred(const struct master *m, uint32_t node, uint32_t boot)
{
	const struct tw_slots *barred = &m->members.barred;

	for (uint32_t k = tw_slots_next(barred, 0); k != TW_NO_SLOT;
	     k = tw_slots_next(barred, k + 1))
		if (m->member[k].barred_node == node && m->member[k].barred_boot == boot && boot)
			return true;
	return false;
}

uint32_t tw_replicas_new_attempt(struct master *m, const struct tw_context *ctx)
{
	return ctx->boot << 20 | (++m->replicas.attempt & ((1u << 20) - 1));
}

uint32_t tw_replicas_next_speaker(const struct master *m)
{
	for (uint32_t k = tw_replicas_next(m, 0); k != TW_NO_SLOT && m->plan->keeping.best;
	     k = tw_replicas_next(m, k + 1))
		if (tw_replica_said_all(m, k, REPLICA_KEPT))
			return k;
	return tw_replicas_next(m, 0);
}

uint32_t tw_replicas_speaker(const struct master *m)
{
	uint32_t slot = tw_replicas_next_speaker(m);

	if (slot == TW_NO_SLOT)
		slot = tw_slots_next(&m->members.live, 0);
	return slot == TW_NO_SLOT ? 0 : m->member[slot].node;
}

bool tw_replicas_asked(const struct master *m)
{
	for (uint32_t k = tw_slots_next(&m->members.live, 0); k != TW_NO_SLOT;
	     k = tw_slots_next(&m->members.live, k + 1))
		if (m->member[k].replica.state == REPLICA_ASKED)
			return true;
	return false;
}

void tw_replica_is_none(struct master *m, uint32_t slot)
{
	m->replicas.ready -= m->member[slot].replica.state == REPLICA_READY;
	m->member[slot].replica.state = REPLICA_NONE;
	for (uint32_t w = 0; w < REPLICA_WORDS; w++)
		tw_replica_ask_anew(m, slot, w);
}

void tw_replicas_copy_all(struct master *m)
{
	for (uint32_t k = tw_replicas_next(m, 0); k != TW_NO_SLOT; k = tw_replicas_next(m, k + 1))
		if (m->member[k].node != m->shard[0].node)
			tw_replica_is_none(m, k);
}

const struct cell_info *tw_cell_of_shard(const struct master *m, uint32_t shard)
{
	const uint32_t stage = m->plan->staging.stage_of[shard];

	return m->member[0].live ? tw_cell_at(m, 0, tw_plan_cell_for(m->plan, stage, 0)) : NULL;
}
