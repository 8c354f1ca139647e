/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_loop.c - the loop of the I/O thread: what is ready, what is due. */
#include "world/tcp/tcp_inner.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define EVENTS    64
#define ACCEPTS   64              /* connections taken in one turn */
#define FULL      (TW_SECOND / 2) /* no descriptor is free: a pause before the next try */
#define TICK_EACH (MS / 4)        /* between two looks at all connections, for each of them */
#define STOPPED   (3 * TW_SECOND) /* a turn that took longer: the process itself was stopped */

bool tw_loop_open(struct tw_tcp *t, struct tw_error *why)
{
	struct epoll_event e = { .events = EPOLLIN, .data.ptr = &t->loop.bell };
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
		files.rlim_cur = files.rlim_max < 65536 ? files.rlim_max : 65536;
		setrlimit(RLIMIT_NOFILE, &files); /* many peers; where not allowed, fewer */
	}
	t->loop.epoll = epoll_create1(EPOLL_CLOEXEC);
	t->loop.bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (t->loop.epoll < 0 || t->loop.bell < 0 ||
	    epoll_ctl(t->loop.epoll, EPOLL_CTL_ADD, t->loop.bell, &e) != 0) {
		tw_fail(why, TW_IO, "cannot watch sockets: %s", strerror(errno));
		return false;
	}
	return true;
}

/* Accept only when there is somebody to talk to. */
static void listen_or_not(struct tw_tcp *t)
{
	const bool want = t->door.listener >= 0 && t->loop.now >= t->door.accept_at &&
			  ((t->port && !t->farewell.ending) || t->farewell.giving);
	struct epoll_event e = { .events = EPOLLIN, .data.ptr = &t->door.listener };

	if (want == t->door.listening)
		return;
	if (epoll_ctl(t->loop.epoll, want ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, t->door.listener, &e) ==
	    0)
		t->door.listening = want;
}

/* False: nobody waits to greet. */
static bool close_oldest(struct tw_tcp *t)
{
	struct conn *oldest = NULL;

	for (struct conn *c = t->conns.all; c; c = c->next) /* the newest come first */
		if (!c->peer && c->state != CONN_ASKING && c->state != CONN_SILENT &&
		    c->state != CONN_DEAD)
			oldest = c;
	if (!oldest)
		return false;
	tw_tcp_refusal(t, oldest->name, "too many connections have not greeted yet");
	/* freed later: epoll may have named it, too */
	tw_conn_close(oldest, "too many connections have not greeted yet");
	return true;
}

/* Who knocks stays in the kernel's queue, and epoll would name the listener again and again: it is
 * not asked for a while.  Somebody may have gone by then. */
static void cannot_accept(struct tw_tcp *t, int error)
{
	if (tw_conn_close_silent(t) || close_oldest(t))
		return;
	t->door.accept_at = t->loop.now + FULL;
	if (t->door.full_said && t->loop.now - t->door.full_said < 5 * TW_SECOND)
		return;
	t->door.full_said = t->loop.now;
	tw_log_line(t->o.log, TW_WARNING, t->self.who,
		    "cannot accept another connection: %s; waiting", strerror(error));
}

static bool is_scarce(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

/* Was it reset before we took it?  Then it has no name any more, and there is nobody to refuse. */
static bool is_gone(int fd)
{
	struct sockaddr_storage at;
	socklen_t len = sizeof at;

	return getpeername(fd, (struct sockaddr *)&at, &len) != 0;
}

/* Linux takes a descriptor before it looks at the queue, so accept fails for want of one even if
 * nobody has connected. */
static bool somebody_connects(const struct tw_tcp *t)
{
	struct pollfd p = { .fd = t->door.listener, .events = POLLIN };

	return poll(&p, 1, 0) != 0; /* without a free descriptor poll may fail as well */
}

static void accept_all(struct tw_tcp *t)
{
	for (int k = 0; k < ACCEPTS; k++) {
		const int fd = accept4(t->door.listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		struct conn *c;

		if (fd < 0) {
			const int error = errno;

			if (is_scarce(error) && somebody_connects(t))
				cannot_accept(t, error);
			return;
		}
		if (is_gone(fd)) {
			close(fd);
			continue;
		}
		if (t->conns.pending >= PENDING_MOST)
			close_oldest(t);
		tw_address_tune(fd);
		c = tw_conn_new(t, fd, false, false, NULL);
		if (c)
			tw_conn_ready(c);
	}
}

/* Inherited pairs, once. */
static void accept_pairs(struct tw_tcp *t)
{
	while (t->port && t->door.paired < t->o.accepts) {
		struct conn *c = tw_conn_new(t, t->o.accepted[t->door.paired++], false, true, NULL);

		if (c)
			tw_conn_ready(c);
	}
}

/* Who was stopped (SIGSTOP, a suspended laptop) has not listened: nobody is to blame for that. */
static void forgive(struct tw_tcp *t)
{
	const int64_t gap = t->loop.now - t->loop.turned;

	if (t->loop.turned && gap > STOPPED) {
		tw_log_line(t->o.log, TW_WARNING, t->self.who,
			    "this process did not run for %.1f s", (double)gap / (double)TW_SECOND);
		for (struct conn *c = t->conns.all; c; c = c->next) {
			c->heard += gap;
			c->wrote += gap;
			c->since += gap;
		}
	}
	t->loop.turned = t->loop.now;
}

static void say_over(struct conn *c, const struct tw_msg *over)
{
	struct tw_msg *m = tw_tcp_msg(c->t, TW_OVER);

	if (!m) { /* it hears of the end by that */
		tw_conn_close(c, "no memory");
		return;
	}
	m->b = over->b;
	m->payload = tw_block_keep(over->payload);
	m->h.payload = over->h.payload;
	tw_conn_send(c, m);
	tw_conn_flush(c);
}

static void say_farewell(struct tw_tcp *t)
{
	struct tw_msg *over;
	bool busy = false;

	pthread_mutex_lock(&t->lock);
	over = t->farewell.over;
	t->farewell.over = NULL;
	pthread_mutex_unlock(&t->lock);
	if (over) {
		t->farewell.ending = true;
		t->farewell.giving = t->farewell.model != NULL;
		for (struct peer *p = t->peers.all; p; p = p->next)
			if (p->open)
				say_over(p->conn, over);
		for (struct conn *c = t->conns.all; c; c = c->next)
			if (c->state == CONN_SILENT)
				say_over(c, over);
		tw_tcp_msg_free(t, over);
	}
	if (!t->farewell.ending)
		return;
	for (struct conn *c = t->conns.all; c; c = c->next)
		busy = busy || c->state == CONN_OPEN ||
		       (t->farewell.giving && c->state == CONN_ASKING);
	atomic_store(&t->farewell.flushed, !busy);
}

static void leave_when_said(struct tw_tcp *t)
{
	bool busy = false;

	if (!atomic_load(&t->end.gone) || t->end.over)
		return;
	if (!t->end.gone_at) {
		t->end.gone_at = t->loop.now;
		tw_peers_leave(t);
	}
	for (struct conn *c = t->conns.all; c; c = c->next)
		busy = busy || (c->state != CONN_DEAD && !tw_conn_is_done(c));
	if (busy && t->loop.now - t->end.gone_at < 5 * TW_SECOND)
		return;
	t->end.over = true;
	tw_tcp_end(t, TW_OK, "%s", "");
}

static void hear_bell(struct tw_tcp *t)
{
	uint64_t count;

	if (read(t->loop.bell, &count, sizeof count) < 0)
		return;
}

static bool is_held(const struct conn *c)
{
	return c->held != NULL;
}

static void handle(struct tw_tcp *t, const struct epoll_event *e)
{
	if (e->data.ptr == &t->loop.bell)
		hear_bell(t);
	else if (e->data.ptr == &t->door.listener)
		accept_all(t);
	else if (is_held(e->data.ptr) && (e->events & (EPOLLHUP | EPOLLERR)))
		tw_conn_close(e->data.ptr, "the connection broke"); /* nobody would read that */
	else
		tw_conn_ready(e->data.ptr);
}

/* Often enough for heartbeats; looking at hundreds of connections is not free.  Where there are
 * more, once in half a heartbeat is enough, unless one is paused: nobody else looks after it. */
static int64_t tick_every(const struct tw_tcp *t)
{
	const int64_t some = t->beat.every / 8, most = t->beat.every / 2;
	const int64_t usual = some < 10 * MS ? 10 * MS : some > 125 * MS ? 125 * MS : some;
	const int64_t crowd = t->conns.count * TICK_EACH;

	if (t->loop.hurried || crowd <= usual || most <= usual)
		return usual;
	return crowd < most ? crowd : most;
}

/* What our actors have said of workers: connect them, or let those speak who waited for it. */
static void hear_actors(struct tw_tcp *t)
{
	if (!tw_identity_hear(t))
		return;
	if (t->o.role == TW_TCP_SERVE)
		tw_peers_group(t);
	else
		tw_identity_try_held(t);
}

void tw_loop_turn(struct tw_tcp *t, int64_t until)
{
	struct epoll_event e[EVENTS];
	int64_t wait;
	int count;

	t->loop.now = tw_clock();
	forgive(t);
	listen_or_not(t);
	accept_pairs(t);
	if (t->loop.now - t->loop.ticked >= tick_every(t) || t->loop.now >= tw_peers_next(t)) {
		t->loop.ticked = t->loop.now;
		t->loop.hurried = false;
		tw_peers_tick(t);
		tw_conns_tick(t);
	}
	hear_actors(t);
	tw_peers_regroup(t);
	tw_peers_collect(t);
	say_farewell(t);
	leave_when_said(t);
	tw_conns_bury(t);
	tw_peers_bury(t);
	wait = tw_peers_next(t) < until ? tw_peers_next(t) : until;
	wait = t->loop.more || wait <= t->loop.now ? 0 : (wait - t->loop.now + MS - 1) / MS;
	count = epoll_wait(t->loop.epoll, e, EVENTS, (int)wait);
	t->loop.now = tw_clock();
	if (t->loop.more) {
		t->loop.more = false;
		for (struct conn *c = t->conns.all; c; c = c->next)
			if (c->state >= CONN_GREETING && c->state != CONN_DEAD && c->again &&
			    !c->paused)
				tw_conn_ready(c);
	}
	for (int k = 0; k < count; k++)
		handle(t, &e[k]);
	pthread_mutex_lock(&t->port_lock);
	if (t->port)
		tw_port_work(t->port);
	pthread_mutex_unlock(&t->port_lock);
	tw_peers_collect(t);
	tw_conns_bury(t);
	tw_peers_bury(t);
}

void tw_loop_close(struct tw_tcp *t)
{
	for (struct conn *c = t->conns.all; c; c = c->next)
		tw_conn_close(c, "the process ends");
	tw_conns_bury(t);
	tw_peers_bury(t);
	for (; t->door.paired < t->o.accepts; t->door.paired++)
		close(t->o.accepted[t->door.paired]);
	if (t->door.listener >= 0)
		close(t->door.listener);
	if (t->loop.bell >= 0)
		close(t->loop.bell);
	if (t->loop.epoll >= 0)
		close(t->loop.epoll);
}
