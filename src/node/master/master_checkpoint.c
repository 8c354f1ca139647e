/* SPDX-License-Identifier: Apache-2.0 */
/* master_checkpoint.c - cuts: what is saved, and when. How shards are taken from one is in
 * master_restore.c.
 *
 *  (1) a cut is the parts of all shards, of the workers that keep state, and of the master, under
 *      one number; the store keeps all of them or none.
 *  (2) a cut that drains has no lease open and nothing collected: what is applied is what is dealt.
 *      One that does not drain says for each shard what it has applied, and what the master knew to
 *      be done when it asked.
 *  (3) under rounds a cut is of one round, that of the SNAP: the parts of all shards and the
 *      master's own.  Where a shard has gone on meanwhile, the cut is let go and made again.
 *  (4) shards are asked for their parts in order, as many at a time as checkpoint.memory has room
 *      for, at least one.  The store gets each part when it and all before it are here.  Where not
 *      all fit at once (tw_plan_cut_is_large), a cut under rounds drains, because of (3). */
#include "node/master/master.h"

#include <stdio.h>

#define MOVE_AGAIN (5 * TW_SECOND) /* after a cut for a server that leaves could not be written */

bool tw_cut_workers_keep_state(const struct master *m)
{
	return tw_plan_worker_keeps(m->plan);
}

void tw_cut_abort(struct master *m)
{
	for (uint32_t s = 0; s < m->plan->problem.shards; s++) {
		tw_block_drop(m->shard[s].part);
		m->shard[s].part = NULL;
	}
	for (uint32_t k = 0; k < m->plan->crew.workers; k++) {
		tw_block_drop(m->member[k].part);
		m->member[k].part = NULL;
		tw_cells_drop_parts(m, k);
	}
	m->cuts.making = 0;
	m->cuts.parts_here = 0;
	m->cuts.running = m->cuts.writing = false;
	m->cuts.asked_for = m->cuts.written = 0;
}

static void send_snap(struct master *m, struct tw_context *ctx, struct tw_msg *msg)
{
	if (!msg)
		return;
	msg->b.snap =
		(struct tw_body_snap){ .cut = m->cuts.making,
				       .flush = !m->cuts.running,
				       .part = 1,
				       .pin = m->cuts.final ? tw_eval_master_delivers(m) : 0 };
	tw_send(ctx, msg);
}

void tw_cut_snap_shard(struct master *m, struct tw_context *ctx, uint32_t shard)
{
	if (m->cuts.making && m->phase != PHASE_SAVE && !tw_cut_has_part(m, shard) &&
	    shard < m->cuts.asked_for)
		send_snap(m, ctx, tw_master_to_shard(m, ctx, shard, TW_SNAP));
}

/* (4): ask for as many parts as there is room for, at least one. */
static void ask_for_parts(struct master *m, struct tw_context *ctx)
{
	struct cuts *c = &m->cuts;
	uint64_t bytes = 0;

	for (uint32_t s = c->written; s < c->asked_for; s++)
		bytes += tw_plan_part_bytes(m->plan, s);
	while (c->asked_for < m->plan->problem.shards) {
		bytes += tw_plan_part_bytes(m->plan, c->asked_for);
		if (c->asked_for > c->written && bytes > m->plan->checkpoint.memory)
			return;
		c->asked_for++;
		tw_cut_snap_shard(m, ctx, c->asked_for - 1);
	}
}

/* (4): the next part in order goes to the store, if it is here. */
static void put_part(struct master *m, struct tw_context *ctx)
{
	struct cuts *c = &m->cuts;
	struct tw_part part = { .bytes = NULL };

	if (c->writing || c->written == m->plan->problem.shards || !m->shard[c->written].part)
		return;
	part.bytes = m->shard[c->written].part;
	snprintf(part.name, sizeof part.name, "shard %u", c->written);
	c->writing = true;
	c->begun = c->making;
	ctx->world->put(ctx, c->making, &part);
	tw_block_drop(part.bytes);
	m->shard[c->written].part = NULL;
}

void tw_cut_snap_worker(struct master *m, struct tw_context *ctx, uint32_t slot)
{
	if (!m->cuts.making || m->phase == PHASE_SAVE || !tw_cut_workers_keep_state(m) ||
	    !m->member[slot].live || m->member[slot].part)
		return;
	for (uint32_t c = 0; c < tw_plan_cells(m->plan); c++)
		if (!tw_plan_is_staged(m->plan) || !tw_cell_at(m, slot, c)->part)
			send_snap(m, ctx, tw_master_to_cell(m, ctx, slot, c, TW_SNAP));
}

/* What the master says of a cut, as things are now. */
static struct tw_master_part as_of_now(const struct master *m)
{
	return (struct tw_master_part){ .cut = m->cuts.making,
					.round = m->rounds.number,
					.generation = m->restart.generation,
					.steps = m->count.steps,
					.samples = m->count.samples,
					.redealt = m->count.redealt,
					.dropped = m->count.dropped,
					.refused = m->count.refused,
					.lost_copies = m->count.lost_copies,
					.evaluated_at = tw_eval_master_evaluated(m),
					.shards = m->plan->problem.shards,
					.slots = m->plan->crew.workers,
					.servers = m->plan->crew.servers };
}

void tw_cut_snap(struct master *m, struct tw_context *ctx)
{
	enum tw_status st;

	tw_cut_abort(m);
	/* one that was let go while the store wrote it keeps its number: what the store says of it
	 * must not be taken for this one's, and it may become complete */
	m->cuts.making = (m->cuts.stored > m->cuts.last ? m->cuts.stored : m->cuts.last) + 1;
	if (m->cuts.making <= m->cuts.begun)
		m->cuts.making = m->cuts.begun + 1;
	m->cuts.running = m->phase == PHASE_RUN;
	m->cuts.asked = as_of_now(m);
	tw_wish_put(m, TW_WISH_CHECKPOINT, false);
	m->since = tw_now(ctx);
	m->cuts.passed = m->dealing.orphans.passed;
	st = tw_spans_copy(&m->cuts.closed, &m->dealing.taken);
	for (uint32_t k = 0; k < m->plan->crew.workers; k++)
		for (uint32_t i = 0; i < m->member[k].held.count && st == TW_OK; i++)
			st = tw_spans_remove(&m->cuts.closed, m->member[k].held.lease[i].from,
					     m->member[k].held.lease[i].to);
	if (st != TW_OK) {
		tw_give_up(ctx, st, "no memory for a checkpoint");
		return;
	}
	if (!m->cuts.running)
		m->phase = PHASE_SNAP;
	tw_stuck_owes_part(m);
	ask_for_parts(m, ctx);
	for (uint32_t k = 0; k < m->plan->crew.workers; k++)
		tw_cut_snap_worker(m, ctx, k);
}

int64_t tw_cut_period(const struct master *m)
{
	return m->cuts.period > m->plan->checkpoint.every ? m->cuts.period
							  : m->plan->checkpoint.every;
}

/* A cut that drains pauses everybody.  Where nothing was finished since the one before, the next
 * one comes later, or the run would never end. */
static void stretch(struct master *m, struct tw_context *ctx)
{
	const int64_t pause = m->restart.release - m->cuts.draining, period = tw_cut_period(m);
	const bool idle =
		m->cuts.closed_before == tw_spans_total(&m->cuts.closed) && !m->cuts.was_paused;

	m->cuts.closed_before = tw_spans_total(&m->cuts.closed);
	m->cuts.was_paused = m->waits.paused;
	if (!m->plan->checkpoint.every || !idle || tw_deal_exhausted(m))
		return;
	m->cuts.period = pause > 2 * period ? pause : 2 * period;
	tw_say(ctx, TW_WARNING,
	       "checkpoints leave no time to train: one takes %.3g s, and no work was finished in "
	       "the %.3g s before it; the next checkpoint follows after %.3g s (checkpoint.every "
	       "is %.3g s)",
	       (double)pause / 1e9, (double)period / 1e9, (double)m->cuts.period / 1e9,
	       (double)m->plan->checkpoint.every / 1e9);
}

static struct tw_block *master_part(struct master *m, struct tw_context *ctx)
{
	const bool earlier = m->cuts.running && tw_master_rounds(m); /* (3) */
	struct tw_master_part x = earlier ? m->cuts.asked : as_of_now(m);
	struct tw_span *closed = tw_spans_list(&m->cuts.closed);
	struct speed *speeds = m->plan->traffic.adaptive ? tw_speeds_list(m) : NULL;
	const struct tw_array passed = tw_orphans_pack(m);
	struct tw_array list[4 + TW_DUTIES] = {
		{ .name = "master", .n = sizeof x, .kind = TW_BYTES, .at = &x },
		{ .name = "closed",
		  .n = m->cuts.closed.count * sizeof *closed,
		  .kind = TW_BYTES,
		  .at = closed },
		{ .name = "speeds",
		  .n = m->plan->crew.workers * sizeof *speeds,
		  .kind = TW_BYTES,
		  .at = speeds },
	};
	const size_t own = speeds ? 3 : 2;
	size_t count = own, packed;
	const enum tw_status st = tw_duties_pack(&m->duties, list, &count);
	struct tw_block *part = NULL;

	packed = count;
	if (passed.n)
		list[count++] = passed;
	x.workers = tw_master_live(m);
	x.release = tw_now(ctx) + m->plan->checkpoint.save_time + TW_SECOND / 10;
	if (!m->cuts.running) {
		m->restart.release = x.release;
		stretch(m, ctx);
	}
	x.period = m->cuts.period;
	if (closed && st == TW_OK && (speeds || !m->plan->traffic.adaptive))
		part = tw_part_pack(m->heap, list, count);
	for (size_t k = own; k < packed; k++)
		m->heap->put(m->heap, (void *)list[k].at);
	m->heap->put(m->heap, speeds);
	m->heap->put(m->heap, closed);
	return part;
}

/* The parts of one worker, by name: one, or one of each cell. */
static size_t list_worker(const struct master *m, uint32_t slot, struct tw_part *out)
{
	const uint32_t cells = tw_plan_cells(m->plan);

	if (!m->member[slot].part)
		return 0;
	if (!tw_plan_is_staged(m->plan)) {
		snprintf(out->name, sizeof out->name, "worker %u", slot);
		out->bytes = m->member[slot].part;
		return 1;
	}
	for (uint32_t c = 0; c < cells; c++) {
		snprintf(out[c].name, sizeof out->name, "worker %u.%u", slot, c);
		out[c].bytes = tw_cell_at(m, slot, c)->part;
	}
	return cells;
}

static void save(struct master *m, struct tw_context *ctx)
{
	const size_t most = 1 + m->plan->problem.shards +
			    (size_t)m->plan->crew.workers * tw_plan_cells(m->plan);
	struct tw_part *parts = tw_heap_zeros(m->heap, most * sizeof *parts);
	size_t count = 0;

	if (!parts || !(parts[0].bytes = master_part(m, ctx))) {
		m->heap->put(m->heap, parts);
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for a checkpoint");
		return;
	}
	snprintf(parts[count++].name, sizeof parts[0].name, "master");
	for (uint32_t s = 0; s < m->plan->problem.shards; s++) {
		/* without bytes: it was put before */
		snprintf(parts[count++].name, sizeof parts[0].name, "shard %u", s);
	}
	for (uint32_t k = 0; k < m->plan->crew.workers; k++)
		count += list_worker(m, k, &parts[count]);
	if (!m->cuts.running)
		m->phase = PHASE_SAVE;
	m->cuts.stored = m->cuts.making;
	ctx->world->save(ctx, m->cuts.making, parts, count);
	tw_block_drop(parts[0].bytes);
	m->heap->put(m->heap, parts);
}

void tw_cut_check(struct master *m, struct tw_context *ctx)
{
	if (!m->cuts.making || m->cuts.stored == m->cuts.making)
		return;
	put_part(m, ctx);
	if (tw_cut_workers_keep_state(m) && m->cuts.parts_here < tw_master_live(m))
		return;
	if (m->cuts.written == m->plan->problem.shards)
		save(m, ctx);
}

static void keep(struct tw_block **place, struct tw_block *b)
{
	tw_block_drop(*place);
	*place = tw_block_keep(b);
}

static void keep_of_worker(struct master *m, uint32_t slot, struct tw_block *b)
{
	struct member *e = &m->member[slot];

	m->cuts.parts_here += e->live && !e->part;
	keep(&e->part, b);
}

/* Who sends this is the worker that it names, or a cell of it. */
static void worker_part(struct master *m, const struct tw_msg *msg)
{
	const uint32_t slot = msg->h.from;

	if (!m->cuts.making || m->cuts.making != msg->b.part.cut || slot >= m->plan->crew.workers ||
	    m->member[slot].incarnation != msg->h.incarnation ||
	    !tw_master_is_of(m, msg->from.node, slot))
		return;
	if (!tw_plan_is_staged(m->plan) ||
	    tw_cells_keep_part(m, slot, msg->from.node, msg->payload))
		keep_of_worker(m, slot, msg->payload);
}

/* A shard's part of the cut under way. */
static void keep_of_shard(struct master *m, uint32_t shard, const struct tw_msg *msg)
{
	const uint64_t round = msg->b.part.round;

	if (tw_master_rounds(m) && round > m->cuts.asked.round) { /* (3) */
		tw_cut_abort(m);
		tw_wish_put(m, TW_WISH_CHECKPOINT, true);
	} else if (!tw_master_rounds(m) || round == m->cuts.asked.round) {
		keep(&m->shard[shard].part, msg->payload);
	} /* else a COMMIT was lost on the way there: it is sent again, and this, too */
}

/* Can it be read, by whoever is restored from it?  A final vector has no arrays. */
static bool is_part(const struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	struct tw_array *list;
	enum tw_status st;
	size_t count;

	if (!msg->payload)
		return false;
	if (!msg->b.part.cut)
		return true;
	st = tw_part_unpack(tw_msg_payload(msg), msg->h.payload, m->heap, &list, &count);
	if (st == TW_OK)
		m->heap->put(m->heap, list);
	else if (st == TW_NO_MEMORY)
		tw_give_up(ctx, st, "no memory for a part of a checkpoint");
	return st == TW_OK;
}

void tw_cut_part(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	const uint32_t s = msg->h.shard;

	if (!is_part(m, ctx, msg))
		return;
	if (msg->from.role == TW_WORKER) {
		worker_part(m, msg);
	} else if (m->shard[s].node != msg->from.node) {
		return;
	} else if (msg->b.part.cut == 0 && msg->h.seq) {
		tw_eval_master_take(m, ctx, msg);
	} else if (msg->b.part.cut == 0) {
		if (tw_master_rounds(m) && msg->b.part.round != m->rounds.number)
			return; /* as in keep_of_shard */
		if (m->phase == PHASE_COUNT && !tw_finish_master_has_vector(m, s) &&
		    msg->h.payload ==
			    (m->plan->problem.border[s + 1] - m->plan->problem.border[s]) *
				    sizeof(float))
			tw_finish_master_take(m, s, msg->payload);
	} else if (m->cuts.making == msg->b.part.cut && m->cuts.stored != m->cuts.making &&
		   s >= m->cuts.written && s < m->cuts.asked_for) {
		keep_of_shard(m, s, msg);
	}
	if (m->cuts.running)
		tw_cut_check(m, ctx);
}

void tw_cut_saved(struct master *m, struct tw_context *ctx, uint64_t cut, enum tw_status status)
{
	const bool drained = m->phase == PHASE_SAVE || m->phase == PHASE_SNAP;
	const bool stop =
		tw_wishes(m, TW_WISH_STOP) || (m->plan->checkpoint.stop_after &&
					       m->cuts.made + 1 >= m->plan->checkpoint.stop_after);

	if (cut != m->cuts.making)
		return;
	if (m->cuts.writing && status == TW_OK) {
		m->cuts.writing = false;
		m->cuts.written++;
		ask_for_parts(m, ctx);
		tw_cut_check(m, ctx);
		return;
	}
	tw_cut_abort(m);
	if (status != TW_OK) {
		tw_say(ctx, TW_WARNING, "checkpoint %llu could not be written: %s",
		       (unsigned long long)cut, tw_status_name(status));
	} else {
		m->cuts.last = cut;
		m->cuts.made++;
		tw_note(ctx,
			&(struct tw_note){ .kind = TW_NOTE_CUT,
					   .cut = { .number = cut,
						    .closed = tw_spans_total(&m->cuts.closed) } });
	}
	if (stop && drained && (!m->cuts.final || tw_wishes(m, TW_WISH_STOP))) {
		tw_finish_master_interrupted(m); /* count what there is, and go */
		if (status == TW_OK)
			tw_finish_master_count(m, ctx);
		else
			tw_finish_master_end(m, ctx, TW_IO);
		return;
	}
	if (stop && !drained && status == TW_OK) {
		tw_wish_put(m, TW_WISH_STOP, true); /* stop at a drained cut of its own */
		return;
	}
	if (m->plan->checkpoint.every)
		tw_timer(ctx, TIMER_CUT, tw_cut_period(m));
	if (!drained)
		return;
	if (m->cuts.final) {
		tw_finish_master_count(m, ctx);
		return;
	}
	tw_master_new_generation(m, ctx);
	tw_deal_forget(m, ctx);
	m->phase = PHASE_GATHER;
	m->since = tw_now(ctx);
	if (!(tw_phase_wishes(m) & TW_WISH_MOVE))
		return;
	if (status == TW_OK) {
		tw_master_move(m, ctx);
	} else {
		m->restart.move = MOVE_PUT_OFF;
		tw_timer(ctx, TIMER_MOVE, MOVE_AGAIN);
	}
}
