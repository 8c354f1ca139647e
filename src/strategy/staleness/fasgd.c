/* SPDX-License-Identifier: Apache-2.0 */
/* fasgd.c - divide the rate by the gradient's running deviation and by the staleness (Odena 2016).
 *
 *	n = gamma n + (1 - gamma) g g        b = gamma b + (1 - gamma) g
 *	v = beta v + (1 - beta) sqrt(max(n - b b, 0) + epsilon)
 *	g / (v max(tau, 1)), and the weight decay is divided by the same
 *
 * The means begin at 0, as in the paper and its code; with `unbias` each is divided by 1 - gamma^t,
 * 1 - beta^t before use.  (The paper prints 1/sqrt in v; its text, its B-FASGD and its code mean
 * sqrt.) */
#include "strategy/scalar.h"
#include "strategy/staleness.h"
#include "vec/clone.h"
#include "vec/vec.h"

#include <math.h>

struct options {
	double gamma, beta;
	float epsilon;
	bool unbias;
};

static const struct tw_option rows[] = {
	TW_OPTION(struct options, gamma, TW_F64, "0.9", NULL, 0, 0.999999,
		  "share of the old value that the running means of the gradient and its square "
		  "keep"),
	TW_OPTION(struct options, beta, TW_F64, "0.9", NULL, 0, 0.999999,
		  "share of the old value that the running mean of the deviation keeps"),
	TW_OPTION(struct options, epsilon, TW_F32, "1e-4", NULL, 1e-12, 1e6,
		  "added to the variance before the square root"),
	TW_OPTION(struct options, unbias, TW_BOOL, "false", NULL, 0, 0,
		  "correct the bias of the running means towards 0, unlike the paper"),
	TW_OPTION_END
};

struct factors {
	float gamma, gamma_rest, gamma_unbias, beta, beta_rest, beta_unbias, epsilon, late;
};

TW_CLONED_STATIC(void, modulate, (const struct tw_correction *c, struct factors f, size_t n),
		 (c, f, n))
{
	float *const g = c->g, *const decay = c->decay;
	float *const square = c->array[0], *const mean = c->array[1],
		     *const deviation = c->array[2];

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
		const float by = v * f.beta_unbias * f.late;

		g[i] = tw_tame(x / by);
		if (decay)
			decay[i] = tw_tame(1.0f / by);
	}
}

static void correct(const void *options, struct tw_correction *c)
{
	const struct options *o = options;
	const double unbias = o->unbias ? 1.0 / (1.0 - tw_power(o->beta, c->count)) : 1.0;
	const struct factors f = {
		.gamma = (float)o->gamma,
		.gamma_rest = (float)(1.0 - o->gamma),
		.gamma_unbias =
			o->unbias ? (float)(1.0 / (1.0 - tw_power(o->gamma, c->count))) : 1.0f,
		.beta = (float)o->beta,
		.beta_rest = (float)(1.0 - o->beta),
		.beta_unbias = (float)unbias,
		.epsilon = o->epsilon,
		.late = (float)(c->tau ? c->tau : 1),
	};

	modulate(c, f, c->n);
	c->statistic += unbias * tw_vec_sum(c->array[2], c->n);
}

const struct tw_staleness tw_staleness_fasgd = {
	.name = "fasgd",
	.help = "divides the rate by the gradient's running deviation and by its staleness",
	.options = rows,
	.options_bytes = sizeof(struct options),
	.traits = TW_STALENESS_STATISTIC | TW_STALENESS_DECAY,
	.arrays = 3,
	.correct = correct,
};
