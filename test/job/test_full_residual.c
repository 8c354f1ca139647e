/* SPDX-License-Identifier: Apache-2.0 */
/* test_full_residual.c - a worker, then a server, then all but the workers die at every event of a
 * run in turn, with each codec that owes. */
#include "job/books.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

static void a_worker_at_every_event(void **state)
{
	for (books_codec = 0; books_codec < CODECS; books_codec++) {
		const unsigned died = books_kill_everywhere(1);

		printf("codec %zu: %u deaths\n", books_codec, died);
		assert_true(died > 400);
	}
}

static void a_server_at_every_event(void **state)
{
	for (books_codec = 0; books_codec < CODECS_ADD_UP; books_codec++) {
		const unsigned lost = books_lose_everywhere(1);

		printf("codec %zu: %u losses\n", books_codec, lost);
		assert_true(lost > 500);
	}
}

static void all_but_workers_at_every_event(void **state)
{
	for (books_codec = 0; books_codec < CODECS_ADD_UP; books_codec++) {
		const unsigned restarts = books_restart_everywhere(1);

		printf("codec %zu: %u restarts\n", books_codec, restarts);
		assert_true(restarts > 500);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_worker_at_every_event),
		cmocka_unit_test(a_server_at_every_event),
		cmocka_unit_test(all_but_workers_at_every_event),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
