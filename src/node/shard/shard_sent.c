/* SPDX-License-Identifier: Apache-2.0 */
/* shard_sent.c - what is remembered of what workers were sent: some policies compare with it. */
#include "node/shard/shard.h"

#include <string.h>

static bool remembers(const struct shard *s)
{
	return (s->plan->staleness->traits & TW_STALENESS_SENT) || s->plan->gaps;
}

enum tw_status tw_shard_keep_sent(struct shard *s, struct shard_worker *g, struct tw_block *b)
{
	const uint32_t memory = s->members.memory;
	const uint64_t n = s->slice.version.n;

	if (!remembers(s))
		return TW_OK;
	if (!g->sent) {
		g->sent = tw_heap_zeros(s->heap, memory * sizeof *g->sent);
		if (!g->sent)
			return TW_NO_MEMORY;
	}
	if (g->sent[0].block == b && g->sent[0].n == n)
		return TW_OK;
	if (g->sent[0].block && g->sent[0].n == n && tw_slice_shows_each(&s->slice))
		return TW_OK; /* made again from the same version: the same numbers */
	tw_block_drop(g->sent[memory - 1].block);
	memmove(g->sent + 1, g->sent, (memory - 1) * sizeof *g->sent);
	g->sent[0] = (struct shard_worker_sent){ n, tw_block_keep(b) };
	return TW_OK;
}

const float *tw_shard_find_sent(const struct shard *s, const struct shard_worker *g,
				uint64_t version)
{
	for (uint32_t k = 0; k < s->members.memory; k++)
		if (g->sent[k].block && g->sent[k].n == version)
			return tw_block_floats(g->sent[k].block);
	/* its worker has gone, or an answer was sent twice: no distance is known */
	return NULL;
}

static void forget_sent(struct shard_worker_sent *one)
{
	tw_block_drop(one->block);
	one->block = NULL;
}

void tw_shard_forget_older(struct shard *s, struct shard_worker *g, uint64_t base)
{
	for (uint32_t k = 1; k < s->members.memory; k++)
		if (g->sent[k].n < base)
			forget_sent(&g->sent[k]);
}

void tw_shard_forget_all_sent(struct shard *s, struct shard_worker *g)
{
	for (uint32_t k = 0; g->sent && k < s->members.memory; k++)
		forget_sent(&g->sent[k]);
}
