/* SPDX-License-Identifier: Apache-2.0 */
/* pipe_loop.c - whole vectors and gradients for a serial loop beside a run in stages. */
#include "job/pipe_loop.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

float *floats(size_t n)
{
	float *x = aligned_alloc(64, (n * sizeof(float) + 127) / 64 * 64);

	assert_non_null(x);
	memset(x, 0, n * sizeof *x);
	return x;
}

struct loop loop_of(const struct pipe_run *r)
{
	struct loop l = { .e = r->t.engine, .n = r->floats };

	l.w = floats(l.n);
	l.g = floats(l.n);
	l.own = floats(l.n);
	l.sum = floats(l.n);
	l.scratch = aligned_alloc(64, (l.e->scratch_bytes + 127) / 64 * 64);
	assert_non_null(l.scratch);
	assert_int_equal(l.e->class->init(l.e, 0, l.n, l.w), TW_OK);
	return l;
}

void loop_free(struct loop *l)
{
	free(l->w);
	free(l->g);
	free(l->own);
	free(l->sum);
	free(l->scratch);
}

void gradient(struct loop *l, const float *w, uint64_t from, uint32_t count)
{
	const struct tw_piece piece = { (float *)w, 0, l->n };
	const struct tw_inputs in = { .from = from, .count = count, .piece = &piece, .pieces = 1 };
	struct tw_score score;

	assert_int_equal(l->e->class->gradient(l->e, l->scratch, &in, l->g, &score), TW_OK);
}
