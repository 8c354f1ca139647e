/* SPDX-License-Identifier: Apache-2.0 */
/* master.c - the master as an actor: what it is told.
 *
 * Handlers only record what happened; tw_master_drive (master_phases.c) then does what is due. */
#include "node/master/master.h"
#include "base/fetch.h"
#include "node/duty/samples/samples.h"
#include "node/well_formed.h"

static const struct tw_duty *const duties[] = { &tw_eval_master,       &tw_figures_master,
						&tw_batch_master,      &tw_round_master,
						&tw_verdict_master,    &tw_finish_master,
						&tw_checkpoint_master, &tw_online_master,
						&tw_watch_master,      &tw_mix_master,
						&tw_host_master,       &tw_deal_master,
						&tw_samples_master,    NULL };

static struct tw_actor *master_new(struct tw_heap *heap, const void *arg)
{
	const struct tw_role_arg *a = arg;
	const struct tw_plan *p = a->plan;
	struct master *m = tw_heap_zeros(heap, sizeof *m + tw_duties_bytes(duties, p));
	bool all = true;

	if (!m)
		return NULL;
	tw_duties_place(&m->duties, m, duties, p, m + 1);
	m->plan = p;
	m->heap = heap;
	m->dealer = tw_duties_seat(&m->duties);
	m->restart.resume = a->resume;
	m->restart.history = HISTORY_UNKNOWN;
	tw_spans_init(&m->dealing.taken, heap); /* released even if the rest is not there */
	m->member = tw_heap_zeros(heap, p->crew.workers * sizeof *m->member);
	m->shard = tw_heap_zeros(heap, p->problem.shards * sizeof *m->shard);
	m->server = tw_heap_zeros(heap, p->crew.servers * sizeof *m->server);
	all = m->member && m->shard && m->server &&
	      tw_master_members_init(&m->members, heap, p->crew.workers) == TW_OK &&
	      tw_cells_init(m) == TW_OK && tw_duties_open(&m->duties) == TW_OK;
	m->places[SHARD_HOMELESS] = p->problem.shards;
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
		tw_block_drop(i->host);
		m->heap->put(m->heap, i->set);
	}
	tw_duties_close(&m->duties);
	tw_cells_release(m);
	tw_master_members_release(&m->members, m->heap);
	tw_spans_release(&m->dealing.taken);
	void *const plain[] = { m->member, m->shard, m->server };
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
	tw_watch_master_start(m, ctx);
	tw_host_load(m, ctx);
}

/* Each role has its own words, and its own nodes. */
static bool master_may_hear(const struct master *m, const struct tw_context *ctx,
			    const struct tw_msg *msg)
{
	const bool served = tw_plan_holds(m->plan, msg->from.node);
	const bool hello = msg->h.type == TW_HELLO;

	if (!tw_hears(ctx, msg))
		return false;
	switch (msg->from.role) {
	case TW_WORKER:
		return msg->from.node > m->plan->crew.servers &&
		       !(hello && msg->b.hello.role == TW_SERVER);
	case TW_SERVER:
		return served && !tw_plan_holds_by_workers(m->plan) &&
		       !(hello && msg->b.hello.role != TW_SERVER);
	default:
		return served && msg->h.shard == msg->from.index;
	}
}

/* The door: is it of who is there now, in the generation that is agreed?  A worker that is not who
 * it says it is turned away here.  Nothing comes early: all news is the master's. */
static bool master_door(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	bool now = true;

	switch (msg->h.type) {
	case TW_IDLE:
	case TW_DONE:
	case TW_FETCH:
		now = tw_master_from_member(m, ctx, msg) && msg->h.view == m->restart.current;
		break;
	case TW_FIGURES:
	case TW_RESULT:
		now = tw_master_from_member(m, ctx, msg);
		break;
	case TW_BYE:
		now = msg->from.role != TW_WORKER || (msg->h.flags & TW_FLAG_FRESH) ||
		      tw_master_from_member(m, ctx, msg);
		break;
	case TW_REFUSE:
		now = msg->from.role == TW_WORKER ? msg->b.refuse.why == TW_REFUSED_LIES &&
							    tw_master_from_member(m, ctx, msg)
						  : msg->h.view == m->restart.generation;
		break;
	case TW_HAVE:
	case TW_PART:
	case TW_PIN:
	case TW_SCALAR:
		now = msg->h.view == m->restart.generation;
		break;
	default:
		break;
	}
	return now;
}

/* A worker's message, and what a shard has of it, touch that member. */
static void master_soon(const struct tw_actor *a, const struct tw_msg *m)
{
	const struct master *s = (const struct master *)a;
	uint32_t slot;

	if (!m || !s->member)
		return;
	slot = m->from.role == TW_WORKER ? m->h.from : m->b.have.slot;
	if (slot < s->plan->crew.workers)
		tw_fetch(&s->member[slot], sizeof(struct member));
}

/* It asked before it had heard of what it has by now: it will ask again.  One that holds a replica
 * has not heard of the end of a round, or generation, before. */
static bool crossed(const struct master *m, const struct tw_msg *idle)
{
	const uint32_t slot = idle->h.from, lease = idle->b.idle.lease;

	if (tw_master_has_replicas(m))
		return lease != (uint32_t)m->member[slot].held.next;
	return m->dealer->crossed && m->dealer->crossed(m, slot, lease);
}

static void hear(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	switch (msg->h.type) {
	case TW_HELLO:
		if (msg->b.hello.role == TW_SERVER)
			tw_host_server_hello(m, ctx, msg);
		else if ((msg->h.flags & TW_FLAG_FRESH) && tw_plan_is_staged(m->plan))
			tw_cells_admit(m, ctx, msg);
		else if (msg->h.flags & TW_FLAG_FRESH)
			tw_master_admit(m, ctx, msg);
		else
			tw_master_rejoin(m, ctx, msg);
		break;
	case TW_BYE:
		if (msg->from.role == TW_SERVER)
			tw_host_server_leaves(m, ctx, msg);
		else
			tw_master_leaves(m, ctx, msg);
		break;
	case TW_REFUSE:
		if (msg->from.role == TW_WORKER)
			tw_cells_accused(m, ctx, msg);
		else
			tw_master_let_go(m, ctx, msg);
		break;
	case TW_IDLE:
		if (!crossed(m, msg))
			tw_deal_asks(m, msg->h.from);
		break;
	case TW_HAVE:
		if (!(msg->h.flags & TW_FLAG_HELD) && tw_plan_is_loose(m->plan))
			tw_mix_master_have(m, ctx, msg);
		tw_duties_message(&m->duties, ctx, msg);
		break;
	case TW_STATE:
		tw_host_shard_state(m, ctx, msg);
		break;
	case TW_HOSTED:
		tw_host_shard_hosted(m, ctx, msg);
		break;
	case TW_PART:
	case TW_SCALAR:
	case TW_PIN:
	case TW_DONE:
	case TW_FIGURES:
	case TW_FETCH:
	case TW_RESULT:
		tw_duties_message(&m->duties, ctx, msg);
		break;
	default:
		break;
	}
}

static void master_message(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *msg)
{
	struct master *m = (struct master *)a;

	if (m->phase == PHASE_OVER || !master_may_hear(m, ctx, msg) ||
	    !tw_well_formed(m->plan, msg))
		return;
	if (master_door(m, ctx, msg))
		hear(m, ctx, msg);
	tw_master_drive(m, ctx);
}

static void master_timer(struct tw_actor *a, struct tw_context *ctx, uint32_t timer)
{
	struct master *m = (struct master *)a;

	switch (timer) {
	case TIMER_GATHER:
		tw_watch_master_servers_due(m, ctx);
		break;
	case TIMER_MOVE:
		m->restart.move = MOVE_NONE;
		break;
	case TIMER_STUCK:
		tw_watch_master_check(m, ctx);
		break;
	case TIMER_COPY:
		tw_host_bring_again(m);
		break;
	case TIMER_HOMELESS:
		tw_watch_master_homeless(m, ctx);
		return;
	case TIMER_LIMIT:
		tw_wish_put(m, TW_WISH_TIME, true);
		break;
	case TIMER_PAUSE:
		tw_watch_master_waited(m, ctx);
		break;
	default:
		tw_duties_timer(&m->duties, ctx, timer);
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
		tw_host_lose(m, ctx, node);
	} else if (node && m->members.cells.cell) {
		tw_cells_down(m, ctx, node);
		tw_cells_hold(m, ctx, node, 0);
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
					tw_host_resync(m, ctx, s);
		}
	} else if (node && m->members.cells.cell) {
		tw_cells_up(m, ctx, node, boot);
		tw_cells_hold(m, ctx, node, boot);
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

	tw_checkpoint_master_saved(m, ctx, cut, status);
	tw_master_drive(m, ctx);
}

static void master_loaded(struct tw_actor *a, struct tw_context *ctx, uint64_t cut,
			  const struct tw_part *parts, size_t count, enum tw_status status)
{
	struct master *m = (struct master *)a;

	tw_host_loaded(m, ctx, cut, parts, count, status);
	tw_master_drive(m, ctx);
}

static void master_interrupt(struct tw_actor *a, struct tw_context *ctx)
{
	struct master *m = (struct master *)a;

	tw_wish_put(m, TW_WISH_STOP, true);
	if (!m->restart.begun) {
		tw_finish_master_end(m, ctx, TW_INTERRUPTED);
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
	.soon = master_soon,
	.timer = master_timer,
	.saved = master_saved,
	.loaded = master_loaded,
	.down = master_down,
	.up = master_up,
	.interrupt = master_interrupt,
	.waiting = tw_watch_master_waiting,
};
