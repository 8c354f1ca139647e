/* SPDX-License-Identifier: Apache-2.0 */
/* test_tcp_peers.c - workers without servers: every two of them are connected, come what may. */
/* labels: threads waits */
#include "base/refusing.h"
#include "wire/frame_hash.h"
#include "wire/tls.h"
#include "world/tcp_kit.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#define PEERS    4
#define MESSAGES 12
#define PIECE    (1u << 20) /* four frames */

static void nap(int ms)
{
	nanosleep(&(struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * MS }, NULL);
}

/* --- everybody tells everybody the same number of things -------------------------------------- */

#define NODES 16 /* nodes are told apart by their remainder */

/* What a shard has from the others, and of them; a test may look at the news at any time. */
struct scene {
	uint64_t from[NODES], have, want;
	bool told, cut; /* cut: connections are cut in this test */
	_Atomic unsigned ups[NODES], downs[NODES];
};

static void sees_up(struct tw_actor *a, struct tw_context *ctx, uint32_t node, uint32_t boot)
{
	struct scene *s = witness_of(a)->scene;

	witness_of(a)->wrong += node && boot != 1;
	s->ups[node % NODES]++;
}

static void sees_down(struct tw_actor *a, struct tw_context *ctx, uint32_t node)
{
	struct scene *s = witness_of(a)->scene;

	s->downs[node % NODES]++;
}

static uint32_t length_of(uint64_t seq)
{
	return seq % 4 == 0 ? PIECE : (uint32_t)(seq % 3 * 1000);
}

static uint8_t byte_of(uint32_t node, uint64_t seq, uint32_t k)
{
	return (uint8_t)(node * 31 + seq * 7 + k / 1000);
}

static void tell(struct tw_context *ctx, uint32_t node, uint64_t seq)
{
	struct tw_msg *m = tw_msg_to(ctx, fake_addr(node, TW_SHARD, 0), TW_REDUCE);

	if (!m)
		return;
	m->h.seq = seq;
	m->h.payload = length_of(seq);
	m->h.from = 1234; /* whatever is claimed here: the connection says who it is */
	m->payload = tw_block_new(ctx->heap, m->h.payload + 1);
	if (!m->payload) {
		ctx->world->msg_free(ctx, m);
		return;
	}
	for (uint32_t k = 0; k < m->h.payload; k++)
		m->payload->data[k] = byte_of(ctx->self.node, seq, k);
	tw_send(ctx, m);
}

static bool intact(const struct tw_msg *m)
{
	if (m->h.payload != length_of(m->h.seq))
		return false;
	for (uint32_t k = 0; k < m->h.payload; k++)
		if (tw_msg_payload(m)[k] != byte_of(m->from.node, m->h.seq, k))
			return false;
	return true;
}

/* All of it, whenever the other can be reached (again). */
static void tells_all(struct tw_actor *a, struct tw_context *ctx, uint32_t node, uint32_t boot)
{
	sees_up(a, ctx, node, boot);
	for (uint64_t seq = 1; node && seq <= MESSAGES; seq++)
		tell(ctx, node, seq);
}

/* It hears each thing once and in order.  What was said while a connection was cut may be missing
 * in front of what follows; it comes again, as does what was heard already. */
static void hears_all(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	struct witness *w = witness_of(a);
	struct scene *s = w->scene;
	uint64_t *last = &s->from[m->from.node % NODES];

	if (m->h.type != TW_REDUCE)
		return;
	w->wrong +=
		!intact(m) || m->from.node == ctx->self.node || (m->h.seq > *last + 1 && !s->cut);
	if (m->h.seq != *last + 1)
		return;
	*last = m->h.seq;
	w->count++;
	if (++s->have < s->want || s->told)
		return;
	s->told = true;
	fake_send(ctx, fake_addr(0, TW_MASTER, 0), TW_HAVE, 0, 0);
}

/* The run is over when so many have heard everything (`count`), once the test allows it. */
static void counts_have(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	if (m->h.type == TW_HAVE)
		witness_of(a)->count++;
}

static void ends_when_told(struct tw_actor *a, struct tw_context *ctx, uint32_t timer)
{
	if (*(_Atomic bool *)witness_of(a)->scene)
		fake_finish(ctx);
	else
		tw_timer(ctx, timer, 10 * MS);
}

static void starts_watching(struct tw_actor *a, struct tw_context *ctx)
{
	tw_timer(ctx, 1, 10 * MS);
}

struct ring {
	struct party serve, peer[PEERS];
	struct scene scene[PEERS];
	struct refusing heap[PEERS];
	_Atomic bool over;
	struct tw_tls *tls;
};

static struct ring *ring_open(struct tw_tls *tls)
{
	struct ring *r = calloc(1, sizeof *r);

	assert_non_null(r);
	r->tls = tls;
	party_serve_peers(&r->serve, NULL);
	r->serve.o.tls = tls;
	r->serve.master.scene = &r->over;
	r->serve.master.fake.start = starts_watching;
	r->serve.master.fake.timer = ends_when_told;
	r->serve.master.fake.message = counts_have;
	party_run(&r->serve);
	return r;
}

/* A peer that tells the others all, and waits for the same of `others`. */
static struct party *ring_peer(struct ring *r, unsigned k, uint16_t port, uint64_t others)
{
	struct party *p = &r->peer[k];

	r->heap[k] = (struct refusing)REFUSING(0);
	party_peer(p, &r->heap[k].heap, port);
	p->o.tls = r->tls;
	p->shard.scene = &r->scene[k];
	p->shard.fake = (struct fake){ .message = hears_all, .up = tells_all, .down = sees_down };
	r->scene[k].want = others * MESSAGES;
	return p;
}

static void ring_join(struct ring *r, unsigned k, uint64_t others)
{
	struct party *p = ring_peer(r, k, party_port(&r->serve), others);

	party_run(p);
	assert_int_equal(tw_tcp_node(p->t), KIT_PEER(k + 1));
}

static void await_count(struct witness *w, uint64_t least)
{
	for (int k = 0; k < 2000 && w->count < least; k++)
		nap(10);
	assert_true(w->count >= least);
}

static void ring_close(struct ring *r, unsigned peers)
{
	r->over = true;
	for (unsigned k = 0; k < peers; k++) {
		party_close(&r->peer[k]);
		assert_int_equal(r->peer[k].status, TW_OK);
		assert_int_equal(r->peer[k].shard.wrong, 0);
		assert_int_equal(r->heap[k].live, 0);
	}
	party_close(&r->serve);
	assert_int_equal(r->serve.status, TW_OK);
	free(r);
}

static unsigned ups(const struct party *p, uint32_t node)
{
	return ((struct scene *)p->shard.scene)->ups[node % NODES];
}

static unsigned downs(const struct party *p, uint32_t node)
{
	return ((struct scene *)p->shard.scene)->downs[node % NODES];
}

/* Until all are connected to it again. */
static void await_others(struct party *p)
{
	struct tw_tcp_peer_info info[16];
	unsigned open = 0;

	for (int k = 0; k < 1000 && open < PEERS; k++) {
		const size_t count = tw_tcp_peers(p->t, info, 16);

		open = 0;
		for (size_t i = 0; i < count; i++)
			open += info[i].connected;
		nap(10);
	}
}

/* Every other peer and the master, each of them once, and with bytes both ways. */
static void knows_all_others(struct party *p)
{
	struct tw_tcp_peer_info info[16];
	const size_t count = tw_tcp_peers(p->t, info, 16);

	assert_int_equal(count, PEERS);
	for (size_t k = 0; k < count; k++) {
		assert_true(info[k].connected);
		assert_true(info[k].node == 0 ||
			    (info[k].node >= KIT_PEER(1) && info[k].node <= KIT_PEER(PEERS) &&
			     info[k].node != tw_tcp_node(p->t)));
		assert_int_equal(info[k].role, info[k].node ? TW_WORKER : TW_MASTER);
		if (info[k].node) {
			assert_true(info[k].bytes_sent > MESSAGES / 4 * PIECE);
			assert_true(info[k].bytes_received > MESSAGES / 4 * PIECE);
		}
		for (size_t i = 0; i < k; i++)
			assert_int_not_equal(info[i].node, info[k].node);
	}
}

static void talk(struct tw_tls *tls)
{
	struct ring *r = ring_open(tls);

	for (unsigned k = 0; k < PEERS; k++)
		ring_join(r, k, PEERS - 1);
	await_count(&r->serve.master, PEERS);
	for (unsigned k = 0; k < PEERS; k++)
		knows_all_others(&r->peer[k]);
	r->over = true;
	for (unsigned k = 0; k < PEERS; k++)
		party_join(&r->peer[k]);
	for (unsigned k = 0; k < PEERS; k++)
		for (unsigned i = 0; i < PEERS; i++) {
			assert_int_equal(ups(&r->peer[k], KIT_PEER(i + 1)), i != k);
			assert_int_equal(downs(&r->peer[k], KIT_PEER(i + 1)), 0);
		}
	for (unsigned k = 0; k < PEERS; k++)
		assert_false(party_said(&r->peer[k], "lost the connection"));
	ring_close(r, PEERS);
}

static void all_pairs_talk(void **state)
{
	talk(NULL);
}

static void all_pairs_talk_in_tls(void **state)
{
	static const uint8_t key[TW_KEY_BYTES] = { 1, 2, 3 };
	const struct tw_tls_options o = { .key = key };
	struct tw_error why = { 0 };
	struct tw_tls *tls = NULL;

	assert_int_equal(tw_tls_new(&tw_heap_system, &o, &tls, &why), TW_OK);
	talk(tls);
	tw_tls_free(tls);
}

/* --- inherited pairs -------------------------------------------------------------------------- */

static void pair(int *a, int *b)
{
	int fd[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	*a = fd[0];
	*b = fd[1];
}

static void *opens(void *arg)
{
	party_run(arg);
	return NULL;
}

/* Nobody listens; whoever comes first, each has the number that it wishes. */
static void all_pairs_talk_by_pairs(void **state)
{
	struct ring *r = calloc(1, sizeof *r);
	struct tw_tcp_route route[PEERS][PEERS];
	int master[PEERS], accepted[PEERS][PEERS];
	pthread_t opener[PEERS];

	assert_non_null(r);
	party_serve_peers(&r->serve, NULL);
	r->serve.o.listen = NULL;
	r->serve.o.accepted = master;
	r->serve.o.accepts = PEERS;
	r->serve.master.scene = &r->over;
	r->serve.master.fake.start = starts_watching;
	r->serve.master.fake.timer = ends_when_told;
	r->serve.master.fake.message = counts_have;
	for (unsigned k = 0; k < PEERS; k++) {
		struct party *p = ring_peer(r, k, 0, PEERS - 1);

		p->o.listen = NULL;
		p->o.wish = k + 1;
		pair(&master[PEERS - 1 - k], &p->o.master_fd);
		p->o.route = route[k];
		p->o.accepted = accepted[k];
		for (unsigned i = 0; i < k; i++) {
			int *listens = &accepted[i][r->peer[i].o.accepts++];

			route[k][p->o.routes].role = TW_WORKER;
			route[k][p->o.routes].node = i + 1;
			pair(&route[k][p->o.routes++].fd, listens);
		}
	}
	party_run(&r->serve);
	for (unsigned k = 0; k < PEERS; k++)
		assert_int_equal(pthread_create(&opener[k], NULL, opens, &r->peer[k]), 0);
	for (unsigned k = 0; k < PEERS; k++) {
		pthread_join(opener[k], NULL);
		assert_int_equal(tw_tcp_node(r->peer[k].t), KIT_PEER(k + 1));
	}
	await_count(&r->serve.master, PEERS);
	for (unsigned k = 0; k < PEERS; k++)
		knows_all_others(&r->peer[k]);
	ring_close(r, PEERS);
}

/* --- cuts ------------------------------------------------------------------------------------- */

/* Cut what is connected to this port; returns how many connections those were. */
static unsigned cut(uint16_t port)
{
	unsigned count = 0;

	for (int fd = 3; fd < 256; fd++) {
		struct sockaddr_in at = { 0 };
		socklen_t len = sizeof at;

		if (getpeername(fd, (struct sockaddr *)&at, &len) == 0 &&
		    at.sin_family == AF_INET && ntohs(at.sin_port) == port)
			count += shutdown(fd, SHUT_RDWR) == 0;
	}
	return count;
}

static void cuts_are_mended(void **state)
{
	struct ring *r = ring_open(NULL);
	unsigned cuts = 0;

	for (unsigned k = 0; k < PEERS; k++) {
		r->scene[k].cut = true;
		ring_join(r, k, PEERS - 1);
	}
	for (int turn = 0; turn < 5; turn++) {
		nap(40);
		cuts += cut(party_port(&r->peer[turn % 3]));
	}
	await_count(&r->serve.master, PEERS);
	while (cuts < 5) {
		cuts += cut(party_port(&r->peer[0]));
		nap(100);
	}
	for (unsigned k = 0; k < PEERS; k++)
		await_others(&r->peer[k]);
	for (unsigned k = 0; k < PEERS; k++)
		knows_all_others(&r->peer[k]);
	r->over = true;
	for (unsigned k = 0; k < PEERS; k++)
		party_join(&r->peer[k]);
	/* both ends were told of it, and nobody was taken for dead */
	for (unsigned k = 0; k < PEERS; k++)
		for (unsigned i = 0; i < PEERS; i++)
			assert_int_equal(downs(&r->peer[k], KIT_PEER(i + 1)), 0);
	assert_true(ups(&r->peer[3], KIT_PEER(1)) > 1);
	assert_true(ups(&r->peer[0], KIT_PEER(4)) > 1);
	ring_close(r, PEERS);
}

/* --- one comes and one goes ------------------------------------------------------------------- */

static void leaves_when_told(struct tw_actor *a, struct tw_context *ctx, uint32_t timer)
{
	if (*(_Atomic bool *)witness_of(a)->scene)
		tw_gone(ctx);
	else
		tw_timer(ctx, timer, 10 * MS);
}

/* Within ten seconds. */
static void await_news(unsigned (*of)(const struct party *, uint32_t), const struct party *p,
		       uint32_t node, unsigned count)
{
	for (int k = 0; k < 1000 && of(p, node) < count; k++)
		nap(10);
	assert_int_equal(of(p, node), count);
}

static void one_leaves_and_one_comes(void **state)
{
	struct ring *r = ring_open(NULL);
	struct tw_tcp_peer_info info[16];
	_Atomic bool leave = false;

	ring_join(r, 0, 2);
	r->heap[1] = (struct refusing)REFUSING(0);
	party_peer(&r->peer[1], &r->heap[1].heap, party_port(&r->serve));
	r->peer[1].worker.scene = &leave;
	r->peer[1].worker.fake =
		(struct fake){ .start = starts_watching, .timer = leaves_when_told };
	party_run(&r->peer[1]);
	ring_join(r, 2, 2);
	await_news(ups, &r->peer[0], KIT_PEER(2), 1);
	await_news(ups, &r->peer[2], KIT_PEER(2), 1);
	leave = true;
	party_join(&r->peer[1]);
	assert_int_equal(r->peer[1].status, TW_OK);
	party_close(&r->peer[1]);                       /* its process is gone, too */
	await_news(downs, &r->peer[0], KIT_PEER(2), 1); /* who listened */
	await_news(downs, &r->peer[2], KIT_PEER(2), 1); /* who dialled */
	/* it is not dialled any more, and not remembered */
	for (int k = 0; k < 500 && tw_tcp_peers(r->peer[2].t, info, 16) > 2; k++)
		nap(10);
	assert_int_equal(tw_tcp_peers(r->peer[2].t, info, 16), 2);
	assert_int_equal(tw_tcp_peers(r->peer[0].t, info, 16), 2);
	ring_join(r, 3, 2);
	await_count(&r->serve.master, 3);
	assert_int_equal(ups(&r->peer[3], KIT_PEER(2)), 0);
	assert_int_equal(ups(&r->peer[0], KIT_PEER(4)), 1);
	assert_int_equal(ups(&r->peer[2], KIT_PEER(4)), 1);
	assert_false(party_said(&r->peer[2], "cannot reach"));
	assert_int_equal(r->heap[1].live, 0);
	r->over = true;
	for (unsigned k = 0; k < PEERS; k++)
		if (k != 1)
			party_close(&r->peer[k]);
	party_close(&r->serve);
	free(r);
}

/* --- nobody speaks for another ---------------------------------------------------------------- */

/* A peer by hand: it joins the master, and listens at `port`. */
static int joins(uint16_t master, uint16_t port, uint64_t process, struct tw_body_terms *terms)
{
	struct tw_msg m = raw_greet();
	const int fd = raw_dial(master);

	m.b.greet.process = process;
	m.b.greet.port = port;
	assert_true(raw_send(fd, &m));
	assert_true(raw_read(fd, &m));
	assert_int_equal(m.h.type, TW_TERMS);
	*terms = m.b.terms;
	return fd;
}

/* It dials another one, as the terms say and with this ticket.  0: it is let in, by *fd; else the
 * reason of the denial. */
static uint32_t dials(const struct party *to, const struct tw_body_terms *as,
		      const uint8_t ticket[TW_TICKET], int *fd)
{
	struct tw_msg m = raw_greet_as(as, ticket);
	uint32_t why = 0;

	*fd = raw_dial(party_port(to));
	assert_true(raw_send(*fd, &m));
	assert_true(raw_read(*fd, &m));
	if (m.h.type == TW_DENY) {
		why = m.b.deny.why;
		close(*fd);
	} else {
		assert_int_equal(m.h.type, TW_TERMS);
		assert_int_equal(m.b.terms.own, tw_tcp_node(to->t));
	}
	raw_drop(&m);
	return why;
}

/* One more peer whose shard only counts what it hears. */
static void opens_peer(struct ring *r, unsigned k)
{
	r->heap[k] = (struct refusing)REFUSING(0);
	party_peer(&r->peer[k], &r->heap[k].heap, party_port(&r->serve));
	r->peer[k].o.limit = 30 * TW_SECOND;
	r->peer[k].o.suspect = 30 * TW_SECOND;
	party_run(&r->peer[k]);
}

static struct ring *opens_patiently(void)
{
	struct ring *r = calloc(1, sizeof *r);

	assert_non_null(r);
	party_serve_peers(&r->serve, NULL);
	r->serve.o.limit = r->serve.o.suspect = 30 * TW_SECOND; /* raw peers send no heartbeat */
	r->serve.address.host[0] = 0;
	r->serve.master.scene = &r->over;
	r->serve.master.fake.start = starts_watching;
	r->serve.master.fake.timer = ends_when_told;
	party_run(&r->serve);
	return r;
}

static void a_ticket_is_for_one_pair(void **state)
{
	struct ring *r = opens_patiently();
	uint8_t first[TW_TICKET], second[TW_TICKET];
	struct tw_body_terms low, high, victim;
	int lower, upper, fd;

	lower = joins(party_port(&r->serve), 9, 71, &low); /* before the others: they dial it */
	opens_peer(r, 0);
	opens_peer(r, 1);
	upper = joins(party_port(&r->serve), 9, 72, &high);
	assert_true(low.node < tw_tcp_node(r->peer[0].t) && tw_tcp_node(r->peer[1].t) < high.node);
	raw_ticket(upper, tw_tcp_node(r->peer[0].t), first);
	close(upper);
	upper = joins(party_port(&r->serve), 9, 72, &high); /* the same process: the same node */
	raw_ticket(upper, tw_tcp_node(r->peer[1].t), second);
	assert_memory_not_equal(first, second, TW_TICKET);
	assert_memory_not_equal(first, high.ticket, TW_TICKET);
	/* at its listener it is good, elsewhere it is not, and neither is the master's */
	assert_int_equal(dials(&r->peer[0], &high, first, &fd), 0);
	close(fd);
	assert_int_equal(dials(&r->peer[1], &high, first, &fd), TW_DENY_RUN);
	assert_int_equal(dials(&r->peer[0], &high, second, &fd), TW_DENY_RUN);
	assert_int_equal(dials(&r->peer[0], &high, high.ticket, &fd), TW_DENY_RUN);
	/* nor is it for somebody else */
	victim = high;
	victim.node = tw_tcp_node(r->peer[1].t);
	victim.boot = 1;
	assert_int_equal(dials(&r->peer[0], &victim, first, &fd), TW_DENY_RUN);
	assert_int_equal(dials(&r->peer[0], &victim, second, &fd), TW_DENY_RUN);
	/* nor may the lower one dial: there would be two connections */
	assert_int_equal(dials(&r->peer[0], &low, low.ticket, &fd), TW_DENY_BUSY);
	/* who is given up is not let in any more */
	close(upper);
	for (int k = 0; k < 1000 && !party_said(&r->serve, "lost the connection to it"); k++)
		nap(10);
	nap(2500);
	assert_int_equal(dials(&r->peer[0], &high, first, &fd), TW_DENY_BUSY);
	close(lower);
	ring_close(r, 2);
}

/* An address of this machine that is not loopback; false: it has none. */
static bool elsewhere(char *out, size_t room)
{
	struct ifaddrs *list = NULL, *i;
	bool found = false;

	assert_int_equal(getifaddrs(&list), 0);
	for (i = list; i && !found; i = i->ifa_next)
		if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET &&
		    !(i->ifa_flags & IFF_LOOPBACK))
			found = inet_ntop(AF_INET, &((struct sockaddr_in *)i->ifa_addr)->sin_addr,
					  out, (socklen_t)room) != NULL;
	freeifaddrs(list);
	return found;
}

/* One that comes to the master by this address; *m is the answer. */
static int joins_flags(uint16_t port, const char *host, uint32_t flags, uint64_t process,
		       struct tw_msg *m)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(port) };
	const int fd = raw_socket();

	assert_int_equal(inet_pton(AF_INET, host, &at.sin_addr), 1);
	assert_int_equal(connect(fd, (const struct sockaddr *)&at, sizeof at), 0);
	*m = raw_greet();
	m->b.greet.process = process;
	m->b.greet.flags = flags;
	m->b.greet.port = 9;
	assert_true(raw_send(fd, m));
	assert_true(raw_read(fd, m));
	raw_drop(m);
	return fd;
}

static void who_cannot_be_reached_is_refused(void **state)
{
	struct ring *r = opens_patiently();
	struct tw_error why = { 0 };
	struct tw_msg m = raw_greet();
	struct party none;
	char host[64];
	int fd = raw_dial(party_port(&r->serve));

	assert_true(raw_send(fd, &m)); /* without a port */
	assert_true(raw_read(fd, &m));
	assert_int_equal(m.h.type, TW_DENY);
	assert_int_equal(m.b.deny.why, TW_DENY_ROLE);
	assert_int_equal(m.b.deny.wait, 0);
	raw_drop(&m);
	close(fd);
	assert_true(party_said(&r->serve, "every worker must be reachable by the others"));
	m = raw_greet();
	m.b.greet.role = TW_SERVER;
	m.b.greet.port = 9;
	fd = raw_dial(party_port(&r->serve));
	assert_true(raw_send(fd, &m));
	assert_true(raw_read(fd, &m));
	assert_int_equal(m.h.type, TW_DENY);
	raw_drop(&m);
	close(fd);
	assert_true(party_said(&r->serve, "join as a worker"));
	/* one that listens on this machine only, and one elsewhere */
	fd = joins_flags(party_port(&r->serve), "127.0.0.1", TW_GREET_NEAR, 81, &m);
	assert_int_equal(m.h.type, TW_TERMS);
	if (elsewhere(host, sizeof host)) {
		int far = joins_flags(party_port(&r->serve), host, 0, 82, &m);

		assert_int_equal(m.h.type, TW_DENY);
		assert_int_equal(m.b.deny.wait, 0);
		assert_true(
			party_said(&r->serve, "new worker listens on the master's machine only"));
		close(far);
		close(fd);
		assert_true(party_says(&r->serve, "lost the connection to it"));
		fd = joins_flags(party_port(&r->serve), host, 0, 82, &m);
		for (int k = 0; k < 300 && m.h.type == TW_DENY; k++) { /* until it is forgotten */
			close(fd);
			nap(100);
			fd = joins_flags(party_port(&r->serve), host, 0, 82, &m);
		}
		assert_int_equal(m.h.type, TW_TERMS);
		far = joins_flags(party_port(&r->serve), "127.0.0.1", TW_GREET_NEAR, 83, &m);
		assert_int_equal(m.h.type, TW_DENY);
		assert_true(party_said(&r->serve, "listens on its own machine only"));
		close(far);
	}
	close(fd);
	/* nor does it ask */
	party_peer(&none, NULL, party_port(&r->serve));
	none.o.listen = NULL;
	assert_int_equal(party_open(&none, &why), TW_BAD_INPUT);
	assert_non_null(strstr(why.text, "every worker must be reachable by the others"));
	party_close(&none);
	ring_close(r, 0);
}

static void hears_one(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	struct witness *w = witness_of(a);

	witness_says(w, "%s of %u\n", tw_type_name(m->h.type), m->from.node);
	w->count++;
}

/* What a member that lies can say to another: as itself, and what its role may. */
static void only_replicas_speak(void **state)
{
	static const struct {
		uint16_t type;
		uint8_t from, to;
	} lies[] = {
		{ TW_PUSH, TW_WORKER, TW_SHARD },    { TW_PULL, TW_WORKER, TW_SHARD },
		{ TW_FORM, TW_MASTER, TW_SHARD },    { TW_HOST, TW_SERVER, TW_SHARD },
		{ TW_ACK, TW_SHARD, TW_WORKER },     { TW_PEERS, TW_MASTER, TW_WORKER },
		{ TW_TICKETS, TW_MASTER, TW_SHARD }, { TW_OVER, TW_MASTER, TW_WORKER },
		{ TW_HELLO, TW_WORKER, TW_MASTER },  { TW_REDUCE, TW_WORKER, TW_SHARD },
	};
	struct ring *r = opens_patiently();
	uint8_t ticket[TW_TICKET];
	struct tw_body_terms mine;
	char news[100];
	int master, fd;

	r->heap[0] = (struct refusing)REFUSING(0);
	party_peer(&r->peer[0], &r->heap[0].heap, party_port(&r->serve));
	r->peer[0].shard.fake = (struct fake){ .message = hears_one };
	r->peer[0].worker.fake = r->peer[0].shard.fake;
	party_run(&r->peer[0]);
	master = joins(party_port(&r->serve), 9, 71, &mine);
	raw_ticket(master, tw_tcp_node(r->peer[0].t), ticket);
	for (size_t k = 0; k < sizeof lies / sizeof lies[0]; k++) {
		struct tw_msg m =
			raw_says(lies[k].type, lies[k].from, fake_addr(KIT_PEER(1), lies[k].to, 0));

		assert_int_equal(dials(&r->peer[0], &mine, ticket, &fd), 0);
		assert_true(raw_send(fd, &m));
		assert_true(raw_closed(fd));
		close(fd);
	}
	assert_int_equal(r->peer[0].shard.count + r->peer[0].worker.count, 0);
	assert_int_equal(dials(&r->peer[0], &mine, ticket, &fd), 0);
	for (uint32_t k = 0; k < 2; k++) {
		struct tw_msg m =
			raw_says(TW_REDUCE, TW_SHARD, fake_addr(KIT_PEER(1), TW_SHARD, 0));

		m.from.node = m.h.from = KIT_PEER(1) + k;
		assert_true(raw_send(fd, &m));
	}
	await_count(&r->peer[0].shard, 2);
	close(fd);
	close(master);
	r->over = true;
	party_join(&r->peer[0]);
	/* whatever the header says */
	snprintf(news, sizeof news, "REDUCE of %u\nREDUCE of %u\n", mine.node, mine.node);
	assert_string_equal(r->peer[0].shard.events, news);
	ring_close(r, 1);
}

/* --- bytes that stay on the machine ----------------------------------------------------------- */

/* A piece whose frame's hash covers its payload, or not. */
static void sends_piece(int fd, bool hashed)
{
	struct tw_msg m = raw_says(TW_REDUCE, TW_SHARD, fake_addr(KIT_PEER(1), TW_SHARD, 0));
	struct iovec rest[3] = { { &m.b, tw_body_bytes(TW_REDUCE) } };
	struct tw_header h;

	m.h.payload = 8;
	m.payload = tw_block_new(&tw_heap_system, 8);
	assert_non_null(m.payload);
	memset(m.payload->data, 3, 8);
	if (hashed) {
		assert_true(raw_send(fd, &m));
	} else {
		h = tw_msg_header(&m, 0);
		h.hash = tw_frame_hash_trusting(rest, tw_header_seed(&h));
		assert_int_equal(send(fd, &h, sizeof h, 0), sizeof h);
		assert_int_equal(send(fd, &m.b, rest[0].iov_len, 0), rest[0].iov_len);
		assert_int_equal(send(fd, m.payload->data, 8, 0), 8);
	}
	tw_block_drop(m.payload);
}

/* Who says that it stays here is answered so, and then payloads are not hashed; else they are. */
static void what_stays_here_is_not_hashed(void **state)
{
	struct ring *r = opens_patiently();
	struct tw_body_terms mine;
	uint8_t ticket[TW_TICKET];
	int master;

	r->heap[0] = (struct refusing)REFUSING(0);
	party_peer(&r->peer[0], &r->heap[0].heap, party_port(&r->serve));
	r->peer[0].shard.fake = (struct fake){ .message = hears_one };
	party_run(&r->peer[0]);
	master = joins(party_port(&r->serve), 9, 71, &mine);
	raw_ticket(master, tw_tcp_node(r->peer[0].t), ticket);
	for (unsigned k = 0; k < 4; k++) {
		const bool local = k & 1, hashed = k & 2;
		struct tw_msg m = raw_greet_as(&mine, ticket);
		const int fd = raw_dial(party_port(&r->peer[0]));

		m.h.flags = local ? TW_FLAG_LOCAL : 0;
		assert_true(raw_send(fd, &m));
		assert_true(raw_read(fd, &m));
		assert_int_equal(m.h.type, TW_TERMS);
		assert_int_equal(m.h.flags, local ? TW_FLAG_LOCAL : 0);
		sends_piece(fd, hashed);
		if (local == hashed)
			assert_true(raw_closed(fd));
		else
			await_count(&r->peer[0].shard, 1 + (k == 2));
		close(fd);
	}
	assert_int_equal(r->peer[0].shard.count, 2);
	close(master);
	ring_close(r, 1);
}

/* --- while the master is away ----------------------------------------------------------------- */

/* Take the connection of one that dials, and give it this node, as the master with this boot. */
static int takes(int listener, uint32_t node, uint32_t boot)
{
	struct tw_msg m;
	int fd;

	do { /* it may have given up waiting for an earlier one */
		fd = accept(listener, NULL, NULL);
		assert_true(fd >= 0);
	} while (!raw_read(fd, &m) && close(fd) == 0);
	assert_int_equal(m.h.type, TW_GREET);
	if (m.b.greet.node != TW_NODE_NEW)
		node = m.b.greet.node;
	m.h.type = TW_TERMS;
	m.b.terms = (struct tw_body_terms){ .node = node,
					    .boot = 1,
					    .master = boot,
					    .run = 99,
					    .every = TW_SECOND,
					    .suspect = 60 * TW_SECOND,
					    .limit = 60 * TW_SECOND };
	assert_true(raw_send(fd, &m));
	return fd;
}

static void says_with(int fd, struct tw_msg m, const void *row, size_t bytes)
{
	m.h.tail = (uint32_t)bytes;
	m.tail = tw_block_new(&tw_heap_system, bytes);
	assert_non_null(m.tail);
	memcpy(m.tail->data, row, bytes);
	assert_true(raw_send(fd, &m));
	raw_drop(&m);
}

/* What a master that lies can list: nobody is dialled who should not be, and nothing breaks. */
static void lies_of_a_master_are_survived(void **state)
{
	struct tw_msg peers = raw_says(TW_PEERS, TW_MASTER, fake_addr(20, TW_WORKER, 0));
	struct tw_msg tickets = raw_says(TW_TICKETS, TW_MASTER, fake_addr(20, TW_WORKER, 0));
	struct tw_msg over = raw_says(TW_OVER, TW_MASTER, fake_addr(20, TW_WORKER, 0));
	struct tw_peer_place place[6] = { { 0 } };
	struct tw_ticket pass[4] = { { .node = 20, .boot = 1, .role = TW_WORKER },
				     { .node = 0, .boot = 1, .role = TW_MASTER },
				     { .node = 5, .boot = 9, .role = 77 },
				     { .node = 5, .boot = 9, .role = 77, .gone = 1 } };
	struct tw_body_terms as = { .node = 20, .boot = 1, .run = 99 };
	static const uint8_t none[TW_TICKET];
	uint16_t port, trap_port;
	int listener = raw_listen(&port), trap = raw_listen(&trap_port), fd, other;
	struct pollfd knocks = { trap, POLLIN, 0 };
	struct tw_tcp_peer_info info[16];
	struct party p;
	pthread_t opener;

	party_peer(&p, NULL, port);
	assert_int_equal(pthread_create(&opener, NULL, opens, &p), 0);
	fd = takes(listener, 20, 7);
	pthread_join(opener, NULL);
	for (unsigned k = 0; k < 6; k++)
		place[k] = (struct tw_peer_place){
			.node = 10, .boot = 1, .port = trap_port, .role = TW_WORKER
		};
	place[0].node = 20; /* itself */
	place[1].node = 30; /* one that is to dial it */
	place[2].node = 0;  /* the master */
	place[3].port = 1u << 16 | trap_port;
	memset(place[4].host, 'x', sizeof place[4].host); /* without an end */
	place[5].node = UINT32_MAX;
	peers.b.peers.number = 1;
	says_with(fd, peers, place, sizeof place);
	says_with(fd, tickets, pass, sizeof pass);
	assert_int_equal(poll(&knocks, 1, 500), 0);
	assert_int_equal(tw_tcp_peers(p.t, info, 16), 1); /* the master */
	/* nobody becomes itself or the master by such a ticket */
	assert_int_equal(dials(&p, &as, none, &other), TW_DENY_ROLE);
	/* the same one twice is dialled once */
	place[0].node = 10;
	place[1] = place[0];
	peers.b.peers.number = 2;
	says_with(fd, peers, place, 2 * sizeof place[0]);
	assert_int_equal(poll(&knocks, 1, 10000), 1);
	other = accept(trap, NULL, NULL);
	assert_int_equal(poll(&knocks, 1, 300), 0);
	assert_int_equal(tw_tcp_peers(p.t, info, 16), 2);
	assert_true(raw_send(fd, &over));
	party_close(&p);
	assert_int_equal(p.status, TW_OK);
	close(other);
	close(fd);
	close(trap);
	close(listener);
}

static void cuts_are_mended_without_the_master(void **state)
{
	struct tw_ticket pass = { .node = 20, .boot = 1, .role = TW_WORKER, .ticket = { 7, 7 } };
	struct tw_peer_place place = {
		.node = 10, .boot = 1, .role = TW_WORKER, .ticket = { 7, 7 }
	};
	struct tw_msg peers = raw_says(TW_PEERS, TW_MASTER, fake_addr(20, TW_WORKER, 0));
	struct tw_msg tickets = raw_says(TW_TICKETS, TW_MASTER, fake_addr(10, TW_WORKER, 0));
	struct tw_msg over = raw_says(TW_OVER, TW_MASTER, fake_addr(10, TW_WORKER, 0));
	struct scene scene[2] = { { .have = 0 } };
	struct party p[2];
	pthread_t opener[2];
	uint16_t port;
	int listener = raw_listen(&port), fd[2];

	for (unsigned k = 0; k < 2; k++) {
		party_peer(&p[k], NULL, port);
		p[k].o.patience = 60 * TW_SECOND;
		p[k].shard.scene = &scene[k];
		p[k].shard.fake = (struct fake){ .up = sees_up, .down = sees_down };
		assert_int_equal(pthread_create(&opener[k], NULL, opens, &p[k]), 0);
		fd[k] = takes(listener, 10 + 10 * k, 7);
		pthread_join(opener[k], NULL);
	}
	place.port = party_port(&p[0]);
	peers.b.peers.number = 1;
	says_with(fd[0], tickets, &pass, sizeof pass);
	says_with(fd[1], peers, &place, sizeof place);
	await_news(ups, &p[0], 20, 1);
	await_news(ups, &p[1], 10, 1);
	close(fd[0]);
	close(fd[1]);
	assert_true(party_says(&p[0], "lost the connection to the master"));
	assert_true(party_says(&p[1], "lost the connection to the master"));
	for (unsigned turn = 2; turn < 4; turn++) {
		assert_int_equal(cut(party_port(&p[0])), 1);
		await_news(ups, &p[0], 20, turn);
		await_news(ups, &p[1], 10, turn);
	}
	for (unsigned k = 0; k < 2; k++)
		fd[k] = takes(listener, 0, 8);
	for (unsigned k = 0; k < 2; k++)
		assert_true(raw_send(fd[k], &over));
	for (unsigned k = 0; k < 2; k++) {
		party_close(&p[k]);
		assert_int_equal(p[k].status, TW_OK);
		assert_int_equal(downs(&p[k], 10) + downs(&p[k], 20), 0);
		close(fd[k]);
	}
	close(listener);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_pairs_talk),
		cmocka_unit_test(all_pairs_talk_in_tls),
		cmocka_unit_test(all_pairs_talk_by_pairs),
		cmocka_unit_test(cuts_are_mended),
		cmocka_unit_test(one_leaves_and_one_comes),
		cmocka_unit_test(a_ticket_is_for_one_pair),
		cmocka_unit_test(who_cannot_be_reached_is_refused),
		cmocka_unit_test(only_replicas_speak),
		cmocka_unit_test(what_stays_here_is_not_hashed),
		cmocka_unit_test(lies_of_a_master_are_survived),
		cmocka_unit_test(cuts_are_mended_without_the_master),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
