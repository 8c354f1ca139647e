/* SPDX-License-Identifier: Apache-2.0 */
/* arena.h - memory that is taken bit by bit and given back at once. */
#ifndef TW_BASE_ARENA_H
#define TW_BASE_ARENA_H

#include "base/heap.h"

struct tw_arena {
	struct tw_heap *heap;
	struct tw_arena_page *pages;
};

void tw_arena_init(struct tw_arena *a, struct tw_heap *heap);
void tw_arena_release(struct tw_arena *a);
/* Zeroed, aligned for anything; NULL without memory.  Lives until release. */
void *tw_arena_get(struct tw_arena *a, size_t bytes);
char *tw_arena_text(struct tw_arena *a, const char *text);

#endif
