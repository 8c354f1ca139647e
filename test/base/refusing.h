/* SPDX-License-Identifier: Apache-2.0 */
/* refusing.h - a heap that counts and refuses the nth request: failure as a loop. */
#ifndef TW_TEST_REFUSING_H
#define TW_TEST_REFUSING_H

#include "base/heap.h"

#include <stdbool.h>

struct refusing {
	struct tw_heap heap; /* must stay first */
	_Atomic unsigned calls;
	_Atomic int live;
	unsigned refuse; /* the number of the request that gets nothing; 0: none */
	bool onwards;    /* nor do those after it */
};

static inline void *refusing_get(struct tw_heap *heap, size_t bytes)
{
	struct refusing *r = (struct refusing *)heap;
	void *memory;
	const unsigned nth = atomic_fetch_add(&r->calls, 1) + 1;

	if (nth == r->refuse || (r->onwards && r->refuse && nth > r->refuse))
		return NULL;
	memory = tw_heap_system.get(&tw_heap_system, bytes);
	if (memory)
		atomic_fetch_add(&r->live, 1);
	return memory;
}

static inline void refusing_put(struct tw_heap *heap, void *memory)
{
	struct refusing *r = (struct refusing *)heap;

	if (memory)
		atomic_fetch_sub(&r->live, 1);
	tw_heap_system.put(&tw_heap_system, memory);
}

#define REFUSING(nth)                                                                              \
	{                                                                                          \
		.heap = { refusing_get, refusing_put }, .refuse = (nth)                            \
	}

#endif
