/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_identity.c - for whom a worker may speak to shards: for the slot that the master has given
 * it.
 *
 * Shards believe whoever has the newest incarnation of a slot, because the master's word may be
 * slower than the worker's.  Here its word is waited for.  Where the master is, it says who is a
 * member before the worker hears of it; at other servers the shards say so when they hear of it:
 * what is said for an incarnation that none has named is held, and its connection not read, until
 * one does or time is up. */
#include "world/tcp_inner.h"
#include "base/grow.h"

#include <stdio.h>
#include <string.h>

#define SLOTS_MOST (1u << 20)

/* Then people can be told who it is.  Where the master is, only a member is believed, and only
 * until the master has named the slot. */
static void learn_slot(struct tw_tcp *t, struct peer *p, const struct tw_msg *m)
{
	if (m->h.from == p->slot)
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
	tw_tcp_refusal(c->t, c->name, "%s as worker %u is ignored: it comes from %s",
		       tw_type_name(m->h.type), m->h.from, c->peer->name);
	return CLAIM_FALSE;
}

static struct seat seat_of(struct tw_tcp *t, uint32_t slot)
{
	struct seat s = { 0 };

	pthread_mutex_lock(&t->lock);
	if (slot < t->members.seats)
		s = t->members.seat[slot];
	pthread_mutex_unlock(&t->lock);
	return s;
}

/* Who was removed has an older incarnation: it passes, and hears from the shard that it is out. */
static enum claim by_views(const struct conn *c, const struct tw_msg *m)
{
	const struct seat s = seat_of(c->t, m->h.from);

	if (m->h.incarnation > s.incarnation)
		return CLAIM_WAITS;
	if (m->h.incarnation == s.incarnation && c->peer->node != s.node)
		return false_claim(c, m);
	learn_slot(c->t, c->peer, m);
	return CLAIM_TRUE;
}

enum claim tw_identity_of(const struct conn *c, const struct tw_msg *m)
{
	struct tw_tcp *t = c->t;

	if (m->from.role != TW_WORKER || m->to.role != TW_SHARD)
		return CLAIM_TRUE;
	if (t->o.role == TW_TCP_SERVER)
		return by_views(c, m);
	learn_slot(t, c->peer, m);
	return is_member(t, c->peer, m->h.from) ? CLAIM_TRUE : false_claim(c, m);
}

static bool has_seat(struct tw_tcp *t, uint32_t slot)
{
	const size_t before = t->members.seats;

	if (!TW_GROW(t->heap, t->members.seat, t->members.seats, before, (size_t)slot + 1))
		return false;
	memset(t->members.seat + before, 0, (t->members.seats - before) * sizeof *t->members.seat);
	return true;
}

/* Guarded by lock.  False without memory. */
static bool learn_seats(struct tw_tcp *t, const struct tw_member *list, size_t count)
{
	for (size_t k = 0; k < count; k++) {
		if (list[k].slot >= SLOTS_MOST)
			continue;
		if (!has_seat(t, list[k].slot))
			return false;
		/* of two masters the later one gives the higher incarnations */
		if (list[k].incarnation >= t->members.seat[list[k].slot].incarnation)
			t->members.seat[list[k].slot] =
				(struct seat){ list[k].incarnation, list[k].node };
	}
	return true;
}

uint32_t tw_identity_slot(const struct tw_tcp *t, uint32_t node)
{
	for (size_t k = 0; k < t->members.seats; k++)
		if (t->members.seat[k].incarnation && t->members.seat[k].node == node)
			return (uint32_t)k;
	return UINT32_MAX;
}

/* Guarded by lock: what people call those whom we know already. */
static void name_peers(struct tw_tcp *t, const struct tw_member *list, size_t count)
{
	for (size_t k = 0; k < count; k++) {
		struct peer *p = tw_peer_of(t, list[k].node);

		if (!p || p->role != TW_WORKER || list[k].state != TW_LIVE)
			continue;
		p->slot = list[k].slot;
		tw_peer_rename(p);
	}
}

/* A worker that was taken over from an earlier master has been a member all the time: people have
 * heard of it. */
static void learn_member(struct tw_tcp *t, const struct tw_member *one)
{
	char name[sizeof((struct peer *)0)->name], host[sizeof((struct peer *)0)->host];
	bool joins = false;
	struct peer *p;

	if (one->state != TW_LIVE)
		return;
	pthread_mutex_lock(&t->lock);
	p = tw_peer_of(t, one->node);
	if (p && p->role == TW_WORKER) {
		joins = !p->paired && p->slot != one->slot && (!p->member || p->slot != UINT32_MAX);
		p->member = true;
		p->slot = one->slot;
		tw_peer_rename(p);
		memcpy(name, p->name, sizeof name);
		memcpy(host, p->host, sizeof host);
	}
	pthread_mutex_unlock(&t->lock);
	if (joins)
		tw_log_line(t->o.log, TW_INFO, t->self.who, "%s on %s joined", name, host);
}

void tw_identity_members(void *arg, struct tw_addr who, const struct tw_member *list, size_t count)
{
	struct tw_tcp *t = arg;

	if (who.role == TW_MASTER) {
		for (size_t k = 0; k < count; k++)
			learn_member(t, &list[k]);
		return;
	}
	if (t->o.role == TW_TCP_SERVE) /* the master is here, and has said so itself */
		return;
	pthread_mutex_lock(&t->lock);
	if (t->o.peers)
		name_peers(t, list, count);
	t->members.news.members = true;
	t->members.news.untold = !learn_seats(t, list, count) || t->members.news.untold;
	pthread_mutex_unlock(&t->lock);
	tw_loop_ring(t);
}

void tw_identity_named(void *arg, uint32_t slot, uint32_t incarnation)
{
	struct tw_tcp *t = arg;

	pthread_mutex_lock(&t->lock);
	t->members.news.named = true;
	t->members.news.slot = slot;
	t->members.news.incarnation = incarnation;
	pthread_mutex_unlock(&t->lock);
	tw_loop_ring(t);
}

static void take_name(struct tw_tcp *t, const struct tw_tcp_news *news)
{
	const bool again = t->self.incarnation == news->incarnation;

	t->self.incarnation = news->incarnation;
	snprintf(t->self.who, sizeof t->self.who, "worker %u on %s", news->slot, t->self.host);
	if (!again && t->peers.master && !t->peers.master->paired)
		tw_log_line(t->o.log, TW_INFO, t->self.who, "joined");
}

void tw_identity_hear(struct tw_tcp *t)
{
	struct tw_tcp_news news;

	pthread_mutex_lock(&t->lock);
	news = t->members.news;
	t->members.news.named = t->members.news.members = false;
	pthread_mutex_unlock(&t->lock);
	if (news.untold)
		tw_tcp_end(t, TW_NO_MEMORY, "no memory for the members");
	if (news.named)
		take_name(t, &news);
	if (news.members)
		tw_conns_try_held(t);
}
