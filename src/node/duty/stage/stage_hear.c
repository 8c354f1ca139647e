/* SPDX-License-Identifier: Apache-2.0 */
/* stage_hear.c - what a cell hears from the other ones of its worker; README.md has the
 * rules. */
#include "node/duty/eval/eval.h"
#include "node/duty/stage/stage_state.h"
#include "node/worker/worker.h"

#include <math.h>

#define STREAMS_AHEAD 64 /* that another cell can be */

static bool is_test(uint16_t type, const union tw_body *b)
{
	return type == TW_ACT && b->act.pin;
}

static bool is_end(uint16_t type, const union tw_body *b)
{
	return type == TW_ACT && !b->act.count && !b->act.pin;
}

/* Who says what this cell is to compute: the first lane of the stage before does all that is of no
 * micro-batch (9). */
static uint32_t act_speaker(const struct worker *w, const union tw_body *b)
{
	const struct stage_worker *s = w->stage;

	if (!w->me.cell || b->act.stage != s->post.stage)
		return UINT32_MAX;
	if (!s->post.stage)
		return 0;
	if (is_end(TW_ACT, b) || is_test(TW_ACT, b))
		return w->plan->staging.stage[s->post.stage - 1].cell;
	return tw_pipe_is_own(&s->post, b->act.micro)
		       ? tw_plan_cell_for(w->plan, s->post.stage - 1, b->act.micro)
		       : UINT32_MAX;
}

static uint32_t grad_speaker(const struct worker *w, const union tw_body *b)
{
	const struct stage_worker *s = w->stage;
	const bool own = tw_pipe_is_own(&s->post, b->grad.micro);

	if (b->grad.stage != s->post.stage || (own && s->post.stage + 1 == s->shape.stages) ||
	    (!own && w->me.cell))
		return UINT32_MAX;
	return tw_plan_cell_for(w->plan, s->post.stage + own, b->grad.micro);
}

/* Which cell of this worker says such things to this one; UINT32_MAX: none. */
static uint32_t speaker(const struct worker *w, uint16_t type, const union tw_body *b,
			uint32_t node)
{
	const struct stage_worker *s = w->stage;

	switch (type) {
	case TW_ACT:
		return act_speaker(w, b);
	case TW_GRAD:
		return grad_speaker(w, b);
	case TW_CLOSED:
		return !w->me.cell && b->closed.cell < s->cells ? b->closed.cell : UINT32_MAX;
	default:
		return tw_stage_cell_at(w, node);
	}
}

/* ... if this is the one; UINT32_MAX: it is not. */
static uint32_t said_by(const struct worker *w, uint16_t type, const union tw_body *b,
			const struct tw_addr *from)
{
	const uint32_t cell = speaker(w, type, b, from->node);

	return cell < w->stage->cells && w->stage->roster[cell].node == from->node ? cell
										   : UINT32_MAX;
}

/* (5).  An evaluation goes on when a new generation begins.  Who said it is looked at when it is
 * known who that may be. */
static enum tw_door door(const void *actor, const struct tw_msg *m)
{
	const struct worker *w = actor;
	const struct tw_identity *me = &w->me.id;

	if (m->h.incarnation != me->incarnation)
		return m->h.incarnation > me->incarnation ? TW_DOOR_EARLY : TW_DOOR_VOID;
	if (is_test(m->h.type, &m->b))
		return TW_DOOR_NOW;
	if (m->h.view != me->generation)
		return m->h.view > me->generation ? TW_DOOR_EARLY : TW_DOOR_VOID;
	return m->h.type == TW_ACT && m->b.act.stream > w->stage->stream &&
			       m->b.act.stream - w->stage->stream <= STREAMS_AHEAD
		       ? TW_DOOR_EARLY
		       : TW_DOOR_NOW;
}

/* Could it be so many samples? */
static bool plausible(const struct worker *w, const struct tw_body_act *b)
{
	return b->count && b->nominal > 0 && isfinite(b->nominal) &&
	       b->count <= (b->pin ? tw_plan_scored(w->plan) : w->part->batch);
}

/* The flight of a micro-batch of this stream that is not behind us; NULL: there is none. */
static struct flight *flight_of(struct stage_worker *s, uint64_t stream, uint64_t micro)
{
	const uint64_t own = tw_pipe_own(&s->post, micro);

	if (stream != s->stream || !tw_pipe_is_own(&s->post, micro) || own < s->backwards ||
	    own >= s->backwards + s->window)
		return NULL;
	return &s->flight[own % s->window];
}

static void hear_test(struct worker *w, struct tw_context *ctx, const struct tw_body_act *b,
		      struct tw_block *x)
{
	struct stage_worker *s = w->stage;

	tw_block_drop(s->test_x);
	s->test_x = tw_block_keep(x);
	tw_eval_worker_want(
		w, ctx,
		&(struct tw_body_eval){ .pin = b->pin, .from = b->from, .count = b->count });
}

/* The end of the stream. */
static bool hear_end(struct worker *w, struct tw_context *ctx, uint32_t cell,
		     const struct tw_body_act *b)
{
	struct stage_worker *s = w->stage;

	if (b->stream != s->stream || tw_pipe_own(&s->post, b->micro) < s->forwards ||
	    s->total != UINT64_MAX)
		return false;
	s->total = b->micro;
	if (!s->post.lane)
		tw_stage_send_end(w, ctx);
	if (s->cells > s->shape.stages) /* nothing else may ever be said to it */
		tw_link_tell(w, ctx, cell);
	return true;
}

/* False: it cannot be. */
static bool hear_act(struct worker *w, struct tw_context *ctx, uint32_t cell,
		     const struct tw_msg *m)
{
	const struct tw_body_act *b = &m->b.act;
	struct stage_worker *s = w->stage;
	struct tw_stage_load c;
	struct tw_block *x;
	struct flight *f;

	if (is_end(TW_ACT, &m->b))
		return hear_end(w, ctx, cell, b);
	if (!plausible(w, b) || (b->pin && (b->from > tw_plan_scored(w->plan) ||
					    b->count > tw_plan_scored(w->plan) - b->from)))
		return false;
	f = b->pin ? NULL : flight_of(s, b->stream, b->micro);
	if (!b->pin && (!f || f->known || tw_pipe_own(&s->post, b->micro) < s->forwards))
		return false;
	if (!s->post.stage) { /* (9) */
		f->known = true;
		f->what = *b;
		return true;
	}
	c = tw_stage_crossing(w->part->in, b->stage, b->from, b->count, false);
	c.tests = b->pin;
	x = tw_stage_unpack(w, ctx, &m->h, m->payload, &c);
	if (!x)
		return false;
	if (b->pin) {
		hear_test(w, ctx, b, x);
		tw_block_drop(x);
		return true;
	}
	f->known = true;
	f->what = *b;
	f->x = x;
	return true;
}

static bool hear_grad(struct worker *w, struct tw_context *ctx, const struct tw_msg *m)
{
	const struct tw_body_grad *b = &m->b.grad;
	struct flight *f = flight_of(w->stage, b->stream, b->micro);
	struct tw_stage_load c;

	if (!tw_pipe_is_own(&w->stage->post, b->micro)) /* (9) */
		return b->stream == w->stage->stream && tw_stage_is_back(w, ctx, b->micro, b->loss);
	if (!f || !f->known || f->dy || b->count != f->what.count)
		return false;
	c = tw_stage_crossing(w->part->out, b->stage, f->what.from, b->count, true);
	f->dy = tw_stage_unpack(w, ctx, &m->h, m->payload, &c);
	if (f->dy)
		f->loss = b->loss;
	return f->dy;
}

/* Activations or gradients: what has come before is not heard again (8). */
static void hear_numbered(struct worker *w, struct tw_context *ctx, uint32_t cell,
			  const struct tw_msg *m)
{
	const bool act = m->h.type == TW_ACT;

	tw_link_confirmed(w, cell, act ? m->b.act.seen : m->b.grad.seen);
	if (is_test(m->h.type, &m->b) ? !tw_link_takes_test(w, ctx, cell, m->h.seq)
				      : !tw_link_takes(w, ctx, cell, m->h.seq))
		return;
	if (act ? hear_act(w, ctx, cell, m) : hear_grad(w, ctx, m))
		return;
	tw_say(ctx, TW_WARNING, "%s of micro-batch %llu from worker %u.%u cannot be",
	       act ? "activations" : "gradients",
	       (unsigned long long)(act ? m->b.act.micro : m->b.grad.micro), w->me.id.slot, cell);
	w->stage->liar = cell;
}

/* A cell of this worker says what is not its to say; who is none of them is nobody. */
static void hear_stray(struct worker *w, struct tw_context *ctx, const struct tw_msg *m)
{
	const uint32_t cell = tw_stage_cell_at(w, m->from.node);

	if (cell == UINT32_MAX)
		return;
	tw_say(ctx, TW_WARNING, "%s is not for worker %u.%u to say to worker %u.%u",
	       tw_type_name(m->h.type), w->me.id.slot, cell, w->me.id.slot, w->me.cell);
	w->stage->liar = cell;
}

/* No cell can be further than the stream that the first one has begun. */
static void hear_closed(struct worker *w, struct tw_context *ctx, uint32_t cell, uint64_t mark)
{
	struct stage_worker *s = w->stage;

	if (mark > tw_stage_mark(s->stream + 2, 0)) {
		tw_say(ctx, TW_WARNING, "worker %u.%u says that is closed what has not begun",
		       w->me.id.slot, cell);
		s->liar = cell;
	} else if (mark > s->closed[cell]) {
		s->closed[cell] = mark;
	}
}

static void hear(void *actor, struct tw_context *ctx, const struct tw_msg *m)
{
	struct worker *w = actor;
	const uint32_t cell = said_by(w, m->h.type, &m->b, &m->from);

	if (cell == UINT32_MAX) {
		hear_stray(w, ctx, m);
		return;
	}
	switch (m->h.type) {
	case TW_CLOSED:
		hear_closed(w, ctx, cell, m->b.closed.mark);
		break;
	case TW_HEARD:
		tw_link_confirmed(w, cell, m->b.heard.number);
		tw_link_test_confirmed(w, cell, m->b.heard.test);
		break;
	default:
		hear_numbered(w, ctx, cell, m);
	}
}

void tw_stage_hears(struct worker *w, struct tw_context *ctx, const struct tw_msg *m)
{
	hear(w, ctx, m);
	if (m->h.type == TW_CLOSED)
		tw_worker_closings(w, ctx);
	tw_worker_advance(w, ctx);
}

enum tw_door tw_stage_door(const struct worker *w, const struct tw_msg *m)
{
	const enum tw_door is = door(w, m);

	/* that one is said to somebody before us */
	return is == TW_DOOR_EARLY && m->h.type == TW_HEARD ? TW_DOOR_VOID : is;
}

void tw_stage_hear_early(struct worker *w, struct tw_context *ctx)
{
	tw_early_hear(&w->stage->early, w->heap, w, ctx, door, hear);
}

void tw_stage_early(struct worker *w, const struct tw_msg *m)
{
	tw_early_keep(&w->stage->early, w->heap, m);
}
