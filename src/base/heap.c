/* SPDX-License-Identifier: Apache-2.0 */
/* heap.c - the system's heap, counted blocks and pools of them.
 *
 *  (1) a pool lives until it was freed by its owner and all its blocks came back: `freed` and
 *      `out` say so.
 *  (2) `lock` guards `idle` and the counters only; nothing is called with it held. */
#include "base/heap.h"
#include "base/status.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Vectors on huge pages: a pass over several of them looks up few pages.  Only whole ones are asked
 * for, so a block takes no more memory than it has bytes. */
#define HUGE_PAGE  ((size_t)2 << 20)
#define HUGE_LEAST ((size_t)3 << 20)

static void *huge_get(size_t whole)
{
	void *memory;

	if (posix_memalign(&memory, HUGE_PAGE, whole) != 0)
		return NULL;
	/* if the system has none to give, the usual pages do */
	(void)madvise(memory, whole / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
	return memory;
}

static void *system_get(struct tw_heap *heap, size_t bytes)
{
	const size_t whole = (bytes + TW_ALIGN - 1) / TW_ALIGN * TW_ALIGN;

	(void)heap;
	if (whole < bytes)
		return NULL;
	if (whole >= HUGE_LEAST)
		return huge_get(whole);
	return aligned_alloc(TW_ALIGN, whole ? whole : TW_ALIGN);
}

static void system_put(struct tw_heap *heap, void *memory)
{
	free(memory);
}

struct tw_heap tw_heap_system = { system_get, system_put };

void *tw_heap_zeros(struct tw_heap *heap, size_t bytes)
{
	void *memory = heap->get(heap, bytes);

	if (memory)
		memset(memory, 0, bytes);
	return memory;
}

struct tw_pool {
	pthread_mutex_t lock;
	struct tw_heap *heap;
	struct tw_block *idle;
	size_t bytes, out;
	bool freed;
};

struct tw_block *tw_block_new(struct tw_heap *heap, size_t bytes)
{
	struct tw_block *b;

	if (bytes > SIZE_MAX - sizeof *b - TW_ALIGN)
		return NULL;
	b = heap->get(heap, sizeof *b + bytes);
	if (!b)
		return NULL;
	memset(b, 0, sizeof *b);
	atomic_init(&b->refs, 1);
	b->bytes = b->room = bytes;
	b->heap = heap;
	return b;
}

struct tw_pool *tw_pool_new(struct tw_heap *heap, size_t bytes)
{
	struct tw_pool *pool = tw_heap_zeros(heap, sizeof *pool);

	if (!pool)
		return NULL;
	pthread_mutex_init(&pool->lock, NULL);
	pool->heap = heap;
	pool->bytes = bytes;
	return pool;
}

static void pool_end(struct tw_pool *pool)
{
	struct tw_heap *heap = pool->heap;

	pthread_mutex_destroy(&pool->lock);
	heap->put(heap, pool);
}

void tw_pool_free(struct tw_pool *pool)
{
	struct tw_block *idle;
	bool last;

	if (!pool)
		return;
	pthread_mutex_lock(&pool->lock);
	idle = pool->idle;
	pool->idle = NULL;
	pool->freed = true;
	last = pool->out == 0;
	pthread_mutex_unlock(&pool->lock);
	while (idle) {
		struct tw_block *next = idle->next;

		pool->heap->put(pool->heap, idle);
		idle = next;
	}
	if (last)
		pool_end(pool);
}

struct tw_block *tw_pool_take(struct tw_pool *pool)
{
	struct tw_block *b;

	pthread_mutex_lock(&pool->lock);
	HOLDS(1, !pool->freed);
	b = pool->idle;
	if (b)
		pool->idle = b->next;
	pool->out++;
	pthread_mutex_unlock(&pool->lock);
	if (b) {
		b->next = NULL;
		b->bytes = b->room;
		atomic_store_explicit(&b->refs, 1, memory_order_relaxed);
		return b;
	}
	b = tw_block_new(pool->heap, pool->bytes);
	if (b) {
		b->pool = pool;
		return b;
	}
	pthread_mutex_lock(&pool->lock);
	pool->out--;
	pthread_mutex_unlock(&pool->lock);
	return NULL;
}

static void pool_back(struct tw_pool *pool, struct tw_block *b)
{
	bool last = false, keep;

	pthread_mutex_lock(&pool->lock);
	pool->out--;
	keep = !pool->freed;
	if (keep) {
		b->next = pool->idle;
		pool->idle = b;
	} else {
		last = pool->out == 0;
	}
	pthread_mutex_unlock(&pool->lock);
	if (keep)
		return;
	pool->heap->put(pool->heap, b);
	if (last)
		pool_end(pool);
}

void tw_block_put(struct tw_block *b)
{
	if (b->pool)
		pool_back(b->pool, b);
	else
		b->heap->put(b->heap, b);
}
