/* SPDX-License-Identifier: Apache-2.0 */
/* shape.c - sizes and names of shapes, and the slow way from one layout to another. */
#include "graph/shape.h"

#include <stdio.h>

size_t tw_shape_size(const struct tw_shape *s)
{
	size_t n = 1;

	for (uint32_t k = 0; k < s->rank; k++)
		n *= s->d[k];
	return n;
}

uint32_t tw_shape_positions(const struct tw_shape *s)
{
	return s->rank == 2 ? s->d[0] : 1;
}

uint32_t tw_shape_width(const struct tw_shape *s)
{
	return s->rank == 2 ? s->d[1] : (uint32_t)tw_shape_size(s);
}

bool tw_shape_same(const struct tw_shape *a, const struct tw_shape *b)
{
	if (a->rank != b->rank)
		return false;
	for (uint32_t k = 0; k < a->rank; k++)
		if (a->d[k] != b->d[k])
			return false;
	return true;
}

const char *tw_shape_text(const struct tw_shape *s, char out[40])
{
	if (s->rank == 0)
		snprintf(out, 40, "nothing");
	else if (s->rank == 1)
		snprintf(out, 40, "%u", (unsigned)s->d[0]);
	else if (s->rank == 2)
		snprintf(out, 40, "%ux%u", (unsigned)s->d[0], (unsigned)s->d[1]);
	else
		snprintf(out, 40, "%ux%ux%u", (unsigned)s->d[0], (unsigned)s->d[1],
			 (unsigned)s->d[2]);
	return out;
}

const char *tw_layout_name(enum tw_layout layout)
{
	switch (layout) {
	case TW_LAYOUT_LAST:
		return "last";
	case TW_LAYOUT_BLOCK16:
		return "block16";
	default:
		return "plain";
	}
}
