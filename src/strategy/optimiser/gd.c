/* SPDX-License-Identifier: Apache-2.0 */
/* gd.c - gradient descent with a line search: the direction is the steepest one. */
#include "strategy/optimiser.h"

static uint32_t commands(const void *options)
{
	(void)options;
	return 2;
}

static struct tw_heading direct(const void *options, void *state, const struct tw_moved *m,
				const double *result, struct tw_commands *out)
{
	(void)options, (void)state, (void)result;
	tw_command_copy(out, TW_VECTOR_DIRECTION, TW_VECTOR_GRADIENT);
	tw_command_scale(out, TW_VECTOR_DIRECTION, -1);
	/* the first order change of the step before, again */
	return (struct tw_heading){ -m->square, m->step * m->slope_before / -m->square };
}

const struct tw_optimiser tw_optimiser_gd = {
	.name = "gd",
	.help = "gradient descent with a line search",
	.curvature = 0.9,
	.commands = commands,
	.direct = direct,
};
