/* SPDX-License-Identifier: Apache-2.0 */
/* channel_sums.c - sums over a channel: in float over 64 rows, in double over these. */
#include "graph/channel_sums.h"
#include "vec/clone.h"

#include <string.h>

#define LANES   16u /* of a run of one channel's values */
#define STRETCH 64u /* rows that are added up in float */

struct tw_channels tw_channels_of(const struct tw_op_site *site)
{
	const struct tw_shape *s = &site->in[0];
	struct tw_channels v = {
		.batch = site->batch, .rows = 1, .inner = s->d[0], .channels = s->d[0]
	};

	if (s->rank == 3) {
		v.rows = (size_t)s->d[1] * s->d[2];
		if (site->in_layout[0] == TW_LAYOUT_PLAIN)
			v.inner = 1;
		else if (site->in_layout[0] == TW_LAYOUT_BLOCK16)
			v.inner = 16;
	}
	v.blocks = v.channels / v.inner;
	v.lanes = v.inner == 1 ? LANES : v.inner;
	v.count = (double)v.batch * (double)v.rows;
	return v;
}

size_t tw_channel_sums_bytes(const struct tw_channels *v)
{
	return 2 * v->lanes * sizeof(double) + (3 * v->lanes + 3 * v->channels) * sizeof(float);
}

struct tw_channel_sums tw_channel_sums_in(const struct tw_channels *v, void *scratch)
{
	struct tw_channel_sums p = { .total = scratch };

	p.sum = (float *)(p.total + 2 * v->lanes);
	p.shift = p.sum + 2 * v->lanes;
	for (uint32_t k = 0; k < 3; k++)
		p.factor[k] = p.shift + v->lanes + k * v->channels;
	return p;
}

/* With d = x - shift and u = g, or d where there is no g: sum[l] = u, sum[lanes + l] = u * d over
 * at most STRETCH rows, four at a time. */
static inline __attribute__((always_inline)) void stretch(const float *restrict x,
							  const float *restrict g,
							  const float *restrict shift, size_t rows,
							  size_t lanes, float *restrict sum)
{
	size_t r = 0;

	memset(sum, 0, 2 * lanes * sizeof *sum);
	for (; r + 4 <= rows; r += 4)
		for (size_t l = 0; l < lanes; l++) {
			const size_t at = r * lanes + l;
			const float d0 = x[at] - shift[l], d1 = x[at + lanes] - shift[l];
			const float d2 = x[at + 2 * lanes] - shift[l];
			const float d3 = x[at + 3 * lanes] - shift[l];
			const float u0 = g ? g[at] : d0, u1 = g ? g[at + lanes] : d1;
			const float u2 = g ? g[at + 2 * lanes] : d2;
			const float u3 = g ? g[at + 3 * lanes] : d3;

			sum[l] += (u0 + u1) + (u2 + u3);
			sum[lanes + l] += (u0 * d0 + u1 * d1) + (u2 * d2 + u3 * d3);
		}
	for (; r < rows; r++)
		for (size_t l = 0; l < lanes; l++) {
			const float d = x[r * lanes + l] - shift[l];
			const float u = g ? g[r * lanes + l] : d;

			sum[l] += u;
			sum[lanes + l] += u * d;
		}
}

TW_CLONED_STATIC(void, add_up,
		 (const float *x, const float *g, const float *shift, size_t rows, size_t lanes,
		  float *sum, double *total),
		 (x, g, shift, rows, lanes, sum, total))
{
	for (size_t r = 0; r < rows; r += STRETCH) {
		const size_t n = rows - r < STRETCH ? rows - r : STRETCH;

#define CALL(width)                                                                                \
	(g ? stretch(x + r * lanes, g + r * lanes, shift, n, width, sum)                           \
	   : stretch(x + r * lanes, NULL, shift, n, width, sum))
		TW_CHANNELS_SIZED(lanes, CALL)
#undef CALL
		for (size_t l = 0; l < 2 * lanes; l++)
			total[l] += (double)sum[l];
	}
}

/* A run of one channel's values: whole rows of LANES, then the rest. */
static void add_run(const float *x, const float *g, size_t n, const struct tw_channel_sums *p)
{
	const size_t rows = n / LANES;

	add_up(x, g, p->shift, rows, LANES, p->sum, p->total);
	for (size_t i = rows * LANES; i < n; i++) {
		const double d = (double)x[i] - (double)p->shift[0];
		const double u = g ? (double)g[i] : d;

		p->total[i % LANES] += u;
		p->total[LANES + i % LANES] += u * d;
	}
}

void tw_channel_sums_add(const struct tw_channels *v, size_t b, const float *x, const float *g,
			 const struct tw_channel_sums *p)
{
	memset(p->total, 0, 2 * v->lanes * sizeof *p->total);
	if (v->inner > 1 && v->blocks == 1) { /* all rows of the batch lie together */
		add_up(x, g, p->shift, v->batch * v->rows, v->inner, p->sum, p->total);
		return;
	}
	for (size_t n = 0; n < v->batch; n++) {
		const size_t at = (n * v->blocks + b) * v->rows * v->inner;

		if (v->inner == 1)
			add_run(x + at, g ? g + at : NULL, v->rows, p);
		else
			add_up(x + at, g ? g + at : NULL, p->shift, v->rows, v->inner, p->sum,
			       p->total);
	}
	if (v->inner == 1)
		for (size_t l = 1; l < LANES; l++) {
			p->total[0] += p->total[l];
			p->total[LANES] += p->total[LANES + l];
		}
}
