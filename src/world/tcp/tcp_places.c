/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_places.c - SERVE: workers are told where those are whom they dial (PEERS). */
#include "world/tcp/tcp_inner.h"

#include <stdio.h>
#include <string.h>

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
