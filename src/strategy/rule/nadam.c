/* SPDX-License-Identifier: Apache-2.0 */
/* nadam.c - adam that looks ahead by Nesterov's momentum (Dozat 2016, PyTorch's form).
 *
 *	mu(t) = beta1 (1 - 0.96^(t momentum_decay) / 2),  M(t) = mu(1) ... mu(t)
 *	d = (1 - mu(t)) g / (1 - M(t)) + mu(t+1) m / (1 - M(t+1))
 *	w = w - rate d / (sqrt(s / (1 - beta2^t)) + epsilon)
 *
 * In pipelines the look-ahead makes up for late gradients; with beta1 = 0.99 a stage that is
 * several updates late still trains (Ajanthan et al. 2025). */
#include "strategy/rule/adam.h"
#include "strategy/scalar.h"
#include "vec/clone.h"

#include <math.h>

struct options {
	double beta1, beta2, momentum_decay;
	float epsilon;
};

static const struct tw_option rows[] = {
	TW_ADAM_ROWS(struct options),
	TW_OPTION(struct options, momentum_decay, TW_F64, "0.004", NULL, 0, 1,
		  "how fast the look-ahead grows from half of beta1 to all of it"),
	TW_OPTION_END
};

struct factors {
	float keep1, add1, keep2, add2, unbias2, epsilon;
	float now, ahead; /* what gradient and mean are multiplied with */
};

TW_CLONED_STATIC(void, step,
		 (const struct tw_apply *a, float *mean, float *square, struct factors f, size_t n),
		 (a, mean, square, f, n))
{
	const float *const w = a->w, *const g = a->g, rate = a->rate;
	float *const out = a->out, *const direction = a->direction;

#pragma GCC ivdep
	for (size_t i = 0; i < n; i++) {
		const float m = tw_tame(fmaf(f.keep1, mean[i], f.add1 * g[i]));
		const float s = tw_tame(fmaf(f.keep2, square[i], f.add2 * (g[i] * g[i])));
		const float by = fmaf(sqrtf(s), f.unbias2, f.epsilon);
		const float to = fmaf(f.now, g[i], f.ahead * m);
		const float d = by > 0.0f ? tw_tame(to / by) : 0.0f;

		mean[i] = m;
		square[i] = s;
		if (direction)
			direction[i] = d;
		out[i] = fmaf(-rate, d, w[i]);
	}
}

static double look(const struct options *o, double base, uint64_t t)
{
	return o->beta1 * (1.0 - 0.5 * tw_power(base, t));
}

/* M(t): from where the product is lost beside 1, the rest of it changes nothing. */
static double product(const struct options *o, double base, uint64_t t)
{
	double all = 1.0;

	for (uint64_t k = 1; k <= t && all > 1e-18; k++)
		all *= look(o, base, k);
	return all;
}

static void apply(const void *options, const struct tw_apply *a)
{
	const struct options *o = options;
	const double base = pow(0.96, o->momentum_decay);
	const double mu = look(o, base, a->count), next = look(o, base, a->count + 1);
	const double all = product(o, base, a->count);
	const struct factors f = {
		.keep1 = (float)o->beta1,
		.add1 = (float)(1.0 - o->beta1),
		.keep2 = (float)o->beta2,
		.add2 = (float)(1.0 - o->beta2),
		.unbias2 = (float)(1.0 / sqrt(1.0 - tw_power(o->beta2, a->count))),
		.epsilon = o->epsilon,
		.now = (float)((1.0 - mu) / (1.0 - all)),
		.ahead = (float)(next / (1.0 - all * next)),
	};

	step(a, a->array[0], a->array[1], f, a->n);
}

const struct tw_rule tw_rule_nadam = {
	.name = "nadam",
	.help = "adam with Nesterov's look-ahead, which makes up for late gradients of pipelines",
	.options = rows,
	.options_bytes = sizeof(struct options),
	.rate = { .standard = 0.002, .low = 1e-05, .high = 0.01 },
	.traits = TW_RULE_NORMALISES,
	.arrays = 2,
	.array_names = tw_adam_names,
	.apply = apply,
};
