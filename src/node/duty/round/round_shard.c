/* SPDX-License-Identifier: Apache-2.0 */
/* round_shard.c - a shard's side of rounds: COMMIT applies what is staged, and nothing else does.
 * It holds the seat of the taker, unless replicas add up rounds (duty/reduce).  The numbers in
 * brackets are those of README.md. */
#include "node/duty/round/round_books.h"

#include <stddef.h>
#include <stdlib.h>

/* A set names workers whose slice for this round is here, each once: how many slices these are;
 * UINT32_MAX: something is missing. */
static uint32_t all_staged(const struct shard *s, const struct tw_member *set, uint32_t count)
{
	uint32_t slices = 0;

	for (uint32_t k = 0; k < count; k++) {
		const bool fits = !(k && set[k].slot <= set[k - 1].slot);
		const uint32_t lanes = fits ? tw_round_staged_of(s, &set[k]) : 0;

		if (!lanes)
			return UINT32_MAX;
		slices += lanes;
	}
	return slices;
}

static void apply_set(struct shard *s, struct tw_context *ctx, const struct tw_member *set,
		      uint32_t count)
{
	for (uint32_t k = 0; k < count; k++) {
		const uint32_t lanes = tw_round_staged_of(s, &set[k]),
			       first = set[k].slot * s->members.lanes;

		for (uint32_t l = 0; l < lanes; l++) { /* (2) */
			struct contribution *c = tw_round_unstaged(s, first + l, true);

			c->tau = tw_shard_staleness(s, &c->push);
			tw_bucket_add(s, c);
		}
	}
	tw_bucket_flush(s, ctx);
}

static int by_slot(const void *a, const void *b)
{
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* Staged, but not in the set: too late. */
static void drop_late(struct shard *s, struct tw_context *ctx)
{
	uint32_t *late = s->round->list, count = 0;

	for (uint32_t k = 0; k < s->round->count; k++)
		if (s->round->staged[s->round->list[k]])
			late[count++] = s->round->list[k];
	s->round->count = 0;
	qsort(late, count, sizeof *late, by_slot);
	for (uint32_t k = 0; k < count; k++) {
		struct contribution *c = tw_round_unstaged(s, late[k], false);

		tw_shard_note_drop(s, ctx, late[k], &c->push);
		tw_bucket_give_back(s, c);
	}
}

void tw_round_over(struct shard *s, struct tw_context *ctx, uint32_t count)
{
	s->slice.round++;
	if (!s->slice.quiet)
		tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_COMMIT,
						.shard = s->index,
						.round = s->slice.round - 1,
						.version = s->slice.version.n,
						.commit.contributions = count });
	tw_duties_updated(&s->duties, ctx);
	drop_late(s, ctx);
	s->queue.due = true;
	tw_shard_release(s, ctx);
}

static void commit(struct shard *s, struct tw_context *ctx, const struct tw_msg *m)
{
	const uint32_t count = m->b.commit.count;
	const struct tw_member *set = m->tail ? (const void *)m->tail->data : NULL;
	uint32_t slices;

	if (m->b.commit.round != s->slice.round)
		return;
	slices = all_staged(s, set, count);
	if (slices == UINT32_MAX) {
		s->slice.tally.refused++;
		tw_say(ctx, TW_ERROR,
		       "shard %u cannot commit round %llu: a contribution is missing", s->index,
		       (unsigned long long)s->slice.round);
		return;
	}
	if (tw_bucket_reserve(s, slices) != TW_OK) {
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for a round of %u", count);
		return;
	}
	apply_set(s, ctx, set, count);
	tw_block_drop(s->committed.set);
	s->committed.set = tw_block_keep(m->tail);
	s->committed.count = count;
	tw_round_over(s, ctx, count);
}

static const struct tw_taker taker = {
	.name = "round",
	.push = tw_shard_push_contribution,
	.commit = commit,
	.acknowledges = true,
	.fenced = tw_shard_push_refuse,
	.is_late = tw_round_is_late_push,
	.take = tw_round_take,
	.reject = tw_round_reject,
	.staged = tw_round_tell,
};

/* --- the duty -------------------------------------------------------------------------------- */

static bool wanted(const struct tw_plan *plan)
{
	return (plan->gate->traits & TW_GATE_ROUNDS) && !tw_plan_optimises(plan);
}

static enum tw_status open_books(void *actor)
{
	return tw_round_books_open(actor);
}

static void close_books(void *actor)
{
	tw_round_books_close(actor);
}

/* A new generation throws away what is staged. */
static void begin(void *actor, struct tw_context *ctx)
{
	(void)ctx;
	tw_round_books_forget(actor);
}

/* What somebody else in this slot staged stays: it is promised. */
static void joined(void *actor, struct tw_context *ctx, uint32_t slot)
{
	const struct shard *s = actor;
	const struct contribution *refused = s->round->refused[slot];

	(void)ctx;
	if (refused && refused->incarnation != tw_shard_worker(s, slot)->incarnation)
		tw_round_forget_refused(actor, slot);
}

static void home(void *actor, struct tw_context *ctx, uint32_t shard)
{
	(void)shard;
	tw_round_tell_again(actor, ctx);
}

const struct tw_duty tw_round_shard = {
	.name = "round",
	.bytes = sizeof(struct round_shard),
	.place = offsetof(struct shard, round),
	.seat = &taker,
	.wanted = wanted,
	.open = open_books,
	.close = close_books,
	.begin = begin,
	.joined = joined,
	.home = home,
};
