/* SPDX-License-Identifier: Apache-2.0 */
/* test_facts.c - facts are asked by name, however many there are; an unknown name is a bug. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/facts.h"

#define MANY 300

static struct tw_arena arena;

static int begin(void **state)
{
	(void)state;
	tw_arena_init(&arena, &tw_heap_system);
	return 0;
}

static int end(void **state)
{
	(void)state;
	tw_arena_release(&arena);
	return 0;
}

static void names_are_whole_words(void **state)
{
	const struct tw_fact rows[] = { { "rain", true },
					{ "rain-coat", false },
					{ "sun", false } };
	struct tw_facts f = { .keep = &arena };

	(void)state;
	assert_true(TW_FACTS_ADD(&f, rows));
	assert_true(tw_facts_are(&f, ""));
	assert_true(tw_facts_are(&f, "rain"));
	assert_false(tw_facts_are(&f, "!rain"));
	assert_false(tw_facts_are(&f, "rain-coat"));
	assert_true(tw_facts_are(&f, "rain !rain-coat !sun"));
	assert_true(tw_facts_are(&f, "!sun  rain "));
	assert_false(tw_facts_are(&f, "rain sun"));
	assert_false(tw_facts_are(&f, "sun rain"));
	assert_false(tw_facts_are(&f, "!sun !rain"));
}

/* No number of facts is too large: each keeps its truth while others are added. */
static void there_is_room_for_all(void **state)
{
	static char name[MANY][8];
	struct tw_facts f = { .keep = &arena };
	char both[20];

	(void)state;
	for (int k = 0; k < MANY; k++) {
		const struct tw_fact one = { name[k], k % 3 == 0 };

		snprintf(name[k], sizeof name[k], "f%d", k);
		assert_true(tw_facts_add(&f, &one, 1));
	}
	assert_int_equal(f.count, MANY);
	for (int k = 0; k < MANY; k++) {
		snprintf(both, sizeof both, "f0 f%d", k);
		assert_int_equal(tw_facts_are(&f, both), k % 3 == 0);
	}
}

static void dies(const struct tw_facts *f, const char *when)
{
	const pid_t child = fork();
	int status = 0;

	assert_true(child >= 0);
	if (child == 0) {
		if (!freopen("/dev/null", "w", stderr))
			_exit(1);
		tw_facts_are(f, when);
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

/* Wherever it stands, and whatever the others say. */
static void an_unknown_name_is_a_bug(void **state)
{
	const struct tw_fact rows[] = { { "rain", true }, { "sun", false } };
	struct tw_facts f = { .keep = &arena };

	(void)state;
	dies(&f, "rain");
	assert_true(TW_FACTS_ADD(&f, rows));
	dies(&f, "snow");
	dies(&f, "rain !snow");
	dies(&f, "sun snow");
	dies(&f, "rai");
	dies(&f, "rainy");
	dies(&f, "!");
}

static void *nothing(struct tw_heap *heap, size_t bytes)
{
	(void)heap, (void)bytes;
	return NULL;
}

static void without_memory_nothing_is_added(void **state)
{
	struct tw_heap poor = { .get = nothing };
	struct tw_arena none;
	struct tw_facts f = { .keep = &none };

	(void)state;
	tw_arena_init(&none, &poor);
	assert_false(tw_facts_add(&f, &(struct tw_fact){ "rain", true }, 1));
	assert_int_equal(f.count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(names_are_whole_words, begin, end),
		cmocka_unit_test_setup_teardown(there_is_room_for_all, begin, end),
		cmocka_unit_test_setup_teardown(an_unknown_name_is_a_bug, begin, end),
		cmocka_unit_test(without_memory_nothing_is_added),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
