/* SPDX-License-Identifier: Apache-2.0 */
/* pace.c - the median of what others took. */
#include "node/kernel/pace.h"

#define PATIENCE 10 /* times what is usual */

/* between two looks */

void tw_pace_add(struct tw_pace *p, uint32_t slot, int64_t took, uint64_t samples)
{
	const uint32_t at = p->count++ % TW_PACE_WINDOW;

	p->took[at] = took;
	p->samples[at] = (double)samples;
	p->slot[at] = slot;
}

/* Entry k as it would be with so many samples; 0: as it is. */
static double scaled(const struct tw_pace *p, uint32_t k, double samples)
{
	const double took = (double)p->took[k];

	return samples > 0 && p->samples[k] > 0 ? took / p->samples[k] * samples : took;
}

/* The median of what others than this member would have taken for as much; -1: they have finished
 * nothing lately. */
static double median_of_others(const struct tw_pace *p, uint32_t slot, double samples)
{
	double sorted[TW_PACE_WINDOW];
	uint32_t n = 0;

	for (uint32_t k = 0; k < TW_PACE_WINDOW && k < p->count; k++) {
		const double took = scaled(p, k, samples);
		uint32_t at = n;

		if (p->slot[k] == slot)
			continue;
		for (; at && sorted[at - 1] > took; at--)
			sorted[at] = sorted[at - 1];
		sorted[at] = took;
		n++;
	}
	return n ? sorted[n / 2] : -1;
}

int64_t tw_pace_patience(const struct tw_pace *p, uint32_t slot, double samples, int64_t least)
{
	double usual = median_of_others(p, slot, samples);

	if (!p->count)
		return INT64_MAX;
	if (usual < 0)
		usual = median_of_others(p, UINT32_MAX, samples);
	if (PATIENCE * usual >= (double)INT64_MAX)
		return INT64_MAX;
	return PATIENCE * usual > (double)least ? (int64_t)(PATIENCE * usual) : least;
}
