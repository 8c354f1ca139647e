/* SPDX-License-Identifier: Apache-2.0 */
/* data_memory.c - what a data set owns, in a short list. */
#include "data/data_memory.h"

#include <inttypes.h>

#define SLOTS    (sizeof((struct tw_data *)0)->memory / sizeof(void *))
#define SUPPLIES (sizeof((struct tw_data *)0)->supply / sizeof(void *))

enum tw_status tw_data_keep_no_memory(struct tw_error *why, const char *what, uint64_t bytes)
{
	return tw_fail(why, TW_NO_MEMORY, "%s: no memory for %" PRIu64 " bytes", what, bytes);
}

enum tw_status tw_data_keep_room(struct tw_data *d, uint64_t count, uint64_t each, void **out,
				 struct tw_error *why)
{
	uint64_t bytes;
	void *memory;

	HOLDS(1, d->memories < SLOTS);
	if (__builtin_mul_overflow(count, each, &bytes) || bytes > SIZE_MAX / 2)
		return tw_data_keep_no_memory(why, "data", UINT64_MAX);
	memory = d->heap->get(d->heap, (size_t)bytes);
	if (!memory)
		return tw_data_keep_no_memory(why, "data", bytes);
	d->memory[d->memories++] = memory;
	*out = memory;
	return TW_OK;
}

void tw_data_keep_adopt(struct tw_data *d, void *memory)
{
	HOLDS(1, d->memories < SLOTS);
	d->memory[d->memories++] = memory;
}

void tw_data_keep_drop(struct tw_data *d, void *memory)
{
	size_t k = 0;

	if (!memory)
		return;
	while (d->memory[k] != memory)
		HOLDS(1, ++k < d->memories);
	d->memory[k] = d->memory[--d->memories];
	d->heap->put(d->heap, memory);
}

void tw_data_keep_supply(struct tw_data *d, struct tw_supply *s)
{
	HOLDS(1, d->supplies < SUPPLIES);
	d->supply[d->supplies++] = s;
}

void tw_data_keep_release(struct tw_data *d)
{
	while (d->supplies > 0) {
		struct tw_supply *s = d->supply[--d->supplies];

		s->close(s);
	}
	while (d->memories > 0)
		d->heap->put(d->heap, d->memory[--d->memories]);
	if (d->small.heap)
		tw_arena_release(&d->small);
}

void *tw_data_keep_small(struct tw_data *d, size_t bytes)
{
	if (!d->small.heap)
		tw_arena_init(&d->small, d->heap);
	return tw_arena_get(&d->small, bytes);
}

enum tw_status tw_data_keep_shape(struct tw_data *d, const char *what, uint32_t rank,
				  const uint64_t *shape, struct tw_error *why)
{
	uint64_t features = 1;

	for (uint32_t k = 0; k < rank; k++) {
		if (shape[k] == 0)
			return tw_fail(why, TW_BAD_INPUT,
				       "%s: its samples are empty (a size of 0); each needs "
				       "at least one value",
				       what);
		if (shape[k] > UINT32_MAX ||
		    __builtin_mul_overflow(features, shape[k], &features) || features > UINT32_MAX)
			return tw_fail(why, TW_BAD_INPUT,
				       "%s: its samples have more than %u values each", what,
				       UINT32_MAX);
		d->shape[k] = (uint32_t)shape[k];
	}
	d->rank = rank;
	d->features = (size_t)features;
	return TW_OK;
}
