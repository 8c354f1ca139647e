/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_handshake.c - how processes get to know each other, and what worlds say to each other later.
 * */
#include "base/printable.h"
#include "world/tcp_inner.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* --- what may be read ------------------------------------------------------------------------- */

#define ROLE(role) (1u << (role))

#define SERVES (ROLE(TW_SERVER) | ROLE(TW_SHARD))

/* The roles of the actors that a process of this kind may have. */
static unsigned roles_of(const struct tw_tcp *t, uint32_t kind)
{
	switch (kind) {
	case TW_MASTER: /* with the first server */
		return ROLE(TW_MASTER) | (tw_tcp_workers_hold(t) ? 0 : SERVES);
	case TW_SERVER:
		return SERVES;
	default: /* with a replica, or the shards of a stage */
		return ROLE(TW_WORKER) | (tw_tcp_workers_hold(t) ? SERVES : 0);
	}
}

static uint32_t our_kind(const struct tw_tcp *t)
{
	switch (t->o.role) {
	case TW_TCP_SERVE:
		return TW_MASTER;
	case TW_TCP_SERVER:
		return TW_SERVER;
	default:
		return TW_WORKER;
	}
}

static bool actor_says(const struct conn *c, const struct tw_header *h)
{
	const uint32_t theirs = c->peer->role, ours = our_kind(c->t);
	const unsigned cells = ROLE(TW_WORKER) | (c->t->o.with_shards ? ROLE(TW_SHARD) : 0);
	/* a worker talks to its own replica, and replicas to each other; cells are workers, and
	 * lanes of a stage talk to its shards, which are with the first of them */
	const unsigned most = theirs != TW_WORKER || ours != TW_WORKER ? ~0u
			      : c->t->o.peers                          ? SERVES
								       : cells;

	return tw_may_say(h->type, h->sender, h->receiver, false) &&
	       (roles_of(c->t, theirs) & most) >> h->sender & 1 &&
	       (roles_of(c->t, ours) & most) >> h->receiver & 1;
}

bool tw_handshake_admit(struct conn *c, const struct tw_header *h, const char **why)
{
	const bool open = c->state == CONN_OPEN;

	if (h->payload > tw_payload_most(h->type, c->t->o.push_most, c->t->o.part_most)) {
		*why = "it sends a message that is too large for its type";
		return false;
	}
	switch (h->type) {
	case TW_GREET:
		*why = "it greets twice";
		return !c->dialled && c->state == CONN_GREETING;
	case TW_TERMS:
		*why = "it answers a question that was not asked";
		return c->dialled && c->state == CONN_GREETING;
	case TW_DENY:
		*why = "it refuses a request that was not made";
		return c->dialled;
	case TW_PING:
		*why = "it has not greeted";
		return open || c->state == CONN_ASKING || c->dialled;
	case TW_LEAVING:
		*why = "it has not greeted";
		return open;
	case TW_LEND:
		*why = "only processes on a socket pair read each other's memory";
		return open && c->pair;
	case TW_DATA:
		*why = "it asks for data, but its greeting did not say so";
		return c->state == CONN_ASKING && !h->payload;
	case TW_PEERS:
	case TW_TICKETS:
	case TW_OVER:
		*why = "it sends a message that only the master may send";
		return open && c->peer->role == TW_MASTER;
	default:
		*why = open ? "it sends a message that its role may not send"
			    : "it has not greeted";
		return open && actor_says(c, h);
	}
}

/* --- who dials -------------------------------------------------------------------------------- */

/* What does not leave the machine cannot be damaged on the way.  Both ends must see it so: there
 * may be a relay between them. */
static bool may_trust(const struct conn *c)
{
	return !c->pair && !c->t->o.tls && tw_address_stays_here(tw_stream_fd(c->stream));
}

void tw_handshake_send(struct conn *c)
{
	struct tw_tcp *t = c->t;
	struct tw_msg *m = tw_tcp_msg(t, TW_GREET);

	if (!m) {
		tw_conn_close(c, "no memory");
		return;
	}
	m->b.greet = (struct tw_body_greet){
		.role = t->o.role == TW_TCP_WORKER ? TW_WORKER : TW_SERVER,
		.flags = (c->pair ? TW_GREET_PAIR : 0) | (t->o.keeps ? TW_GREET_KEEPS : 0) |
			 (t->door.near ? TW_GREET_NEAR : 0),
		.node = t->self.node ? t->self.node : t->o.wish,
		.boot = t->self.boot,
		.run = t->self.id.run,
		.job = t->o.job,
		.layout = t->o.layout,
		.data = t->o.data,
		.port = t->door.bound.port,
		.minor = TW_WIRE_MINOR,
		/* a sender that knows it gets this node again: only the master is told */
		.process = c->peer->role == TW_MASTER ? t->self.process : 0,
	};
	memcpy(m->b.greet.ticket, c->peer->ticket, TW_TICKET);
	if (may_trust(c))
		m->h.flags |= TW_FLAG_LOCAL;
	tw_conn_send(c, m);
	tw_conn_flush(c);
}

static void take_terms(struct conn *c, const struct tw_body_terms *b)
{
	struct tw_tcp *t = c->t;
	struct peer *p = c->peer;

	if (p->role == TW_MASTER) {
		if (t->self.id.run && t->self.id.run != b->run) {
			tw_tcp_end(t, TW_REFUSED, "another run now uses this address");
			return;
		}
		if ((t->self.node && t->self.node != b->node) || b->every < MS ||
		    b->suspect < b->every || b->limit < b->suspect) {
			tw_conn_close(c, "its heartbeat times or its node number are not valid");
			return;
		}
		if (t->o.role == TW_TCP_SERVER)
			snprintf(t->self.who, sizeof t->self.who, "server %u on %s",
				 tw_server_number(b->node), t->self.host);
		if (t->o.role == TW_TCP_SERVER && !t->self.node && !c->pair)
			tw_log_line(t->o.log, TW_INFO, t->self.who, "joined");
		t->self.node = b->node;
		t->self.boot = b->boot;
		memcpy(p->ticket, b->ticket, TW_TICKET);
		t->self.id.run = b->run;
		t->peers.number = 0;
		t->beat.every = b->every;
		t->beat.suspect = b->suspect;
		t->beat.limit = b->limit;
		pthread_mutex_lock(&t->lock);
		p->boot = b->own_boot;
		if (p->master_boot && p->master_boot != b->master) /* that one counted it */
			t->counts.before = atomic_load(&t->counts.sent);
		p->master_boot = b->master;
		p->node = b->own;
		pthread_mutex_unlock(&t->lock);
	} else if (b->own != p->node) {
		tw_conn_close(c, "another process now uses its address");
		return;
	} else {
		p->boot = b->own_boot;
	}
	tw_peer_up(t, p, c);
}

static void take_denial(struct conn *c, const struct tw_msg *m)
{
	struct tw_tcp *t = c->t;
	struct peer *p = c->peer;
	char text[400] = "no reason given";

	if (m->h.payload && m->payload) {
		const size_t n = m->h.payload < sizeof text ? m->h.payload : sizeof text - 1;

		memcpy(text, tw_msg_payload(m), n);
		text[n] = 0;
	}
	tw_printable(text);
	if (m->b.deny.wait) {
		p->dial.deferred = true;
		p->dial.at = t->loop.now + (int64_t)m->b.deny.wait * MS;
		tw_conn_close(c, text);
	} else if (p->role == TW_MASTER) {
		/* a role that cannot be had was asked for by the user */
		const enum tw_status status =
			m->b.deny.why == TW_DENY_ROLE ? TW_BAD_INPUT : TW_REFUSED;

		t->end.replaced = m->b.deny.why == TW_DENY_PLACE;
		tw_fail(&t->end.denied, status, "the master at %s refused: %s", c->name, text);
		tw_conn_close(c, text);
		tw_tcp_end(t, status, "%s", t->end.denied.text);
	} else {
		p->dial.at = t->loop.now + BACKOFF_MOST;
		tw_conn_close(c, text);
	}
}

/* The node of a route: workers know each other's wishes, and the master has given all the same. */
static uint32_t route_node(const struct tw_tcp *t, size_t k)
{
	return t->o.route[k].node +
	       (t->o.route[k].role == TW_WORKER ? t->self.node - t->o.wish : 0);
}

/* Whom the master may list: servers, or workers with a lower node. */
static bool may_dial(const struct tw_tcp *t, const struct tw_peer_place *b)
{
	if (b->role == TW_SERVER)
		return !tw_tcp_workers_hold(t);
	return b->role == TW_WORKER && tw_tcp_workers_meet(t) && b->node < t->self.node;
}

static void take_place(struct tw_tcp *t, const struct tw_peer_place *b)
{
	struct peer *p;

	if (!b->node || b->node == t->peers.master->node ||
	    memchr(b->host, 0, sizeof b->host) == NULL || b->port > UINT16_MAX)
		return;
	if (!may_dial(t, b))
		return;
	p = tw_peer_of(t, b->node);
	if (p && p->role != b->role)
		return;
	if (!p) {
		p = tw_peer_new(t, b->role, b->node);
		if (!p) {
			tw_tcp_end(t, TW_NO_MEMORY, "no memory for another process");
			return;
		}
		for (size_t k = 0; k < t->o.routes; k++)
			if (route_node(t, k) == b->node) {
				p->dial.fd = t->o.route[k].fd;
				p->paired = true;
			}
	}
	if (!p->dial.wanted) { /* it is new, or here again: its failures before do not count */
		p->dial.wanted = true;
		p->dial.attempt = 0;
		p->dial.since = p->dial.complained = 0;
	}
	if (p->boot && p->boot != b->boot && p->conn) /* it is another process now */
		tw_conn_close(p->conn, "its process was restarted");
	p->boot = b->boot;
	memcpy(p->ticket, b->ticket, TW_TICKET);
	snprintf(p->address.host, sizeof p->address.host, "%s",
		 b->host[0] ? b->host : t->peers.master->address.host);
	p->address.port = (uint16_t)b->port;
	pthread_mutex_lock(&t->lock);
	tw_show_in(p->address.host, strlen(p->address.host), p->host, sizeof p->host);
	pthread_mutex_unlock(&t->lock);
	if (!p->open && !p->conn)
		p->dial.at = t->loop.now;
}

/* Who is not listed is gone for good, or will be listed again when it is back.  A connection that
 * is there stays: a new master lists servers as they come to it. */
static void leave_out(struct tw_tcp *t, const struct tw_peer_place *list, size_t count)
{
	for (struct peer *p = t->peers.all; p; p = p->next) {
		size_t k = 0;

		while (k < count && list[k].node != p->node)
			k++;
		if (k < count || !p->dial.wanted || p->role == TW_MASTER)
			continue;
		p->dial.wanted = false;
		if (p->conn && !p->open)
			tw_conn_close(p->conn, "the master no longer lists it");
		if (p->role == TW_WORKER && p->told_down && !p->conn)
			tw_peer_forget(t, p);
	}
}

static void take_peers(struct conn *c, const struct tw_msg *m)
{
	const struct tw_peer_place *list = m->tail ? (const void *)m->tail->data : NULL;
	const size_t count = m->h.tail / sizeof *list;

	if (c->t->o.role != TW_TCP_WORKER || m->b.peers.number <= c->t->peers.number)
		return;
	c->t->peers.number = m->b.peers.number;
	leave_out(c->t, list, count);
	for (size_t k = 0; k < count; k++)
		take_place(c->t, &list[k]);
}

static const char *stopped(uint64_t cut, char *out, size_t room)
{
	if (cut)
		snprintf(out, room, "the master stopped at checkpoint %" PRIu64, cut);
	else
		snprintf(out, room, "the master stopped before its first checkpoint");
	return out;
}

/* The payload as text for people: what is not printable ASCII becomes '?'. */
static void printable(const struct tw_msg *m, char *out, size_t room)
{
	const uint8_t *from = m->h.payload ? tw_msg_payload(m) : NULL;
	size_t n = 0;

	for (; n < m->h.payload && n + 1 < room; n++)
		out[n] = from[n] >= ' ' && from[n] <= '~' ? (char)from[n] : '?';
	out[n] = 0;
}

static void take_over(struct conn *c, const struct tw_msg *m)
{
	struct tw_tcp *t = c->t;
	const bool ended = m->b.over.status == TW_OK || m->b.over.status == TW_INTERRUPTED;
	char how[80], reason[450] = "";

	if (m->b.over.status == TW_INTERRUPTED && !c->pair) {
		tw_log_line(t->o.log, TW_WARNING, t->self.who, "%s; waiting for it to come back",
			    stopped(m->b.over.cut, how, sizeof how));
		return;
	}
	if (!ended && !c->pair) /* on a pair the master speaks for all, on the same terminal */
		printable(m, reason, sizeof reason);
	if (m->h.payload && ended && !t->end.heard) {
		t->end.heard = t->heap->get(t->heap, (size_t)m->h.payload + 1);
		if (t->end.heard) {
			memcpy(t->end.heard, tw_msg_payload(m), m->h.payload);
			t->end.heard[m->h.payload] = 0;
		}
	}
	if (m->b.over.status == TW_OK) {
		t->end.given = m->b.over.model_bytes;
		t->end.given_hash = m->b.over.model;
	}
	t->end.over = true;
	if (tw_tcp_workers_meet(t)) /* one that hears of the end later does not miss us */
		tw_loop_say_leaving(t);
	switch (m->b.over.status) {
	case TW_OK:
		tw_tcp_end(t, TW_OK, "%s", "");
		break;
	case TW_INTERRUPTED:
		tw_tcp_end(t, TW_INTERRUPTED, "%s", stopped(m->b.over.cut, how, sizeof how));
		break;
	case TW_CANCELLED:
		t->end.again = true;
		tw_tcp_end(t, TW_CANCELLED, "%s", reason);
		break;
	default:
		tw_tcp_end(t, TW_REFUSED, "the run has failed on the master%s%s",
			   *reason ? ": " : "", reason);
	}
}

/* --- who is dialled --------------------------------------------------------------------------- */

void tw_handshake_deny(struct conn *c, enum tw_denial code, uint32_t wait_ms, const char *format,
		       ...)
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

static bool agrees(struct conn *c, const struct tw_body_greet *b)
{
	const struct tw_tcp_options *o = &c->t->o;
	char its[TW_SHA_SHORT], ours[TW_SHA_SHORT];

	if (!tw_sha_same(&b->job, &o->job)) {
		tw_handshake_deny(c, TW_DENY_JOB, 0,
				  "it has another job (hash %s, expected %s); join without a job "
				  "file: the master sends the job",
				  tw_sha_short(&b->job, its), tw_sha_short(&o->job, ours));
		return false;
	}
	if (!tw_sha_same(&b->layout, &o->layout)) {
		tw_handshake_deny(
			c, TW_DENY_LAYOUT, 0,
			"its layout of parameters, servers, shards and workers is different (hash "
			"%s, expected %s): start it again, with the same version of thalweg",
			tw_sha_short(&b->layout, its), tw_sha_short(&o->layout, ours));
		return false;
	}
	if (!tw_sha_same(&b->data, &o->data)) {
		tw_handshake_deny(c, TW_DENY_DATA, 0,
				  "it has another data set (fingerprint %s, expected %s)",
				  tw_sha_short(&b->data, its), tw_sha_short(&o->data, ours));
		return false;
	}
	return true;
}

static void send_terms(struct conn *c, uint32_t node, uint32_t boot)
{
	struct tw_tcp *t = c->t;
	struct tw_msg *m = tw_tcp_msg(t, TW_TERMS);
	const bool leads = t->o.role == TW_TCP_SERVE;

	if (!m) {
		tw_conn_close(c, "no memory");
		return;
	}
	m->b.terms = (struct tw_body_terms){
		.node = node,
		.boot = boot,
		.own = t->self.node,
		.own_boot = t->self.boot,
		.master = leads ? t->self.id.boot : 0,
		.servers = t->o.servers,
		.run = t->self.id.run,
		.job = t->o.job,
		.layout = t->o.layout,
		.data = t->o.data,
		.data_bytes = t->o.data_bytes,
		.every = t->beat.every,
		.suspect = t->beat.suspect,
		.limit = t->beat.limit,
	};
	if (leads && c->peer)
		tw_ticket_make(t, c->peer, NULL, m->b.terms.ticket);
	if (c->local)
		m->h.flags |= TW_FLAG_LOCAL;
	tw_conn_send(c, m);
	if (c->local)
		tw_conn_trust(c);
}

/* One who was here before shows its ticket. */
static bool known(struct conn *c, const struct tw_body_greet *b)
{
	if (tw_ticket_check(c->t, b) == CLAIM_TRUE)
		return true;
	tw_handshake_deny(c, TW_DENY_RUN, 0,
			  "it claims to be node %u of run %016" PRIx64
			  ", but this run has given it no such number; start it again",
			  b->node, b->run);
	return false;
}

static void enter(struct conn *c, const struct tw_body_greet *b, struct peer *p, uint32_t boot)
{
	struct tw_tcp *t = c->t;
	char *colon;

	t->conns.pending--;
	p->boot = boot;
	if (p->process != b->process)
		tw_peer_is_new(t, p);
	tw_peer_process(t, p, b->process);
	p->paired = c->pair;
	p->near = b->flags & TW_GREET_NEAR;
	snprintf(p->address.host, sizeof p->address.host, "%.255s", c->name);
	colon = strrchr(p->address.host, ':');
	if (colon)
		*colon = 0;
	if (p->address.host[0] == '[') {
		memmove(p->address.host, p->address.host + 1, strlen(p->address.host));
		p->address.host[strcspn(p->address.host, "]")] = 0;
	}
	pthread_mutex_lock(&t->lock);
	p->keeps = b->flags & TW_GREET_KEEPS;
	snprintf(p->host, sizeof p->host, "%.63s", c->pair ? t->self.host : p->address.host);
	pthread_mutex_unlock(&t->lock);
	p->address.port = (uint16_t)b->port;
	c->peer = p;
	tw_conn_forget_silent(t, p->process);
	if (t->o.role == TW_TCP_SERVE && p->role == TW_WORKER)
		tw_ticket_tell(t, p, false); /* those whom it will dial hear it first */
	send_terms(c, p->node, boot);
	if (c->state == CONN_DEAD)
		return;
	tw_peer_up(t, p, c);
	if (t->o.role == TW_TCP_SERVE && (tw_tcp_workers_meet(t) || p->role == TW_SERVER))
		tw_ticket_tell_all(t, p);
	tw_conn_flush(c);
}

static void no_memory(struct conn *c)
{
	tw_handshake_deny(c, TW_DENY_BUSY, 5000, "no memory for another process here");
}

#define NODES 0xfffffu /* that one master gives to workers before it begins again */

/* The boot of the master is in it, so that one that comes back does not give a node twice; after
 * 2^20 joins numbers of those who are gone are given again.  `wish`: which of them, from 1. */
static uint32_t new_node(struct tw_tcp *t, uint32_t wish)
{
	const uint32_t first = 1 + t->o.servers + ((t->self.id.boot & 0xfff) << 20);

	if (wish && wish <= NODES && !tw_peer_of(t, first + wish))
		return first + wish;
	do {
		t->given.rounds += t->given.workers == NODES;
		t->given.workers = t->given.workers % NODES + 1;
	} while (tw_peer_of(t, first + t->given.workers));
	return first + t->given.workers;
}

/* Was the node given by a master before this one?  Then it may be a member that this one will take
 * over: what it says to shards at once must not be lost while that is being found out. */
static bool outlived(const struct tw_tcp *t, uint32_t node)
{
	const uint32_t first = 1 + t->o.servers;

	return node > first && (node - first) >> 20 != (t->self.id.boot & 0xfff);
}

static bool has_ticket(const struct tw_body_greet *b)
{
	static const uint8_t none[TW_TICKET];

	return memcmp(b->ticket, none, TW_TICKET) != 0;
}

/* One who asks for a number; on a pair it may wish for one. */
static bool asks(const struct conn *c, const struct tw_body_greet *b)
{
	return b->node == TW_NODE_NEW || (c->pair && !has_ticket(b));
}

static void not_the_master(struct conn *c)
{
	tw_handshake_deny(c, TW_DENY_ROLE, 0, "this is a %s, not the master; join the master",
			  c->t->o.role == TW_TCP_SERVER ? "server" : "worker");
}

/* Is it on the master's machine, as far as the master can tell? */
static bool is_here(const struct peer *p)
{
	return strncmp(p->address.host, "127.", 4) == 0 || strcmp(p->address.host, "::1") == 0;
}

/* Peers: one who comes must be reached by those who are there, and they by it.  False: it is
 * denied. */
static bool can_meet(struct conn *c, const struct tw_body_greet *b)
{
	const bool here = tw_address_stays_here(tw_stream_fd(c->stream));
	const bool near = b->flags & TW_GREET_NEAR;
	struct peer *p = tw_peer_listener(c->t, NULL);

	if (c->pair)
		return true;
	while (p && !(here ? near && !is_here(p) : p->near))
		p = tw_peer_listener(c->t, p);
	if (b->port && !p && (here || !near))
		return true;
	if (!b->port)
		tw_handshake_deny(c, TW_DENY_ROLE, 0, "%sthis one listens nowhere",
				  tw_tcp_must_listen(c->t));
	else if (near)
		tw_handshake_deny(c, TW_DENY_ROLE, 0,
				  "%sthis one listens on its own machine only, and others are "
				  "elsewhere; start it with --listen :0",
				  tw_tcp_must_listen(c->t));
	else
		tw_handshake_deny(c, TW_DENY_ROLE, 0,
				  "%s%s listens on the master's machine only; start it again with "
				  "--listen :0",
				  tw_tcp_must_listen(c->t), p->name);
	return false;
}

static void greet_worker(struct conn *c, const struct tw_body_greet *b)
{
	struct tw_tcp *t = c->t;
	uint32_t node = b->node, boot = b->boot;
	struct peer *p = NULL;

	if (asks(c, b)) {
		if (t->o.role != TW_TCP_SERVE) {
			not_the_master(c);
			return;
		}
		if (tw_tcp_workers_meet(t) && !can_meet(c, b))
			return;
		p = tw_peer_of_process(t, b->process);
		node = p ? p->node : new_node(t, node == TW_NODE_NEW ? 0 : node);
		boot = p ? p->boot : 1 + t->given.rounds; /* a number given again is another life */
	} else if (!known(c, b)) {
		return;
	} else {
		p = tw_peer_of(t, node);
	}
	/* of two workers the higher one dials; the node of a master without servers is 0 */
	if (node <= (t->o.role == TW_TCP_WORKER || tw_tcp_workers_hold(t) ? t->self.node
									  : t->o.servers) ||
	    (p && p->role != TW_WORKER)) {
		tw_handshake_deny(c, TW_DENY_ROLE, 0, "node %u is not a worker that dials here",
				  node);
		return;
	}
	if (p && boot < p->boot) {
		tw_handshake_deny(c, TW_DENY_RUN, 0, "node %u is now another process", node);
		return;
	}
	if (!p) {
		p = tw_peer_new(t, TW_WORKER, node);
		if (p && outlived(t, node)) {
			pthread_mutex_lock(&t->lock);
			p->member = true;
			pthread_mutex_unlock(&t->lock);
		}
	}
	if (p)
		enter(c, b, p, boot);
	else
		no_memory(c);
}

/* Is the server at this node there, or might it still come back? */
static bool taken(const struct peer *p)
{
	return p && (p->open || !p->told_down);
}

static uint32_t free_server(struct tw_tcp *t)
{
	for (uint32_t node = 2; node <= t->o.servers; node++)
		if (!taken(tw_peer_of(t, node)))
			return node;
	return 0;
}

static void greet_server(struct conn *c, const struct tw_body_greet *b)
{
	struct tw_tcp *t = c->t;
	uint32_t node = b->node, boot = b->boot;
	struct peer *p;

	if (t->o.role != TW_TCP_SERVE) {
		not_the_master(c);
		return;
	}
	if (tw_tcp_workers_hold(t)) {
		tw_handshake_deny(c, TW_DENY_ROLE, 0,
				  "this job has no servers: each worker has %s; join as a worker",
				  t->o.peers ? "all parameters" : "the parameters of its stage");
		return;
	}
	if (asks(c, b)) {
		if (node == TW_NODE_NEW || taken(tw_peer_of(t, node)))
			node = free_server(t);
		if (!node) {
			tw_handshake_deny(
				c, TW_DENY_BUSY, 2000,
				"the job already has all its %u servers (cluster.servers)",
				t->o.servers);
			return;
		}
		boot = t->self.id.boot << 16 | (uint32_t)++t->given.servers;
	} else if (!known(c, b)) {
		return;
	}
	p = tw_peer_of(t, node);
	if (node < 2 || node > t->o.servers) {
		tw_handshake_deny(c, TW_DENY_RUN, 0, "node %u is not a server", node);
		return;
	}
	if (p && taken(p) && p->boot != boot) {
		tw_handshake_deny(c, TW_DENY_PLACE, 0, "server %u is now another process",
				  tw_server_number(node));
		return;
	}
	if (!p)
		p = tw_peer_new(t, TW_SERVER, node);
	if (p)
		enter(c, b, p, boot);
	else
		no_memory(c);
}

/* Those who ask are many when a large cluster starts, but not without end: who has been silent
 * longest makes room. */
static void let_ask(struct conn *c)
{
	struct tw_tcp *t = c->t;
	struct conn *oldest = NULL;

	for (struct conn *o = t->conns.all; t->conns.asking >= ASKING_MOST && o; o = o->next)
		if (o->state == CONN_ASKING && (!oldest || o->heard <= oldest->heard))
			oldest = o;
	if (oldest) {
		tw_tcp_refusal(t, oldest->name, "too many processes ask for the job or its data");
		tw_conn_close(oldest, "too many processes ask");
	}
	t->conns.pending--;
	t->conns.asking++;
	c->state = CONN_ASKING;
	send_terms(c, TW_NODE_NEW, 0);
	tw_conn_flush(c);
}

static void greet(struct conn *c, const struct tw_body_greet *b)
{
	struct tw_tcp *t = c->t;

	const uint32_t end = TW_GREET_ASK | TW_GREET_MODEL;

	if (t->farewell.ending && !(t->farewell.giving && (b->flags & end) == end)) {
		tw_handshake_deny(c, TW_DENY_BUSY, 2000, "the run has just ended here");
		return;
	}
	if (b->flags & TW_GREET_ASK) {
		if (t->o.role != TW_TCP_SERVE) {
			not_the_master(c);
			return;
		}
		let_ask(c);
		return;
	}
	if (!agrees(c, b))
		return;
	if (b->role == TW_WORKER)
		greet_worker(c, b);
	else if (b->role == TW_SERVER)
		greet_server(c, b);
	else
		tw_handshake_deny(c, TW_DENY_ROLE, 0, "its role may not join");
}

/* --- who greets before the master has named it ------------------------------------------------ */

/* It costs one message more than any who has not greeted, and counts as one of them. */
static bool comes_early(const struct conn *c, const struct tw_body_greet *b)
{
	return c->t->o.role != TW_TCP_SERVE && b->role == TW_WORKER && b->node != TW_NODE_NEW &&
	       !(b->flags & TW_GREET_ASK) && tw_ticket_check(c->t, b) == CLAIM_WAITS;
}

static void hold(struct conn *c, struct tw_msg *m)
{
	c->held = m;
	c->paused = true;
	tw_conn_wait(c, &c->t->conns.waiting);
}

/* Letting one in ends no other that waits: those have no peer. */
void tw_handshake_waiting(struct tw_tcp *t)
{
	struct conn *c, *next, *list = t->conns.waiting;

	t->conns.waiting = NULL;
	for (c = list; c; c = next) {
		struct tw_msg *m = c->held;

		next = c->waits;
		if (comes_early(c, &m->b.greet)) {
			tw_conn_wait(c, &t->conns.waiting);
			continue;
		}
		c->held = NULL;
		c->paused = false;
		c->again = t->loop.more = true;
		greet(c, &m->b.greet);
		tw_tcp_msg_free(t, m);
	}
}

void tw_handshake_too_late(struct conn *c)
{
	struct tw_msg *m = c->held;
	const uint32_t node = m->b.greet.node;

	tw_conn_wait_no_more(c, &c->t->conns.waiting);
	c->held = NULL;
	c->paused = false;
	tw_tcp_msg_free(c->t, m);
	tw_tcp_refusal(c->t, c->name, "refused: the master has not announced node %u", node);
	tw_handshake_deny(c, TW_DENY_BUSY, 1000, "the master has not announced node %u here", node);
}

/* --- what is given -------------------------------------------------------------------------- */

/* How many bytes there are of what is asked for; false: there is no such thing now. */
static bool known_data(const struct tw_tcp *t, uint32_t what, uint64_t *all)
{
	switch (what) {
	case TW_DATA_JOB:
		*all = t->o.job_bytes;
		return !t->farewell.giving;
	case TW_DATA_SET:
		*all = t->o.data_bytes;
		return !t->farewell.giving;
	case TW_DATA_MODEL:
		*all = t->farewell.giving ? t->farewell.model->bytes : 0;
		return t->farewell.giving;
	default:
		return false;
	}
}

static enum tw_status read_data(struct tw_tcp *t, const struct tw_body_data *b, uint8_t *to)
{
	switch (b->what) {
	case TW_DATA_JOB:
		memcpy(to, t->o.job_text + b->from, b->bytes);
		return TW_OK;
	case TW_DATA_MODEL:
		memcpy(to, t->farewell.model->data + b->from, b->bytes);
		atomic_store(&t->farewell.gave, t->loop.now);
		return TW_OK;
	default:
		return t->o.data_read(t->o.data_arg, b->from, to, b->bytes);
	}
}

static void give_data(struct conn *c, const struct tw_body_data *b)
{
	struct tw_tcp *t = c->t;
	uint64_t all = 0;
	struct tw_msg *m;

	if (!known_data(t, b->what, &all) || b->from > all ||
	    b->bytes > tw_payload_most(TW_DATA, 0, 0) || b->bytes > all - b->from) {
		tw_handshake_deny(c, TW_DENY_DATA, 0, "it asks for data that does not exist");
		return;
	}
	m = tw_tcp_msg(t, TW_DATA);
	if (m)
		m->payload = tw_block_new(t->heap, b->bytes + 1);
	if (!m || !m->payload) {
		if (m)
			tw_tcp_msg_free(t, m);
		no_memory(c);
		return;
	}
	if (read_data(t, b, m->payload->data) != TW_OK) {
		tw_tcp_msg_free(t, m);
		tw_handshake_deny(c, TW_DENY_DATA, 0, "this process cannot read the data set");
		return;
	}
	m->b.data = *b;
	if (b->what == TW_DATA_JOB && !b->bytes) /* how long is it? */
		m->b.data.bytes = all;
	m->h.payload = (uint32_t)b->bytes;
	tw_conn_send(c, m);
	tw_conn_flush(c);
}

void tw_handshake_message(struct conn *c, struct tw_msg *m)
{
	switch (m->h.type) {
	case TW_GREET:
		c->local = (m->h.flags & TW_FLAG_LOCAL) && may_trust(c);
		if (comes_early(c, &m->b.greet)) {
			hold(c, m);
			return;
		}
		greet(c, &m->b.greet);
		break;
	case TW_TERMS:
		if ((m->h.flags & TW_FLAG_LOCAL) && may_trust(c))
			tw_conn_trust(c);
		take_terms(c, &m->b.terms);
		break;
	case TW_DENY:
		take_denial(c, m);
		break;
	case TW_TICKETS:
		if (c->t->o.role != TW_TCP_SERVE) {
			tw_ticket_learn(c->t, m);
			tw_handshake_waiting(c->t);
		}
		break;
	case TW_PEERS:
		take_peers(c, m);
		break;
	case TW_DATA:
		give_data(c, &m->b.data);
		break;
	case TW_OVER:
		take_over(c, m);
		break;
	case TW_LEAVING:
		c->peer->leaves = true;
		break;
	case TW_LEND:
		tw_conn_lend(c, &m->b.lend);
		break;
	case TW_PING:
		tw_peer_says(c->peer, m->b.ping.number);
		break;
	default:
		break;
	}
	tw_tcp_msg_free(c->t, m);
}
