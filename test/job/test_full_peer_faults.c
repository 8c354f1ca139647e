/* SPDX-License-Identifier: Apache-2.0 */
/* test_full_peer_faults.c - every reduction, every peer, every event; then pairs, seeds, leavers.
 * A failure is replayed by job_test_full_faults --replay. */
#include "peer_faults.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static void every_peer_at_every_event(void **state)
{
	(void)state;
	assert_int_equal(peer_faults_kills(1), 0);
}

static void two_peers_at_every_event(void **state)
{
	(void)state;
	assert_int_equal(peer_faults_pairs(1), 0);
}

static void seeds(void **state)
{
	(void)state;
	assert_int_equal(peer_faults_seeds(1, 20000), 0);
}

static void leavers(void **state)
{
	(void)state;
	assert_int_equal(peer_faults_leaves(1, 10000), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_peer_at_every_event),
		cmocka_unit_test(two_peers_at_every_event),
		cmocka_unit_test(seeds),
		cmocka_unit_test(leavers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
