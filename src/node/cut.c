/* SPDX-License-Identifier: Apache-2.0 */
/* cut.c - cuts: what is saved, and how shards are taken from it again.
 *
 *  (1) a cut is the parts of all shards, of the workers that keep state, and of the master, under
 *      one number; the store keeps all of them or none.
 *  (2) a cut that drains has no lease open and nothing collected: what is applied is what is dealt.
 *      One that does not drain says for each shard what it has applied, and what the master knew to
 *      be done when it asked; the rest is dealt again.
 *  (3) parts are named by parameter range, so that other numbers of shards and workers can load
 *      them. */
#include "node/master.h"

#include <stdio.h>
#include <string.h>

#define MOVE_AGAIN (5 * TW_SECOND) /* after a cut for a server that leaves could not be written */

/* --- hosting -------------------------------------------------------------------------------- */

static uint32_t load_of(const struct master *m, uint32_t node)
{
	uint32_t load = 0;

	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		load += m->shard[s].place != SHARD_HOMELESS && m->shard[s].node == node;
	return load;
}

/* One that leaves is taken only if there is no other. */
static bool better(const struct master *m, uint32_t node, uint32_t than)
{
	const enum server_state state = m->server[node - 1].state;

	if (state != m->server[than - 1].state)
		return state == SERVER_HERE;
	return load_of(m, node) < load_of(m, than);
}

/* Choose a server for every shard that has none, and fetch the newest cut. */
void tw_cut_assign(struct master *m, struct tw_context *ctx)
{
	bool pending = false;

	for (uint32_t s = 0; s < m->plan->problem.shards; s++) {
		struct shard_info *i = &m->shard[s];
		uint32_t best = 0;

		if (i->place >= SHARD_ASSIGNED)
			continue;
		for (uint32_t k = 0; k < m->plan->crew.servers; k++)
			if (m->server[k].state != SERVER_AWAY && (!best || better(m, k + 1, best)))
				best = k + 1;
		if (!best)
			return;
		i->node = best;
		i->place = SHARD_PENDING;
		pending = true;
	}
	if (!pending)
		return;
	m->restart.loading = true;
	ctx->world->load(ctx);
}

void tw_cut_host(struct master *m, struct tw_context *ctx, uint32_t shard)
{
	struct shard_info *i = &m->shard[shard];
	const struct tw_addr to = { i->node, TW_SERVER, 0 };
	struct tw_msg *msg = tw_msg_to(ctx, to, TW_HOST);

	if (!msg)
		return;
	msg->h.view = m->restart.generation;
	msg->h.incarnation = ctx->boot;
	msg->h.shard = shard;
	/* a generation of ours that has not begun */
	if (m->restart.current != m->restart.generation && m->restart.generation >> 32 == ctx->boot)
		msg->h.flags = TW_FLAG_FRESH;
	msg->b.host = (struct tw_body_host){ .shard = shard,
					     .incarnation = i->incarnation,
					     .cut = i->host_cut,
					     .live = tw_master_live(m) };
	if (i->host) {
		msg->payload = tw_block_keep(i->host);
		msg->h.payload = (uint32_t)i->host->bytes;
	}
	tw_send(ctx, msg);
}

/* One shard part of a cut, unpacked. */
struct source {
	struct tw_array *list;
	size_t count;
};

static void release_sources(struct master *m, struct source *src, size_t count)
{
	for (size_t k = 0; src && k < count; k++)
		m->heap->put(m->heap, src[k].list);
	m->heap->put(m->heap, src);
}

static bool starts_with(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

/* Floats [from, from + n) of the array `name`, from whichever parts hold them. */
static enum tw_status collect_floats(const struct source *src, size_t count, const char *name,
				     uint64_t from, uint64_t n, float *out)
{
	uint64_t covered = 0;

	for (size_t k = 0; k < count; k++) {
		const struct tw_array *a = tw_part_find(src[k].list, src[k].count, name);
		uint64_t low, high;

		if (!a || a->kind != TW_FLOATS)
			continue;
		low = a->from > from ? a->from : from;
		high = a->from + a->n < from + n ? a->from + a->n : from + n;
		if (low >= high)
			continue;
		memcpy(out + (low - from), (const float *)a->at + (low - a->from),
		       (high - low) * sizeof(float));
		covered += high - low;
	}
	return covered == n ? TW_OK : TW_BAD_BYTES;
}

static enum tw_status read_spans(struct tw_spans *to, const struct source *src, const char *name)
{
	const struct tw_array *a = tw_part_find(src->list, src->count, name);
	enum tw_status st = TW_OK;

	if (!a || a->n % sizeof(struct tw_span))
		return TW_BAD_BYTES;
	for (size_t k = 0; k < a->n / sizeof(struct tw_span) && st == TW_OK; k++) {
		struct tw_span one;

		memcpy(&one, (const uint8_t *)a->at + k * sizeof one, sizeof one);
		st = one.from < one.to ? tw_spans_add(to, one.from, one.to, NULL) : TW_BAD_BYTES;
	}
	return st;
}

/* What all shards of the cut have applied: what a shard cut another way may rely on. */
static enum tw_status common_spans(struct master *m, const struct source *src, size_t count,
				   struct tw_spans *applied, struct tw_spans *twice)
{
	enum tw_status st = TW_OK;

	for (size_t k = 0; k < count && st == TW_OK; k++) {
		struct tw_spans one;

		tw_spans_init(&one, m->heap);
		st = read_spans(&one, &src[k], "applied");
		if (st == TW_OK)
			st = k ? tw_spans_intersect(applied, &one) : tw_spans_copy(applied, &one);
		tw_spans_clear(&one);
		if (st == TW_OK)
			st = read_spans(&one, &src[k], "twice");
		if (st == TW_OK)
			st = tw_spans_unite(twice, &one);
		tw_spans_release(&one);
	}
	return st;
}

/* The part that covers most of [from, from + n); *exact if it covers just that. */
static const struct source *nearest(const struct source *src, size_t count, uint64_t from,
				    uint64_t n, bool *exact)
{
	const struct source *best = &src[0];
	uint64_t most = 0;

	*exact = false;
	for (size_t k = 0; k < count; k++) {
		const struct tw_array *a = tw_part_find(src[k].list, src[k].count, "parameters");
		uint64_t low, high;

		if (!a)
			continue;
		low = a->from > from ? a->from : from;
		high = a->from + a->n < from + n ? a->from + a->n : from + n;
		if (low < high && high - low > most) {
			most = high - low;
			best = &src[k];
			*exact = a->from == from && a->n == n;
		}
	}
	return best;
}

/* A part for shard s from parts that were cut at other borders, or by other workers. */
static enum tw_status assemble(struct master *m, const struct source *src, size_t count, uint32_t s,
			       bool other_workers, struct tw_block **out)
{
	const struct tw_plan *p = m->plan;
	const uint64_t from = p->problem.border[s], n = p->problem.border[s + 1] - from;
	bool exact;
	const struct source *first = nearest(src, count, from, n, &exact);
	struct tw_array *list = tw_heap_zeros(m->heap, first->count * sizeof *list);
	float *floats = m->heap->get(m->heap, first->count * n * sizeof(float) + 1);
	struct tw_spans applied, twice;
	struct tw_span *once_list = NULL, *twice_list = NULL;
	enum tw_status st = list && floats ? TW_OK : TW_NO_MEMORY;
	size_t used = 0;

	tw_spans_init(&applied, m->heap);
	tw_spans_init(&twice, m->heap);
	if (st == TW_OK && !exact) {
		st = common_spans(m, src, count, &applied, &twice);
		once_list = tw_spans_list(&applied);
		twice_list = tw_spans_list(&twice);
		if (st == TW_OK && (!once_list || !twice_list))
			st = TW_NO_MEMORY;
	}
	for (size_t k = 0; k < first->count && st == TW_OK; k++) {
		const struct tw_array *a = &first->list[k];
		struct tw_array *to = &list[used];

		if (other_workers && starts_with(a->name, "worker."))
			continue;
		*to = *a;
		if (a->kind == TW_FLOATS) {
			to->from = from;
			to->n = n;
			to->at = floats + used * n;
			st = collect_floats(src, count, a->name, from, n, floats + used * n);
			/* the sum of velocities that belong to nobody any more */
			if (other_workers && (p->far.rule->traits & TW_RULE_PER_WORKER) &&
			    starts_with(a->name, "rule."))
				memset(floats + used * n, 0, n * sizeof(float));
		} else if (!exact && strcmp(a->name, "applied") == 0) {
			to->at = once_list;
			to->n = applied.count * sizeof *once_list;
		} else if (!exact && strcmp(a->name, "twice") == 0) {
			to->at = twice_list;
			to->n = twice.count * sizeof *twice_list;
		}
		used++;
	}
	if (st == TW_OK) {
		*out = tw_part_pack(m->heap, list, used);
		st = *out ? TW_OK : TW_NO_MEMORY;
	}
	tw_spans_release(&applied);
	tw_spans_release(&twice);
	m->heap->put(m->heap, once_list);
	m->heap->put(m->heap, twice_list);
	m->heap->put(m->heap, list);
	m->heap->put(m->heap, floats);
	return st;
}

static enum tw_status unpack_sources(struct master *m, const struct tw_part *parts, size_t count,
				     struct source *src, size_t *shards)
{
	*shards = 0;
	for (size_t k = 0; k < count; k++) {
		struct source *one = &src[*shards];
		enum tw_status st;

		if (!starts_with(parts[k].name, "shard "))
			continue;
		st = tw_part_unpack(parts[k].bytes->data, parts[k].bytes->bytes, m->heap,
				    &one->list, &one->count);
		if (st != TW_OK)
			return st;
		(*shards)++;
	}
	return *shards ? TW_OK : TW_BAD_BYTES;
}

static enum tw_status restore_master(struct master *m, const struct tw_part *parts, size_t count,
				     const struct tw_master_part *x)
{
	enum tw_status st = TW_BAD_BYTES;

	tw_spans_clear(&m->dealing.taken);
	for (size_t k = 0; k < count; k++) {
		struct source one;

		if (strcmp(parts[k].name, "master") != 0)
			continue;
		st = tw_part_unpack(parts[k].bytes->data, parts[k].bytes->bytes, m->heap, &one.list,
				    &one.count);
		if (st != TW_OK)
			return st;
		st = read_spans(&m->dealing.taken, &one, "closed");
		m->heap->put(m->heap, one.list);
	}
	m->rounds.number = x->round;
	m->count.dropped = x->dropped;
	m->scores.evaluated_at = x->evaluated_at;
	m->cuts.period = x->period;
	if (!m->restart.begun) {
		m->count.redealt = x->redealt;
		m->count.refused = x->refused;
		if (m->restart.resume)
			m->restart.release = x->release;
	}
	m->dealing.frontier = tw_spans_end(&m->dealing.taken);
	m->cuts.closed_before = tw_spans_total(&m->dealing.taken);
	return st;
}

/* Those who came before their part was read are welcomed once more, as somebody new. */
static void restore_workers(struct master *m, struct tw_context *ctx, const struct tw_part *parts,
			    size_t count)
{
	for (size_t k = 0; k < count; k++) {
		unsigned slot;

		if (sscanf(parts[k].name, "worker %u", &slot) != 1 || slot >= m->plan->crew.workers)
			continue;
		tw_block_drop(m->member[slot].restore);
		m->member[slot].restore = tw_block_keep(parts[k].bytes);
		if (m->member[slot].live)
			tw_master_welcome_again(m, ctx, slot);
	}
}

static enum tw_status host_from(struct master *m, struct tw_context *ctx, uint64_t cut,
				const struct tw_part *parts, size_t count)
{
	struct tw_master_part x = { 0 };
	struct source *src = NULL;
	enum tw_status st = TW_OK;
	size_t shards = 0;
	bool adopted = false, other = false;
	uint64_t before = 0;

	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		adopted = adopted || m->shard[s].place == SHARD_ADOPTED;
	if (cut) {
		st = tw_master_part_read(parts, count, &x);
		src = tw_heap_zeros(m->heap, (count + 1) * sizeof *src);
		if (st == TW_OK)
			st = src ? unpack_sources(m, parts, count, src, &shards) : TW_NO_MEMORY;
		other = x.slots != m->plan->crew.workers;
		if (m->restart.rebuild && !adopted)
			tw_deal_forget(m, ctx);
		before = tw_spans_total(&m->dealing.taken);
		if (st == TW_OK && m->restart.rebuild && !adopted)
			st = restore_master(m, parts, count, &x);
		if (st == TW_OK && !m->restart.begun && !other && !adopted)
			restore_workers(m, ctx, parts, count);
		if (other && !m->restart.begun &&
		    (tw_plan_update(m->plan)->rule->traits & TW_RULE_PER_WORKER))
			tw_say(ctx, TW_WARNING,
			       "the checkpoint is of %u workers, not %u: "
			       "their velocities start at 0",
			       x.slots, m->plan->crew.workers);
	} else if (m->restart.rebuild && !adopted) {
		tw_deal_forget(m, ctx);
		before = tw_spans_total(&m->dealing.taken);
		tw_spans_clear(&m->dealing.taken);
		m->rounds.number = m->dealing.frontier = m->count.dropped = m->scores.evaluated_at =
			0;
	}
	if (m->restart.begun && m->restart.rebuild && !adopted &&
	    before > tw_spans_total(&m->dealing.taken))
		m->count.redealt += before - tw_spans_total(&m->dealing.taken);
	if (m->restart.rebuild && !adopted)
		m->restart.generation = 0;
	if (!m->restart.generation)
		tw_master_new_generation(m, ctx);
	for (uint32_t s = 0; s < m->plan->problem.shards && st == TW_OK; s++) {
		struct shard_info *i = &m->shard[s];

		if (i->place != SHARD_PENDING)
			continue;
		i->host_cut = cut;
		if (cut)
			st = assemble(m, src, shards, s, other, &i->host);
		i->place = SHARD_ASSIGNED;
		i->incarnation = tw_master_new_incarnation(m, ctx);
	}
	release_sources(m, src, shards);
	return st;
}

/* A newer cut, given to the store before we went back, may be complete by now: in rounds all shards
 * are taken from the same one. */
static void take_all_from(struct master *m, uint64_t cut)
{
	for (uint32_t s = 0; s < m->plan->problem.shards; s++) {
		struct shard_info *i = &m->shard[s];

		if ((i->place != SHARD_HOSTED && i->place != SHARD_ASSIGNED) || i->host_cut == cut)
			continue;
		i->place = SHARD_PENDING;
		tw_block_drop(i->host);
		i->host = NULL;
	}
}

void tw_cut_loaded(struct master *m, struct tw_context *ctx, uint64_t cut,
		   const struct tw_part *parts, size_t count, enum tw_status status)
{
	const bool first = !m->restart.looked;
	bool pending = false;

	m->restart.loading = false;
	m->restart.looked = true;
	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		pending = pending || m->shard[s].place == SHARD_PENDING;
	if (status == TW_OK && first && cut) { /* what an earlier master counted */
		struct tw_master_part x;

		if (tw_master_part_read(parts, count, &x) == TW_OK) {
			m->count.redealt = x.redealt;
			m->count.refused = x.refused;
			m->count.steps = x.steps; /* until the shards say what they have */
			m->count.samples = x.samples;
		}
	}
	if (status == TW_OK && first)
		m->cuts.last = cut;
	if (m->phase != PHASE_GATHER || (status == TW_OK && !pending))
		return;
	if (status == TW_OK && m->restart.moving && m->restart.begun && cut != m->cuts.last) {
		/* the one they were to move from is damaged: then all go back, or none */
		m->restart.moving = false;
		for (uint32_t s = 0; s < m->plan->problem.shards && tw_master_rounds(m); s++)
			if (m->shard[s].place == SHARD_PENDING)
				m->shard[s].place = SHARD_HOMELESS;
		if (tw_master_rounds(m))
			return;
	}
	if (status == TW_OK && tw_master_rounds(m) &&
	    (m->restart.rolling_back || !m->restart.begun))
		take_all_from(m, cut);
	if (status == TW_OK)
		status = host_from(m, ctx, cut, parts, count);
	if (status != TW_OK) {
		tw_give_up(ctx, status, "checkpoint %llu cannot be used: %s",
			   (unsigned long long)cut, tw_status_name(status));
		return;
	}
	m->cuts.last = cut;
	if ((m->restart.begun || ctx->boot > 1) &&
	    !m->restart.moving) /* a master before us may have trained */
		tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_ROLLBACK,
						.seq = cut,
						.count = m->restart.rolling_back });
	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		if (m->shard[s].place == SHARD_ASSIGNED)
			tw_cut_host(m, ctx, s);
}

/* --- making a cut ----------------------------------------------------------------------------- */

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
	}
	m->cuts.making = 0;
	m->cuts.parts_here = 0;
	m->cuts.running = false;
}

static void send_snap(struct master *m, struct tw_context *ctx, struct tw_msg *msg)
{
	if (!msg)
		return;
	msg->b.snap = (struct tw_body_snap){ m->cuts.making, !m->cuts.running, 1 };
	tw_send(ctx, msg);
}

void tw_cut_snap_shard(struct master *m, struct tw_context *ctx, uint32_t shard)
{
	if (m->cuts.making && m->phase != PHASE_SAVE && !m->shard[shard].part)
		send_snap(m, ctx, tw_master_to_shard(m, ctx, shard, TW_SNAP));
}

void tw_cut_snap_worker(struct master *m, struct tw_context *ctx, uint32_t slot)
{
	if (m->cuts.making && m->phase != PHASE_SAVE && tw_cut_workers_keep_state(m) &&
	    m->member[slot].live && !m->member[slot].part)
		send_snap(m, ctx, tw_master_to_worker(m, ctx, slot, TW_SNAP));
}

void tw_cut_snap(struct master *m, struct tw_context *ctx)
{
	enum tw_status st;

	tw_cut_abort(m);
	/* one that was let go while the store wrote it keeps its number: what the store says of it
	 * must not be taken for this one's, and it may become complete */
	m->cuts.making = (m->cuts.stored > m->cuts.last ? m->cuts.stored : m->cuts.last) + 1;
	m->cuts.running = m->phase == PHASE_RUN;
	m->wish.cut = false;
	m->since = tw_now(ctx);
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
	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		tw_cut_snap_shard(m, ctx, s);
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
	       "checkpoints leave no time to train: one takes %.3g s, and nothing was finished in "
	       "the %.3g s before it; the next one follows after %.3g s (checkpoint.every is %.3g "
	       "s)",
	       (double)pause / 1e9, (double)period / 1e9, (double)m->cuts.period / 1e9,
	       (double)m->plan->checkpoint.every / 1e9);
}

static struct tw_block *master_part(struct master *m, struct tw_context *ctx)
{
	struct tw_master_part x = { .cut = m->cuts.making,
				    .round = m->rounds.number,
				    .generation = m->restart.generation,
				    .release = tw_now(ctx) + m->plan->checkpoint.save_time +
					       TW_SECOND / 10,
				    .steps = m->count.steps,
				    .samples = m->count.samples,
				    .redealt = m->count.redealt,
				    .dropped = m->count.dropped,
				    .refused = m->count.refused,
				    .evaluated_at = m->scores.evaluated_at,
				    .workers = tw_master_live(m),
				    .shards = m->plan->problem.shards,
				    .slots = m->plan->crew.workers,
				    .servers = m->plan->crew.servers };
	struct tw_span *closed = tw_spans_list(&m->cuts.closed);
	const struct tw_array list[2] = {
		{ .name = "master", .n = sizeof x, .kind = TW_BYTES, .at = &x },
		{ .name = "closed",
		  .n = m->cuts.closed.count * sizeof *closed,
		  .kind = TW_BYTES,
		  .at = closed },
	};
	struct tw_block *part = NULL;

	if (!m->cuts.running) {
		m->restart.release = x.release;
		stretch(m, ctx);
	}
	x.period = m->cuts.period;
	if (closed)
		part = tw_part_pack(m->heap, list, 2);
	m->heap->put(m->heap, closed);
	return part;
}

static void save(struct master *m, struct tw_context *ctx)
{
	const size_t most = 1 + m->plan->problem.shards + m->plan->crew.workers;
	struct tw_part *parts = tw_heap_zeros(m->heap, most * sizeof *parts);
	size_t count = 0;

	if (!parts || !(parts[0].bytes = master_part(m, ctx))) {
		m->heap->put(m->heap, parts);
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for a checkpoint");
		return;
	}
	snprintf(parts[count++].name, sizeof parts[0].name, "master");
	for (uint32_t s = 0; s < m->plan->problem.shards; s++) {
		snprintf(parts[count].name, sizeof parts[0].name, "shard %u", s);
		parts[count++].bytes = m->shard[s].part;
	}
	for (uint32_t k = 0; k < m->plan->crew.workers; k++)
		if (m->member[k].part) {
			snprintf(parts[count].name, sizeof parts[0].name, "worker %u", k);
			parts[count++].bytes = m->member[k].part;
		}
	if (!m->cuts.running)
		m->phase = PHASE_SAVE;
	m->cuts.stored = m->cuts.making;
	ctx->world->save(ctx, m->cuts.making, parts, count);
	tw_block_drop(parts[0].bytes);
	m->heap->put(m->heap, parts);
}

void tw_cut_check(struct master *m, struct tw_context *ctx)
{
	if (!m->cuts.making || m->phase == PHASE_SAVE)
		return;
	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		if (!m->shard[s].part)
			return;
	if (tw_cut_workers_keep_state(m) && m->cuts.parts_here < tw_master_live(m))
		return;
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

void tw_cut_part(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	const uint32_t s = msg->h.shard;

	if (msg->h.view != m->restart.generation || !msg->payload)
		return;
	if (msg->from.role == TW_WORKER) {
		if (m->cuts.making && m->cuts.making == msg->b.part.cut &&
		    msg->h.from < m->plan->crew.workers &&
		    m->member[msg->h.from].incarnation == msg->h.incarnation &&
		    m->member[msg->h.from].node == msg->from.node)
			keep_of_worker(m, msg->h.from, msg->payload);
	} else if (s >= m->plan->problem.shards || m->shard[s].node != msg->from.node) {
		return;
	} else if (tw_master_rounds(m) && msg->b.part.round != m->rounds.number) {
		return; /* a COMMIT was lost on the way there: it is sent again, and this, too */
	} else if (msg->b.part.cut == 0) {
		if (msg->h.payload ==
		    (m->plan->problem.border[s + 1] - m->plan->problem.border[s]) * sizeof(float))
			keep(&m->shard[s].vector, msg->payload);
	} else if (m->cuts.making == msg->b.part.cut && m->phase != PHASE_SAVE) {
		keep(&m->shard[s].part, msg->payload);
	}
	if (m->cuts.running)
		tw_cut_check(m, ctx);
}

void tw_cut_saved(struct master *m, struct tw_context *ctx, uint64_t cut, enum tw_status status)
{
	const bool drained = m->phase == PHASE_SAVE;
	const bool stop = m->wish.stop || (m->plan->checkpoint.stop_after &&
					   m->cuts.made + 1 >= m->plan->checkpoint.stop_after);

	if (cut != m->cuts.making)
		return;
	tw_cut_abort(m);
	if (status != TW_OK) {
		tw_say(ctx, TW_WARNING, "checkpoint %llu could not be written: %s",
		       (unsigned long long)cut, tw_status_name(status));
	} else {
		m->cuts.last = cut;
		m->cuts.made++;
		tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_CUT,
						.seq = cut,
						.from = tw_spans_total(&m->cuts.closed) });
	}
	if (stop && drained && (!m->cuts.final || m->wish.stop)) {
		m->wish.stopping = true; /* count what there is, and go */
		if (status == TW_OK)
			tw_score_count(m, ctx);
		else
			tw_score_finish(m, ctx, TW_IO);
		return;
	}
	if (stop && !drained && status == TW_OK) {
		m->wish.stop = true; /* stop at a drained cut of its own */
		return;
	}
	if (m->plan->checkpoint.every)
		tw_timer(ctx, TIMER_CUT, tw_cut_period(m));
	if (!drained)
		return;
	if (m->cuts.final) {
		tw_score_count(m, ctx);
		return;
	}
	tw_master_new_generation(m, ctx);
	tw_deal_forget(m, ctx);
	m->phase = PHASE_GATHER;
	m->since = tw_now(ctx);
	if (!tw_master_must_move(m))
		return;
	if (status == TW_OK) {
		tw_master_move(m, ctx);
	} else {
		m->restart.move_off = true;
		tw_timer(ctx, TIMER_MOVE, MOVE_AGAIN);
	}
}
