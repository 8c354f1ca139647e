/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_kit.c - processes of the tcp world in one process, a relay between them, and a raw peer. */
#include "world/tcp_kit.h"
#include "kit/one_frame.h"

#include <arpa/inet.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#define FRAME (64u << 10)

/* --- witnesses -------------------------------------------------------------------------------- */

struct witness *witness_of(struct tw_actor *a)
{
	return (struct witness *)a->fake;
}

void witness_says(struct witness *w, const char *format, ...)
{
	const size_t used = strlen(w->events);
	va_list list;

	va_start(list, format);
	vsnprintf(w->events + used, sizeof w->events - used, format, list);
	va_end(list);
}

void witness_up(struct tw_actor *a, struct tw_context *ctx, uint32_t node, uint32_t boot)
{
	witness_says(witness_of(a), "up %u %u\n", node, boot);
}

void witness_down(struct tw_actor *a, struct tw_context *ctx, uint32_t node)
{
	witness_says(witness_of(a), "down %u\n", node);
}

/* --- parties ---------------------------------------------------------------------------------- */

static void hear(void *arg, enum tw_level level, const char *who, const char *line)
{
	struct party *p = arg;
	size_t used;

	(void)level;
	pthread_mutex_lock(&p->lock);
	used = strlen(p->lines);
	snprintf(p->lines + used, sizeof p->lines - used, "%s: %s\n", who, line);
	pthread_mutex_unlock(&p->lock);
}

static void fill(struct party *p, struct tw_heap *heap)
{
	memset(p, 0, sizeof *p);
	pthread_mutex_init(&p->lock, NULL);
	p->log = (struct tw_log){ hear, p, TW_INFO };
	p->engine = (struct tw_engine){ .trainable = FAKE_SIZE, .scratch_bytes = 64 };
	p->o = (struct tw_tcp_options){
		.heap = heap ? heap : &tw_heap_system,
		.log = &p->log,
		.master_fd = -1,
		.wish = TW_NODE_NEW,
		.job = { { 11 } },
		.layout = { { 12 } },
		.data = { { 13 } },
		.servers = 1,
		.every = 100 * MS,
		.suspect = TW_SECOND,
		.limit = 3 * TW_SECOND,
		.push_most = 4u << 20,
		.part_most = 4u << 20,
	};
	snprintf(p->address.host, sizeof p->address.host, "127.0.0.1");
}

void party_serve(struct party *p, struct tw_heap *heap)
{
	fill(p, heap);
	p->o.role = TW_TCP_SERVE;
	p->o.listen = &p->address;
	p->o.helpers = 1;
	p->o.identity = (struct tw_tcp_identity){ .run = 99, .secret = { 1, 2 }, .boot = KIT_BOOT };
	p->master.fake = p->shard.fake = (struct fake){ .up = witness_up, .down = witness_down };
}

void party_worker(struct party *p, struct tw_heap *heap, uint16_t port)
{
	fill(p, heap);
	p->o.role = TW_TCP_WORKER;
	p->o.master = &p->address;
	p->o.patience = 10 * TW_SECOND;
	p->address.port = port;
	p->worker.fake = (struct fake){ .up = witness_up, .down = witness_down };
}

void party_server(struct party *p, struct tw_heap *heap, uint16_t port)
{
	party_worker(p, heap, port);
	p->o.role = TW_TCP_SERVER;
	p->o.listen = &p->own;
	p->o.helpers = 1;
	snprintf(p->own.host, sizeof p->own.host, "127.0.0.1");
	p->shard.fake = p->worker.fake;
}

void party_serve_peers(struct party *p, struct tw_heap *heap)
{
	party_serve(p, heap);
	p->o.peers = true;
	p->o.servers = 0;
}

void party_peer(struct party *p, struct tw_heap *heap, uint16_t port)
{
	party_server(p, heap, port);
	p->o.role = TW_TCP_WORKER;
	p->o.peers = true;
	p->o.servers = 0;
}

enum tw_status party_open(struct party *p, struct tw_error *why)
{
	return tw_tcp_open(&p->o, &p->t, why);
}

uint16_t party_port(const struct party *p)
{
	return tw_tcp_bound(p->t)->port;
}

static void *run(void *arg)
{
	struct party *p = arg;
	const bool serves = p->o.role == TW_TCP_SERVE;
	const struct tw_seat seat[] = {
		{ fake_addr(0, TW_MASTER, 0), &fake_passive_class, &p->master.fake },
		{ fake_addr(tw_tcp_node(p->t), TW_SHARD, 0), &fake_passive_class, &p->shard.fake },
		{ fake_addr(tw_tcp_node(p->t), TW_WORKER, 0), &fake_class, &p->worker.fake },
	};
	const size_t first = serves ? 0 : p->o.role == TW_TCP_SERVER || p->o.peers ? 1 : 2;
	const struct tw_cluster cluster = {
		.seat = seat + first,
		.seats = p->o.peers ? (serves ? 1 : 2)
			 : serves   ? 2
				    : 1,
		.engine = &p->engine,
		.heap = p->o.heap,
		.log = &p->log,
	};

	p->status = tw_tcp_run(p->t, &cluster, &p->ran);
	if (serves)
		tw_tcp_farewell(p->t, p->status, 0, "{}", p->model);
	return NULL;
}

void party_start(struct party *p)
{
	p->running = pthread_create(&p->thread, NULL, run, p) == 0;
	if (!p->running)
		abort();
}

void party_run(struct party *p)
{
	struct tw_error why = { 0 };

	if (party_open(p, &why) != TW_OK)
		fail_msg("%s", why.text);
	party_start(p);
}

void party_join(struct party *p)
{
	if (p->running)
		pthread_join(p->thread, NULL);
	p->running = false;
}

void party_close(struct party *p)
{
	party_join(p);
	tw_tcp_close(p->t);
	tw_totals_release(&p->ran.totals);
	pthread_mutex_destroy(&p->lock);
	p->t = NULL;
}

bool party_said(struct party *p, const char *text)
{
	bool found;

	pthread_mutex_lock(&p->lock);
	found = strstr(p->lines, text) != NULL;
	pthread_mutex_unlock(&p->lock);
	return found;
}

static void nap(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 5 * MS }, NULL);
}

bool party_says(struct party *p, const char *text)
{
	for (int k = 0; k < 2000 && !party_said(p, text); k++)
		nap();
	return party_said(p, text);
}

/* --- the relay -------------------------------------------------------------------------------- */

static struct sockaddr_in local(uint16_t port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET,
				     .sin_port = htons(port),
				     .sin_addr = { htonl(INADDR_LOOPBACK) } };
}

static bool pass(int from, int to)
{
	char some[FRAME];
	const ssize_t got = read(from, some, sizeof some);

	for (ssize_t at = 0, put; at < got; at += put) {
		put = send(to, some + at, (size_t)(got - at), MSG_NOSIGNAL);
		if (put <= 0)
			return false;
	}
	return got > 0;
}

static void carry(struct relay *r, int near, int far)
{
	struct pollfd f[] = { { near, POLLIN, 0 }, { far, POLLIN, 0 } };
	bool good = true;

	while (good && !r->cut && !r->stop) {
		if (poll(f, 2, 20) <= 0)
			continue;
		good = (!f[0].revents || pass(near, far)) && (!f[1].revents || pass(far, near));
	}
}

static void *relay_run(void *arg)
{
	struct relay *r = arg;
	struct pollfd f = { r->listener, POLLIN, 0 };

	while (!r->stop) {
		int near, far;

		if (atomic_exchange(&r->cut, false))
			r->cuts++;
		if (poll(&f, 1, 20) <= 0)
			continue;
		near = accept(r->listener, NULL, NULL);
		far = raw_dial(r->target);
		if (near >= 0 && far >= 0)
			carry(r, near, far);
		close(near);
		close(far);
	}
	return NULL;
}

bool relay_start(struct relay *r, uint16_t target)
{
	*r = (struct relay){ .target = target };
	r->listener = raw_listen(&r->port);
	return r->listener >= 0 && pthread_create(&r->thread, NULL, relay_run, r) == 0;
}

void relay_cut(struct relay *r)
{
	const unsigned before = r->cuts;

	r->cut = true;
	while (r->cuts == before)
		nap();
}

void relay_stop(struct relay *r)
{
	r->stop = true;
	pthread_join(r->thread, NULL);
	close(r->listener);
}

/* --- a raw peer ------------------------------------------------------------------------------- */

int raw_socket(void)
{
	const struct timeval limit = { .tv_sec = 10 };
	const int fd = socket(AF_INET, SOCK_STREAM, 0);

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
	return fd;
}

bool raw_connect(int fd, uint16_t port)
{
	const struct sockaddr_in at = local(port);

	return connect(fd, (const struct sockaddr *)&at, sizeof at) == 0;
}

int raw_dial(uint16_t port)
{
	const int fd = raw_socket();

	if (raw_connect(fd, port))
		return fd;
	close(fd);
	return -1;
}

int raw_listen(uint16_t *port)
{
	struct sockaddr_in at = local(0);
	socklen_t len = sizeof at;
	const int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (bind(fd, (struct sockaddr *)&at, sizeof at) || listen(fd, 8) ||
	    getsockname(fd, (struct sockaddr *)&at, &len)) {
		close(fd);
		return -1;
	}
	*port = ntohs(at.sin_port);
	return fd;
}

bool raw_send(int fd, const struct tw_msg *m)
{
	uint8_t bytes[4096];
	size_t len;

	return one_frame_write(m, bytes, sizeof bytes, &len) == TW_OK &&
	       send(fd, bytes, len, MSG_NOSIGNAL) == (ssize_t)len;
}

static bool exactly(int fd, void *to, size_t bytes)
{
	return !bytes || recv(fd, to, bytes, MSG_WAITALL) == (ssize_t)bytes;
}

bool raw_read(int fd, struct tw_msg *m)
{
	static uint8_t bytes[FRAME];
	struct tw_header h;

	do {
		if (!exactly(fd, &h, sizeof h) || h.length > sizeof bytes - sizeof h)
			return false;
		memcpy(bytes, &h, sizeof h);
		if (!exactly(fd, bytes + sizeof h, h.length))
			return false;
	} while (h.type == TW_PING);
	return one_frame_read(bytes, sizeof h + h.length, &tw_heap_system, m) == TW_OK;
}

void raw_drop(struct tw_msg *m)
{
	tw_block_drop(m->tail);
	tw_block_drop(m->payload);
}

struct tw_msg raw_greet(void)
{
	return (struct tw_msg){
		.h = { .magic = TW_WIRE_MAGIC, .major = TW_WIRE_MAJOR, .type = TW_GREET },
		.b.greet = { .role = TW_WORKER,
			     .node = TW_NODE_NEW,
			     .job = { { 11 } },
			     .layout = { { 12 } },
			     .data = { { 13 } },
			     .process = 5 },
	};
}

struct tw_msg raw_greet_as(const struct tw_body_terms *mine, const uint8_t ticket[TW_TICKET])
{
	struct tw_msg m = raw_greet();

	m.b.greet.node = mine->node;
	m.b.greet.boot = mine->boot;
	m.b.greet.run = mine->run;
	memcpy(m.b.greet.ticket, ticket, TW_TICKET);
	return m;
}

void raw_ticket(int fd, uint32_t node, uint8_t out[TW_TICKET])
{
	const struct tw_peer_place *list;
	struct tw_msg m;
	size_t k = 0;

	do
		assert_true(raw_read(fd, &m));
	while (m.h.type != TW_PEERS && (raw_drop(&m), true));
	list = (const void *)m.tail->data;
	while (k < m.h.tail / sizeof *list && list[k].node != node)
		k++;
	assert_true(k < m.h.tail / sizeof *list);
	memcpy(out, list[k].ticket, TW_TICKET);
	raw_drop(&m);
}

struct tw_msg raw_says(enum tw_type type, uint16_t from_role, struct tw_addr to)
{
	return (struct tw_msg){
		.h = { .magic = TW_WIRE_MAGIC, .major = TW_WIRE_MAJOR, .type = (uint16_t)type },
		.from = fake_addr(0, from_role, 0),
		.to = to,
	};
}

bool raw_closed(int fd)
{
	char some[4096];
	ssize_t got;

	while ((got = recv(fd, some, sizeof some, 0)) > 0)
		;
	return got == 0;
}

void ends_at_done(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	if (m->h.type == TW_DONE)
		fake_finish(ctx);
}

void raw_end(int fd)
{
	struct tw_msg m = raw_says(TW_DONE, TW_WORKER, fake_addr(0, TW_MASTER, 0));

	assert_true(raw_send(fd, &m));
	do
		assert_true(raw_read(fd, &m));
	while (m.h.type == TW_PEERS && (raw_drop(&m), true));
	assert_int_equal(m.h.type, TW_OVER);
	raw_drop(&m);
	close(fd);
}
