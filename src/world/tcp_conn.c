/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_conn.c - one connection: its states, its bytes, its end; invariants: tcp_inner.h. */
#include "world/tcp_inner.h"

#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>

static struct tw_msg *reader_msg(void *arg)
{
	struct conn *c = arg;

	return tw_tcp_msg(c->t, 0);
}

static void reader_msg_free(void *arg, struct tw_msg *m)
{
	struct conn *c = arg;

	tw_tcp_msg_free(c->t, m);
}

static bool reader_admit(void *arg, const struct tw_header *h, const char **why)
{
	return tw_handshake_admit(arg, h, why);
}

static struct tw_block *reader_block(void *arg, const struct tw_header *h)
{
	struct conn *c = arg;

	return tw_payload_block(&c->t->blocks, h->payload);
}

static uint32_t node_of(const struct peer *p, uint32_t role)
{
	return role == TW_MASTER ? 0 : p->node;
}

static void pass(struct conn *c, struct tw_msg *m)
{
	struct tw_tcp *t = c->t;
	bool taken = false;

	tw_tcp_count(t, m);
	pthread_mutex_lock(&t->port_lock);
	if (t->port)
		taken = tw_port_deliver(t->port, m);
	pthread_mutex_unlock(&t->port_lock);
	if (!taken)
		tw_tcp_msg_free(t, m);
}

static void deliver(struct conn *c, struct tw_msg *m)
{
	m->from.node = node_of(c->peer, m->from.role);
	m->to.node = m->to.role == TW_MASTER ? 0 : c->t->self.node;
	switch (tw_identity_of(c, m)) {
	case CLAIM_TRUE:
		pass(c, m);
		break;
	case CLAIM_FALSE:
		tw_tcp_msg_free(c->t, m);
		break;
	case CLAIM_WAITS:
		c->held = m;
		c->paused = true;
		tw_conn_wait(c, &c->t->conns.unnamed);
	}
}

void tw_conn_wait(struct conn *c, struct conn **list)
{
	c->waits = *list;
	*list = c;
}

void tw_conn_wait_no_more(struct conn *c, struct conn **list)
{
	while (*list && *list != c)
		list = &(*list)->waits;
	if (*list)
		*list = c->waits;
}

void tw_conns_try_held(struct tw_tcp *t)
{
	struct conn *c, *next, *list = t->conns.unnamed;

	t->conns.unnamed = NULL; /* who must wait on puts itself there again */
	for (c = list; c; c = next) {
		struct tw_msg *m = c->held;

		next = c->waits;
		c->held = NULL;
		c->paused = false;
		deliver(c, m);
		c->again = c->again || !c->held;
		t->loop.more = t->loop.more || !c->held;
	}
}

static bool reader_message(void *arg, struct tw_msg *m)
{
	struct conn *c = arg;

	if (c->state == CONN_OPEN && !tw_type_is_worlds(m->h.type))
		deliver(c, m);
	else
		tw_handshake_message(c, m); /* takes m */
	/* what follows the terms waits until there are actors to hear it */
	if (c->dialled && c->state == CONN_OPEN && !c->t->port)
		return false;
	return c->state != CONN_DEAD && c->state != CONN_ENDING && !c->paused;
}

static void written(void *arg, struct tw_msg *m)
{
	struct conn *c = arg;

	c->queued--;
	tw_tcp_msg_free(c->t, m);
}

static void unlink_conn(struct conn *c)
{
	*c->at = c->next;
	if (c->next)
		c->next->at = c->at;
	c->t->conns.count--;
}

void tw_conn_trust(struct conn *c)
{
	tw_writer_trust(c->writer);
	tw_reader_trust(c->reader);
}

struct conn *tw_conn_new(struct tw_tcp *t, int fd, bool dialled, bool pair, struct peer *peer)
{
	struct conn *c = tw_heap_zeros(t->heap, sizeof *c);
	const bool tls = t->o.tls && !pair;

	if (!c) {
		tw_stream_close(tw_stream_plain(t->heap, fd));
		return NULL;
	}
	*c = (struct conn){ .t = t,
			    .dialled = dialled,
			    .pair = pair,
			    .peer = peer,
			    .since = t->loop.now,
			    .heard = t->loop.now,
			    .spoke = t->loop.now,
			    .wrote = t->loop.now,
			    .state = dialled && !pair ? CONN_DIALLING : CONN_SHAKING };
	if (pair)
		tw_address_widen_pair(fd);
	if (peer)
		tw_address_text(&peer->address, c->name);
	else
		tw_address_peer(fd, c->name);
	c->stream = tls ? tw_stream_tls(t->heap, fd, t->o.tls, dialled, c->name)
			: tw_stream_plain(t->heap, fd);
	c->writer = tw_writer_new(t->heap);
	c->owner = (struct tw_reader_owner){ .arg = c,
					     .msg_new = reader_msg,
					     .msg_free = reader_msg_free,
					     .admit = reader_admit,
					     .block = reader_block,
					     .message = reader_message };
	c->reader = tw_reader_new(t->heap, &c->owner);
	c->next = t->conns.all;
	c->at = &t->conns.all;
	if (c->next)
		c->next->at = &c->next;
	t->conns.all = c;
	t->conns.count++;
	if (!peer)
		t->conns.pending++;
	if (!c->stream || !c->writer || !c->reader) {
		tw_conn_close(c, "no memory for a connection");
		return NULL;
	}
	if (tls || pair)
		tw_conn_trust(c);
	tw_conn_arm(c);
	return c->state == CONN_DEAD ? NULL : c;
}

static void bury(struct tw_tcp *t, struct conn *c)
{
	if (c->reader)
		tw_reader_free(c->reader);
	if (c->writer)
		tw_writer_free(c->writer, written, c);
	if (c->held)
		tw_tcp_msg_free(t, c->held);
	tw_stream_close(c->stream);
	t->heap->put(t->heap, c);
}

void tw_conn_close(struct conn *c, const char *why)
{
	struct tw_tcp *t = c->t;
	const bool open = c->state == CONN_OPEN;
	struct peer *p = c->peer;

	if (c->state == CONN_DEAD)
		return;
	if (c->state == CONN_ASKING)
		t->conns.asking--;
	else if (c->state == CONN_SILENT)
		t->conns.silent--;
	else if (!open && !p)
		t->conns.pending--;
	if (c->held)
		tw_conn_wait_no_more(c, open ? &t->conns.unnamed : &t->conns.waiting);
	c->state = CONN_DEAD;
	if (c->watched)
		epoll_ctl(t->loop.epoll, EPOLL_CTL_DEL, tw_stream_fd(c->stream), NULL);
	c->grave = t->conns.dead;
	t->conns.dead = c;
	if (p && p->conn == c)
		tw_peer_lost(t, p, why);
}

/* --- silence ---------------------------------------------------------------------------------- */

/* A stopped process reads nothing, but its system takes what fits into the socket.  When something
 * is left to write here, the socket is full, and OVER would not fit either. */
static bool is_worth_keeping(const struct conn *c)
{
	return c->t->o.role == TW_TCP_SERVE && !c->pair && !tw_writer_busy(c->writer);
}

static void keep_silent(struct conn *c, const char *why)
{
	struct tw_tcp *t = c->t;
	struct peer *p = c->peer;

	if (t->conns.silent >= SILENT_MOST)
		tw_conn_close_silent(t);
	tw_reader_free(c->reader); /* with what it has of a message */
	c->reader = NULL;
	c->state = CONN_SILENT;
	c->process = p->process;
	c->peer = NULL;
	c->paused = c->again = false;
	t->conns.silent++;
	tw_peer_lost(t, p, why);
	tw_conn_arm(c);
}

void tw_conn_give_up(struct conn *c, const char *why)
{
	struct peer *p = c->pair ? NULL : c->peer; /* a pair's is given up by closing */

	if (is_worth_keeping(c))
		keep_silent(c, why);
	else
		tw_conn_close(c, why);
	if (p)
		tw_peer_down(c->t, p, why);
}

void tw_conn_forget_silent(struct tw_tcp *t, uint64_t process)
{
	struct conn *c = t->conns.silent ? t->conns.all : NULL;

	while (c && !(c->state == CONN_SILENT && c->process == process))
		c = c->next;
	if (c)
		tw_conn_close(c, "it has opened a new connection");
}

bool tw_conn_close_silent(struct tw_tcp *t)
{
	struct conn *oldest = NULL;

	for (struct conn *c = t->conns.all; c; c = c->next) /* the newest come first */
		if (c->state == CONN_SILENT)
			oldest = c;
	if (oldest)
		tw_conn_close(oldest, "the connection is needed for another process");
	return oldest != NULL;
}

/* It says something or has left: it must greet anew.  With words to write, those come first. */
static void silent_ready(struct conn *c)
{
	size_t put;

	if (!tw_writer_busy(c->writer) ||
	    tw_writer_run(c->writer, c->stream, TURN_BYTES, written, c, &put) > TW_FLOW_WAIT)
		tw_conn_close(c, "it is back");
	else
		tw_conn_arm(c);
}

/* --- bytes ------------------------------------------------------------------------------------ */

void tw_conns_bury(struct tw_tcp *t)
{
	while (t->conns.dead) {
		struct conn *c = t->conns.dead;

		t->conns.dead = c->grave;
		unlink_conn(c);
		bury(t, c);
	}
}

void tw_conn_arm(struct conn *c)
{
	unsigned events = c->paused ? 0 : EPOLLIN;
	struct epoll_event e = { .data.ptr = c };

	if (c->state == CONN_DEAD)
		return;
	if (c->state == CONN_DIALLING)
		events = EPOLLOUT;
	else if (c->state == CONN_SHAKING)
		events = tw_stream_wants(c->stream) ? tw_stream_wants(c->stream) : EPOLLIN;
	else if (tw_writer_busy(c->writer))
		events |= EPOLLOUT;
	if (c->watched && events == c->events)
		return;
	e.events = events;
	if (epoll_ctl(c->t->loop.epoll, c->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD,
		      tw_stream_fd(c->stream), &e) != 0) {
		tw_conn_close(c, "its socket cannot be watched");
		return;
	}
	c->watched = true;
	c->events = events;
}

static const char *reason(const struct conn *c)
{
	const char *why = tw_reader_why(c->reader);

	if (*why)
		return why;
	why = tw_stream_why(c->stream);
	return *why ? why : "the connection broke";
}

/* Who has not greeted and speaks nonsense is refused aloud. */
static void broke(struct conn *c)
{
	const char *why = reason(c);

	if (!c->dialled && c->state == CONN_GREETING && tw_reader_other_version(c->reader)) {
		tw_handshake_deny(c, TW_DENY_VERSION, 0, "%s", why);
		return;
	}
	if (!c->dialled && (c->state != CONN_OPEN || *tw_reader_why(c->reader)))
		tw_tcp_refusal(c->t, c->peer ? c->peer->name : c->name, "%s%s%s",
			       c->peer ? c->name : "", c->peer ? ": " : "", why);
	tw_conn_close(c, why);
}

static void bump(_Atomic uint64_t *count, size_t by)
{
	atomic_fetch_add_explicit(count, by, memory_order_relaxed);
}

static void read_some(struct conn *c);
static void say_fetched(struct conn *c);

/* What it said before it went may be the reason: hear that first.  One that waits with a message in
 * hand has nobody to hear the next one. */
static void write_broke(struct conn *c)
{
	const bool first = !c->broken;

	c->broken = true;
	if (first && !c->held)
		read_some(c);
	if (c->state != CONN_DEAD)
		broke(c);
}

/* PING says how much we have sent to all, since this master is there. */
static void ping(struct conn *c)
{
	struct tw_tcp *t = c->t;

	c->told = atomic_load_explicit(&t->counts.sent, memory_order_relaxed);
	tw_writer_ping(c->writer, c->told - t->counts.before);
}

/* The master hears of it with whatever it is told next, so that it knows it at the end. */
static void tell_sent(struct conn *c)
{
	const uint64_t sent = atomic_load_explicit(&c->t->counts.sent, memory_order_relaxed);

	if (c->state == CONN_OPEN && c->peer == c->t->peers.master && sent - c->told >= TELL_BYTES)
		ping(c);
}

static void write_some(struct conn *c)
{
	size_t put = 0;
	enum tw_flow flow;

	tell_sent(c);
	flow = tw_writer_run(c->writer, c->stream, TURN_BYTES, written, c, &put);
	if (put) {
		c->spoke = c->wrote = c->t->loop.now;
		bump(&c->t->counts.sent, put);
		if (c->peer)
			bump(&c->peer->bytes_sent, put);
	}
	if (!tw_writer_busy(c->writer))
		c->wrote = c->t->loop.now;
	if (c->state == CONN_ENDING && (flow > TW_FLOW_WAIT || tw_conn_is_done(c)))
		tw_conn_close(c, "refused");
	else if (flow == TW_FLOW_BROKEN || flow == TW_FLOW_END)
		write_broke(c);
}

/* Actors that cannot keep up with what is sent to them: whoever sends must wait. */
static bool flooded(const struct conn *c, size_t all)
{
	struct tw_tcp *t = c->t;
	bool full = false;

	if (!c->peer || c->peer->role != TW_WORKER)
		return false;
	pthread_mutex_lock(&t->port_lock);
	if (t->port)
		full = tw_port_mailed(t->port) > 8 * all + (64u << 20);
	pthread_mutex_unlock(&t->port_lock);
	return full;
}

static void pause_or_go_on(struct conn *c)
{
	const struct tw_tcp_options *o = &c->t->o;
	const size_t all = o->border ? o->border[o->shards] * o->width * sizeof(float) : 0;
	/* who only asks waits for each answer */
	const size_t most = c->state == CONN_ASKING ? 0 : 2 * all + (16u << 20);
	const size_t bytes = tw_writer_bytes(c->writer);

	/* of those that are lent, only what is read next can say that they were fetched */
	const size_t queued = c->queued - tw_writer_lent(c->writer);

	if (c->held)
		return;
	if (queued > QUEUE_MOST || bytes > most || flooded(c, all))
		c->paused = c->t->loop.hurried = true;
	else if (queued < QUEUE_MOST / 2 && bytes < most / 2 + 1)
		c->paused = false;
}

static void read_some(struct conn *c)
{
	size_t got = 0;
	const uint64_t fetched = tw_reader_fetched(c->reader);
	struct tw_tcp *t = c->t;
	const size_t most = t->o.peers ? PIECE_BYTES : TURN_BYTES;
	const enum tw_flow flow = tw_reader_run(c->reader, c->stream, most, &got);

	if (c->state == CONN_OPEN && tw_reader_fetched(c->reader) != fetched)
		say_fetched(c);

	if (got) {
		c->heard = t->loop.now;
		bump(&t->counts.received, got);
		if (c->peer && c->state != CONN_DEAD) /* what was read may have ended it */
			bump(&c->peer->bytes_received, got);
	}
	if (c->state == CONN_DEAD || c->state == CONN_ENDING)
		return;
	if (flow == TW_FLOW_END)
		tw_conn_close(c, "it closed the connection");
	else if (flow == TW_FLOW_BROKEN)
		broke(c);
	else
		c->again = flow == TW_FLOW_OK || tw_stream_pending(c->stream);
}

/* --- lending ---------------------------------------------------------------------------------- */

static void send_lend(struct conn *c, const struct tw_body_lend *b)
{
	struct tw_msg *m = tw_tcp_msg(c->t, TW_LEND);

	if (!m) {
		tw_conn_close(c, "no memory");
		return;
	}
	m->b.lend = *b;
	tw_conn_send(c, m);
}

static void say_fetched(struct conn *c)
{
	send_lend(c, &(struct tw_body_lend){ .what = TW_LEND_TAKEN,
					     .taken = tw_reader_fetched(c->reader) });
}

void tw_conn_offer(struct conn *c)
{
	struct tw_lender from;
	uint64_t token;

	if (!c->pair || getrandom(&token, sizeof token, GRND_NONBLOCK) != sizeof token || !token)
		return;
	from = tw_writer_lender(c->writer, token);
	send_lend(c, &(struct tw_body_lend){ .what = TW_LEND_OFFER,
					     .process = from.process,
					     .cell = from.cell,
					     .token = from.token });
}

void tw_conn_lend(struct conn *c, const struct tw_body_lend *b)
{
	const struct tw_lender from = { b->process, b->cell, b->token };

	switch (b->what) {
	case TW_LEND_OFFER:
		if (!tw_lend_works(&from)) /* the system forbids it: the socket does */
			return;
		tw_reader_borrow(c->reader, &from);
		send_lend(c, &(struct tw_body_lend){ .what = TW_LEND_MAY });
		break;
	case TW_LEND_MAY:
		tw_writer_lend(c->writer);
		break;
	case TW_LEND_TAKEN:
		if (!tw_writer_taken(c->writer, b->taken, written, c))
			tw_conn_close(c, "it fetched more than it was lent");
		break;
	}
}

bool tw_conn_is_done(const struct conn *c)
{
	return !tw_writer_busy(c->writer) && !tw_writer_lent(c->writer);
}

static bool shake(struct conn *c)
{
	switch (tw_stream_shake(c->stream)) {
	case TW_FLOW_OK:
		c->state = CONN_GREETING;
		c->heard = c->t->loop.now;
		if (c->dialled)
			tw_handshake_send(c);
		return true;
	case TW_FLOW_WAIT:
		return false;
	case TW_FLOW_END:
		tw_conn_close(c, "it closed the connection during the TLS handshake");
		return false;
	default:
		broke(c);
		return false;
	}
}

static bool connected(struct conn *c)
{
	int error = 0;
	socklen_t len = sizeof error;

	getsockopt(tw_stream_fd(c->stream), SOL_SOCKET, SO_ERROR, &error, &len);
	if (error) {
		tw_conn_close(c, strerror(error));
		return false;
	}
	c->state = CONN_SHAKING;
	return true;
}

void tw_conn_ready(struct conn *c)
{
	if (c->state == CONN_SILENT) {
		silent_ready(c);
		return;
	}
	if (c->state == CONN_DIALLING && !connected(c))
		return;
	if (c->state == CONN_SHAKING && !shake(c)) {
		tw_conn_arm(c);
		return;
	}
	if (c->state == CONN_DEAD)
		return;
	pause_or_go_on(c);
	if (!c->paused && c->state != CONN_ENDING)
		read_some(c);
	if (c->state != CONN_DEAD && tw_writer_busy(c->writer))
		write_some(c);
	if (c->state != CONN_DEAD) {
		pause_or_go_on(c);
		tw_conn_arm(c);
		c->t->loop.more = c->t->loop.more || (c->again && !c->paused);
	}
}

void tw_conn_send(struct conn *c, struct tw_msg *m)
{
	if (c->state == CONN_DEAD) {
		tw_tcp_msg_free(c->t, m);
		return;
	}
	c->queued++;
	m->next = NULL;
	tw_writer_add(c->writer, m);
}

void tw_conn_flush(struct conn *c)
{
	if (c->state == CONN_SILENT) {
		silent_ready(c);
		return;
	}
	if (c->state >= CONN_GREETING && c->state != CONN_DEAD && tw_writer_busy(c->writer))
		write_some(c);
	if (c->state != CONN_DEAD) {
		pause_or_go_on(c);
		tw_conn_arm(c);
		c->t->loop.more = c->t->loop.more || (c->again && !c->paused);
	}
}

/* --- time ------------------------------------------------------------------------------------- */

static double seconds(int64_t ns)
{
	return (double)ns / (double)TW_SECOND;
}

static void tick_open(struct conn *c)
{
	struct tw_tcp *t = c->t;
	int64_t silent, stuck;
	char why[96];

	if (c->paused) { /* nobody else may tell us that there is room again */
		tw_conn_flush(c);
		if (c->state == CONN_DEAD)
			return;
		if (!c->paused)
			c->heard = t->loop.now;
	}
	silent = t->loop.now - c->heard;
	stuck = t->loop.now - c->wrote;
	if (c->held && silent >= NAMED_TIME) { /* if it is named later, it says all of it again */
		tw_tcp_refusal(
			t, c->name,
			"%s as worker %u is ignored: the master has not announced this worker",
			tw_type_name(c->held->h.type), c->held->h.from);
		tw_conn_close(c, "the master has not announced it");
		return;
	}
	if (!c->paused && silent >= t->beat.limit) {
		tw_conn_ready(c); /* if it was us who stood still, what it said lies there */
		if (c->state != CONN_OPEN || c->heard == t->loop.now)
			return;
		snprintf(why, sizeof why, "it was silent for %.1f s", seconds(silent));
		tw_conn_give_up(c, why);
		return;
	}
	if (tw_writer_busy(c->writer) && stuck >= t->beat.limit) {
		snprintf(why, sizeof why, "it has not read for %.1f s", seconds(stuck));
		tw_conn_close(c, why);
		return;
	}
	if (!c->paused && silent >= t->beat.suspect && !c->peer->suspect) {
		c->peer->suspect = true;
		tw_log_line(t->o.log, TW_WARNING, t->self.who,
			    "%s on %s has been silent for %.1f s", c->peer->name, c->peer->host,
			    seconds(silent));
	} else if (silent < t->beat.suspect) {
		c->peer->suspect = false;
	}
	if (t->loop.now - c->spoke >= t->beat.every && !tw_writer_busy(c->writer)) {
		ping(c);
		tw_conn_flush(c);
	}
}

void tw_conns_tick(struct tw_tcp *t)
{
	tw_tcp_refusals_tick(t);
	for (struct conn *c = t->conns.all; c; c = c->next) {
		const int64_t age = t->loop.now - c->since;

		switch (c->state) {
		case CONN_DEAD:
			break;
		case CONN_OPEN:
			tick_open(c);
			break;
		case CONN_SILENT:
			break;
		case CONN_ENDING:
			if (age > GREET_TIME)
				tw_conn_close(c, "refused");
			break;
		case CONN_ASKING:
			if (t->loop.now - c->heard > 6 * GREET_TIME ||
			    t->loop.now - c->wrote > 2 * t->beat.limit)
				tw_conn_close(c, "it asked for nothing else");
			break;
		default:
			if (c->held && age > NAMED_TIME) {
				tw_greet_too_late(c);
				break;
			}
			if (age <= GREET_TIME)
				break;
			if (!c->dialled)
				tw_tcp_refusal(t, c->name, "it sent no greeting for %.0f s",
					       seconds(GREET_TIME));
			tw_conn_close(c, c->state == CONN_DIALLING ? "no answer"
								   : "it did not answer in time");
		}
	}
}
