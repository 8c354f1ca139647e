/* SPDX-License-Identifier: Apache-2.0 */
/* sim_fault.c - what goes wrong: crashes and restarts, partitions, resets, slow nodes, leavers.
 *
 *  (6) an actor hears `down` of a node once, and then nothing of it until `up`.
 *  (7) a cut that heals before the silent limit is delay and nothing else; one that outlasts it,
 *      a reset and a restart begin a new connection: `epoch` and boot number tell parcels of the
 *      old one. */
#include "world/sim/sim_run.h"

#include <stdlib.h>

#define LATE (50 * 1000000.0) /* ns: what a reset delays comes within this */

enum { DRAW_LASTS = 4, DRAW_HOW };

/* Telling. */

static bool told(struct sim *s, uint32_t who, uint32_t whom, bool down)
{
	struct pair *p = tw_sim_pair(s, who, whom);
	bool before;

	if (!p)
		return false;
	before = p->told[p->node[1] == who];
	p->told[p->node[1] == who] = down;
	return before;
}

static void tell(struct sim *s, uint32_t who, uint32_t whom, bool down)
{
	const struct node *n = &s->cast.node[who];
	const uint32_t boot = n->boot;

	if (!n->alive || (told(s, who, whom, down) && down))
		return;
	for (uint32_t i = n->first; i < n->first + n->cells && !s->over; i++) {
		struct cell *c = &s->cast.cell[i];
		const struct tw_actor_class *class = c->class;

		if (!tw_sim_lives(s, c, boot))
			return;
		if (down ? !class->down : !class->up)
			continue;
		if (down)
			class->down(c->actor, &c->ctx, whom);
		else
			class->up(c->actor, &c->ctx, whom, s->cast.node[whom].boot);
		tw_sim_leave(s, c);
	}
}

/* Both reach each other again. */
static void tell_up(struct sim *s, uint32_t a, uint32_t b)
{
	if (s->cast.node[a].alive && s->cast.node[b].alive)
		tell(s, a, b, false);
	if (s->cast.node[a].alive && s->cast.node[b].alive)
		tell(s, b, a, false);
}

static bool is_cut(const struct sim *s, uint32_t a, uint32_t b)
{
	const struct pair *p = tw_sim_pair(s, a, b);

	return p && p->cuts;
}

/* Crash and restart. */

static void crash(struct sim *s, uint32_t node, int64_t lasts)
{
	struct node *n = &s->cast.node[node];
	struct event *e;

	if (!n->alive)
		return;
	tw_trace_mark(&s->trace, node, "crash", s->now);
	tw_sim_node_stop(s, node);
	n->crashed = s->now;
	e = tw_sim_event(s, s->now + s->options->closed_limit, EVENT_CLOSED, NULL, NULL);
	if (!e)
		return;
	e->node = node;
	e->boot = n->boot;
	if (lasts < 0)
		return;
	e = tw_sim_event(s, s->now + lasts, EVENT_RESTART, NULL, NULL);
	if (!e)
		return;
	e->node = node;
	e->boot = n->boot;
}

static void closed(struct sim *s, uint32_t node, uint32_t boot)
{
	struct node *n = &s->cast.node[node];

	if (n->alive || n->boot != boot)
		return;
	n->given_up = true;
	for (uint32_t k = 0; k < tw_sim_neighbours(s, node) && !s->over; k++) {
		const uint32_t i = tw_sim_neighbour(s, node, k);

		if (tw_sim_linked(s, i, node) && !is_cut(s, i, node))
			tell(s, i, node, true);
	}
}

/* What a node that comes back hears of its peers. */
static void look_round(struct sim *s, uint32_t node, uint32_t boot)
{
	for (uint32_t k = 0; k < tw_sim_neighbours(s, node) && !s->over; k++) {
		const uint32_t i = tw_sim_neighbour(s, node, k);
		const struct pair *p = tw_sim_pair(s, node, i);

		if (!tw_sim_linked(s, i, node))
			continue;
		if (s->cast.node[node].boot != boot || !s->cast.node[node].alive)
			return;
		told(s, node, i, false);
		if (p && p->cuts) {
			if (p->down)
				tell(s, node, i, true);
		} else if (s->cast.node[i].alive) {
			tell(s, node, i, false);
		} else if (s->cast.node[i].given_up) {
			tell(s, node, i, true);
		}
	}
}

static void restart(struct sim *s, uint32_t node, uint32_t boot)
{
	struct node *n = &s->cast.node[node];

	if (n->alive || n->boot != boot)
		return;
	tw_trace_mark(&s->trace, node, "restart", s->now);
	if (!tw_sim_node_make(s, node))
		return;
	boot = n->boot;
	tw_sim_node_start(s, node);
	look_round(s, node, boot);
	for (uint32_t k = 0; k < tw_sim_neighbours(s, node) && !s->over; k++) {
		const uint32_t i = tw_sim_neighbour(s, node, k);

		if (n->alive && n->boot == boot && tw_sim_linked(s, i, node) && !is_cut(s, i, node))
			tell(s, i, node, false);
	}
}

/* Partitions. */

static void cut(struct sim *s, uint32_t a, uint32_t b)
{
	struct pair *p = tw_sim_pair_new(s, a, b);
	struct event *e;

	if (!p || p->cuts++)
		return;
	p->number++;
	p->boot[0] = s->cast.node[p->node[0]].boot;
	p->boot[1] = s->cast.node[p->node[1]].boot;
	e = tw_sim_event(s, s->now + s->options->silent_limit, EVENT_SILENT, NULL, p);
	if (e)
		e->node = p->number;
}

static void silent(struct sim *s, struct pair *p, uint32_t number)
{
	if (!p->cuts || p->number != number)
		return;
	p->down = true;
	p->epoch++;
	tw_sim_pair_drop_held(s, p);
	tell(s, p->node[0], p->node[1], true);
	if (!s->over)
		tell(s, p->node[1], p->node[0], true);
}

static void release_held(struct sim *s, struct pair *p)
{
	struct parcel *held = p->held;

	p->held = NULL;
	p->held_end = &p->held;
	while (held) {
		struct parcel *next = held->event.what;

		if (s->over)
			tw_sim_parcel_free(s, held);
		else
			tw_sim_arrive(s, held);
		held = next;
	}
}

static void heal(struct sim *s, uint32_t a, uint32_t b)
{
	struct pair *p = tw_sim_pair(s, a, b);
	const struct node *x = &s->cast.node[a], *y = &s->cast.node[b];
	bool fresh;

	if (!p || !p->cuts || --p->cuts)
		return;
	fresh = p->down || p->broken || s->cast.node[p->node[0]].boot != p->boot[0] ||
		s->cast.node[p->node[1]].boot != p->boot[1];
	p->down = p->broken = false;
	if (!fresh && x->alive && y->alive) {
		release_held(s, p);
		return;
	}
	p->epoch++;
	tw_sim_pair_drop_held(s, p);
	tell_up(s, a, b);
	if (!s->over && !x->alive && x->given_up)
		tell(s, b, a, true);
	if (!s->over && !y->alive && y->given_up)
		tell(s, a, b, true);
}

/* Resets. */

static bool on_link(const struct event *e, const struct pair *p)
{
	const struct parcel *parcel = (const struct parcel *)e;
	uint32_t from, to;

	if (!e || (e->kind != EVENT_ARRIVE && e->kind != EVENT_RECEIVED))
		return false;
	from = parcel->msg.from.node;
	to = parcel->msg.to.node;
	return !parcel->late && parcel->epoch == p->epoch &&
	       ((from == p->node[0] && to == p->node[1]) ||
		(from == p->node[1] && to == p->node[0]));
}

static int in_time(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->at != y->at)
		return x->at < y->at ? -1 : 1;
	return x->seq < y->seq ? -1 : x->seq > y->seq;
}

/* Take everything on its way between the two out of the queue, in order; NULL without memory. */
static struct entry *take_off(struct sim *s, const struct pair *p, size_t *count)
{
	struct entry *out;

	tw_queue_gather(&s->queue);
	*count = 0;
	for (size_t i = 0; i < tw_queue_count(&s->queue); i++)
		*count += on_link(tw_queue_at(&s->queue, i)->event, p);
	out = s->heap->get(s->heap, (*count ? *count : 1) * sizeof *out);
	*count = 0;
	for (size_t i = 0; out && i < tw_queue_count(&s->queue); i++) {
		struct entry *e = tw_queue_at(&s->queue, i);

		if (on_link(e->event, p)) {
			out[(*count)++] = *e;
			e->event = NULL;
			s->due--;
		}
	}
	if (out)
		qsort(out, *count, sizeof *out, in_time);
	return out;
}

/* One message that was on its way: it arrives, is lost, or comes late. */
static void fate(struct sim *s, struct parcel *p, uint64_t nth)
{
	const uint64_t link = (uint64_t)p->msg.from.node << 32 | p->msg.to.node;
	const uint64_t what = tw_sim_mix(tw_sim_mix((uint64_t)s->now, p->msg.h.type), nth);
	const double how = tw_rng_uniform(&s->rng, link, tw_sim_mix(what, DRAW_HOW));
	const double late = tw_rng_uniform(&s->rng, link, tw_sim_mix(what, DRAW_LASTS));

	if (s->over || how < 1.0 / 3.0) {
		tw_sim_parcel_free(s, p);
	} else if (how < 2.0 / 3.0 && p->left <= s->now) {
		tw_sim_received(s, p);
	} else {
		p->late = true;
		p->event.kind = EVENT_RECEIVED;
		if (!tw_sim_push(s, s->now + 1 + (int64_t)(late * LATE), &p->event))
			tw_sim_parcel_free(s, p);
	}
}

static void reset(struct sim *s, uint32_t a, uint32_t b)
{
	struct pair *p;
	struct entry *caught;
	size_t count;

	if (!s->cast.node[a].alive || !s->cast.node[b].alive)
		return;
	p = tw_sim_pair_new(s, a, b);
	if (!p)
		return;
	if (p->cuts) { /* cannot be made again before it heals */
		p->broken = true;
		p->epoch++;
		tw_sim_pair_drop_held(s, p);
		return;
	}
	tw_trace_mark(&s->trace, a, "reset", s->now);
	caught = take_off(s, p, &count);
	if (!caught) {
		tw_sim_fail(s, TW_NO_MEMORY, "no memory to reset a link");
		return;
	}
	for (size_t i = 0; i < count; i++)
		fate(s, (struct parcel *)caught[i].event, i);
	s->heap->put(s->heap, caught);
	p->epoch++;
	if (!s->over)
		tell_up(s, a, b);
}

/* Leavers. */

static void leave(struct sim *s, uint32_t node)
{
	const struct node *n = &s->cast.node[node];
	const uint32_t boot = n->boot;

	if (!n->alive)
		return;
	tw_trace_mark(&s->trace, node, "leave", s->now);
	for (uint32_t i = n->first; i < n->first + n->cells && !s->over; i++) {
		struct cell *c = &s->cast.cell[i];

		if (!tw_sim_lives(s, c, boot))
			return;
		if (!c->class->interrupt)
			continue;
		c->class->interrupt(c->actor, &c->ctx);
		tw_sim_leave(s, c);
	}
}

/* Slow nodes. */

static void set_slow(struct sim *s, uint32_t node)
{
	double slow = 1.0;

	for (size_t i = 0; i < s->faults.count; i++) {
		const struct tw_fault *f = &s->faults.all[i];

		if (f->kind == TW_FAULT_SLOW && f->a == node && f->at <= s->now &&
		    (f->lasts < 0 || s->now < f->at + f->lasts))
			slow *= f->factor;
	}
	s->cast.node[node].slow = slow;
}

/* The schedule. */

static void each_pair(struct sim *s, const struct tw_fault *f,
		      void (*what)(struct sim *s, uint32_t a, uint32_t b))
{
	if (f->b != TW_EVERYBODY) {
		if (tw_sim_linked(s, f->a, f->b))
			what(s, f->a, f->b);
		return;
	}
	for (uint32_t k = 0; k < tw_sim_neighbours(s, f->a) && !s->over; k++) {
		const uint32_t b = tw_sim_neighbour(s, f->a, k);

		if (tw_sim_linked(s, f->a, b))
			what(s, f->a, b);
	}
}

static void begin(struct sim *s, struct tw_fault *f)
{
	int64_t end = f->at + f->lasts;

	switch (f->kind) {
	case TW_FAULT_CRASH:
		crash(s, f->a, f->lasts);
		return;
	case TW_FAULT_RESET:
		each_pair(s, f, reset);
		return;
	case TW_FAULT_LEAVE:
		leave(s, f->a);
		return;
	case TW_FAULT_PARTITION:
		tw_trace_mark(&s->trace, f->a, "partition", s->now);
		each_pair(s, f, cut);
		break;
	default:
		set_slow(s, f->a);
	}
	if (f->lasts >= 0 && !s->over)
		tw_sim_event(s, end, f->kind == TW_FAULT_SLOW ? EVENT_WELL : EVENT_HEAL, NULL, f);
}

void tw_sim_fault_event(struct sim *s, const struct event *e)
{
	struct tw_fault *f = e->what;

	switch (e->kind) {
	case EVENT_FAULT:
		begin(s, f);
		return;
	case EVENT_HEAL:
		tw_trace_mark(&s->trace, f->a, "heal", s->now);
		each_pair(s, f, heal);
		return;
	case EVENT_WELL:
		set_slow(s, f->a);
		return;
	case EVENT_CLOSED:
		closed(s, e->node, e->boot);
		return;
	case EVENT_SILENT:
		silent(s, e->what, e->node);
		return;
	default:
		restart(s, e->node, e->boot);
	}
}

void tw_sim_kill(struct sim *s, const struct cell *c)
{
	for (; s->faults.killed < s->faults.kills &&
	       s->faults.kill_at[s->faults.killed]->event <= s->ran->events;
	     s->faults.killed++) {
		const struct tw_fault *f = s->faults.kill_at[s->faults.killed];
		uint64_t sends = 0;

		for (const struct tw_msg *m = s->out; m; m = m->next)
			sends++;
		if (f->a == c->ctx.self.node)
			sends = tw_rng_u64(&s->rng, f->a, tw_sim_mix(f->event, sends)) %
				(sends + 1);
		tw_sim_post_first(s, sends);
		if (!s->over)
			crash(s, f->a, f->lasts);
	}
	s->faults.next_kill = s->faults.killed < s->faults.kills
				      ? s->faults.kill_at[s->faults.killed]->event
				      : UINT64_MAX;
}
