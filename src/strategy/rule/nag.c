/* SPDX-License-Identifier: Apache-2.0 */
/* nag.c - Nesterov's momentum: keeps w, shows workers where the velocity alone would take it. */
#include "strategy/rule/momentum.h"

static void apply(const void *options, const struct tw_apply *a)
{
	tw_momentum_step(options, a, a->array[0]);
}

static void view(const void *options, const struct tw_apply *a, float *out)
{
	tw_momentum_ahead(options, a, a->array[0], out);
}

static const char *const names[] = { "momentum" };

const struct tw_rule tw_rule_nag = {
	.name = "nag",
	.help = "Nesterov's momentum: workers see the look-ahead w - rate momentum v",
	.options = tw_momentum_rows,
	.options_bytes = sizeof(struct tw_momentum_options),
	.rate = { .standard = 0.01, .low = 0.0001, .high = 0.1 },
	.traits = TW_RULE_OWN_VIEW | TW_RULE_LINEAR,
	.arrays = 1,
	.array_names = names,
	.apply = apply,
	.view = view,
	.kept = "theta (nag)",
};
