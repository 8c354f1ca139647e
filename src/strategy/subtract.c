/* SPDX-License-Identifier: Apache-2.0 */
/* subtract.c - the far half of an update that a worker has made whole: rate and decay are in it. */
#include "strategy/rule.h"
#include "vec/vec.h"

static void apply(const void *options, const struct tw_apply *a)
{
	tw_vec_sgd(a->out, a->w, a->g, 1.0f, a->n, a->stream);
}

const struct tw_rule tw_rule_subtract = {
	.name = "subtract",
	.help = "subtract what the worker pushed",
	.traits = TW_RULE_OWN_DECAY | TW_RULE_LINEAR,
	.apply = apply,
};
