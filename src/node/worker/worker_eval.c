/* SPDX-License-Identifier: Apache-2.0 */
/* worker_eval.c - a worker's evaluation: a range of the test samples at a pinned version.
 *
 *  (1) it reads views of its own, so a step may be computed and fetched for at the same time.
 *  (2) it takes no time, so being asked may overtake a welcome, and the next may be asked while one
 *      is under way. */
#include "node/worker/worker.h"

enum tw_status tw_eval_open(struct worker *w)
{
	w->eval.piece = tw_heap_zeros(w->heap, w->exchange.holders * sizeof *w->eval.piece);
	return w->eval.piece ? TW_OK : TW_NO_MEMORY;
}

static void drop_pinned(struct worker *w)
{
	for (uint32_t k = 0; k < w->exchange.holders; k++) {
		tw_block_drop(w->shard[k].pinned);
		w->shard[k].pinned = NULL;
	}
}

void tw_eval_close(struct worker *w)
{
	if (w->shard)
		drop_pinned(w);
	tw_block_drop(w->eval.in);
	tw_block_drop(w->eval.out);
	w->heap->put(w->heap, w->eval.piece);
}

void tw_worker_ask_pinned(struct worker *w, struct tw_context *ctx)
{
	if (!w->eval.wanted || w->eval.busy || w->eval.incarnation != w->me.id.incarnation)
		return;
	drop_pinned(w);
	for (uint32_t k = 0; k < w->exchange.holders; k++)
		/* it is asked again when the next places are known */
		if (w->exchange.holder[k].known &&
		    !tw_exchange_pull_pinned(&w->exchange, ctx, &w->exchange.holder[k],
					     w->eval.what.pin))
			return;
}

void tw_worker_evaluate(struct worker *w, struct tw_context *ctx, const struct tw_msg *m)
{
	const bool early = !tw_worker_is_member(w) || m->h.incarnation > w->me.id.incarnation;

	if (!early && m->h.incarnation != w->me.id.incarnation)
		return;
	if (!m->b.eval.count || m->b.eval.from > w->plan->problem.tests ||
	    m->b.eval.count > w->plan->problem.tests - m->b.eval.from)
		return;
	if (!early && m->h.view > w->me.id.generation)
		tw_worker_reset(w, ctx, m->h.view);
	w->eval.what = m->b.eval;
	w->eval.incarnation = m->h.incarnation;
	w->eval.wanted = true;
	if (!early) /* (2) */
		tw_worker_ask_pinned(w, ctx);
}

/* One stage of it: from what the cell before has computed to what the next one needs. */
static bool eval_stage(struct worker *w, struct tw_context *ctx)
{
	const struct worker_stage *s = w->stage;
	const bool last = s->post.stage + 1 == s->shape.stages;
	struct worker_evaluation *e = &w->eval;

	tw_block_drop(e->out);
	e->out = last ? NULL
		      : tw_block_new(w->heap,
				     sizeof(float) * tw_model_cut_floats(s->plan->out,
									 e->what.count, false));
	tw_block_drop(e->in);
	e->in = tw_block_keep(s->test_x);
	if (!last && !e->out) {
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for an evaluation");
		return false;
	}
	e->compute.pass = (struct tw_pass){ .kind = TW_PASS_EVALUATE,
					    .first = s->plan->first,
					    .last = s->plan->last,
					    .x = e->in ? tw_block_floats(e->in) : NULL,
					    .y = e->out ? tw_block_floats(e->out) : NULL };
	e->compute.scratch = s->plan->scratch;
	return true;
}

/* Is every view here?  One that was not is asked first, so that all answers cost two walks. */
static bool all_pinned(struct worker *w)
{
	for (uint32_t k = 0; k < w->exchange.holders; k++) {
		if (!w->shard[w->eval.lacks].pinned)
			return false;
		if (++w->eval.lacks == w->exchange.holders)
			w->eval.lacks = 0;
	}
	return true;
}

static void start_eval(struct worker *w, struct tw_context *ctx)
{
	struct worker_evaluation *e = &w->eval;

	if (!all_pinned(w))
		return;
	for (uint32_t k = 0; k < w->exchange.holders; k++) {
		const struct tw_holding *r = &w->exchange.holder[k].range;

		e->piece[k] =
			(struct tw_piece){ tw_block_floats(w->shard[k].pinned), r->from, r->n };
	}
	e->compute = (struct tw_compute){ .pass.kind = TW_PASS_EVALUATE,
					  .in = { .from = e->what.from,
						  .count = e->what.count,
						  .piece = e->piece,
						  .pieces = w->exchange.holders },
					  .id = e->what.pin };
	if (w->stage && !eval_stage(w, ctx))
		return;
	e->compute.in.cancel = &e->compute.cancel;
	e->busy = true;
	ctx->world->compute(ctx, &e->compute);
}

void tw_worker_pinned(struct worker *w, struct tw_context *ctx, struct holder *h,
		      const struct tw_msg *m)
{
	enum tw_status st;

	if (!w->eval.wanted || m->b.params.pin != w->eval.what.pin || w->eval.busy)
		return;
	st = tw_exchange_decode(&w->exchange, h, m,
				&w->shard[tw_exchange_index(&w->exchange, h)].pinned);
	if (st == TW_NO_MEMORY)
		tw_give_up(ctx, st, "no memory for a pinned version");
	else if (st == TW_OK)
		start_eval(w, ctx);
	else
		tw_say(ctx, TW_WARNING, "a pinned version of shard %u is malformed", h->shard);
}

void tw_worker_evaluated(struct worker *w, struct tw_context *ctx)
{
	struct worker_evaluation *e = &w->eval;
	const struct tw_compute *c = &e->compute;
	struct tw_msg *m;

	e->busy = false;
	if (!e->wanted || c->id != e->what.pin || c->in.from != e->what.from) {
		tw_worker_ask_pinned(w, ctx);
		return;
	}
	if (c->status != TW_OK) {
		if (c->status != TW_CANCELLED)
			tw_give_up(ctx, c->status, "the evaluation failed: %s",
				   tw_status_name(c->status));
		return;
	}
	e->wanted = false;
	drop_pinned(w);
	if (w->stage)
		tw_stage_passed(w, ctx, &e->what);
	if (w->stage && e->out) {
		tw_stage_send_act(w, ctx,
				  &(struct tw_body_act){ .pin = e->what.pin,
							 .from = e->what.from,
							 .nominal = 1,
							 .count = e->what.count },
				  e->out);
		tw_block_drop(e->out);
		e->out = NULL;
		return;
	}
	m = tw_worker_to_master(w, ctx, TW_RESULT);
	if (!m)
		return;
	m->h.flags = TW_FLAG_FREE;
	m->b.result = (struct tw_body_result){ .pin = e->what.pin,
					       .from = e->what.from,
					       .count = c->score.samples,
					       .loss = c->score.loss,
					       .correct = c->score.correct };
	tw_send(ctx, m);
}
