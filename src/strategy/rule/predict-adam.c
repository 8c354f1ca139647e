/* SPDX-License-Identifier: Apache-2.0 */
/* predict-adam.c - adam, and workers see where its mean will take the parameters until their
 * gradients come (weight prediction; Eliad et al. 2021).
 *
 * After t updates, a stage whose gradients are n updates late computes on w less
 *
 *	rate beta1^j m / (1 - beta1^(t+j)) / (sqrt(s / (1 - beta2^(t+j))) + epsilon)
 *
 * for j = 1 to n: the steps that the mean m would take on while the mean square s stays. */
#include "strategy/rule/adam.h"
#include "strategy/scalar.h"
#include "vec/clone.h"
#include "vec/vec.h"

#include <math.h>

static void apply(const void *options, const struct tw_apply *a)
{
	tw_adam_step(options, a, 0.0f);
}

TW_CLONED_STATIC(void, ahead,
		 (float *out, const float *mean, const float *square, float by, float unbias,
		  float epsilon, size_t n),
		 (out, mean, square, by, unbias, epsilon, n))
{
#pragma GCC ivdep
	for (size_t i = 0; i < n; i++) {
		const float root = fmaf(sqrtf(square[i]), unbias, epsilon);

		out[i] = root > 0.0f ? fmaf(-by, tw_tame(mean[i] / root), out[i]) : out[i];
	}
}

static void view(const void *options, const struct tw_apply *a, float *out)
{
	const struct tw_adam_options *o = options;

	tw_vec_copy(out, a->w, a->n);
	for (uint32_t j = 1; j <= a->horizon; j++) {
		const double keep =
			tw_power(o->beta1, j) / (1.0 - tw_power(o->beta1, a->count + j));
		const double unbias = 1.0 / sqrt(1.0 - tw_power(o->beta2, a->count + j));

		ahead(out, a->array[0], a->array[1], (float)((double)a->rate * keep), (float)unbias,
		      o->epsilon, a->n);
	}
}

const struct tw_rule tw_rule_predict_adam = {
	.name = "predict-adam",
	.help = "adam; the stages of a pipeline compute on the parameters that it predicts for the "
		"time when their gradients are applied",
	.options = tw_adam_rows,
	.options_bytes = sizeof(struct tw_adam_options),
	.rate = { .standard = 0.001, .low = 1e-05, .high = 0.01 },
	.traits = TW_RULE_OWN_VIEW | TW_RULE_PREDICTS | TW_RULE_NORMALISES,
	.arrays = 2,
	.array_names = tw_adam_names,
	.apply = apply,
	.view = view,
	.kept = "w (predict-adam)",
};
