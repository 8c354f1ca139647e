/* SPDX-License-Identifier: Apache-2.0 */
/* shard_bucket.c - contributions: where they come from, those that wait for their update, and the
 * update.
 *
 *  (1) a contribution is in one place only: with a worker, in the bucket, or spare. Only what is in
 *      use holds a block.
 *  (2) the bucket holds what the gate admitted and has not let be applied, in order of arrival (a
 *      round's: in the order of its set).
 *  (3) who adds has made room before, so that adding cannot fail half-way through a round. */
#include "node/shard/shard.h"
#include "base/fetch.h"
#include "base/grow.h"

void tw_bucket_give_back(struct shard *s, struct contribution *c)
{
	if (!c)
		return;
	tw_block_drop(c->block);
	c->block = NULL;
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

void tw_bucket_flush(struct shard *s, struct tw_context *ctx)
{
	struct shard_bucket *b = &s->bucket;
	enum tw_status st;

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
	tw_shard_keep_view(s, ctx);
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
	*b = (struct shard_bucket){ .at = NULL };
}
