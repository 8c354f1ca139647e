/* SPDX-License-Identifier: Apache-2.0 */
/* cg.c - conjugate gradients, Polak-Ribière+ (Gilbert and Nocedal 1992):
 *
 *	d = -g + b d	b = max(0, g . (g - g before) / g before . g before)
 *
 * b = 0 is a restart with the steepest descent. */
#include "strategy/optimiser.h"

struct options {
	uint64_t restart;
};

static const struct tw_option rows[] = {
	TW_OPTION(struct options, restart, TW_U64, "0", "iterations", 0, 1e15,
		  "restart with the steepest descent after this many iterations; 0: only when the "
		  "method itself asks for it",
		  .example = "50"),
	TW_OPTION_END,
};

/* Iterations since the last restart; 0: the next direction is the steepest. */
struct state {
	uint64_t since;
};

static size_t state_bytes(const void *options)
{
	(void)options;
	return sizeof(struct state);
}

static uint32_t commands(const void *options)
{
	(void)options;
	return 4;
}

static void forget(const void *options, void *state)
{
	(void)options;
	((struct state *)state)->since = 0;
}

static void keep(const void *options, void *state, const struct tw_moved *m,
		 struct tw_commands *out)
{
	const struct options *o = options;
	struct state *s = state;

	(void)m, (void)out;
	s->since++;
	if (o->restart && s->since >= o->restart)
		s->since = 0;
}

static void look(const void *options, const void *state, struct tw_commands *out)
{
	(void)options;
	if (!((const struct state *)state)->since)
		return;
	tw_command_dot(out, TW_VECTOR_GRADIENT, TW_VECTOR_BEFORE);
	tw_command_dot(out, TW_VECTOR_GRADIENT, TW_VECTOR_DIRECTION);
}

static struct tw_heading direct(const void *options, void *state, const struct tw_moved *m,
				const double *result, struct tw_commands *out)
{
	const bool steepest = !((const struct state *)state)->since;
	const double ratio = steepest ? 0 : (m->square - result[0]) / m->square_before;
	const double b = ratio > 0 ? ratio : 0;
	const double slope = steepest ? -m->square : -m->square + b * result[1];

	(void)options;
	if (steepest)
		tw_command_copy(out, TW_VECTOR_DIRECTION, TW_VECTOR_GRADIENT);
	tw_command_scale(out, TW_VECTOR_DIRECTION, steepest ? -1 : b);
	if (!steepest)
		tw_command_axpy(out, TW_VECTOR_DIRECTION, -1, TW_VECTOR_GRADIENT);
	/* the first order change of the step before, again */
	return (struct tw_heading){ slope, m->step * m->slope_before / slope };
}

const struct tw_optimiser tw_optimiser_cg = {
	.name = "cg",
	.help = "conjugate gradients (Polak-Ribiere+) with restarts",
	.options = rows,
	.options_bytes = sizeof(struct options),
	.curvature = 0.1,
	.state_bytes = state_bytes,
	.commands = commands,
	.forget = forget,
	.keep = keep,
	.look = look,
	.direct = direct,
};
