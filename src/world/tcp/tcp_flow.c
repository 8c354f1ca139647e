/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_flow.c - the bytes of a connection: written, read, lent; invariants: tcp_inner.h. */
#include "world/tcp/tcp_inner.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

/* --- messages out ----------------------------------------------------------------------------- */

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

/* PING says how much we have sent to all, since this master is there. */
void tw_conn_ping(struct conn *c)
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
		tw_conn_ping(c);
}

static void bump(_Atomic uint64_t *count, size_t by)
{
	atomic_fetch_add_explicit(count, by, memory_order_relaxed);
}

static void read_some(struct conn *c);
static void broke(struct conn *c);

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

static void write_some(struct conn *c)
{
	size_t put = 0;
	enum tw_flow flow;

	tell_sent(c);
	flow = tw_writer_run(c->writer, c->stream, TURN_BYTES, tw_conn_written, c, &put);
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

/* It says something or has left: it must greet anew.  With words to write, those come first. */
static void silent_ready(struct conn *c)
{
	size_t put;

	if (!tw_writer_busy(c->writer) || tw_writer_run(c->writer, c->stream, TURN_BYTES,
							tw_conn_written, c, &put) > TW_FLOW_WAIT)
		tw_conn_close(c, "it is back");
	else
		tw_conn_arm(c);
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

bool tw_conn_is_done(const struct conn *c)
{
	return !tw_writer_busy(c->writer) && !tw_writer_lent(c->writer);
}

void tw_conn_deny(struct conn *c, enum tw_denial code, uint32_t wait_ms, const char *format, ...)
{
	struct tw_tcp *t = c->t;
	struct tw_msg *m = tw_tcp_msg(t, TW_DENY);
	char text[400];
	va_list list;

	va_start(list, format);
	vsnprintf(text, sizeof text, format, list);
	va_end(list);
	if (!wait_ms)
		tw_tcp_refusal(t, c->name, "refused: %s", text);
	if (m)
		m->payload = tw_block_new(t->heap, strlen(text));
	if (!m || !m->payload) {
		if (m)
			tw_tcp_msg_free(t, m);
		tw_conn_close(c, "no memory");
		return;
	}
	memcpy(m->payload->data, text, strlen(text));
	m->h.payload = (uint32_t)strlen(text);
	m->b.deny = (struct tw_body_deny){ .why = code, .wait = wait_ms };
	if (c->state == CONN_ASKING) {
		t->conns.asking--;
		t->conns.pending++;
	}
	c->state = CONN_ENDING;
	tw_conn_send(c, m);
	tw_conn_flush(c);
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
		if (!tw_writer_taken(c->writer, b->taken, tw_conn_written, c))
			tw_conn_close(c, "it fetched more than it was lent");
		break;
	}
}

/* --- bytes in --------------------------------------------------------------------------------- */

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
		tw_conn_deny(c, TW_DENY_VERSION, 0, "%s", why);
		return;
	}
	if (!c->dialled && (c->state != CONN_OPEN || *tw_reader_why(c->reader)))
		tw_tcp_refusal(c->t, c->peer ? c->peer->name : c->name, "%s%s%s",
			       c->peer ? c->name : "", c->peer ? ": " : "", why);
	tw_conn_close(c, why);
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

static bool shake(struct conn *c)
{
	switch (tw_stream_shake(c->stream)) {
	case TW_FLOW_OK:
		c->state = CONN_GREETING;
		c->heard = c->t->loop.now;
		if (c->dialled)
			c->t->ears->shaken(c);
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
