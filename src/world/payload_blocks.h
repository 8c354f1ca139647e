/* SPDX-License-Identifier: Apache-2.0 */
/* payload_blocks.h - memory for payloads that come in from other processes. */
#ifndef TW_WORLD_PAYLOAD_BLOCKS_H
#define TW_WORLD_PAYLOAD_BLOCKS_H

#include "base/heap.h"

#define TW_PAYLOAD_POOLS 4 /* sizes whose blocks are kept for the next */

/* One thread at a time; the last used pool first. */
struct tw_payload_blocks {
	struct tw_heap *heap;
	struct tw_payload_pool {
		struct tw_pool *pool; /* NULL: none */
		size_t room;
	} pool[TW_PAYLOAD_POOLS];
};

/* NULL without memory. */
struct tw_block *tw_payload_block(struct tw_payload_blocks *b, size_t bytes);
void tw_payload_blocks_release(struct tw_payload_blocks *b);

#endif
