/* SPDX-License-Identifier: Apache-2.0 */
/* master.c - which phase the run is in, and what it waits for.
 *
 *  (1) `drive` looks at the whole state after every event and does whatever is due; handlers only
 *      record what happened.  So there is no order of events that is not covered by it.
 *  (2) the timers of cluster.wait run exactly while the state says that somebody is waited for:
 *      `drive` sets and clears them, so no order of events can swallow one. */
#include "node/master.h"

#include <math.h>

/* --- phases ----------------------------------------------------------------------------------- */

uint64_t tw_master_new_generation(struct master *m, struct tw_context *ctx)
{
	return m->restart.generation = ((uint64_t)ctx->boot << 32) | ++m->restart.counter;
}

static void begin(struct master *m, struct tw_context *ctx)
{
	const int64_t left = m->plan->ends.time - tw_now(ctx);

	if (m->restart.release > tw_now(ctx))
		return;
	m->restart.release = 0;
	m->restart.current = m->restart.generation;
	if (!m->restart.begun && m->plan->ends.time)
		tw_timer(ctx, TIMER_LIMIT, left > 0 ? left : 0);
	m->restart.begun = true;
	m->phase = PHASE_RUN;
	m->dealing.again = m->dealing.turns = true;
	if (m->plan->checkpoint.every)
		tw_timer(ctx, TIMER_CUT, tw_cut_period(m));
	for (uint32_t k = 0; k < m->plan->crew.workers; k++)
		if (m->member[k].live)
			tw_master_places(m, ctx, k, true);
	tw_score_begin(m, ctx);
}

static void drain(struct master *m, struct tw_context *ctx)
{
	m->phase = PHASE_DRAIN;
	m->since = m->cuts.draining = tw_now(ctx);
	if (tw_master_rounds(m))
		return;
	for (uint32_t k = 0; k < m->plan->crew.workers; k++)
		if (m->member[k].live)
			tw_master_places(m, ctx, k, false);
	tw_deal_no_more(m, ctx);
}

static bool too_few(const struct master *m)
{
	return tw_master_live(m) < m->plan->crew.min || tw_master_live(m) == 0;
}

static void check_members(struct master *m, struct tw_context *ctx)
{
	const bool few = too_few(m);

	if (few == m->waits.paused)
		return;
	m->waits.paused = few;
	m->cuts.was_paused = m->cuts.was_paused || few;
	m->since = tw_now(ctx);
	if (!few)
		return;
	tw_say(ctx, TW_WARNING, "%u workers are fewer than cluster.min (%u): waiting for others",
	       tw_master_live(m), m->plan->crew.min);
}

static void run(struct master *m, struct tw_context *ctx)
{
	const bool ends = m->wish.time_up || m->wish.finish || m->wish.stop;
	const bool moves = tw_master_must_move(m);

	check_members(m, ctx);
	tw_deal(m, ctx);
	if (m->phase != PHASE_RUN)
		return;
	if (m->wish.cut && !m->plan->checkpoint.drain && !ends && !moves) { /* nobody pauses */
		if (!tw_master_rounds(m) || !m->rounds.open)
			tw_cut_snap(m, ctx);
		if (tw_master_rounds(m))
			tw_deal(m, ctx);
		return;
	}
	if (tw_master_rounds(m)) {
		if (!m->rounds.open && (ends || moves || m->wish.cut || tw_deal_exhausted(m)))
			drain(m, ctx);
	} else if (ends || moves || m->wish.cut ||
		   (tw_deal_exhausted(m) && !m->dealing.open_leases)) {
		drain(m, ctx);
	}
}

static void drained(struct master *m, struct tw_context *ctx)
{
	if (m->dealing.open_leases || m->rounds.open)
		return;
	if (m->cuts.making) /* one is still being collected: it is let go */
		tw_cut_abort(m);
	if (m->wish.stop || m->wish.cut || (tw_master_must_move(m) && !tw_deal_exhausted(m)) ||
	    (m->plan->checkpoint.final && tw_deal_exhausted(m) && !m->cuts.final)) {
		/* what late workers still push would be in the way of a run that goes on, and not
		 * of one that resumes */
		if (tw_round_late(m))
			return;
		m->cuts.final = tw_deal_exhausted(m);
		tw_cut_snap(m, ctx);
		return;
	}
	if (tw_deal_exhausted(m))
		tw_score_count(m, ctx);
	else
		m->phase = PHASE_RELEASE; /* what we drained for is not wanted any more */
}

static void score(struct master *m, struct tw_context *ctx)
{
	check_members(m, ctx);
	if (m->wish.stop) { /* nobody is there to score it */
		tw_score_abort(m, ctx);
		m->cuts.final = false;
		drain(m, ctx);
	} else {
		tw_score_deal(m, ctx);
	}
}

/* Is there a shard without a server?  One that is on its way to one has it. */
static bool homeless(const struct master *m)
{
	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		if (m->shard[s].place == SHARD_HOMELESS)
			return true;
	return false;
}

/* Is cluster.wait counted for workers to come?  Before training begins: from the first worker on,
 * or from the start of a master that comes after another. */
static bool wants_workers(const struct master *m, const struct tw_context *ctx)
{
	if (m->restart.begun)
		return m->waits.paused && !m->wish.stop;
	return (m->phase == PHASE_GATHER || m->phase == PHASE_AGREE) &&
	       (m->waits.came || ctx->boot > 1);
}

static void count_wait(struct master *m, struct tw_context *ctx, uint32_t timer, bool wants,
		       bool *counting)
{
	if (wants == *counting)
		return;
	*counting = wants;
	tw_timer(ctx, timer, wants ? m->plan->crew.wait : -1);
}

/* (2) */
static void count_waits(struct master *m, struct tw_context *ctx)
{
	count_wait(m, ctx, TIMER_PAUSE, wants_workers(m, ctx), &m->waits.counting_workers);
	count_wait(m, ctx, TIMER_HOMELESS, m->phase == PHASE_GATHER && m->waits.lost && homeless(m),
		   &m->waits.counting_homes);
}

static void do_what_is_due(struct master *m, struct tw_context *ctx)
{
	for (;;) {
		const enum phase before = m->phase;

		if (before != PHASE_OVER)
			tw_master_servers_go(m, ctx);
		switch (m->phase) {
		case PHASE_GATHER:
			tw_master_gather(m, ctx);
			break;
		case PHASE_AGREE:
			tw_master_agreed(m, ctx);
			break;
		case PHASE_RELEASE:
			begin(m, ctx);
			break;
		case PHASE_RUN:
			run(m, ctx);
			break;
		case PHASE_DRAIN:
			if (tw_master_rounds(m))
				tw_deal(m, ctx);
			drained(m, ctx);
			break;
		case PHASE_SNAP:
			tw_cut_check(m, ctx);
			break;
		case PHASE_COUNT:
			tw_score_count(m, ctx);
			break;
		case PHASE_SCORE:
			score(m, ctx);
			break;
		default:
			break;
		}
		if (m->phase == before)
			return;
	}
}

void tw_master_drive(struct master *m, struct tw_context *ctx)
{
	do_what_is_due(m, ctx);
	if (m->phase != PHASE_OVER)
		count_waits(m, ctx);
}

/* --- the actor -------------------------------------------------------------------------------- */

static struct tw_actor *master_new(struct tw_heap *heap, const void *arg)
{
	const struct tw_role_arg *a = arg;
	const struct tw_plan *p = a->plan;
	struct master *m = tw_heap_zeros(heap, sizeof *m);
	bool all = true;

	if (!m)
		return NULL;
	m->plan = p;
	m->heap = heap;
	m->restart.resume = a->resume;
	m->restart.rebuild = true;
	m->scores.loss = NAN; /* nothing was evaluated yet */
	m->scores.accuracy = -1;
	tw_spans_init(&m->dealing.taken, heap); /* released even if the rest is not there */
	tw_spans_init(&m->cuts.closed, heap);
	m->scores.chunks = p->problem.tests < 16 ? (uint32_t)p->problem.tests : 16;
	m->member = tw_heap_zeros(heap, p->crew.workers * sizeof *m->member);
	m->shard = tw_heap_zeros(heap, p->problem.shards * sizeof *m->shard);
	m->server = tw_heap_zeros(heap, p->crew.servers * sizeof *m->server);
	m->commit.set = tw_heap_zeros(heap, p->crew.workers * sizeof *m->commit.set);
	m->scores.chunk = tw_heap_zeros(heap, m->scores.chunks * sizeof *m->scores.chunk);
	all = m->member && m->shard && m->server && m->commit.set && m->scores.chunk &&
	      tw_master_members_init(&m->members, heap, p->crew.workers) == TW_OK &&
	      tw_deal_init(m) == TW_OK && tw_round_init(m) == TW_OK;
	for (uint32_t k = 0; m->member && k < p->crew.workers; k++)
		m->member[k].chunk = NO_CHUNK;
	for (uint32_t s = 0; m->shard && s < p->problem.shards; s++) {
		tw_spans_init(&m->shard[s].applied, heap);
		tw_spans_init(&m->shard[s].twice, heap);
	}
	if (all)
		return (struct tw_actor *)m;
	tw_master_class.free((struct tw_actor *)m);
	return NULL;
}

static void master_free(struct tw_actor *a)
{
	struct master *m = (struct master *)a;

	if (!m)
		return;
	for (uint32_t k = 0; m->member && k < m->plan->crew.workers; k++)
		tw_master_member_release(&m->member[k], m->heap);
	for (uint32_t s = 0; m->shard && s < m->plan->problem.shards; s++) {
		struct shard_info *i = &m->shard[s];

		tw_spans_release(&i->applied);
		tw_spans_release(&i->twice);
		tw_block_drop(i->part);
		tw_block_drop(i->vector);
		tw_block_drop(i->host);
		m->heap->put(m->heap, i->set);
	}
	tw_master_members_release(&m->members, m->heap);
	tw_deal_release(m);
	tw_round_release(m);
	tw_spans_release(&m->cuts.closed);
	void *const plain[] = { m->member, m->shard, m->server, m->commit.set, m->scores.chunk };
	for (size_t k = 0; k < sizeof plain / sizeof plain[0]; k++)
		m->heap->put(m->heap, plain[k]);
	m->heap->put(m->heap, m);
}

static void master_start(struct tw_actor *a, struct tw_context *ctx)
{
	struct master *m = (struct master *)a;

	m->since = tw_now(ctx);
	m->members.views = (uint64_t)ctx->boot << 32; /* newer than those of any master before */
	tw_timer(ctx, TIMER_GATHER, m->plan->crew.limit);
	tw_stuck_watch(m, ctx);
	m->restart.loading = true;
	ctx->world->load(ctx);
}

/* Each role has its own words, and its own nodes. */
static bool may_say(const struct master *m, const struct tw_msg *msg)
{
	const bool served = tw_plan_is_server(m->plan, msg->from.node);
	const bool worker = msg->from.role == TW_WORKER && msg->from.node > m->plan->crew.servers;
	const bool shard = msg->from.role == TW_SHARD && served && msg->h.shard == msg->from.index;

	switch (msg->h.type) {
	case TW_HELLO:
		return msg->b.hello.role == TW_SERVER ? msg->from.role == TW_SERVER && served
						      : worker;
	case TW_HAVE:
	case TW_STATE:
	case TW_HOSTED:
	case TW_PIN:
	case TW_REFUSE:
		return shard;
	case TW_BYE:
		return worker || (msg->from.role == TW_SERVER && served);
	case TW_PART:
		return shard || worker;
	default:
		return worker;
	}
}

static void master_message(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *msg)
{
	struct master *m = (struct master *)a;

	if (m->phase == PHASE_OVER || !may_say(m, msg))
		return;
	switch (msg->h.type) {
	case TW_HELLO:
		if (msg->b.hello.role == TW_SERVER)
			tw_master_server_hello(m, ctx, msg);
		else if (msg->h.flags & TW_FLAG_FRESH)
			tw_master_admit(m, ctx, msg);
		else
			tw_master_rejoin(m, ctx, msg);
		break;
	case TW_BYE:
		if (msg->from.role == TW_SERVER)
			tw_master_server_leaves(m, ctx, msg);
		else
			tw_master_leaves(m, ctx, msg);
		break;
	case TW_REFUSE:
		tw_master_let_go(m, ctx, msg);
		break;
	case TW_IDLE:
		if (tw_master_from_member(m, ctx, msg) && msg->h.view == m->restart.current)
			tw_deal_asks(m, msg->h.from);
		break;
	case TW_DONE:
		if (tw_master_from_member(m, ctx, msg) && msg->h.view == m->restart.current)
			tw_deal_done(m, ctx, msg);
		break;
	case TW_HAVE:
		tw_round_have(m, ctx, msg);
		break;
	case TW_STATE:
		tw_master_shard_state(m, ctx, msg);
		break;
	case TW_HOSTED:
		tw_master_shard_hosted(m, ctx, msg);
		break;
	case TW_PART:
		tw_cut_part(m, ctx, msg);
		break;
	case TW_PIN:
		tw_score_pinned(m, ctx, msg);
		break;
	case TW_RESULT:
		if (tw_master_from_member(m, ctx, msg))
			tw_score_result(m, ctx, msg);
		break;
	default:
		break;
	}
	tw_master_drive(m, ctx);
}

/* Servers had time to come back.  At a first start, where there is nothing to come back to, those
 * who are started by hand have as long as workers have. */
static void servers_due(struct master *m, struct tw_context *ctx)
{
	const int64_t more = m->plan->crew.wait - m->plan->crew.limit;

	m->waits.servers_due = m->restart.begun || m->waits.patient || m->waits.outlived ||
			       !m->restart.looked || m->cuts.last || more <= 0 ||
			       tw_master_servers_live(m) == m->plan->crew.servers;
	if (m->waits.servers_due)
		return;
	m->waits.patient = true;
	tw_timer(ctx, TIMER_GATHER, more);
}

void tw_master_heard_survivor(struct master *m)
{
	m->waits.outlived = true;
	m->waits.servers_due = m->waits.servers_due || m->waits.patient;
}

/* Too few came before training began; says so and ends the run. */
static void give_up_start(struct master *m, struct tw_context *ctx)
{
	if (too_few(m))
		tw_say(ctx, TW_WARNING,
		       "%u of at least %u workers came in %.3g s: stopping; a longer cluster.wait "
		       "waits longer",
		       tw_master_live(m), m->plan->crew.min,
		       (m->waits.over ? 2.0 : 1.0) * (double)m->plan->crew.wait /
			       (double)TW_SECOND);
	else
		tw_say(ctx, TW_WARNING,
		       "%u of %u servers came, and shards are without one: stopping",
		       tw_master_servers_live(m), m->plan->crew.servers);
	tw_score_finish(m, ctx, TW_INTERRUPTED);
}

/* cluster.wait is over, and workers were waited for all the time. */
static void waited(struct master *m, struct tw_context *ctx)
{
	const bool reading = m->restart.loading || !homeless(m); /* shards are on their way */
	const bool nobody = tw_master_live(m) == 0 && ctx->boot > 1;

	m->waits.counting_workers = false;
	if (m->restart.begun && too_few(m)) {
		tw_say(ctx, TW_WARNING, "nobody came for %.0f s: stopping at a checkpoint",
		       (double)m->plan->crew.wait / 1e9);
		m->wish.stop = true;
	} else if (m->restart.begun) {
		m->waits.paused = false; /* they came while the shards were brought back */
	} else if ((m->waits.over && (too_few(m) || !reading)) || nobody) {
		give_up_start(m, ctx);
	} else {
		m->waits.over = true;
	}
}

static void master_timer(struct tw_actor *a, struct tw_context *ctx, uint32_t timer)
{
	struct master *m = (struct master *)a;

	switch (timer) {
	case TIMER_GATHER:
		servers_due(m, ctx);
		break;
	case TIMER_MOVE:
		m->restart.move_off = false;
		break;
	case TIMER_STUCK:
		tw_stuck_check(m, ctx);
		break;
	case TIMER_HOMELESS:
		m->waits.counting_homes = false;
		tw_say(ctx, TW_WARNING, "shards have had no server for %.0f s: stopping",
		       (double)m->plan->crew.wait / 1e9);
		tw_score_finish(m, ctx, TW_INTERRUPTED);
		return;
	case TIMER_CUT:
		if (m->phase == PHASE_RUN && !m->cuts.making)
			m->wish.cut = true;
		else
			tw_timer(ctx, TIMER_CUT, tw_cut_period(m));
		break;
	case TIMER_LIMIT:
		m->wish.time_up = true;
		break;
	case TIMER_PAUSE:
		waited(m, ctx);
		break;
	default:
		break;
	}
	tw_master_drive(m, ctx);
}

static void master_down(struct tw_actor *a, struct tw_context *ctx, uint32_t node)
{
	struct master *m = (struct master *)a;
	const uint32_t slot = tw_master_slot_at(m, node);

	if (node && node <= m->plan->crew.servers) {
		m->server[node - 1].state = SERVER_AWAY;
		tw_master_lose_shards(m, ctx, node);
	} else if (slot != UINT32_MAX) {
		tw_master_remove(m, ctx, slot, TW_GONE);
	}
	tw_master_drive(m, ctx);
}

static void master_up(struct tw_actor *a, struct tw_context *ctx, uint32_t node, uint32_t boot)
{
	struct master *m = (struct master *)a;
	const uint32_t slot = tw_master_slot_at(m, node);

	if (m->phase == PHASE_OVER)
		return;
	if (node && node <= m->plan->crew.servers) {
		/* a server that lost its memory says so itself; one that did not is told again */
		if (m->server[node - 1].boot == boot) {
			for (uint32_t s = 0; s < m->plan->problem.shards; s++)
				if (m->shard[s].node == node)
					tw_master_resync_shard(m, ctx, s);
		}
	} else if (slot != UINT32_MAX && m->member[slot].boot != boot) {
		tw_master_remove(m, ctx, slot, TW_GONE); /* it lost its memory */
	} else if (slot != UINT32_MAX) {
		tw_master_reconnected(m, ctx, slot);
	}
	tw_master_drive(m, ctx);
}

static void master_saved(struct tw_actor *a, struct tw_context *ctx, uint64_t cut,
			 enum tw_status status)
{
	struct master *m = (struct master *)a;

	tw_cut_saved(m, ctx, cut, status);
	tw_master_drive(m, ctx);
}

static void master_loaded(struct tw_actor *a, struct tw_context *ctx, uint64_t cut,
			  const struct tw_part *parts, size_t count, enum tw_status status)
{
	struct master *m = (struct master *)a;

	tw_cut_loaded(m, ctx, cut, parts, count, status);
	tw_master_drive(m, ctx);
}

static void master_interrupt(struct tw_actor *a, struct tw_context *ctx)
{
	struct master *m = (struct master *)a;

	m->wish.stop = true;
	if (!m->restart.begun) {
		tw_score_finish(m, ctx, TW_INTERRUPTED);
		return;
	}
	tw_master_drive(m, ctx);
}

const struct tw_actor_class tw_master_class = {
	.name = "master",
	.new = master_new,
	.free = master_free,
	.start = master_start,
	.message = master_message,
	.timer = master_timer,
	.saved = master_saved,
	.loaded = master_loaded,
	.down = master_down,
	.up = master_up,
	.interrupt = master_interrupt,
	.waiting = tw_master_waiting,
};
