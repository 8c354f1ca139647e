/* SPDX-License-Identifier: Apache-2.0 */
/* slots.h - a set of slot numbers below a fixed size, which knows ranks.
 *
 * Every call costs log(size / 64) steps at most, whatever is in the set.  Members are walked in
 * ascending order; the walk may add and remove while it goes:
 *
 *	for (uint32_t k = tw_slots_next(s, 0); k != TW_NO_SLOT; k = tw_slots_next(s, k + 1))
 *
 * Who owns what: a set owns its memory; release gives it back. */
#ifndef TW_BASE_SLOTS_H
#define TW_BASE_SLOTS_H

#include "base/heap.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define TW_NO_SLOT UINT32_MAX

struct tw_slots {
	struct tw_heap *heap;
	uint64_t *word;  /* bit k % 64 of word k / 64 */
	uint32_t *count; /* a Fenwick tree over the words' numbers of bits, from index 1 */
	uint32_t size, words;
	uint32_t members;
};

/* An empty set of numbers below `size`. */
enum tw_status tw_slots_init(struct tw_slots *s, struct tw_heap *heap, uint32_t size);
/* One that was never initialised, but zeroed, may be released. */
void tw_slots_release(struct tw_slots *s);
/* Slot k is in the set, or is not; nothing happens if that is so already.  k < size. */
void tw_slots_put(struct tw_slots *s, uint32_t k, bool in);
static inline bool tw_slots_has(const struct tw_slots *s, uint32_t k)
{
	return s->word[k / 64] >> k % 64 & 1;
}
/* The first member at or after `from`; TW_NO_SLOT: none. */
uint32_t tw_slots_next(const struct tw_slots *s, uint32_t from);
/* The first number that is no member; TW_NO_SLOT: all are. */
uint32_t tw_slots_first_free(const struct tw_slots *s);
/* How many members are below k.  k <= size. */
uint32_t tw_slots_rank(const struct tw_slots *s, uint32_t k);

#endif
