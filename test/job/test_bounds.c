/* SPDX-License-Identifier: Apache-2.0 */
/* test_bounds.c - slots and snapshots are bounded: a long run with faults needs no more memory
 * than a short one, and never more than a number of vectors per worker that can be written down. */
#include "job/faultrun.h"
#include "job/trial.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define DIMENSION 4096
#define WORKERS   4

/* A heap that knows how much is out. */
struct counting {
	struct tw_heap heap; /* must stay first */
	size_t live, peak;
};

static void *counting_get(struct tw_heap *heap, size_t bytes)
{
	struct counting *c = (struct counting *)heap;
	size_t *memory = tw_heap_system.get(&tw_heap_system, bytes + TW_ALIGN);

	if (!memory)
		return NULL;
	*memory = bytes;
	c->live += bytes;
	if (c->live > c->peak)
		c->peak = c->live;
	return (uint8_t *)memory + TW_ALIGN;
}

static void counting_put(struct tw_heap *heap, void *memory)
{
	struct counting *c = (struct counting *)heap;

	if (!memory)
		return;
	memory = (uint8_t *)memory - TW_ALIGN;
	c->live -= *(size_t *)memory;
	tw_heap_system.put(&tw_heap_system, memory);
}

/* The most bytes that a run of so many epochs had out at once. */
static size_t peak_of(const char *preset, unsigned epochs)
{
	struct counting heap = { .heap = { counting_get, counting_put } };
	struct tw_ran ran;
	struct trial t;

	trial_open(&t, TW_WORLD_SIM,
		   "model: {quadratic: {dimension: %d, noise: 0.1}}\n"
		   "data: {source: none, samples: 256, batch: 2}\n"
		   "train: {epochs: %u, seed: 5}\n"
		   "update: {rate: 0.01}\n"
		   "cluster: {workers: %d, servers: 2, shards: 2, wait: 30s}\n"
		   "strategy: %s\n"
		   "checkpoint: {every: 4s}\n"
		   "sim: {compute: {law: exponential, mean: 100ms}, latency: 2ms, "
		   "random: {crashes: %u, resets: %u, span: %us, seed: 3}}\n",
		   DIMENSION, epochs, WORKERS, preset, epochs, 2 * epochs, 3 * epochs);
	if (trial_run(&t, &heap.heap, NULL, &ran) != TW_OK)
		fail_msg("%s: %s", preset, ran.error.text);
	tw_totals_release(&ran.totals);
	assert_int_equal(heap.live, 0);
	trial_close(&t);
	return heap.peak;
}

static void memory_does_not_grow_with_the_run(void **state)
{
	const double vector = DIMENSION * sizeof(float);

	(void)state;
	for (size_t k = 0; faultrun_presets[k]; k++) {
		const double brief = (double)peak_of(faultrun_presets[k], 5) / vector;
		const double longer = (double)peak_of(faultrun_presets[k], 15) / vector;
		const bool own = strstr(faultrun_presets[k], "push:");

		/* per worker: what it sees, its gradient and one on its way, what it was sent,
		 * its own array and its part of a cut; beside that the shards'.  One that steps by
		 * itself has its parameters, its base and two arrays of its rule, and in its part
		 * of a cut, where it is made, sent and kept, three of these */
		if (longer > (own ? 20 : 9) * WORKERS + 31 || longer > 1.25 * brief + 8)
			fail_msg("%s: %.1f vectors at most in 5 epochs, %.1f in 15",
				 faultrun_presets[k], brief, longer);
		printf("%-60s %5.1f vectors in 5 epochs, %5.1f in 15\n", faultrun_presets[k], brief,
		       longer);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_does_not_grow_with_the_run),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
