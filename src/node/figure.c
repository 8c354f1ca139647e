/* SPDX-License-Identifier: Apache-2.0 */
/* figure.c - adding up and reading fields by the rows of a table. */
#include "node/figure.h"

#define ADD(type)                                                                                  \
	do {                                                                                       \
		type *const x = (type *)to + k;                                                    \
		const type y = ((const type *)a)[k];                                               \
		*x = !f->most ? *x + y : y > *x ? y : *x;                                          \
	} while (0)

static void add(const struct tw_figure *f, void *to, const void *a, uint32_t k)
{
	if (f->type == TW_REAL)
		ADD(double);
	else if (f->type == TW_COUNT32)
		ADD(uint32_t);
	else
		ADD(uint64_t);
}

void tw_figures_add(const struct tw_figure *rows, size_t from, size_t bytes, void *to,
		    const void *a)
{
	for (const struct tw_figure *f = rows; f->name; f++) {
		const size_t at = f->offset - from;

		for (uint32_t k = 0; !f->derived && at < bytes && k < (f->bins ? f->bins : 1); k++)
			add(f, (uint8_t *)to + at, (const uint8_t *)a + at, k);
	}
}

uint64_t tw_figure_count(const struct tw_figure *f, const void *base)
{
	const void *at = (const uint8_t *)base + f->offset;

	return f->type == TW_COUNT32 ? *(const uint32_t *)at : *(const uint64_t *)at;
}

double tw_figure_real(const struct tw_figure *f, const void *base)
{
	if (f->type == TW_REAL)
		return *(const double *)((const uint8_t *)base + f->offset);
	return (double)tw_figure_count(f, base) / (f->type == TW_NANOS ? 1e9 : 1.0);
}
