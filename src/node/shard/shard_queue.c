/* SPDX-License-Identifier: Apache-2.0 */
/* shard_queue.c - requests that wait until the gate, or the round, lets them be answered.
 *
 *  (1) a worker has one request parked at most; the queue has the parked, in the order in which
 *      they were parked first.
 *  (2) unless `due` is set, or the clocks rose, no parked request may go.  So looking for those
 *      that may costs nothing where nothing has changed.
 *  (3) the request of a worker that is in no view any more is put aside.  The worker may be back as
 *      it was, where the next master just had not heard of it; it would not ask again. */
#include "node/shard/shard.h"
#include "base/fetch.h"

bool tw_shard_outdated(const struct shard_worker *g, uint64_t number)
{
	return g->request.parked && number < g->request.number;
}

bool tw_shard_may_read(const struct shard *s, uint32_t slot, uint64_t round, uint32_t *whom)
{
	const struct tw_gate *gate = s->plan->gate;

	*whom = UINT32_MAX;
	if (tw_shard_rounds(s))
		return s->slice.round >= round;
	if (s->taker->full && s->taker->full(s, whom))
		return false;
	return !gate->may_read || !tw_plan_begins_with(s->plan, s->index) ||
	       gate->may_read(s->plan->gate_options, &s->clocks.seen, s->clocks.of[slot].at, whom);
}

/* The worker that is `link` in the list, or NULL. */
static struct shard_worker_request *linked(const struct shard *s, uint32_t link)
{
	return link ? &s->members.worker[link - 1].request : NULL;
}

static void append(struct shard *s, uint32_t slot)
{
	struct shard_worker_request *r = linked(s, slot + 1), *last = linked(s, s->queue.last);

	r->parked = true;
	r->before = s->queue.last;
	r->after = 0;
	if (last)
		last->after = slot + 1;
	else
		s->queue.first = slot + 1;
	s->queue.last = slot + 1;
}

static void detach(struct shard *s, uint32_t slot)
{
	struct shard_worker_request *r = linked(s, slot + 1);
	struct shard_worker_request *before = linked(s, r->before), *after = linked(s, r->after);

	*(before ? &before->after : &s->queue.first) = r->after;
	*(after ? &after->before : &s->queue.last) = r->before;
	r->parked = false;
	r->before = r->after = 0;
}

void tw_shard_park(struct shard *s, struct tw_context *ctx, uint32_t slot, uint64_t number,
		   uint64_t round)
{
	struct shard_worker_request *r = linked(s, slot + 1);
	uint32_t whom;

	if (!r->parked) {
		r->since = tw_now(ctx);
		append(s, slot);
	}
	r->number = number;
	r->round = round;
	r->aside = false;
	r->have = NO_VERSION;
	if (tw_shard_may_read(s, slot, round, &whom)) /* (2) */
		s->queue.due = true;
}

void tw_shard_unpark(struct shard *s, uint32_t slot)
{
	struct shard_worker_request *r = linked(s, slot + 1);

	if (r->parked)
		detach(s, slot);
	r->aside = false;
}

void tw_shard_put_aside(struct shard *s, uint32_t slot)
{
	struct shard_worker_request *r = linked(s, slot + 1);

	if (!r->parked)
		return;
	detach(s, slot);
	r->aside = true;
}

void tw_shard_park_again(struct shard *s, struct tw_context *ctx, uint32_t slot)
{
	const struct shard_worker_request *r = linked(s, slot + 1);

	if (r->aside)
		tw_shard_park(s, ctx, slot, r->number, r->round);
}

/* Move those that may go from the queue to a list of their own; returns the first. */
static uint32_t take_due(struct shard *s)
{
	uint32_t first = 0, *end = &first, next, whom;

	for (uint32_t link = s->queue.first; link; link = next) {
		struct shard_worker_request *r = linked(s, link);

		next = r->after;
		if (!tw_shard_may_read(s, link - 1, r->round, &whom))
			continue;
		detach(s, link - 1);
		*end = link;
		end = &r->after;
	}
	return first;
}

void tw_shard_release(struct shard *s, struct tw_context *ctx)
{
	uint32_t link, next;

	if (!s->queue.due && !s->clocks.rose)
		return;
	s->queue.due = s->clocks.rose = false;
	for (link = take_due(s); link; link = next) {
		struct shard_worker_request *r = linked(s, link);

		next = r->after;
		r->after = 0;
		if (next)
			tw_fetch(tw_shard_worker(s, next - 1), sizeof(struct shard_worker));
		if (r->have == s->slice.version.n && !s->slice.view.moved)
			tw_shard_answer_unchanged(s, ctx, link - 1, r->number);
		else
			tw_shard_answer(s, ctx, link - 1, r->number, 0);
	}
}

/* For whom the oldest request waits. */
static bool oldest_waits(const struct shard *s, struct tw_wait *out)
{
	const uint32_t slot = s->queue.first - 1;
	const struct shard_worker_request *r = linked(s, s->queue.first);
	uint32_t whom;

	if (!r)
		return false;
	tw_shard_may_read(s, slot, r->round, &whom);
	*out = (struct tw_wait){
		.slot = whom,
		.step = s->slice.round,
		.since = r->since,
		.whom = { whom == UINT32_MAX ? 0 : tw_shard_worker(s, whom)->addr.node,
			  whom == UINT32_MAX ? TW_MASTER : TW_WORKER, 0 },
		.why = whom == UINT32_MAX ? "the commit of the round" : "its next contribution"
	};
	return true;
}

bool tw_shard_waits(const struct shard *s, struct tw_wait *out)
{
	return s->taker->waits ? s->taker->waits(s, out) : oldest_waits(s, out);
}

void tw_shard_tell_wait(struct shard *s, struct tw_context *ctx, const struct tw_msg *m)
{
	struct tw_wait wait = { .slot = UINT32_MAX };
	uint32_t depth = 0;
	struct tw_msg *out;

	if (!s->hosted || m->h.view != s->fence.generation)
		return;
	if (s->taker->held_by)
		s->taker->held_by(s, m->b.ask.number, &wait, &depth);
	else
		oldest_waits(s, &wait);
	out = tw_shard_to_master(s, ctx, TW_HAVE);
	if (!out)
		return;
	out->h.flags = TW_FLAG_HELD;
	out->b.have = (struct tw_body_have){
		.round = s->slice.history.contributions,
		.slot = wait.slot,
		.steps = depth,
		.loss = wait.since > 0 ? (double)(tw_now(ctx) - wait.since) : 0.0,
		.attempt = (uint32_t)m->b.ask.number,
	};
	tw_send(ctx, out);
}
