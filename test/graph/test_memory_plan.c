/* SPDX-License-Identifier: Apache-2.0 */
/* test_memory_plan.c - nothing that lives at the same time shares a byte; no byte is planned in
 * vain. */
#include "base/refusing.h"
#include "base/rng.h"
#include "graph/inner.h"
#include "graph/nets.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static bool apart(size_t a, size_t an, size_t b, size_t bn)
{
	return a + an <= b || b + bn <= a;
}

static void entries_never_meet(void **state)
{
	const struct tw_rng r = tw_rng_make(1, TW_RNG_TEST);

	for (uint64_t round = 0; round < 200; round++) {
		struct tw_plan_entry e[60];
		const size_t n = 1 + tw_rng_u64(&r, round, 0) % 60;
		size_t bytes, end = 0;

		for (size_t k = 0; k < n; k++) {
			e[k].bytes = TW_ALIGN * (tw_rng_u64(&r, round, 3 * k + 1) % 50);
			e[k].first = (uint32_t)(tw_rng_u64(&r, round, 3 * k + 2) % 40);
			e[k].last = e[k].first + (uint32_t)(tw_rng_u64(&r, round, 3 * k + 3) % 9);
		}
		assert_int_equal(tw_plan_place(&tw_heap_system, e, n, &bytes), TW_OK);
		for (size_t k = 0; k < n; k++) {
			assert_int_equal(e[k].from % TW_ALIGN, 0);
			end = e[k].from + e[k].bytes > end ? e[k].from + e[k].bytes : end;
			for (size_t j = 0; j < k; j++)
				if (e[j].first <= e[k].last && e[k].first <= e[j].last)
					assert_true(apart(e[j].from, e[j].bytes, e[k].from,
							  e[k].bytes));
		}
		assert_int_equal(bytes, end);
	}
}

/* What lives alone lies at 0; a chain of equal ones needs two places. */
static void a_chain_needs_two_places(void **state)
{
	struct tw_plan_entry e[20];
	size_t bytes;

	for (uint32_t k = 0; k < 20; k++)
		e[k] = (struct tw_plan_entry){ .bytes = 640, .first = k, .last = k + 1 };
	assert_int_equal(tw_plan_place(&tw_heap_system, e, 20, &bytes), TW_OK);
	assert_int_equal(bytes, 2 * 640);
	for (uint32_t k = 0; k < 20; k++)
		e[k].first = e[k].last = k;
	assert_int_equal(tw_plan_place(&tw_heap_system, e, 20, &bytes), TW_OK);
	assert_int_equal(bytes, 640);
	assert_int_equal(tw_plan_place(&tw_heap_system, e, 0, &bytes), TW_OK);
	assert_int_equal(bytes, 0);
}

static void plan_of(const struct tw_program *p)
{
	const struct tw_program_plan *plan = tw_program_plan(p);
	size_t end = 0, sum = 0;

	for (size_t k = 0; k < plan->buffers; k++) {
		const struct tw_program_buffer *a = &plan->buffer[k];

		assert_true(a->first <= a->last && a->last < plan->steps);
		assert_true(a->bytes > 0 && a->from % TW_ALIGN == 0);
		end = a->from + a->bytes > end ? a->from + a->bytes : end;
		sum += a->bytes;
		for (size_t j = 0; j < k; j++) {
			const struct tw_program_buffer *b = &plan->buffer[j];

			if (a->first <= b->last && b->first <= a->last)
				assert_true(apart(a->from, a->bytes, b->from, b->bytes));
		}
	}
	assert_int_equal(plan->bytes, end);
	assert_int_equal(plan->no_reuse, sum);
	assert_int_equal(tw_program_bytes(p), end);
}

/* A scratchpad is oneDNN's own affair: it may ask for more than it uses.  All else is written to
 * its end. */
static bool ends_in_scratch(const struct tw_program_plan *plan)
{
	for (size_t k = 0; k < plan->buffers; k++)
		if (plan->buffer[k].from + plan->buffer[k].bytes == plan->bytes &&
		    !strstr(plan->buffer[k].what, "scratch"))
			return false;
	return true;
}

/* Fill the arena and what follows it with one byte, run, and look who wrote where. */
static bool peak_of(struct net_run *r)
{
	uint8_t *arena = tw_heap_system.get(&tw_heap_system, r->arena_bytes + 4096);
	bool touched = false;

	assert_non_null(arena);
	memset(arena, 0xa5, r->arena_bytes + 4096);
	assert_int_equal(tw_program_run(r->program, arena, &r->run), TW_OK);
	for (size_t i = 0; i < 4096; i++)
		assert_int_equal(arena[r->arena_bytes + i], 0xa5);
	for (size_t i = r->arena_bytes - TW_ALIGN; i < r->arena_bytes; i++)
		touched |= arena[i] != 0xa5;
	assert_true(touched || ends_in_scratch(tw_program_plan(r->program)));
	tw_heap_system.put(&tw_heap_system, arena);
	return touched;
}

static void programs_keep_to_their_plan(void **state)
{
	uint32_t touched = 0;

	for (uint64_t seed = 0; seed < 100; seed++) {
		struct tw_graph *g = seed % 3 ? net_random(&tw_heap_system, seed)
					      : net_random_image(&tw_heap_system, seed);

		for (int kind = 0; kind < 2; kind++) {
			struct net_run r;

			net_run_init(&r, g, kind ? TW_PROGRAM_EVALUATE : TW_PROGRAM_TRAIN,
				     1 + (uint32_t)seed % 7, seed);
			plan_of(r.program);
			touched += peak_of(&r);
			net_run_release(&r);
		}
		tw_graph_free(g);
	}
	assert_true(touched > 100);
}

/* The largest buffer of that kind. */
static size_t most_of(const struct tw_program *p, const char *what)
{
	const struct tw_program_plan *plan = tw_program_plan(p);
	size_t most = 0;

	for (size_t k = 0; k < plan->buffers; k++)
		if (strstr(plan->buffer[k].what, what) && plan->buffer[k].bytes > most)
			most = plan->buffer[k].bytes;
	return most;
}

/* A deep line of layers in evaluation needs two values at a time, in training all of them. */
static void reuse_pays(void **state)
{
	const struct tw_shape in = { .rank = 1, .d = { 64 } };
	struct tw_graph *g =
		net_line(&tw_heap_system, &in,
			 "linear 64; tanh; linear 64; tanh; linear 64; tanh; linear 64;"
			 "tanh; linear 64; tanh; linear 64; tanh; cross-entropy");
	const size_t value = 32 * 64 * sizeof(float);
	struct net_run train, evaluate;

	net_run_init(&train, g, TW_PROGRAM_TRAIN, 32, 1);
	net_run_init(&evaluate, g, TW_PROGRAM_EVALUATE, 32, 1);
	assert_int_equal(tw_program_bytes(evaluate.program),
			 2 * value + most_of(evaluate.program, "scratch"));
	assert_true(tw_program_bytes(train.program) >= 6 * value);
	assert_true(tw_program_plan(train.program)->no_reuse >= 12 * value);
	assert_true(tw_program_bytes(train.program) < tw_program_plan(train.program)->no_reuse);
	net_run_release(&train);
	net_run_release(&evaluate);
	tw_graph_free(g);
}

static void planning_without_memory(void **state)
{
	struct refusing heap = REFUSING(1);
	struct tw_plan_entry e = { .bytes = 64 };
	size_t bytes;

	assert_int_equal(tw_plan_place(&heap.heap, &e, 1, &bytes), TW_NO_MEMORY);
	assert_int_equal(heap.live, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(entries_never_meet),
		cmocka_unit_test(a_chain_needs_two_places),
		cmocka_unit_test(programs_keep_to_their_plan),
		cmocka_unit_test(reuse_pays),
		cmocka_unit_test(planning_without_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
