/* SPDX-License-Identifier: Apache-2.0 */
/* average.c - parameter averaging: the parameters become the mean of what the workers have.
 *
 *	w = w - rate mean(w - w_i)
 *
 * With rate 1 that is the mean of all w_i.  Another rate makes it the server's step of FedBuff. */
#include "strategy/outer.h"
#include "vec/vec.h"

struct options {
	float rate;
};

static const struct tw_option rows[] = {
	TW_OPTION(struct options, rate, TW_F32, "1", NULL, 0, 1000,
		  "how far to move towards the mean of the workers' parameters; 1: all the way"),
	TW_OPTION_END,
};

static void apply(const void *options, const struct tw_apply *a)
{
	const struct options *o = options;

	tw_vec_sgd(a->out, a->w, a->g, o->rate, a->n, a->stream);
}

const struct tw_rule tw_outer_average = {
	.name = "average",
	.help = "move the parameters to the mean of the workers' parameters",
	.options = rows,
	.options_bytes = sizeof(struct options),
	.traits = TW_RULE_OWN_DECAY | TW_RULE_LINEAR,
	.apply = apply,
};
