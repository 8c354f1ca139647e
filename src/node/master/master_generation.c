/* SPDX-License-Identifier: Apache-2.0 */
/* master_generation.c - a generation: it fences what was said before shards agreed. */
#include "node/master/master.h"

uint64_t tw_master_new_generation(struct master *m, struct tw_context *ctx)
{
	tw_verdict_master_reset(m);
	return m->restart.generation = ((uint64_t)ctx->boot << 32) | ++m->restart.counter;
}
