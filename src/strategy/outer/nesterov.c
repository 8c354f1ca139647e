/* SPDX-License-Identifier: Apache-2.0 */
/* nesterov.c - DiLoCo's outer step: Nesterov's momentum on the mean delta, in PyTorch's form
 * (Douillard et al. 2023).
 *
 *	b = momentum b + g;  w = w - rate (g + momentum b) */
#include "strategy/outer/nesterov.h"

#include <math.h>

static void apply(const void *options, const struct tw_apply *a)
{
	const struct tw_nesterov_options *o = options;
	float *const b = a->array[0];

	for (size_t i = 0; i < a->n; i++) {
		b[i] = fmaf(o->momentum, b[i], a->g[i]);
		a->out[i] = fmaf(-o->rate, fmaf(o->momentum, b[i], a->g[i]), a->w[i]);
	}
}

static const char *const names[] = { "momentum" };

const struct tw_rule tw_outer_nesterov = {
	.name = "nesterov",
	.help = "Nesterov's momentum on the mean delta, as DiLoCo does",
	.options = tw_nesterov_rows,
	.options_bytes = sizeof(struct tw_nesterov_options),
	.traits = TW_RULE_OWN_DECAY | TW_RULE_LINEAR,
	.arrays = 1,
	.array_names = names,
	.apply = apply,
};
