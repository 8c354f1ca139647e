/* SPDX-License-Identifier: Apache-2.0 */
/* eval_master.c - the master's side of an evaluation: what others ask, and the duty.  When one is
 * due is in eval_due.c, its views are in eval_views.c, chunks and the result in eval_scores.c, the
 * best one in eval_best.c. */
#include "node/duty/eval/eval.h"
#include "base/digest.h"
#include "node/duty/eval/eval_state.h"
#include "node/kernel/duty.h"
#include "node/kernel/ledger.h"

#include <math.h>
#include <stddef.h>

/* --- what others ask ------------------------------------------------------------------------ */

bool tw_eval_master_is_final_made(const struct master *m)
{
	return m->eval->final_made;
}

void tw_eval_master_totals(const struct master *m, struct tw_totals *t)
{
	const struct tw_kept *kept = &m->eval->best.kept;
	const bool delivered = kept->pin && tw_eval_master_delivers(m) == kept->pin;

	t->goal = m->eval->scores.goal;
	t->kept = *kept;
	t->out_of_patience = m->eval->best.out_of_patience;
	t->loss = delivered ? kept->loss : m->eval->scores.loss;
	t->accuracy = delivered ? kept->accuracy : m->eval->scores.accuracy;
	t->held_loss = m->eval->scores.held_loss;
	t->held_accuracy = m->eval->scores.held_accuracy;
}

uint64_t tw_eval_master_evaluated(const struct master *m)
{
	return m->eval->scores.evaluated_at;
}

uint64_t tw_eval_master_pin(const struct master *m)
{
	return m->eval->now.pin;
}

uint32_t tw_eval_master_done(const struct master *m)
{
	return m->eval->scores.done;
}

bool tw_eval_master_awaits(const struct master *m)
{
	return m->eval->now.state == EVAL_AWAITED || m->eval->now.state == EVAL_HURRIED;
}

bool tw_eval_master_is_complete(const struct master *m)
{
	return m->eval->now.state == EVAL_COMPLETE;
}

bool tw_eval_master_averages(const struct master *m)
{
	return m->eval->now.state == EVAL_VIEWING;
}

bool tw_eval_master_scores(const struct master *m)
{
	return m->eval->now.state == EVAL_PINNED;
}

bool tw_eval_master_has_view(const struct master *m, uint32_t shard)
{
	return m->eval->view[shard].kept;
}

bool tw_eval_master_has_chunk(const struct master *m, uint32_t slot)
{
	return m->eval->chunk_of[slot] != NO_CHUNK;
}

int64_t tw_eval_master_since(const struct master *m, uint32_t slot)
{
	const uint32_t c = m->eval->chunk_of[slot];

	return c == NO_CHUNK ? INT64_MAX : m->eval->scores.chunk[c].since;
}

double tw_eval_master_usual(const struct master *m)
{
	return (double)m->plan->problem.tests / (m->eval->scores.chunks + 1) + 1;
}

/* --- the duty -------------------------------------------------------------------------------- */

static enum tw_status open_memory(struct master *m)
{
	const struct tw_plan *p = m->plan;
	const double unit = tw_deal_unit(m);
	const double step = p->evaluate_every * (double)p->problem.samples;
	const double ahead = unit * p->crew.workers / (step > unit ? step : unit);
	struct eval_master *e = m->eval;
	struct scores *o = &e->scores;

	o->loss = NAN; /* nothing was evaluated yet */
	o->accuracy = -1;
	o->chunks =
		p->problem.tests < TW_SCORE_CHUNKS ? (uint32_t)p->problem.tests : TW_SCORE_CHUNKS;
	/* as many as all workers may pass with the next step of each, and a few */
	o->pins = p->instant_evaluations ? 256 : ahead > 2 ? 2 + (uint32_t)ceil(ahead) : 4;
	o->pin = tw_heap_zeros(m->heap, o->pins * sizeof *o->pin);
	o->held = p->problem.held < TW_SCORE_CHUNKS ? (uint32_t)p->problem.held : TW_SCORE_CHUNKS;
	o->held_loss = NAN;
	o->held_accuracy = -1;
	o->chunk = tw_heap_zeros(m->heap, (o->chunks + o->held) * sizeof *o->chunk);
	e->chunk_of = tw_heap_zeros(m->heap, p->crew.workers * sizeof *e->chunk_of);
	e->view = tw_heap_zeros(m->heap, p->problem.shards * sizeof *e->view);
	for (uint32_t k = 0; e->chunk_of && k < p->crew.workers; k++)
		e->chunk_of[k] = NO_CHUNK;
	if (p->keeping.best)
		e->best.digest = tw_digest_new();
	return o->pin && o->chunk && e->chunk_of && e->view && (e->best.digest || !p->keeping.best)
		       ? TW_OK
		       : TW_NO_MEMORY;
}

static enum tw_status open_eval(void *actor)
{
	return open_memory(actor);
}

static void close_eval(void *actor)
{
	const struct master *m = actor;
	void *const all[] = { m->eval->scores.pin, m->eval->scores.chunk, m->eval->chunk_of,
			      m->eval->view };

	for (size_t k = 0; k < sizeof all / sizeof all[0]; k++)
		m->heap->put(m->heap, all[k]);
	tw_digest_free(m->eval->best.digest);
}

/* Is it the view of a shard, and no part of a checkpoint? */
static bool is_view(const struct master *m, const struct tw_msg *part)
{
	return part->from.role == TW_SHARD && !part->b.part.cut && part->payload &&
	       m->shard[part->h.shard].node == part->from.node;
}

static void message(void *actor, struct tw_context *ctx, const struct tw_msg *msg)
{
	if (msg->h.type == TW_PIN && msg->b.pin.what == TW_PIN_BEST)
		tw_eval_best_hear(actor, ctx, msg);
	else if (msg->h.type == TW_PIN)
		tw_eval_scores_hear_view(actor, ctx, msg);
	else if (msg->h.type == TW_PART && is_view(actor, msg))
		tw_eval_best_take(actor, ctx, msg);
	else if (msg->h.type == TW_RESULT)
		tw_eval_scores_hear(actor, ctx, msg);
}

static void begin(void *actor, struct tw_context *ctx)
{
	tw_eval_best_begin(actor, ctx);
	tw_eval_views_begin(actor, ctx);
}

/* Nobody may have been left for an evaluation. */
static void joined(void *actor, struct tw_context *ctx, uint32_t slot)
{
	(void)slot;
	tw_eval_scores_deal(actor, ctx);
}

static void lost(void *actor, struct tw_context *ctx, uint32_t slot)
{
	tw_eval_scores_take_from(actor, ctx, slot);
}

/* The request for its score may be lost. */
static void back(void *actor, struct tw_context *ctx, uint32_t slot)
{
	if (tw_eval_master_has_chunk(actor, slot))
		tw_eval_scores_take_from(actor, ctx, slot);
}

static void home(void *actor, struct tw_context *ctx, uint32_t shard)
{
	tw_eval_best_tell(actor, ctx, shard);
	tw_eval_views_pin(actor, ctx, shard);
}

static bool idle(void *actor, struct tw_context *ctx)
{
	return tw_eval_views_are_even(actor, ctx);
}

static void updated(void *actor, struct tw_context *ctx)
{
	tw_eval_views_count_more(actor, ctx);
}

static const char *waits(const void *actor, uint32_t shard)
{
	const struct master *m = actor;

	if (m->phase == PHASE_SCORE)
		return tw_eval_master_has_view(m, shard) ? NULL : "the version to evaluate";
	return m->phase == PHASE_DRAIN && tw_eval_best_owes(m, shard)
		       ? "the weights of the best evaluation"
		       : NULL;
}

static enum tw_status restore(void *actor, const struct tw_master_part *head,
			      const struct tw_array *list, size_t count)
{
	struct master *m = actor;

	(void)list;
	(void)count;
	m->eval->scores.evaluated_at = head ? head->evaluated_at : 0;
	return TW_OK;
}

const struct tw_duty tw_eval_master = {
	.name = "eval",
	.bytes = sizeof(struct eval_master),
	.place = offsetof(struct master, eval),
	.hears = TW_HEARS(TW_PIN) | TW_HEARS(TW_RESULT) | TW_HEARS(TW_PART),
	.open = open_eval,
	.close = close_eval,
	.message = message,
	.begin = begin,
	.joined = joined,
	.lost = lost,
	.back = back,
	.home = home,
	.idle = idle,
	.updated = updated,
	.waits = waits,
	.restore = restore,
};
