/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_conn.c - one connection: its beginning, its states, its end; invariants: tcp_inner.h. */
#include "world/tcp/tcp_inner.h"

#include <sys/epoll.h>

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
	struct conn *c = arg;

	return c->t->ears->admit(c, h, why);
}

static struct tw_block *reader_block(void *arg, const struct tw_header *h)
{
	struct conn *c = arg;

	return tw_payload_block(&c->t->blocks, h->payload);
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

static bool reader_message(void *arg, struct tw_msg *m)
{
	struct conn *c = arg;

	c->t->ears->message(c, m); /* takes m */
	/* what follows the terms waits until there are actors to hear it */
	if (c->dialled && c->state == CONN_OPEN && !c->t->port)
		return false;
	return c->state != CONN_DEAD && c->state != CONN_ENDING && !c->paused;
}

void tw_conn_written(void *arg, struct tw_msg *m)
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
		tw_writer_free(c->writer, tw_conn_written, c);
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
		t->ears->lost(t, p, why);
}

/* --- silence ---------------------------------------------------------------------------------- */

/* A stopped process reads nothing, but its system takes what fits into the socket.  When something
 * is left to write here, the socket is full, and OVER would not fit either. */
static bool is_worth_keeping(const struct conn *c)
{
	return c->t->o.role == TW_TCP_SERVE && !c->pair && !tw_writer_busy(c->writer);
}

bool tw_conn_keep_silent(struct conn *c, const char *why)
{
	struct tw_tcp *t = c->t;
	struct peer *p = c->peer;

	if (!is_worth_keeping(c))
		return false;
	if (t->conns.silent >= SILENT_MOST)
		tw_conn_close_silent(t);
	tw_reader_free(c->reader); /* with what it has of a message */
	c->reader = NULL;
	c->state = CONN_SILENT;
	c->process = p->process;
	c->peer = NULL;
	c->paused = c->again = false;
	t->conns.silent++;
	t->ears->lost(t, p, why);
	tw_conn_arm(c);
	return true;
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

/* --- time ------------------------------------------------------------------------------------- */
