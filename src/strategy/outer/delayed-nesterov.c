/* SPDX-License-Identifier: Apache-2.0 */
/* delayed-nesterov.c - the outer step of asynchronous DiLoCo (Liu et al. 2024): every delta moves
 * the parameters at once, and the momentum follows once per as many deltas as there are workers.
 *
 *	w = w - rate g / N;  s = s + g;  every N-th time: m = momentum m + s / N,
 *	w = w - rate momentum m,  s = 0
 *
 * N deltas that all began at the same parameters make one step of `nesterov` on their mean. */
#include "strategy/outer/nesterov.h"

#include <math.h>

static void apply(const void *options, const struct tw_apply *a)
{
	const struct tw_nesterov_options *o = options;
	float *const m = a->array[0], *const s = a->array[1];
	const float share = 1.0f / (float)a->workers;
	const bool moves = a->count % a->workers == 0;

	for (size_t i = 0; i < a->n; i++) {
		float out = fmaf(-o->rate * share, a->g[i], a->w[i]);

		s[i] += a->g[i];
		if (moves) {
			m[i] = fmaf(o->momentum, m[i], s[i] * share);
			out = fmaf(-o->rate * o->momentum, m[i], out);
			s[i] = 0.0f;
		}
		a->out[i] = out;
	}
}

static const char *const names[] = { "momentum", "collected" };

const struct tw_rule tw_outer_delayed_nesterov = {
	.name = "delayed-nesterov",
	.help = "every delta counts at once, the momentum once per round of workers",
	.options = tw_nesterov_rows,
	.options_bytes = sizeof(struct tw_nesterov_options),
	.traits = TW_RULE_OWN_DECAY | TW_RULE_LINEAR | TW_RULE_ONE_BY_ONE,
	.arrays = 2,
	.array_names = names,
	.apply = apply,
};
