/* SPDX-License-Identifier: Apache-2.0 */
/* shard.c - one contiguous range of the parameters, and the right to change it.
 *
 *  (1) a version is (incarnation, n); n counts applied updates and never goes back; a shard that is
 *      hosted again begins a new incarnation, and a push on another incarnation is refused and
 *      answered with what there is now.
 *  (2) an answer comes from one version: a snapshot is counted, and written by nobody while held.
 *  (3) a contribution (worker, incarnation, link number) is taken once: an older number is
 *      acknowledged again and not applied, one that leaves a gap is left alone until the sender
 *      fills the gap, so a sender may always resend what was not acknowledged, in order.  What was
 *      closed without being applied is told with every answer.
 *  (4) a slice is applied whole or not at all: it is checked (length, finite values) before.
 *  (5) under round gates only COMMIT applies: what is staged waits for it, whoever dies meanwhile.
 *      So it is where the master judges each contribution.
 *  (6) what is older than the shard's generation is fenced.
 *  (7) it obeys the newest master only.  What another replica says (COPY) is of that master, or
 *      is no news of it, unless none was heard of yet.
 *  (8) while a worker is active, clocks.seen.least is the smallest clock of an active one.  A
 *      worker's clock is its own word and the same on all shards: clocks that shards count by
 *      themselves differ after one of them was lost, and two workers then wait for each other, each
 *      on another shard.
 *  (9) a worker speaks from its own node only.  One that no view has named yet is believed, unless
 *      its incarnation is of a master yet to come, or of one before the master whose full view is
 *      here; a full view has the last word.
 *  (10) a view that the master wants for an evaluation is kept at the first version that has the
 *      rounds and the samples it asked for, and what is told of it is what that version has.
 *
 *  (11) what a message costs does not grow with the number of workers.  Exceptions are a full view
 *      and a new master, which are about all of them, the commit of a round, which costs what
 *      the round has, and an update that makes readers begin again: it tells each of them, once
 *      for each time that it was answered.
 *
 * The list is the whole shard's.  Here messages are told apart; each goes to the file that sees to
 * it: shard_push.c, shard_pull.c, shard_members.c,
 * or to the duty that hears it.
 *
 * See docs/RATIONALE.md for why a shard, and not a chunk, is the unit of all this. */
#include "node/shard/shard.h"
#include "base/fetch.h"
#include "node/duty/batch/batch.h"
#include "node/duty/checkpoint/checkpoint.h"
#include "node/duty/eval/eval.h"
#include "node/duty/host/host.h"
#include "node/duty/mix/mix.h"
#include "node/duty/reduce/reduce.h"
#include "node/duty/round/round.h"
#include "node/duty/verdict/verdict.h"
#include "node/well_formed.h"

/* --- the actor ---------------------------------------------------------------------------- */

static const struct tw_duty *const duties[] = {
	&tw_eval_shard,   &tw_batch_shard, &tw_checkpoint_shard,
	&tw_reduce_shard, &tw_round_shard, &tw_verdict_shard,
	&tw_mix_shard,    &tw_host_shard,  NULL
};

/* Another replica confirms after so many contributions, at the latest, before it says more: 32, and
 * as many once more after a connection was made anew. */
#define EARLY_EACH 96

static struct tw_actor *shard_new(struct tw_heap *heap, const void *arg)
{
	const struct tw_role_arg *a = arg;
	struct shard *s = tw_heap_zeros(heap, sizeof *s + tw_duties_bytes(duties, a->plan));

	if (!s)
		return NULL;
	tw_duties_place(&s->duties, s, duties, a->plan, s + 1);
	s->plan = a->plan;
	s->taker = tw_duties_seat(&s->duties);
	if (!s->taker)
		s->taker = &tw_taker_bucket;
	s->heap = heap;
	s->index = a->index;
	tw_early_init(&s->early, a->plan->crew.servers + a->plan->crew.workers + 1, EARLY_EACH);
	tw_slice_empty(&s->slice, a->plan, heap, a->index);
	return (struct tw_actor *)s;
}

static void shard_free(struct tw_actor *a)
{
	struct shard *s = (struct shard *)a;

	if (!s)
		return;
	tw_host_shard_let_go(s);
	s->heap->put(s->heap, s);
}

static void shard_start(struct tw_actor *a, struct tw_context *ctx)
{
	(void)a;
	(void)ctx;
}

/* Of what a shard may say to itself, it hears what was relayed. */
static bool shard_may_hear(const struct tw_msg *m, const struct tw_context *ctx)
{
	return tw_hears(ctx, m) && (m->from.role != TW_SHARD || m->h.type >= TW_REDUCE ||
				    (m->h.flags & TW_FLAG_RELAYED));
}

/* A worker's message touches what is known of that worker. */
static void shard_soon(const struct tw_actor *a, const struct tw_msg *m)
{
	const struct shard *s = (const struct shard *)a;

	if (!m || !s->members.worker || m->from.role != TW_WORKER ||
	    tw_shard_sender(s, m) >= s->members.senders)
		return;
	tw_fetch(tw_shard_worker(s, tw_shard_sender(s, m)), sizeof(struct shard_worker));
	tw_fetch(m->payload, sizeof *m->payload + 64);
	tw_fetch(s->bucket.spare, sizeof(struct contribution));
}

/* (7): what an earlier master said may still be on its way when a later one has asked; so may what
 * the server of this node hands on. */
static bool shard_obeys(struct shard *s, const struct tw_msg *m)
{
	const uint32_t term = m->h.incarnation;

	if (m->from.role != TW_MASTER && m->from.role != TW_SERVER)
		return true;
	if (term < s->fence.term || (m->h.type == TW_COPY && s->fence.term && term > s->fence.term))
		return false;
	/* a COPY says so itself when it is taken */
	if (m->h.type != TW_COPY)
		s->fence.term = term;
	return true;
}

/* Is it for who we are now?  What the master says comes in order.  What another replica says may
 * come before the master has told us of its generation, or with whom we act together. */
static enum tw_door may_wait(const void *actor, const struct tw_msg *m)
{
	const struct shard *s = actor;
	const uint64_t now = s->fence.generation;

	switch (m->h.type) {
	case TW_COMMIT:
	case TW_FORM:
	case TW_IDLE:
	case TW_PIN:
	case TW_SNAP:
	case TW_VEC:
		return s->hosted && m->h.view == now ? TW_DOOR_NOW : TW_DOOR_VOID;
	case TW_REDUCE:
	case TW_SPREAD:
	case TW_HEARD:
	case TW_MIX:
		if (!s->hosted || !tw_shard_is_replica(s) || m->from.index != s->index ||
		    m->h.view < now)
			return TW_DOOR_VOID;
		if (m->h.view > now)
			return TW_DOOR_EARLY;
		if (m->h.type == TW_REDUCE) /* pieces wait for their sum in the reducer */
			return TW_DOOR_NOW;
		return !tw_shard_is_loose(s)  ? TW_DOOR_VOID
		       : !tw_mix_is_formed(s) ? TW_DOOR_EARLY
					      : TW_DOOR_NOW;
	default:
		return TW_DOOR_NOW;
	}
}

/* The door.  Of a worker: may it speak, as whom it does?  One that may not is turned away here. */
static enum tw_door shard_door(struct shard *s, struct tw_context *ctx, const struct tw_msg *m)
{
	if (m->h.type != TW_PUSH && m->h.type != TW_PULL)
		return may_wait(s, m);
	return tw_shard_admitted(s, ctx, tw_shard_sender(s, m), m) ? TW_DOOR_NOW : TW_DOOR_VOID;
}

/* Who they are, the world hears too: not from what is too old. */
static void hear_members(const struct shard *s, struct tw_context *ctx, const struct tw_msg *m)
{
	if (m->h.view >= s->fence.generation)
		tw_members(ctx, m->tail ? (const void *)m->tail->data : NULL,
			   m->h.tail / sizeof(struct tw_member));
}

static void hear(void *actor, struct tw_context *ctx, const struct tw_msg *m)
{
	struct shard *s = actor;

	switch (m->h.type) {
	case TW_PUSH:
		s->taker->push(s, ctx, tw_shard_sender(s, m), m);
		break;
	case TW_PULL:
		tw_shard_pull(s, ctx, m);
		break;
	case TW_COMMIT:
		if (s->taker->commit)
			s->taker->commit(s, ctx, m);
		tw_host_shard_give_late(s, ctx);
		break;
	case TW_VIEW:
		tw_shard_view(s, ctx, m);
		break;
	case TW_IDLE:
		tw_shard_idle(s, ctx, m);
		break;
	case TW_HOST:
		tw_host_shard_host(s, ctx, m);
		break;
	case TW_ASK:
		if (m->h.flags & TW_FLAG_HELD) {
			tw_shard_tell_wait(s, ctx, m);
			break;
		}
		tw_host_shard_tell(s, ctx, m->b.ask.number, m->h.flags & TW_FLAG_FREE);
		tw_verdict_shard_tell_again(s, ctx);
		break;
	case TW_FORM:
	case TW_REDUCE:
	case TW_HEARD:
	case TW_MIX:
	case TW_PIN:
	case TW_SNAP:
	case TW_VEC:
		tw_duties_message(&s->duties, ctx, m);
		break;
	case TW_GIVE:
		tw_host_shard_give(s, ctx, m);
		break;
	case TW_COPY:
		tw_host_shard_copy(s, ctx, m);
		break;
	case TW_SPREAD:
		if (s->taker->other)
			s->taker->other(s, ctx, m);
		break;
	default:
		s->slice.tally.refused++;
	}
}

static void shard_message(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	struct shard *s = (struct shard *)a;

	/* only a lock-free shard may say these, and only to itself */
	if (!tw_shard_lockfree(s) || m->from.node != ctx->self.node || m->from.role != TW_SHARD ||
	    m->from.index != ctx->self.index || m->h.tail != sizeof(struct tw_addr))
		m->h.flags &= ~(uint32_t)(TW_FLAG_RELAYED | TW_FLAG_APPLIED);
	if (!shard_may_hear(m, ctx) || !tw_well_formed(s->plan, m)) {
		s->slice.tally.refused++;
		return;
	}
	if (!shard_obeys(s, m))
		return;
	if (m->h.type == TW_VIEW || m->h.type == TW_FORM)
		hear_members(s, ctx, m);
	switch (shard_door(s, ctx, m)) {
	case TW_DOOR_NOW:
		hear(s, ctx, m);
		break;
	case TW_DOOR_EARLY:
		if (!tw_early_keep(&s->early, s->heap, m))
			s->slice.tally.refused++;
		return;
	case TW_DOOR_VOID:
		return;
	}
	/* it may be what others have waited for */
	if (s->early.count && (m->from.role == TW_MASTER || m->from.role == TW_SERVER))
		tw_early_hear(&s->early, s->heap, s, ctx, may_wait, hear);
}

static void shard_up(struct tw_actor *a, struct tw_context *ctx, uint32_t node, uint32_t boot)
{
	struct shard *s = (struct shard *)a;

	if (node != 0) {
		if (s->hosted)
			tw_duties_node(&s->duties, ctx, node);
		return;
	}
	if (boot > s->fence.term)
		s->fence.term = boot;
	if (!s->hosted)
		return;
	tw_host_shard_tell(s, ctx, 0, 0);
	tw_duties_home(&s->duties, ctx, s->index);
}

static void shard_timer(struct tw_actor *a, struct tw_context *ctx, uint32_t timer)
{
	(void)a;
	(void)ctx;
	(void)timer;
}

static void shard_down(struct tw_actor *a, struct tw_context *ctx, uint32_t node)
{
	(void)a;
	(void)ctx;
	(void)node;
}

static bool shard_waiting(const struct tw_actor *a, struct tw_wait *out)
{
	return tw_shard_waits((const struct shard *)a, out);
}

static void shard_summed(struct tw_actor *a, struct tw_context *ctx, uint64_t key,
			 struct tw_block *sum, struct tw_block *more)
{
	tw_reduce_summed((struct shard *)a, ctx, key, sum, more);
}

const struct tw_actor_class tw_shard_class = {
	.name = "shard",
	.new = shard_new,
	.free = shard_free,
	.start = shard_start,
	.message = shard_message,
	.soon = shard_soon,
	.timer = shard_timer,
	.summed = shard_summed,
	.down = shard_down,
	.up = shard_up,
	.waiting = shard_waiting,
	.shared = tw_shard_shared,
};
