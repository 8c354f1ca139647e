/* SPDX-License-Identifier: Apache-2.0 */
/* half.h - a rule on a part of the vector whose layers may have rates of their own.
 *
 * A rule knows one rate.  Where layers have factors (update.layers), it is called once for each run
 * of elements with the same factor; nobody but the callers of rules has to know of layers. */
#ifndef TW_NODE_HALF_H
#define TW_NODE_HALF_H

#include "node/plan.h"

/* How many of the n elements from `from` of the vector on have the factor of the first, and what
 * the rate is multiplied with there. */
static inline size_t tw_half_run(const struct tw_half *h, size_t from, size_t n, float *factor)
{
	const struct tw_rate_run *r = h->layers;

	*factor = 1.0f;
	if (!r)
		return n;
	while (r->to <= from)
		r++;
	*factor = r->factor;
	return r->to - from < n ? r->to - from : n;
}

/* The rule's functions for elements that begin at `from` of the vector. */
void tw_half_apply(const struct tw_half *h, const struct tw_apply *a, size_t from);
void tw_half_view(const struct tw_half *h, const struct tw_apply *a, size_t from, float *out);
void tw_half_prepare(const struct tw_half *h, const struct tw_prepare *p, size_t from);

#endif
