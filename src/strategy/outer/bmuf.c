/* SPDX-License-Identifier: Apache-2.0 */
/* bmuf.c - blockwise model-update filtering: a momentum on the mean of the workers' blocks (Chen
 * and Huo 2016).
 *
 *	v = momentum v + rate mean(delta);  w = w - v;  workers start at w, or at w - momentum v
 *
 * The steady gain rate / (1 - momentum) should be about the number of workers: `gain` says how many
 * times that. */
#include "strategy/outer.h"
#include "vec/vec.h"

#include <math.h>

struct options {
	float momentum, rate, gain;
	bool nesterov;
};

static enum tw_status momentum_of_gain(void *base, uint32_t workers, struct tw_error *why)
{
	struct options *o = base;
	const float momentum = 1.0f - o->rate / (o->gain * (float)workers);

	if (o->gain <= 0.0f || momentum < 0.0f)
		return tw_fail(why, TW_BAD_INPUT,
			       "%g makes a momentum below 0: gain * workers must be at least "
			       "outer.rate; use %g or more",
			       (double)o->gain, (double)o->rate / (double)workers);
	o->momentum = momentum;
	return TW_OK;
}

static const struct tw_option rows[] = {
	TW_OPTION(struct options, momentum, TW_F32, "0.9", NULL, 0, 0.999999,
		  "share of the block momentum that stays"),
	TW_OPTION(struct options, rate, TW_F32, "1", NULL, 0, 1000, "factor on the mean delta"),
	TW_OPTION(struct options, nesterov, TW_BOOL, "true", NULL, 0, 0,
		  "workers start where the momentum alone would lead"),
	TW_OPTION_ALIAS(struct options, gain, TW_F32, "0", 0, 1e6, "momentum", momentum_of_gain,
			"instead of momentum: momentum = 1 - rate / (gain * workers)",
			.example = "1"),
	TW_OPTION_END,
};

static void apply(const void *options, const struct tw_apply *a)
{
	const struct options *o = options;
	float *const v = a->array[0];

	for (size_t i = 0; i < a->n; i++) {
		v[i] = fmaf(o->momentum, v[i], o->rate * a->g[i]);
		a->out[i] = a->w[i] - v[i];
	}
}

static void view(const void *options, const struct tw_apply *a, float *out)
{
	const struct options *o = options;
	const float *const v = a->array[0];

	for (size_t i = 0; i < a->n; i++)
		out[i] = fmaf(-o->momentum, v[i], a->w[i]);
}

static bool shows(const void *options)
{
	return ((const struct options *)options)->nesterov;
}

static const char *const names[] = { "momentum" };

const struct tw_rule tw_outer_bmuf = {
	.name = "bmuf",
	.help = "block momentum on the mean delta; workers may start at the look-ahead",
	.options = rows,
	.options_bytes = sizeof(struct options),
	.traits = TW_RULE_OWN_DECAY | TW_RULE_OWN_VIEW | TW_RULE_LINEAR,
	.arrays = 1,
	.array_names = names,
	.apply = apply,
	.view = view,
	.shows = shows,
	.kept = "W (bmuf)",
};
