/* SPDX-License-Identifier: Apache-2.0 */
/* message_pool.c - memory of messages, kept for the next ones. */
#include "actor/message_pool.h"

#include <string.h>

static void *whole(const struct tw_msg *m, size_t place)
{
	return (char *)m - place;
}

static void drop_blocks(struct tw_msg *m)
{
	tw_block_drop(m->tail);
	tw_block_drop(m->payload);
}

void tw_msg_pool_give(struct tw_msg_pool *p, struct tw_msg *m)
{
	drop_blocks(m);
	if (p->spares >= p->most) {
		p->heap->put(p->heap, whole(m, p->place));
		return;
	}
	m->next = p->spare;
	p->spare = m;
	p->spares++;
}

void tw_msg_discard(struct tw_heap *heap, size_t place, struct tw_msg *m)
{
	drop_blocks(m);
	heap->put(heap, whole(m, place));
}

void tw_msg_pool_release(struct tw_msg_pool *p)
{
	while (p->spare) {
		struct tw_msg *m = p->spare;

		p->spare = m->next;
		p->heap->put(p->heap, whole(m, p->place));
	}
	p->spares = 0;
}
