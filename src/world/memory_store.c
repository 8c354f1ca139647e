/* SPDX-License-Identifier: Apache-2.0 */
/* memory_store.c - the store that keeps its cuts in memory. */
#include "world/memory_store.h"

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

static enum tw_status memory_save(struct tw_store *store, uint64_t number,
				  const struct tw_part *parts, size_t count)
{
	struct memory *m = (struct memory *)store;
	struct tw_part *kept = copy(m->heap, parts, count);

	if (!kept)
		return TW_NO_MEMORY;
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
	};
	return &m->store;
}

void tw_memory_store_free(struct tw_store *store)
{
	struct memory *m = (struct memory *)store;

	if (!m)
		return;
	for (size_t i = 0; i < CUTS; i++)
		drop(m->heap, m->cut[i].part, m->cut[i].parts);
	m->heap->put(m->heap, m);
}
