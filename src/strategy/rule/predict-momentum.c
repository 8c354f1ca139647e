/* SPDX-License-Identifier: Apache-2.0 */
/* predict-momentum.c - the heavy ball, and workers see where it will be when their gradients come
 * (weight prediction; Chen et al. 2018, Eliad et al. 2021).
 *
 * A stage whose gradients are n updates late computes on
 *
 *	w - rate v (momentum + momentum^2 + ... + momentum^n),
 *
 * which is where n updates with gradients of zero lead. */
#include "strategy/rule/momentum.h"
#include "strategy/scalar.h"
#include "vec/vec.h"

static void apply(const void *options, const struct tw_apply *a)
{
	tw_momentum_step(options, a, a->array[0]);
}

static void view(const void *options, const struct tw_apply *a, float *out)
{
	const double gamma = (double)((const struct tw_momentum_options *)options)->momentum;
	double sum = 0.0, power = 1.0;

	for (uint32_t k = 0; k < a->horizon; k++) {
		power *= gamma;
		sum += power;
	}
	tw_vec_copy(out, a->w, a->n);
	tw_vec_axpy(out, -(float)((double)a->rate * sum), a->array[0], a->n);
}

static const char *const names[] = { "momentum" };

const struct tw_rule tw_rule_predict_momentum = {
	.name = "predict-momentum",
	.help = "momentum; the stages of a pipeline compute on the parameters that it predicts for "
		"the time when their gradients are applied",
	.options = tw_momentum_rows,
	.options_bytes = sizeof(struct tw_momentum_options),
	.rate = { .standard = 0.01, .low = 0.0001, .high = 0.1 },
	.traits = TW_RULE_OWN_VIEW | TW_RULE_PREDICTS | TW_RULE_LINEAR,
	.arrays = 1,
	.array_names = names,
	.apply = apply,
	.view = view,
	.kept = "w (predict-momentum)",
};
