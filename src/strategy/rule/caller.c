/* SPDX-License-Identifier: Apache-2.0 */
/* caller.c - whoever computes takes the step as well: what comes are the new parameters. */
#include "strategy/rule.h"
#include "vec/vec.h"

static void apply(const void *options, const struct tw_apply *a)
{
	(void)options;
	tw_vec_copy(a->out, a->g, a->n);
}

const struct tw_rule tw_rule_caller = {
	.name = "caller",
	.help = "the program that computes takes the steps, with an optimiser of its own",
	.rate = { .standard = 0.1, .low = 0.001, .high = 1 }, /* told with each task */
	.traits = TW_RULE_OUTSIDE,
	.apply = apply,
};
