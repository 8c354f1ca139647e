/* SPDX-License-Identifier: Apache-2.0 */
/* stage_deal.c - the first cell of a worker: which samples are in the next micro-batch, which lane
 * computes it, and when there are no more; (9) in README.md. */
#include "node/duty/stage/stage_state.h"
#include "node/worker/worker.h"

bool tw_stage_stops(const struct worker *w)
{
	return w->leases.draining || w->me.state == WORKER_LEAVING;
}

/* A round needs whole groups: who leaves completes the one that it has begun. */
static bool begins_nothing(const struct worker *w)
{
	const struct stage_worker *s = w->stage;
	const bool within = tw_worker_rounds(w) && s->deal.next % s->shape.micros != 0;

	return tw_stage_stops(w) && !(within && w->me.state == WORKER_LEAVING);
}

/* The stream has no more than these micro-batches. */
static void end_at(struct worker *w, struct tw_context *ctx, uint64_t total)
{
	w->stage->total = total;
	tw_stage_send_end(w, ctx);
}

/* Nothing more is begun in this stream. */
static void end_stream(struct worker *w, struct tw_context *ctx)
{
	struct stage_worker *s = w->stage;

	if (s->deal.next && s->total == UINT64_MAX)
		end_at(w, ctx, s->deal.next);
}

/* There is no lease to take samples of.  A stream ends where nobody knows when the next one comes,
 * or where the next one is of another group. */
static void without_lease(struct worker *w, struct tw_context *ctx)
{
	const struct stage_worker *s = w->stage;
	const bool rounds = tw_worker_rounds(w), stops = tw_stage_stops(w);

	if (rounds ? s->deal.next % s->shape.micros != 0 || w->me.state == WORKER_LEAVING
		   : w->leases.dry || stops)
		end_stream(w, ctx);
	if (!stops && (!rounds || !w->exchange.outs))
		tw_worker_want(w, ctx);
}

/* A contribution names TW_RANGES ranges at most: a group that has so many ends there.  Groups of
 * lanes are small enough (spec/stages.c). */
static bool is_scattered(struct worker *w, uint64_t lease)
{
	struct stage_worker *s = w->stage;
	struct stage_dealing *d = &s->deal;

	if (d->next % s->shape.micros == 0)
		d->ranges = 0;
	if (!d->ranges || d->range_lease != lease)
		d->ranges++;
	d->range_lease = lease;
	return d->ranges >= TW_RANGES && s->shape.micros > 1 && s->cells == s->shape.stages;
}

/* The next samples of the leases; false: there are none now. */
static bool next_samples(struct worker *w, struct tw_context *ctx, struct tw_body_act *out)
{
	const uint64_t samples = w->plan->problem.samples;
	struct held *h = begins_nothing(w) ? NULL : tw_worker_current(w);
	uint64_t most;

	if (!h) {
		without_lease(w, ctx);
		return false;
	}
	most = samples - h->next % samples; /* no batch is of two epochs */
	most = most < h->to - h->next ? most : h->to - h->next;
	*out = (struct tw_body_act){ .stream = w->stage->stream,
				     .micro = w->stage->deal.next,
				     .from = h->next,
				     .round = h->round,
				     .nominal = h->nominal,
				     .count = most < h->batch ? (uint32_t)most : h->batch,
				     .lease = (uint32_t)h->id };
	out->last = out->from + out->count == h->to;
	if (tw_worker_rounds(w))
		out->group = (uint32_t)((h->to - h->from + h->batch - 1) / h->batch);
	return true;
}

/* May one more be on its way? */
static bool has_room(const struct stage_worker *s)
{
	return s->deal.next < s->deal.back + s->deal.span && s->deal.next < s->total;
}

bool tw_stage_take_samples(struct worker *w, struct tw_context *ctx, uint64_t micro,
			   struct flight *f)
{
	tw_stage_deal_others(w, ctx);
	if (w->stage->deal.next != micro || !has_room(w->stage))
		return false;
	f->known = next_samples(w, ctx, &f->what);
	return f->known;
}

void tw_stage_samples_begun(struct worker *w, struct tw_context *ctx,
			    const struct tw_body_act *what)
{
	struct stage_dealing *d = &w->stage->deal;
	struct held *h = tw_worker_current(w);
	const bool scattered = is_scattered(w, h->id);

	d->of[d->next++ % d->span] = (struct dealt){ .what = *what };
	h->next += what->count;
	if (what->last)
		h->closing = tw_stage_mark(what->stream, what->micro + 1);
	if (scattered)
		end_at(w, ctx, d->next);
	if (!tw_worker_rounds(w) && tw_worker_positions_left(w) <= h->batch)
		tw_worker_want(w, ctx);
	tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_STEP,
					.slot = w->me.id.slot,
					.incarnation = w->me.id.incarnation,
					.step.clock = w->exchange.seq,
					.from = what->from,
					.count = what->count });
}

void tw_stage_deal_others(struct worker *w, struct tw_context *ctx)
{
	struct stage_worker *s = w->stage;
	struct tw_body_act what;

	while (!tw_pipe_is_own(&s->post, s->deal.next) && has_room(s) &&
	       next_samples(w, ctx, &what)) {
		tw_stage_send_samples(w, ctx, &what);
		tw_stage_samples_begun(w, ctx, &what);
	}
}

bool tw_stage_is_back(struct worker *w, struct tw_context *ctx, uint64_t micro, double loss)
{
	struct stage_dealing *d = &w->stage->deal;
	struct dealt *one = &d->of[micro % d->span];

	if (micro < d->back || micro >= d->next || one->back)
		return false;
	one->back = true;
	tw_step_count(w, ctx, one->what.from, one->what.count, loss);
	while (d->back < d->next && d->of[d->back % d->span].back)
		d->back++;
	return true;
}
