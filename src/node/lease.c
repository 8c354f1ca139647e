/* SPDX-License-Identifier: Apache-2.0 */
/* lease.c - a worker's leases: what it holds, what is done, and how it gives back the rest.
 *
 *  (1) leases are taken in the order in which they were given, each once.
 *  (2) a lease is done when every shard has closed the contribution with its last sample; it is
 *      told until the master confirms it.
 *  (3) one that drains or leaves pushes what it has computed first; only the rest is given back. */
#include "node/worker.h"

#include <math.h>
#include <string.h>

/* --- held and done -------------------------------------------------------------------------- */

void tw_worker_want(struct worker *w, struct tw_context *ctx)
{
	struct tw_msg *m;

	if (w->asked_lease)
		return;
	m = tw_worker_to_master(w, ctx, TW_IDLE);
	if (!m)
		return;
	m->b.idle = (struct tw_body_idle){ w->slot, w->incarnation, 1, 0 };
	w->asked_lease = true;
	w->since = tw_now(ctx);
	tw_send(ctx, m);
}

static void send_done(struct worker *w, struct tw_context *ctx, const struct done *d)
{
	struct tw_msg *m = tw_worker_to_master(w, ctx, TW_DONE);

	if (!m)
		return;
	m->b.done = (struct tw_body_done){ .lease = d->id,
					   .upto = d->upto,
					   .steps = w->steps,
					   .samples = w->samples,
					   .loss = w->loss,
					   .losses = w->losses };
	w->loss = 0;
	w->losses = 0;
	tw_send(ctx, m);
}

static void *grown(struct worker *w, void *old, uint32_t *room, size_t each)
{
	const uint32_t bigger = *room ? *room * 2 : 8;
	void *fresh = tw_heap_zeros(w->heap, bigger * each);

	if (!fresh)
		return NULL;
	if (old)
		memcpy(fresh, old, *room * each);
	w->heap->put(w->heap, old);
	*room = bigger;
	return fresh;
}

static bool add_done(struct worker *w, struct tw_context *ctx, struct done d)
{
	if (w->done_count == w->done_room) {
		void *bigger = grown(w, w->done, &w->done_room, sizeof *w->done);

		if (!bigger) {
			tw_give_up(ctx, TW_NO_MEMORY, "no memory for leases");
			return false;
		}
		w->done = bigger;
	}
	w->done[w->done_count++] = d;
	return true;
}

void tw_worker_drop_held(struct worker *w, uint32_t k)
{
	memmove(w->held + k, w->held + k + 1, (--w->held_count - k) * sizeof *w->held);
}

/* The last contribution that every shard has closed. */
static uint64_t closed_everywhere(const struct worker *w)
{
	uint64_t least = w->seq;

	for (uint32_t s = 0; s < w->plan->problem.shards; s++)
		if (w->link[s].acked < least)
			least = w->link[s].acked;
	return least;
}

/* (2) */
void tw_worker_closings(struct worker *w, struct tw_context *ctx)
{
	const uint64_t closed = closed_everywhere(w);

	while (w->outs && w->out[0].seq <= closed) {
		const struct outgoing first = w->out[0];

		tw_outgoing_clear(w, &w->out[0]);
		memmove(w->out, w->out + 1, (TW_CREDITS - 1) * sizeof w->out[0]);
		w->out[TW_CREDITS - 1] = first;
		w->outs--;
	}
	if (tw_worker_rounds(w))
		return; /* a round's lease ends with its commit, which the master knows first */
	for (uint32_t k = 0; k < w->held_count;) {
		const struct held h = w->held[k];
		const bool given_back = h.over && w->outs == 0;

		if (!given_back && !(h.closing && h.closing <= closed)) {
			k++;
			continue;
		}
		tw_worker_drop_held(w, k);
		if (!add_done(w, ctx, (struct done){ h.id, h.next }))
			return;
		send_done(w, ctx, &w->done[w->done_count - 1]);
	}
}

struct held *tw_worker_current(struct worker *w)
{
	for (uint32_t k = 0; k < w->held_count; k++)
		if (w->held[k].next < w->held[k].to && !w->held[k].over)
			return &w->held[k];
	return NULL;
}

uint64_t tw_worker_positions_left(const struct worker *w)
{
	uint64_t left = 0;

	for (uint32_t k = 0; k < w->held_count; k++)
		if (!w->held[k].over)
			left += w->held[k].to - w->held[k].next;
	return left;
}

static void confirm(struct worker *w, uint64_t upto)
{
	uint32_t kept = 0;

	for (uint32_t k = 0; k < w->done_count; k++)
		if (w->done[k].id > upto)
			w->done[kept++] = w->done[k];
	w->done_count = kept;
}

static bool add_held(struct worker *w, struct tw_context *ctx, const struct tw_body_lease *b)
{
	if (w->held_count == w->held_room) {
		void *bigger = grown(w, w->held, &w->held_room, sizeof *w->held);

		if (!bigger) {
			tw_give_up(ctx, TW_NO_MEMORY, "no memory for a lease");
			return false;
		}
		w->held = bigger;
	}
	w->held[w->held_count++] = (struct held){ .id = b->range.lease,
						  .from = b->range.from,
						  .to = b->range.from + b->range.count,
						  .next = b->range.from,
						  .round = b->round,
						  .batch = b->batch,
						  .nominal = b->nominal };
	return true;
}

/* A round that is over needs nothing more, unless it is being computed still. */
static void end_rounds(struct worker *w, struct tw_context *ctx)
{
	if (w->busy && w->plan->gate->abandons && w->plan->gate->abandons(w->plan->gate_options)) {
		w->stale = true;
		ctx->world->cancel(ctx, &w->compute);
	}
	for (uint32_t k = w->held_count; k-- > 0;)
		if (!w->busy || w->stale || w->held[k].id != w->compute.id)
			tw_worker_drop_held(w, k);
}

/* A range that can be worked on in steps: inside one epoch of the run. */
static bool workable(const struct worker *w, const struct tw_body_lease *b)
{
	const struct tw_plan *p = w->plan;
	const uint64_t from = b->range.from, count = b->range.count;

	return from < p->dealing.positions && count <= p->dealing.positions - from &&
	       count <= p->problem.samples - from % p->problem.samples && b->batch &&
	       b->nominal > 0 && isfinite(b->nominal);
}

void tw_worker_lease(struct worker *w, struct tw_context *ctx, const struct tw_msg *m)
{
	const struct tw_body_lease *b = &m->b.lease;

	if (!w->welcomed || m->h.incarnation != w->incarnation || m->h.view < w->generation ||
	    (b->range.count && !workable(w, b)))
		return;
	if (m->h.view > w->generation)
		tw_worker_reset(w, ctx, m->h.view);
	confirm(w, b->confirmed);
	if (b->range.count == 0) {
		w->dry = true;
		tw_worker_advance(w, ctx);
		return;
	}
	/* (1): in order, or one that was lost and is sent again would look old; a round's lease
	 * needs none before it */
	if (b->range.lease <= w->last_lease ||
	    (!tw_worker_rounds(w) && b->range.lease != w->last_lease + 1))
		return;
	if (w->dry && (w->plan->gate->traits & TW_GATE_HOLDS)) {
		/* others went on meanwhile: read again, and count from where they are */
		w->clock_known = false;
		w->fetch_due = true;
	}
	w->last_lease = b->range.lease;
	w->asked_lease = w->dry = w->draining = false; /* one sent again ends no drain */
	if (tw_worker_rounds(w))
		end_rounds(w, ctx);
	if (!add_held(w, ctx, b))
		return;
	w->since = tw_now(ctx);
	tw_worker_advance(w, ctx);
}

void tw_worker_resend_leases(struct worker *w, struct tw_context *ctx)
{
	for (uint32_t k = 0; k < w->done_count; k++)
		send_done(w, ctx, &w->done[k]);
	if (w->asked_lease) {
		w->asked_lease = false;
		tw_worker_want(w, ctx);
	}
}

/* --- giving back ---------------------------------------------------------------------------- */

static void goodbye(struct worker *w, struct tw_context *ctx)
{
	struct tw_msg *m = tw_worker_to_master(w, ctx, TW_BYE);

	if (!m)
		return;
	m->h.flags = w->bye;
	tw_send(ctx, m);
}

void tw_worker_go(struct worker *w, struct tw_context *ctx)
{
	w->bye = TW_FLAG_LEAVE | (w->welcomed ? 0 : TW_FLAG_FRESH);
	w->welcomed = false;
	w->left = true;
	goodbye(w, ctx);
	tw_gone(ctx);
}

static void leave(struct worker *w, struct tw_context *ctx)
{
	if (w->outs || w->held_count)
		return;
	if (w->momentum && w->transmitted) {
		tw_step_farewell(w, ctx);
		w->transmitted = false;
		return;
	}
	tw_worker_go(w, ctx);
}

/* (3) */
void tw_worker_give_back(struct worker *w, struct tw_context *ctx)
{
	if (!tw_worker_rounds(w)) {
		tw_step_flush(w, ctx);
		if (w->micros || w->summed)
			return; /* no credit: go on when one comes back */
		for (uint32_t k = 0; k < w->held_count; k++)
			w->held[k].over = true;
		tw_worker_closings(w, ctx);
	} else if (w->leaving) {
		w->held_count = 0;
	}
	if (w->leaving)
		leave(w, ctx);
}

void tw_worker_leave_again(struct worker *w, struct tw_context *ctx)
{
	for (uint32_t k = 0; k < w->done_count; k++)
		send_done(w, ctx, &w->done[k]);
	goodbye(w, ctx);
}
