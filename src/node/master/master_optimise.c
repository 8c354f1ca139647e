/* SPDX-License-Identifier: Apache-2.0 */
/* master_optimise.c - a batch method drives the run: lists of commands to the shards, evaluations
 * by the workers (master_portions.c), and the iterator that decides what is next
 * (strategy/descent.h).
 *
 *  (1) at rest the point is one that was accepted, no list and no evaluation is under way, and
 *      rounds.open is false: cuts, moves, pauses and the end happen only then.  rounds.number is
 *      the number of the evaluation that was opened last, here and on every shard.
 *  (2) a list has a number and goes to all shards.  The next one is written when all have answered;
 *      what they added up is summed in the order of the shards, in double.
 *  (3) what is saved is the state at rest.  Without it a run begins at the initial weights. */
#include "node/master/master.h"

#include <math.h>
#include <string.h>

/* --- memory --------------------------------------------------------------------------------- */

static const struct tw_optimising *plan_of(const struct master *m)
{
	return &m->plan->optimising;
}

static struct tw_descender descender(struct master *m)
{
	const struct tw_optimising *o = plan_of(m);

	return (struct tw_descender){ o->method, o->options, &o->how, &m->optimise->descent,
				      m->optimise->own };
}

static struct tw_optimised so_far(const struct optimise *o)
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

/* What others know of it. */
static void know_state(struct master *m)
{
	const struct tw_descent *d = &m->optimise->descent;

	m->wish.over = d->why != TW_DESCENT_RUNS;
	m->count.optimised = so_far(m->optimise);
}

enum tw_status tw_optimise_init(struct master *m)
{
	const struct tw_optimising *p = plan_of(m);
	const uint32_t shards = m->plan->problem.shards;
	struct optimise *o;

	if (!tw_plan_optimises(m->plan))
		return TW_OK;
	o = m->optimise = tw_heap_zeros(m->heap, sizeof *o);
	if (!o)
		return TW_NO_MEMORY;
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
	return tw_portions_init(m);
}

void tw_optimise_release(struct master *m)
{
	struct optimise *o = m->optimise;

	if (!o)
		return;
	tw_portions_release(m);
	m->heap->put(m->heap, o->own);
	m->heap->put(m->heap, o->list.at);
	m->heap->put(m->heap, o->result);
	m->heap->put(m->heap, o->sum);
	m->heap->put(m->heap, o->answered);
	m->heap->put(m->heap, o);
}

/* --- lists (2) ------------------------------------------------------------------------------ */

static bool evaluates(const struct optimise *o)
{
	return o->list.count && o->list.at[o->list.count - 1].kind == TW_COMMAND_EVALUATE;
}

static uint32_t results(const struct optimise *o)
{
	uint32_t count = 0;

	for (uint32_t k = 0; k < o->list.count; k++)
		count += tw_command_results(&o->list.at[k]);
	return count;
}

static void send_list(struct master *m, struct tw_context *ctx, uint32_t shard)
{
	const struct optimise *o = m->optimise;
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
	struct optimise *o = m->optimise;

	o->number++;
	o->left = m->plan->problem.shards;
	o->state = OPTIMISE_COMMANDS;
	m->rounds.open = true;
	m->rounds.number += evaluates(o);
	memset(o->answered, 0, m->plan->problem.shards * sizeof *o->answered);
	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		send_list(m, ctx, s);
}

void tw_optimise_list_to(struct master *m, struct tw_context *ctx, uint32_t shard)
{
	const struct optimise *o = m->optimise;

	if (o && o->state == OPTIMISE_COMMANDS && !o->answered[shard])
		send_list(m, ctx, shard);
}

bool tw_optimise_awaits(const struct master *m, uint32_t shard)
{
	const struct optimise *o = m->optimise;

	return o && m->phase == PHASE_RUN && o->state == OPTIMISE_COMMANDS && !o->answered[shard];
}

void tw_optimise_scalar(struct master *m, const struct tw_msg *msg)
{
	struct optimise *o = m->optimise;
	const uint32_t s = msg->h.shard;
	const uint32_t count = o ? results(o) : 0;

	if (!o || o->state != OPTIMISE_COMMANDS || msg->h.view != m->restart.generation ||
	    s >= m->plan->problem.shards || m->shard[s].node != msg->from.node || o->answered[s] ||
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
	struct optimise *o = m->optimise;
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
	m->count.train_loss = m->optimise->descent.loss;
	tw_note(ctx,
		&(struct tw_note){ .kind = TW_NOTE_ITERATION, .iteration = so_far(m->optimise) });
	tw_deal_note_progress(m, ctx);
}

static void rest(struct master *m)
{
	m->optimise->state = OPTIMISE_RESTS;
	m->rounds.open = false;
}

static void step(struct master *m, struct tw_context *ctx, const double *result)
{
	struct optimise *o = m->optimise;
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
	return m->phase == PHASE_RUN && !m->waits.paused && !m->wish.cut && !m->wish.stop &&
	       !tw_master_must_move(m) && !tw_deal_exhausted(m) && !tw_eval_master_awaits(m) &&
	       !tw_eval_master_holds(m);
}

/* Nobody is left to finish the iteration, and the run is to stop: the last checkpoint is kept. */
static bool is_stranded(const struct master *m)
{
	return m->wish.stop && m->waits.paused && m->optimise->state != OPTIMISE_RESTS;
}

void tw_optimise_deal(struct master *m, struct tw_context *ctx)
{
	struct optimise *o = m->optimise;

	if (is_stranded(m)) {
		tw_say(ctx, TW_WARNING,
		       "the iteration under way is lost, because too few workers are left to "
		       "finish it");
		m->wish.stranded = true;
		return;
	}
	for (;;) {
		if (m->phase != PHASE_RUN && m->phase != PHASE_DRAIN)
			return;
		switch (o->state) {
		case OPTIMISE_RESTS:
			if (!may_go_on(m)) {
				if (m->phase == PHASE_RUN && tw_deal_exhausted(m))
					tw_figures_steady_dry(m, ctx);
				return;
			}
			step(m, ctx, NULL);
			break;
		case OPTIMISE_COMMANDS:
			if (o->left)
				return;
			if (evaluates(o)) {
				o->state = OPTIMISE_EVALUATES;
				o->batch = (uint64_t)o->list.at[o->list.count - 1].x;
				m->since = tw_now(ctx);
				tw_portions_open(m);
			} else {
				step(m, ctx, sum_results(m));
			}
			break;
		case OPTIMISE_EVALUATES:
			if (!tw_portions_complete(m)) {
				tw_portions_serve(m, ctx);
				return;
			}
			step(m, ctx, NULL);
			break;
		}
	}
}

/* --- saved and restored (3) ----------------------------------------------------------------- */

/* What a part has of the optimiser; the method's own state follows. */
struct saved {
	uint64_t number, own_bytes;
	struct tw_descent descent;
};

enum tw_status tw_optimise_pack(const struct master *m, struct tw_array *out)
{
	const struct optimise *o = m->optimise;
	struct saved x = { .number = 0 };
	uint8_t *bytes;

	*out = (struct tw_array){ .name = TW_OPTIMISER_PART, .kind = TW_BYTES };
	if (!o)
		return TW_OK;
	x = (struct saved){ o->number, o->own_bytes, o->descent };
	bytes = m->heap->get(m->heap, sizeof x + o->own_bytes);
	if (!bytes)
		return TW_NO_MEMORY;
	memcpy(bytes, &x, sizeof x);
	memcpy(bytes + sizeof x, o->own, o->own_bytes);
	out->at = bytes;
	out->n = sizeof x + o->own_bytes;
	return TW_OK;
}

enum tw_status tw_optimise_restore(struct master *m, const struct tw_array *part)
{
	struct optimise *o = m->optimise;
	struct saved x;

	if (!o)
		return TW_OK;
	if (!part || part->kind != TW_BYTES || part->n != sizeof x + o->own_bytes)
		return TW_BAD_BYTES;
	memcpy(&x, part->at, sizeof x);
	if (x.own_bytes != o->own_bytes)
		return TW_BAD_BYTES;
	o->number = x.number;
	o->descent = x.descent;
	know_state(m);
	memcpy(o->own, (const uint8_t *)part->at + sizeof x, o->own_bytes);
	tw_portions_forget(m);
	rest(m);
	return TW_OK;
}

void tw_optimise_restart(struct master *m)
{
	struct optimise *o = m->optimise;

	if (!o)
		return;
	o->number = 0;
	tw_descent_begin(&o->descent);
	know_state(m);
	memset(o->own, 0, o->own_bytes);
	tw_portions_forget(m);
	rest(m);
}
