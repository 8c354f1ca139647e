/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_claim.c - for whom a worker may speak to shards: for the slot that the master has given it.
 *
 * Shards believe whoever has the newest incarnation of a slot, because the master's word may be
 * slower than the worker's.  Here its word is waited for.  Where the master is, it has passed here
 * before the worker heard of it; at other servers it is a view: what is said for an incarnation
 * that no view has named is held, and its connection not read, until one does or time is up. */
#include "world/tcp_inner.h"
#include "base/grow.h"

#include <string.h>

#define SLOTS_MOST (1u << 20)

/* Then people can be told who it is.  Where the master is, only a member is believed, and only
 * until the master has named the slot. */
static void learn_slot(struct tw_tcp *t, struct peer *p, const struct tw_msg *m)
{
	if (p->role != TW_WORKER || m->h.type == TW_HELLO || m->h.from == p->slot)
		return;
	pthread_mutex_lock(&t->lock);
	if (t->o.role != TW_TCP_SERVE || (p->member && p->slot == UINT32_MAX)) {
		p->slot = m->h.from;
		tw_peer_rename(p);
	}
	pthread_mutex_unlock(&t->lock);
}

static bool is_member(struct tw_tcp *t, const struct peer *p, uint32_t slot)
{
	bool good;

	pthread_mutex_lock(&t->lock);
	good = p->member && p->slot == slot;
	pthread_mutex_unlock(&t->lock);
	return good;
}

static enum claim false_claim(const struct conn *c, const struct tw_msg *m)
{
	tw_tcp_refusal(c->t, c->name, "%s as worker %u is not heard: it is %s",
		       tw_type_name(m->h.type), m->h.from, c->peer->name);
	return CLAIM_FALSE;
}

/* Who was removed has an older incarnation: it passes, and hears from the shard that it is out. */
static enum claim by_views(const struct conn *c, const struct tw_msg *m)
{
	const struct tw_tcp *t = c->t;
	const struct seat *s = m->h.from < t->seats ? &t->seat[m->h.from] : NULL;

	if (!s || m->h.incarnation > s->incarnation)
		return CLAIM_WAITS;
	if (m->h.incarnation == s->incarnation && c->peer->node != s->node)
		return false_claim(c, m);
	learn_slot(c->t, c->peer, m);
	return CLAIM_TRUE;
}

enum claim tw_claim_of(const struct conn *c, const struct tw_msg *m)
{
	struct tw_tcp *t = c->t;
	const bool to_shard = c->peer->role == TW_WORKER && m->to.role == TW_SHARD;

	if (t->o.role == TW_TCP_SERVER && to_shard)
		return by_views(c, m);
	if (t->o.role != TW_TCP_SERVE)
		return CLAIM_TRUE;
	learn_slot(t, c->peer, m);
	if (to_shard && !is_member(t, c->peer, m->h.from))
		return false_claim(c, m);
	return CLAIM_TRUE;
}

static bool has_seat(struct tw_tcp *t, uint32_t slot)
{
	const size_t before = t->seats;

	if (!TW_GROW(t->heap, t->seat, t->seats, before, (size_t)slot + 1))
		return false;
	memset(t->seat + before, 0, (t->seats - before) * sizeof *t->seat);
	return true;
}

bool tw_claim_learn(const struct conn *c, const struct tw_msg *m)
{
	const struct tw_member *list = m->tail ? (const void *)m->tail->data : NULL;
	struct tw_tcp *t = c->t;

	if (t->o.role != TW_TCP_SERVER || c->peer->role != TW_MASTER || m->h.type != TW_VIEW ||
	    m->from.role != TW_MASTER || m->to.role != TW_SHARD)
		return false;
	for (size_t k = 0; k < m->h.tail / sizeof *list; k++) {
		if (list[k].slot >= SLOTS_MOST)
			continue;
		if (!has_seat(t, list[k].slot)) {
			tw_tcp_end(t, TW_NO_MEMORY, "no memory for the members");
			return false;
		}
		/* of two masters the later one gives the higher incarnations */
		if (list[k].incarnation >= t->seat[list[k].slot].incarnation)
			t->seat[list[k].slot] = (struct seat){ list[k].incarnation, list[k].node };
	}
	return true;
}
