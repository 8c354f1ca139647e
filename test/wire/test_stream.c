/* SPDX-License-Identifier: Apache-2.0 */
/* test_stream.c - bytes arrive as they were sent, nobody waits, every end is told from others. */
#include "base/refusing.h"
#include "wire/pairs.h"
#include "wire/tls_inner.h"

#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

static const uint8_t key[TW_KEY_BYTES] = { 1, 2, 3 };
static struct tw_tls *tls;

static int open_tls(void **state)
{
	const struct tw_tls_options o = { .key = key };

	return tw_tls_new(&tw_heap_system, &o, &tls, NULL) == TW_OK ? 0 : -1;
}

static int close_tls(void **state)
{
	tw_tls_free(tls);
	return 0;
}

static void open_pair(struct pair *p, bool tcp, bool crypt)
{
	enum tw_flow flow[2];
	int fd[2];

	pair_sockets(tcp, fd);
	for (int k = 0; k < 2; k++) {
		p->side[k] = crypt ? tw_stream_tls(&tw_heap_system, fd[k], tls, k == 0, "peer:1")
				   : tw_stream_plain(&tw_heap_system, fd[k]);
		assert_non_null(p->side[k]);
		assert_int_equal(tw_stream_fd(p->side[k]), fd[k]);
		assert_true(fcntl(fd[k], F_GETFL) & O_NONBLOCK);
	}
	pair_shake(p, flow);
	assert_int_equal(flow[0], TW_FLOW_OK);
	assert_int_equal(flow[1], TW_FLOW_OK);
}

static void bytes_arrive_intact_both_ways(void **state)
{
	for (unsigned i = 0; i < 4; i++) {
		struct pair p;

		open_pair(&p, i & 1, i & 2);
		for (unsigned seed = 0; seed < 3; seed++)
			pair_exchange(&p, seed ? 3000000 : 777, seed + 10 * i);
		pair_close(&p);
	}
}

static void nothing_moves_without_a_partner(void **state)
{
	for (unsigned i = 0; i < 4; i++) {
		char *much = calloc(1, 1 << 20), few[8];
		struct iovec out = { much, 1 << 20 }, in = { few, sizeof few };
		enum tw_flow flow = TW_FLOW_OK;
		struct pair p;
		size_t n = 0;

		open_pair(&p, i & 1, i & 2);
		assert_int_equal(tw_stream_read(p.side[0], &in, 1, &n), TW_FLOW_WAIT);
		assert_int_equal(tw_stream_wants(p.side[0]), EPOLLIN);
		assert_false(tw_stream_pending(p.side[0]));
		for (int k = 0; k < 10000 && flow == TW_FLOW_OK; k++)
			flow = tw_stream_write(p.side[0], &out, 1, &n);
		assert_int_equal(flow, TW_FLOW_WAIT);
		assert_int_equal(n, 0);
		assert_int_equal(tw_stream_wants(p.side[0]), EPOLLOUT);
		/* No room and no bytes are no end. */
		in.iov_len = out.iov_len = 0;
		assert_int_equal(tw_stream_read(p.side[1], &in, 1, &n), TW_FLOW_OK);
		assert_int_equal(tw_stream_write(p.side[1], &out, 1, &n), TW_FLOW_OK);
		assert_int_equal(tw_stream_read(p.side[1], &in, 0, &n), TW_FLOW_OK);
		pair_close(&p);
		free(much);
	}
}

static void what_is_read_ahead_is_pending(void **state)
{
	char text[100], one;
	struct iovec out = { text, sizeof text }, in = { &one, 1 };
	struct pair p;
	size_t n;

	memset(text, 'x', sizeof text);
	open_pair(&p, true, true);
	for (int i = 0; i < 3; i++)
		assert_int_equal(tw_stream_write(p.side[0], &out, 1, &n), TW_FLOW_OK);
	assert_int_equal(pair_hear(p.side[1], &n), TW_FLOW_OK);
	for (; n < 300; n++) {
		assert_true(tw_stream_pending(p.side[1]));
		assert_int_equal(tw_stream_read(p.side[1], &in, 1, &(size_t){ 0 }), TW_FLOW_OK);
	}
	assert_false(tw_stream_pending(p.side[1]));
	pair_close(&p);
}

static struct tcp_info info_of(const struct tw_stream *s)
{
	struct tcp_info i = { 0 };
	socklen_t len = sizeof i;

	assert_int_equal(getsockopt(tw_stream_fd(s), IPPROTO_TCP, TCP_INFO, &i, &len), 0);
	return i;
}

/* A segment on loopback has room for both records.  The last one is not held back: a cork opens
 * only after 200 ms. */
static void records_share_segments(void **state)
{
	enum { RECORDS = 2, BYTES = RECORDS * SSL3_RT_MAX_PLAIN_LENGTH, TIMES = 20 };
	char *much = calloc(1, BYTES), *back = malloc(BYTES);
	const struct iovec out = { much, BYTES }, in = { back, BYTES };
	uint32_t before;
	struct pair p;

	open_pair(&p, true, true);
	before = info_of(p.side[0]).tcpi_data_segs_out;
	for (int i = 0; i < TIMES; i++) {
		size_t n = 0, got = 0;

		assert_int_equal(tw_stream_write(p.side[0], &out, 1, &n), TW_FLOW_OK);
		assert_int_equal(n, BYTES);
		for (int k = 0; k < 1000 && got < BYTES; k++, usleep(100))
			if (tw_stream_read(p.side[1], &in, 1, &n) == TW_FLOW_OK)
				got += n;
		assert_int_equal(got, BYTES);
	}
	if (info_of(p.side[0]).tcpi_snd_mss > 2 * SSL3_RT_MAX_PLAIN_LENGTH)
		assert_in_range(info_of(p.side[0]).tcpi_data_segs_out - before, TIMES,
				TIMES + TIMES / 2);
	pair_close(&p);
	free(back);
	free(much);
}

static void a_clean_close_is_an_end(void **state)
{
	char text[] = "last words";
	const struct iovec out = { text, sizeof text };

	for (unsigned i = 0; i < 4; i++) {
		struct pair p;
		size_t n;

		open_pair(&p, i & 1, i & 2);
		assert_int_equal(tw_stream_write(p.side[0], &out, 1, &n), TW_FLOW_OK);
		tw_stream_close(p.side[0]);
		p.side[0] = NULL;
		assert_int_equal(pair_hear(p.side[1], &n), TW_FLOW_OK);
		assert_int_equal(n, sizeof text);
		assert_int_equal(pair_hear(p.side[1], &n), TW_FLOW_END);
		assert_int_equal(pair_hear(p.side[1], &n), TW_FLOW_END);
		pair_close(&p);
	}
}

/* Writes until it fails: SIGPIPE would end the test here. */
static void a_peer_that_is_gone_breaks_writing(void **state)
{
	char text[] = "is anybody there?";
	const struct iovec out = { text, sizeof text };

	for (unsigned i = 0; i < 4; i++) {
		enum tw_flow flow = TW_FLOW_OK;
		struct pair p;
		size_t n;

		open_pair(&p, i & 1, i & 2);
		tw_stream_close(p.side[0]);
		p.side[0] = NULL;
		for (int k = 0; k < 100 && flow == TW_FLOW_OK; k++)
			flow = tw_stream_write(p.side[1], &out, 1, &n);
		assert_int_equal(flow, TW_FLOW_BROKEN);
		assert_non_null(strstr(tw_stream_why(p.side[1]), "the connection broke"));
		assert_int_equal(tw_stream_write(p.side[1], &out, 1, &n), TW_FLOW_BROKEN);
		pair_close(&p);
	}
}

/* What a peer said before it left is not lost to a write that fails first. */
static void last_words_outlive_a_failed_write(void **state)
{
	char text[] = "denied";
	const struct iovec out = { text, sizeof text };

	for (unsigned i = 0; i < 4; i++) {
		enum tw_flow flow = TW_FLOW_OK;
		struct pair p;
		size_t n;

		open_pair(&p, i & 1, i & 2);
		assert_int_equal(tw_stream_write(p.side[0], &out, 1, &n), TW_FLOW_OK);
		tw_stream_close(p.side[0]);
		p.side[0] = NULL;
		for (int k = 0; k < 100 && flow == TW_FLOW_OK; k++)
			flow = tw_stream_write(p.side[1], &out, 1, &n);
		assert_int_equal(flow, TW_FLOW_BROKEN);
		assert_int_equal(pair_hear(p.side[1], &n), TW_FLOW_OK);
		assert_int_equal(n, sizeof text);
		pair_close(&p);
	}
}

static void a_cut_tls_connection_is_broken(void **state)
{
	struct pair p;
	size_t n;

	open_pair(&p, true, true);
	shutdown(tw_stream_fd(p.side[0]), SHUT_RDWR); /* as a process that is killed */
	assert_int_equal(pair_hear(p.side[1], &n), TW_FLOW_BROKEN);
	assert_string_equal(tw_stream_why(p.side[1]),
			    "it went away without closing the connection");
	pair_close(&p);
}

static void bytes_put_into_tls_are_noticed(void **state)
{
	static const char forged[] = "\x17\x03\x03\x00\x20 this is not what was agreed upon";
	struct pair p;
	size_t n;

	open_pair(&p, true, true);
	assert_true(send(tw_stream_fd(p.side[0]), forged, sizeof forged, 0) > 0);
	assert_int_equal(pair_hear(p.side[1], &n), TW_FLOW_BROKEN);
	assert_non_null(strstr(tw_stream_why(p.side[1]), "bad record mac"));
	pair_close(&p);
}

static void a_reset_is_broken(void **state)
{
	const struct linger none = { .l_onoff = 1 };

	for (unsigned i = 0; i < 2; i++) {
		struct pair p;
		size_t n;
		int fd;

		open_pair(&p, true, i);
		fd = tw_stream_fd(p.side[0]);
		assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none), 0);
		assert_true(dup2(open("/dev/null", O_RDWR), fd) == fd); /* closes, resets */
		assert_int_equal(pair_hear(p.side[1], &n), TW_FLOW_BROKEN);
		assert_non_null(strstr(tw_stream_why(p.side[1]), "Connection reset by peer"));
		pair_close(&p);
	}
}

static void count_key_updates(int sent, int version, int type, const void *bytes, size_t n,
			      SSL *ssl, void *arg)
{
	if (sent && type == SSL3_RT_HANDSHAKE && n && *(const uint8_t *)bytes == SSL3_MT_KEY_UPDATE)
		++*(unsigned *)arg;
}

/* With keys that wear out after three records the same bytes arrive. */
static void keys_are_renewed(void **state)
{
	const unsigned records = tls->records;
	unsigned updates = 0;
	struct pair p;

	tls->records = 3;
	SSL_CTX_set_msg_callback(tls->context, count_key_updates);
	SSL_CTX_set_msg_callback_arg(tls->context, &updates);
	open_pair(&p, true, true);
	pair_exchange(&p, 2000000, 5);
	pair_close(&p);
	tls->records = records;
	SSL_CTX_set_msg_callback(tls->context, NULL);
	assert_true(updates >= 2 * (2000000 / SSL3_RT_MAX_PLAIN_LENGTH / 3));
}

static void memory_is_refused(void **state)
{
	struct refusing r = REFUSING(1);

	r.onwards = true;
	for (unsigned i = 0; i < 2; i++) {
		struct tw_stream *s;
		int fd[2];

		pair_sockets(false, fd);
		s = i ? tw_stream_tls(&r.heap, fd[0], tls, true, "peer:1")
		      : tw_stream_plain(&r.heap, fd[0]);
		assert_null(s);
		assert_int_equal(fcntl(fd[0], F_GETFD), -1); /* it took the socket all the same */
		close(fd[1]);
	}
	assert_int_equal(r.live, 0);
	tw_stream_close(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_arrive_intact_both_ways),
		cmocka_unit_test(nothing_moves_without_a_partner),
		cmocka_unit_test(what_is_read_ahead_is_pending),
		cmocka_unit_test(records_share_segments),
		cmocka_unit_test(a_clean_close_is_an_end),
		cmocka_unit_test(a_peer_that_is_gone_breaks_writing),
		cmocka_unit_test(last_words_outlive_a_failed_write),
		cmocka_unit_test(a_cut_tls_connection_is_broken),
		cmocka_unit_test(bytes_put_into_tls_are_noticed),
		cmocka_unit_test(a_reset_is_broken),
		cmocka_unit_test(keys_are_renewed),
		cmocka_unit_test(memory_is_refused),
	};

	return cmocka_run_group_tests(tests, open_tls, close_tls);
}
