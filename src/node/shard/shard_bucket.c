/* SPDX-License-Identifier: Apache-2.0 */
/* shard_bucket.c - contributions: where they come from, those that wait for their update, and the
 * update.
 *
 *  (1) a contribution is in one place only: with a worker, in the bucket, or spare. Only what is in
 *      use holds a block.
 *  (2) the bucket holds what the gate admitted and has not let be applied, in order of arrival (a
 *      round's: in the order of its set).
 *      Where the gate takes only what is of the current version, the vectors are added up as they
 *      come, in the first contribution of each sum; of the others the books remain.  So the bucket
 *      holds one vector, or one for each worker, whatever number of contributions it has.
 *      Where the master judges, it also says when the update is due.
 *  (3) who adds has made room before, so that adding cannot fail half-way through a round. */
#include "node/shard/shard.h"
#include "base/fetch.h"
#include "base/grow.h"

void tw_bucket_give_back(struct shard *s, struct contribution *c)
{
	if (!c)
		return;
	tw_block_drop(c->block);
	tw_block_drop(c->wire);
	c->block = c->wire = NULL;
	c->spare = s->bucket.spare;
	s->bucket.spare = c;
}

enum tw_status tw_bucket_reserve(struct shard *s, uint32_t more)
{
	struct shard_bucket *b = &s->bucket;

	return TW_GROW(s->heap, b->at, b->room, b->count, (size_t)b->count + more) ? TW_OK
										   : TW_NO_MEMORY;
}

void tw_bucket_add(struct shard *s, struct contribution *c)
{
	HOLDS(3, s->bucket.count < s->bucket.room);
	s->bucket.at[s->bucket.count++] = c;
}

static enum tw_keeps keeps(const struct shard *s)
{
	return tw_gate_keeps(s->plan->gate, s->plan->gate_options);
}

enum tw_status tw_bucket_init(struct shard *s)
{
	const size_t sums = keeps(s) == TW_KEEP_BY_WORKER ? s->members.senders : 1;

	if (keeps(s) == TW_KEEP_EACH)
		return TW_OK;
	s->bucket.sum = tw_heap_zeros(s->heap, (sums ? sums : 1) * sizeof *s->bucket.sum);
	return s->bucket.sum ? TW_OK : TW_NO_MEMORY;
}

/* The sum that a contribution of this worker belongs to. */
static struct shard_sum *sum_of(const struct shard *s, uint32_t slot)
{
	return &s->bucket.sum[keeps(s) == TW_KEEP_BY_WORKER ? slot : 0];
}

/* (2): add its vector to the sum. */
static enum tw_status add_up(struct shard *s, struct contribution *c)
{
	const bool active = s->clocks.of[c->slot].place;
	struct shard_sum *sum = sum_of(s, c->slot);

	if (sum->of && tw_slice_update_fold(&s->slice, sum->of, c) != TW_OK)
		return TW_NO_MEMORY;
	if (active)
		tw_bucket_active(s, c->slot, false);
	if (!sum->of)
		sum->of = c;
	sum->count++;
	if (active)
		tw_bucket_active(s, c->slot, true);
	return TW_OK;
}

void tw_bucket_active(struct shard *s, uint32_t slot, bool active)
{
	struct tw_collected *k = &s->bucket.kept;

	if (keeps(s) != TW_KEEP_BY_WORKER || !s->bucket.sum[slot].of)
		return;
	k->workers += active ? 1 : UINT32_MAX;
	k->inverse += (active ? 1.0 : -1.0) / s->bucket.sum[slot].count;
	if (!k->workers)
		k->inverse = 0;
}

static bool is_full(const struct shard *s)
{
	struct tw_collected k = s->bucket.kept;

	k.count = s->bucket.count;
	k.missing = s->clocks.seen.active_count - k.workers;
	return s->plan->gate->full(s->plan->gate_options, &k);
}

void tw_bucket_collect(struct shard *s, struct tw_context *ctx, struct contribution *c)
{
	if (s->bucket.sum && add_up(s, c) != TW_OK) {
		tw_bucket_give_back(s, c);
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for a contribution");
		return;
	}
	tw_bucket_add(s, c);
	if (!tw_plan_judges(s->plan) && is_full(s))
		tw_bucket_flush(s, ctx);
}

void tw_bucket_check(struct shard *s, struct tw_context *ctx)
{
	if ((s->plan->gate->traits & TW_GATE_WAITS) && !tw_plan_judges(s->plan) &&
	    s->bucket.count && is_full(s))
		tw_bucket_flush(s, ctx);
}

/* Those that hold a sum come first, and count alike where there is one for each worker; the sums
 * are empty then. */
static void close_sums(struct shard *s)
{
	struct shard_bucket *b = &s->bucket;
	uint32_t first = 0;

	for (uint32_t k = 0; b->sum && k < b->count; k++) {
		struct contribution *c = b->at[k];

		if (!c->g)
			continue;
		b->at[k] = b->at[first];
		b->at[first++] = c;
		if (keeps(s) == TW_KEEP_BY_WORKER)
			c->push.account.weight = 1.0f;
		*sum_of(s, c->slot) = (struct shard_sum){ .of = NULL };
	}
	b->kept = (struct tw_collected){ .count = 0 };
}

void tw_bucket_flush(struct shard *s, struct tw_context *ctx)
{
	struct shard_bucket *b = &s->bucket;
	enum tw_status st;

	close_sums(s);
	for (uint32_t k = 0; k < b->count; k++)
		b->at[k]->sent = tw_shard_sent(s, b->at[k]->slot, b->at[k]->push.base.n);
	st = tw_slice_update_commit(&s->slice, ctx, b->at, b->count, s->members.live);
	for (uint32_t k = 0; k < b->count; k++) {
		tw_fetch(b->at[k + 8 < b->count ? k + 8 : k], sizeof **b->at);
		tw_shard_worker(s, b->at[k]->slot)->applied += st == TW_OK;
		tw_bucket_give_back(s, b->at[k]);
	}
	b->count = 0;
	if (st != TW_OK)
		tw_give_up(ctx, st, "no memory for an update of %zu parameters", s->slice.n);
	tw_duties_updated(&s->duties, ctx);
	tw_shard_stop_late(s, ctx);
}

void tw_bucket_release(struct shard *s)
{
	struct shard_bucket *b = &s->bucket;

	for (uint32_t k = 0; k < b->count; k++)
		tw_bucket_give_back(s, b->at[k]);
	while (b->spare) {
		struct contribution *c = b->spare;

		b->spare = c->spare;
		s->heap->put(s->heap, c);
	}
	s->heap->put(s->heap, b->at);
	s->heap->put(s->heap, b->sum);
	*b = (struct shard_bucket){ .at = NULL };
}
