/* SPDX-License-Identifier: Apache-2.0 */
/* add.c - update-based averaging: the sum of all deltas, scaled.
 *
 *	w = w - scale sum(delta)
 *
 * scale = 1 / workers is parameter averaging where every worker pushes in every round. */
#include "strategy/outer.h"
#include "vec/vec.h"

struct options {
	float scale, per_worker;
};

static enum tw_status scale_of_share(void *base, uint32_t workers, struct tw_error *why)
{
	struct options *o = base;

	(void)why;
	o->scale = o->per_worker / (float)workers;
	return TW_OK;
}

static const struct tw_option rows[] = {
	TW_OPTION(struct options, scale, TW_F32, "1", NULL, 0, 1000,
		  "factor on the sum of the deltas"),
	TW_OPTION_ALIAS(struct options, per_worker, TW_F32, "0", 0, 1e6, "scale", scale_of_share,
			"instead of scale: scale = per_worker / workers", .example = "1"),
	TW_OPTION_END,
};

static void apply(const void *options, const struct tw_apply *a)
{
	const struct options *o = options;

	tw_vec_sgd(a->out, a->w, a->g, o->scale, a->n, a->stream);
}

const struct tw_rule tw_outer_add = {
	.name = "add",
	.help = "add up all deltas, scaled",
	.options = rows,
	.options_bytes = sizeof(struct options),
	.traits = TW_RULE_OWN_DECAY | TW_RULE_LINEAR | TW_RULE_TOTAL,
	.apply = apply,
};
