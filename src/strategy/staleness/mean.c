/* SPDX-License-Identifier: Apache-2.0 */
/* mean.c - every gradient's rate is divided by the mean staleness (Rudra: Gupta et al. 2016).
 *
 * With n-softsync that is n.  The weight decay is divided with the rate. */
#include "strategy/staleness.h"

struct options {
	double expected;
};

static const struct tw_option rows[] = {
	TW_OPTION(struct options, expected, TW_F64, "0", "updates", 0, 1e9,
		  "mean staleness to divide by, if above 1; 0: the expected one of the gate, which "
		  "is workers / contributions per update, or its n",
		  .example = "4"),
	TW_OPTION_END
};

static void correct(const void *options, struct tw_correction *c)
{
	const double by = ((const struct options *)options)->expected;
	const float factor = by > 1.0 ? (float)(1.0 / by) : 1.0f;

	tw_correction_scale(c, factor);
}

const struct tw_staleness tw_staleness_mean = {
	.name = "mean",
	.help = "divides the rate of every gradient by the mean staleness",
	.options = rows,
	.options_bytes = sizeof(struct options),
	.traits = TW_STALENESS_DECAY | TW_STALENESS_SCALES,
	.open = "expected",
	.correct = correct,
};
