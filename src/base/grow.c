/* SPDX-License-Identifier: Apache-2.0 */
/* grow.c - how much more, and the move. */
#include "base/grow.h"

#include <string.h>

#define FIRST_BYTES    128
#define FIRST_ELEMENTS 4

/* The next room that holds `wanted` elements; 0 if size_t cannot hold its bytes. */
static size_t next_room(size_t room, size_t wanted, size_t each)
{
	const size_t most = SIZE_MAX / each;
	size_t next = FIRST_BYTES / each;

	if (wanted > most)
		return 0;
	if (next < FIRST_ELEMENTS)
		next = FIRST_ELEMENTS;
	if (next < wanted)
		next = wanted;
	if (room <= most / 2 && next < 2 * room)
		next = 2 * room;
	return next <= most ? next : wanted;
}

/* The owner's pointer, whatever its type. */
static void *pointer_at(const void *array)
{
	void *p;

	memcpy(&p, array, sizeof p);
	return p;
}

static void move(void *array, void *to, size_t bytes)
{
	if (bytes)
		memcpy(to, pointer_at(array), bytes);
	memcpy(array, &to, sizeof to);
}

bool tw_grow_move(struct tw_heap *heap, void *array, size_t *room, size_t used, size_t wanted,
		  size_t each)
{
	const size_t next = next_room(*room, wanted, each);
	void *const old = pointer_at(array);
	void *const fresh = next ? heap->get(heap, next * each) : NULL;

	if (!fresh)
		return false;
	move(array, fresh, used * each);
	heap->put(heap, old);
	*room = next;
	return true;
}

bool tw_grow_move_in(struct tw_arena *arena, void *array, size_t *room, size_t used, size_t wanted,
		     size_t each)
{
	const size_t next = next_room(*room, wanted, each);
	void *const fresh = next ? tw_arena_get(arena, next * each) : NULL;

	if (!fresh)
		return false;
	move(array, fresh, used * each);
	*room = next;
	return true;
}
