/* SPDX-License-Identifier: Apache-2.0 */
/* message_pool.h - memory of messages, kept for the next ones: the free list of every world.
 *
 *  (1) One thread at a time uses a pool.
 *  (2) A message may be given to another pool than it was taken from, if both have the same heap,
 *      bytes and place: a message goes from thread to thread.
 *  (3) A message that is given has no blocks any more, and is chained by `next`. */
#ifndef TW_ACTOR_MESSAGE_POOL_H
#define TW_ACTOR_MESSAGE_POOL_H

#include "actor/message.h"
#include "base/fetch.h"

#include <string.h>

struct tw_msg_pool {
	struct tw_heap *heap;
	size_t bytes; /* of what a world keeps with a message, the message included */
	size_t place; /* of the message in it */
	size_t most;  /* kept at most; the rest goes back to the heap */
	struct tw_msg *spare;
	size_t spares;
};

static inline void tw_msg_pool_init(struct tw_msg_pool *p, struct tw_heap *heap, size_t bytes,
				    size_t place, size_t most)
{
	*p = (struct tw_msg_pool){ .heap = heap, .bytes = bytes, .place = place, .most = most };
}
/* All `bytes` are zero; NULL without memory. */
static inline struct tw_msg *tw_msg_pool_take(struct tw_msg_pool *p)
{
	struct tw_msg *m = p->spare;
	char *bytes;

	if (m) {
		p->spare = m->next;
		p->spares--;
		tw_fetch(p->spare ? (char *)p->spare - p->place : NULL, p->bytes);
		bytes = (char *)m - p->place;
	} else {
		bytes = p->heap->get(p->heap, p->bytes);
		if (!bytes)
			return NULL;
	}
	memset(bytes, 0, p->bytes);
	return (struct tw_msg *)(bytes + p->place);
}
/* Drops its blocks. */
void tw_msg_pool_give(struct tw_msg_pool *p, struct tw_msg *m);
/* The same for a thread that has no pool. */
void tw_msg_discard(struct tw_heap *heap, size_t place, struct tw_msg *m);
/* What is kept goes back to the heap; the pool may be used on. */
void tw_msg_pool_release(struct tw_msg_pool *p);

#endif
