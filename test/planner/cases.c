/* SPDX-License-Identifier: Apache-2.0 */
/* cases.c - random problems, keyed by their numbers. */
#include "planner/cases.h"

#include "base/arena.h"
#include "base/option.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static const char *const schedules[] = { "pipedream", "1f1b-flush", "gpipe" };

static double draw(uint32_t number, uint32_t what, uint32_t which, double low, double high)
{
	const struct tw_rng rng = tw_rng_make(number, TW_RNG_TEST);

	return low + (high - low) * tw_rng_uniform(&rng, what, which);
}

static void make_node(struct tw_planner_node *n, uint32_t number, uint32_t k, uint32_t kind)
{
	static const double speeds[] = { 1, 0.5, 0.25 }, cards[] = { 8e-9, 8e-9, 4e-8 };
	const uint32_t sort = kind ? (uint32_t)draw(number, 20, k, 0, 3) : 0;

	*n = (struct tw_planner_node){
		.speed = speeds[sort],
		.per_byte = cards[kind == 2 ? (uint32_t)draw(number, 21, k, 0, 3) : 0],
		.latency = 1e-4,
		.group = kind == 2 ? 1 + k % 2 : 0,
	};
}

/* As many machines as parts, or fewer; the last parts have most of the parameters, the first ones
 * the largest activations, as in a network of convolutions. */
void case_make(struct plan_case *c, uint32_t number)
{
	const uint32_t parts = 3 + (uint32_t)draw(number, 1, 0, 0, PARTS - 2);
	const uint32_t nodes = 2 + (uint32_t)draw(number, 2, 0, 0, NODES - 1), kind = number % 3;
	const struct tw_pipeline *s =
		tw_pipeline_find(schedules[(uint32_t)draw(number, 3, 0, 0, 3)]);
	const bool flushes = s->traits & TW_PIPELINE_FLUSHES, images = draw(number, 4, 0, 0, 2) < 1;
	double bytes = 0, stash = 0;

	for (uint32_t k = 0; k < parts; k++) {
		const double x = (double)k / parts;
		struct tw_planner_part *a = &c->part[k];

		a->forward = draw(number, 5, k, 1e-3, 1e-2);
		a->backward = a->forward * draw(number, 6, k, 1.5, 2.5);
		a->bytes = draw(number, 7, k, 1e4, 1e6) * (images ? 0.1 + 3 * x * x : 1);
		a->stash = draw(number, 8, k, 1e5, 2e6) * (images ? 1.2 - x : 1);
		a->scratch = 1e5;
		a->counts = draw(number, 9, k, 0, 4) < 3 || k + 1 == parts;
		c->border[k].forward = draw(number, 10, k, 1e4, 1e6) * (images ? 1.1 - x : 0.3);
		c->border[k].backward = k ? c->border[k].forward : 0;
		bytes += a->bytes;
		stash += a->stash;
	}
	for (uint32_t k = 0; k < nodes; k++) {
		make_node(&c->node[k], number, k, kind);
		if (number % 4 == 0) /* a machine alone seldom has enough */
			c->node[k].memory =
				(5 * bytes + 2 * stash) * draw(number, 11, k, 0.05, 0.5);
	}
	c->p = (struct tw_planner){
		.part = c->part,
		.border = c->border,
		.parts = parts,
		.node = c->node,
		.nodes = nodes,
		.group_per_byte = kind == 2 ? 4e-8 : 0,
		.group_latency = kind == 2 ? 1e-3 : 0,
		.schedule = s,
		.options = c->options,
		.micros = flushes ? 6 : 1,
		.stream = flushes ? 12 : 24,
		.ranges = 6,
		.lanes = true,
		.kept = 2,
		.up = 1,
		.down = 1,
	};
	if (s->options) {
		struct tw_arena keep;

		assert_true(s->options_bytes <= sizeof c->options);
		tw_arena_init(&keep, &tw_heap_system);
		assert_int_equal(tw_option_defaults(s->options, c->options, &keep, NULL), TW_OK);
		tw_arena_release(&keep);
	}
}
