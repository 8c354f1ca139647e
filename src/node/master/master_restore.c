/* SPDX-License-Identifier: Apache-2.0 */
/* master_restore.c - how shards, workers and the master are taken from a cut.
 *
 *  (1) parts are named by parameter range, so that other numbers of shards and workers can load
 *      them.
 *  (2) the heads of all parts are read at first, and with them as many parts of shards without a
 *      home as checkpoint.memory has room for.  The other parts are read when there is room again;
 *      until then the shard is ASSIGNED, and HOST is not sent.
 *  (3) a cut that was not drained says for each shard what it has applied, and what the master knew
 *      to be done when it asked; the rest is dealt again. */
#include "node/master/master.h"

#include <stdio.h>
#include <string.h>

static void count_loads(struct master *m)
{
	for (uint32_t k = 0; k < m->plan->crew.servers; k++)
		m->server[k].load = 0;
	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		if (m->shard[s].place != SHARD_HOMELESS &&
		    m->shard[s].node <= m->plan->crew.servers)
			m->server[m->shard[s].node - 1].load++;
}

/* One that leaves is taken only if there is no other. */
static bool better(const struct master *m, uint32_t node, uint32_t than)
{
	const enum server_state state = m->server[node - 1].state;

	if (state != m->server[than - 1].state)
		return state == SERVER_HERE;
	return m->server[node - 1].load < m->server[than - 1].load;
}

/* The cell that computes its stage holds the shard; who had it before lets it go. */
static void assign_to_cell(struct master *m, struct tw_context *ctx, uint32_t s)
{
	const struct cell_info *c = tw_cell_of_shard(m, s);
	struct shard_info *i = &m->shard[s];

	if (i->boot && i->node != c->node)
		tw_master_unhost(ctx, i->node, s, i->incarnation);
	i->node = c->node;
	i->boot = c->boot;
	tw_shard_put(m, i, SHARD_PENDING);
}

static void assign_to_cells(struct master *m, struct tw_context *ctx)
{
	bool pending = false;

	for (uint32_t s = 0; s < m->plan->problem.shards && tw_cell_of_shard(m, s); s++)
		if (m->shard[s].place < SHARD_ASSIGNED) {
			assign_to_cell(m, ctx, s);
			pending = true;
		}
	if (pending)
		tw_cut_load(m, ctx);
}

/* Choose a server for every shard that has none, and fetch the newest cut. */
void tw_cut_assign(struct master *m, struct tw_context *ctx)
{
	bool pending = false;

	if (tw_plan_is_with_stage(m->plan)) {
		assign_to_cells(m, ctx);
		return;
	}

	count_loads(m);
	for (uint32_t s = 0; s < m->plan->problem.shards; s++) {
		struct shard_info *i = &m->shard[s];
		uint32_t best = 0;

		if (i->place >= SHARD_ASSIGNED)
			continue;
		if (tw_master_has_replicas(m))
			best = tw_replicas_speaker(m);
		for (uint32_t k = 0; k < m->plan->crew.servers; k++)
			if (m->server[k].state != SERVER_AWAY && (!best || better(m, k + 1, best)))
				best = k + 1;
		if (!best)
			return;
		if (best <= m->plan->crew.servers)
			m->server[best - 1].load++;
		i->node = best;
		tw_shard_put(m, i, SHARD_PENDING);
		pending = true;
	}
	if (pending)
		tw_cut_load(m, ctx);
}

/* Is its part still to be read? (2) */
static bool is_unread(const struct shard_info *i)
{
	return i->place == SHARD_ASSIGNED && i->host_cut && !i->host;
}

static bool is_pending(const struct shard_info *i)
{
	return i->place == SHARD_PENDING;
}

/* The first shard whose part is wanted, and as many behind it as there is room for, up to the last
 * one that is; `least` of them in any case. */
static struct shard_range wanted(const struct master *m, bool (*is)(const struct shard_info *),
				 uint32_t least)
{
	const uint32_t shards = m->plan->problem.shards;
	struct shard_range r = { 0, 0 };
	uint64_t bytes = 0;

	for (uint32_t s = 0; s < shards; s++)
		bytes += m->shard[s].host ? m->shard[s].host->bytes : 0;
	while (r.from < shards && !is(&m->shard[r.from]))
		r.from++;
	r.to = r.from;
	for (uint32_t s = r.from; s < shards; s++) {
		bytes += tw_plan_part_bytes(m->plan, s);
		if (bytes > m->plan->checkpoint.memory && s - r.from >= least)
			break;
		if (is(&m->shard[s]))
			r.to = s + 1;
	}
	return r.from < r.to ? r : (struct shard_range){ 0, 0 };
}

static void look(struct master *m, struct tw_context *ctx, struct shard_range r)
{
	const size_t *border = m->plan->problem.border;

	ctx->world->look(ctx, border[r.from], border[r.to]);
}

void tw_cut_load(struct master *m, struct tw_context *ctx)
{
	m->restart.loading = true;
	m->restart.loads = wanted(m, is_pending, 0);
	look(m, ctx, m->restart.loads);
}

void tw_cut_read_next(struct master *m, struct tw_context *ctx)
{
	bool here = false;

	if (m->restart.reading.to || m->restart.loading)
		return;
	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		here = here || m->shard[s].host;
	m->restart.reading = wanted(m, is_unread, here ? 0 : 1);
	if (m->restart.reading.to)
		look(m, ctx, m->restart.reading);
}

struct tw_msg *tw_cut_host_message(struct master *m, struct tw_context *ctx, uint32_t shard,
				   uint32_t node)
{
	const struct tw_addr to = { node, TW_SERVER, 0 };
	struct tw_msg *msg = tw_msg_to(ctx, to, TW_HOST);

	if (!msg)
		return NULL;
	msg->h.view = m->restart.generation;
	msg->h.incarnation = ctx->boot;
	msg->h.shard = shard;
	/* a generation of ours that has not begun */
	if (m->restart.current != m->restart.generation && m->restart.generation >> 32 == ctx->boot)
		msg->h.flags = TW_FLAG_FRESH;
	msg->b.host = (struct tw_body_host){ .shard = shard,
					     .incarnation = m->shard[shard].incarnation,
					     .cut = m->shard[shard].host_cut,
					     .live = tw_master_live(m) };
	return msg;
}

void tw_cut_host(struct master *m, struct tw_context *ctx, uint32_t shard)
{
	const struct shard_info *i = &m->shard[shard];
	struct tw_msg *msg;

	if (is_unread(i))
		return;
	msg = tw_cut_host_message(m, ctx, shard, i->node);
	if (!msg)
		return;
	if (i->host) {
		msg->payload = tw_block_keep(i->host);
		msg->h.payload = (uint32_t)i->host->bytes;
	}
	tw_send(ctx, msg);
}

/* One shard part of a cut, unpacked; of a head, the floats are at NULL. */
struct source {
	struct tw_array *list;
	size_t count;
	struct tw_block *part; /* borrowed */
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

		if (!a || a->kind != TW_FLOATS || !a->at)
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

static size_t float_arrays(const struct source *s)
{
	size_t count = 0;

	for (size_t k = 0; k < s->count; k++)
		count += s->list[k].kind == TW_FLOATS;
	return count;
}

/* A part for shard s from parts that were cut at other borders, or by other workers. */
static enum tw_status assemble(struct master *m, const struct source *src, size_t count, uint32_t s,
			       bool other_workers, struct tw_block **out)
{
	const struct tw_plan *p = m->plan;
	const uint64_t from = p->problem.border[s], n = p->problem.border[s + 1] - from;
	bool exact;
	const struct source *first = nearest(src, count, from, n, &exact);
	struct tw_array *list;
	float *floats, *room;
	struct tw_spans applied, twice;
	struct tw_span *once_list = NULL, *twice_list = NULL;
	enum tw_status st;
	size_t used = 0;

	if (exact && !other_workers) {
		*out = tw_block_keep(first->part);
		return TW_OK;
	}
	list = tw_heap_zeros(m->heap, first->count * sizeof *list);
	floats = room = m->heap->get(m->heap, float_arrays(first) * n * sizeof(float) + 1);
	st = list && floats ? TW_OK : TW_NO_MEMORY;
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
			to->at = room;
			st = collect_floats(src, count, a->name, from, n, room);
			/* the sum of velocities that belong to nobody any more */
			if (other_workers && (p->far.rule->traits & TW_RULE_PER_WORKER) &&
			    starts_with(a->name, "rule."))
				memset(room, 0, n * sizeof(float));
			room += n;
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
		st = tw_part_unpack_head(parts[k].bytes->data, parts[k].bytes->bytes, m->heap,
					 &one->list, &one->count);
		if (st != TW_OK)
			return st;
		one->part = parts[k].bytes;
		(*shards)++;
	}
	return *shards ? TW_OK : TW_BAD_BYTES;
}

static enum tw_status restore_master(struct master *m, const struct tw_part *parts, size_t count,
				     const struct tw_master_part *x)
{
	enum tw_status st = TW_BAD_BYTES;

	tw_spans_clear(&m->dealing.taken);
	tw_orphans_restart(m);
	for (size_t k = 0; k < count; k++) {
		const struct tw_array *speeds;
		struct source one;

		if (strcmp(parts[k].name, "master") != 0)
			continue;
		st = tw_part_unpack(parts[k].bytes->data, parts[k].bytes->bytes, m->heap, &one.list,
				    &one.count);
		if (st != TW_OK)
			return st;
		st = read_spans(&m->dealing.taken, &one, "closed");
		speeds = tw_part_find(one.list, one.count, "speeds");
		if (speeds && !m->restart.begun)
			tw_speeds_restore(m, speeds->at, speeds->n);
		if (st == TW_OK)
			st = tw_duties_restore(&m->duties, x, one.list, one.count);
		tw_orphans_restore(m, tw_part_find(one.list, one.count, TW_PASSED_PART));
		m->heap->put(m->heap, one.list);
	}
	m->rounds.number = x->round;
	m->count.dropped = x->dropped;
	m->count.refused = x->refused;
	m->cuts.period = x->period;
	if (!m->restart.begun) {
		m->count.redealt = x->redealt;
		m->count.lost_copies = x->lost_copies;
		if (m->restart.resume)
			m->restart.release = x->release;
	}
	m->dealing.frontier = tw_spans_total(&m->dealing.taken);
	m->cuts.closed_before = tw_spans_total(&m->dealing.taken);
	return st;
}

/* Keep the part of a cell; true: all those of its worker are here. */
static bool take_cell_part(struct master *m, const struct tw_part *part, uint32_t slot,
			   uint32_t cell)
{
	bool all = true;

	tw_block_drop(tw_cell_at(m, slot, cell)->restore);
	tw_cell_at(m, slot, cell)->restore = tw_block_keep(part->bytes);
	for (uint32_t k = 0; k < tw_plan_cells(m->plan); k++)
		all = all && tw_cell_at(m, slot, k)->restore;
	return all;
}

/* Is it the part of a worker, or the last one of its cells? */
static bool take_kept(struct master *m, const struct tw_part *part, uint32_t *slot)
{
	const bool staged = tw_plan_is_staged(m->plan);
	unsigned cell = 0;

	if (sscanf(part->name, "worker %u.%u", slot, &cell) != 1 + staged ||
	    *slot >= m->plan->crew.workers || cell >= tw_plan_cells(m->plan))
		return false;
	return !staged || take_cell_part(m, part, *slot, cell);
}

/* Those who came before their part was read are welcomed once more, as somebody new.  Where workers
 * go back with the shards, those without a part are, too: they begin blank. */
static void restore_workers(struct master *m, struct tw_context *ctx, const struct tw_part *parts,
			    size_t count)
{
	const bool all = tw_plan_worker_goes_back(m->plan);

	for (uint32_t k = 0; all && k < m->plan->crew.workers; k++) {
		tw_block_drop(m->member[k].restore);
		m->member[k].restore = NULL;
		tw_cells_forget_restore(m, k);
	}
	for (size_t k = 0; k < count; k++) {
		uint32_t slot;

		if (!take_kept(m, &parts[k], &slot))
			continue;
		tw_block_drop(m->member[slot].restore);
		m->member[slot].restore = tw_block_keep(parts[k].bytes);
		if (m->member[slot].live)
			tw_master_welcome_again(m, ctx, slot);
	}
	for (uint32_t k = 0; all && k < m->plan->crew.workers; k++)
		if (m->member[k].live && !m->member[k].restore)
			tw_master_welcome_again(m, ctx, k);
}

static enum tw_status host_from(struct master *m, struct tw_context *ctx, uint64_t cut,
				const struct tw_part *parts, size_t count)
{
	struct tw_master_part x = { 0 };
	struct source *src = NULL;
	enum tw_status st = TW_OK;
	size_t shards = 0;
	const bool adopted = tw_master_adopted_any(m);
	const bool anew = m->restart.history != HISTORY_KNOWN && !adopted; /* the cut says all */
	bool other = false;
	uint64_t before = 0;

	if (cut) {
		st = tw_master_part_read(parts, count, &x);
		src = tw_heap_zeros(m->heap, (count + 1) * sizeof *src);
		if (st == TW_OK)
			st = src ? unpack_sources(m, parts, count, src, &shards) : TW_NO_MEMORY;
		other = x.slots != m->plan->crew.workers;
		if (anew)
			tw_deal_forget(m, ctx);
		before = tw_spans_total(&m->dealing.taken);
		if (st == TW_OK && anew)
			st = restore_master(m, parts, count, &x);
		if (st == TW_OK && !adopted &&
		    (!m->restart.begun || (anew && tw_plan_worker_goes_back(m->plan))))
			restore_workers(m, ctx, parts, other ? 0 : count);
		if (other && !m->restart.begun &&
		    (tw_plan_update(m->plan)->rule->traits & TW_RULE_PER_WORKER))
			tw_say(ctx, TW_WARNING,
			       "the checkpoint was written with %u workers, and there are now %u: "
			       "the velocities of the workers start at 0",
			       x.slots, m->plan->crew.workers);
	} else if (anew) {
		tw_deal_forget(m, ctx);
		before = tw_spans_total(&m->dealing.taken);
		tw_spans_clear(&m->dealing.taken);
		tw_orphans_restart(m);
		tw_duties_restore(&m->duties, NULL, NULL, 0);
		m->rounds.number = m->dealing.frontier = 0;
		m->count.dropped = m->count.refused = 0;
		/* who outlived a master may have something of the run that it began */
		if ((m->restart.begun || ctx->boot > 1) && tw_plan_worker_goes_back(m->plan))
			restore_workers(m, ctx, NULL, 0);
	}
	if (m->restart.begun && anew && before > tw_spans_total(&m->dealing.taken))
		m->count.redealt += before - tw_spans_total(&m->dealing.taken);
	if (anew)
		m->restart.generation = 0;
	if (!m->restart.generation)
		tw_master_new_generation(m, ctx);
	for (uint32_t s = 0; s < m->plan->problem.shards && st == TW_OK; s++) {
		struct shard_info *i = &m->shard[s];

		if (i->place != SHARD_PENDING)
			continue;
		i->host_cut = cut;
		if (cut && s >= m->restart.loads.from && s < m->restart.loads.to)
			st = assemble(m, src, shards, s, other, &i->host);
		tw_shard_put(m, i, SHARD_ASSIGNED);
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
		tw_shard_put(m, i, SHARD_PENDING);
		tw_block_drop(i->host);
		i->host = NULL;
	}
}

/* (2): the parts of these shards were read. */
static enum tw_status take_parts(struct master *m, const struct tw_part *parts, size_t count,
				 struct shard_range r)
{
	struct source *src = tw_heap_zeros(m->heap, (count + 1) * sizeof *src);
	struct tw_master_part x;
	enum tw_status st = src ? tw_master_part_read(parts, count, &x) : TW_NO_MEMORY;
	size_t shards = 0;

	if (st == TW_OK)
		st = unpack_sources(m, parts, count, src, &shards);
	for (uint32_t s = r.from; s < r.to && st == TW_OK; s++)
		if (is_unread(&m->shard[s]))
			st = assemble(m, src, shards, s, x.slots != m->plan->crew.workers,
				      &m->shard[s].host);
	release_sources(m, src, shards);
	return st;
}

/* The store has a newer cut than the one that shards are being taken from: those that are not taken
 * yet are taken from that one, and in rounds all. */
static void begin_again(struct master *m, uint64_t cut)
{
	const bool all = tw_master_is_one(m);

	for (uint32_t s = 0; s < m->plan->problem.shards; s++) {
		struct shard_info *i = &m->shard[s];

		if (i->host_cut == cut ||
		    (i->place != SHARD_ASSIGNED && !(all && i->place == SHARD_HOSTED)))
			continue;
		tw_shard_put(m, i, SHARD_HOMELESS);
		tw_block_drop(i->host);
		i->host = NULL;
	}
}

/* Of the shards in this range, is one still to be read, from another cut than this? */
static bool is_another(const struct master *m, struct shard_range r, uint64_t cut)
{
	for (uint32_t s = r.from; s < r.to; s++)
		if (is_unread(&m->shard[s]) && m->shard[s].host_cut != cut)
			return true;
	return false;
}

static void parts_read(struct master *m, struct tw_context *ctx, uint64_t cut,
		       const struct tw_part *parts, size_t count, enum tw_status status)
{
	const struct shard_range r = m->restart.reading;

	m->restart.reading = (struct shard_range){ 0, 0 };
	if (m->phase != PHASE_GATHER)
		return;
	if (status == TW_OK && is_another(m, r, cut)) {
		begin_again(m, cut);
		return;
	}
	if (status == TW_OK)
		status = take_parts(m, parts, count, r);
	if (status != TW_OK) {
		tw_give_up(ctx, status, "checkpoint %llu cannot be used: %s",
			   (unsigned long long)cut, tw_status_name(status));
		return;
	}
	for (uint32_t s = r.from; s < r.to; s++)
		if (m->shard[s].place == SHARD_ASSIGNED)
			tw_cut_host(m, ctx, s);
	tw_cut_read_next(m, ctx);
}

void tw_cut_loaded(struct master *m, struct tw_context *ctx, uint64_t cut,
		   const struct tw_part *parts, size_t count, enum tw_status status)
{
	const bool first = !m->restart.looked;
	const bool pending = m->places[SHARD_PENDING];

	if (m->restart.reading.to) { /* it was asked for first */
		parts_read(m, ctx, cut, parts, count, status);
		return;
	}
	m->restart.loading = false;
	m->restart.looked = true;
	if (status == TW_OK && first && cut) { /* what an earlier master counted */
		struct tw_master_part x;

		if (tw_master_part_read(parts, count, &x) == TW_OK) {
			m->count.redealt = x.redealt;
			m->count.refused = x.refused;
			m->count.lost_copies = x.lost_copies;
			m->count.steps = x.steps; /* until the shards say what they have */
			m->count.samples = x.samples;
		}
	}
	if (status == TW_OK && first)
		m->cuts.last = cut;
	if (m->phase != PHASE_GATHER || (status == TW_OK && !pending))
		return;
	if (status == TW_OK && m->restart.move == MOVE_BEGUN && m->restart.begun &&
	    cut != m->cuts.last) {
		/* the one they were to move from is damaged: then all go back, or none */
		m->restart.move = MOVE_NONE;
		for (uint32_t s = 0; s < m->plan->problem.shards && tw_master_rounds(m); s++)
			if (m->shard[s].place == SHARD_PENDING)
				tw_shard_put(m, &m->shard[s], SHARD_HOMELESS);
		if (tw_master_rounds(m))
			return;
	}
	if (status == TW_OK && tw_master_is_one(m) &&
	    (m->restart.history == HISTORY_ROLLED_BACK || !m->restart.begun))
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
	    m->restart.move != MOVE_BEGUN) /* a master before us may have trained */
		tw_note(ctx, &(struct tw_note){
				     .kind = TW_NOTE_ROLLBACK,
				     .cut = { .number = cut,
					      .all = m->restart.history == HISTORY_ROLLED_BACK } });
	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		if (m->shard[s].place == SHARD_ASSIGNED)
			tw_cut_host(m, ctx, s);
	tw_cut_read_next(m, ctx);
}
