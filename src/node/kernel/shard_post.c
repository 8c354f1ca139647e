/* SPDX-License-Identifier: Apache-2.0 */
/* shard_post.c - messages of a shard, with what all of them have in their headers. */
#include "node/shard/shard.h"

struct tw_msg *tw_shard_to_master(const struct shard *s, struct tw_context *ctx, enum tw_type type)
{
	struct tw_msg *m = tw_msg_to(ctx, tw_master_addr(), type);

	if (m) {
		m->h.view = s->fence.generation;
		m->h.shard = m->h.from = s->index;
	}
	return m;
}

struct tw_msg *tw_shard_to_worker(const struct shard *s, struct tw_context *ctx,
				  const struct shard_worker *g, enum tw_type type)
{
	struct tw_msg *m = tw_msg_to(ctx, g->addr, type);

	if (!m)
		return NULL;
	m->h.view = s->fence.generation;
	m->h.shard = m->h.from = s->index;
	m->h.incarnation = g->incarnation;
	return m;
}
