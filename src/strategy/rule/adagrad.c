/* SPDX-License-Identifier: Apache-2.0 */
/* adagrad.c - each parameter's rate shrinks with the squares it has seen (Duchi et al. 2011).
 *
 *	s = s + g g;  w = w - rate g / (sqrt(s) + epsilon)
 *
 * so the first step is rate sign(g) and the k-th of equal ones rate / sqrt(k). */
#include "strategy/rule.h"
#include "strategy/scalar.h"
#include "vec/clone.h"

#include <math.h>

struct options {
	float epsilon;
};

static const struct tw_option rows[] = { TW_OPTION(struct options, epsilon, TW_F32, "1e-10", NULL,
						   0, 1e6,
						   "added to the root of the sum of squares"),
					 TW_OPTION_END };

TW_CLONED_STATIC(void, step, (const struct tw_apply *a, float *square, float epsilon, size_t n),
		 (a, square, epsilon, n))
{
	const float *const w = a->w, *const g = a->g, rate = a->rate;
	float *const out = a->out, *const direction = a->direction;

#pragma GCC ivdep
	for (size_t i = 0; i < n; i++) {
		const float x = g[i], s = tw_tame(fmaf(x, x, square[i]));
		const float by = sqrtf(s) + epsilon;
		const float d = by > 0.0f ? x / by : 0.0f;

		square[i] = s;
		if (direction)
			direction[i] = d;
		out[i] = fmaf(-rate, d, w[i]);
	}
}

static void apply(const void *options, const struct tw_apply *a)
{
	step(a, a->array[0], ((const struct options *)options)->epsilon, a->n);
}

static const char *const names[] = { "squares" };

const struct tw_rule tw_rule_adagrad = {
	.name = "adagrad",
	.help = "divides the rate by the root of the sum of squared gradients",
	.options = rows,
	.options_bytes = sizeof(struct options),
	.rate = { .standard = 0.01, .low = 0.001, .high = 0.1 },
	.traits = TW_RULE_NORMALISES,
	.arrays = 1,
	.array_names = names,
	.apply = apply,
};
