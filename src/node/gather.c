/* SPDX-License-Identifier: Apache-2.0 */
/* gather.c - servers and shards: who hosts what, and from which one state they all go on.
 *
 *  (1) a generation begins when training (re)starts from one agreed state: at the start, after a
 *      cut that drained, after a rollback, after a takeover under a round gate.  Every shard
 *      confirms it before any worker gets a lease of it.
 *  (2) under a round gate all shards go on from one state: adopted as they are, or all from the
 *      cut.
 *  (3) what a shard was told and may have lost is told again when its connection is made anew.
 *  (4) a server that leaves goes when its shards are in a cut that nothing followed: they are taken
 *      from it elsewhere, and nothing is lost. */
#include "node/master.h"

#include <string.h>

/* --- words ---------------------------------------------------------------------------------- */

struct tw_msg *tw_master_to_shard(struct master *m, struct tw_context *ctx, uint32_t shard,
				  enum tw_type type)
{
	const struct tw_addr to = { m->shard[shard].node, TW_SHARD, (uint16_t)shard };
	struct tw_msg *msg = tw_msg_to(ctx, to, type);

	if (msg) {
		msg->h.view = m->restart.generation;
		msg->h.incarnation = ctx->boot; /* of the master: a shard obeys the newest only */
		msg->h.shard = shard;
	}
	return msg;
}

static bool ask(struct master *m, struct tw_context *ctx, uint32_t shard, uint32_t flags)
{
	struct tw_msg *msg = tw_master_to_shard(m, ctx, shard, TW_ASK);

	if (!msg)
		return false;
	msg->h.flags = flags;
	msg->b.ask.number = m->restart.asks;
	tw_send(ctx, msg);
	return true;
}

void tw_master_resync_shard(struct master *m, struct tw_context *ctx, uint32_t s)
{
	if (m->shard[s].place == SHARD_ASSIGNED) {
		tw_cut_host(m, ctx, s);
		return;
	}
	if (!tw_shard_has_home(&m->shard[s]))
		return;
	tw_master_full_view(m, ctx, s);
	tw_round_commit_to(m, ctx, s);
	if (m->phase == PHASE_AGREE && !m->shard[s].agreed && !ask(m, ctx, s, 0))
		return;
	tw_cut_snap_shard(m, ctx, s);
	tw_score_count_shard(m, ctx, s);
	tw_score_pin_shard(m, ctx, s);
}

/* --- who hosts what --------------------------------------------------------------------------- */

/* Nobody hosts the shards of this node any more; false: it had none. */
static bool drop_shards(struct master *m, uint32_t node)
{
	bool lost = false;

	for (uint32_t s = 0; s < m->plan->problem.shards; s++) {
		struct shard_info *i = &m->shard[s];

		if (i->place == SHARD_HOMELESS || i->node != node)
			continue;
		i->place = SHARD_HOMELESS;
		tw_block_drop(i->host);
		i->host = NULL;
		lost = true;
	}
	return lost;
}

void tw_master_lose_shards(struct master *m, struct tw_context *ctx, uint32_t node)
{
	if (!drop_shards(m, node) || m->phase == PHASE_OVER)
		return;
	tw_say(ctx, TW_WARNING, "server %u is gone with its shards", tw_server_number(node));
	m->waits.lost = m->cuts.was_paused = true;
	tw_cut_abort(m);
	tw_score_abort(m, ctx);
	m->cuts.final = false;
	m->phase = PHASE_GATHER;
	m->since = tw_now(ctx);
}

void tw_master_server_hello(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	const uint32_t node = msg->from.node, k = node - 1;

	if (m->server[k].boot && m->server[k].boot != msg->h.incarnation)
		tw_master_lose_shards(m, ctx, node);
	m->server[k].state = msg->h.flags & TW_FLAG_LEAVE ? SERVER_LEAVING : SERVER_HERE;
	m->server[k].left = m->server[k].left && m->server[k].state == SERVER_LEAVING;
	m->server[k].boot = msg->h.incarnation;
	m->server[k].hosted = msg->b.hello.hosted;
	if (msg->b.hello.hosted && !m->restart.begun)
		tw_master_heard_survivor(m);
}

static void unhost(struct tw_context *ctx, uint32_t node, uint32_t shard, uint32_t incarnation)
{
	struct tw_msg *go = tw_msg_to(ctx, (struct tw_addr){ node, TW_SERVER, 0 }, TW_HOST);

	if (!go)
		return;
	go->h.incarnation = ctx->boot;
	go->b.host = (struct tw_body_host){ .shard = shard,
					    .unhost = 1,
					    .incarnation = incarnation + 1 };
	tw_send(ctx, go);
}

/* --- servers that leave ----------------------------------------------------------------------- */

void tw_master_server_leaves(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	const uint32_t node = msg->from.node;
	struct server_info *i = &m->server[node - 1];

	if (i->state == SERVER_AWAY || i->boot != msg->h.incarnation ||
	    !(msg->h.flags & TW_FLAG_LEAVE))
		return;
	if (i->state != SERVER_LEAVING)
		tw_say(ctx, TW_INFO, "server %u wants to leave", tw_server_number(node));
	i->state = SERVER_LEAVING;
}

static uint32_t staying(const struct master *m)
{
	uint32_t count = 0;

	for (uint32_t k = 0; k < m->plan->crew.servers; k++)
		count += m->server[k].state == SERVER_HERE;
	return count;
}

static bool leaver(const struct master *m, uint32_t k)
{
	return m->server[k].state == SERVER_LEAVING;
}

static bool hosts(const struct master *m, uint32_t node)
{
	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		if (m->shard[s].place != SHARD_HOMELESS && m->shard[s].node == node)
			return true;
	return false;
}

bool tw_master_must_move(const struct master *m)
{
	if (m->restart.move_off || !staying(m))
		return false;
	for (uint32_t k = 0; k < m->plan->crew.servers; k++)
		if (leaver(m, k))
			return true;
	return false;
}

/* (4) */
void tw_master_move(struct master *m, struct tw_context *ctx)
{
	for (uint32_t k = 0; k < m->plan->crew.servers; k++) {
		if (!leaver(m, k))
			continue;
		for (uint32_t s = 0; s < m->plan->problem.shards; s++)
			if (m->shard[s].place >= SHARD_ASSIGNED && m->shard[s].node == k + 1)
				unhost(ctx, k + 1, s, m->shard[s].incarnation);
		if (!drop_shards(m, k + 1))
			continue;
		tw_score_abort(m, ctx); /* what these shards kept is gone */
		m->restart.moving = m->waits.servers_due = m->waits.lost = true;
		m->since = tw_now(ctx);
	}
}

static void let_go(struct master *m, struct tw_context *ctx, uint32_t k)
{
	struct tw_msg *msg = tw_msg_to(ctx, (struct tw_addr){ k + 1, TW_SERVER, 0 }, TW_BYE);

	if (!msg)
		return;
	tw_say(ctx, TW_INFO, "server %u left; %u remain%s", k, staying(m),
	       staying(m) == 1 ? "s" : "");
	m->server[k].state = SERVER_AWAY;
	m->server[k].left = true;
	tw_send(ctx, msg);
}

void tw_master_servers_go(struct master *m, struct tw_context *ctx)
{
	bool adopted = false;

	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		adopted = adopted || m->shard[s].place == SHARD_ADOPTED;
	/* nothing was learnt yet */
	if (!m->restart.begun && !adopted && m->phase == PHASE_GATHER && !m->restart.loading &&
	    tw_master_must_move(m))
		tw_master_move(m, ctx);
	for (uint32_t k = 0; k < m->plan->crew.servers; k++) {
		if (!leaver(m, k))
			continue;
		if (!hosts(m, k + 1)) {
			let_go(m, ctx, k);
		} else if (!staying(m) && !m->wish.stop) {
			tw_say(ctx, TW_WARNING,
			       "server %u leaves and no other is here to take its shards: "
			       "stopping at a checkpoint",
			       k);
			m->wish.stop = true;
			if (!m->restart.begun)
				tw_score_finish(m, ctx, TW_INTERRUPTED);
		}
	}
}

/* --- what shards say -------------------------------------------------------------------------- */

static enum tw_status copy_state(struct shard_info *i, const struct tw_msg *msg,
				 const struct tw_plan *plan, struct tw_heap *heap)
{
	const struct tw_body_state *b = &msg->b.state;
	const struct tw_span *span = msg->tail ? (const void *)msg->tail->data : NULL;
	const uint64_t records = (uint64_t)b->spans + b->twice + b->members;
	enum tw_status st = TW_OK;

	if (records * sizeof *span != msg->h.tail || msg->h.payload != sizeof i->tally ||
	    b->members > plan->crew.workers)
		return TW_BAD_BYTES;
	for (uint32_t k = 0; k < b->spans + b->twice; k++)
		if (span[k].from >= span[k].to || span[k].to > plan->dealing.positions)
			return TW_BAD_BYTES;
	tw_spans_clear(&i->applied);
	tw_spans_clear(&i->twice);
	for (uint32_t k = 0; k < b->spans + b->twice && st == TW_OK; k++)
		st = tw_spans_add(k < b->spans ? &i->applied : &i->twice, span[k].from, span[k].to,
				  NULL);
	if (st != TW_OK)
		return st;
	heap->put(heap, i->set);
	i->set = tw_heap_zeros(heap, (b->members + 1) * sizeof *i->set);
	if (!i->set)
		return TW_NO_MEMORY;
	if (b->members)
		memcpy(i->set, span + b->spans + b->twice, b->members * sizeof *i->set);
	i->set_count = b->members;
	i->round = b->round;
	memcpy(&i->tally, tw_msg_payload(msg), sizeof i->tally);
	return TW_OK;
}

static bool take_state(struct master *m, struct tw_context *ctx, struct shard_info *i,
		       const struct tw_msg *msg)
{
	const enum tw_status st = copy_state(i, msg, m->plan, m->heap);

	if (st == TW_NO_MEMORY)
		tw_give_up(ctx, st, "no memory for the state of shard %u", msg->h.shard);
	else if (st != TW_OK)
		tw_say(ctx, TW_WARNING, "the state of shard %u is malformed", msg->h.shard);
	return st == TW_OK;
}

/* A shard that outlived the master before us, or our belief that it is gone: it is kept as it is,
 * also while the cut is read that it was to be taken from. */
static void adopt(struct master *m, struct shard_info *i, const struct tw_msg *msg)
{
	const uint32_t node = msg->from.node;

	tw_master_heard_survivor(m);
	i->place = SHARD_ADOPTED;
	i->node = node;
	i->incarnation = msg->b.state.version.incarnation;
	m->server[node - 1].stated++;
	if (msg->h.view > m->restart.generation)
		m->restart.generation = msg->h.view;
	i->host_cut = msg->h.view; /* the generation it was in, until we agree */
}

/* May a shard that nobody else has be kept as it is?  Not where its server was told that it may go,
 * and (2) not if some shard is to be taken from the cut. */
static bool adoptable(const struct master *m, uint32_t node)
{
	const struct server_info *on = &m->server[node - 1];

	if (m->phase != PHASE_GATHER || on->left ||
	    (m->restart.moving && on->state == SERVER_LEAVING))
		return false;
	for (uint32_t s = 0; s < m->plan->problem.shards && tw_master_rounds(m); s++)
		if (m->shard[s].place == SHARD_PENDING || m->shard[s].place == SHARD_ASSIGNED)
			return false;
	return !m->restart.rolling_back;
}

void tw_master_shard_state(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	const uint32_t s = msg->h.shard;
	struct shard_info *i;

	/* nobody outlived a master that is yet to come */
	if (s >= m->plan->problem.shards || msg->h.view >> 32 > ctx->boot ||
	    msg->b.state.version.incarnation >> 20 > ctx->boot)
		return;
	i = &m->shard[s];
	if (tw_shard_has_home(i) && i->node == msg->from.node &&
	    i->incarnation == msg->b.state.version.incarnation) {
		if (msg->b.state.asked != m->restart.asks || msg->h.view != m->restart.generation ||
		    (tw_master_rounds(m) && msg->b.state.round != m->rounds.number))
			return;
		if (!take_state(m, ctx, i, msg))
			return;
		i->agreed = true;
		i->counted = m->phase == PHASE_COUNT;
		return;
	}
	if (i->place < SHARD_ASSIGNED && adoptable(m, msg->from.node) &&
	    msg->b.state.version.incarnation >= i->incarnation) {
		if (!take_state(m, ctx, i, msg))
			return;
		adopt(m, i, msg);
		return;
	}
	/* somebody has it who was given up by an earlier master, and came first */
	if (i->place == SHARD_ADOPTED && adoptable(m, msg->from.node) &&
	    msg->from.node != i->node && msg->b.state.version.incarnation > i->incarnation) {
		const uint32_t node = i->node, incarnation = i->incarnation;

		if (!take_state(m, ctx, i, msg))
			return;
		unhost(ctx, node, s, incarnation);
		adopt(m, i, msg);
		return;
	}
	if (msg->from.node != i->node) /* somebody else has it now */
		unhost(ctx, msg->from.node, s, msg->b.state.version.incarnation);
}

void tw_master_shard_hosted(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	const uint32_t s = msg->h.shard;
	struct shard_info *i;

	if (s >= m->plan->problem.shards)
		return;
	i = &m->shard[s];
	if (i->place != SHARD_ASSIGNED || i->node != msg->from.node ||
	    i->incarnation != msg->b.host.incarnation)
		return;
	if (msg->h.flags & TW_FLAG_REFUSED) { /* to try again would not make it better */
		m->phase = PHASE_OVER;
		if (i->host_cut)
			tw_give_up(ctx, TW_BAD_BYTES,
				   "the part of shard %u in checkpoint %llu cannot be used (server "
				   "%u says so)",
				   s, (unsigned long long)i->host_cut, tw_server_number(i->node));
		else
			tw_give_up(ctx, TW_BAD_BYTES,
				   "server %u cannot make the first parameters of shard %u",
				   tw_server_number(i->node), s);
		return;
	}
	i->place = SHARD_HOSTED;
	tw_block_drop(i->host);
	i->host = NULL;
}

/* --- one state -------------------------------------------------------------------------------- */

uint32_t tw_master_servers_live(const struct master *m)
{
	uint32_t here = 0;

	for (uint32_t k = 0; k < m->plan->crew.servers; k++)
		here += m->server[k].state != SERVER_AWAY;
	return here;
}

static bool servers_here(const struct master *m)
{
	for (uint32_t k = 0; k < m->plan->crew.servers; k++)
		if (m->server[k].state != SERVER_AWAY &&
		    m->server[k].stated < m->server[k].hosted && !m->waits.servers_due)
			return false;
	return m->waits.servers_due || tw_master_servers_live(m) == m->plan->crew.servers;
}

/* (2) */
static bool one_state(struct master *m)
{
	uint32_t adopted = 0, lost = 0, behind = 0;
	uint64_t round = 0;

	for (uint32_t s = 0; s < m->plan->problem.shards; s++) {
		const struct shard_info *i = &m->shard[s];

		lost += i->place < SHARD_ASSIGNED;
		if (i->place != SHARD_ADOPTED)
			continue;
		adopted++;
		behind += i->host_cut != m->restart.generation;
		if (i->round > round)
			round = i->round;
	}
	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		behind += m->shard[s].place == SHARD_ADOPTED && m->shard[s].round + 1 < round;
	return !(adopted && lost) && !behind && !(m->restart.begun && lost);
}

static void roll_back(struct master *m, struct tw_context *ctx)
{
	m->restart.rolling_back = m->restart.rebuild = true;
	for (uint32_t s = 0; s < m->plan->problem.shards; s++) {
		if (m->shard[s].place >= SHARD_ASSIGNED)
			m->shard[s].place = SHARD_HOMELESS;
		tw_block_drop(m->shard[s].host);
		m->shard[s].host = NULL;
	}
	tw_deal_forget(m, ctx);
	m->commit.sent = false;
	if (m->cuts.last)
		tw_say(ctx, TW_WARNING, "the cluster goes back to checkpoint %llu",
		       (unsigned long long)m->cuts.last);
	else
		tw_say(ctx, TW_WARNING, "there is no checkpoint: the cluster starts over");
}

static bool adopted_any(const struct master *m)
{
	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		if (m->shard[s].place == SHARD_ADOPTED)
			return true;
	return false;
}

/* A COMMIT may have reached some shards only: those that have it say what was in it.  One that
 * reached nobody is known to us, if we sent it. */
static void complete_round(struct master *m, struct tw_context *ctx)
{
	const struct shard_info *ahead = &m->shard[0];

	for (uint32_t s = 1; s < m->plan->problem.shards; s++)
		if (m->shard[s].round > ahead->round)
			ahead = &m->shard[s];
	if (!(m->commit.sent && m->commit.round == ahead->round) && ahead->round) {
		memcpy(m->commit.set, ahead->set, ahead->set_count * sizeof *m->commit.set);
		m->commit.count = ahead->set_count;
		m->commit.round = ahead->round - 1;
		m->commit.sent = true;
	}
	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		tw_round_commit_to(m, ctx, s);
	m->rounds.number = m->commit.sent ? m->commit.round + 1 : 0;
}

/* Shards and workers that outlived a master may come from several of its generations. */
static void one_generation(struct master *m, struct tw_context *ctx)
{
	bool mixed = false;

	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		mixed = mixed || (m->shard[s].place == SHARD_ADOPTED &&
				  m->shard[s].host_cut != m->restart.generation);
	/* leases of another generation were forgotten by those who held them */
	for (uint32_t k = 0; k < m->plan->crew.workers; k++)
		if (m->member[k].live && m->member[k].held.count &&
		    m->member[k].held.generation != m->restart.generation) {
			tw_deal_return(m, ctx, k);
			tw_deal_asks(m, k);
		}
	if (mixed) {
		tw_master_new_generation(m, ctx);
		tw_deal_forget(m, ctx);
		tw_spans_clear(&m->dealing.taken);
	}
}

/* Every shard is there and so are enough workers: all that is missing is that they agree. */
static void agree(struct master *m, struct tw_context *ctx)
{
	m->phase = PHASE_AGREE;
	m->since = tw_now(ctx);
	m->restart.asks++;
	if (tw_master_rounds(m) && adopted_any(m)) {
		complete_round(m, ctx);
		tw_deal_forget(m, ctx);
		tw_master_new_generation(m, ctx);
	} else if (m->restart.rebuild) {
		one_generation(m, ctx);
	}
	for (uint32_t s = 0; s < m->plan->problem.shards; s++) {
		m->shard[s].agreed = false;
		tw_master_full_view(m, ctx, s);
		if (!ask(m, ctx, s, tw_master_untimed(m)))
			return;
	}
}

void tw_master_gather(struct master *m, struct tw_context *ctx)
{
	bool lost = false, waits = false;

	if (m->restart.loading || !servers_here(m))
		return;
	if (tw_master_rounds(m) && !m->restart.rolling_back &&
	    !(m->restart.moving && m->restart.begun) && !one_state(m))
		roll_back(m, ctx);
	for (uint32_t s = 0; s < m->plan->problem.shards; s++) {
		lost = lost || m->shard[s].place < SHARD_ASSIGNED;
		waits = waits || !tw_shard_has_home(&m->shard[s]);
	}
	if (lost)
		tw_cut_assign(m, ctx);
	if (waits)
		return;
	/* once it has begun, `run` pauses when there are too few */
	if (m->restart.begun || tw_master_live(m) == m->plan->crew.workers ||
	    (tw_master_live(m) >= m->plan->crew.min && tw_master_live(m) && m->waits.over))
		agree(m, ctx);
}

/* What is dealt already, when nobody remembers: what every shard has. */
static enum tw_status rebuild_taken(struct master *m)
{
	const bool adopted = adopted_any(m);
	struct tw_spans all;
	enum tw_status st = TW_OK;

	tw_spans_init(&all, m->heap);
	for (uint32_t s = 0; s < m->plan->problem.shards && st == TW_OK; s++)
		st = s ? tw_spans_intersect(&all, &m->shard[s].applied)
		       : tw_spans_copy(&all, &m->shard[0].applied);
	if (st == TW_OK)
		st = tw_spans_unite(&m->dealing.taken, &all);
	if (tw_spans_end(&m->dealing.taken) > m->dealing.frontier)
		m->dealing.frontier = tw_spans_end(&m->dealing.taken);
	/* a master that was not there counts as dealt again what it cannot know better: what some
	 * shard has applied twice, or has applied and will apply again */
	tw_spans_clear(&all);
	for (uint32_t s = 0; s < m->plan->problem.shards && st == TW_OK; s++)
		st = tw_spans_unite(&all, &m->shard[s].twice);
	if (adopted && tw_spans_total(&all) > m->count.redealt)
		m->count.redealt = tw_spans_total(&all);
	tw_spans_clear(&all);
	for (uint32_t s = 0; s < m->plan->problem.shards && st == TW_OK; s++)
		st = tw_spans_unite(&all, &m->shard[s].applied);
	if (st == TW_OK)
		st = tw_spans_subtract(&all, &m->dealing.taken);
	if (!tw_master_rounds(m))
		m->count.redealt += tw_spans_total(&all);
	for (uint32_t k = 0; k < m->plan->crew.workers && adopted; k++)
		for (uint32_t i = 0; i < m->member[k].held.count; i++)
			m->count.redealt +=
				m->member[k].held.lease[i].to - m->member[k].held.lease[i].from;
	tw_spans_release(&all);
	return st;
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

void tw_master_agreed(struct master *m, struct tw_context *ctx)
{
	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		if (!m->shard[s].agreed)
			return;
	if (m->restart.rebuild && rebuild_taken(m) != TW_OK) {
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for the history of a run");
		return;
	}
	if (m->restart.rebuild || tw_master_rounds(m)) /* they outlive whoever counted before us */
		tw_master_applied(m, &m->count.steps, &m->count.samples);
	tw_score_agreed(m, adopted_any(m));
	m->restart.rebuild = m->restart.rolling_back = m->restart.moving = false;
	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		if (m->shard[s].place == SHARD_ADOPTED)
			m->shard[s].place = SHARD_HOSTED;
	m->phase = PHASE_RELEASE;
	if (m->restart.release > tw_now(ctx))
		tw_timer(ctx, TIMER_RELEASE, m->restart.release - tw_now(ctx));
}
