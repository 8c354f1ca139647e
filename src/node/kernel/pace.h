/* SPDX-License-Identifier: Apache-2.0 */
/* pace.h - how long work took lately, and how long one may wait for it. */
#ifndef TW_NODE_KERNEL_PACE_H
#define TW_NODE_KERNEL_PACE_H

#include <stdint.h>

/* The last pieces of work, and whose they were: a ring. */
#define TW_PACE_WINDOW 63
struct tw_pace {
	int64_t took[TW_PACE_WINDOW];   /* ns */
	double samples[TW_PACE_WINDOW]; /* in it; 0: not known */
	uint32_t slot[TW_PACE_WINDOW];
	uint32_t count; /* ever */
};

/* This slot took so long for so many samples. */
void tw_pace_add(struct tw_pace *p, uint32_t slot, int64_t took, uint64_t samples);
/* How long one may wait until this slot has done so many samples (0: as many as others did): ten
 * times the median of what the others took for as many, at least `least`; of a slot that is alone,
 * its own.  So no member can make others more patient with itself.  INT64_MAX: nobody has finished
 * anything. */
int64_t tw_pace_patience(const struct tw_pace *p, uint32_t slot, double samples, int64_t least);

#endif
