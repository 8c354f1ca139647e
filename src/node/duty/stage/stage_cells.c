/* SPDX-License-Identifier: Apache-2.0 */
/* stage_cells.c - what a cell says to the other ones of its worker; README.md has the rules.
 * */
#include "node/duty/stage/stage_state.h"
#include "node/worker/worker.h"

#include <string.h>

/* --- saying ------------------------------------------------------------------------------- */

void tw_stage_roster(struct worker *w, struct tw_context *ctx, const struct tw_msg *m)
{
	const struct tw_place *list = m->tail ? (const void *)m->tail->data : NULL;
	struct stage_worker *s = w->stage;

	memset(s->roster, 0, s->cells * sizeof *s->roster);
	for (size_t k = 0; k < m->h.tail / sizeof *list; k++)
		if (list[k].what == TW_PLACE_CELL && list[k].shard < s->cells)
			s->roster[list[k].shard] =
				(struct cell_place){ list[k].node, list[k].incarnation };
	for (uint32_t c = 0; c < s->cells; c++)
		s->named[c] = (struct tw_member){ w->me.id.slot, w->me.id.incarnation, TW_LIVE,
						  s->roster[c].node };
	tw_members(ctx, s->named, s->cells);
}

uint32_t tw_stage_cell_at(const struct worker *w, uint32_t node)
{
	const struct stage_worker *s = w->stage;

	for (uint32_t k = 0; s && w->part && k < s->cells; k++)
		if (s->roster[k].node == node && k != w->me.cell)
			return k;
	return UINT32_MAX;
}

/* What crosses the cut before a stage forward, or the one after it back. */
struct tw_stage_load tw_stage_crossing(const struct tw_model_cut *cut, uint32_t stage,
				       uint64_t from, uint32_t count, bool back)
{
	return (struct tw_stage_load){ .position = from,
				       .floats = tw_model_cut_floats(cut, count, back),
				       .stage = stage,
				       .back = back };
}

void tw_stage_send_act(struct worker *w, struct tw_context *ctx, const struct tw_body_act *what,
		       struct tw_block *y)
{
	struct stage_worker *s = w->stage;
	struct said one = { .type = TW_ACT, .act = *what };
	struct tw_stage_load c;

	if (s->post.stage + 1 == s->shape.stages)
		return;
	one.act.stage = s->post.stage + 1;
	c = tw_stage_crossing(w->part->out, one.act.stage, what->from, what->count, false);
	c.tests = what->pin;
	if (!tw_stage_carry(w, ctx, &c, y, &one))
		return;
	tw_link_say(w, ctx, tw_plan_cell_for(w->plan, one.act.stage, what->micro), &one);
	tw_block_drop(one.block);
}

void tw_stage_send_samples(struct worker *w, struct tw_context *ctx, const struct tw_body_act *what)
{
	const struct said one = { .type = TW_ACT, .act = *what };

	tw_link_say(w, ctx, tw_plan_cell_for(w->plan, 0, what->micro), &one);
}

void tw_stage_send_end(struct worker *w, struct tw_context *ctx)
{
	const struct stage_worker *s = w->stage;
	const uint32_t from = w->me.cell ? s->post.stage + 1 : 0;
	const uint32_t to =
		s->post.stage + 2 < s->shape.stages ? s->post.stage + 2 : s->shape.stages;

	for (uint32_t stage = from; stage < to; stage++) {
		const struct tw_stage *p = &w->plan->staging.stage[stage];
		const struct said one = {
			.type = TW_ACT,
			.act = { .stream = s->stream, .micro = s->total, .stage = stage }
		};

		for (uint32_t l = 0; l < p->lanes; l++)
			if (p->cell + l != w->me.cell)
				tw_link_say(w, ctx, p->cell + l, &one);
	}
}

void tw_stage_send_grad(struct worker *w, struct tw_context *ctx, const struct flight *f,
			struct tw_block *dx)
{
	struct stage_worker *s = w->stage;
	struct said one = { .type = TW_GRAD };
	struct tw_stage_load c;

	if (w->me.cell == 0)
		return;
	one.grad = (struct tw_body_grad){ .stream = s->stream,
					  .micro = f->what.micro,
					  .loss = f->loss,
					  .stage = s->post.stage ? s->post.stage - 1 : 0,
					  .count = f->what.count };
	if (!s->post.stage) { /* (9) */
		tw_link_say(w, ctx, 0, &one);
		return;
	}
	c = tw_stage_crossing(w->part->in, one.grad.stage, f->what.from, f->what.count, true);
	if (!tw_stage_carry(w, ctx, &c, dx, &one))
		return;
	tw_link_say(w, ctx, tw_plan_cell_for(w->plan, one.grad.stage, f->what.micro), &one);
	tw_block_drop(one.block);
}

void tw_stage_tell_closed(struct worker *w, struct tw_context *ctx)
{
	struct stage_worker *s = w->stage;
	const uint64_t closed = tw_stage_own_closed(w);
	struct tw_msg *m;

	if (w->me.cell == 0 || closed == s->told)
		return;
	s->told = closed;
	m = tw_stage_message(w, ctx, 0, TW_CLOSED);
	if (!m)
		return;
	m->b.closed = (struct tw_body_closed){ .mark = closed, .cell = w->me.cell };
	tw_send(ctx, m);
}

void tw_stage_accuse(struct worker *w, struct tw_context *ctx)
{
	struct tw_msg *m = tw_worker_to_master(w, ctx, TW_REFUSE);
	const uint32_t liar = w->stage->liar;

	w->stage->liar = UINT32_MAX;
	if (!m)
		return;
	m->b.refuse = (struct tw_body_refuse){ .why = TW_REFUSED_LIES, .slot = liar };
	tw_send(ctx, m);
	tw_worker_start_again(w, ctx);
}

void tw_stage_reconnected(struct worker *w, struct tw_context *ctx, uint32_t cell, uint32_t boot)
{
	struct stage_worker *s = w->stage;

	if (!tw_worker_is_member(w))
		return;
	if (s->roster[cell].boot != boot) { /* it lost its memory */
		tw_worker_start_again(w, ctx);
		return;
	}
	tw_link_again(w, ctx, cell);
	if (cell == 0) {
		s->told = 0;
		tw_stage_tell_closed(w, ctx);
	}
}
