/* SPDX-License-Identifier: Apache-2.0 */
/* sim_arrive.c - a message arrives: is it still wanted, when is all of it there, who hears it? */
#include "world/sim/sim_run.h"

#include <math.h>

/* The first byte is at the link of a group. */
static void cross_group(struct sim *s, struct parcel *p)
{
	const enum hop hop = p->hop;
	const uint32_t node = hop == HOP_OUT ? p->msg.from.node : p->msg.to.node;
	struct group_link *link = &s->links.group[tw_sim_group(&s->cast.node[node]) - 1];
	int64_t *free = hop == HOP_OUT ? &link->out : &link->in;
	const int64_t begin = *free > s->now ? *free : s->now;

	*free = begin + p->lasts;
	tw_sim_go_on(s, p, hop);
	if (!tw_sim_push(s, tw_sim_begins(p, begin, *free), &p->event))
		tw_sim_parcel_free(s, p);
}

/* Did its sender crash before it had left? */
static bool never_left(const struct sim *s, const struct parcel *p)
{
	const struct node *from = &s->cast.node[p->msg.from.node];

	return !from->alive && p->left > from->crashed;
}

/* (6), (7): whoever was told that its sender is gone, or that it has come back, hears nothing more
 * of the life that ended. */
static bool from_the_dead(const struct sim *s, const struct parcel *p)
{
	const struct node *from = &s->cast.node[p->msg.from.node];

	if (p->msg.from.node == p->msg.to.node)
		return false;
	return from->boot != p->from_boot || (!from->alive && from->given_up);
}

void tw_sim_arrive(struct sim *s, struct parcel *p)
{
	struct node *to = &s->cast.node[p->msg.to.node];
	struct pair *pair = tw_sim_pair(s, p->msg.from.node, p->msg.to.node);
	int64_t begin = s->now;

	if (p->hop != HOP_NIC) {
		cross_group(s, p);
		return;
	}
	if (!tw_sim_lives(s, p->event.cell, p->event.boot) || never_left(s, p) ||
	    from_the_dead(s, p) || (pair && (pair->epoch != p->epoch || pair->down))) {
		tw_sim_parcel_free(s, p);
		return;
	}
	if (pair && pair->cuts) {
		p->event.what = NULL;
		*pair->held_end = p;
		pair->held_end = (struct parcel **)&p->event.what;
		return;
	}
	if (!p->lasts) {
		tw_sim_received(s, p);
		return;
	}
	if (to->ingress > begin)
		begin = to->ingress;
	to->ingress = begin + p->lasts;
	p->event.kind = EVENT_RECEIVED;
	if (!tw_sim_push(s, to->ingress, &p->event))
		tw_sim_parcel_free(s, p);
}

static void enter(struct sim *s, struct parcel *p)
{
	struct cell *c = p->event.cell;
	struct tw_msg *m = &p->msg;

	if (m->from.node != m->to.node && !(m->h.flags & TW_FLAG_FREE))
		s->ran->bytes_received += tw_msg_bytes(m);
	tw_trace_message(&s->trace, m, p->sent, s->now);
	c->class->message(c->actor, &c->ctx, m);
	tw_sim_leave(s, c);
	tw_sim_parcel_free(s, p);
}

/* A shard is a queue: pushes take their time, and whatever came after them waits behind them, or
 * a pull would overtake the push before it. */
void tw_sim_received(struct sim *s, struct parcel *p)
{
	struct cell *c = p->event.cell;
	const struct tw_msg *m = &p->msg;

	if (!tw_sim_lives(s, c, p->event.boot) ||
	    (p->event.kind != EVENT_SERVED && from_the_dead(s, p))) {
		tw_sim_parcel_free(s, p);
		return;
	}
	if (p->flying)
		tw_sim_use_received(s, p);
	tw_sim_use_landed(s, p);
	if (s->options->apply_rate > 0.0 && m->to.role == TW_SHARD &&
	    p->event.kind != EVENT_SERVED && !(m->h.flags & TW_FLAG_FREE)) {
		if (c->busy < s->now)
			c->busy = s->now;
		if (tw_kind_of(m->h.type)->payload == TW_PAYLOAD_SLICE)
			c->busy += llround(m->h.payload / 4 * 1e9 / s->options->apply_rate);
		/* at the very moment when the queue is served, some of it may still wait */
		if (c->busy > s->now || c->queued == s->now) {
			c->queued = c->busy;
			p->event.kind = EVENT_SERVED;
			if (!tw_sim_push(s, c->busy, &p->event))
				tw_sim_parcel_free(s, p);
			return;
		}
	}
	enter(s, p);
}
