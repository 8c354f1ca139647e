/* SPDX-License-Identifier: Apache-2.0 */
/* test_schedule.c - the rate's closed forms, warm-up and largest value. */
#include "strategy/tools.h"
#include "strategy/rule.h"

#include <math.h>

static void constant_is_constant(void **state)
{
	const struct tw_schedule s = { .kind = TW_SCHEDULE_CONSTANT, .rate = 0.1 };

	(void)state;
	for (double p = 0.0; p < 100.0; p += 0.37)
		CHECK(tw_schedule_rate(&s, p) == 0.1f);
	CHECK(tw_schedule_largest(&s) == 0.1f);
}

static void steps_come_at_their_epochs(void **state)
{
	const double at[] = { 80, 120 };
	const struct tw_schedule s = {
		.kind = TW_SCHEDULE_STEP, .rate = 0.1, .factor = 0.1, .at = { at, 2 }
	};
	const struct tw_schedule often = {
		.kind = TW_SCHEDULE_STEP, .rate = 1.0, .factor = 0.5, .every = 2.0
	};

	(void)state;
	CHECK(tw_schedule_rate(&s, 0) == 0.1f && tw_schedule_rate(&s, 79.999) == 0.1f);
	NEAR(tw_schedule_rate(&s, 80), 0.01, 1e-9);
	NEAR(tw_schedule_rate(&s, 119.99), 0.01, 1e-9);
	NEAR(tw_schedule_rate(&s, 120), 0.001, 1e-9);
	NEAR(tw_schedule_rate(&s, 1e6), 0.001, 1e-9);
	CHECK(tw_schedule_largest(&s) == 0.1f);
	for (int k = 0; k < 100; k++) {
		const struct tw_schedule tenth = {
			.kind = TW_SCHEDULE_STEP, .rate = 1.0, .factor = 0.5, .every = 0.1
		};

		CHECK(tw_schedule_rate(&tenth, k / 10.0) == ldexpf(1.0f, -k));
	}
	for (int k = 0; k < 20; k++) {
		CHECK(tw_schedule_rate(&often, 2.0 * k) == ldexpf(1.0f, -k));
		CHECK(tw_schedule_rate(&often, 2.0 * k + 1.999) == ldexpf(1.0f, -k));
	}
}

static void cosine_and_linear_reach_their_ends(void **state)
{
	struct tw_schedule s = {
		.kind = TW_SCHEDULE_COSINE, .rate = 0.2, .epochs = 10, .final = 0.1
	};

	(void)state;
	CHECK(tw_schedule_rate(&s, 0) == 0.2f);
	NEAR(tw_schedule_rate(&s, 5), 0.2 * 0.55, 1e-7);
	NEAR(tw_schedule_rate(&s, 10.0 / 3.0), 0.2 * (0.1 + 0.9 * 0.75), 1e-7);
	NEAR(tw_schedule_rate(&s, 10), 0.02, 1e-8);
	NEAR(tw_schedule_rate(&s, 50), 0.02, 1e-8);
	CHECK(tw_schedule_largest(&s) == 0.2f);
	s.kind = TW_SCHEDULE_LINEAR;
	CHECK(tw_schedule_rate(&s, 0) == 0.2f);
	NEAR(tw_schedule_rate(&s, 2.5), 0.2 * (1 - 0.9 * 0.25), 1e-7);
	NEAR(tw_schedule_rate(&s, 10), 0.02, 1e-8);
	NEAR(tw_schedule_rate(&s, 11), 0.02, 1e-8);
	CHECK(tw_schedule_largest(&s) == 0.2f);
	s.final = 3.0; /* a rate may also grow */
	NEAR(tw_schedule_largest(&s), 0.6, 1e-7);
	s.final = 0.0;
	NEAR(tw_schedule_rate(&s, 10), 0.0, 1e-9);
}

static void inverses_count_updates(void **state)
{
	struct tw_schedule s = {
		.kind = TW_SCHEDULE_INVERSE_ROOT, .rate = 0.5, .update = 0.025, .epochs = 10
	};

	(void)state;
	for (int t = 1; t <= 400; t++) {
		s.kind = TW_SCHEDULE_INVERSE_ROOT;
		NEAR(tw_schedule_rate(&s, (t - 1) * 0.025), 0.5 / sqrt(t), 1e-7);
		s.kind = TW_SCHEDULE_INVERSE;
		NEAR(tw_schedule_rate(&s, (t - 1) * 0.025), 0.5 / t, 1e-7);
	}
	CHECK(tw_schedule_largest(&s) == 0.5f);
	s.warmup = 1; /* 40 updates: the best of p / (1 + 40 p) is at its end */
	NEAR(tw_schedule_largest(&s), 0.5 / 41, 1e-7);
	s.kind = TW_SCHEDULE_INVERSE_ROOT;
	NEAR(tw_schedule_largest(&s), 0.5 / sqrt(41), 1e-7);
}

static void warm_up_rises_in_a_line_and_then_gets_out_of_the_way(void **state)
{
	struct tw_schedule s = { .rate = 0.8,
				 .warmup = 5,
				 .warmup_from = 0.125,
				 .epochs = 20,
				 .factor = 0.5,
				 .every = 7 };
	struct tw_schedule cold = s;

	(void)state;
	cold.warmup = 0;
	for (uint32_t kind = TW_SCHEDULE_CONSTANT; kind <= TW_SCHEDULE_LINEAR; kind++) {
		s.kind = cold.kind = kind;
		for (double p = 0.0; p < 25.0; p += 0.1) {
			const double up = p < 5.0 ? 0.125 + 0.875 * p / 5.0 : 1.0;

			NEAR(tw_schedule_rate(&s, p), up * tw_schedule_rate(&cold, p), 1e-7);
		}
	}
	s.kind = TW_SCHEDULE_CONSTANT;
	NEAR(tw_schedule_rate(&s, 0), 0.1, 1e-8);
	CHECK(tw_schedule_rate(&s, 5) == 0.8f);
}

/* No rate ever given is larger, and some rate is (nearly) as large. */
static void largest_is_the_largest(void **state)
{
	const double at[] = { 3, 4, 30 };

	(void)state;
	for (uint64_t round = 0; round < 400; round++) {
		const struct tw_schedule s = {
			.kind = pick(round, 4),
			.rate = 0.01 * (1 + pick(round + 1000, 100)),
			.warmup = 0.1 * pick(round + 2000, 100),
			.warmup_from = 0.02 * pick(round + 3000, 60),
			.factor = 0.1 * (1 + pick(round + 4000, 11)),
			.at = { at, 3 },
			.every = 0.5 * pick(round + 5000, 6),
			.epochs = 0.5 * (1 + pick(round + 6000, 80)),
			.final = 0.05 * pick(round + 7000, 25),
		};
		const double largest = tw_schedule_largest(&s);
		double seen = 0.0;

		for (int k = 0; k <= 20000; k++)
			seen = fmax(seen, tw_schedule_rate(&s, s.epochs * k / 20000));
		CHECK(seen <= largest * (1 + 1e-6));
		/* what lies behind the end of the run, in a longer warm-up, is never seen */
		if (s.warmup <= s.epochs && (s.kind != TW_SCHEDULE_STEP || s.every > 0.0))
			CHECK(seen >= largest * (1 - 2e-3));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(constant_is_constant),
		cmocka_unit_test(steps_come_at_their_epochs),
		cmocka_unit_test(cosine_and_linear_reach_their_ends),
		cmocka_unit_test(inverses_count_updates),
		cmocka_unit_test(warm_up_rises_in_a_line_and_then_gets_out_of_the_way),
		cmocka_unit_test(largest_is_the_largest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
