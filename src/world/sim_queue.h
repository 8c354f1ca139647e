/* SPDX-License-Identifier: Apache-2.0 */
/* sim_queue.h - the simulator's containers: slabs, a queue of events in time order, a small map. */
#ifndef TW_WORLD_SIM_QUEUE_H
#define TW_WORLD_SIM_QUEUE_H

#include "base/heap.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Things of one size, taken and given back without reaching the heap once it is warm. */
struct slab {
	struct tw_heap *heap;
	size_t size;
	void *idle, *pages;
};
void tw_slab_init(struct slab *s, struct tw_heap *heap, size_t size);
/* Everything taken from it dies too. */
void tw_slab_release(struct slab *s);
/* One more page of idle things; false without memory. */
bool tw_slab_grow(struct slab *s);

static inline void *tw_slab_take(struct slab *s) /* not cleared; NULL without memory */
{
	void *thing;

	if (!s->idle && !tw_slab_grow(s))
		return NULL;
	thing = s->idle;
	s->idle = *(void **)thing;
	return thing;
}

static inline void tw_slab_give(struct slab *s, void *thing)
{
	*(void **)thing = s->idle;
	s->idle = thing;
}

/* What is to happen, ordered by (at, seq).  The earliest entries are sorted in `soon`, so that the
 * loop can fetch into the cache what they will touch; the rest is a heap with four children per
 * entry, whose entries hold their own keys so that sifting touches nothing else.
 *
 *  (1) no entry of `soon` is after an entry of the heap.
 *  (2) after a pop, `soon` has at least QUEUE_AHEAD entries, or the heap is empty. */
#define QUEUE_AHEAD 24
#define QUEUE_SOON  64

struct event;
struct entry {
	int64_t at;
	uint64_t seq;
	struct event *event;
};
struct queue {
	struct tw_heap *heap;
	struct entry *entry;
	size_t count, room; /* of the heap */
	uint64_t seq;
	struct entry soon[QUEUE_SOON]; /* a ring */
	uint32_t first, sooner;        /* of the ring: where it begins, and how many there are */
};
void tw_queue_init(struct queue *q, struct tw_heap *heap);
void tw_queue_release(struct queue *q);
/* False without memory, and the queue is as it was. */
bool tw_queue_push(struct queue *q, int64_t at, struct event *event);
struct entry tw_queue_pop(struct queue *q); /* it must not be empty */
/* All entries, in any order: the i-th of tw_queue_count. */
static inline size_t tw_queue_count(const struct queue *q)
{
	return q->sooner + q->count;
}
static inline struct entry *tw_queue_at(struct queue *q, size_t i)
{
	return i < q->sooner ? &q->soon[(q->first + i) % QUEUE_SOON] : &q->entry[i - q->sooner];
}
/* The event that is k-th to come, 0 the next one; NULL: not known yet, or taken off. */
static inline struct event *tw_queue_ahead(const struct queue *q, uint32_t k)
{
	return k < q->sooner ? q->soon[(q->first + k) % QUEUE_SOON].event : NULL;
}

/* uint64_t (never 0) -> int64_t, open addressing; nothing is ever taken out. */
struct map {
	struct tw_heap *heap;
	uint64_t *key;
	int64_t *value;
	size_t count, room; /* room is 0 or a power of two */
};
void tw_map_init(struct map *m, struct tw_heap *heap);
void tw_map_release(struct map *m);
int64_t *tw_map_find(const struct map *m, uint64_t key); /* NULL: not there */
/* The value of the key, put there as `fresh` if it was not; NULL without memory.  The pointer is
 * good until the next put. */
int64_t *tw_map_put(struct map *m, uint64_t key, int64_t fresh);

#endif
