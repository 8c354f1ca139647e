/* SPDX-License-Identifier: Apache-2.0 */
/* host_master.c - the table of the duty. */
#include "node/duty/host/host_state.h"

#include <stddef.h>

static enum tw_status open_host(void *actor)
{
	struct master *m = actor;
	struct replicas *r = &m->replicas;

	if (!tw_master_has_replicas(m))
		return TW_OK;
	r->words = (m->plan->problem.shards + 63) / 64;
	r->bits = tw_heap_zeros(m->heap, (size_t)m->plan->crew.workers * REPLICA_WORDS * r->words *
						 sizeof *r->bits);
	return r->bits ? TW_OK : TW_NO_MEMORY;
}

static void close_host(void *actor)
{
	struct master *m = actor;

	m->heap->put(m->heap, m->replicas.bits);
}

const struct tw_duty tw_host_master = {
	.name = "host",
	.bytes = sizeof(struct host_master),
	.place = offsetof(struct master, host),
	.open = open_host,
	.close = close_host,
};
