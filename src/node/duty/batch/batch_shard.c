/* SPDX-License-Identifier: Apache-2.0 */
/* batch_shard.c - the shard's side of a batch method: lists of commands from the master, portions
 * from workers.  The arithmetic is in slice_vectors.c.  The numbers in brackets are those of
 * README.md. */
#include "node/duty/batch/batch.h"
#include "node/kernel/duty.h"
#include "node/kernel/taker.h"
#include "node/shard/shard.h"

/* --- lists ---------------------------------------------------------------------------------- */

static void tell_results(struct shard *s, struct tw_context *ctx)
{
	const struct slice_vectors *v = &s->slice.vectors;
	struct tw_msg *m = tw_shard_to_master(s, ctx, TW_SCALAR);
	struct tw_scalar *tail;

	if (!m)
		return;
	m->b.scalar.number = v->number;
	if (v->results) {
		tail = tw_msg_tail(ctx, m, v->results * sizeof *tail);
		if (!tail)
			return;
		for (uint32_t k = 0; k < v->results; k++)
			tail[k].value = v->result[k];
	}
	tw_send(ctx, m);
}

static void open_evaluation(struct shard *s, struct tw_context *ctx, uint64_t round)
{
	tw_vectors_open(&s->slice);
	s->slice.round = round;
	s->queue.due = true;
	tw_shard_release(s, ctx);
}

static void hear_list(struct shard *s, struct tw_context *ctx, const struct tw_msg *m)
{
	const struct tw_command *list = m->tail ? (const void *)m->tail->data : NULL;
	const size_t count = m->h.tail / sizeof *list;
	const struct slice_vectors *v = &s->slice.vectors;
	const uint64_t number = m->b.vec.number;

	if (number == v->number && number) { /* (2) */
		tell_results(s, ctx);
		return;
	}
	if (number != v->number + 1)
		return;
	if (!tw_vectors_valid(&s->slice, list, count)) {
		s->slice.tally.refused++;
		tw_say(ctx, TW_ERROR, "shard %u cannot carry out list %llu of the optimiser",
		       s->index, (unsigned long long)number);
		return;
	}
	if (tw_vectors_run(&s->slice, list, count, number) != TW_OK) {
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for the vectors of shard %u", s->index);
		return;
	}
	if (count && list[count - 1].kind == TW_COMMAND_EVALUATE)
		open_evaluation(s, ctx, m->b.vec.round);
	tell_results(s, ctx);
}

/* --- portions ------------------------------------------------------------------------------- */

/* The number of the portion that a push brings; UINT64_MAX: it is none of this evaluation. */
static uint64_t portion_of(const struct shard *s, const struct tw_body_push *p)
{
	const struct tw_optimising *o = &s->plan->optimising;
	const uint64_t from = p->range[0].from, at = from % o->batch;
	const uint64_t left = o->batch - at, whole = left < o->portion ? left : o->portion;

	if (p->round != s->slice.round || p->ranges != 1 || from / o->batch + 1 != p->round ||
	    at % o->portion || p->range[0].count != whole)
		return UINT64_MAX;
	return at / o->portion;
}

static void acknowledge(struct shard *s, struct tw_context *ctx, uint32_t slot,
			const struct tw_msg *m, bool taken, uint32_t flags)
{
	tw_shard_worker_close(tw_shard_worker(s, slot), m->b.push.link, m->h.seq, taken);
	tw_shard_acknowledge(s, ctx, slot, flags);
}

/* Everything that is counted and told of a portion that was taken. */
static void record(struct shard *s, struct tw_context *ctx, const struct tw_msg *m)
{
	struct slice *p = &s->slice;
	const struct tw_range *r = &m->b.push.range[0];

	if (tw_spans_add(&p->history.applied, r->from, r->from + r->count, NULL) != TW_OK)
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for a shard's history");
	tw_slice_count(p, &m->b.push.account);
	tw_shard_count_bytes(s, m, p->trainable);
	tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_APPLY,
					.shard = s->index,
					.life = p->version.incarnation,
					.slot = m->h.from,
					.incarnation = m->h.incarnation,
					.seq = m->h.seq,
					.version = p->version.n,
					.round = p->round,
					.from = r->from,
					.count = r->count,
					.apply = { .push = &m->b.push,
						   .n = p->trainable,
						   .values_sent = p->trainable,
						   .tally = &p->tally } });
}

static void push(struct shard *s, struct tw_context *ctx, uint32_t slot, const struct tw_msg *m)
{
	const struct tw_body_push *p = &m->b.push;
	struct shard_worker *g = tw_shard_worker(s, slot);
	uint64_t portion;

	if (p->link <= g->link) { /* it was closed */
		tw_shard_acknowledge(s, ctx, slot, 0);
		return;
	}
	if (p->base.incarnation != s->slice.version.incarnation) {
		s->slice.tally.fenced++;
		acknowledge(s, ctx, slot, m, false, TW_FLAG_REFUSED);
		return;
	}
	if (p->link != g->link + 1) /* a gap: the sender fills it */
		return;
	if (!tw_shard_plausible(s, p) || !m->payload ||
	    m->h.payload != s->slice.n * sizeof(float)) {
		s->slice.tally.refused++;
		acknowledge(s, ctx, slot, m, false, TW_FLAG_REFUSED);
		return;
	}
	portion = portion_of(s, p);
	if (portion == UINT64_MAX || !tw_vectors_wants(&s->slice, portion)) { /* (3) */
		s->slice.tally.dropped_pushes++;
		acknowledge(s, ctx, slot, m, false, TW_FLAG_DROPPED);
		return;
	}
	tw_vectors_fold(&s->slice, portion, m->payload, (const float *)tw_msg_payload(m),
			p->account.loss);
	record(s, ctx, m);
	acknowledge(s, ctx, slot, m, true, 0);
}

/* --- the duty ------------------------------------------------------------------------------- */

static const struct tw_taker taker = { .name = "portion", .push = push };

static bool wanted(const struct tw_plan *plan)
{
	return tw_plan_optimises(plan);
}

static void message(void *actor, struct tw_context *ctx, const struct tw_msg *m)
{
	hear_list(actor, ctx, m);
}

const struct tw_duty tw_batch_shard = {
	.name = "batch",
	.hears = TW_HEARS(TW_VEC),
	.seat = &taker,
	.wanted = wanted,
	.message = message,
};
