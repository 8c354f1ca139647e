/* SPDX-License-Identifier: Apache-2.0 */
/* delay-adaptive.c - delay compensation scaled by the gradient's size (DC-ASGD-a, Zheng 2017).
 *
 *	MS = memory MS + (1 - memory) g g
 *	g + lambda / sqrt(MS + 1e-7) g g (w - sent)
 *
 * with one MS for all workers, from the raw gradient. */
#include "strategy/scalar.h"
#include "strategy/staleness.h"
#include "vec/clone.h"

#include <math.h>

struct options {
	float lambda;
	double memory;
};

static const struct tw_option rows[] = {
	TW_OPTION(struct options, lambda, TW_F32, "2", NULL, 0, 1e9,
		  "strength of the compensation; 0 compensates nothing"),
	TW_OPTION(struct options, memory, TW_F64, "0.95", NULL, 0, 0.999999,
		  "share of the old value that the running mean square of the gradient keeps"),
	TW_OPTION_END
};

struct factors {
	float lambda, keep, add;
};

TW_CLONED_STATIC(void, compensate,
		 (float *g, const float *w, const float *sent, float *square, struct factors f,
		  size_t n),
		 (g, w, sent, square, f, n))
{
#pragma GCC ivdep
	for (size_t i = 0; i < n; i++) {
		const float x = g[i], moved = w[i] - sent[i];
		const float ms = tw_tame(fmaf(f.keep, square[i], f.add * (x * x)));
		const float y = fmaf(f.lambda / sqrtf(ms + 1e-7f) * x * x, moved, x);
		const bool same = (x == 0.0f) | (moved == 0.0f) | !(fabsf(y) <= FLT_MAX);

		square[i] = ms;
		g[i] = same ? x : y;
	}
}

static void correct(const void *options, struct tw_correction *c)
{
	const struct options *o = options;
	const struct factors f = { .lambda = o->lambda,
				   .keep = (float)o->memory,
				   .add = (float)(1.0 - o->memory) };

	if (o->lambda != 0.0f)
		compensate(c->g, c->w, c->sent, c->array[0], f, c->n);
}

const struct tw_staleness tw_staleness_delay_adaptive = {
	.name = "delay-adaptive",
	.help = "delay compensation that is weaker where gradients are large",
	.options = rows,
	.options_bytes = sizeof(struct options),
	.traits = TW_STALENESS_SENT,
	.arrays = 1,
	.correct = correct,
};
