/* SPDX-License-Identifier: Apache-2.0 */
/* test_link.c - what a shard remembers of a worker's link: how far it is closed, and which of the
 * last numbers were not applied. */
#include "node/shard/shard.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static void what_was_not_applied_is_remembered(void **state)
{
	struct shard_worker g = { 0 };

	tw_shard_worker_close(&g, 1, 4, false);
	assert_int_equal(g.unapplied, 1);
	tw_shard_worker_close(&g, 2, 5, true);
	assert_int_equal(g.link, 2);
	assert_int_equal(g.seq, 5);
	assert_int_equal(g.unapplied, 2); /* number 1, as seen from 2 */
	tw_shard_worker_close(&g, 5, 9,
			      false); /* refused across a gap: 3 and 4 are closed with it */
	assert_int_equal(g.unapplied, 16 + 7);
	g.late = 1; /* the last one was dropped */
	tw_shard_worker_close(&g, 16, 30, true);
	assert_true(g.unapplied == (1u << 15 | 7u << 11) && g.late == 1u << 11);
	tw_shard_worker_close(&g, 900, 31, true); /* the sender gave up a whole generation */
	assert_int_equal(g.unapplied + g.late, 0);
}

/* What a worker closes by itself (PULL) never moves a link back. */
static void a_link_never_goes_back(void **state)
{
	struct shard_worker g = { .link = 7, .unapplied = 4 };

	tw_shard_worker_close(&g, 7, 7, true);
	assert_int_equal(g.link, 7);
	assert_int_equal(g.unapplied, 4);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_not_applied_is_remembered),
		cmocka_unit_test(a_link_never_goes_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
