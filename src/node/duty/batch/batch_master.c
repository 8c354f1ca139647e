/* SPDX-License-Identifier: Apache-2.0 */
/* batch_master.c - the master's side of a batch method: lists of commands to the shards, and the
 * iterator that decides what is next (strategy/descent.h).  Evaluations are in batch_portions.c.
 * The numbers in brackets are those of README.md. */
#include "node/duty/batch/batch.h"
#include "node/duty/batch/batch_state.h"
#include "node/duty/eval/eval.h"
#include "node/duty/figures/figures.h"
#include "node/kernel/duty.h"
#include "node/kernel/master_post.h"
#include "node/kernel/phase.h"

#include <stddef.h>
#include <string.h>

/* --- memory --------------------------------------------------------------------------------- */

static const struct tw_optimising *plan_of(const struct master *m)
{
	return &m->plan->optimising;
}

static struct tw_descender descender(struct master *m)
{
	const struct tw_optimising *o = plan_of(m);

	return (struct tw_descender){ o->method, o->options, &o->how, &m->batch->descent,
				      m->batch->own };
}

static struct tw_optimised so_far(const struct batch_master *o)
{
	const struct tw_descent *d = &o->descent;

	return (struct tw_optimised){ .iterations = d->iterations,
				      .evaluations = d->evaluations,
				      .restarts = d->restarts,
				      .backups = o->portions.backups,
				      .loss = d->loss,
				      .gradient = d->norm,
				      .step = d->moved.step,
				      .why = tw_descent_why_text(d->why) };
}

/* Nothing is dealt any more when it has ended. */
static void know_state(struct master *m)
{
	const struct tw_descent *d = &m->batch->descent;

	tw_wish_put(m, TW_WISH_METHOD, d->why != TW_DESCENT_RUNS);
}

static enum tw_status open_memory(struct master *m)
{
	const struct tw_optimising *p = plan_of(m);
	const uint32_t shards = m->plan->problem.shards;
	struct batch_master *o = m->batch;

	o->own_bytes = tw_optimiser_bytes(p->method, p->options);
	o->list.room = tw_descent_commands(p->method, p->options);
	o->own = tw_heap_zeros(m->heap, o->own_bytes + 1);
	o->list.at = tw_heap_zeros(m->heap, o->list.room * sizeof *o->list.at);
	o->result = tw_heap_zeros(m->heap, (size_t)shards * o->list.room * sizeof *o->result);
	o->sum = tw_heap_zeros(m->heap, o->list.room * sizeof *o->sum);
	o->answered = tw_heap_zeros(m->heap, shards * sizeof *o->answered);
	if (!o->own || !o->list.at || !o->result || !o->sum || !o->answered)
		return TW_NO_MEMORY;
	tw_descent_begin(&o->descent);
	know_state(m);
	return tw_batch_portions_init(m);
}

/* --- lists (2) ------------------------------------------------------------------------------ */

static bool evaluates(const struct batch_master *o)
{
	return o->list.count && o->list.at[o->list.count - 1].kind == TW_COMMAND_EVALUATE;
}

static uint32_t results(const struct batch_master *o)
{
	uint32_t count = 0;

	for (uint32_t k = 0; k < o->list.count; k++)
		count += tw_command_results(&o->list.at[k]);
	return count;
}

static void send_list(struct master *m, struct tw_context *ctx, uint32_t shard)
{
	const struct batch_master *o = m->batch;
	struct tw_msg *msg = tw_master_to_shard(m, ctx, shard, TW_VEC);
	const size_t bytes = o->list.count * sizeof *o->list.at;
	void *tail;

	if (!msg)
		return;
	msg->b.vec = (struct tw_body_vec){ o->number, m->rounds.number };
	tail = tw_msg_tail(ctx, msg, bytes);
	if (!tail)
		return;
	memcpy(tail, o->list.at, bytes);
	tw_send(ctx, msg);
}

static void give_list(struct master *m, struct tw_context *ctx)
{
	struct batch_master *o = m->batch;

	o->number++;
	o->left = m->plan->problem.shards;
	o->state = BATCH_COMMANDS;
	m->rounds.open = true;
	m->rounds.number += evaluates(o);
	memset(o->answered, 0, m->plan->problem.shards * sizeof *o->answered);
	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		send_list(m, ctx, s);
}

static void hear_results(struct master *m, const struct tw_msg *msg)
{
	struct batch_master *o = m->batch;
	const uint32_t s = msg->h.shard, count = results(o);

	if (o->state != BATCH_COMMANDS || s >= m->plan->problem.shards ||
	    m->shard[s].node != msg->from.node || o->answered[s] ||
	    msg->b.scalar.number != o->number || msg->h.tail != count * sizeof(struct tw_scalar))
		return;
	if (count)
		memcpy(o->result + (size_t)s * o->list.room, msg->tail->data,
		       count * sizeof *o->result);
	o->answered[s] = true;
	o->left--;
}

static const double *sum_results(struct master *m)
{
	struct batch_master *o = m->batch;
	const uint32_t count = results(o);

	for (uint32_t k = 0; k < count; k++) {
		double sum = 0;

		for (uint32_t s = 0; s < m->plan->problem.shards; s++)
			sum += o->result[(size_t)s * o->list.room + k];
		o->sum[k] = sum;
	}
	return o->sum;
}

/* --- what is next --------------------------------------------------------------------------- */

static void note_iteration(struct master *m, struct tw_context *ctx)
{
	m->count.train_loss = m->batch->descent.loss;
	tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_ITERATION, .iteration = so_far(m->batch) });
	tw_deal_note_progress(m, ctx);
}

static void rest(struct master *m)
{
	m->batch->state = BATCH_RESTS;
	m->rounds.open = false;
}

static void step(struct master *m, struct tw_context *ctx, const double *result)
{
	struct batch_master *o = m->batch;
	const struct tw_descender d = descender(m);
	const enum tw_descent_turn next = tw_descent_next(&d, result, &o->list);

	know_state(m);
	switch (next) {
	case TW_DESCENT_COMMANDS:
		give_list(m, ctx);
		break;
	case TW_DESCENT_ACCEPTED:
		rest(m);
		note_iteration(m, ctx);
		tw_eval_master_committed(m, ctx);
		break;
	case TW_DESCENT_OVER:
		rest(m);
		if (o->descent.why == TW_DESCENT_NOT_FINITE) {
			tw_give_up(ctx, TW_BAD_INPUT,
				   "the loss or the gradient of the initial weights is not "
				   "finite, so the optimiser cannot begin");
			return;
		}
		tw_say(ctx, TW_INFO, "the optimiser ends after %llu iterations: %s",
		       (unsigned long long)o->descent.iterations,
		       tw_descent_why_text(o->descent.why));
		break;
	}
}

/* Between iterations a cut, a pause, the end or the view of an evaluation come first. */
static bool may_go_on(const struct master *m)
{
	return tw_phase_goes_on(m) && !tw_eval_master_awaits(m) && !tw_eval_master_holds(m);
}

static void deal(struct master *m, struct tw_context *ctx)
{
	struct batch_master *o = m->batch;

	for (;;) {
		if (m->phase != PHASE_RUN && m->phase != PHASE_DRAIN)
			return;
		switch (o->state) {
		case BATCH_RESTS:
			if (!may_go_on(m)) {
				if (m->phase == PHASE_RUN && tw_deal_exhausted(m))
					tw_figures_steady_dry(m, ctx);
				return;
			}
			step(m, ctx, NULL);
			break;
		case BATCH_COMMANDS:
			if (o->left)
				return;
			if (evaluates(o)) {
				o->state = BATCH_EVALUATES;
				o->batch = (uint64_t)o->list.at[o->list.count - 1].x;
				m->since = tw_now(ctx);
				tw_batch_portions_open(m);
			} else {
				step(m, ctx, sum_results(m));
			}
			break;
		case BATCH_EVALUATES:
			if (!tw_batch_portions_complete(m)) {
				tw_batch_portions_serve(m, ctx);
				return;
			}
			step(m, ctx, NULL);
			break;
		}
	}
}

/* --- saved and restored (7) ----------------------------------------------------------------- */

#define PART "optimiser" /* its array in the master's part of a checkpoint */

/* What a part has of the optimiser; the method's own state follows. */
struct saved {
	uint64_t number, own_bytes;
	struct tw_descent descent;
};

static enum tw_status pack(void *actor, struct tw_array *out)
{
	const struct master *m = actor;
	const struct batch_master *o = m->batch;
	const struct saved x = { o->number, o->own_bytes, o->descent };
	uint8_t *bytes = m->heap->get(m->heap, sizeof x + o->own_bytes);

	if (!bytes)
		return TW_NO_MEMORY;
	memcpy(bytes, &x, sizeof x);
	memcpy(bytes + sizeof x, o->own, o->own_bytes);
	*out = (struct tw_array){
		.name = PART, .kind = TW_BYTES, .at = bytes, .n = sizeof x + o->own_bytes
	};
	return TW_OK;
}

static void restart(struct batch_master *o)
{
	o->number = 0;
	tw_descent_begin(&o->descent);
	memset(o->own, 0, o->own_bytes);
}

static enum tw_status take_back(struct batch_master *o, const struct tw_array *part)
{
	struct saved x;

	if (!part || part->kind != TW_BYTES || part->n != sizeof x + o->own_bytes)
		return TW_BAD_BYTES;
	memcpy(&x, part->at, sizeof x);
	if (x.own_bytes != o->own_bytes)
		return TW_BAD_BYTES;
	o->number = x.number;
	o->descent = x.descent;
	memcpy(o->own, (const uint8_t *)part->at + sizeof x, o->own_bytes);
	return TW_OK;
}

/* Without a head: what it was about to do dies with its master. */
static enum tw_status restore(void *actor, const struct tw_master_part *head,
			      const struct tw_array *list, size_t count)
{
	struct master *m = actor;
	enum tw_status st = TW_OK;

	if (head)
		st = take_back(m->batch, tw_part_find(list, count, PART));
	else
		restart(m->batch);
	if (st != TW_OK)
		return st;
	know_state(m);
	tw_batch_portions_forget(m);
	rest(m);
	return TW_OK;
}

/* --- questions ------------------------------------------------------------------------------ */

void tw_batch_master_totals(const struct master *m, struct tw_totals *t)
{
	if (!m->batch)
		return;
	t->optimised = so_far(m->batch);
	t->updates = (double)t->optimised.iterations;
}

/* --- the seat ------------------------------------------------------------------------------- */

static bool border(const struct master *m)
{
	return m->batch->state == BATCH_RESTS;
}

/* The last checkpoint is kept. */
static const char *strands(const struct master *m)
{
	return m->waits.paused && m->batch->state != BATCH_RESTS
		       ? "the iteration under way is lost, because too few workers are left to "
			 "finish it"
		       : NULL;
}

static uint32_t period(struct master *m, uint32_t slot)
{
	(void)slot;
	return (uint32_t)m->batch->batch;
}

static double updates(const struct master *m)
{
	return (double)m->batch->descent.iterations;
}

/* A portion that is late holds up all. */
static bool waits(const struct master *m, uint32_t slot)
{
	return m->batch->state == BATCH_EVALUATES && m->member[slot].held.count;
}

static const char *owes(const struct master *m, uint32_t shard)
{
	const struct batch_master *o = m->batch;

	return o->state == BATCH_COMMANDS && !o->answered[shard] ? "its part of the vectors" : NULL;
}

static uint64_t progress(const struct master *m)
{
	const struct batch_master *o = m->batch;

	return o->number + o->left + o->portions.done;
}

static const char *work(const struct master *m, uint32_t slot)
{
	(void)m;
	(void)slot;
	return "its portion";
}

static const struct tw_dealer dealer = {
	.name = "batch",
	.deal = deal,
	.border = border,
	.strands = strands,
	.done = tw_batch_portions_done,
	.left = tw_batch_portions_left,
	.period = period,
	.updates = updates,
	.labels = true,
	.waits = waits,
	.progress = progress,
	.work = work,
	.owes = owes,
	.renumbers = true,
	.forgets = true,
};

/* --- the duty ------------------------------------------------------------------------------- */

static bool wanted(const struct tw_plan *plan)
{
	return tw_plan_optimises(plan);
}

static enum tw_status open_batch(void *actor)
{
	return open_memory(actor);
}

static void close_batch(void *actor)
{
	struct master *m = actor;
	const struct batch_master *o = m->batch;
	void *const all[] = { o->own, o->list.at, o->result, o->sum, o->answered };

	tw_batch_portions_release(m);
	for (size_t k = 0; k < sizeof all / sizeof all[0]; k++)
		m->heap->put(m->heap, all[k]);
}

static void message(void *actor, struct tw_context *ctx, const struct tw_msg *msg)
{
	(void)ctx;
	hear_results(actor, msg);
}

/* The list may be lost, or its answer. */
static void home(void *actor, struct tw_context *ctx, uint32_t shard)
{
	struct master *m = actor;

	if (m->batch->state == BATCH_COMMANDS && !m->batch->answered[shard])
		send_list(m, ctx, shard);
}

const struct tw_duty tw_batch_master = {
	.name = "batch",
	.bytes = sizeof(struct batch_master),
	.place = offsetof(struct master, batch),
	.hears = TW_HEARS(TW_SCALAR),
	.seat = &dealer,
	.wanted = wanted,
	.open = open_batch,
	.close = close_batch,
	.message = message,
	.home = home,
	.pack = pack,
	.restore = restore,
};
