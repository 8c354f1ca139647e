/* SPDX-License-Identifier: Apache-2.0 */
/* payload_blocks.c - where payloads that come in lie: the same few sizes come again and again, and
 * memory that the system has just given costs more to touch than the bytes cost to receive. */
#include "world/payload_blocks.h"

#include <string.h>

#define LEAST   (64u << 10) /* payloads below are cheap to allocate */
#define ROUNDED (4u << 10)  /* slices of a model differ by an element: they share a pool */

struct tw_block *tw_payload_block(struct tw_payload_blocks *t, size_t bytes)
{
	const size_t room = (bytes + ROUNDED - 1) / ROUNDED * ROUNDED;
	struct tw_payload_pool found = { .pool = NULL };
	struct tw_block *b;
	size_t k = 0;

	if (bytes < LEAST)
		return tw_block_new(t->heap, bytes);
	while (k < TW_PAYLOAD_POOLS - 1 && t->pool[k].room != room)
		k++;
	if (t->pool[k].room == room) {
		found = t->pool[k];
	} else { /* the size not seen for longest makes room */
		tw_pool_free(t->pool[k].pool);
		found = (struct tw_payload_pool){ tw_pool_new(t->heap, room), room };
	}
	memmove(t->pool + 1, t->pool, k * sizeof t->pool[0]);
	t->pool[0] = found;
	if (!found.pool) {
		t->pool[0].room = 0;
		return NULL;
	}
	b = tw_pool_take(found.pool);
	if (b)
		b->bytes = bytes;
	return b;
}

void tw_payload_blocks_release(struct tw_payload_blocks *t)
{
	for (size_t k = 0; k < TW_PAYLOAD_POOLS; k++)
		tw_pool_free(t->pool[k].pool);
	memset(t->pool, 0, sizeof t->pool);
}
