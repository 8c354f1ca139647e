/* SPDX-License-Identifier: Apache-2.0 */
/* threads_settle.c - after a handler: its sends go into mailboxes, what it cancelled is completed,
 * what it wants computed is offered; invariants: threads_inner.h. */
#include "world/threads/threads_inner.h"

#include <string.h>
#define XXH_STATIC_LINKING_ONLY /* a state on the stack */
#include <xxhash.h>

uint64_t tw_threads_hash(const struct tw_msg *m)
{
	XXH3_state_t state;
	uint64_t hash;

	XXH3_64bits_reset(&state);
	XXH3_64bits_update(&state, &m->b, tw_body_bytes(m->h.type));
	if (m->tail)
		XXH3_64bits_update(&state, m->tail->data, m->h.tail);
	if (m->payload)
		XXH3_64bits_update(&state, m->payload->data, m->h.payload);
	hash = XXH3_64bits_digest(&state);
	return hash ? hash : 1;
}

/* A message of a cell here to an actor that is not. */
static void send_abroad(struct hand *me, struct cell *from, struct tw_msg *m)
{
	const struct threads *w = me->world;

	if (w->options.gateway) {
		w->options.gateway->send(w->options.gateway->arg, m);
		return;
	}
	tw_log_line(w->cluster->log, TW_WARNING, from->name,
		    "sent %s to node %u role %u index %u, but there is no such actor",
		    tw_type_name(m->h.type), m->to.node, m->to.role, m->to.index);
	tw_msg_pool_give(&me->messages, m);
}

static void deliver_mail(struct hand *me, struct cell *from);

static void enter_shared(struct hand *me, struct cell *c, struct tw_msg *m)
{
	struct door door = { .ctx = c->door.ctx, .cell = c, .hand = me };

	me->events++;
	if (m->from.node != m->to.node)
		tw_threads_bump(&me->bytes_received, tw_msg_bytes(m));
	c->seat->class->shared(c->actor, &door.ctx, m);
	tw_msg_pool_give(&me->messages, m);
	deliver_mail(me, c);
}

/* Put the sends of the handler that has returned into their mailboxes. */
static void deliver_mail(struct hand *me, struct cell *from)
{
	struct threads *w = me->world;
	struct tw_msg *m = me->out;
	bool abroad = false;

	me->out = NULL;
	me->out_end = &me->out;
	while (m) {
		struct tw_msg *next = m->next;
		struct cell *c = tw_threads_find(w, m->to);

		if (!c) {
			send_abroad(me, from, m);
			abroad = true;
			m = next;
			continue;
		}
		if (m->from.node != m->to.node && !w->options.gateway)
			tw_threads_bump(&me->bytes_sent, tw_msg_bytes(m));
		if (c->open && from->computes && tw_kind_of(m->h.type)->shared &&
		    !atomic_load(&w->over)) {
			enter_shared(me, c, m);
		} else {
			if (w->options.hash)
				m->h.hash = tw_threads_hash(m);
			tw_threads_post(me, c, (struct mail *)m);
		}
		m = next;
	}
	if (abroad && w->options.gateway)
		w->options.gateway->sent(w->options.gateway->arg);
}

static struct tw_compute *take_cancelled(struct cell *c)
{
	for (struct tw_compute **at = &c->wanted; *at; at = (struct tw_compute **)&(*at)->world) {
		struct tw_compute *found = *at;

		if (!atomic_load(&found->cancel))
			continue;
		*at = found->world;
		if (!*at)
			c->wanted_end = at;
		return found;
	}
	return NULL;
}

void tw_threads_settle(struct hand *me, struct cell *c)
{
	const struct tw_gateway *g = me->world->options.gateway;
	const bool desk = me->world->cluster->desk;
	struct tw_compute *gone;

	deliver_mail(me, c);
	while (!atomic_load(&me->world->over) &&
	       ((desk && (gone = tw_threads_withdraw(c))) || (gone = take_cancelled(c)))) {
		gone->status = TW_CANCELLED;
		me->events++;
		c->seat->class->computed(c->actor, &c->door.ctx, gone);
		deliver_mail(me, c);
	}
	/* all that it sent is out, also what a cancelled computation made it say */
	if (me->gone && g)
		g->gone(g->arg, c->seat->addr);
	me->gone = false;
	if (desk)
		tw_threads_offer(c);
	tw_threads_share(me);
}
