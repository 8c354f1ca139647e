/* SPDX-License-Identifier: Apache-2.0 */
/* optimistic.c - workers see where the last gradient would take the parameters once more: the
 * past extra-gradient method (Popov 1980).
 *
 *	w = w - rate g;  workers see w - rate ahead g
 *
 * For test/add_variant.sh: a rule with its own view. */
#include "strategy/rule.h"

#include <math.h>

struct options {
	float ahead;
};

static const struct tw_option rows[] = {
	TW_OPTION(struct options, ahead, TW_F32, "1", "gradients", 0, 10,
		  "how far ahead workers see; 0: not at all"),
	TW_OPTION_END,
};

static void apply(const void *options, const struct tw_apply *a)
{
	(void)options;
	for (size_t i = 0; i < a->n; i++) {
		const float g = a->g[i];

		a->array[0][i] = g;
		if (a->direction)
			a->direction[i] = g;
		a->out[i] = fmaf(-a->rate, g, a->w[i]);
	}
}

static void view(const void *options, const struct tw_apply *a, float *out)
{
	const float by = a->rate * ((const struct options *)options)->ahead;

	for (size_t i = 0; i < a->n; i++)
		out[i] = fmaf(-by, a->array[0][i], a->w[i]);
}

static bool shows(const void *options)
{
	return ((const struct options *)options)->ahead > 0.0f;
}

static const char *const names[] = { "last" };

const struct tw_rule tw_rule_optimistic = {
	.name = "optimistic",
	.help = "workers see the step of the last gradient taken once more",
	.options = rows,
	.options_bytes = sizeof(struct options),
	.rate = { .standard = 0.01, .low = 0.0001, .high = 0.1 },
	.traits = TW_RULE_OWN_VIEW | TW_RULE_LINEAR,
	.arrays = 1,
	.array_names = names,
	.apply = apply,
	.view = view,
	.shows = shows,
	.kept = "w (optimistic)",
};
