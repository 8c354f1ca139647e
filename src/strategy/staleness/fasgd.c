/* SPDX-License-Identifier: Apache-2.0 */
/* fasgd.c - divide by the gradient's running deviation and by the staleness (Odena 2016).
 *
 *	n = gamma n + (1 - gamma) g g        b = gamma b + (1 - gamma) g
 *	v = beta v + (1 - beta) sqrt(max(n - b b, 0) + epsilon)
 *	g / (v max(tau, 1))
 *
 * with each mean divided by 1 - gamma^t, 1 - beta^t before use, or the first steps would be huge.
 * (The paper prints 1/sqrt in v; its text, its B-FASGD and its code mean sqrt.) */
#include "strategy/scalar.h"
#include "strategy/staleness.h"
#include "vec/clone.h"
#include "vec/vec.h"

#include <math.h>

struct options {
	double gamma, beta;
	float epsilon;
};

static const struct tw_option rows[] = {
	TW_OPTION(struct options, gamma, TW_F64, "0.9", NULL, 0, 0.999999,
		  "share of the old that the means of the gradient and its square keep"),
	TW_OPTION(struct options, beta, TW_F64, "0.9", NULL, 0, 0.999999,
		  "share of the old that the mean deviation keeps"),
	TW_OPTION(struct options, epsilon, TW_F32, "1e-4", NULL, 1e-12, 1e6,
		  "added to the variance before its root"),
	TW_OPTION_END
};

struct factors {
	float gamma, gamma_rest, gamma_unbias, beta, beta_rest, beta_unbias, epsilon, late;
};

TW_CLONED_STATIC(void, modulate,
		 (float *g, float *square, float *mean, float *deviation, struct factors f,
		  size_t n),
		 (g, square, mean, deviation, f, n))
{
#pragma GCC ivdep
	for (size_t i = 0; i < n; i++) {
		const float x = g[i];
		const float s = tw_tame(fmaf(f.gamma, square[i], f.gamma_rest * (x * x)));
		const float b = tw_tame(fmaf(f.gamma, mean[i], f.gamma_rest * x));
		const float m = b * f.gamma_unbias, spread = tw_tame(s * f.gamma_unbias) - m * m;
		const float d = sqrtf((spread > 0.0f ? spread : 0.0f) + f.epsilon);
		const float v = tw_tame(fmaf(f.beta, deviation[i], f.beta_rest * d));

		square[i] = s;
		mean[i] = b;
		deviation[i] = v;
		g[i] = tw_tame(x / (v * f.beta_unbias * f.late));
	}
}

static void correct(const void *options, struct tw_correction *c)
{
	const struct options *o = options;
	const double unbias = 1.0 / (1.0 - tw_power(o->beta, c->count));
	const struct factors f = {
		.gamma = (float)o->gamma,
		.gamma_rest = (float)(1.0 - o->gamma),
		.gamma_unbias = (float)(1.0 / (1.0 - tw_power(o->gamma, c->count))),
		.beta = (float)o->beta,
		.beta_rest = (float)(1.0 - o->beta),
		.beta_unbias = (float)unbias,
		.epsilon = o->epsilon,
		.late = (float)(c->tau ? c->tau : 1),
	};

	modulate(c->g, c->array[0], c->array[1], c->array[2], f, c->n);
	c->statistic += unbias * tw_vec_sum(c->array[2], c->n);
}

const struct tw_staleness tw_staleness_fasgd = {
	.name = "fasgd",
	.help = "divides by the gradient's running deviation and by its staleness",
	.options = rows,
	.options_bytes = sizeof(struct options),
	.traits = TW_STALENESS_STATISTIC,
	.arrays = 3,
	.correct = correct,
};
