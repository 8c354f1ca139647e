/* SPDX-License-Identifier: Apache-2.0 */
/* arena.c - pages in a list; the newest is the one that is cut from. */
#include "base/arena.h"

#include <stdalign.h>
#include <stdbool.h>
#include <string.h>

#define PAGE_BYTES 4096

struct tw_arena_page {
	struct tw_arena_page *next;
	size_t used, room;
	alignas(max_align_t) uint8_t data[];
};

void tw_arena_init(struct tw_arena *a, struct tw_heap *heap)
{
	*a = (struct tw_arena){ .heap = heap };
}

void tw_arena_release(struct tw_arena *a)
{
	while (a->pages) {
		struct tw_arena_page *next = a->pages->next;

		a->heap->put(a->heap, a->pages);
		a->pages = next;
	}
}

/* A large request gets a page of its own behind the current one, whose rest stays usable. */
static struct tw_arena_page *page_for(struct tw_arena *a, size_t bytes)
{
	const size_t standard = PAGE_BYTES - sizeof(struct tw_arena_page);
	const bool own = bytes > standard / 4;
	const size_t room = own ? bytes : standard;
	struct tw_arena_page *p;

	if (room > SIZE_MAX - sizeof *p)
		return NULL;
	p = a->heap->get(a->heap, sizeof *p + room);
	if (!p)
		return NULL;
	p->used = 0;
	p->room = room;
	if (own && a->pages) {
		p->next = a->pages->next;
		a->pages->next = p;
	} else {
		p->next = a->pages;
		a->pages = p;
	}
	return p;
}

void *tw_arena_get(struct tw_arena *a, size_t bytes)
{
	const size_t unit = alignof(max_align_t);
	struct tw_arena_page *p = a->pages;
	void *out;

	if (bytes > SIZE_MAX - unit)
		return NULL;
	bytes = (bytes + unit - 1) / unit * unit;
	if (bytes == 0)
		bytes = unit;
	if (!p || p->room - p->used < bytes)
		p = page_for(a, bytes);
	if (!p)
		return NULL;
	out = p->data + p->used;
	p->used += bytes;
	return memset(out, 0, bytes);
}

char *tw_arena_text(struct tw_arena *a, const char *text)
{
	const size_t bytes = strlen(text) + 1;
	char *out = tw_arena_get(a, bytes);

	return out ? memcpy(out, text, bytes) : NULL;
}
