/* SPDX-License-Identifier: Apache-2.0 */
/* sim_link.c - the way of a message: NICs, latency, loss, cut links, a shard's queue.
 *
 * A NIC serves one message at a time in each direction.  The receiving one begins with the first
 * byte that arrives (cut-through), in the order in which first bytes arrive, so an idle path costs
 * latency + bytes / bandwidth, once.  What is faster than the one before it begins later, so that
 * it ends with the last byte, and is free for others until then.  Between groups of machines the
 * links that a group shares are two more of these (enum hop).  Links that were never disturbed have
 * no state of their own: 10,000 workers have as many links to each server. */
#include "world/sim_run.h"

#include <math.h>
#include <string.h>

enum { DRAW_JITTER = 1, DRAW_LOSS };

void tw_sim_parcel_free(struct sim *s, struct parcel *p)
{
	tw_sim_use_landed(s, p);
	if (p->counted)
		s->alive_bytes -= p->msg.h.payload;
	tw_msg_pool_give(&s->messages, &p->msg);
}

struct cell *tw_sim_cell(const struct sim *s, struct tw_addr addr)
{
	const struct node *n;
	uint32_t low, high;

	if (addr.node >= s->cast.nodes || addr.role >= TW_ROLES)
		return NULL;
	n = &s->cast.node[addr.node];
	low = n->at[addr.role];
	high = low + n->count[addr.role];
	if (addr.index < high - low && s->cast.cell[low + addr.index].ctx.self.index == addr.index)
		return &s->cast.cell[low + addr.index]; /* numbered without gaps: nearly always */
	while (low < high) {
		const uint32_t middle = low + (high - low) / 2;

		if (s->cast.cell[middle].ctx.self.index == addr.index)
			return &s->cast.cell[middle];
		if (s->cast.cell[middle].ctx.self.index < addr.index)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

static uint64_t pair_key(uint32_t a, uint32_t b)
{
	return a < b ? (uint64_t)a << 32 | b : (uint64_t)b << 32 | a;
}

static bool linked_by_role(const struct sim *s, uint32_t a, uint32_t b)
{
	const uint32_t ka = s->cast.node[a].kinds, kb = s->cast.node[b].kinds;

	return ((ka | kb) & NODE_MASTER) || ((ka & NODE_SERVER) && (kb & NODE_WORKER)) ||
	       ((ka & NODE_WORKER) && (kb & NODE_SERVER));
}

bool tw_sim_linked(const struct sim *s, uint32_t a, uint32_t b)
{
	if (a == b)
		return false;
	return linked_by_role(s, a, b) ||
	       (s->cast.node[a].friends && tw_map_find(&s->links.friends, pair_key(a, b)));
}

static bool is_hub(const struct sim *s, uint32_t node)
{
	return s->cast.node[node].kinds & (NODE_MASTER | NODE_SERVER);
}

uint32_t tw_sim_neighbours(const struct sim *s, uint32_t node)
{
	return is_hub(s, node) ? s->cast.nodes : s->cast.hubs + s->cast.node[node].friends;
}

uint32_t tw_sim_neighbour(const struct sim *s, uint32_t node, uint32_t k)
{
	if (is_hub(s, node))
		return k;
	return k < s->cast.hubs ? s->cast.hub[k] : s->cast.node[node].friend[k - s->cast.hubs];
}

static bool befriend_one(struct sim *s, uint32_t node, uint32_t other)
{
	struct node *n = &s->cast.node[node];

	if ((n->friends & (n->friends - 1)) == 0) { /* full: it has room for a power of two */
		uint32_t *more = s->heap->get(s->heap, 2 * (n->friends + 1) * sizeof *more);

		if (!more)
			return false;
		if (n->friends)
			memcpy(more, n->friend, n->friends * sizeof *more);
		s->heap->put(s->heap, n->friend);
		n->friend = more;
	}
	n->friend[n->friends++] = other;
	return true;
}

/* Two nodes whose roles do not link them talk: from now on they hear when the other is gone. */
static bool befriend(struct sim *s, uint32_t a, uint32_t b)
{
	return a == b || tw_sim_linked(s, a, b) ||
	       (befriend_one(s, a, b) && befriend_one(s, b, a) &&
		tw_map_put(&s->links.friends, pair_key(a, b), 1));
}

struct pair *tw_sim_pair(const struct sim *s, uint32_t a, uint32_t b)
{
	const int64_t *found;

	if (!s->cast.node[a].odd || !s->cast.node[b].odd)
		return NULL;
	found = tw_map_find(&s->links.pairs, pair_key(a, b));
	return found ? (struct pair *)(intptr_t)*found : NULL;
}

struct pair *tw_sim_pair_new(struct sim *s, uint32_t a, uint32_t b)
{
	struct pair *p = tw_sim_pair(s, a, b);
	int64_t *place;

	if (p)
		return p;
	p = tw_heap_zeros(s->heap, sizeof *p);
	place = p ? tw_map_put(&s->links.pairs, pair_key(a, b), (intptr_t)p) : NULL;
	if (!place) {
		s->heap->put(s->heap, p);
		tw_sim_fail(s, TW_NO_MEMORY, "no memory for the state of a link");
		return NULL;
	}
	p->node[0] = a < b ? a : b;
	p->node[1] = a < b ? b : a;
	p->held_end = &p->held;
	for (int i = 0; i < 2; i++)
		p->told[i] = !s->cast.node[p->node[!i]].alive && s->cast.node[p->node[!i]].given_up;
	s->cast.node[a].odd++;
	s->cast.node[b].odd++;
	return p;
}

void tw_sim_pair_drop_held(struct sim *s, struct pair *p)
{
	while (p->held) {
		struct parcel *held = p->held;

		p->held = held->event.what;
		tw_sim_parcel_free(s, held);
	}
	p->held_end = &p->held;
}

void tw_sim_links_release(struct sim *s)
{
	for (size_t i = 0; i < s->links.pairs.room; i++)
		if (s->links.pairs.key[i]) {
			struct pair *p = (struct pair *)(intptr_t)s->links.pairs.value[i];

			tw_sim_pair_drop_held(s, p);
			s->heap->put(s->heap, p);
		}
	for (uint32_t i = 0; s->cast.node && i < s->cast.nodes; i++)
		s->heap->put(s->heap, s->cast.node[i].friend);
	s->heap->put(s->heap, s->links.group);
	tw_map_release(&s->links.friends);
	tw_map_release(&s->links.pairs);
	tw_map_release(&s->links.fifo);
}

/* What jitter and loss add.  Drawn for (link; time, type, shard), which a run that was resumed
 * meets again. */
static int64_t disturb(struct sim *s, const struct parcel *p)
{
	const struct tw_sim_options *o = s->options;
	const struct tw_msg *m = &p->msg;
	const uint64_t link = (uint64_t)m->from.node << 32 | m->to.node;
	const uint64_t what = tw_sim_mix(tw_sim_mix((uint64_t)s->now, m->h.type), m->h.shard);
	int64_t more = 0;

	if (o->jitter > 0)
		more = (int64_t)(tw_rng_uniform(&s->rng, link, tw_sim_mix(what, DRAW_JITTER)) *
				 (double)o->jitter);
	for (uint64_t try = 0; o->loss > 0.0; try++) {
		if (tw_rng_uniform(&s->rng, link, tw_sim_mix(what, DRAW_LOSS + try)) >= o->loss)
			break;
		more += o->retransmit;
	}
	return more;
}

/* (3): a message that was less unlucky waits for the one before it. */
static bool in_order(struct sim *s, const struct tw_msg *m, int64_t *at)
{
	int64_t *last = tw_map_put(&s->links.fifo, (uint64_t)m->from.node << 32 | m->to.node, *at);

	if (!last)
		return false;
	if (*last > *at)
		*at = *last;
	*last = *at;
	return true;
}

static int64_t takes(size_t bytes, double bandwidth)
{
	return bandwidth > 0.0 ? llround((double)bytes * 8e9 / bandwidth) : 0;
}

static double nic_of(const struct sim *s, const struct node *n)
{
	return n->machine ? n->machine->bandwidth : s->options->bandwidth;
}

static uint32_t group_of(const struct node *n)
{
	return n->machine ? n->machine->group : 0;
}

/* What comes behind a hop, HOP_NIC standing for that of the sender, and what it needs. */
static void go_on(const struct sim *s, struct parcel *p, enum hop behind)
{
	const struct node *from = &s->cast.node[p->msg.from.node];
	const struct node *to = &s->cast.node[p->msg.to.node];
	const bool apart = group_of(from) != group_of(to);

	p->hop = HOP_NIC;
	if (apart && behind == HOP_NIC && group_of(from))
		p->hop = HOP_OUT;
	else if (apart && behind != HOP_IN && group_of(to))
		p->hop = HOP_IN;
	p->lasts = takes(tw_msg_bytes(&p->msg),
			 p->hop == HOP_NIC ? nic_of(s, to) : s->options->machines.bandwidth);
}

/* A hop has it from `begin` to `end`: when does the one behind begin with it? */
static int64_t arrival(const struct parcel *p, int64_t begin, int64_t end)
{
	return end - p->lasts > begin ? end - p->lasts : begin;
}

/* When what is behind the sender's NIC has the message, which is taken meanwhile. */
static bool travel(struct sim *s, struct parcel *p, int64_t *at)
{
	const size_t bytes = tw_msg_bytes(&p->msg);
	struct node *from = &s->cast.node[p->msg.from.node];
	const struct node *to = &s->cast.node[p->msg.to.node];
	const double nic = nic_of(s, from);

	s->ran->bytes_sent += bytes;
	*at = p->left = s->now;
	if (nic > 0.0) {
		if (from->egress > *at)
			*at = from->egress;
		from->egress = p->left = *at + takes(bytes, nic);
	}
	tw_sim_use_sent(s, p, *at);
	go_on(s, p, HOP_NIC);
	*at = arrival(p, *at, p->left) + tw_sim_latency(s->options, from->machine, to->machine);
	if (!s->links.lossy)
		return true;
	*at += disturb(s, p);
	return in_order(s, &p->msg, at);
}

/* The first byte is at the link of a group. */
static void cross_group(struct sim *s, struct parcel *p)
{
	const enum hop hop = p->hop;
	const uint32_t node = hop == HOP_OUT ? p->msg.from.node : p->msg.to.node;
	struct group_link *link = &s->links.group[group_of(&s->cast.node[node]) - 1];
	int64_t *free = hop == HOP_OUT ? &link->out : &link->in;
	const int64_t begin = *free > s->now ? *free : s->now;

	*free = begin + p->lasts;
	go_on(s, p, hop);
	if (!tw_sim_push(s, arrival(p, begin, *free), &p->event))
		tw_sim_parcel_free(s, p);
}

void tw_sim_post(struct sim *s, struct tw_msg *m)
{
	struct parcel *p = tw_sim_parcel(m);
	struct cell *to = tw_sim_cell(s, m->to);
	const struct pair *pair;
	int64_t at = s->now;

	if (!to) {
		char name[64];

		tw_sim_name(s, m->from, name, sizeof name);
		tw_sim_fail(s, TW_ABSENT,
			    "%s sent %s to node %u, role %u, index %u, but there is no such actor",
			    name, tw_type_name(m->h.type), m->to.node, m->to.role, m->to.index);
	}
	if (!to || !to->actor) {
		tw_sim_parcel_free(s, p);
		return;
	}
	if (!befriend(s, m->from.node, m->to.node)) {
		tw_sim_parcel_free(s, p);
		tw_sim_fail(s, TW_NO_MEMORY, "no memory for a link");
		return;
	}
	s->alive_bytes += m->h.payload;
	p->counted = true;
	if (s->alive_bytes > s->ran->peak_bytes)
		s->ran->peak_bytes = s->alive_bytes;
	pair = tw_sim_pair(s, m->from.node, m->to.node);
	p->epoch = pair ? pair->epoch : 0;
	p->from_boot = s->cast.node[m->from.node].boot;
	p->event.boot = s->cast.node[m->to.node].boot;
	p->event.cell = to;
	p->sent = p->left = s->now;
	p->hop = HOP_NIC;
	p->lasts = 0;
	p->event.kind = EVENT_ARRIVE;
	if (m->from.node == m->to.node) {
		p->event.kind = EVENT_RECEIVED;
		if (!(m->h.flags & TW_FLAG_FREE))
			at += s->options->local;
	} else if (!(m->h.flags & TW_FLAG_FREE) && !travel(s, p, &at)) {
		tw_sim_parcel_free(s, p);
		tw_sim_fail(s, TW_NO_MEMORY, "no memory for the state of a link");
		return;
	}
	if (!tw_sim_push(s, at, &p->event))
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
