/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_identity.c - for whom a worker may speak to shards: for the slot that the master has given
 * it.
 *
 * Shards believe whoever has the newest incarnation of a slot, because the master's word may be
 * slower than the worker's.  Here its word is waited for.  Where the master is, it says who is a
 * member before the worker hears of it; at other servers the shards say so when they hear of it:
 * what is said for an incarnation that none has named is held, and its connection not read, until
 * one does or time is up. */
#include "world/tcp/tcp_inner.h"
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

/* What views say of a slot: its newest incarnation, and whether this node is it, or a cell. */
static struct seat seat_of(struct tw_tcp *t, uint32_t slot, uint32_t node)
{
	const size_t first = (size_t)slot * tw_tcp_cells(t);
	struct seat s = { 0 };

	pthread_mutex_lock(&t->lock);
	for (size_t k = first; k < t->members.seats && k < first + tw_tcp_cells(t); k++) {
		const struct seat *one = &t->members.seat[k];

		if (one->incarnation > s.incarnation ||
		    (one->incarnation == s.incarnation && one->node == node))
			s = *one;
	}
	pthread_mutex_unlock(&t->lock);
	return s;
}

/* Who was removed has an older incarnation: it passes, and hears from the shard that it is out.
 * Shards of other stages may not have named this cell yet. */
static enum claim by_views(const struct conn *c, const struct tw_msg *m)
{
	const struct seat s = seat_of(c->t, m->h.from, c->peer->node);

	if (m->h.incarnation > s.incarnation)
		return CLAIM_WAITS;
	if (m->h.incarnation == s.incarnation && c->peer->node != s.node)
		return tw_tcp_cells(c->t) > 1 ? CLAIM_WAITS : false_claim(c, m);
	learn_slot(c->t, c->peer, m);
	return CLAIM_TRUE;
}

static enum claim claim_of(const struct conn *c, const struct tw_msg *m)
{
	struct tw_tcp *t = c->t;

	if (m->from.role != TW_WORKER || m->to.role != TW_SHARD)
		return CLAIM_TRUE;
	if (t->o.role == TW_TCP_SERVER || (t->o.role == TW_TCP_WORKER && t->o.with_shards))
		return by_views(c, m);
	learn_slot(t, c->peer, m);
	return is_member(t, c->peer, m->h.from) ? CLAIM_TRUE : false_claim(c, m);
}

/* --- delivering ------------------------------------------------------------------------------- */

static uint32_t node_of(const struct peer *p, uint32_t role)
{
	return role == TW_MASTER ? 0 : p->node;
}

static void pass(struct conn *c, struct tw_msg *m)
{
	struct tw_tcp *t = c->t;
	bool taken = false;

	tw_tcp_count(t, m);
	pthread_mutex_lock(&t->port_lock);
	if (t->port)
		taken = tw_port_deliver(t->port, m);
	pthread_mutex_unlock(&t->port_lock);
	if (!taken)
		tw_tcp_msg_free(t, m);
}

void tw_identity_deliver(struct conn *c, struct tw_msg *m)
{
	m->from.node = node_of(c->peer, m->from.role);
	m->to.node = m->to.role == TW_MASTER ? 0 : c->t->self.node;
	switch (claim_of(c, m)) {
	case CLAIM_TRUE:
		pass(c, m);
		break;
	case CLAIM_FALSE:
		tw_tcp_msg_free(c->t, m);
		break;
	case CLAIM_WAITS:
		c->held = m;
		c->paused = true;
		tw_conn_wait(c, &c->t->conns.unnamed);
	}
}

void tw_identity_try_held(struct tw_tcp *t)
{
	struct conn *c, *next, *list = t->conns.unnamed;

	t->conns.unnamed = NULL; /* who must wait on puts itself there again */
	for (c = list; c; c = next) {
		struct tw_msg *m = c->held;

		next = c->waits;
		c->held = NULL;
		c->paused = false;
		tw_identity_deliver(c, m);
		c->again = c->again || !c->held;
		t->loop.more = t->loop.more || !c->held;
	}
}

/* --- what our actors say ---------------------------------------------------------------------- */

static bool has_seats(struct tw_tcp *t, uint32_t slot)
{
	const size_t before = t->members.seats, most = ((size_t)slot + 1) * tw_tcp_cells(t);

	if (!TW_GROW(t->heap, t->members.seat, t->members.seats, before, most))
		return false;
	memset(t->members.seat + before, 0, (t->members.seats - before) * sizeof *t->members.seat);
	return true;
}

/* Of two masters the later one gives the higher incarnations.  Of an incarnation, shards name one
 * cell after the other. */
static void learn_seat(struct tw_tcp *t, const struct tw_member *one)
{
	const uint32_t cells = tw_tcp_cells(t);
	struct seat *seat = &t->members.seat[(size_t)one->slot * cells], *free = NULL;

	for (uint32_t k = 0; k < cells; k++) {
		if (seat[k].incarnation == one->incarnation && seat[k].node == one->node)
			return;
		if (seat[k].incarnation > one->incarnation)
			return;
		if (!free && (seat[k].incarnation < one->incarnation || cells == 1))
			free = &seat[k];
	}
	if (free)
		*free = (struct seat){ one->incarnation, one->node };
}

/* Guarded by lock.  False without memory. */
static bool learn_seats(struct tw_tcp *t, const struct tw_member *list, size_t count)
{
	for (size_t k = 0; k < count; k++) {
		if (list[k].slot >= SLOTS_MOST)
			continue;
		if (!has_seats(t, list[k].slot))
			return false;
		learn_seat(t, &list[k]);
	}
	return true;
}

/* Our worker is told of its cells in order; what shards say of cells has none. */
void tw_identity_name(const struct tw_tcp *t, struct peer *p)
{
	const uint32_t cells = tw_tcp_cells(t);

	for (size_t k = 0; k < t->members.seats; k++)
		if (t->members.seat[k].incarnation && t->members.seat[k].node == p->node) {
			p->slot = (uint32_t)(k / cells);
			p->cell = cells > 1 && t->o.role == TW_TCP_WORKER ? (uint32_t)(k % cells)
									  : UINT32_MAX;
			tw_peer_rename(p);
			return;
		}
}

/* Guarded by lock: what people call those whom we know already. */
static void name_peers(struct tw_tcp *t, const struct tw_member *list, size_t count)
{
	for (size_t k = 0; k < count; k++) {
		struct peer *p = tw_peer_of(t, list[k].node);

		if (p && p->role == TW_WORKER && list[k].state == TW_LIVE)
			tw_identity_name(t, p);
	}
}

/* Guarded by lock: our own worker says where its cells are, in order.  False without memory. */
static bool learn_cells(struct tw_tcp *t, const struct tw_member *list, size_t count)
{
	const uint32_t cells = tw_tcp_cells(t);

	if (count != cells || list[0].slot >= SLOTS_MOST)
		return true;
	for (size_t k = 0; k < t->members.seats; k++)
		t->members.seat[k] = (struct seat){ 0 };
	if (!has_seats(t, list[0].slot))
		return false;
	for (size_t k = 0; k < count; k++) {
		t->members.seat[(size_t)list[0].slot * cells + k] =
			(struct seat){ list[k].incarnation, list[k].node };
		if (list[k].node == t->self.node)
			t->members.news.cell = (uint32_t)k;
	}
	return true;
}

/* A worker that was taken over from an earlier master has been a member all the time: people have
 * heard of it. */
static void learn_member(struct tw_tcp *t, const struct tw_member *one, uint32_t cell)
{
	char name[sizeof((struct peer *)0)->name], host[sizeof((struct peer *)0)->host];
	bool joins = false;
	struct peer *p;

	pthread_mutex_lock(&t->lock);
	p = tw_peer_of(t, one->node);
	if (p && p->role == TW_WORKER)
		p->joins = one->state == TW_LIVE ? one->slot : UINT32_MAX;
	if (p && p->role == TW_WORKER && one->state == TW_LIVE) {
		joins = !p->paired && (p->slot != one->slot || p->cell != cell) &&
			(!p->member || p->slot != UINT32_MAX);
		p->member = true;
		p->slot = one->slot;
		p->cell = cell;
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
		const bool cells = tw_tcp_cells(t) > 1;

		for (size_t k = 0; k < count; k++)
			learn_member(t, &list[k], cells ? (uint32_t)k : UINT32_MAX);
		if (!cells)
			return;
	} else if (t->o.role == TW_TCP_SERVE) { /* the master is here, and has said so itself */
		return;
	}
	pthread_mutex_lock(&t->lock);
	t->members.news.members = true;
	if (who.role != TW_MASTER)
		t->members.news.untold = !(who.role == TW_WORKER ? learn_cells(t, list, count)
								 : learn_seats(t, list, count)) ||
					 t->members.news.untold;
	if (t->o.role == TW_TCP_WORKER)
		name_peers(t, list, count);
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
	char name[40];

	t->self.incarnation = news->incarnation;
	tw_peer_text(news->slot, tw_tcp_cells(t) > 1 ? news->cell : UINT32_MAX, name, sizeof name);
	snprintf(t->self.who, sizeof t->self.who, "%s on %s", name, t->self.host);
	if (!again && t->peers.master && !t->peers.master->paired)
		tw_log_line(t->o.log, TW_INFO, t->self.who, "joined");
}

bool tw_identity_hear(struct tw_tcp *t)
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
	return news.members;
}
