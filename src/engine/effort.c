/* SPDX-License-Identifier: Apache-2.0 */
/* effort.c - how much longer than others some samples take. */
#include "engine/effort.h"

static double factor(const struct tw_effort *f, const uint32_t *label, uint64_t sample)
{
	if (f->by_sample.count)
		return f->by_sample.at[sample % f->by_sample.count];
	return label && label[sample] < f->by_label.count ? f->by_label.at[label[sample]] : 1.0;
}

double tw_effort_mean(const struct tw_engine *e, const uint32_t *label, const struct tw_inputs *in)
{
	double sum = 0.0;

	for (uint32_t k = 0; k < in->count; k++)
		sum += factor(&e->effort, label, tw_order_sample(&e->order, in->from + k));
	return sum / in->count;
}
