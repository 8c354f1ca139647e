/* SPDX-License-Identifier: Apache-2.0 */
/* test_rounds.c - rounds with backup workers take the same time however the samples are cut into
 * epochs: the last round of an epoch has fewer stripes than there are workers, and must not become
 * a barrier. */
#include "oracle_tools.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#define STEP 0.1
#define WORK 2800

struct came_to {
	double seconds;
	uint64_t dropped, samples;
};

/* 8 workers, one of which does not have to be waited for; the speeds say who is slow. */
static struct came_to with(uint32_t samples, const char *speeds)
{
	struct oracle_run r = { .silent = true };

	oracle_run(&r,
		   "data: {samples: %u, batch: 1}\n"
		   "model: {quadratic: {dimension: 10}}\n"
		   "train: {epochs: %u}\n"
		   "update: {rate: 0.01}\n"
		   "cluster: {workers: 8}\n"
		   "strategy: {name: backup, extra: 1}\n"
		   "sim: {compute: {law: constant, mean: 100ms}, latency: 0s, bandwidth: 0bit/s, "
		   "speeds: %s}\n",
		   samples, WORK / samples, speeds);
	oracle_free(&r);
	return (struct came_to){ (double)r.ns / 1e9, r.totals.dropped, r.totals.samples };
}

static void check(const char *speeds)
{
	static const uint32_t samples[] = { WORK, 70, 100, 35 };

	for (size_t k = 0; k < sizeof samples / sizeof samples[0]; k++) {
		const struct came_to c = with(samples[k], speeds);
		const uint32_t epochs = WORK / samples[k];
		/* 7 samples a round, and one round that is not full at the end of each epoch */
		const uint32_t rounds = epochs * ((samples[k] + 6) / 7);

		assert_true(c.seconds >= STEP * WORK / 8);
		assert_true(c.seconds <= STEP * rounds + 1.0);
		assert_true(c.dropped <= 60);
		assert_int_equal(c.samples + c.dropped, WORK);
	}
}

static void a_slow_worker_is_not_waited_for(void **state)
{
	(void)state;
	check("[1, 1, 1, 1, 1, 1, 1, 0.02]");
}

/* The first slot has a stripe in every round, however short it is. */
static void wherever_it_sits(void **state)
{
	(void)state;
	check("[0.02, 1, 1, 1, 1, 1, 1, 1]");
	check("[1, 1, 1, 0.02, 1, 1, 1, 1]");
}

/* Without anybody slow a short round still leaves out at most one. */
static void nobody_is_slow(void **state)
{
	const struct came_to c = with(70, "[]");

	(void)state;
	assert_true(c.seconds <= STEP * 40 * 10 + 1.0);
	assert_int_equal(c.samples + c.dropped, WORK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_slow_worker_is_not_waited_for),
		cmocka_unit_test(wherever_it_sits),
		cmocka_unit_test(nobody_is_slow),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
