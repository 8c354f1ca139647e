/* SPDX-License-Identifier: Apache-2.0 */
/* sim_link.c - who is linked with whom, and which links are, or were, not like all others.  Links
 * that were never disturbed have no state of their own: 10,000 workers have as many links to each
 * server. */
#include "world/sim/sim_run.h"

#include <string.h>

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

bool tw_sim_befriend(struct sim *s, uint32_t a, uint32_t b)
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
