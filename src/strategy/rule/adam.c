/* SPDX-License-Identifier: Apache-2.0 */
/* adam.c - running mean over root of the running mean square (Kingma & Ba 2015, PyTorch's form). */
#include "strategy/rule/adam.h"
#include "strategy/scalar.h"
#include "vec/clone.h"

#include <math.h>

const struct tw_option tw_adam_rows[] = { TW_ADAM_ROWS(struct tw_adam_options), TW_OPTION_END };

const char *const tw_adam_names[] = { "mean", "squares" };

struct factors {
	float keep1, add1, unbias1, keep2, add2, unbias2, epsilon, decay;
};

/* One element; returns the direction. */
static inline __attribute__((always_inline)) float ahead(float x, float *mean, float *square,
							 const struct factors *f)
{
	const float m = tw_tame(fmaf(f->keep1, *mean, f->add1 * x));
	const float s = tw_tame(fmaf(f->keep2, *square, f->add2 * (x * x)));
	const float by = fmaf(sqrtf(s), f->unbias2, f->epsilon);

	*mean = m;
	*square = s;
	return by > 0.0f ? tw_tame(m * f->unbias1 / by) : 0.0f;
}

/* Two loops, because the compiler finds this one too long to split on `direction` by itself. */
TW_CLONED_STATIC(void, step,
		 (const struct tw_apply *a, float *mean, float *square, struct factors f, size_t n),
		 (a, mean, square, f, n))
{
	const float *const w = a->w, *const g = a->g, rate = a->rate;
	float *const out = a->out, *const direction = a->direction;

	if (direction) {
#pragma GCC ivdep
		for (size_t i = 0; i < n; i++) {
			const float d = ahead(g[i], &mean[i], &square[i], &f);

			direction[i] = d;
			out[i] = fmaf(-rate, d, fmaf(-f.decay, w[i], w[i]));
		}
	} else {
#pragma GCC ivdep
		for (size_t i = 0; i < n; i++) {
			const float d = ahead(g[i], &mean[i], &square[i], &f);

			out[i] = fmaf(-rate, d, fmaf(-f.decay, w[i], w[i]));
		}
	}
}

void tw_adam_step(const struct tw_adam_options *o, const struct tw_apply *a, float decay)
{
	const struct factors f = {
		.keep1 = (float)o->beta1,
		.add1 = (float)(1.0 - o->beta1),
		.unbias1 = (float)(1.0 / (1.0 - tw_power(o->beta1, a->count))),
		.keep2 = (float)o->beta2,
		.add2 = (float)(1.0 - o->beta2),
		.unbias2 = (float)(1.0 / sqrt(1.0 - tw_power(o->beta2, a->count))),
		.epsilon = o->epsilon,
		.decay = a->rate * decay,
	};

	step(a, a->array[0], a->array[1], f, a->n);
}

static void apply(const void *options, const struct tw_apply *a)
{
	tw_adam_step(options, a, 0.0f);
}

const struct tw_rule tw_rule_adam = {
	.name = "adam",
	.help = "divides the running mean of the gradient by the root of its running mean square",
	.options = tw_adam_rows,
	.options_bytes = sizeof(struct tw_adam_options),
	.rate = { .standard = 0.001, .low = 1e-05, .high = 0.01 },
	.traits = TW_RULE_NORMALISES,
	.arrays = 2,
	.array_names = tw_adam_names,
	.apply = apply,
};
