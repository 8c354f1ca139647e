/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_master.c - the master: when a checkpoint is made, what it is restored to, and the
 * table of the duty.  The numbers in brackets are those of README.md. */
#include "node/duty/checkpoint/checkpoint_state.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

bool tw_checkpoint_master_wants(const struct master *m)
{
	const uint32_t wishes = tw_phase_wishes(m);
	const bool ends = tw_deal_exhausted(m);

	return (wishes & (TW_WISH_STOP | TW_WISH_CHECKPOINT)) ||
	       ((wishes & TW_WISH_MOVE) && !ends) ||
	       (m->plan->checkpoint.final && ends && !m->checkpoint->final);
}

/* --- restoring -------------------------------------------------------------------------------- */

/* The arrays of the master's part, whose pointers lead into it; *list is the caller's to put back.
 */
static enum tw_status open_own_part(struct master *m, const struct tw_part *parts, size_t count,
				    struct tw_array **list, size_t *arrays)
{
	for (size_t k = 0; k < count; k++)
		if (strcmp(parts[k].name, "master") == 0)
			return tw_part_unpack(parts[k].bytes->data, parts[k].bytes->bytes, m->heap,
					      list, arrays);
	return TW_BAD_BYTES;
}

/* What the run counts, of a master that has not trained yet. */
static void restore_counts(struct master *m, const struct tw_master_part *head,
			   const struct tw_array *speeds)
{
	if (speeds)
		tw_speeds_restore(m, speeds->at, speeds->n);
	m->count.redealt = head->redealt;
	m->count.lost_copies = head->lost_copies;
	if (m->restart.resume)
		m->restart.release = head->release;
}

enum tw_status tw_checkpoint_master_restore(struct master *m, const struct tw_part *parts,
					    size_t count, const struct tw_master_part *head)
{
	struct tw_array *list = NULL;
	enum tw_status st = TW_OK;
	size_t arrays = 0;

	tw_spans_clear(&m->dealing.taken);
	tw_orphans_restart(m);
	if (head)
		st = open_own_part(m, parts, count, &list, &arrays);
	if (st != TW_OK)
		return st;
	if (head)
		st = tw_checkpoint_spans(list, arrays, "closed", &m->dealing.taken);
	if (head && !m->restart.begun)
		restore_counts(m, head, tw_part_find(list, arrays, "speeds"));
	if (st == TW_OK)
		st = tw_duties_restore(&m->duties, head, list, arrays);
	if (head)
		tw_orphans_restore(m, tw_part_find(list, arrays, TW_PASSED_PART));
	m->heap->put(m->heap, list);
	m->rounds.number = head ? head->round : 0;
	m->count.dropped = head ? head->dropped : 0;
	m->count.refused = head ? head->refused : 0;
	m->dealing.frontier = tw_spans_total(&m->dealing.taken);
	return st;
}

/* --- what workers keep ------------------------------------------------------------------------ */

struct tw_block *tw_checkpoint_master_kept(const struct master *m, uint32_t slot, uint32_t cell)
{
	struct tw_block **kept = m->checkpoint->restore;

	return kept ? kept[tw_checkpoint_place(m, slot, cell)] : NULL;
}

bool tw_checkpoint_master_keep(struct master *m, const struct tw_part *part, uint32_t *slot)
{
	const uint32_t cells = tw_plan_cells(m->plan);
	const int names = tw_plan_is_staged(m->plan) ? 2 : 1;
	struct tw_block **at;
	unsigned cell = 0;
	bool all = true;

	if (sscanf(part->name, "worker %u.%u", slot, &cell) != names || !m->checkpoint->restore ||
	    *slot >= m->plan->crew.workers || cell >= cells)
		return false;
	at = &m->checkpoint->restore[tw_checkpoint_place(m, *slot, cell)];
	tw_block_drop(*at);
	*at = tw_block_keep(part->bytes);
	for (uint32_t k = 0; k < cells; k++)
		all = all && tw_checkpoint_master_kept(m, *slot, k);
	return all;
}

static void forget_kept(struct master *m, uint32_t slot)
{
	struct tw_block **kept = m->checkpoint->restore;

	for (uint32_t k = 0; kept && k < tw_plan_cells(m->plan); k++) {
		const size_t at = tw_checkpoint_place(m, slot, k);

		tw_block_drop(kept[at]);
		kept[at] = NULL;
	}
}

void tw_checkpoint_master_forget_kept(struct master *m)
{
	for (uint32_t k = 0; k < m->plan->crew.workers; k++)
		forget_kept(m, k);
}

/* --- the duty --------------------------------------------------------------------------------- */

static enum tw_status open_checkpoint(void *actor)
{
	struct master *m = actor;
	struct checkpoint_master *c = m->checkpoint;
	const size_t cells = (size_t)m->plan->crew.workers * tw_plan_cells(m->plan);

	tw_spans_init(&c->now.closed, m->heap);
	c->now.shard = tw_heap_zeros(m->heap, m->plan->problem.shards * sizeof *c->now.shard);
	if (!c->now.shard)
		return TW_NO_MEMORY;
	if (!tw_plan_worker_keeps(m->plan))
		return TW_OK;
	c->now.cell = tw_heap_zeros(m->heap, cells * sizeof *c->now.cell);
	c->restore = tw_heap_zeros(m->heap, cells * sizeof *c->restore);
	return c->now.cell && c->restore ? TW_OK : TW_NO_MEMORY;
}

static void close_checkpoint(void *actor)
{
	struct master *m = actor;
	struct checkpoint_master *c = m->checkpoint;

	if (c->now.shard)
		tw_checkpoint_master_abort(m);
	tw_checkpoint_master_forget_kept(m);
	tw_spans_release(&c->now.closed);
	m->heap->put(m->heap, c->now.shard);
	m->heap->put(m->heap, c->now.cell);
	m->heap->put(m->heap, c->restore);
}

static void message(void *actor, struct tw_context *ctx, const struct tw_msg *msg)
{
	tw_checkpoint_save_hear(actor, ctx, msg);
}

static void begin(void *actor, struct tw_context *ctx)
{
	struct master *m = actor;

	if (m->plan->checkpoint.every)
		tw_timer(ctx, TIMER_CUT, tw_checkpoint_save_period(m));
}

static void joined(void *actor, struct tw_context *ctx, uint32_t slot)
{
	tw_checkpoint_save_joined(actor, ctx, slot);
}

/* Once training has begun, what a worker keeps goes with it: the next one in its place begins
 * blank. */
static void lost(void *actor, struct tw_context *ctx, uint32_t slot)
{
	struct master *m = actor;

	(void)ctx;
	tw_checkpoint_save_lost(m, slot);
	if (m->restart.begun)
		forget_kept(m, slot);
}

static void back(void *actor, struct tw_context *ctx, uint32_t slot)
{
	tw_checkpoint_master_ask_worker(actor, ctx, slot);
}

static void home(void *actor, struct tw_context *ctx, uint32_t shard)
{
	tw_checkpoint_save_ask_shard(actor, ctx, shard);
}

static void timer(void *actor, struct tw_context *ctx, uint32_t which)
{
	struct master *m = actor;

	if (which != TIMER_CUT)
		return;
	if (m->phase == PHASE_RUN && !m->checkpoint->now.number)
		tw_wish_put(m, TW_WISH_CHECKPOINT, true);
	else
		tw_timer(ctx, TIMER_CUT, tw_checkpoint_save_period(m));
}

static const char *waits(const void *actor, uint32_t shard)
{
	const struct master *m = actor;
	const struct checkpoint_making *c = &m->checkpoint->now;

	return m->phase == PHASE_SNAP && !c->shard[shard] && shard >= c->written + c->writing
		       ? "its part of the checkpoint"
		       : NULL;
}

static enum tw_status restore(void *actor, const struct tw_master_part *head,
			      const struct tw_array *list, size_t count)
{
	struct master *m = actor;

	(void)list;
	(void)count;
	if (!head)
		return TW_OK;
	m->checkpoint->period = head->period;
	m->checkpoint->closed_before = tw_spans_total(&m->dealing.taken);
	return TW_OK;
}

const struct tw_duty tw_checkpoint_master = {
	.name = "checkpoint",
	.bytes = sizeof(struct checkpoint_master),
	.place = offsetof(struct master, checkpoint),
	.hears = TW_HEARS(TW_PART),
	.open = open_checkpoint,
	.close = close_checkpoint,
	.message = message,
	.begin = begin,
	.joined = joined,
	.lost = lost,
	.back = back,
	.home = home,
	.timer = timer,
	.waits = waits,
	.restore = restore,
};
