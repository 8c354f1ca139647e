/* SPDX-License-Identifier: Apache-2.0 */
/* chosen.c - a list of positions before a supply, and samples read into memory. */
#include "data/chosen.h"
#include "data/data_memory.h"

#include <string.h>

/* --- chosen samples --------------------------------------------------------------------------- */

#define AT_ONCE 64u

struct chosen {
	struct tw_supply supply; /* must stay first */
	struct tw_supply *inner; /* the data set's own */
	struct tw_heap *heap;
	uint64_t *position;
	size_t room; /* bytes of a sample in the caller's room */
};

static enum tw_status chosen_fill(struct tw_supply *s, const uint64_t *position, uint32_t n,
				  void *room, struct tw_sample *out, struct tw_error *why)
{
	const struct chosen *c = (const struct chosen *)s;
	uint64_t at[AT_ONCE];
	enum tw_status st = TW_OK;
	uint32_t some;

	for (uint32_t k = 0; st == TW_OK && k < n; k += some) {
		some = n - k < AT_ONCE ? n - k : AT_ONCE;
		for (uint32_t i = 0; i < some; i++)
			at[i] = c->position[position[k + i]];
		st = c->inner->fill(c->inner, at, some, room ? (uint8_t *)room + k * c->room : NULL,
				    out + k, why);
	}
	return st;
}

static void chosen_soon(struct tw_supply *s, const uint64_t *position, uint32_t n)
{
	const struct chosen *c = (const struct chosen *)s;
	uint64_t at[AT_ONCE];
	uint32_t some;

	for (uint32_t k = 0; c->inner->soon && k < n; k += some) {
		some = n - k < AT_ONCE ? n - k : AT_ONCE;
		for (uint32_t i = 0; i < some; i++)
			at[i] = c->position[position[k + i]];
		c->inner->soon(c->inner, at, some);
	}
}

static void chosen_close(struct tw_supply *s)
{
	struct chosen *c = (struct chosen *)s;
	struct tw_heap *heap = c->heap;

	heap->put(heap, c->position);
	heap->put(heap, c);
}

enum tw_status tw_chosen_new(struct tw_data *d, const struct tw_samples *all, uint64_t count,
			     struct tw_samples *out, uint64_t **position, struct tw_error *why)
{
	struct tw_heap *heap = d->heap;
	struct chosen *c = tw_heap_zeros(heap, sizeof *c);

	if (c)
		c->position = heap->get(heap, count * sizeof *c->position);
	if (!c || !c->position) {
		heap->put(heap, c);
		return tw_data_keep_no_memory(why, "data", count * sizeof *c->position);
	}
	c->supply = (struct tw_supply){
		.lends = all->supply->lends,
		.fill = chosen_fill,
		.soon = chosen_soon,
		.close = chosen_close,
	};
	c->heap = heap;
	c->inner = all->supply;
	c->room = tw_samples_room(d);
	tw_data_keep_supply(d, &c->supply);
	*out = (struct tw_samples){ .count = count, .supply = &c->supply };
	*position = c->position;
	return TW_OK;
}

/* --- held samples ----------------------------------------------------------------------------- */

enum tw_status tw_hold_room(struct tw_data *d, uint64_t n, struct tw_samples *s,
			    struct tw_error *why)
{
	void *value = NULL, *answer = NULL;
	enum tw_status st;

	if (n == 0)
		return TW_OK;
	st = tw_data_keep_room(d, n, tw_samples_width(d), &value, why);
	if (st == TW_OK)
		st = tw_data_keep_room(d, n, tw_samples_answer(d), &answer, why);
	s->value = value;
	if (d->targets)
		s->target = answer;
	else
		s->label = answer;
	return st;
}

struct holding {
	uint8_t *value, *answer;
	size_t width, each;
};

static enum tw_status keep(void *arg, uint64_t i, const struct tw_sample *s, struct tw_error *why)
{
	const struct holding *h = arg;
	const void *answer = s->target ? (const void *)s->target : s->label;

	(void)why;
	memcpy(h->value + i * h->width, s->value, h->width);
	memcpy(h->answer + i * h->each, answer, h->each);
	return TW_OK;
}

enum tw_status tw_hold(struct tw_data *d, struct tw_samples *s, struct tw_error *why)
{
	struct tw_samples held = { .count = s->count, .weight = s->weight };
	struct holding h = { .width = tw_samples_width(d), .each = tw_samples_answer(d) };
	enum tw_status st;

	if (s->count == 0 || tw_samples_lend(s))
		return TW_OK;
	st = tw_hold_room(d, s->count, &held, why);
	if (st != TW_OK)
		return st;
	h.value = (uint8_t *)held.value;
	h.answer = d->targets ? (uint8_t *)held.target : (uint8_t *)held.label;
	st = tw_samples_walk(d, s, 0, UINT64_MAX, keep, &h, why);
	if (st == TW_OK)
		*s = held;
	return st;
}
