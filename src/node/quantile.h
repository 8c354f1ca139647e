/* SPDX-License-Identifier: Apache-2.0 */
/* quantile.h - numbers of slots, and the one below or at which a given share of them is.
 *
 * Exact: of n numbers it is the one of rank ceil(share * n), counted from the smallest, from 1.  A
 * change costs log n steps, a look none.
 *
 * Who owns what: it owns its memory; release gives it back. */
#ifndef TW_BASE_QUANTILE_H
#define TW_BASE_QUANTILE_H

#include "base/heap.h"
#include "base/status.h"

#include <stdint.h>

struct tw_quantile_place {
	double key;
	uint32_t at;   /* place in its half, from 1; 0: the slot has no number */
	uint32_t half; /* 0: at or below the quantile, 1: the rest */
};

struct tw_quantile {
	struct tw_heap *heap;
	struct tw_quantile_place *of; /* by slot */
	uint32_t *half[2];            /* heaps of slots: the largest below, the smallest above */
	uint32_t count[2];
	uint32_t per_mille;
};

/* No slot below `size` has a number.  share: in thousandths, 1 to 1000. */
enum tw_status tw_quantile_init(struct tw_quantile *q, struct tw_heap *heap, uint32_t size,
				uint32_t per_mille);
/* One that was never initialised, but zeroed, may be released. */
void tw_quantile_release(struct tw_quantile *q);
/* The slot has this number now, whatever it had before.  Not a NAN. */
void tw_quantile_put(struct tw_quantile *q, uint32_t slot, double key);
/* The slot has none. */
void tw_quantile_drop(struct tw_quantile *q, uint32_t slot);
/* 0: no slot has a number. */
static inline double tw_quantile_value(const struct tw_quantile *q)
{
	return q->count[0] ? q->of[q->half[0][1]].key : 0.0;
}

#endif
