/* SPDX-License-Identifier: Apache-2.0 */
/* threads_box.c - finding a cell, putting mail into its mailbox, entering and leaving it;
 * invariants: threads_inner.h. */
#include "world/threads/threads_inner.h"

#include <sched.h>

static size_t mailbox_of(const struct threads *w, struct tw_addr a)
{
	const uint64_t key = (uint64_t)a.node << 32 | (uint32_t)a.role << 16 | a.index;

	return (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (w->places - 1);
}

static bool same_addr(struct tw_addr a, struct tw_addr b)
{
	return a.node == b.node && a.role == b.role && a.index == b.index;
}

struct cell *tw_threads_find(const struct threads *w, struct tw_addr to)
{
	for (size_t p = mailbox_of(w, to); w->place[p]; p = (p + 1) & (w->places - 1)) {
		struct cell *c = &w->cell[w->place[p] - 1];

		if (same_addr(c->seat->addr, to))
			return c;
	}
	return NULL;
}

bool tw_threads_index(struct threads *w)
{
	for (size_t k = 0; k < w->cells; k++) {
		size_t p = mailbox_of(w, w->cell[k].seat->addr);

		if (tw_threads_find(w, w->cell[k].seat->addr))
			return false;
		while (w->place[p])
			p = (p + 1) & (w->places - 1);
		w->place[p] = (uint32_t)k + 1;
	}
	return true;
}

void tw_threads_post(struct hand *me, struct cell *c, struct mail *mail)
{
	struct mail *newest = atomic_load(&c->box);

	do
		mail->m.next = (struct tw_msg *)newest;
	while (!atomic_compare_exchange_weak(&c->box, &newest, mail));
	if (!c->owner || atomic_load(&c->computing) || tw_threads_visits(me, c))
		tw_threads_list(me, c);
	else if (c->owner != me)
		tw_threads_wake(c->owner);
}

bool tw_threads_try(struct hand *me, struct cell *c)
{
	if (atomic_load(&c->busy) || atomic_exchange(&c->busy, true))
		return false;
	c->door.hand = me;
	return true;
}

void tw_threads_enter(struct hand *me, struct cell *c)
{
	for (unsigned turn = 0; !tw_threads_try(me, c); turn++)
		if (turn % 64 == 63)
			sched_yield();
		else
			tw_threads_rest();
}

void tw_threads_leave(struct cell *c)
{
	atomic_store(&c->busy, false);
}
