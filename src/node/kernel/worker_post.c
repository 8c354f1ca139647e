/* SPDX-License-Identifier: Apache-2.0 */
/* worker_post.c - messages of a worker, with what all of them have in their headers. */
#include "node/worker/worker.h"

struct tw_msg *tw_worker_to_master(struct worker *w, struct tw_context *ctx, enum tw_type type)
{
	struct tw_msg *m = tw_msg_to(ctx, tw_master_addr(), type);

	if (!m)
		return NULL;
	m->h.from = w->me.id.slot;
	m->h.incarnation = w->me.id.incarnation;
	m->h.view = w->me.id.generation;
	return m;
}
