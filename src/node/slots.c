/* SPDX-License-Identifier: Apache-2.0 */
/* slots.c - a bitmap, and a Fenwick tree over its words.
 *
 *  (1) count[i] is the number of bits in the words i - lowbit(i) .. i - 1, so a prefix is a sum of
 *      log(words) counts, and a descent by halves finds the word where a prefix ends.
 *  (2) bits at and beyond `size` are 0. */
#include "node/slots.h"

enum tw_status tw_slots_init(struct tw_slots *s, struct tw_heap *heap, uint32_t size)
{
	const uint32_t words = size / 64 + 1;

	*s = (struct tw_slots){ .heap = heap, .size = size, .words = words };
	s->word = tw_heap_zeros(heap, words * sizeof *s->word);
	s->count = tw_heap_zeros(heap, (words + 1) * sizeof *s->count);
	return s->word && s->count ? TW_OK : TW_NO_MEMORY;
}

void tw_slots_release(struct tw_slots *s)
{
	if (s->heap) {
		s->heap->put(s->heap, s->word);
		s->heap->put(s->heap, s->count);
	}
	*s = (struct tw_slots){ 0 };
}

void tw_slots_put(struct tw_slots *s, uint32_t k, bool in)
{
	const uint32_t by = in ? 1 : UINT32_MAX; /* one more, or one less */

	if (tw_slots_has(s, k) == in)
		return;
	s->word[k / 64] ^= UINT64_C(1) << k % 64;
	for (uint32_t i = k / 64 + 1; i <= s->words; i += i & -i)
		s->count[i] += by;
	s->members += by;
}

uint32_t tw_slots_rank(const struct tw_slots *s, uint32_t k)
{
	const uint64_t below = (UINT64_C(1) << k % 64) - 1;
	uint32_t rank = (uint32_t)__builtin_popcountll(s->word[k / 64] & below);

	for (uint32_t i = k / 64; i; i -= i & -i)
		rank += s->count[i];
	return rank;
}

/* The largest power of two that is a word's index. */
static uint32_t top(const struct tw_slots *s)
{
	return UINT32_C(1) << (31 - __builtin_clz(s->words));
}

uint32_t tw_slots_next(const struct tw_slots *s, uint32_t from)
{
	uint32_t w = from / 64, before;
	uint64_t rest;

	if (from >= s->size)
		return TW_NO_SLOT;
	rest = s->word[w] >> from % 64;
	if (rest)
		return from + (uint32_t)__builtin_ctzll(rest);
	before = tw_slots_rank(s, from);
	if (before == s->members)
		return TW_NO_SLOT;
	w = 0;
	for (uint32_t half = top(s); half; half /= 2) /* the words that hold those before */
		if (w + half <= s->words && s->count[w + half] <= before) {
			w += half;
			before -= s->count[w];
		}
	return w * 64 + (uint32_t)__builtin_ctzll(s->word[w]);
}

uint32_t tw_slots_first_free(const struct tw_slots *s)
{
	uint32_t w = 0, free;

	for (uint32_t half = top(s); half; half /= 2) /* the words that are full */
		if (w + half <= s->words && s->count[w + half] == 64 * half)
			w += half;
	free = w * 64 + (uint32_t)__builtin_ctzll(~s->word[w]);
	return free < s->size ? free : TW_NO_SLOT;
}
