/* SPDX-License-Identifier: Apache-2.0 */
/* heap.h - where memory comes from, so that a test may refuse it, and counted blocks. */
#ifndef TW_BASE_HEAP_H
#define TW_BASE_HEAP_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define TW_ALIGN 64

/* A source of memory.  `get` returns bytes aligned to TW_ALIGN, not cleared, or NULL; `put` takes
 * back what `get` returned, and NULL.  Both may be called from any thread. */
struct tw_heap {
	void *(*get)(struct tw_heap *heap, size_t bytes);
	void (*put)(struct tw_heap *heap, void *memory);
};

/* The operating system's memory. */
extern struct tw_heap tw_heap_system;

/* As `get`, filled with zeros. */
void *tw_heap_zeros(struct tw_heap *heap, size_t bytes);

/* Memory that several owners share by counting.  Whoever holds a reference may read; only the
 * sole owner (refs == 1) may write.  `bytes` is the length in use and at most `room`. */
struct tw_block {
	_Atomic uint32_t refs;
	size_t bytes, room;
	struct tw_heap *heap;
	struct tw_pool *pool;  /* where it goes when the last reference is dropped, or NULL */
	struct tw_block *next; /* the pool's list */
	_Alignas(TW_ALIGN) uint8_t data[];
};

/* A block of `bytes`, not cleared, with one reference; NULL without memory. */
struct tw_block *tw_block_new(struct tw_heap *heap, size_t bytes);
static inline struct tw_block *tw_block_keep(struct tw_block *b)
{
	if (b)
		atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);
	return b;
}
/* Nobody has a reference any more: the block goes back to where it came from. */
void tw_block_put(struct tw_block *b);
/* Drop one reference; NULL is allowed. */
static inline void tw_block_drop(struct tw_block *b)
{
	if (b && atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) == 1)
		tw_block_put(b);
}
static inline float *tw_block_floats(struct tw_block *b)
{
	return (float *)b->data;
}

/* A pool recycles blocks of one size: taking and dropping do not reach the heap once it is warm.
 * Safe from any thread.  It must outlive its blocks: release waits for nobody, so blocks still
 * held then are freed by their last holder. */
struct tw_pool;
struct tw_pool *tw_pool_new(struct tw_heap *heap, size_t bytes);
void tw_pool_free(struct tw_pool *pool);
struct tw_block *tw_pool_take(struct tw_pool *pool); /* NULL without memory */

#endif
