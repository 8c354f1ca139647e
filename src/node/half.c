/* SPDX-License-Identifier: Apache-2.0 */
/* half.c - a rule on a part of the vector whose layers may have rates of their own. */
#include "node/half.h"

/* Elements at..at+n of it, with this factor on its rates. */
static struct tw_apply part_of(const struct tw_half *h, const struct tw_apply *a, size_t at,
			       size_t n, float factor)
{
	struct tw_apply part = *a;

	part.w += at;
	part.out = a->out ? a->out + at : NULL;
	part.g = a->g ? a->g + at : NULL;
	part.direction = a->direction ? a->direction + at : NULL;
	part.mine = a->mine ? a->mine + at : NULL;
	for (uint32_t k = 0; k < h->rule->arrays; k++)
		part.array[k] = a->array[k] + at;
	part.n = n;
	part.rate = a->rate * factor;
	part.before = a->before * factor;
	return part;
}

void tw_half_apply(const struct tw_half *h, const struct tw_apply *a, size_t from)
{
	float factor;

	for (size_t at = 0, n; at < a->n; at += n) {
		n = tw_half_run(h, from + at, a->n - at, &factor);

		const struct tw_apply part = part_of(h, a, at, n, factor);

		h->rule->apply(h->options, &part);
	}
}

void tw_half_view(const struct tw_half *h, const struct tw_apply *a, size_t from, float *out)
{
	float factor;

	for (size_t at = 0, n; at < a->n; at += n) {
		n = tw_half_run(h, from + at, a->n - at, &factor);

		const struct tw_apply part = part_of(h, a, at, n, factor);

		h->rule->view(h->options, &part, out + at);
	}
}

void tw_half_prepare(const struct tw_half *h, const struct tw_prepare *p, size_t from)
{
	float factor;

	for (size_t at = 0, n; at < p->n; at += n) {
		n = tw_half_run(h, from + at, p->n - at, &factor);

		const struct tw_prepare part = { .v = p->v + at,
						 .g = p->g + at,
						 .u = p->u + at,
						 .n = n,
						 .rate = p->rate * factor,
						 .before = p->before * factor };

		h->rule->prepare(h->options, &part);
	}
}
