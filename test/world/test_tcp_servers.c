/* SPDX-License-Identifier: Apache-2.0 */
/* test_tcp_servers.c - further servers: whom workers dial. */
/* labels: threads */
#include "base/refusing.h"
#include "world/tcp_kit.h"

#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#define LISTED sizeof(struct tw_peer_place)

static struct tw_addr the_master(void)
{
	return fake_addr(0, TW_MASTER, 0);
}

static void ends_at_done(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	if (m->h.type == TW_DONE)
		fake_finish(ctx);
}

static void open_party(struct party *p)
{
	struct tw_error why = { 0 };

	if (party_open(p, &why) != TW_OK)
		fail_msg("%s", why.text);
	party_start(p);
}

/* For a master and two servers; who says nothing here is no less there. */
static void open_serve(struct party *p, struct tw_heap *heap,
		       void (*message)(struct tw_actor *, struct tw_context *, struct tw_msg *))
{
	party_serve(p, heap);
	p->o.servers = 2;
	p->o.limit = 30 * TW_SECOND;
	p->o.suspect = 30 * TW_SECOND;
	p->master.fake.message = message;
	open_party(p);
}

static int greets(uint16_t port, struct tw_msg m, struct tw_body_terms *terms)
{
	const int fd = raw_dial(port);

	assert_true(raw_send(fd, &m));
	assert_true(raw_read(fd, &m));
	assert_int_equal(m.h.type, TW_TERMS);
	*terms = m.b.terms;
	return fd;
}

static int worker_joins(uint16_t port, uint64_t process, struct tw_body_terms *terms)
{
	struct tw_msg m = raw_greet();

	m.b.greet.process = process;
	return greets(port, m, terms);
}

static int server_joins(uint16_t port, uint16_t listens_at)
{
	struct tw_body_terms terms;
	struct tw_msg m = raw_greet();
	int fd;

	m.b.greet.role = TW_SERVER;
	m.b.greet.port = listens_at;
	fd = greets(port, m, &terms);
	assert_int_equal(terms.node, 2);
	return fd;
}

/* The bytes of the next PEERS' tail. */
static uint32_t told(int fd)
{
	struct tw_msg m;
	uint32_t tail;

	assert_true(raw_read(fd, &m));
	assert_int_equal(m.h.type, TW_PEERS);
	tail = m.h.tail;
	raw_drop(&m);
	return tail;
}

/* Somebody dials within that time; it is not let in. */
static bool knocks(int listener, int ms)
{
	struct pollfd f = { listener, POLLIN, 0 };

	if (poll(&f, 1, ms) <= 0)
		return false;
	close(accept(listener, NULL, NULL));
	return true;
}

static void end(int fd)
{
	struct tw_msg m = raw_says(TW_DONE, TW_WORKER, the_master());

	assert_true(raw_send(fd, &m));
	do
		assert_true(raw_read(fd, &m));
	while (m.h.type == TW_PEERS && (raw_drop(&m), true));
	assert_int_equal(m.h.type, TW_OVER);
	raw_drop(&m);
	close(fd);
}

/* --- who is dialled --------------------------------------------------------------------------- */

static unsigned complaints(struct party *p)
{
	unsigned count = 0;

	pthread_mutex_lock(&p->lock);
	for (const char *at = p->lines; (at = strstr(at, "cannot reach the server 2")); at++)
		count++;
	pthread_mutex_unlock(&p->lock);
	return count;
}

static void who_left_is_not_dialled(void **state)
{
	struct refusing heap = REFUSING(0), other = REFUSING(0);
	struct party serve, worker;
	struct tw_body_terms terms;
	struct tw_msg bye = raw_says(TW_BYE, TW_SERVER, the_master());
	uint16_t first, second;
	const int door = raw_listen(&first), other_door = raw_listen(&second);
	unsigned before;
	int server, watch;

	open_serve(&serve, &heap.heap, ends_at_done);
	server = server_joins(party_port(&serve), first);
	party_worker(&worker, &other.heap, party_port(&serve));
	open_party(&worker);
	watch = worker_joins(party_port(&serve), 77, &terms);
	assert_int_equal(told(watch), LISTED);
	assert_true(knocks(door, 10000)); /* and again, while it is listed */
	assert_true(knocks(door, 10000));
	bye.h.flags = TW_FLAG_LEAVE;
	assert_true(raw_send(server, &bye));
	close(server);
	assert_int_equal(told(watch), 0);
	while (knocks(door, 500)) /* the worker was told in the same turn, or is just now */
		;
	before = complaints(&worker);
	assert_false(knocks(door, 2000)); /* its pauses were shorter */
	assert_int_equal(complaints(&worker), before);
	/* another process in its place, at another address */
	server = server_joins(party_port(&serve), second);
	assert_int_equal(told(watch), LISTED);
	assert_true(knocks(other_door, 10000));
	assert_false(knocks(door, 0));
	end(watch);
	close(server);
	party_close(&worker);
	party_close(&serve);
	close(door);
	close(other_door);
	assert_int_equal(heap.live, 0);
	assert_int_equal(other.live, 0);
}

static void who_is_away_is_dialled(void **state)
{
	struct tw_body_terms terms;
	struct party serve;
	int server, watch;

	open_serve(&serve, NULL, ends_at_done);
	server = server_joins(party_port(&serve), 9);
	close(server);
	assert_true(party_says(&serve, "lost the connection to server 2"));
	/* it may come back within two seconds */
	watch = worker_joins(party_port(&serve), 77, &terms);
	assert_int_equal(told(watch), LISTED);
	assert_int_equal(told(watch), 0);
	assert_true(party_said(&serve, "server 2 on 127.0.0.1 is given up"));
	/* who comes now is told so, too */
	server = worker_joins(party_port(&serve), 78, &terms);
	assert_int_equal(told(server), 0);
	close(server);
	end(watch);
	party_close(&serve);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_left_is_not_dialled),
		cmocka_unit_test(who_is_away_is_dialled),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
