/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_peer.c - processes that we know: who is there, who is dialled again, who is given up. */
#include "world/tcp/tcp_inner.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

/* In a sentence there is one master, and many of the others. */
static const char *the(const struct peer *p)
{
	return p->role == TW_MASTER ? "the " : "";
}

static void tell(struct tw_tcp *t, const struct peer *p, bool up)
{
	bool ok = true;

	pthread_mutex_lock(&t->port_lock);
	if (t->port && p->role == TW_MASTER)
		ok = up ? tw_port_up(t->port, 0, p->master_boot) : tw_port_down(t->port, 0);
	if (t->port && ok && p->node)
		ok = up ? tw_port_up(t->port, p->node, p->boot) : tw_port_down(t->port, p->node);
	pthread_mutex_unlock(&t->port_lock);
	if (!ok)
		tw_tcp_end(t, TW_NO_MEMORY, "no memory for news of %s", p->name);
}

void tw_peer_up(struct tw_tcp *t, struct peer *p, struct conn *c)
{
	const bool named = p->slot != UINT32_MAX;
	const bool back = p->dial.attempt > 1 || p->told_down || (p->lost && p->heard);

	if (p->conn && p->conn != c) {
		struct conn *old = p->conn;

		p->conn = NULL;
		tw_conn_close(old, "it has opened a new connection");
	}
	if (back)
		tw_log_line(t->o.log, TW_INFO, t->self.who, "connected to %s%s on %s again", the(p),
			    p->name, p->host);
	else if (t->o.role == TW_TCP_SERVE && p->role == TW_SERVER && !p->paired)
		tw_log_line(t->o.log, TW_INFO, t->self.who, "%s on %s joined", p->name, p->host);
	p->conn = c;
	p->lost = 0;
	p->dial.attempt = 0;
	p->told_down = p->leaves = false;
	p->suspect = false;
	p->dial.complained = p->dial.since = 0;
	c->peer = p;
	c->state = CONN_OPEN;
	c->heard = c->wrote = t->loop.now;
	tw_conn_offer(c);
	/* open first: what an actor says when it hears of it must not find the door closed */
	pthread_mutex_lock(&t->lock);
	tw_peer_say_nothing(t, p);
	p->heard = t->loop.now;
	p->open = true;
	if (t->o.role == TW_TCP_WORKER && p->role == TW_WORKER && !named)
		tw_identity_name(t, p);
	pthread_mutex_unlock(&t->lock);
	tell(t, p, true); /* (4) */
	/* who outlived an earlier master is told at once whom it need not dial any more */
	if (t->o.role == TW_TCP_SERVE &&
	    (tw_tcp_workers_meet(t) || p->role == TW_SERVER || t->o.servers > 1))
		tw_peers_broadcast(t, p);
}

/* Later, by tw_peers_regroup: writing to peers may end some, and callers walk the list of them. */
static void gone_from(struct tw_tcp *t, const struct peer *p)
{
	t->peers.regroup = t->peers.regroup || (t->o.role == TW_TCP_SERVE &&
						(tw_tcp_workers_meet(t) || p->role == TW_SERVER));
}

/* Exponential backoff with jitter. */
static int64_t pause_for(unsigned attempt)
{
	int64_t pause = BACKOFF_FIRST;
	uint32_t dice = 0;

	while (attempt-- > 0 && pause < BACKOFF_MOST)
		pause *= 2;
	pause = pause < BACKOFF_MOST ? pause : BACKOFF_MOST;
	if (getrandom(&dice, sizeof dice, GRND_NONBLOCK) < 0)
		dice = UINT32_MAX / 2;
	return pause / 2 + (int64_t)((double)pause / 2 * dice / UINT32_MAX);
}

static void complain(struct tw_tcp *t, struct peer *p, const char *why)
{
	char where[TW_ADDRESS_TEXT];

	if (!p->dial.since)
		p->dial.since = t->loop.now;
	if (p->dial.complained && t->loop.now - p->dial.complained < 5 * TW_SECOND)
		return;
	p->dial.complained = t->loop.now;
	tw_address_text(&p->address, where);
	/* one that was given up may have left for good: that was said */
	tw_log_line(t->o.log, p->told_down && p->role != TW_MASTER ? TW_DEBUG : TW_WARNING,
		    t->self.who, "%s %s%s at %s (%.0f s): %s; trying again",
		    p->dial.deferred ? "waiting for" : "cannot reach", the(p), p->name, where,
		    (double)(t->loop.now - p->dial.since) / (double)TW_SECOND, why);
}

/* A worker that another than the master loses may have heard of the end before it; the master
 * knows, and warns. */
static enum tw_level level_for(const struct tw_tcp *t, const struct peer *p)
{
	if (p->leaves) /* as it said */
		return TW_DEBUG;
	return t->o.role != TW_TCP_SERVE && p->role == TW_WORKER ? TW_INFO : TW_WARNING;
}

/* A worker that is nobody yet: who comes and goes so is worth no line of its own. */
static bool is_stranger(const struct peer *p)
{
	return p->role == TW_WORKER && p->slot == UINT32_MAX;
}

void tw_peer_lost(struct tw_tcp *t, struct peer *p, const char *why)
{
	const bool was = p->open;

	p->conn = NULL;
	pthread_mutex_lock(&t->lock);
	p->open = false;
	tw_peer_say_nothing(t, p);
	pthread_mutex_unlock(&t->lock);
	if (was)
		p->lost = t->loop.now;
	if (p->leaves)
		gone_from(t, p);
	if (t->farewell.ending || t->end.over)
		return;
	if (was && is_stranger(p))
		tw_tcp_refusal(t, p->name, "lost the connection to it on %s: %s", p->host, why);
	else if (was)
		tw_log_line(t->o.log, level_for(t, p), t->self.who,
			    "lost the connection to %s%s on %s: %s", the(p), p->name, p->host, why);
	if (p->paired) {
		if (p->role == TW_MASTER)
			tw_tcp_end(t, TW_IO, "the process that started this one is gone");
		else
			tw_peer_down(t, p, why);
		return;
	}
	if (!p->dial.wanted)
		return;
	if (!was)
		complain(t, p, why);
	if (p->dial.at <= t->loop.now)
		p->dial.at = t->loop.now + pause_for(p->dial.attempt);
}

void tw_peer_down(struct tw_tcp *t, struct peer *p, const char *why)
{
	if (p->told_down || p->open)
		return;
	p->told_down = true;
	if (!p->leaves) /* else it was told when the connection was lost */
		gone_from(t, p);
	/* where actors are told which node is gone, they log it */
	if (p->role != TW_MASTER && !is_stranger(p) && !t->farewell.ending)
		tw_log_line(t->o.log,
			    p->role == TW_SERVER && t->o.role == TW_TCP_WORKER ? TW_WARNING
									       : TW_DEBUG,
			    t->self.who, "%s on %s is considered lost: %s", p->name, p->host, why);
	tell(t, p, false);
	if (p->role == TW_WORKER && t->o.role == TW_TCP_SERVE)
		tw_ticket_tell(t, p, true);
	/* its ticket makes it known again */
	if (p->role == TW_WORKER && !p->conn && !p->dial.wanted)
		tw_peer_forget(t, p);
}

/* A broken pair cannot be replaced. */
static bool may_dial(const struct peer *p)
{
	return p->dial.wanted && !p->conn && (!p->paired || p->dial.fd >= 0);
}

static void dial(struct tw_tcp *t, struct peer *p)
{
	struct tw_error why = { 0 };
	int fd = p->dial.fd;

	p->dial.fd = -1;
	p->dial.deferred = false;
	p->dial.attempt++;
	if (fd < 0 && tw_address_dial(&p->address, p->dial.attempt - 1, &fd, &why) != TW_OK) {
		complain(t, p, why.text);
		p->dial.at = t->loop.now + pause_for(p->dial.attempt);
		return;
	}
	p->dial.at = 0;
	p->conn = tw_conn_new(t, fd, true, p->paired, p);
	if (!p->conn)
		tw_peer_lost(t, p, "no memory for a connection");
	else if (p->paired)
		tw_conn_ready(p->conn);
}

void tw_peers_tick(struct tw_tcp *t)
{
	for (struct peer *p = t->peers.all; p; p = p->next) {
		const int64_t gone = p->lost ? t->loop.now - p->lost : 0;

		if (p->forgotten)
			continue;
		if (p->conn && p->open) {
			pthread_mutex_lock(&t->lock);
			p->heard = p->conn->heard;
			pthread_mutex_unlock(&t->lock);
			continue;
		}
		if (p == t->peers.master && !t->end.asked && t->o.interrupted && *t->o.interrupted)
			t->end.asked = t->loop.now;
		/* who can go without the master has gone by now */
		if (p == t->peers.master && gone > CLOSED_GRACE && t->port && t->end.asked &&
		    t->loop.now - t->end.asked > CLOSED_GRACE) {
			tw_tcp_end(t, TW_INTERRUPTED,
				   "left without the master, which cannot be reached");
			return;
		}
		if (p == t->peers.master && t->o.patience && gone > t->o.patience && t->port) {
			tw_tcp_end(t, TW_IO, "the master could not be reached for %.0f s",
				   (double)gone / (double)TW_SECOND);
			return;
		}
		if (may_dial(p) && t->loop.now >= p->dial.at && !t->end.over)
			dial(t, p);
		if (p->lost && !p->told_down && gone >= CLOSED_GRACE)
			tw_peer_down(t, p, "it has not come back");
	}
}

int64_t tw_peers_next(const struct tw_tcp *t)
{
	/* who is not a worker dials the master at most, and may know thousands */
	const bool many = t->o.role != TW_TCP_WORKER;
	int64_t next = t->loop.now + 200 * MS;

	for (const struct peer *p = many ? t->peers.master : t->peers.all; p;
	     p = many ? NULL : p->next)
		if (may_dial(p) && p->dial.at < next)
			next = p->dial.at;
	return next;
}
