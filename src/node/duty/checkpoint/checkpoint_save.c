/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_save.c - the master: parts are asked for, given to the store, and completed.  The
 * numbers in brackets are those of README.md. */
#include "node/duty/checkpoint/checkpoint_state.h"

#include <stdio.h>

#define MOVE_AGAIN (5 * TW_SECOND) /* after one for a server that leaves could not be written */

static bool has_part(const struct master *m, uint32_t shard)
{
	const struct checkpoint_making *c = &m->checkpoint->now;

	return c->shard[shard] || shard < c->written + c->writing;
}

/* Are all parts of this worker here? */
static bool is_whole(const struct master *m, uint32_t slot)
{
	const struct checkpoint_making *c = &m->checkpoint->now;
	bool whole = c->cell != NULL;

	for (uint32_t k = 0; whole && k < tw_plan_cells(m->plan); k++)
		whole = c->cell[tw_checkpoint_place(m, slot, k)] != NULL;
	return whole;
}

static void drop(struct tw_block **part)
{
	tw_block_drop(*part);
	*part = NULL;
}

static void keep(struct tw_block **place, struct tw_block *b)
{
	tw_block_drop(*place);
	*place = tw_block_keep(b);
}

static void drop_worker(struct master *m, uint32_t slot)
{
	struct checkpoint_making *c = &m->checkpoint->now;

	for (uint32_t k = 0; c->cell && k < tw_plan_cells(m->plan); k++)
		drop(&c->cell[tw_checkpoint_place(m, slot, k)]);
}

void tw_checkpoint_master_abort(struct master *m)
{
	struct checkpoint_making *c = &m->checkpoint->now;

	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		drop(&c->shard[s]);
	for (uint32_t k = 0; c->cell && k < m->plan->crew.workers; k++)
		drop_worker(m, k);
	c->number = 0;
	c->running = c->writing = false;
	c->asked_for = c->written = c->whole = 0;
	m->cuts.owed = 0;
}

void tw_checkpoint_master_go_back(struct master *m)
{
	tw_checkpoint_master_abort(m);
	m->checkpoint->final = false;
}

bool tw_checkpoint_master_is_making(const struct master *m)
{
	return m->checkpoint->now.number;
}

bool tw_checkpoint_master_owes(const struct master *m, uint32_t slot)
{
	return tw_plan_worker_keeps(m->plan) && !is_whole(m, slot);
}

uint64_t tw_checkpoint_master_progress(const struct master *m)
{
	const struct checkpoint_making *c = &m->checkpoint->now;
	uint64_t done = m->cuts.last + m->checkpoint->stored + c->whole + c->written;

	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		done += c->shard[s] != NULL;
	return done;
}

/* --- asking for parts ------------------------------------------------------------------------- */

static void send_snap(struct master *m, struct tw_context *ctx, struct tw_msg *msg)
{
	const struct checkpoint_making *c = &m->checkpoint->now;

	if (!msg)
		return;
	msg->b.snap =
		(struct tw_body_snap){ .cut = c->number,
				       .flush = !c->running,
				       .part = 1,
				       .pin = m->checkpoint->final ? tw_eval_master_delivers(m)
								   : 0 };
	tw_send(ctx, msg);
}

void tw_checkpoint_save_ask_shard(struct master *m, struct tw_context *ctx, uint32_t shard)
{
	const struct checkpoint_making *c = &m->checkpoint->now;

	if (c->number && m->phase != PHASE_SAVE && !has_part(m, shard) && shard < c->asked_for)
		send_snap(m, ctx, tw_master_to_shard(m, ctx, shard, TW_SNAP));
}

void tw_checkpoint_master_ask_worker(struct master *m, struct tw_context *ctx, uint32_t slot)
{
	const struct checkpoint_making *c = &m->checkpoint->now;

	if (!c->number || m->phase == PHASE_SAVE || !m->member[slot].live ||
	    !tw_checkpoint_master_owes(m, slot))
		return;
	for (uint32_t k = 0; k < tw_plan_cells(m->plan); k++)
		if (!c->cell[tw_checkpoint_place(m, slot, k)])
			send_snap(m, ctx, tw_master_to_cell(m, ctx, slot, k, TW_SNAP));
}

/* (4): ask for as many parts as there is room for, at least one. */
static void ask_for_parts(struct master *m, struct tw_context *ctx)
{
	struct checkpoint_making *c = &m->checkpoint->now;
	uint64_t bytes = 0;

	for (uint32_t s = c->written; s < c->asked_for; s++)
		bytes += tw_plan_part_bytes(m->plan, s);
	while (c->asked_for < m->plan->problem.shards) {
		bytes += tw_plan_part_bytes(m->plan, c->asked_for);
		if (c->asked_for > c->written && bytes > m->plan->checkpoint.memory)
			return;
		c->asked_for++;
		tw_checkpoint_save_ask_shard(m, ctx, c->asked_for - 1);
	}
}

/* What the master says of a checkpoint, as things are now. */
static struct tw_master_part as_of_now(const struct master *m)
{
	return (struct tw_master_part){ .cut = m->checkpoint->now.number,
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

/* One that was let go while the store wrote it keeps its number: what the store says of it must not
 * be taken for this one's, and it may become complete. */
static uint64_t next_number(const struct master *m)
{
	const struct checkpoint_master *c = m->checkpoint;
	const uint64_t next = (c->stored > m->cuts.last ? c->stored : m->cuts.last) + 1;

	return next > c->begun ? next : c->begun + 1;
}

/* What is dealt and not with any worker. */
static enum tw_status list_closed(struct master *m, struct tw_spans *out)
{
	enum tw_status st = tw_spans_copy(out, &m->dealing.taken);

	for (uint32_t k = 0; k < m->plan->crew.workers; k++)
		for (uint32_t i = 0; i < m->member[k].held.count && st == TW_OK; i++)
			st = tw_spans_remove(out, m->member[k].held.lease[i].from,
					     m->member[k].held.lease[i].to);
	return st;
}

void tw_checkpoint_master_begin(struct master *m, struct tw_context *ctx)
{
	struct checkpoint_making *c = &m->checkpoint->now;

	tw_checkpoint_master_abort(m);
	if (m->phase != PHASE_RUN)
		m->checkpoint->final = tw_deal_exhausted(m);
	c->number = next_number(m);
	c->running = m->phase == PHASE_RUN;
	c->asked = as_of_now(m);
	c->passed = tw_deal_passed(m);
	m->cuts.owed = m->plan->problem.shards;
	tw_wish_put(m, TW_WISH_CHECKPOINT, false);
	m->since = tw_now(ctx);
	if (list_closed(m, &c->closed) != TW_OK) {
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for a checkpoint");
		return;
	}
	if (!c->running)
		m->phase = PHASE_SNAP;
	tw_master_owes_part(m);
	ask_for_parts(m, ctx);
	for (uint32_t k = 0; k < m->plan->crew.workers; k++)
		tw_checkpoint_master_ask_worker(m, ctx, k);
}

/* --- parts that come -------------------------------------------------------------------------- */

/* Who sends this is the worker that it names, or a cell of it. */
static void worker_part(struct master *m, const struct tw_msg *msg)
{
	struct checkpoint_making *c = &m->checkpoint->now;
	const uint32_t slot = msg->h.from;
	uint32_t cell = 0;
	bool was;

	if (!c->cell || slot >= m->plan->crew.workers ||
	    m->member[slot].incarnation != msg->h.incarnation ||
	    !tw_master_is_of(m, msg->from.node, slot))
		return;
	if (tw_plan_is_staged(m->plan))
		cell = tw_cell_number(m, tw_cell_on(m, msg->from.node));
	was = is_whole(m, slot);
	keep(&c->cell[tw_checkpoint_place(m, slot, cell)], msg->payload);
	c->whole += m->member[slot].live && !was && is_whole(m, slot);
}

static void shard_part(struct master *m, const struct tw_msg *msg)
{
	struct checkpoint_making *c = &m->checkpoint->now;
	const uint64_t round = msg->b.part.round;
	const uint32_t s = msg->h.shard;

	if (m->shard[s].node != msg->from.node || m->checkpoint->stored == c->number ||
	    s < c->written + c->writing || s >= c->asked_for)
		return;
	if (tw_master_rounds(m) && round > c->asked.round) { /* (3) */
		tw_checkpoint_master_abort(m);
		tw_wish_put(m, TW_WISH_CHECKPOINT, true);
	} else if (!tw_master_rounds(m) || round == c->asked.round) {
		m->cuts.owed -= !has_part(m, s);
		keep(&c->shard[s], msg->payload);
	} /* else a COMMIT was lost on the way there: it is sent again, and this, too */
}

/* Can it be read, by whoever is restored from it? */
static bool is_part(const struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	struct tw_array *list;
	enum tw_status st;
	size_t count;

	if (!msg->payload)
		return false;
	st = tw_part_unpack(tw_msg_payload(msg), msg->h.payload, m->heap, &list, &count);
	if (st == TW_OK)
		m->heap->put(m->heap, list);
	else if (st == TW_NO_MEMORY)
		tw_give_up(ctx, st, "no memory for a part of a checkpoint");
	return st == TW_OK;
}

void tw_checkpoint_save_hear(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	if (!msg->b.part.cut || m->checkpoint->now.number != msg->b.part.cut ||
	    !is_part(m, ctx, msg))
		return;
	if (msg->from.role == TW_WORKER)
		worker_part(m, msg);
	else if (msg->from.role == TW_SHARD)
		shard_part(m, msg);
	if (m->checkpoint->now.running)
		tw_checkpoint_master_check(m, ctx);
}

void tw_checkpoint_save_joined(struct master *m, struct tw_context *ctx, uint32_t slot)
{
	m->checkpoint->now.whole += is_whole(m, slot);
	tw_checkpoint_master_ask_worker(m, ctx, slot);
	tw_master_owes_part(m);
}

/* (6) If only some of its cells are here, the next worker in its place has its own. */
void tw_checkpoint_save_lost(struct master *m, uint32_t slot)
{
	if (is_whole(m, slot))
		m->checkpoint->now.whole--;
	else
		drop_worker(m, slot);
}

/* --- completing it ---------------------------------------------------------------------------- */

/* (4): the next part in order goes to the store, if it is here. */
static void put_part(struct master *m, struct tw_context *ctx)
{
	struct checkpoint_making *c = &m->checkpoint->now;
	struct tw_part part = { .bytes = NULL };

	if (c->writing || c->written == m->plan->problem.shards || !c->shard[c->written])
		return;
	part.bytes = c->shard[c->written];
	snprintf(part.name, sizeof part.name, "shard %u", c->written);
	c->writing = true;
	m->checkpoint->begun = c->number;
	ctx->world->put(ctx, c->number, &part);
	drop(&c->shard[c->written]);
}

/* A checkpoint that drains pauses everybody.  Where nothing was finished since the one before, the
 * next one comes later, or the run would never end. */
static void stretch(struct master *m, struct tw_context *ctx)
{
	struct checkpoint_master *c = m->checkpoint;
	const uint64_t closed = tw_spans_total(&c->now.closed);
	const int64_t pause = m->restart.release - m->cuts.draining;
	const int64_t period = tw_checkpoint_save_period(m);
	const bool idle = c->closed_before == closed && !m->cuts.was_paused;

	c->closed_before = closed;
	m->cuts.was_paused = m->waits.paused;
	if (!m->plan->checkpoint.every || !idle || tw_deal_exhausted(m))
		return;
	c->period = pause > 2 * period ? pause : 2 * period;
	tw_say(ctx, TW_WARNING,
	       "checkpoints leave no time to train: one takes %.3g s, and no work was finished in "
	       "the %.3g s before it; the next checkpoint follows after %.3g s (checkpoint.every "
	       "is %.3g s)",
	       (double)pause / 1e9, (double)period / 1e9, (double)c->period / 1e9,
	       (double)m->plan->checkpoint.every / 1e9);
}

static struct tw_block *master_part(struct master *m, struct tw_context *ctx)
{
	const struct checkpoint_making *c = &m->checkpoint->now;
	const bool earlier = c->running && tw_master_rounds(m); /* (3) */
	struct tw_master_part x = earlier ? c->asked : as_of_now(m);
	struct tw_span *closed = tw_spans_list(&c->closed);
	size_t speed_bytes;
	void *speeds = tw_speeds_list(m, &speed_bytes);
	const struct tw_array passed = tw_orphans_pack(m, &c->passed);
	struct tw_array list[4 + TW_DUTIES] = {
		{ .name = "master", .n = sizeof x, .kind = TW_BYTES, .at = &x },
		{ .name = "closed",
		  .n = c->closed.count * sizeof *closed,
		  .kind = TW_BYTES,
		  .at = closed },
		{ .name = "speeds", .n = speed_bytes, .kind = TW_BYTES, .at = speeds },
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
	if (!c->running) {
		m->restart.release = x.release;
		stretch(m, ctx);
	}
	x.period = m->checkpoint->period;
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

	if (!is_whole(m, slot))
		return 0;
	for (uint32_t c = 0; c < cells; c++) {
		if (tw_plan_is_staged(m->plan))
			snprintf(out[c].name, sizeof out->name, "worker %u.%u", slot, c);
		else
			snprintf(out[c].name, sizeof out->name, "worker %u", slot);
		out[c].bytes = m->checkpoint->now.cell[tw_checkpoint_place(m, slot, c)];
	}
	return cells;
}

static void save(struct master *m, struct tw_context *ctx)
{
	const struct checkpoint_making *c = &m->checkpoint->now;
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
	for (uint32_t s = 0; s < m->plan->problem.shards; s++) /* these were put before */
		snprintf(parts[count++].name, sizeof parts[0].name, "shard %u", s);
	for (uint32_t k = 0; k < m->plan->crew.workers; k++)
		count += list_worker(m, k, &parts[count]);
	if (!c->running)
		m->phase = PHASE_SAVE;
	m->checkpoint->stored = c->number;
	ctx->world->save(ctx, c->number, parts, count);
	tw_block_drop(parts[0].bytes);
	m->heap->put(m->heap, parts);
}

void tw_checkpoint_master_check(struct master *m, struct tw_context *ctx)
{
	const struct checkpoint_making *c = &m->checkpoint->now;

	if (!c->number || m->checkpoint->stored == c->number)
		return;
	put_part(m, ctx);
	if (tw_plan_worker_keeps(m->plan) && c->whole < tw_master_live(m))
		return;
	if (c->written == m->plan->problem.shards)
		save(m, ctx);
}

/* --- what follows ----------------------------------------------------------------------------- */

int64_t tw_checkpoint_save_period(const struct master *m)
{
	const int64_t every = m->plan->checkpoint.every;

	return m->checkpoint->period > every ? m->checkpoint->period : every;
}

static bool is_to_stop(const struct master *m)
{
	const uint32_t after = m->plan->checkpoint.stop_after;

	return tw_wishes(m, TW_WISH_STOP) || (after && m->checkpoint->made + 1 >= after);
}

static void tell(struct master *m, struct tw_context *ctx, uint64_t cut, enum tw_status status)
{
	const uint64_t closed = tw_spans_total(&m->checkpoint->now.closed);

	if (status != TW_OK) {
		tw_say(ctx, TW_WARNING, "checkpoint %llu could not be written: %s",
		       (unsigned long long)cut, tw_status_name(status));
		return;
	}
	m->cuts.last = cut;
	m->checkpoint->made++;
	tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_CUT,
					.cut = { .number = cut, .closed = closed } });
}

/* The run stops at this one: what there is is counted. */
static void stop_here(struct master *m, struct tw_context *ctx, enum tw_status status)
{
	tw_finish_master_interrupted(m);
	if (status == TW_OK)
		tw_finish_master_count(m, ctx);
	else
		tw_finish_master_end(m, ctx, TW_IO);
}

/* (2) A generation begins with what was saved; a server that leaves is not part of it. */
static void go_on(struct master *m, struct tw_context *ctx, enum tw_status status)
{
	tw_master_new_generation(m, ctx);
	tw_deal_forget(m, ctx);
	m->phase = PHASE_GATHER;
	m->since = tw_now(ctx);
	if (!(tw_phase_wishes(m) & TW_WISH_MOVE))
		return;
	m->restart.move = status == TW_OK ? MOVE_DUE : MOVE_PUT_OFF;
	if (status != TW_OK)
		tw_timer(ctx, TIMER_MOVE, MOVE_AGAIN);
}

void tw_checkpoint_master_saved(struct master *m, struct tw_context *ctx, uint64_t cut,
				enum tw_status status)
{
	struct checkpoint_making *c = &m->checkpoint->now;
	const bool drained = m->phase == PHASE_SAVE || m->phase == PHASE_SNAP;
	const bool stop = is_to_stop(m);

	if (cut != c->number)
		return;
	if (c->writing && status == TW_OK) {
		c->writing = false;
		c->written++;
		ask_for_parts(m, ctx);
		tw_checkpoint_master_check(m, ctx);
		return;
	}
	tw_checkpoint_master_abort(m);
	tell(m, ctx, cut, status);
	if (stop && drained && (!m->checkpoint->final || tw_wishes(m, TW_WISH_STOP))) {
		stop_here(m, ctx, status);
		return;
	}
	if (stop && !drained && status == TW_OK) {
		tw_wish_put(m, TW_WISH_STOP, true); /* stop at a drained one of its own */
		return;
	}
	if (m->plan->checkpoint.every)
		tw_timer(ctx, TIMER_CUT, tw_checkpoint_save_period(m));
	if (!drained)
		return;
	if (m->checkpoint->final)
		tw_finish_master_count(m, ctx);
	else
		go_on(m, ctx, status);
}
