/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_peers.c - the table of processes that we know: new ones, finding them, forgetting them. */
#include "world/tcp/tcp_inner.h"

#include <stdio.h>
#include <unistd.h>

void tw_peer_text(uint32_t slot, uint32_t cell, char *out, size_t room)
{
	if (cell == UINT32_MAX)
		snprintf(out, room, "worker %u", slot);
	else
		snprintf(out, room, "worker %u.%u", slot, cell);
}

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
		tw_peer_text(p->slot, p->cell, p->name, sizeof p->name);
	else
		snprintf(p->name, sizeof p->name, "new worker");
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

void tw_peer_say_nothing(struct tw_tcp *t, struct peer *p)
{
	while (p->out.first) {
		struct tw_msg *m = p->out.first;

		p->out.first = m->next;
		tw_msg_discard(t->heap, 0, m);
	}
	p->out.end = &p->out.first;
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

/* --- workers by process ----------------------------------------------------------------------- */

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

/* --- who listens ------------------------------------------------------------------------------ */

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

/* --- finding and forgetting ------------------------------------------------------------------- */

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
	tw_peer_say_nothing(t, p);
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
