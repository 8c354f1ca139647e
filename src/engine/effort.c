/* SPDX-License-Identifier: Apache-2.0 */
/* effort.c - how much longer than others some samples take. */
#include "engine/effort.h"

static double factor(const struct tw_effort *f, const uint32_t *label, uint64_t sample)
{
	if (f->by_sample.count)
		return f->by_sample.at[sample % f->by_sample.count];
	return label && *label < f->by_label.count ? f->by_label.at[*label] : 1.0;
}

double tw_effort_mean(const struct tw_engine *e, const struct tw_data *d,
		      const struct tw_inputs *in)
{
	const bool labels = d && !d->tokens && d->classes && e->effort.by_label.count;
	double sum = 0.0;

	for (uint32_t k = 0; k < in->count; k++) {
		const uint64_t sample = tw_order_sample(&e->order, in->from + k);
		const struct tw_batch one = { .set = labels ? &d->train : NULL,
					      .index = &sample,
					      .count = 1 };
		uint32_t label;
		const bool known = labels && tw_data_answers(d, &one, &label, NULL) == TW_OK;

		sum += factor(&e->effort, known ? &label : NULL, sample);
	}
	return sum / in->count;
}
