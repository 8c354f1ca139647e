/* SPDX-License-Identifier: Apache-2.0 */
/* inverse.c - a gradient counts the less the later it comes (Zhang et al. 2016).
 *
 * What is divided is the rate, and with it the weight decay.
 *
 * The literature has 1/tau (undefined at 0), 1/max(tau, 1) and 1/(tau + 1): different methods. */
#include "strategy/staleness.h"

enum { MAX, PLUS_ONE };

struct options {
	uint32_t form;
};

static const char *const forms[] = { [MAX] = "max", [PLUS_ONE] = "plus-one", NULL };

static const struct tw_option rows[] = {
	TW_OPTION_CHOICE(struct options, form, "form", "max", forms,
			 "divide by max(staleness, 1), or by staleness + 1"),
	TW_OPTION_END
};

static void correct(const void *options, struct tw_correction *c)
{
	const struct options *o = options;
	const float by = (float)c->tau + (o->form == PLUS_ONE ? 1.0f : 0.0f);
	const float factor = by > 1.0f ? 1.0f / by : 1.0f;

	tw_correction_scale(c, factor);
}

const struct tw_staleness tw_staleness_inverse = {
	.name = "inverse",
	.help = "staleness-aware: divides the rate of a gradient by its staleness",
	.options = rows,
	.options_bytes = sizeof(struct options),
	.traits = TW_STALENESS_DECAY | TW_STALENESS_SCALES,
	.correct = correct,
};
