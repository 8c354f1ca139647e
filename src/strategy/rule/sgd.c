/* SPDX-License-Identifier: Apache-2.0 */
/* sgd.c - w = w - rate g. */
#include "strategy/rule.h"
#include "vec/vec.h"

static void apply(const void *options, const struct tw_apply *a)
{
	(void)options;
	if (a->direction)
		tw_vec_copy(a->direction, a->g, a->n);
	tw_vec_sgd(a->out, a->w, a->g, a->rate, a->n, a->stream);
}

const struct tw_rule tw_rule_sgd = {
	.name = "sgd",
	.help = "plain gradient descent",
	.rate = { .standard = 0.1, .low = 0.001, .high = 1 },
	.traits = TW_RULE_LINEAR | TW_RULE_PLAIN,
	.apply = apply,
};
