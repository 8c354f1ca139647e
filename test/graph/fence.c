/* SPDX-License-Identifier: Apache-2.0 */
/* fence.c - posts of 128 bytes; the address sanitizer also sees who reads them. */
#include "graph/fence.h"

#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define CLOSE(from, bytes) ASAN_POISON_MEMORY_REGION(from, bytes)
#define OPEN(from, bytes)  ASAN_UNPOISON_MEMORY_REGION(from, bytes)
#else
#define CLOSE(from, bytes) ((void)0)
#define OPEN(from, bytes)  ((void)0)
#endif

#define POST 128
#define MARK 0xC5

static size_t room_of(const struct fence *f)
{
	return (2 * POST + 64 + f->bytes + 63) / 64 * 64;
}

struct fence fence_new(size_t bytes, size_t shift)
{
	struct fence f = { .bytes = bytes, .shift = shift };

	if (!bytes)
		return f;
	f.whole = aligned_alloc(64, room_of(&f));
	if (!f.whole)
		abort();
	memset(f.whole, MARK, room_of(&f));
	f.at = f.whole + POST + shift;
	CLOSE(f.whole, POST + shift);
	CLOSE((uint8_t *)f.at + bytes, room_of(&f) - POST - shift - bytes);
	return f;
}

void fence_free(struct fence *f)
{
	if (f->whole)
		OPEN(f->whole, room_of(f));
	free(f->whole);
	*f = (struct fence){ 0 };
}

void fence_fill(struct fence *f, uint8_t byte)
{
	if (f->bytes)
		memset(f->at, byte, f->bytes);
}

static bool marked(const uint8_t *from, size_t n)
{
	bool good = true;

	OPEN(from, n);
	for (size_t i = 0; i < n; i++)
		good &= from[i] == MARK;
	CLOSE(from, n);
	return good;
}

bool fence_stands(const struct fence *f)
{
	const size_t before = POST + f->shift;

	return !f->bytes || (marked(f->whole, before) &&
			     marked(f->whole + before + f->bytes, room_of(f) - before - f->bytes));
}
