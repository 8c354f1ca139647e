/* SPDX-License-Identifier: Apache-2.0 */
/* peer_costs.c - what exchanges among workers without servers take, against the simulator. */
#include "job/peer_costs.h"

#include "job/cost_tools.h"
#include "job/reading.h"
#include "kit/reduce.h"

#include <stdio.h>

void peer_cost_rounds(const char *model, uint32_t least, uint32_t most, uint32_t rounds)
{
	static const char *const strategies[] = {
		"{gate: bsp, topology: ring}",
		"{gate: bsp, topology: tree}",
		"{gate: bsp, topology: direct}",
		"{name: averaging, push: 3, topology: ring}",
		"{gate: bsp, topology: direct, codec: {up: fp16}}",
		"{gate: bsp, topology: direct, codec: {up: onebit}}",
	};
	static const char *const sims[] = {
		"{compute: {law: constant, mean: 10ms}, latency: 100us, bandwidth: 1Gbit/s}",
		"{compute: {law: exponential, mean: 10ms}, latency: 2ms, bandwidth: 20Mbit/s}",
		"{compute: {law: uniform, mean: 10ms}, latency: 1ms, bandwidth: 8Mbit/s, "
		"apply_rate: 1e6}",
		"{compute: {law: constant, mean: 10ms}, latency: 1ms, bandwidth: 100Mbit/s}",
	};

	for (size_t s = 0; s < sizeof sims / sizeof sims[0]; s++)
		for (size_t k = 0; k < sizeof strategies / sizeof strategies[0]; k++)
			for (uint32_t n = least; n <= most; n *= 4)
				cost_compare(&(struct cost_job){ model, strategies[k], sims[s], "",
								 n, rounds },
					     0.15);
}

void peer_cost_sums(const char *model, uint32_t most)
{
	static const char sim[] =
		"{compute: {law: constant, mean: 1ms}, latency: 100us, bandwidth: 1Gbit/s}";
	static const char *const clusters[] = { ", shards: 1", ", shards: 5" };
	static const uint32_t workers[] = { 2, 3, 8, 13, 64 };

	for (size_t i = 0; kit_reduction_at(i); i++)
		for (size_t k = 0; k < 2 * sizeof workers / sizeof workers[0]; k++) {
			char strategy[60];

			if (workers[k / 2] > most)
				break;
			snprintf(strategy, sizeof strategy, "{gate: bsp, topology: %s}",
				 kit_reduction_at(i)->name);
			cost_compare(&(struct cost_job){ model, strategy, sim, clusters[k % 2],
							 workers[k / 2], 4 },
				     0.05);
		}
}

void peer_cost_mixings(const char *model, uint32_t most)
{
	static const char *const sims[] = {
		"{compute: {law: constant, mean: 100ms}, latency: 1ms, bandwidth: 1Gbit/s}",
		"{compute: {law: constant, mean: 20ms}, latency: 100us, bandwidth: 2Gbit/s, "
		"stragglers: {count: 1, slower: 3}}",
		"{compute: {law: constant, mean: 1ms}, latency: 100us, bandwidth: 100Mbit/s}",
	};
	static const uint32_t workers[] = { 2, 5, 16 };

	for (size_t i = 0; tw_mixing_all[i]; i++)
		for (size_t s = 0; s < sizeof sims / sizeof sims[0]; s++)
			for (size_t k = 0; k < 3 && workers[k] <= most; k++) {
				char strategy[60];

				snprintf(strategy, sizeof strategy, "{gate: %s, topology: %s}",
					 tw_mixing_all[i]->round ? "bsp" : "async",
					 tw_mixing_all[i]->name);
				/* confirmations queue behind parameters where these take longer
				 * than many steps, and workers then wait for them */
				if (!tw_mixing_all[i]->partner || s < 2)
					cost_compare(&(struct cost_job){ model, strategy, sims[s],
									 "", workers[k], 12 },
						     0.15);
			}
}
