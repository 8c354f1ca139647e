/* SPDX-License-Identifier: Apache-2.0 */
/* pipemare.c - a stage that is late begins with a lower rate (PipeMare's first technique, Yang et
 * al. 2021): after t updates the rate is divided by
 *
 *	staleness^(1 - min(t / anneal, 1)),
 *
 * so that the rates of all stages meet after `anneal`.  The weight decay is scaled with it. */
#include "strategy/staleness.h"

#include <math.h>

struct options {
	uint32_t anneal;
};

static const struct tw_option rows[] = {
	TW_OPTION(struct options, anneal, TW_U32, "1000", "updates", 1, 1e9,
		  "updates after which all stages have the full learning rate"),
	TW_OPTION_END,
};

static void correct(const void *options, struct tw_correction *c)
{
	const struct options *o = options;
	const double t = (double)(c->count - 1), left = 1.0 - fmin(t / (double)o->anneal, 1.0);
	const float factor = c->tau > 1 ? (float)pow((double)c->tau, -left) : 1.0f;

	tw_correction_scale(c, factor);
}

const struct tw_staleness tw_staleness_pipemare = {
	.name = "pipemare",
	.help = "divides the rate by a power of the staleness that falls from 1 to 0 over the "
		"first updates, so that late stages of a pipeline start slowly; PipeMare's T1 "
		"only, "
		"without its discrepancy correction (T2)",
	.options = rows,
	.options_bytes = sizeof(struct options),
	.traits = TW_STALENESS_DECAY | TW_STALENESS_SCALES,
	.correct = correct,
};
