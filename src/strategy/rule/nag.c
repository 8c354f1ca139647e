/* SPDX-License-Identifier: Apache-2.0 */
/* nag.c - Nesterov's momentum: keeps w, shows workers where the velocity alone would take it. */
#include "strategy/rule/momentum.h"
#include "strategy/scalar.h"
#include "vec/clone.h"

#include <math.h>

TW_CLONED_STATIC(void, ahead, (float *out, const float *w, const float *v, float by, size_t n),
		 (out, w, v, by, n))
{
#pragma GCC ivdep
	for (size_t i = 0; i < n; i++)
		out[i] = fmaf(-by, v[i], w[i]);
}

static void apply(const void *options, const struct tw_apply *a)
{
	tw_momentum_step(options, a, a->array[0]);
}

static void view(const void *options, const struct tw_apply *a, float *out)
{
	const struct tw_momentum_options *o = options;

	ahead(out, a->w, a->array[0], a->rate * o->momentum, a->n);
}

static const char *const names[] = { "momentum" };

const struct tw_rule tw_rule_nag = {
	.name = "nag",
	.help = "Nesterov's momentum: workers see the look-ahead w - rate momentum v",
	.options = tw_momentum_rows,
	.options_bytes = sizeof(struct tw_momentum_options),
	.traits = TW_RULE_OWN_VIEW | TW_RULE_LINEAR,
	.arrays = 1,
	.array_names = names,
	.apply = apply,
	.view = view,
};
