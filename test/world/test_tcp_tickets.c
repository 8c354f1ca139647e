/* SPDX-License-Identifier: Apache-2.0 */
/* test_tcp_tickets.c - nobody speaks for another: what a dialler shows, and to whom it is good. */
/* labels: threads waits */
#include "world/tcp_kit.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#define WORKER_NODE 50u
#define EARLY       300 /* more than may wait */

/* --- a master by hand, so that a test decides when it says what ------------------------------- */

struct hand {
	int listener, fd;
	uint32_t boot;
	struct party server; /* node 2 */
	pthread_t opener;
};

static void *open_server(void *arg)
{
	party_run(arg);
	return NULL;
}

/* Take the server's connection and give it its node, as the master with this boot. */
static void hand_takes(struct hand *h, uint32_t boot)
{
	struct tw_msg m;

	h->boot = boot;
	do { /* it may have given up waiting for an earlier one */
		h->fd = accept(h->listener, NULL, NULL);
		assert_true(h->fd >= 0);
	} while (!raw_read(h->fd, &m) && close(h->fd) == 0);
	assert_int_equal(m.h.type, TW_GREET);
	m.h.type = TW_TERMS;
	m.b.terms = (struct tw_body_terms){ .node = 2,
					    .boot = 7 << 16 | 1,
					    .own = 1,
					    .own_boot = boot,
					    .master = boot,
					    .servers = 2,
					    .run = 99,
					    .every = TW_SECOND,
					    .suspect = 60 * TW_SECOND,
					    .limit = 60 * TW_SECOND };
	assert_true(raw_send(h->fd, &m));
}

static void hand_start(struct hand *h)
{
	uint16_t port;

	h->listener = raw_listen(&port);
	party_server(&h->server, NULL, port);
	h->server.o.patience = 60 * TW_SECOND;
	assert_int_equal(pthread_create(&h->opener, NULL, open_server, &h->server), 0);
	hand_takes(h, 7);
	pthread_join(h->opener, NULL);
}

static void hand_end(struct hand *h)
{
	struct tw_msg m = raw_says(TW_OVER, TW_MASTER, fake_addr(2, TW_SERVER, 0));

	assert_true(raw_send(h->fd, &m));
	party_close(&h->server);
	close(h->fd);
	close(h->listener);
}

static void hand_tells(struct hand *h, bool anew, const struct tw_ticket *row, size_t rows)
{
	struct tw_msg m = raw_says(TW_TICKETS, TW_MASTER, fake_addr(2, TW_SERVER, 0));

	m.b.tickets.anew = anew;
	m.h.tail = (uint32_t)(rows * sizeof *row);
	m.tail = tw_block_new(&tw_heap_system, m.h.tail + 1);
	assert_non_null(m.tail);
	if (rows)
		memcpy(m.tail->data, row, m.h.tail);
	assert_true(raw_send(h->fd, &m));
	raw_drop(&m);
}

static struct tw_ticket ticket_of(uint32_t node, uint32_t boot)
{
	struct tw_ticket row = { .node = node, .boot = boot, .role = TW_WORKER };

	for (unsigned k = 0; k < TW_TICKET; k++)
		row.ticket[k] = (uint8_t)(node * 7 + boot * 3 + k);
	return row;
}

/* A worker dials, and shows what the row says. */
static int dials(const struct party *server, const struct tw_ticket *row)
{
	const struct tw_body_terms mine = { .node = row->node, .boot = row->boot, .run = 99 };
	const struct tw_msg m = raw_greet_as(&mine, row->ticket);
	const int fd = raw_dial(party_port(server));

	assert_true(fd >= 0);
	assert_true(raw_send(fd, &m));
	return fd;
}

static bool answers(int fd, int ms)
{
	struct pollfd f = { fd, POLLIN, 0 };

	return poll(&f, 1, ms) > 0;
}

/* TERMS: 0; else the reason of the DENY; *wait: what it says of asking again. */
static uint32_t answer(int fd, uint32_t *wait)
{
	struct tw_msg m;
	uint32_t why = 0;

	assert_true(raw_read(fd, &m));
	if (m.h.type == TW_DENY) {
		why = m.b.deny.why;
		if (wait)
			*wait = m.b.deny.wait;
	} else {
		assert_int_equal(m.h.type, TW_TERMS);
	}
	raw_drop(&m);
	close(fd);
	return why;
}

/* What the master said so far has been heard when who is named after it is let in. */
static void hand_is_heard(struct hand *h)
{
	const struct tw_ticket last = ticket_of(900, 1);

	hand_tells(h, false, &last, 1);
	assert_int_equal(answer(dials(&h->server, &last), NULL), 0);
}

static uint32_t tries(struct hand *h, const struct tw_ticket *row)
{
	return answer(dials(&h->server, row), NULL);
}

/* --- tests ------------------------------------------------------------------------------------ */

static void a_ticket_outlives_its_master(void **state)
{
	struct tw_ticket row = ticket_of(WORKER_NODE, 1), wrong = row, next = ticket_of(60, 1);
	uint32_t wait = 0;
	struct hand h;

	hand_start(&h);
	hand_tells(&h, true, &row, 1);
	assert_int_equal(tries(&h, &row), 0); /* at once, or when the master is heard */
	wrong.ticket[0] ^= 1;
	assert_int_equal(tries(&h, &wrong), TW_DENY_RUN);
	/* the master is away */
	close(h.fd);
	assert_true(party_says(&h.server, "lost the connection to the master"));
	assert_int_equal(tries(&h, &row), 0);
	assert_int_equal(tries(&h, &wrong), TW_DENY_RUN);
	/* another comes, and has not heard of that worker yet */
	hand_takes(&h, 8);
	hand_tells(&h, true, NULL, 0);
	hand_tells(&h, false, &next, 1);
	assert_int_equal(tries(&h, &next), 0); /* it is heard */
	assert_int_equal(tries(&h, &row), 0);
	/* what it said itself it can take back, all or one */
	hand_tells(&h, true, NULL, 0);
	row.gone = 1;
	hand_tells(&h, false, &row, 1);
	row.gone = 0;
	hand_is_heard(&h);
	assert_int_equal(answer(dials(&h.server, &next), &wait), TW_DENY_BUSY);
	assert_true(wait > 0);
	assert_int_equal(answer(dials(&h.server, &row), &wait), TW_DENY_BUSY);
	assert_true(wait > 0);
	assert_true(party_said(&h.server, "the master has not announced node 50"));
	hand_end(&h);
}

static void who_comes_early_is_held(void **state)
{
	const struct tw_ticket row = ticket_of(WORKER_NODE, 1);
	struct hand h;
	int fd;

	hand_start(&h);
	fd = dials(&h.server, &row);
	assert_false(answers(fd, 300));
	hand_tells(&h, false, &row, 1);
	assert_int_equal(answer(fd, NULL), 0);
	hand_end(&h);
}

static void a_new_life_voids_the_ticket(void **state)
{
	struct tw_ticket first = ticket_of(WORKER_NODE, 1), second = ticket_of(WORKER_NODE, 2);
	struct hand h;
	int fd;

	hand_start(&h);
	hand_tells(&h, false, &first, 1);
	assert_int_equal(tries(&h, &first), 0);
	fd = dials(&h.server, &second); /* before it was named: held, not refused */
	assert_false(answers(fd, 200));
	hand_tells(&h, false, &second, 1);
	assert_int_equal(answer(fd, NULL), 0);
	assert_int_equal(tries(&h, &first), TW_DENY_RUN);
	hand_tells(&h, false, &first, 1); /* late news */
	first.gone = 1;
	hand_tells(&h, false, &first, 1);
	hand_is_heard(&h);
	assert_int_equal(tries(&h, &second), 0);
	hand_end(&h);
}

/* Strangers hold no more connections than those that say nothing, and nobody honest back. */
static void those_who_wait_are_bounded(void **state)
{
	const struct tw_ticket row = ticket_of(WORKER_NODE, 1);
	unsigned held = 0;
	int fd[EARLY];
	struct hand h;

	hand_start(&h);
	for (uint32_t k = 0; k < EARLY; k++) {
		const struct tw_ticket stranger = ticket_of(1000 + k, 1);

		fd[k] = dials(&h.server, &stranger);
	}
	assert_true(party_says(&h.server, "too many connections have not greeted yet"));
	hand_tells(&h, false, &row, 1);
	assert_int_equal(tries(&h, &row), 0);
	for (uint32_t k = 0; k < EARLY - 256; k++) /* the oldest make room */
		assert_true(answers(fd[k], 10000));
	for (uint32_t k = EARLY - 200; k < EARLY; k++)
		held += !answers(fd[k], 0);
	assert_int_equal(held, 200);
	for (uint32_t k = 0; k < EARLY; k++)
		close(fd[k]);
	hand_end(&h);
}

/* --- a server that lies ----------------------------------------------------------------------- */

/* For a master and two more servers; the first of those is honest. */
static void open_serve(struct party *p)
{
	party_serve(p, NULL);
	p->o.servers = 3;
	p->o.limit = p->o.suspect = 60 * TW_SECOND;
	p->master.fake.message = ends_at_done;
	party_run(p);
}

static int joins(uint16_t port, uint32_t role, uint64_t process, struct tw_body_terms *terms)
{
	struct tw_msg m = raw_greet(), got;

	m.b.greet.role = role;
	m.b.greet.process = process;
	m.b.greet.port = role == TW_SERVER ? 9 : 0;
	for (;;) {
		const int fd = raw_dial(port);

		assert_true(raw_send(fd, &m));
		assert_true(raw_read(fd, &got));
		if (got.h.type == TW_TERMS) {
			*terms = got.b.terms;
			return fd;
		}
		assert_true(got.b.deny.wait > 0); /* the one before it may still come back */
		raw_drop(&got);
		close(fd);
		usleep(200 * 1000);
	}
}

/* All that it is told within half a second. */
static size_t hears(int fd, uint8_t *out, size_t room)
{
	size_t heard = 0;

	while (heard < room && answers(fd, 500)) {
		const ssize_t got = recv(fd, out + heard, room - heard, 0);

		assert_true(got > 0);
		heard += (size_t)got;
	}
	return heard;
}

/* Where a GREET has its proof, whatever that is. */
#define PROOF_AT    (offsetof(struct tw_body_greet, run) + sizeof(uint64_t))
#define PROOF_BYTES (offsetof(struct tw_body_greet, job) - PROOF_AT)

static bool is_let_in(uint16_t port, const struct tw_body_terms *as, const uint8_t *proof)
{
	struct tw_msg m = raw_greet();
	const int fd = raw_dial(port);
	bool in;

	m.b.greet.node = as->node;
	m.b.greet.boot = as->boot;
	m.b.greet.run = as->run;
	memcpy((uint8_t *)&m.b.greet + PROOF_AT, proof, PROOF_BYTES);
	assert_true(raw_send(fd, &m));
	assert_true(raw_read(fd, &m));
	in = m.h.type == TW_TERMS;
	raw_drop(&m);
	close(fd);
	return in;
}

/* With every 16 bytes that the server was told: as the proof, and as a key that makes proofs. */
static bool forges(uint16_t port, const struct tw_body_terms *victim, const uint8_t *told,
		   size_t bytes)
{
	const uint32_t what[2] = { victim->node, victim->boot };

	for (size_t k = 0; k + 16 <= bytes; k++) {
		uint8_t mac[EVP_MAX_MD_SIZE];
		unsigned len;

		HMAC(EVP_sha256(), told + k, 16, (const uint8_t *)what, sizeof what, mac, &len);
		if (is_let_in(port, victim, told + k) || is_let_in(port, victim, mac))
			return true;
	}
	return false;
}

static void a_server_cannot_speak_for_a_worker(void **state)
{
	struct tw_body_terms worker, liar;
	uint8_t told[4096];
	struct party serve, honest;
	size_t bytes = sizeof liar;
	int master, bad;

	open_serve(&serve);
	party_server(&honest, NULL, party_port(&serve));
	party_run(&honest);
	assert_int_equal(tw_tcp_node(honest.t), 2);
	bad = joins(party_port(&serve), TW_SERVER, 66, &liar);
	assert_int_equal(liar.node, 3);
	master = joins(party_port(&serve), TW_WORKER, 77, &worker);
	memcpy(told, &liar, sizeof liar);
	bytes += hears(bad, told + bytes, sizeof told - bytes);
	assert_true(bytes > sizeof liar);
	/* what the worker has shown at the server that lies is among that */
	assert_false(forges(party_port(&honest), &worker, told, bytes));
	assert_false(forges(party_port(&serve), &worker, told, bytes));
	close(bad);
	raw_end(master);
	party_close(&honest);
	party_close(&serve);
}

/* The row of this worker in the next TICKETS that a server reads. */
static struct tw_ticket row_of(int fd, uint32_t node)
{
	struct tw_ticket row = { 0 };

	while (!row.node) {
		struct tw_msg m;

		assert_true(raw_read(fd, &m));
		for (size_t k = 0; m.h.type == TW_TICKETS && k < m.h.tail / sizeof row; k++)
			if (((const struct tw_ticket *)m.tail->data)[k].node == node)
				row = ((const struct tw_ticket *)m.tail->data)[k];
		raw_drop(&m);
	}
	return row;
}

static bool same(const void *a, const void *b)
{
	return memcmp(a, b, TW_TICKET) == 0;
}

/* Each pair of lives has a ticket of its own, which both ends are told, and nobody else. */
static void every_pair_has_its_own(void **state)
{
	struct tw_body_terms one, two, old, next, other;
	struct tw_msg bye = raw_says(TW_LEAVING, TW_SERVER, fake_addr(0, TW_MASTER, 0));
	uint8_t first[TW_TICKET], second[TW_TICKET], third[TW_TICKET], mine[TW_TICKET];
	struct tw_ticket row;
	struct party serve;
	int w1, w2, s2, s3;

	open_serve(&serve);
	s2 = joins(party_port(&serve), TW_SERVER, 1, &old);
	w1 = joins(party_port(&serve), TW_WORKER, 77, &one);
	raw_ticket(w1, 2, first);
	row = row_of(s2, one.node);
	assert_true(same(row.ticket, first));
	assert_false(row.gone);
	s3 = joins(party_port(&serve), TW_SERVER, 2, &other); /* it hears of who is there */
	assert_int_equal(other.node, 3);
	raw_ticket(w1, 3, second);
	assert_true(same(row_of(s3, one.node).ticket, second));
	assert_false(same(first, second));
	assert_false(same(first, one.ticket));
	w2 = joins(party_port(&serve), TW_WORKER, 78, &two);
	raw_ticket(w2, 2, mine);
	assert_true(same(row_of(s2, two.node).ticket, mine));
	assert_false(same(first, mine));
	/* a server in the place of another */
	assert_true(raw_send(s2, &bye));
	close(s2);
	do {
		struct tw_msg m;

		assert_true(raw_read(w1, &m)); /* without it */
		assert_int_equal(m.h.type, TW_PEERS);
		next.node = m.h.tail;
		raw_drop(&m);
	} while (next.node != sizeof(struct tw_peer_place));
	s2 = joins(party_port(&serve), TW_SERVER, 3, &next);
	assert_int_equal(next.node, 2);
	assert_int_not_equal(next.boot, old.boot);
	raw_ticket(w1, 2, third);
	assert_false(same(first, third));
	assert_true(same(row_of(s2, one.node).ticket, third));
	/* who leaves is not let in any more */
	close(w2);
	row = row_of(s3, two.node); /* when it came */
	assert_false(row.gone);
	row = row_of(s3, two.node);
	assert_true(row.gone);
	close(s2);
	close(s3);
	raw_end(w1);
	party_close(&serve);
}

/* A worker shows it to whoever listens where the master says: the listener is not asked for one.
 * With what it shows nobody becomes that worker at the master. */
static void a_ticket_is_shown_to_who_listens(void **state)
{
	struct party serve, worker;
	struct tw_msg m = raw_greet();
	struct tw_body_terms liar;
	uint16_t port;
	const int door = raw_listen(&port);
	struct tw_ticket row;
	int server, fd;

	open_serve(&serve);
	server = raw_dial(party_port(&serve));
	m.b.greet.role = TW_SERVER;
	m.b.greet.port = port;
	assert_true(raw_send(server, &m));
	party_worker(&worker, NULL, party_port(&serve));
	party_run(&worker);
	fd = accept(door, NULL, NULL);
	assert_true(raw_read(fd, &m));
	assert_int_equal(m.h.type, TW_GREET);
	row = row_of(server, m.b.greet.node);
	assert_true(same(row.ticket, m.b.greet.ticket));
	close(fd);
	fd = joins(party_port(&serve), TW_WORKER, m.b.greet.process, &liar);
	assert_int_not_equal(liar.node, row.node);
	close(fd);
	close(door);
	close(server);
	fd = joins(party_port(&serve), TW_WORKER, 99, &(struct tw_body_terms){ 0 });
	raw_end(fd);
	party_close(&worker);
	party_close(&serve);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_ticket_outlives_its_master),
		cmocka_unit_test(who_comes_early_is_held),
		cmocka_unit_test(a_new_life_voids_the_ticket),
		cmocka_unit_test(those_who_wait_are_bounded),
		cmocka_unit_test(a_server_cannot_speak_for_a_worker),
		cmocka_unit_test(every_pair_has_its_own),
		cmocka_unit_test(a_ticket_is_shown_to_who_listens),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
