/* SPDX-License-Identifier: Apache-2.0 */
/* adamw.c - adam whose weight decay bypasses the means (Loshchilov & Hutter 2019). */
#include "strategy/rule/adam.h"

static void apply(const void *options, const struct tw_apply *a)
{
	tw_adam_step(options, a, a->decay);
}

const struct tw_rule tw_rule_adamw = {
	.name = "adamw",
	.help = "adam with decoupled weight decay",
	.options = tw_adam_rows,
	.options_bytes = sizeof(struct tw_adam_options),
	.rate = { .standard = 0.001, .low = 1e-05, .high = 0.01 },
	.traits = TW_RULE_OWN_DECAY | TW_RULE_NORMALISES,
	.arrays = 2,
	.array_names = tw_adam_names,
	.apply = apply,
};
