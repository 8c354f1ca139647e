/* SPDX-License-Identifier: Apache-2.0 */
/* shard_clocks.c - the clocks of all workers in a binary heap by (clock, slot). */
#include "node/shard/shard_clocks.h"

#include "actor/message.h"

#include <string.h>

/* --- the heap ------------------------------------------------------------------------------- */

static bool before(const struct shard_clocks *c, uint32_t a, uint32_t b)
{
	const uint64_t at = c->of[a].at, bt = c->of[b].at;

	return at < bt || (at == bt && a < b);
}

static void seat(struct shard_clocks *c, uint32_t place, uint32_t slot)
{
	c->heap[place] = slot;
	c->of[slot].place = place;
}

/* Put the slot where it belongs, from `place` on up or down. */
static void sift(struct shard_clocks *c, uint32_t place, uint32_t slot)
{
	const uint32_t count = c->seen.active_count;
	uint32_t child;

	for (; place > 1 && before(c, slot, c->heap[place / 2]); place /= 2)
		seat(c, place, c->heap[place / 2]);
	while ((child = 2 * place) <= count) {
		if (child < count && before(c, c->heap[child + 1], c->heap[child]))
			child++;
		if (!before(c, c->heap[child], slot))
			break;
		seat(c, place, c->heap[child]);
		place = child;
	}
	seat(c, place, slot);
}

/* (2), (5): after every change of the heap. */
static void look(struct shard_clocks *c)
{
	struct tw_clocks *s = &c->seen;
	const uint64_t before = s->least;

	if (s->active_count) {
		s->least_slot = c->heap[1];
		s->least = c->of[c->heap[1]].at;
	}
	if (!s->active_count || s->least > before)
		c->rose = true;
}

static void join(struct shard_clocks *c, uint32_t slot)
{
	sift(c, ++c->seen.active_count, slot);
	look(c);
}

static void leave(struct shard_clocks *c, uint32_t slot)
{
	const uint32_t place = c->of[slot].place, last = c->heap[c->seen.active_count--];

	c->of[slot].place = 0;
	if (last != slot)
		sift(c, place, last);
	look(c);
}

static void move(struct shard_clocks *c, uint32_t slot, uint64_t at)
{
	if (c->of[slot].at == at)
		return;
	c->of[slot].at = at;
	if (!c->of[slot].place)
		return;
	sift(c, c->of[slot].place, slot);
	look(c);
}

/* --- what is known of a worker -------------------------------------------------------------- */

enum tw_status tw_clocks_init(struct shard_clocks *c, struct tw_heap *heap, uint32_t slots)
{
	*c = (struct shard_clocks){ .slots = slots };
	c->of = tw_heap_zeros(heap, (slots ? slots : 1) * sizeof *c->of);
	c->heap = tw_heap_zeros(heap, ((size_t)slots + 1) * sizeof *c->heap);
	if (c->of && c->heap)
		return TW_OK;
	tw_clocks_release(c, heap);
	return TW_NO_MEMORY;
}

void tw_clocks_release(struct shard_clocks *c, struct tw_heap *heap)
{
	heap->put(heap, c->of);
	heap->put(heap, c->heap);
	*c = (struct shard_clocks){ .of = NULL };
}

void tw_clocks_reset(struct shard_clocks *c)
{
	for (uint32_t k = 0; k < c->slots; k++) {
		c->of[k].from = CLOCK_UNKNOWN;
		c->of[k].place = 0;
	}
	c->seen.active_count = 0;
	c->rose = true;
}

void tw_clocks_guess(struct shard_clocks *c, uint32_t slot)
{
	if (c->of[slot].from != CLOCK_UNKNOWN)
		return;
	c->of[slot].from = CLOCK_GUESSED;
	move(c, slot, c->seen.active_count ? c->seen.least : 0);
}

void tw_clocks_forget(struct shard_clocks *c, uint32_t slot)
{
	c->of[slot].from = CLOCK_UNKNOWN;
	c->of[slot].idle = false;
}

void tw_clocks_see(struct shard_clocks *c, uint32_t slot, bool here)
{
	struct shard_clock *k = &c->of[slot];
	const bool on = here && !k->idle && k->from != CLOCK_UNKNOWN;

	if (on == (k->place != 0))
		return;
	if (!on) {
		leave(c, slot);
		return;
	}
	if (c->seen.active_count && k->at < c->seen.least) { /* (4) */
		k->at = c->seen.least;
		k->from = CLOCK_GUESSED;
	}
	join(c, slot);
}

void tw_clocks_say(struct shard_clocks *c, uint32_t slot, uint64_t at, bool here)
{
	struct shard_clock *k = &c->of[slot];

	if (at >= TW_CLOCK_MOST) {
		tw_clocks_guess(c, slot);
	} else if (k->from != CLOCK_SAID || at > k->at) {
		k->from = CLOCK_SAID;
		move(c, slot, at);
	}
	tw_clocks_see(c, slot, here);
}

void tw_clocks_all_busy(struct shard_clocks *c)
{
	for (uint32_t k = 0; k < c->slots; k++)
		c->of[k].idle = false;
}
