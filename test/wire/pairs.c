/* SPDX-License-Identifier: Apache-2.0 */
/* pairs.c - two streams that talk with each other in one thread. */
#include "wire/pairs.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#define PARTS  5
#define ROUNDS 2000000 /* whatever hangs ends here */

static uint64_t draw(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return *state >> 24;
}

void pair_sockets(bool tcp, int fd[2])
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t n = sizeof a;
	int listener;

	if (!tcp) {
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
		return;
	}
	listener = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&a, n), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&a, &n), 0);
	fd[0] = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(connect(fd[0], (struct sockaddr *)&a, n), 0);
	fd[1] = accept(listener, NULL, NULL);
	assert_true(fd[1] >= 0);
	close(listener);
}

void pair_shake(struct pair *p, enum tw_flow flow[2])
{
	flow[0] = flow[1] = TW_FLOW_WAIT;
	for (int i = 0; i < 1000 && (flow[0] == TW_FLOW_WAIT || flow[1] == TW_FLOW_WAIT); i++)
		for (int k = 0; k < 2; k++) {
			struct pollfd q = { .fd = tw_stream_fd(p->side[k]),
					    .events = (short)tw_stream_wants(p->side[k]) };

			if (flow[k] != TW_FLOW_WAIT)
				continue;
			poll(&q, 1, 1);
			flow[k] = tw_stream_shake(p->side[k]);
		}
}

/* One direction of an exchange. */
struct way {
	const uint8_t *from;
	uint8_t *to;
	size_t n, put, got;
};

/* Up to PARTS parts of random sizes, mostly small, from `at` on. */
static int cut(uint64_t *state, const uint8_t *at, size_t n, struct iovec part[PARTS])
{
	int parts = 0;

	while (parts < PARTS && n) {
		const uint64_t r = draw(state);
		size_t some = r % 3 == 0 ? r / 3 % 100000 : r / 3 % 200;

		some = some < n ? some : n;
		part[parts++] = (struct iovec){ (void *)(uintptr_t)at, some };
		at += some;
		n -= some;
	}
	return parts;
}

static void put_some(struct tw_stream *s, struct way *w, uint64_t *state)
{
	struct iovec part[PARTS + 1];
	size_t put;
	int parts = cut(state, w->from + w->put, w->n - w->put, part);
	enum tw_flow flow;

	/* After WAIT the same bytes must be there again: end with all that is left. */
	if (parts) {
		const uint8_t *end = (uint8_t *)part[parts - 1].iov_base + part[parts - 1].iov_len;

		part[parts++] =
			(struct iovec){ (void *)(uintptr_t)end, (size_t)(w->from + w->n - end) };
	}
	flow = tw_stream_write(s, part, parts, &put);
	assert_true(flow == TW_FLOW_OK || flow == TW_FLOW_WAIT);
	assert_true(flow == TW_FLOW_OK || put == 0);
	w->put += put;
}

static void get_some(struct tw_stream *s, struct way *w, uint64_t *state)
{
	struct iovec part[PARTS];
	size_t got;
	const int parts = cut(state, w->to + w->got, w->n - w->got, part);
	const enum tw_flow flow = tw_stream_read(s, part, parts, &got);

	assert_true(flow == TW_FLOW_OK || flow == TW_FLOW_WAIT);
	if (flow == TW_FLOW_WAIT)
		assert_false(tw_stream_pending(s)); /* or a loop on it would spin */
	w->got += got;
}

void pair_exchange(struct pair *p, size_t n, unsigned seed)
{
	uint64_t state = seed;
	struct way way[2];

	for (int k = 0; k < 2; k++) {
		uint8_t *bytes = malloc(n);

		for (size_t i = 0; i < n; i++)
			bytes[i] = (uint8_t)draw(&state);
		way[k] = (struct way){ .from = bytes, .to = calloc(n, 1), .n = n };
	}
	for (int i = 0; i < ROUNDS && (way[0].got < n || way[1].got < n); i++)
		for (int k = 0; k < 2; k++) {
			put_some(p->side[k], &way[k], &state);
			get_some(p->side[!k], &way[k], &state);
		}
	for (int k = 0; k < 2; k++) {
		assert_int_equal(way[k].got, n);
		assert_memory_equal(way[k].from, way[k].to, n);
		free((void *)(uintptr_t)way[k].from);
		free(way[k].to);
	}
}

enum tw_flow pair_hear(struct tw_stream *s, size_t *got)
{
	char text[16];
	const struct iovec part = { text, sizeof text };
	enum tw_flow flow = TW_FLOW_WAIT;

	for (int i = 0; i < 100 && flow == TW_FLOW_WAIT; i++) {
		struct pollfd q = { .fd = tw_stream_fd(s), .events = POLLIN };

		poll(&q, 1, 10);
		flow = tw_stream_read(s, &part, 1, got);
	}
	return flow;
}

void pair_close(struct pair *p)
{
	tw_stream_close(p->side[0]);
	tw_stream_close(p->side[1]);
}
