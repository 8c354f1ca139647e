/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_greet.c - who greets this process: is it let in, as whom, or must it wait? */
#include "world/tcp/tcp_inner.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static bool agrees(struct conn *c, const struct tw_body_greet *b)
{
	const struct tw_tcp_options *o = &c->t->o;
	char its[TW_SHA_SHORT], ours[TW_SHA_SHORT];

	if (!tw_sha_same(&b->job, &o->job)) {
		tw_conn_deny(c, TW_DENY_JOB, 0,
			     "it has another job (hash %s, expected %s); join without a job "
			     "file: the master sends the job",
			     tw_sha_short(&b->job, its), tw_sha_short(&o->job, ours));
		return false;
	}
	if (!tw_sha_same(&b->layout, &o->layout)) {
		tw_conn_deny(
			c, TW_DENY_LAYOUT, 0,
			"its layout of parameters, servers, shards and workers is different (hash "
			"%s, expected %s): start it again, with the same version of thalweg",
			tw_sha_short(&b->layout, its), tw_sha_short(&o->layout, ours));
		return false;
	}
	if (!tw_sha_same(&b->data, &o->data)) {
		tw_conn_deny(c, TW_DENY_DATA, 0,
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
	tw_conn_deny(c, TW_DENY_RUN, 0,
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
		tw_peer_is_new(p);
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

void tw_greet_no_memory(struct conn *c)
{
	tw_conn_deny(c, TW_DENY_BUSY, 5000, "no memory for another process here");
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
	tw_conn_deny(c, TW_DENY_ROLE, 0, "this is a %s, not the master; join the master",
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
		tw_conn_deny(c, TW_DENY_ROLE, 0, "%sthis one listens nowhere",
			     tw_tcp_must_listen(c->t));
	else if (near)
		tw_conn_deny(c, TW_DENY_ROLE, 0,
			     "%sthis one listens on its own machine only, and others are "
			     "elsewhere; start it with --listen :0",
			     tw_tcp_must_listen(c->t));
	else
		tw_conn_deny(c, TW_DENY_ROLE, 0,
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
		tw_conn_deny(c, TW_DENY_ROLE, 0, "node %u is not a worker that dials here", node);
		return;
	}
	if (p && boot < p->boot) {
		tw_conn_deny(c, TW_DENY_RUN, 0, "node %u is now another process", node);
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
		tw_greet_no_memory(c);
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
		tw_conn_deny(c, TW_DENY_ROLE, 0,
			     "this job has no servers: each worker has %s; join as a worker",
			     t->o.peers ? "all parameters" : "the parameters of its stage");
		return;
	}
	if (asks(c, b)) {
		if (node == TW_NODE_NEW || taken(tw_peer_of(t, node)))
			node = free_server(t);
		if (!node) {
			tw_conn_deny(c, TW_DENY_BUSY, 2000,
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
		tw_conn_deny(c, TW_DENY_RUN, 0, "node %u is not a server", node);
		return;
	}
	if (p && taken(p) && p->boot != boot) {
		tw_conn_deny(c, TW_DENY_PLACE, 0, "server %u is now another process",
			     tw_server_number(node));
		return;
	}
	if (!p)
		p = tw_peer_new(t, TW_SERVER, node);
	if (p)
		enter(c, b, p, boot);
	else
		tw_greet_no_memory(c);
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
		tw_conn_deny(c, TW_DENY_BUSY, 2000, "the run has just ended here");
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
		tw_conn_deny(c, TW_DENY_ROLE, 0, "its role may not join");
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

bool tw_greet_take(struct conn *c, struct tw_msg *m)
{
	if (comes_early(c, &m->b.greet)) {
		hold(c, m);
		return true;
	}
	greet(c, &m->b.greet);
	return false;
}

/* Letting one in ends no other that waits: those have no peer. */
void tw_greet_waiting(struct tw_tcp *t)
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

void tw_greet_too_late(struct conn *c)
{
	struct tw_msg *m = c->held;
	const uint32_t node = m->b.greet.node;

	tw_conn_wait_no_more(c, &c->t->conns.waiting);
	c->held = NULL;
	c->paused = false;
	tw_tcp_msg_free(c->t, m);
	tw_tcp_refusal(c->t, c->name, "refused: the master has not announced node %u", node);
	tw_conn_deny(c, TW_DENY_BUSY, 1000, "the master has not announced node %u here", node);
}
