/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_outbox.c - what actors, or this world, say to peers goes to their connections. */
#include "world/tcp/tcp_inner.h"

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

void tw_peers_leave(struct tw_tcp *t)
{
	pthread_mutex_lock(&t->lock);
	for (struct peer *p = t->peers.all; p; p = p->next) {
		struct tw_msg *m = p->open ? tw_tcp_msg(t, TW_LEAVING) : NULL;

		if (m) /* without memory it looks like a loss over there */
			tw_peer_post(t, p, m);
	}
	pthread_mutex_unlock(&t->lock);
	tw_peers_collect(t);
}
