/* SPDX-License-Identifier: Apache-2.0 */
/* test_full_cost.c - a step of every preset takes as long as predicted, within 15 %, on three
 * networks with 2 to 64 workers; and what exchanges without servers take on the largest. */
#include "job/cost_tools.h"
#include "job/peer_costs.h"
#include "job/reading.h"
#include "job/trial.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

/* Contributions of all workers in the shorter run: more workers make the mean as exact in fewer. */
static uint32_t rounds_for(uint32_t workers, uint32_t contributions)
{
	const uint32_t rounds = contributions / workers;

	return rounds < 6 ? 6 : rounds;
}

static void compare_all(const char *model, const char *sim, uint32_t contributions, uint32_t grow)
{
	double worst = 0;

	for (uint32_t n = 2; n <= 64; n *= grow) {
		for (const struct tw_preset *p = tw_presets; p->name; p++) {
			const char *strategy = short_strategy(p);
			const struct cost_job j = { model, strategy, sim,
						    "",    n,        rounds_for(n, contributions) };
			double off;

			if (has_optimiser(p) || has_stages(p) || cost_is_beyond(strategy, n))
				continue;
			off = cost_compare(&j, 0.15);
			worst = off > worst ? off : -off > worst ? -off : worst;
		}
	}
	printf("worst: %.1f %%, sim: %s\n", 100 * worst, sim);
}

/* The largest network takes longest: 2 and 64 workers. */
static void mlp(void **state)
{
	compare_all(cost_models[0],
		    "{compute: {law: log-normal, median: 20ms, sigma: 0.2}, latency: 200us, "
		    "bandwidth: 10Gbit/s}",
		    200, 32);
}

static void convnet(void **state)
{
	compare_all(cost_models[1],
		    "{compute: {law: log-normal, median: 20ms, sigma: 0.2}, latency: 1ms, "
		    "bandwidth: 100Mbit/s}",
		    300, 2);
	compare_all(cost_models[1],
		    "{compute: {law: constant, mean: 5ms}, latency: 200us, bandwidth: 1Gbit/s}",
		    300, 2);
}

static void quadratic(void **state)
{
	compare_all(cost_models[2],
		    "{compute: {law: log-normal, median: 10ms, sigma: 0.2}, latency: 200us, "
		    "bandwidth: 100Mbit/s}",
		    600, 2);
	compare_all(cost_models[2],
		    "{compute: {law: gamma, mean: 10ms, shape: 4}, latency: 5ms, bandwidth: "
		    "20Mbit/s}",
		    1200, 2);
}

static void workers_without_servers(void **state)
{
	peer_cost_rounds(cost_models[0], 2, 8, 10);
	peer_cost_rounds(cost_models[2], 32, 32, 80);
	peer_cost_sums(cost_models[0], 64);
	peer_cost_mixings(cost_models[0], 16);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quadratic),
		cmocka_unit_test(convnet),
		cmocka_unit_test(mlp),
		cmocka_unit_test(workers_without_servers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
