/* SPDX-License-Identifier: Apache-2.0 */
/* reduce_shard.c - a replica of a shard: its part in the sum of a round.  Numbers in brackets are
 * those of README.md; how pieces are added and travel is in src/node/reducer. */
#include "node/duty/mix/mix.h"
#include "node/duty/reduce/reduce.h"
#include "node/duty/reduce/reduce_state.h"

#include <stddef.h>

static const struct reducer_formation *formation(const struct shard *s)
{
	return tw_reducer_formation(s->reduce->sum);
}

/* --- what others say ------------------------------------------------------------------------- */

static void message(void *actor, struct tw_context *ctx, const struct tw_msg *m)
{
	struct shard *s = actor;

	if (m->h.type == TW_FORM && m->b.form.what == TW_FORM_ROUND) {
		tw_reducer_form(s->reduce->sum, ctx, m);
		tw_reduce_formed(s);
	} else if (m->h.type == TW_REDUCE && m->b.reduce.what == TW_FORM_ROUND) {
		tw_reducer_hear(s->reduce->sum, ctx, m);
	}
}

void tw_reduce_summed(struct shard *s, struct tw_context *ctx, uint64_t key, struct tw_block *sum,
		      struct tw_block *more)
{
	if (s->reduce && s->reduce->sum)
		tw_reducer_summed(s->reduce->sum, ctx, key, sum, more);
}

/* The contribution is added, and checked as it is made use of (4). */
static enum tw_status staged(struct shard *s, struct tw_context *ctx, struct contribution *c)
{
	struct reducer *r = s->reduce->sum;
	enum tw_status st;

	if ((!tw_reducer_checks(r) || tw_reduce_own(s) != c || s->slice.all != s->slice.n) &&
	    tw_round_check_staged(s, c) != TW_OK)
		return TW_BAD_BYTES;
	st = tw_reducer_input_came(r, ctx);
	if (st == TW_OK && tw_shard_is_loose(s))
		tw_reduce_tell(s, ctx); /* (5) */
	return st;
}

/* --- waiting --------------------------------------------------------------------------------- */

/* Since when its worker waits for the sum. */
static int64_t since(const struct shard *s)
{
	const struct reducer_formation *f = formation(s);

	return tw_shard_worker(s, f->member[f->rank].slot)->request.since;
}

static bool waits(const struct shard *s, struct tw_wait *out)
{
	if (s->reduce->sum && tw_reduce_own(s) && tw_reducer_waits(s->reduce->sum, out)) {
		out->since = since(s);
		return true;
	}
	return tw_shard_is_loose(s) && tw_mix_waits(s, out);
}

/* Its own worker comes first: others may wait for that one, too. */
static bool held_by(const struct shard *s, uint64_t attempt, struct tw_wait *out, uint32_t *depth)
{
	const struct reducer_formation *f = formation(s);
	uint32_t rank = f->peers;

	if (f->peers && f->attempt == attempt)
		rank = f->contributes && !tw_reduce_own(s)
			       ? f->rank
			       : tw_reducer_awaits(s->reduce->sum, depth);
	if (rank == f->peers)
		return false;
	*out = (struct tw_wait){ .slot = f->member[rank].slot, .since = since(s) };
	return true;
}

/* --- the duty -------------------------------------------------------------------------------- */

static bool wanted(const struct tw_plan *plan)
{
	return tw_plan_has_peers(plan) && (plan->gate->traits & TW_GATE_ROUNDS);
}

static enum tw_status open_sum(void *actor)
{
	struct shard *s = actor;

	s->reduce->sum = tw_reduce_new_sum(s);
	return s->reduce->sum ? TW_OK : TW_NO_MEMORY;
}

static void close_sum(void *actor)
{
	struct shard *s = actor;

	tw_reducer_free(s->reduce->sum);
	s->reduce->sum = NULL;
}

static void begin(void *actor, struct tw_context *ctx)
{
	const struct shard *s = actor;

	(void)ctx;
	tw_reducer_forget(s->reduce->sum);
}

static void node(void *actor, struct tw_context *ctx, uint32_t node)
{
	const struct shard *s = actor;

	tw_reducer_send_again(s->reduce->sum, ctx, node);
}

static void home(void *actor, struct tw_context *ctx, uint32_t shard)
{
	(void)shard;
	tw_reduce_tell(actor, ctx);
}

static const struct tw_taker taker = {
	.name = "reduce",
	.push = tw_shard_push_contribution,
	.commit = tw_reduce_commit,
	.acknowledges = true,
	.fenced = tw_shard_push_refuse,
	.is_late = tw_round_is_late_push,
	.take = tw_round_take,
	.reject = tw_round_reject,
	.staged = staged,
	.waits = waits,
	.held_by = held_by,
};

const struct tw_duty tw_reduce_shard = {
	.name = "reduce",
	.bytes = sizeof(struct reduce_shard),
	.place = offsetof(struct shard, reduce),
	.hears = TW_HEARS(TW_FORM) | TW_HEARS(TW_REDUCE),
	.seat = &taker,
	.wanted = wanted,
	.open = open_sum,
	.close = close_sum,
	.message = message,
	.begin = begin,
	.node = node,
	.home = home,
};
