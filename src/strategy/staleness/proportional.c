/* SPDX-License-Identifier: Apache-2.0 */
/* proportional.c - delay-adaptive rates: a gradient that comes later than the others do on average
 * takes a step that is smaller in proportion (Koloskova et al. 2022, Mishchenko et al. 2022).
 *
 *	factor = typical / max(typical, tau)
 *
 * `typical` is the number of workers in the papers: the staleness of workers of equal speed.  What
 * is scaled is the rate, and with it the weight decay. */
#include "strategy/staleness.h"

struct options {
	double typical;
};

static const struct tw_option rows[] = {
	TW_OPTION(struct options, typical, TW_F64, "0", "updates", 0, 1e6,
		  "the largest staleness that counts in full; 0: what the gate makes on average",
		  .example = "4"),
	TW_OPTION_END,
};

static void correct(const void *options, struct tw_correction *c)
{
	const struct options *o = options;
	const double tau = (double)c->tau;
	const float factor = tau > o->typical ? (float)(o->typical / tau) : 1.0f;

	tw_correction_scale(c, factor);
}

const struct tw_staleness tw_staleness_proportional = {
	.name = "proportional",
	.help = "a gradient later than usual takes a step smaller in proportion",
	.options = rows,
	.options_bytes = sizeof(struct options),
	.traits = TW_STALENESS_DECAY | TW_STALENESS_SCALES,
	.open = "typical",
	.correct = correct,
};
