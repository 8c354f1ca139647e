/* SPDX-License-Identifier: Apache-2.0 */
/* test_tls_clock.c - a key has no date: connections are made while the machine's clock jumps. */
#include "wire/pairs.h"
#include "wire/tls.h"

#include <setjmp.h>
#include <stdarg.h>
#include <sys/time.h>
#include <time.h>
#include <cmocka.h>

#define DAY 86400

/* The clock as OpenSSL reads it: each look is days off the one before. */
static int looks;

static time_t jumping(void)
{
	static const int days[] = { 0, 1, -3, 300, -200, 2, 2, -1000 };

	return 1800000000 + DAY * (time_t)days[looks++ % 8];
}

time_t time(time_t *out)
{
	const time_t now = jumping();

	if (out)
		*out = now;
	return now;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
	*out = (struct timeval){ .tv_sec = jumping() };
	return 0;
}

static void a_key_works_whatever_the_clock_says(void **state)
{
	static const uint8_t key[TW_KEY_BYTES] = { 1 };
	const struct tw_tls_options o = { .key = key };
	struct tw_error why = { .status = TW_OK };
	struct tw_tls *tls = NULL;

	assert_int_equal(tw_tls_new(&tw_heap_system, &o, &tls, &why), TW_OK);
	for (int k = 0; k < 64; k++) {
		enum tw_flow flow[2];
		struct pair p;
		int fd[2];

		looks = k;
		pair_sockets(true, fd);
		p.side[0] = tw_stream_tls(&tw_heap_system, fd[0], tls, true, "master:7433");
		p.side[1] = tw_stream_tls(&tw_heap_system, fd[1], tls, false, "10.0.0.9:999");
		pair_shake(&p, flow);
		if (flow[0] != TW_FLOW_OK || flow[1] != TW_FLOW_OK)
			fail_msg("%d: %s; %s", k, tw_stream_why(p.side[0]),
				 tw_stream_why(p.side[1]));
		if (looks == k)
			skip(); /* this OpenSSL asks another clock */
		pair_exchange(&p, 1000, 1);
		pair_close(&p);
	}
	tw_tls_free(tls);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_key_works_whatever_the_clock_says),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
