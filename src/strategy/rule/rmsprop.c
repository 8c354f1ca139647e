/* SPDX-License-Identifier: Apache-2.0 */
/* rmsprop.c - divide by the running root mean square (PyTorch's form, no momentum, not centred).
 *
 *	s = alpha s + (1 - alpha) g g;  w = w - rate g / (sqrt(s) + epsilon) */
#include "strategy/rule.h"
#include "strategy/scalar.h"
#include "vec/clone.h"

#include <math.h>

struct options {
	double alpha;
	float epsilon;
};

static const struct tw_option rows[] = {
	TW_OPTION(struct options, alpha, TW_F64, "0.99", NULL, 0, 0.999999,
		  "share of the old value that the running mean square keeps"),
	TW_OPTION(struct options, epsilon, TW_F32, "1e-8", NULL, 0, 1e6,
		  "added to the root of the mean square"),
	TW_OPTION_END
};

struct factors {
	float keep, add, epsilon;
};

TW_CLONED_STATIC(void, step, (const struct tw_apply *a, float *square, struct factors f, size_t n),
		 (a, square, f, n))
{
	const float *const w = a->w, *const g = a->g, rate = a->rate;
	float *const out = a->out, *const direction = a->direction;

#pragma GCC ivdep
	for (size_t i = 0; i < n; i++) {
		const float x = g[i], s = tw_tame(fmaf(f.keep, square[i], f.add * (x * x)));
		const float by = sqrtf(s) + f.epsilon;
		const float d = by > 0.0f ? x / by : 0.0f;

		square[i] = s;
		if (direction)
			direction[i] = d;
		out[i] = fmaf(-rate, d, w[i]);
	}
}

static void apply(const void *options, const struct tw_apply *a)
{
	const struct options *o = options;
	const struct factors f = { .keep = (float)o->alpha,
				   .add = (float)(1.0 - o->alpha),
				   .epsilon = o->epsilon };

	step(a, a->array[0], f, a->n);
}

static const char *const names[] = { "squares" };

const struct tw_rule tw_rule_rmsprop = {
	.name = "rmsprop",
	.help = "divides by the running root mean square of the gradient",
	.options = rows,
	.options_bytes = sizeof(struct options),
	.rate = { .standard = 0.001, .low = 1e-05, .high = 0.01 },
	.traits = TW_RULE_NORMALISES,
	.arrays = 1,
	.array_names = names,
	.apply = apply,
};
