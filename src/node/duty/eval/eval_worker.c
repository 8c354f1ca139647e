/* SPDX-License-Identifier: Apache-2.0 */
/* eval_worker.c - the worker's side of an evaluation: it fetches the views, scores a range of the
 * test samples on them, and tells the master, or passes on what the next cell needs.  The numbers
 * in brackets are those of README.md. */
#include "node/duty/eval/eval.h"
#include "node/kernel/duty.h"
#include "node/worker/worker.h"

#include <stddef.h>

/* What a worker needs from its first evaluation on: most workers of a large cluster never get
 * one. */
struct scoring {
	struct tw_compute compute;
	uint32_t lacks;            /* a holder whose view was not here */
	struct tw_block *in, *out; /* a stage's, while it computes: what crosses its cuts */
	struct tw_block **pinned;  /* by holder: its view ... */
	struct tw_piece piece[];   /* ... as the computation reads it */
};

/* The next evaluation may be wanted while one is under way. */
struct eval_worker {
	struct scoring *scoring; /* NULL: there was no evaluation yet */
	bool busy, wanted;
	uint32_t incarnation; /* of us, when we were asked */
	struct tw_body_eval what;
};

static void drop_views(struct worker *w)
{
	struct scoring *s = w->eval->scoring;

	for (uint32_t k = 0; s && k < w->exchange.holders; k++) {
		tw_block_drop(s->pinned[k]);
		s->pinned[k] = NULL;
	}
}

static bool furnished(struct worker *w, struct tw_context *ctx)
{
	struct eval_worker *e = w->eval;
	const size_t holders = w->exchange.holders;

	if (e->scoring)
		return true;
	e->scoring =
		tw_heap_zeros(w->heap, sizeof *e->scoring + holders * (sizeof *e->scoring->piece +
								       sizeof *e->scoring->pinned));
	if (e->scoring)
		e->scoring->pinned = (struct tw_block **)&e->scoring->piece[holders];
	else
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for an evaluation");
	return e->scoring;
}

static void ask_for_views(struct worker *w, struct tw_context *ctx)
{
	if (!w->eval->wanted || w->eval->busy || w->eval->incarnation != w->me.id.incarnation ||
	    !furnished(w, ctx))
		return;
	drop_views(w);
	for (uint32_t k = 0; k < w->exchange.holders; k++)
		/* it is asked again when the next places are known */
		if (w->exchange.holder[k].known &&
		    !tw_exchange_pull_pinned(&w->exchange, ctx, &w->exchange.holder[k],
					     w->eval->what.pin))
			return;
}

void tw_eval_worker_want(struct worker *w, struct tw_context *ctx, const struct tw_body_eval *what)
{
	w->eval->what = *what;
	w->eval->incarnation = w->me.id.incarnation;
	w->eval->wanted = true;
	ask_for_views(w, ctx);
}

/* (9) */
void tw_eval_worker_early(struct worker *w, const struct tw_msg *m)
{
	w->eval->what = m->b.eval;
	w->eval->incarnation = m->h.incarnation;
	w->eval->wanted = true;
}

/* One stage of it: from what the cell before has computed to what the next one needs. */
static bool eval_stage(struct worker *w, struct tw_context *ctx)
{
	struct scoring *e = w->eval->scoring;
	struct tw_eval_part part;

	w->driver->tests(w, w->eval->what.count, &part);
	tw_block_drop(e->out);
	e->out = part.passes_on ? tw_block_new(w->heap, sizeof(float) * part.floats) : NULL;
	tw_block_drop(e->in);
	e->in = tw_block_keep(part.in);
	if (part.passes_on && !e->out) {
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for an evaluation");
		return false;
	}
	e->compute.pass = (struct tw_pass){ .kind = TW_PASS_EVALUATE,
					    .first = part.first,
					    .last = part.last,
					    .x = e->in ? tw_block_floats(e->in) : NULL,
					    .y = e->out ? tw_block_floats(e->out) : NULL };
	e->compute.scratch = part.scratch;
	return true;
}

/* Is every view here?  One that was not is asked first, so that all answers cost two walks. */
static bool all_views_here(struct worker *w)
{
	struct scoring *s = w->eval->scoring;

	for (uint32_t k = 0; k < w->exchange.holders; k++) {
		if (!s->pinned[s->lacks])
			return false;
		if (++s->lacks == w->exchange.holders)
			s->lacks = 0;
	}
	return true;
}

static void start_eval(struct worker *w, struct tw_context *ctx)
{
	struct eval_worker *e = w->eval;
	struct scoring *s = e->scoring;

	if (!all_views_here(w))
		return;
	for (uint32_t k = 0; k < w->exchange.holders; k++) {
		const struct tw_holding *r = &w->exchange.holder[k].range;

		s->piece[k] = (struct tw_piece){ tw_block_floats(s->pinned[k]), r->from, r->n };
	}
	s->compute = (struct tw_compute){ .pass.kind = TW_PASS_EVALUATE,
					  .in = { .from = e->what.from,
						  .count = e->what.count,
						  .piece = s->piece,
						  .pieces = w->exchange.holders,
						  .about = tw_worker_about(w, ctx) },
					  .id = e->what.pin };
	if (w->driver->tests && !eval_stage(w, ctx))
		return;
	s->compute.in.cancel = &s->compute.cancel;
	e->busy = true;
	ctx->world->compute(ctx, &s->compute);
}

void tw_eval_worker_view(struct worker *w, struct tw_context *ctx, struct holder *h,
			 const struct tw_msg *m)
{
	enum tw_status st;

	if (!w->eval->wanted || m->b.params.pin != w->eval->what.pin || w->eval->busy ||
	    !w->eval->scoring)
		return;
	st = tw_exchange_decode(&w->exchange, h, m,
				&w->eval->scoring->pinned[tw_exchange_index(&w->exchange, h)]);
	if (st == TW_NO_MEMORY)
		tw_give_up(ctx, st, "no memory for a pinned version");
	else if (st == TW_OK)
		start_eval(w, ctx);
	else
		tw_say(ctx, TW_WARNING, "a pinned version of shard %u is malformed", h->shard);
}

void tw_eval_worker_tell(struct worker *w, struct tw_context *ctx)
{
	const struct tw_body_eval *what = &w->eval->what;
	const struct tw_score *score = &w->eval->scoring->compute.score;
	struct tw_msg *m = tw_worker_to_master(w, ctx, TW_RESULT);

	if (!m)
		return;
	m->h.flags = TW_FLAG_FREE;
	m->b.result = (struct tw_body_result){ .pin = what->pin,
					       .from = what->from,
					       .count = score->samples,
					       .loss = score->loss,
					       .correct = score->correct };
	tw_send(ctx, m);
}

struct tw_eval_passed tw_eval_worker_computed(struct worker *w, struct tw_context *ctx)
{
	struct tw_eval_passed passed = { .done = false };
	struct eval_worker *e = w->eval;
	const struct tw_compute *c = &e->scoring->compute;

	e->busy = false;
	if (!e->wanted || c->id != e->what.pin || c->in.from != e->what.from) {
		ask_for_views(w, ctx);
		return passed;
	}
	if (c->status != TW_OK) {
		if (c->status != TW_CANCELLED)
			tw_give_up(ctx, c->status, "the evaluation failed: %s",
				   tw_status_name(c->status));
		return passed;
	}
	e->wanted = false;
	drop_views(w);
	passed = (struct tw_eval_passed){ .what = e->what, .block = e->scoring->out, .done = true };
	e->scoring->out = NULL;
	return passed;
}

bool tw_eval_worker_is_busy(const struct worker *w)
{
	return w->eval->busy;
}

/* --- the duty -------------------------------------------------------------------------------- */

/* What is wanted stays known: a worker that becomes another cell opens it again. */
static void close_eval(void *actor)
{
	struct worker *w = actor;
	struct eval_worker *e = w->eval;

	drop_views(w);
	if (e->scoring) {
		tw_block_drop(e->scoring->in);
		tw_block_drop(e->scoring->out);
	}
	w->heap->put(w->heap, e->scoring);
	*e = (struct eval_worker){ .what = e->what,
				   .wanted = e->wanted,
				   .incarnation = e->incarnation };
}

static void message(void *actor, struct tw_context *ctx, const struct tw_msg *m)
{
	tw_eval_worker_want(actor, ctx, &m->b.eval);
}

/* A request to whom a later welcome makes of us waits for that welcome; older ones are void. */
static void renew(void *actor, struct tw_context *ctx)
{
	struct worker *w = actor;

	w->eval->wanted = w->eval->wanted && w->eval->incarnation >= w->me.id.incarnation;
	ask_for_views(w, ctx);
}

static void home(void *actor, struct tw_context *ctx, uint32_t shard)
{
	(void)shard;
	ask_for_views(actor, ctx);
}

const struct tw_duty tw_eval_worker = {
	.name = "eval",
	.bytes = sizeof(struct eval_worker),
	.place = offsetof(struct worker, eval),
	.hears = TW_HEARS(TW_EVAL),
	.close = close_eval,
	.message = message,
	.renew = renew,
	.home = home,
};
