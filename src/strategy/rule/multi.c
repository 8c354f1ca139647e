/* SPDX-License-Identifier: Apache-2.0 */
/* multi.c - heavy-ball momentum with a velocity per worker (Multi-ASGD). */
#include "strategy/rule/momentum.h"
#include "vec/vec.h"

static void apply(const void *options, const struct tw_apply *a)
{
	tw_momentum_step(options, a, a->mine);
}

static void leave(const void *options, float *const *array, float *mine, size_t n)
{
	(void)options, (void)array;
	tw_vec_fill(mine, 0.0f, n); /* nothing else remembers this worker */
}

const struct tw_rule tw_rule_multi = {
	.name = "multi",
	.help = "heavy-ball momentum with a velocity for each worker",
	.options = tw_momentum_rows,
	.options_bytes = sizeof(struct tw_momentum_options),
	.traits = TW_RULE_PER_WORKER | TW_RULE_LINEAR,
	.apply = apply,
	.leave = leave,
};
