/* SPDX-License-Identifier: Apache-2.0 */
/* small_plan.c - see small_plan.h. */
#include "node/small_plan.h"
#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static const void *defaults(struct small_plan *p, const struct tw_option *rows, size_t bytes)
{
	void *base = tw_arena_get(&p->arena, bytes ? bytes : 1);
	struct tw_error why = { TW_OK };

	assert_non_null(base);
	if (rows && tw_option_defaults(rows, base, &p->arena, &why) != TW_OK)
		fail_msg("%s", why.text);
	return base;
}

void small_plan_open(struct small_plan *p, size_t trainable, size_t buffers, const char *gate,
		     const char *staleness, const char *rule)
{
	struct tw_plan *plan = &p->plan;

	memset(p, 0, sizeof *p);
	tw_arena_init(&p->arena, &tw_heap_system);
	p->border[1] = trainable + buffers;
	plan->seed = 7;
	plan->problem = (struct tw_problem){ .trainable = trainable,
					     .buffers = buffers,
					     .shards = 1,
					     .border = p->border,
					     .samples = 1000 };
	plan->dealing = (struct tw_dealing){ .batch = 1, .accumulate = 1, .positions = 100000 };
	plan->ends = (struct tw_ends){ .loss = NAN, .accuracy = NAN };
	plan->crew = (struct tw_crew){ .workers = 9, .min = 1, .servers = 1 };
	plan->gate = tw_gate_find(gate);
	plan->staleness = tw_staleness_find(staleness);
	plan->far.rule = tw_rule_find(rule);
	plan->traffic = (struct tw_traffic){ .up = tw_codec_find("fp32"),
					     .down = tw_codec_find("fp32"),
					     .push = 1,
					     .fetch = 1,
					     .skip_push = NAN,
					     .skip_fetch = NAN };
	plan->schedule = (struct tw_schedule){ .rate = 0.05, .warmup_from = 1.0, .epochs = 100 };
	assert_true(plan->gate && plan->staleness && plan->far.rule && plan->traffic.up);
	plan->gate_options = defaults(p, plan->gate->options, plan->gate->options_bytes);
	plan->staleness_options =
		defaults(p, plan->staleness->options, plan->staleness->options_bytes);
	plan->far.options = defaults(p, plan->far.rule->options, plan->far.rule->options_bytes);
	plan->traffic.up_options =
		defaults(p, plan->traffic.up->options, plan->traffic.up->options_bytes);
	plan->traffic.down_options = plan->traffic.up_options;
}

void small_plan_codec(struct small_plan *p, const struct tw_codec *up)
{
	p->plan.traffic.up = up;
	p->plan.traffic.up_options = defaults(p, up->options, up->options_bytes);
}

void small_plan_close(struct small_plan *p)
{
	tw_arena_release(&p->arena);
}

uint64_t drawn(uint64_t nth, uint64_t most)
{
	const struct tw_rng rng = tw_rng_make(1, TW_RNG_TEST);

	return tw_rng_u64(&rng, nth, 0) % most;
}

void draw_floats(float *out, size_t n, uint64_t what)
{
	const struct tw_rng rng = tw_rng_make(2, TW_RNG_TEST);

	tw_rng_gauss_fill(&rng, what, 0, out, n);
}
