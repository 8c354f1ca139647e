/* SPDX-License-Identifier: Apache-2.0 */
/* grow.h - an array that grows: the one place that doubles room, checks sizes and moves elements.
 *
 * The owner keeps three things: a pointer to the first element, how many elements are in use, and
 * `room`, how many fit.  An empty array is { NULL, 0, 0 }.
 *
 *  (1) an array never shrinks, and room at least doubles when it grows: adding n elements one by
 *      one moves each of them at most twice on average.
 *  (2) without memory, and for a number of bytes that size_t cannot hold, nothing changes: pointer,
 *      room and elements are as before.
 *  (3) elements in use keep their bytes.  What lies behind them is not cleared. */
#ifndef TW_BASE_GROW_H
#define TW_BASE_GROW_H

#include "base/arena.h"

#include <stdbool.h>

/* Make room for `wanted` elements.  `array` is the address of the owner's pointer to elements of
 * `each` bytes, of which the first `used` are in use.  True if they fit, at once if they fitted
 * before.  The old memory is given back to `heap`; memory of tw_heap_system may also be given to
 * free().  Prefer TW_GROW, which cannot get the size of an element wrong. */
static inline bool tw_grow(struct tw_heap *heap, void *array, size_t *room, size_t used,
			   size_t wanted, size_t each);
/* The same in an arena, where the old memory stays until the arena is released. */
static inline bool tw_grow_in(struct tw_arena *arena, void *array, size_t *room, size_t used,
			      size_t wanted, size_t each);

#define TW_GROW(heap, array, room, used, wanted)                                                   \
	tw_grow(heap, &(array), &(room), used, wanted, sizeof *(array))
#define TW_GROW_IN(arena, array, room, used, wanted)                                               \
	tw_grow_in(arena, &(array), &(room), used, wanted, sizeof *(array))

/* The rare part of the two: more than *room is wanted. */
bool tw_grow_move(struct tw_heap *heap, void *array, size_t *room, size_t used, size_t wanted,
		  size_t each);
bool tw_grow_move_in(struct tw_arena *arena, void *array, size_t *room, size_t used, size_t wanted,
		     size_t each);

static inline bool tw_grow(struct tw_heap *heap, void *array, size_t *room, size_t used,
			   size_t wanted, size_t each)
{
	return wanted <= *room || tw_grow_move(heap, array, room, used, wanted, each);
}

static inline bool tw_grow_in(struct tw_arena *arena, void *array, size_t *room, size_t used,
			      size_t wanted, size_t each)
{
	return wanted <= *room || tw_grow_move_in(arena, array, room, used, wanted, each);
}

#endif
