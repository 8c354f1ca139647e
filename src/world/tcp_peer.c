/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_peer.c - processes that we know: who is there, who is dialled again, who is given up. */
#include "world/tcp_inner.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

static struct peer **bucket(struct tw_tcp *t, uint32_t node)
{
	return &t->peers.bucket[node % PEER_BUCKETS];
}

void tw_peer_rename(struct peer *p)
{
	if (p->role == TW_MASTER)
		snprintf(p->name, sizeof p->name, "master");
	else if (p->role == TW_SERVER)
		snprintf(p->name, sizeof p->name, "server %u", tw_server_number(p->node));
	else if (p->slot != UINT32_MAX)
		tw_identity_text(p->slot, p->cell, p->name, sizeof p->name);
	else
		snprintf(p->name, sizeof p->name, "new worker");
}

/* In a sentence there is one master, and many of the others. */
static const char *the(const struct peer *p)
{
	return p->role == TW_MASTER ? "the " : "";
}

struct peer *tw_peer_new(struct tw_tcp *t, uint32_t role, uint32_t node)
{
	struct peer *p = tw_heap_zeros(t->heap, sizeof *p);

	if (!p)
		return NULL;
	p->role = role;
	p->node = p->key = node;
	p->slot = p->cell = p->joins = p->group = UINT32_MAX;
	p->dial.fd = -1;
	p->lost = t->loop.now;
	p->out.end = &p->out.first;
	tw_peer_rename(p);
	pthread_mutex_lock(&t->lock);
	p->next = t->peers.all;
	p->at = &t->peers.all;
	if (p->next)
		p->next->at = &p->next;
	t->peers.all = p;
	p->hash = *bucket(t, node);
	*bucket(t, node) = p;
	pthread_mutex_unlock(&t->lock);
	return p;
}

/* Guarded by lock. */
static void empty_outbox(struct tw_tcp *t, struct peer *p)
{
	while (p->out.first) {
		struct tw_msg *m = p->out.first;

		p->out.first = m->next;
		tw_msg_discard(t->heap, 0, m);
	}
	p->out.end = &p->out.first;
}

/* --- workers by process ---------------------------------------------------------------------- */

static struct peer **of_process(struct tw_tcp *t, uint64_t process)
{
	return &t->peers.process[process % PEER_BUCKETS];
}

static void leave_process(struct tw_tcp *t, struct peer *p)
{
	struct peer **at = of_process(t, p->process);

	while (p->process && *at && *at != p)
		at = &(*at)->twin;
	if (p->process && *at)
		*at = p->twin;
}

void tw_peer_process(struct tw_tcp *t, struct peer *p, uint64_t process)
{
	leave_process(t, p);
	p->process = process;
	if (p->role != TW_WORKER || !process) /* servers are not told it */
		return;
	p->twin = *of_process(t, process);
	*of_process(t, process) = p;
}

void tw_peer_says(struct tw_tcp *t, struct peer *p, uint64_t sent)
{
	if (!p || sent <= p->says || sent >= SAYS_MOST)
		return;
	atomic_fetch_add(&t->counts.said, sent - p->says);
	p->says = sent;
}

void tw_peer_is_new(struct peer *p)
{
	p->says = 0;
}

struct peer *tw_peer_of_process(struct tw_tcp *t, uint64_t process)
{
	struct peer *p = *of_process(t, process);

	while (p && p->process != process)
		p = p->twin;
	return p;
}

/* --- who listens ----------------------------------------------------------------------------- */

struct peer *tw_peer_listener(struct tw_tcp *t, const struct peer *after)
{
	struct peer *p;

	if (tw_tcp_workers_meet(t)) {
		for (p = after ? after->next : t->peers.all; p && p->forgotten; p = p->next)
			;
		return p;
	}
	for (uint32_t node = after ? after->node + 1 : 2; node <= t->o.servers; node++)
		if ((p = tw_peer_of(t, node)) != NULL)
			return p;
	return NULL;
}

bool tw_peer_dials(const struct tw_tcp *t, const struct peer *dialler, const struct peer *listener)
{
	if (dialler->role != TW_WORKER || listener->role == TW_SERVER)
		return dialler->role == TW_WORKER;
	return listener->node < dialler->node &&
	       (t->o.peers || (dialler->group != UINT32_MAX && dialler->group == listener->group));
}

/* --- forgetting ------------------------------------------------------------------------------ */

void tw_peer_forget(struct tw_tcp *t, struct peer *p)
{
	struct peer **at;

	if (p->forgotten)
		return;
	leave_process(t, p);
	pthread_mutex_lock(&t->lock);
	for (at = bucket(t, p->key); *at != p; at = &(*at)->hash)
		;
	*at = p->hash;
	for (at = &t->peers.work; *at; at = &(*at)->out.next)
		if (*at == p) {
			*at = p->out.next;
			break;
		}
	empty_outbox(t, p);
	p->forgotten = true;
	pthread_mutex_unlock(&t->lock);
	p->grave = t->peers.forgotten;
	t->peers.forgotten = p;
}

void tw_peers_bury(struct tw_tcp *t)
{
	while (t->peers.forgotten) {
		struct peer *p = t->peers.forgotten;

		t->peers.forgotten = p->grave;
		pthread_mutex_lock(&t->lock);
		*p->at = p->next;
		if (p->next)
			p->next->at = p->at;
		pthread_mutex_unlock(&t->lock);
		if (p->dial.fd >= 0)
			close(p->dial.fd);
		t->heap->put(t->heap, p);
	}
}

/* By the loop, or with lock. */
struct peer *tw_peer_of(struct tw_tcp *t, uint32_t node)
{
	if (t->peers.master && (node == 0 || (node == t->peers.master->node && node)))
		return t->peers.master;
	for (struct peer *p = *bucket(t, node); p; p = p->hash)
		if (p->node == node && p != t->peers.master)
			return p;
	return NULL;
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
	empty_outbox(t, p);
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
	empty_outbox(t, p);
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

void tw_peer_post(struct tw_tcp *t, struct peer *p, struct tw_msg *m)
{
	m->next = NULL;
	*p->out.end = m;
	p->out.end = &m->next;
	if (p->out.listed)
		return;
	p->out.listed = true;
	p->out.next = t->peers.work;
	t->peers.work = p;
}

void tw_peer_flush(struct tw_tcp *t, struct peer *p)
{
	struct tw_msg *m, *next;

	pthread_mutex_lock(&t->lock);
	m = p->out.first;
	p->out.first = NULL;
	p->out.end = &p->out.first;
	pthread_mutex_unlock(&t->lock);
	for (; m; m = next) {
		next = m->next;
		if (p->conn && p->open)
			tw_conn_send(p->conn, m);
		else
			tw_tcp_msg_free(t, m);
	}
	if (p->conn && p->open)
		tw_conn_flush(p->conn);
}

void tw_peers_collect(struct tw_tcp *t)
{
	for (;;) {
		struct peer *p;

		pthread_mutex_lock(&t->lock);
		p = t->peers.work;
		if (!p) {
			t->loop.rung = false;
			pthread_mutex_unlock(&t->lock);
			return;
		}
		t->peers.work = p->out.next;
		p->out.listed = false;
		pthread_mutex_unlock(&t->lock);
		tw_peer_flush(t, p);
	}
}

/* One that is only away is dialled on: it may be the master alone that does not see it. */
static bool listens(const struct peer *p)
{
	return p->open || (!p->told_down && !p->leaves);
}

/* Where it listens; one that came over loopback is on the master's machine. */
static void place_of(const struct peer *p, struct tw_peer_place *out)
{
	*out = (struct tw_peer_place){
		.node = p->node, .boot = p->boot, .port = p->address.port, .role = p->role
	};
	if (strncmp(p->address.host, "127.", 4) != 0 && strcmp(p->address.host, "::1") != 0)
		snprintf(out->host, sizeof out->host, "%.*s", (int)sizeof out->host - 1,
			 p->address.host);
}

/* What one worker is told: whom it dials, each with its own ticket.  False without memory. */
static bool send_places(struct tw_tcp *t, struct peer *to, size_t most)
{
	struct tw_msg *m = tw_tcp_msg(t, TW_PEERS);
	struct tw_peer_place *place;
	size_t count = 0;

	if (m)
		m->tail = tw_block_new(t->heap, most * sizeof *place + 1);
	if (!m || !m->tail) {
		if (m)
			tw_tcp_msg_free(t, m);
		return false;
	}
	place = (struct tw_peer_place *)m->tail->data;
	for (struct peer *p = tw_peer_listener(t, NULL); p; p = tw_peer_listener(t, p)) {
		if (!listens(p) || !tw_peer_dials(t, to, p))
			continue;
		place_of(p, &place[count]);
		tw_ticket_make(t, to, p, place[count++].ticket);
	}
	m->b.peers.number = t->peers.number;
	m->h.tail = (uint32_t)(count * sizeof *place);
	tw_conn_send(to->conn, m);
	tw_conn_flush(to->conn);
	return true;
}

/* Does what this worker is told change when `cause` comes? */
static bool concerns(const struct tw_tcp *t, const struct peer *p, const struct peer *cause)
{
	return !cause || p == cause || tw_peer_dials(t, p, cause);
}

void tw_peers_broadcast(struct tw_tcp *t, const struct peer *cause)
{
	size_t most = 0;

	t->peers.number++;
	t->peers.regroup = t->peers.regroup && cause;
	for (struct peer *p = tw_peer_listener(t, NULL); p; p = tw_peer_listener(t, p))
		most++;
	for (struct peer *p = t->peers.all; p; p = p->next)
		if (p->open && p->role == TW_WORKER && concerns(t, p, cause) &&
		    !send_places(t, p, most))
			t->peers.regroup = true; /* to all, at the next turn */
}

/* A listener hears of all who dial it, because they may have been there before it. */
void tw_peers_group(struct tw_tcp *t)
{
	bool changed = false;

	pthread_mutex_lock(&t->lock);
	for (struct peer *p = t->peers.all; p; p = p->next) {
		p->regrouped = p->role == TW_WORKER && p->group != p->joins && p->open;
		p->group = p->joins;
		changed = changed || p->regrouped;
	}
	pthread_mutex_unlock(&t->lock);
	if (!changed || t->farewell.ending)
		return;
	for (struct peer *p = t->peers.all; p; p = p->next)
		if (p->regrouped && p->open && p->group != UINT32_MAX) {
			tw_ticket_tell(t, p, false);
			tw_ticket_tell_all(t, p);
		}
	t->peers.regroup = true; /* now that they know who will dial them */
}

void tw_peers_regroup(struct tw_tcp *t)
{
	if (t->peers.regroup && !t->farewell.ending)
		tw_peers_broadcast(t, NULL);
}
