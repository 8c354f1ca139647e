/* SPDX-License-Identifier: Apache-2.0 */
/* polynomial.c - a late contribution counts (1 + staleness)^-power (FedAsync, FedBuff), or, with a
 * hinge, all of it up to some staleness and less from there on (Xie, Koyejo, Gupta 2019).
 *
 * FedAsync's paper mixes the worker's model into the newest one; here its delta is added, which is
 * the same where nothing was applied meanwhile.
 *
 *	late = max(tau - from, 0)
 *	polynomial: (1 + late)^-power
 *	hinge: 1 / (power late + 1)
 *
 * What is scaled is the rate, and with it the weight decay. */
#include "strategy/staleness.h"

#include <math.h>

enum { POLYNOMIAL, HINGE };

struct options {
	uint32_t shape, from;
	float power;
};

static const char *const shapes[] = { [POLYNOMIAL] = "polynomial", [HINGE] = "hinge", NULL };

static const struct tw_option rows[] = {
	TW_OPTION_CHOICE(struct options, shape, "shape", "polynomial", shapes,
			 "how the factor falls with the staleness"),
	TW_OPTION(struct options, power, TW_F32, "0.5", NULL, 0, 100,
		  "how fast it falls; 0: not at all"),
	TW_OPTION(struct options, from, TW_U32, "0", "updates", 0, 100000,
		  "the largest staleness that still counts in full", .example = "4"),
	TW_OPTION_END,
};

static float factor_of(const struct options *o, uint64_t tau)
{
	const double late = tau > o->from ? (double)(tau - o->from) : 0.0;

	if (o->shape == POLYNOMIAL)
		return (float)pow(1.0 + late, -(double)o->power);
	return (float)(1.0 / ((double)o->power * late + 1.0));
}

static void correct(const void *options, struct tw_correction *c)
{
	const float factor = factor_of(options, c->tau);

	tw_correction_scale(c, factor);
}

const struct tw_staleness tw_staleness_polynomial = {
	.name = "polynomial",
	.help = "a late contribution counts (1 + staleness)^-power, or less from a hinge on",
	.options = rows,
	.options_bytes = sizeof(struct options),
	.traits = TW_STALENESS_DECAY | TW_STALENESS_SCALES,
	.correct = correct,
};
