/* SPDX-License-Identifier: Apache-2.0 */
/* eval.c - a worker's evaluation: a range of the test samples at a pinned version.
 *
 *  (1) it reads views of its own, so a step may be computed and fetched for at the same time.
 *  (2) it takes no time, so being asked may overtake a welcome, and the next may be asked while one
 *      is under way. */
#include "node/worker.h"

static void drop_eval(struct worker *w)
{
	for (uint32_t s = 0; s < w->plan->problem.shards; s++) {
		tw_block_drop(w->eval_view[s]);
		w->eval_view[s] = NULL;
	}
}

void tw_worker_ask_pinned(struct worker *w, struct tw_context *ctx)
{
	if (!w->eval_wanted || w->eval_busy)
		return;
	drop_eval(w);
	for (uint32_t s = 0; s < w->plan->problem.shards; s++) {
		struct tw_msg *m = tw_msg_to(ctx, w->link[s].addr, TW_PULL);

		if (!m)
			return;
		m->h.from = w->slot;
		m->h.incarnation = w->incarnation;
		m->h.view = w->generation;
		m->h.shard = s;
		m->h.flags = TW_FLAG_FREE;
		m->b.pull.pin = w->eval_what.pin;
		tw_send(ctx, m);
	}
}

void tw_worker_evaluate(struct worker *w, struct tw_context *ctx, const struct tw_msg *m)
{
	const bool early = !w->welcomed || m->h.incarnation > w->incarnation;

	if (!early && m->h.incarnation != w->incarnation)
		return;
	if (!m->b.eval.count || m->b.eval.from > w->plan->problem.tests ||
	    m->b.eval.count > w->plan->problem.tests - m->b.eval.from)
		return;
	if (!early && m->h.view > w->generation)
		tw_worker_reset(w, ctx, m->h.view);
	w->eval_what = m->b.eval;
	w->eval_incarnation = m->h.incarnation;
	w->eval_wanted = true;
	if (!early) /* (2) */
		tw_worker_ask_pinned(w, ctx);
}

static void start_eval(struct worker *w, struct tw_context *ctx)
{
	const struct tw_plan *p = w->plan;

	for (uint32_t s = 0; s < p->problem.shards; s++) {
		if (!w->eval_view[s])
			return;
		w->eval_piece[s] =
			(struct tw_piece){ .at = tw_block_floats(w->eval_view[s]),
					   .from = p->problem.border[s],
					   .n = p->problem.border[s + 1] - p->problem.border[s] };
	}
	w->eval = (struct tw_compute){ .evaluate = true,
				       .in = { .from = w->eval_what.from,
					       .count = w->eval_what.count,
					       .piece = w->eval_piece,
					       .pieces = p->problem.shards },
				       .id = w->eval_what.pin };
	w->eval.in.cancel = &w->eval.cancel;
	w->eval_busy = true;
	ctx->world->compute(ctx, &w->eval);
}

void tw_worker_pinned(struct worker *w, struct tw_context *ctx, const struct tw_msg *m)
{
	const uint32_t shard = m->h.shard;
	enum tw_status st;

	if (!w->eval_wanted || m->b.params.pin != w->eval_what.pin || w->eval_busy)
		return;
	st = tw_worker_take_view(w, shard, m, &w->eval_view[shard]);
	if (st == TW_NO_MEMORY)
		tw_give_up(ctx, st, "no memory for a pinned version");
	else if (st == TW_OK)
		start_eval(w, ctx);
	else
		tw_say(ctx, TW_WARNING, "a pinned version of shard %u is malformed", shard);
}

void tw_worker_evaluated(struct worker *w, struct tw_context *ctx)
{
	struct tw_msg *m;

	w->eval_busy = false;
	if (!w->eval_wanted || w->eval.id != w->eval_what.pin ||
	    w->eval.in.from != w->eval_what.from) {
		tw_worker_ask_pinned(w, ctx);
		return;
	}
	if (w->eval.status != TW_OK) {
		if (w->eval.status != TW_CANCELLED)
			tw_give_up(ctx, w->eval.status, "the evaluation failed: %s",
				   tw_status_name(w->eval.status));
		return;
	}
	w->eval_wanted = false;
	drop_eval(w);
	m = tw_worker_to_master(w, ctx, TW_RESULT);
	if (!m)
		return;
	m->h.flags = TW_FLAG_FREE;
	m->b.result = (struct tw_body_result){ .pin = w->eval_what.pin,
					       .from = w->eval_what.from,
					       .count = w->eval.score.samples,
					       .loss = w->eval.score.loss,
					       .correct = w->eval.score.correct };
	tw_send(ctx, m);
}
