/* SPDX-License-Identifier: Apache-2.0 */
/* memory_store.c - the store that keeps its cuts in memory. */
#include "world/memory_store.h"

#include "base/grow.h"

#include <string.h>

#define CUTS 2

struct cut {
	uint64_t number; /* 0: there is none */
	struct tw_part *part;
	size_t parts;
};

struct memory {
	struct tw_store store; /* must stay first */
	struct tw_heap *heap;
	struct cut cut[CUTS]; /* oldest first */
	struct cut making;    /* what was put; its parts have references */
	size_t room;          /* for them */
};

/* The same parts, with references of their own; NULL without memory. */
static struct tw_part *copy(struct tw_heap *heap, const struct tw_part *parts, size_t count)
{
	struct tw_part *out = heap->get(heap, (count ? count : 1) * sizeof *out);

	if (!out)
		return NULL;
	for (size_t i = 0; i < count; i++) {
		out[i] = parts[i];
		tw_block_keep(parts[i].bytes);
	}
	return out;
}

static void drop(struct tw_heap *heap, struct tw_part *parts, size_t count)
{
	for (size_t i = 0; i < count; i++)
		tw_block_drop(parts[i].bytes);
	heap->put(heap, parts);
}

static void forget_making(struct memory *m)
{
	drop(m->heap, m->making.part, m->making.parts);
	m->making = (struct cut){ 0 };
	m->room = 0;
}

/* Where a part of this name was put; NULL: nowhere. */
static struct tw_part *find_put(struct memory *m, const char *name)
{
	for (size_t k = 0; k < m->making.parts; k++)
		if (strcmp(m->making.part[k].name, name) == 0)
			return &m->making.part[k];
	return NULL;
}

static enum tw_status memory_put(struct tw_store *store, uint64_t number,
				 const struct tw_part *part)
{
	struct memory *m = (struct memory *)store;
	struct cut *c = &m->making;
	struct tw_part *at;

	if (c->number != number)
		forget_making(m);
	c->number = number;
	at = find_put(m, part->name);
	if (at) {
		tw_block_drop(at->bytes);
	} else {
		if (!TW_GROW(m->heap, c->part, m->room, c->parts, c->parts + 1))
			return TW_NO_MEMORY;
		at = &c->part[c->parts++];
	}
	*at = *part;
	tw_block_keep(part->bytes);
	return TW_OK;
}

/* Those without bytes were put before. */
static bool fill_in(struct memory *m, uint64_t number, struct tw_part *parts, size_t count)
{
	bool all = true;

	for (size_t k = 0; k < count; k++) {
		const struct tw_part *put = find_put(m, parts[k].name);

		if (parts[k].bytes)
			continue;
		if (put && m->making.number == number)
			parts[k].bytes = tw_block_keep(put->bytes);
		all = all && parts[k].bytes;
	}
	return all;
}

static enum tw_status memory_save(struct tw_store *store, uint64_t number,
				  const struct tw_part *parts, size_t count)
{
	struct memory *m = (struct memory *)store;
	struct tw_part *kept = copy(m->heap, parts, count);

	if (!kept)
		return TW_NO_MEMORY;
	if (!fill_in(m, number, kept, count)) {
		drop(m->heap, kept, count);
		return TW_BAD_INPUT;
	}
	forget_making(m);
	drop(m->heap, m->cut[0].part, m->cut[0].parts);
	memmove(&m->cut[0], &m->cut[1], (CUTS - 1) * sizeof m->cut[0]);
	m->cut[CUTS - 1] = (struct cut){ number, kept, count };
	return TW_OK;
}

static enum tw_status memory_load(struct tw_store *store, uint64_t *number, struct tw_part **parts,
				  size_t *count)
{
	struct memory *m = (struct memory *)store;
	const struct cut *newest = &m->cut[CUTS - 1];
	struct tw_part *out = copy(m->heap, newest->part, newest->parts);

	if (!out)
		return TW_NO_MEMORY;
	*number = newest->number;
	*parts = out;
	*count = newest->parts;
	return TW_OK;
}

static void memory_loaded_free(struct tw_store *store, struct tw_part *parts, size_t count)
{
	struct memory *m = (struct memory *)store;

	drop(m->heap, parts, count);
}

struct tw_store *tw_memory_store_new(struct tw_heap *heap)
{
	struct memory *m = tw_heap_zeros(heap, sizeof *m);

	if (!m)
		return NULL;
	m->heap = heap;
	m->store = (struct tw_store){
		.save = memory_save,
		.load = memory_load,
		.loaded_free = memory_loaded_free,
		.put = memory_put,
	};
	return &m->store;
}

void tw_memory_store_free(struct tw_store *store)
{
	struct memory *m = (struct memory *)store;

	if (!m)
		return;
	forget_making(m);
	for (size_t i = 0; i < CUTS; i++)
		drop(m->heap, m->cut[i].part, m->cut[i].parts);
	m->heap->put(m->heap, m);
}
