/* SPDX-License-Identifier: Apache-2.0 */
/* host_restore.c - how shards, workers and the master are taken from a checkpoint (2 to 4).  The
 * numbers in brackets are those of README.md. */
#include "node/duty/host/host_state.h"

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
		tw_host_load(m, ctx);
}

/* Choose a server for every shard that has none, and fetch the newest cut. */
void tw_host_assign(struct master *m, struct tw_context *ctx)
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
		tw_host_load(m, ctx);
}

/* Is its part still to be read? (3) */
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

void tw_host_load(struct master *m, struct tw_context *ctx)
{
	m->restart.loading = true;
	m->restart.loads = wanted(m, is_pending, 0);
	look(m, ctx, m->restart.loads);
}

void tw_host_read_next(struct master *m, struct tw_context *ctx)
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

void tw_host_send(struct master *m, struct tw_context *ctx, uint32_t shard)
{
	const struct shard_info *i = &m->shard[shard];
	struct tw_msg *msg;

	if (is_unread(i))
		return;
	msg = tw_master_host_message(m, ctx, shard, i->node);
	if (!msg)
		return;
	if (i->host) {
		msg->payload = tw_block_keep(i->host);
		msg->h.payload = (uint32_t)i->host->bytes;
	}
	tw_send(ctx, msg);
}

/* Those who came before their part was read are welcomed once more, as somebody new.  Where workers
 * go back with the shards, those without a part are, too: they begin blank. */
static void restore_workers(struct master *m, struct tw_context *ctx, const struct tw_part *parts,
			    size_t count)
{
	const bool all = tw_plan_worker_goes_back(m->plan);

	if (all)
		tw_checkpoint_master_forget_kept(m);
	for (size_t k = 0; k < count; k++) {
		uint32_t slot;

		if (tw_checkpoint_master_keep(m, &parts[k], &slot) && m->member[slot].live)
			tw_master_welcome_again(m, ctx, slot);
	}
	for (uint32_t k = 0; all && k < m->plan->crew.workers; k++)
		if (m->member[k].live && !tw_checkpoint_master_kept(m, k, 0))
			tw_master_welcome_again(m, ctx, k);
}

static enum tw_status host_from(struct master *m, struct tw_context *ctx, uint64_t cut,
				const struct tw_part *parts, size_t count)
{
	struct tw_checkpoint_sources src = { .at = NULL };
	struct tw_master_part x = { 0 };
	enum tw_status st = TW_OK;
	const bool adopted = tw_master_adopted_any(m);
	const bool anew = m->restart.history != HISTORY_KNOWN && !adopted; /* the cut says all */
	bool other = false;
	uint64_t before = 0;

	if (cut) {
		st = tw_master_part_read(parts, count, &x);
		if (st == TW_OK)
			st = tw_checkpoint_open(m->heap, parts, count, &src);
		other = x.slots != m->plan->crew.workers;
		if (anew)
			tw_deal_forget(m, ctx);
		before = tw_spans_total(&m->dealing.taken);
		if (st == TW_OK && anew)
			st = tw_checkpoint_master_restore(m, parts, count, &x);
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
		st = tw_checkpoint_master_restore(m, NULL, 0, NULL);
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
			st = tw_checkpoint_assemble(m->heap, m->plan, &src, s, other, &i->host);
		tw_shard_put(m, i, SHARD_ASSIGNED);
		i->incarnation = tw_master_new_incarnation(m, ctx);
	}
	tw_checkpoint_close(m->heap, &src);
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

/* (3): the parts of these shards were read. */
static enum tw_status take_parts(struct master *m, const struct tw_part *parts, size_t count,
				 struct shard_range r)
{
	struct tw_checkpoint_sources src = { .at = NULL };
	struct tw_master_part x;
	enum tw_status st = tw_master_part_read(parts, count, &x);

	if (st == TW_OK)
		st = tw_checkpoint_open(m->heap, parts, count, &src);
	for (uint32_t s = r.from; s < r.to && st == TW_OK; s++)
		if (is_unread(&m->shard[s]))
			st = tw_checkpoint_assemble(m->heap, m->plan, &src, s,
						    x.slots != m->plan->crew.workers,
						    &m->shard[s].host);
	tw_checkpoint_close(m->heap, &src);
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
			tw_host_send(m, ctx, s);
	tw_host_read_next(m, ctx);
}

void tw_host_loaded(struct master *m, struct tw_context *ctx, uint64_t cut,
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
			tw_host_send(m, ctx, s);
	tw_host_read_next(m, ctx);
}
