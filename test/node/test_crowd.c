/* SPDX-License-Identifier: Apache-2.0 */
/* test_crowd.c - what an actor needs lies in small blocks: of larger ones the heap of a simulated
 * crowd (world/sim/crowd_heap.h) cannot make a dense row, and events of 100,000 actors cost a tenth
 * more. */
#include "world/sim/crowd_heap.h"
#include "node/plan.h"
#include "node/small_plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

/* Remembers the largest request. */
struct measuring {
	struct tw_heap heap; /* must stay first */
	size_t largest;
};

static void *measuring_get(struct tw_heap *heap, size_t bytes)
{
	struct measuring *m = (struct measuring *)heap;

	if (bytes > m->largest)
		m->largest = bytes;
	return tw_heap_system.get(&tw_heap_system, bytes);
}

static void measuring_put(struct tw_heap *heap, void *memory)
{
	(void)heap;
	tw_heap_system.put(&tw_heap_system, memory);
}

static void is_small(const struct tw_actor_class *class, const char *gate, size_t most)
{
	struct measuring m = { .heap = { measuring_get, measuring_put } };
	struct small_plan p;
	struct tw_actor *a;

	small_plan_open(&p, 10, 0, gate, "none", "sgd");
	a = class->new (&m.heap, &(struct tw_role_arg){ .plan = &p.plan });
	assert_non_null(a);
	assert_true(m.largest >= 512); /* the actor itself */
	if (m.largest > most)
		fail_msg("a %s under %s has a block of %zu bytes, at most %zu are small",
			 class->name, gate, m.largest, most);
	class->free(a);
	small_plan_close(&p);
}

/* Half of what is small: the other half is there for what they will need one day. */
static void a_worker_is_small(void **state)
{
	static const char *const gates[] = { "async", "ssp", "softsync", "bsp" };

	for (size_t k = 0; k < sizeof gates / sizeof gates[0]; k++)
		is_small(&tw_worker_class, gates[k], TW_CROWD_SMALL / 2);
}

static void a_shard_is_small(void **state)
{
	is_small(&tw_shard_class, "async", TW_CROWD_SMALL);
	is_small(&tw_shard_class, "bsp", TW_CROWD_SMALL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_worker_is_small),
		cmocka_unit_test(a_shard_is_small),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
