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
 * loop can fetch into the cache what they will touch; those that follow are a heap with four
 * children per entry, whose entries hold their own keys so that sifting touches nothing else.
 *
 * A heap of 100,000 entries does not fit the nearest caches.  So one that grows beyond QUEUE_CROWD
 * entries keeps only those before `until`; the rest waits in bins, unsorted, and comes to the heap
 * bin by bin.  A bin is found by the highest hexadecimal digit in which a time differs from
 * `since`, and by that digit; a bin with many entries is dealt out to finer ones first (a radix
 * heap).
 *
 *  (1) no entry of `soon` is after an entry of the heap, and none of the heap after one of a bin.
 *  (2) after a pop, `soon` has at least QUEUE_AHEAD entries, or heap and bins are empty.
 *  (3) since <= until; entries of bins are not before `until`, all others are.  Without entries in
 *      bins `until` is INT64_MAX.
 *  (4) a pop takes no memory: the heap has room for all entries, and there are chunks enough for
 *      any way in which those of the bins may come to lie.
 *  (5) nothing is pushed that is before what was popped last. */
#define QUEUE_AHEAD 24
#define QUEUE_SOON  64
#define QUEUE_CROWD 1024
#define QUEUE_CHUNK 42 /* entries: a chunk is 1 KiB */

struct event;
struct entry {
	int64_t at;
	uint64_t seq;
	struct event *event;
};
struct chunk {
	struct chunk *next;
	size_t count;
	struct entry entry[QUEUE_CHUNK];
};
struct bins {
	int64_t since, until;
	struct chunk *bin[16][16]; /* by digit from the lowest, by its value */
	uint16_t used[16];         /* by digit: the bins that are not empty, a bit each */
	size_t count;              /* entries of all of them */
	size_t crowd;              /* try to use them when the heap has more entries than this */
	struct slab chunks;
	size_t owned;       /* chunks taken from the slab, ... */
	struct chunk *idle; /* ... of which these are not in use */
};
struct queue {
	struct tw_heap *heap;
	struct entry *entry;
	size_t count, room; /* of the heap */
	uint64_t seq;
	struct entry soon[QUEUE_SOON]; /* a ring */
	uint32_t first, sooner;        /* of the ring: where it begins, and how many there are */
	struct bins bins;
};
void tw_queue_init(struct queue *q, struct tw_heap *heap);
void tw_queue_release(struct queue *q);
/* False without memory, and the queue is as it was. */
bool tw_queue_push(struct queue *q, int64_t at, struct event *event);
struct entry tw_queue_pop(struct queue *q); /* it must not be empty */
static inline size_t tw_queue_count(const struct queue *q)
{
	return q->sooner + q->count + q->bins.count;
}
/* Empty the bins, so that tw_queue_at reaches everything until the next push. */
void tw_queue_gather(struct queue *q);
/* All entries, in any order: the i-th of tw_queue_count. */
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
