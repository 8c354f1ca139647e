/* SPDX-License-Identifier: Apache-2.0 */
/* multi.c - momentum with a velocity per worker (Multi-ASGD): the heavy ball, or Nesterov's.
 *
 *	v_i = momentum v_i + g;  w = w - rate v_i;  nesterov: worker i sees w - rate momentum v_i */
#include "strategy/rule/momentum.h"
#include "vec/vec.h"

struct options {
	struct tw_momentum_options heavy; /* must stay first */
	bool nesterov;
};

static const struct tw_option rows[] = {
	TW_OPTION_AS(struct options, heavy.momentum, "momentum", TW_F32, "0.9", NULL, 0, 0.999999,
		     "share of the velocity that each update keeps"),
	TW_OPTION(struct options, nesterov, TW_BOOL, "false", NULL, 0, 0,
		  "each worker sees the parameters moved ahead by its own velocity"),
	TW_OPTION_END
};

static void apply(const void *options, const struct tw_apply *a)
{
	tw_momentum_step(options, a, a->mine);
}

static void view(const void *options, const struct tw_apply *a, float *out)
{
	tw_momentum_ahead(options, a, a->mine, out);
}

static bool shows(const void *options)
{
	return ((const struct options *)options)->nesterov;
}

static void leave(const void *options, float *const *array, float *mine, size_t n)
{
	(void)options, (void)array;
	tw_vec_fill(mine, 0.0f, n); /* nothing else remembers this worker */
}

const struct tw_rule tw_rule_multi = {
	.name = "multi",
	.help = "momentum with a velocity for each worker: heavy-ball, or Nesterov's",
	.options = rows,
	.options_bytes = sizeof(struct options),
	.rate = { .standard = 0.01, .low = 0.0001, .high = 0.1 },
	.traits = TW_RULE_PER_WORKER | TW_RULE_OWN_VIEW | TW_RULE_VIEW_MINE | TW_RULE_LINEAR,
	.apply = apply,
	.view = view,
	.shows = shows,
	.kept = "theta (multi)",
	.leave = leave,
};
