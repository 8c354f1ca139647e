/* SPDX-License-Identifier: Apache-2.0 */
/* stage_delivery.c - what one cell of a worker says to another arrives once and in order, whatever
 * becomes of the connection; (8) in stage_state.h. */
#include "node/duty/figures/figures.h"
#include "node/duty/stage/stage_state.h"
#include "node/worker/worker.h"

#include <string.h>

#define IDLE (TW_SECOND / 10) /* after which a cell is told what has come from it */

struct tw_msg *tw_stage_message(struct worker *w, struct tw_context *ctx, uint32_t cell,
				enum tw_type type)
{
	const struct tw_addr to = { w->stage->roster[cell].node, TW_WORKER, 0 };
	struct tw_msg *m = tw_msg_to(ctx, to, type);

	if (!m)
		return NULL;
	m->h.from = w->me.id.slot;
	m->h.incarnation = w->me.id.incarnation;
	m->h.view = w->me.id.generation;
	return m;
}

enum tw_status tw_links_open(struct worker *w)
{
	struct stage_worker *s = w->stage;
	struct said *all = tw_heap_zeros(w->heap, (size_t)s->cells * s->early_room * sizeof *all);

	s->link = tw_heap_zeros(w->heap, s->cells * sizeof *s->link);
	if (!s->link || !all) {
		w->heap->put(w->heap, all);
		return TW_NO_MEMORY;
	}
	for (uint32_t k = 0; k < s->cells; k++)
		s->link[k].said = all + (size_t)k * s->early_room;
	return TW_OK;
}

static void forget(struct said *one)
{
	tw_block_drop(one->block);
	*one = (struct said){ .block = NULL };
}

static struct said *said_at(const struct stage_worker *s, struct cell_link *l, uint64_t number)
{
	return &l->said[number % s->early_room];
}

void tw_links_reset(struct worker *w)
{
	struct stage_worker *s = w->stage;

	for (uint32_t c = 0; s->link && c < s->cells; c++) {
		struct cell_link *l = &s->link[c];

		for (uint32_t k = 0; k < s->early_room; k++)
			forget(&l->said[k]);
		l->last = l->held = l->got = l->told = 0;
	}
}

void tw_links_renew(struct worker *w)
{
	struct stage_worker *s = w->stage;

	tw_links_reset(w);
	for (uint32_t c = 0; s->link && c < s->cells; c++) {
		struct cell_link *l = &s->link[c];

		forget(&l->test);
		l->test_last = l->test_got = 0;
	}
}

void tw_links_close(struct worker *w)
{
	struct stage_worker *s = w->stage;

	if (!s->link)
		return;
	tw_links_renew(w);
	w->heap->put(w->heap, s->link[0].said);
	w->heap->put(w->heap, s->link);
	s->link = NULL;
}

/* --- saying ------------------------------------------------------------------------------- */

/* As it was said first, but for what has come meanwhile. */
static void send(struct worker *w, struct tw_context *ctx, uint32_t cell, const struct said *one)
{
	struct cell_link *l = &w->stage->link[cell];
	struct tw_msg *m = tw_stage_message(w, ctx, cell, (enum tw_type)one->type);

	if (!m)
		return;
	m->h.seq = one->number;
	if (one->type == TW_ACT)
		m->b.act = one->act;
	else
		m->b.grad = one->grad;
	*(one->type == TW_ACT ? &m->b.act.seen : &m->b.grad.seen) = l->got;
	if (one->type == TW_ACT && one->act.pin)
		m->h.flags = TW_FLAG_FREE;
	else
		l->told = l->got;
	if (one->block) {
		m->payload = tw_block_keep(one->block);
		m->h.payload = one->bytes;
		m->h.flags |= one->plain ? TW_FLAG_PLAIN : 0;
		if (!(m->h.flags & TW_FLAG_FREE))
			tw_figures_worker_sent(w, one->bytes);
	}
	tw_send(ctx, m);
}

void tw_link_say(struct worker *w, struct tw_context *ctx, uint32_t cell, const struct said *what)
{
	struct stage_worker *s = w->stage;
	struct cell_link *l = &s->link[cell];
	struct said *one;

	if (what->type == TW_ACT && what->act.pin) { /* the one before it has arrived, or is void */
		forget(&l->test);
		l->test = *what;
		l->test.number = ++l->test_last;
		tw_block_keep(what->block);
		send(w, ctx, cell, &l->test);
		return;
	}
	if (l->last - l->held == s->early_room) { /* it says nothing of what it has */
		tw_say(ctx, TW_WARNING, "worker %u.%u does not say what it has of us",
		       w->me.id.slot, cell);
		s->liar = cell;
		return;
	}
	one = said_at(s, l, ++l->last);
	*one = *what;
	one->number = l->last;
	tw_block_keep(what->block);
	send(w, ctx, cell, one);
}

void tw_link_again(struct worker *w, struct tw_context *ctx, uint32_t cell)
{
	struct stage_worker *s = w->stage;
	struct cell_link *l = &s->link[cell];

	for (uint64_t n = l->held + 1; n <= l->last; n++)
		send(w, ctx, cell, said_at(s, l, n));
	if (l->test.number)
		send(w, ctx, cell, &l->test);
}

void tw_link_tell(struct worker *w, struct tw_context *ctx, uint32_t cell)
{
	struct cell_link *l = &w->stage->link[cell];
	struct tw_msg *m = tw_stage_message(w, ctx, cell, TW_HEARD);

	if (!m)
		return;
	m->h.flags = TW_FLAG_FREE;
	m->b.heard = (struct tw_body_heard){ .number = l->got, .test = l->test_got };
	l->told = l->got;
	tw_send(ctx, m);
}

void tw_stage_idle(struct worker *w, struct tw_context *ctx)
{
	struct stage_worker *s = w->stage;

	s->idle_set = false;
	for (uint32_t c = 0; c < s->cells; c++)
		if (s->link[c].told < s->link[c].got)
			tw_link_tell(w, ctx, c);
}

/* --- hearing ------------------------------------------------------------------------------ */

void tw_link_confirmed(struct worker *w, uint32_t cell, uint64_t upto)
{
	struct stage_worker *s = w->stage;
	struct cell_link *l = &s->link[cell];

	for (; l->held < upto && l->held < l->last; l->held++)
		forget(said_at(s, l, l->held + 1));
}

void tw_link_test_confirmed(struct worker *w, uint32_t cell, uint32_t number)
{
	struct cell_link *l = &w->stage->link[cell];

	if (l->test.number && l->test.number <= number)
		forget(&l->test);
}

bool tw_link_takes(struct worker *w, struct tw_context *ctx, uint32_t cell, uint64_t number)
{
	struct stage_worker *s = w->stage;
	struct cell_link *l = &s->link[cell];

	if (number != l->got + 1)
		return false;
	l->got++;
	if (!s->idle_set)
		tw_timer(ctx, TW_TIMER_HEARD, IDLE);
	s->idle_set = true;
	return true;
}

bool tw_link_takes_test(struct worker *w, struct tw_context *ctx, uint32_t cell, uint64_t number)
{
	struct cell_link *l = &w->stage->link[cell];
	const bool next = number > l->test_got;

	if (next)
		l->test_got = (uint32_t)number;
	tw_link_tell(w, ctx, cell);
	return next;
}
