/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_handshake.c - how processes get to know each other, and what worlds say to each other later.
 * */
#include "base/printable.h"
#include "world/tcp/tcp_inner.h"

#include <inttypes.h>
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

static bool admit(struct conn *c, const struct tw_header *h, const char **why)
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

static void greet(struct conn *c)
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
		tw_peers_leave(t);
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
		tw_conn_deny(c, TW_DENY_DATA, 0, "it asks for data that does not exist");
		return;
	}
	m = tw_tcp_msg(t, TW_DATA);
	if (m)
		m->payload = tw_block_new(t->heap, b->bytes + 1);
	if (!m || !m->payload) {
		if (m)
			tw_tcp_msg_free(t, m);
		tw_greet_no_memory(c);
		return;
	}
	if (read_data(t, b, m->payload->data) != TW_OK) {
		tw_tcp_msg_free(t, m);
		tw_conn_deny(c, TW_DENY_DATA, 0, "this process cannot read the data set");
		return;
	}
	m->b.data = *b;
	if (b->what == TW_DATA_JOB && !b->bytes) /* how long is it? */
		m->b.data.bytes = all;
	m->h.payload = (uint32_t)b->bytes;
	tw_conn_send(c, m);
	tw_conn_flush(c);
}

static void hear(struct conn *c, struct tw_msg *m)
{
	if (c->state == CONN_OPEN && !tw_type_is_worlds(m->h.type)) {
		tw_identity_deliver(c, m);
		return;
	}
	switch (m->h.type) {
	case TW_GREET:
		c->local = (m->h.flags & TW_FLAG_LOCAL) && may_trust(c);
		if (tw_greet_take(c, m))
			return;
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
			tw_greet_waiting(c->t);
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
		tw_peer_says(c->t, c->peer, m->b.ping.number);
		break;
	default:
		break;
	}
	tw_tcp_msg_free(c->t, m);
}

const struct tcp_ears tw_handshake = {
	.admit = admit, .shaken = greet, .message = hear, .lost = tw_peer_lost
};
