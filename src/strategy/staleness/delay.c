/* SPDX-License-Identifier: Apache-2.0 */
/* delay.c - delay compensation with a constant factor (DC-ASGD-c, Zheng et al. 2017).
 *
 *	g + lambda g g (w - sent)
 *
 * the first-order guess of the gradient at w from the one at `sent`.  Where there is nothing to
 * correct (g = 0, w = sent) or the guess overflows, g keeps its bits. */
#include "strategy/scalar.h"
#include "strategy/staleness.h"
#include "vec/clone.h"

#include <math.h>

struct options {
	float lambda;
};

static const struct tw_option rows[] = {
	TW_OPTION(struct options, lambda, TW_F32, "0.04", NULL, 0, 1e9,
		  "strength of the compensation; 0 compensates nothing"),
	TW_OPTION_END
};

TW_CLONED_STATIC(void, compensate,
		 (float *g, const float *w, const float *sent, float lambda, size_t n),
		 (g, w, sent, lambda, n))
{
#pragma GCC ivdep
	for (size_t i = 0; i < n; i++) {
		const float x = g[i], moved = w[i] - sent[i];
		const float y = fmaf(lambda * x * x, moved, x);
		const bool keep = (x == 0.0f) | (moved == 0.0f) | !(fabsf(y) <= FLT_MAX);

		g[i] = keep ? x : y;
	}
}

static void correct(const void *options, struct tw_correction *c)
{
	const struct options *o = options;

	if (o->lambda != 0.0f)
		compensate(c->g, c->w, c->sent, o->lambda, c->n);
}

const struct tw_staleness tw_staleness_delay = {
	.name = "delay",
	.help = "delay compensation: a first-order correction towards the present parameters",
	.options = rows,
	.options_bytes = sizeof(struct options),
	.traits = TW_STALENESS_SENT,
	.correct = correct,
};
