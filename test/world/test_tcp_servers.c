/* SPDX-License-Identifier: Apache-2.0 */
/* test_tcp_servers.c - further servers: whom workers dial, and whom a server's shards hear. */
/* labels: threads waits */
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

/* For a master and two servers; who says nothing here is no less there. */
static void open_serve(struct party *p, struct tw_heap *heap,
		       void (*message)(struct tw_actor *, struct tw_context *, struct tw_msg *))
{
	party_serve(p, heap);
	p->o.servers = 2;
	p->o.limit = 30 * TW_SECOND;
	p->o.suspect = 30 * TW_SECOND;
	p->master.fake.message = message;
	party_run(p);
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
	struct tw_msg bye = raw_says(TW_LEAVING, TW_SERVER, the_master());
	uint16_t first, second;
	const int door = raw_listen(&first), other_door = raw_listen(&second);
	unsigned before;
	int server, watch;

	open_serve(&serve, &heap.heap, ends_at_done);
	server = server_joins(party_port(&serve), first);
	party_worker(&worker, &other.heap, party_port(&serve));
	party_run(&worker);
	watch = worker_joins(party_port(&serve), 77, &terms);
	assert_int_equal(told(watch), LISTED);
	assert_true(knocks(door, 10000)); /* and again, while it is listed */
	assert_true(knocks(door, 10000));
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
	raw_end(watch);
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
	assert_true(party_says(&serve, "lost the connection to server 1"));
	/* it may come back within two seconds */
	watch = worker_joins(party_port(&serve), 77, &terms);
	assert_int_equal(told(watch), LISTED);
	assert_int_equal(told(watch), 0);
	/* who comes now is told so, too */
	server = worker_joins(party_port(&serve), 78, &terms);
	assert_int_equal(told(server), 0);
	close(server);
	raw_end(watch);
	party_close(&serve);
}

/* --- who is heard ----------------------------------------------------------------------------- */

/* The master of this test takes a worker's word for its slot, when it says IDLE. */
static void names(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	struct tw_msg *view;
	struct tw_member *one;

	ends_at_done(a, ctx, m);
	if (m->h.type != TW_IDLE)
		return;
	view = tw_msg_to(ctx, fake_addr(2, TW_SHARD, 0), TW_VIEW);
	one = view ? tw_msg_tail(ctx, view, sizeof *one) : NULL;
	if (!one)
		return;
	*one = (struct tw_member){ m->h.from, m->h.incarnation, TW_LIVE, m->from.node };
	tw_send(ctx, view);
}

static void remembers(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	struct witness *w = witness_of(a);

	if (m->h.type == TW_VIEW) {
		witness_says(w, "VIEW\n");
		tw_members(ctx, (const void *)m->tail->data, 1);
	} else {
		witness_says(w, "%u.%u of %u\n", m->h.from, m->h.incarnation, m->from.node);
	}
	w->count++;
}

static void await_count(struct witness *w, uint64_t least)
{
	for (int k = 0; k < 10000 && w->count < least; k++)
		nanosleep(&(struct timespec){ .tv_nsec = MS }, NULL);
	assert_true(w->count >= least);
}

static int dials_server(const struct party *server, const struct tw_body_terms *mine,
			const uint8_t ticket[TW_TICKET])
{
	struct tw_body_terms terms;

	return greets(party_port(server), raw_greet_as(mine, ticket), &terms);
}

static void says(int fd, enum tw_type type, struct tw_addr to, uint32_t slot, uint32_t incarnation)
{
	struct tw_msg m = raw_says(type, TW_WORKER, to);

	m.h.from = slot;
	m.h.incarnation = incarnation;
	assert_true(raw_send(fd, &m));
}

static void only_the_master_gives_a_slot(void **state)
{
	const struct tw_addr shard = fake_addr(2, TW_SHARD, 0);
	struct refusing heap = REFUSING(0);
	struct tw_body_terms one, two;
	struct party serve, server;
	char news[200];
	uint8_t first[TW_TICKET], second[TW_TICKET];
	int master, other, good, bad, worse;

	open_serve(&serve, NULL, names);
	party_server(&server, &heap.heap, party_port(&serve));
	server.shard.fake = (struct fake){ .message = remembers };
	party_run(&server);
	master = worker_joins(party_port(&serve), 77, &one);
	other = worker_joins(party_port(&serve), 78, &two);
	raw_ticket(master, 2, first);
	raw_ticket(other, 2, second);
	/* what is said before the view is not lost, and not heard before it */
	good = dials_server(&server, &one, first);
	says(good, TW_PULL, shard, 40, 5);
	nanosleep(&(struct timespec){ .tv_nsec = 200 * MS }, NULL);
	assert_int_equal(server.shard.count, 0);
	says(master, TW_IDLE, the_master(), 40, 5);
	await_count(&server.shard, 2);
	/* one that speaks for it, and one that says to be newer */
	bad = dials_server(&server, &two, second);
	says(bad, TW_PULL, shard, 40, 5);
	assert_true(party_says(&server, "PULL as worker 40 is ignored: it comes from new worker"));
	says(bad, TW_PULL, shard, 40, 6);
	says(good, TW_PULL, shard, 40, 5);
	await_count(&server.shard, 3);
	assert_true(raw_closed(bad));
	assert_true(party_said(&server, "PULL as worker 40 is ignored: the master has not"));
	close(bad);
	/* one that goes while it waits */
	worse = dials_server(&server, &two, second);
	says(worse, TW_PULL, shard, 41, 1);
	close(worse);
	/* who was removed is to hear it from the shard */
	says(good, TW_PULL, shard, 40, 4);
	await_count(&server.shard, 4);
	close(good);
	close(other);
	raw_end(master);
	party_join(&server);
	party_close(&server);
	party_close(&serve);
	snprintf(news, sizeof news, "VIEW\n40.5 of %u\n40.5 of %u\n40.4 of %u\n", one.node,
		 one.node, one.node);
	assert_string_equal(server.shard.events, news);
	assert_int_equal(heap.live, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_left_is_not_dialled),
		cmocka_unit_test(who_is_away_is_dialled),
		cmocka_unit_test(only_the_master_gives_a_slot),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
