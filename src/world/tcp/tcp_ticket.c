/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_ticket.c - what proves to a listener that a dialler is the node it says.
 *
 *  (1) A ticket belongs to one life of one dialler at one life of one listener.  Who knows it can
 *      be that dialler at that listener, and nobody anywhere else.
 *  (2) The master alone can make it: HMAC-SHA256 of the four numbers under a secret that leaves
 *      its process only into the run directory.  So a master that comes back makes the same ones,
 *      and none is kept where it is made.
 *  (3) Both ends are told beforehand: the dialler with the address (TERMS, PEERS), the listener
 *      with the node (TICKETS).  They keep it, so a connection is made anew while the master is
 *      away.
 *  (4) A listener forgets a ticket when its master says that the dialler is gone, or when the same
 *      master tells all of them anew without it.  What an earlier master told stays: the dialler
 *      may not have come back to the new one yet. */
#include "world/tcp/tcp_inner.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

#define ROWS_MOST 512 /* of one message */

/* --- making: where the master is -------------------------------------------------------------- */

static void make(const struct tw_tcp *t, const uint32_t ends[4], uint8_t out[TW_TICKET])
{
	uint8_t mac[EVP_MAX_MD_SIZE] = { 0 };
	unsigned len = 0;

	HMAC(EVP_sha256(), t->self.id.secret, sizeof t->self.id.secret, (const uint8_t *)ends,
	     4 * sizeof *ends, mac, &len);
	memcpy(out, mac, TW_TICKET);
	OPENSSL_cleanse(mac, sizeof mac);
}

void tw_ticket_make(const struct tw_tcp *t, const struct peer *dialler, const struct peer *listener,
		    uint8_t out[TW_TICKET])
{
	/* the master's own life does not count: it is known again when it comes back */
	make(t,
	     (const uint32_t[]){ dialler->node, dialler->boot, listener ? listener->node : 0,
				 listener ? listener->boot : 0 },
	     out);
}

static void fill(const struct tw_tcp *t, const struct peer *worker, const struct peer *listener,
		 bool gone, struct tw_ticket *out)
{
	*out = (struct tw_ticket){
		.node = worker->node, .boot = worker->boot, .role = worker->role, .gone = gone
	};
	if (!gone)
		tw_ticket_make(t, worker, listener, out->ticket);
}

/* A message with room for so many; without memory the listener is let go, and told all when it is
 * back. */
static struct tw_msg *message(struct tw_tcp *t, struct peer *listener, size_t rows)
{
	struct tw_msg *m = tw_tcp_msg(t, TW_TICKETS);

	if (m)
		m->tail = tw_block_new(t->heap, rows * sizeof(struct tw_ticket) + 1);
	if (m && m->tail)
		return m;
	if (m)
		tw_tcp_msg_free(t, m);
	tw_conn_close(listener->conn, "no memory to tell it which workers may connect");
	return NULL;
}

void tw_ticket_tell(struct tw_tcp *t, const struct peer *worker, bool gone)
{
	for (struct peer *p = tw_peer_listener(t, NULL); p; p = tw_peer_listener(t, p)) {
		struct tw_msg *m = NULL;

		if (p->open && tw_peer_dials(t, worker, p))
			m = message(t, p, 1);
		if (!m)
			continue;
		fill(t, worker, p, gone, (struct tw_ticket *)m->tail->data);
		m->h.tail = sizeof(struct tw_ticket);
		pthread_mutex_lock(&t->lock);
		tw_peer_post(t, p, m);
		pthread_mutex_unlock(&t->lock);
		if (!gone) /* else callers walk the list of peers, and it has time */
			tw_peer_flush(t, p);
	}
}

void tw_ticket_tell_all(struct tw_tcp *t, struct peer *listener)
{
	const struct peer *p = t->peers.all;
	bool anew = true;

	while (p || anew) {
		struct tw_msg *m = listener->open ? message(t, listener, ROWS_MOST) : NULL;
		struct tw_ticket *row;
		size_t rows = 0;

		if (!m)
			return;
		row = (struct tw_ticket *)m->tail->data;
		for (; p && rows < ROWS_MOST; p = p->next)
			if (!p->forgotten && tw_peer_dials(t, p, listener))
				fill(t, p, listener, false, &row[rows++]);
		m->b.tickets.anew = anew;
		m->h.tail = (uint32_t)(rows * sizeof *row);
		anew = false;
		tw_conn_send(listener->conn, m);
	}
	tw_conn_flush(listener->conn);
}

/* --- keeping: where one is dialled ------------------------------------------------------------ */

static struct pass **find(struct tw_tcp *t, uint32_t node)
{
	struct pass **at = &t->pass[node % PEER_BUCKETS];

	while (*at && (*at)->ticket.node != node)
		at = &(*at)->next;
	return at;
}

static void drop(struct tw_tcp *t, struct pass **at)
{
	struct pass *p = *at;

	*at = p->next;
	OPENSSL_cleanse(p, sizeof *p);
	t->heap->put(t->heap, p);
}

/* Of whom this master told; `boot` 0: all. */
static void drop_all(struct tw_tcp *t, uint32_t boot)
{
	for (size_t k = 0; k < PEER_BUCKETS; k++)
		for (struct pass **at = &t->pass[k]; *at;)
			if (!boot || (*at)->master == boot)
				drop(t, at);
			else
				at = &(*at)->next;
}

static bool learn(struct tw_tcp *t, const struct tw_ticket *row)
{
	struct pass **at = find(t, row->node);

	if (*at && row->boot < (*at)->ticket.boot)
		return true; /* it speaks of an earlier life */
	if (row->gone) {
		if (*at)
			drop(t, at);
		return true;
	}
	if (!*at)
		*at = tw_heap_zeros(t->heap, sizeof **at);
	if (!*at)
		return false;
	(*at)->ticket = *row;
	(*at)->master = t->peers.master->master_boot;
	return true;
}

void tw_ticket_learn(struct tw_tcp *t, const struct tw_msg *m)
{
	const struct tw_ticket *row = m->tail ? (const void *)m->tail->data : NULL;

	if (m->b.tickets.anew)
		drop_all(t, t->peers.master->master_boot);
	for (size_t k = 0; k < m->h.tail / sizeof *row; k++)
		if (!learn(t, &row[k])) {
			tw_tcp_end(t, TW_NO_MEMORY,
				   "no memory for the list of workers that may connect");
			return;
		}
}

void tw_ticket_close(struct tw_tcp *t)
{
	drop_all(t, 0);
}

/* --- checking --------------------------------------------------------------------------------- */

static bool same(const uint8_t *a, const uint8_t *b)
{
	return CRYPTO_memcmp(a, b, TW_TICKET) == 0;
}

static enum claim by_passes(const struct tw_tcp *t, const struct tw_body_greet *b)
{
	const struct pass *p = t->pass[b->node % PEER_BUCKETS];

	while (p && p->ticket.node != b->node)
		p = p->next;
	if (!p || b->boot > p->ticket.boot)
		return CLAIM_WAITS;
	return b->boot == p->ticket.boot && b->role == p->ticket.role &&
			       same(b->ticket, p->ticket.ticket)
		       ? CLAIM_TRUE
		       : CLAIM_FALSE;
}

enum claim tw_ticket_check(const struct tw_tcp *t, const struct tw_body_greet *b)
{
	uint8_t mine[TW_TICKET];

	if (b->run != t->self.id.run)
		return CLAIM_FALSE;
	if (t->o.role != TW_TCP_SERVE)
		return by_passes(t, b);
	make(t, (const uint32_t[]){ b->node, b->boot, 0, 0 }, mine);
	return same(b->ticket, mine) ? CLAIM_TRUE : CLAIM_FALSE;
}
