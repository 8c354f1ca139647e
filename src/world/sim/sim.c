/* SPDX-License-Identifier: Apache-2.0 */
/* sim.c - the simulator's main loop, and the beginning and end of a run. */
#include "world/sim/crowd_heap.h"
#include "base/fetch.h"
#include "world/sim/sim_run.h"

#include <stdio.h>
#include <stdlib.h>

#define TICK       (5 * TW_SECOND)
#define CROWD      4096 /* actors for which a heap of their own pays */
#define LOOK_EVERY 256  /* events between two looks at the signals */

/* What happens. */

static void on_other(struct sim *s, struct event *e)
{
	const struct event copy = *e;

	tw_slab_give(&s->events, e);
	if (copy.kind == EVENT_COMPUTED || copy.kind == EVENT_SAVED || copy.kind == EVENT_LOADED)
		tw_sim_answer(s, &copy);
	else
		tw_sim_fault_event(s, &copy);
}

static void on_tick(struct sim *s, struct event *e)
{
	tw_sim_tick(s);
	if (!tw_sim_queue(s, s->now + TICK, e))
		tw_slab_give(&s->events, e);
}

static void handle(struct sim *s, struct event *e)
{
	switch (e->kind) {
	case EVENT_TICK:
		on_tick(s, e);
		return;
	case EVENT_TIMER:
		tw_sim_timer(s, e);
		return;
	default:
		break;
	}
	s->due--;
	switch (e->kind) {
	case EVENT_ARRIVE:
		tw_sim_arrive(s, (struct parcel *)e);
		return;
	case EVENT_RECEIVED:
	case EVENT_SERVED:
		tw_sim_received(s, (struct parcel *)e);
		return;
	default:
		on_other(s, e);
	}
}

/* Has the user, or the observer, had enough?  A master that came back is told again. */
static void interrupt(struct sim *s)
{
	struct cell *m = s->cast.master;
	const int signals = s->cluster->interrupted ? atomic_load(s->cluster->interrupted) : 0;

	if (signals > 1) {
		tw_sim_fail(s, TW_INTERRUPTED, "interrupted twice: stopped immediately");
		return;
	}
	if (signals)
		s->interrupting = true;
	if (!s->interrupting || !m->actor || s->interrupted_boot == m->ctx.boot)
		return;
	if (!m->class->interrupt) {
		tw_sim_fail(s, TW_INTERRUPTED, "interrupted: stopped without a checkpoint");
		return;
	}
	s->interrupted_boot = m->ctx.boot;
	m->class->interrupt(m->actor, &m->ctx);
	tw_sim_leave(s, m);
}

/* Where there are many workers, every event finds its memory cold.  So what the next events will
 * touch is fetched while others are handled: the event, then where it leads, then what that actor
 * says it will touch.  Each step reads only what the step before has fetched. */
#define AHEAD_EVENT 20
#define AHEAD_CELL  12
#define AHEAD_ACTOR 8
#define AHEAD_PARTS 4

static bool is_parcel(const struct event *e)
{
	return e->kind == EVENT_ARRIVE || e->kind == EVENT_RECEIVED || e->kind == EVENT_SERVED;
}

static inline __attribute__((always_inline)) void fetch_cell(const struct sim *s,
							     const struct event *e)
{
	tw_fetch(e->cell, offsetof(struct cell, deadline));
	if (is_parcel(e)) {
		tw_fetch(&s->cast.node[((const struct parcel *)e)->msg.from.node],
			 sizeof(struct node));
		tw_fetch(&s->cast.node[((const struct parcel *)e)->msg.to.node],
			 sizeof(struct node));
	} else if (e->kind == EVENT_COMPUTED) {
		tw_fetch(e->what, sizeof(struct job));
	}
}

static void fetch_ahead(struct sim *s)
{
	const struct event *e;

	if ((e = tw_queue_ahead(&s->queue, AHEAD_EVENT)))
		tw_fetch(e, sizeof(struct parcel));
	if ((e = tw_queue_ahead(&s->queue, AHEAD_CELL)) && e->cell)
		fetch_cell(s, e);
	if ((e = tw_queue_ahead(&s->queue, AHEAD_ACTOR)) && e->cell)
		tw_fetch(e->cell->actor, e->cell->class->bytes);
	if ((e = tw_queue_ahead(&s->queue, AHEAD_PARTS)) && e->cell && e->cell->actor &&
	    e->cell->class->soon)
		e->cell->class->soon(e->cell->actor,
				     is_parcel(e) ? &((const struct parcel *)e)->msg : NULL);
}

static void loop(struct sim *s)
{
	uint64_t turns = 0;

	while (!s->over) {
		struct entry next;

		if (++turns % LOOK_EVERY == 0 || s->interrupting)
			interrupt(s);
		if (s->over)
			return;
		if (!s->due) {
			tw_sim_stuck(s, "the simulation is stuck: no event is left");
			return;
		}
		next = tw_queue_pop(&s->queue);
		if (!next.event) /* a reset took it off its link */
			continue;
		fetch_ahead(s);
		if (next.event->kind == EVENT_GIVEN_UP) {
			tw_slab_give(&s->events, next.event);
			continue;
		}
		if (next.at > s->latest) {
			tw_sim_queue(s, next.at, next.event); /* the end will find it */
			s->now = s->latest;
			tw_sim_stuck(s, "the limit of virtual time is reached");
			return;
		}
		HOLDS(1, next.at >= s->now);
		s->now = next.at;
		handle(s, next.event);
	}
}

/* Beginning and end. */

static int seat_order(const void *a, const void *b)
{
	const struct tw_addr *x = &((const struct cell *)a)->ctx.self;
	const struct tw_addr *y = &((const struct cell *)b)->ctx.self;

	if (x->node != y->node)
		return x->node < y->node ? -1 : 1;
	if (x->role != y->role)
		return x->role < y->role ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

static enum tw_status check_seats(const struct tw_cluster *k, struct tw_error *why)
{
	for (size_t i = 0; i < k->seats; i++) {
		const struct tw_addr *a = &k->seat[i].addr;

		if (a->node >= k->nodes || a->role >= TW_ROLES)
			return tw_fail(why, TW_BAD_INPUT,
				       "seat %zu: node %u, role %u: there are %u nodes, %d roles",
				       i, a->node, a->role, k->nodes, TW_ROLES);
	}
	return TW_OK;
}

static void cells_fill(struct sim *s)
{
	const struct tw_cluster *k = s->cluster;

	for (uint32_t i = 0; i < s->cast.cells; i++) {
		struct cell *c = &s->cast.cell[i];

		c->ctx = (struct tw_context){
			.world = &tw_sim_world,
			.self = k->seat[i].addr,
			.noting = k->observer || s->trace.file || s->options->by_label.count ||
				  s->options->by_sample.count,
			.heap = s->heap,
			.engine = k->engine,
		};
		c->sim = s;
		c->class = k->seat[i].class;
		c->arg = k->seat[i].arg;
		for (uint32_t t = 0; t < SIM_TIMERS; t++)
			c->deadline[t] = -1;
	}
	qsort(s->cast.cell, s->cast.cells, sizeof *s->cast.cell, seat_order);
}

static enum tw_status nodes_fill(struct sim *s)
{
	static const uint32_t kind[TW_ROLES] = {
		[TW_MASTER] = NODE_MASTER,
		[TW_SERVER] = NODE_SERVER,
		[TW_SHARD] = NODE_SERVER,
		[TW_WORKER] = NODE_WORKER,
	};

	for (uint32_t i = s->cast.cells; i-- > 0;) {
		const struct tw_addr a = s->cast.cell[i].ctx.self;
		struct node *n = &s->cast.node[a.node];

		if (i && seat_order(&s->cast.cell[i - 1], &s->cast.cell[i]) == 0)
			return tw_fail(&s->ran->error, TW_BAD_INPUT,
				       "two actors have the address node %u, role %u, index %u",
				       a.node, a.role, a.index);
		n->first = n->at[a.role] = i;
		n->cells++;
		n->count[a.role]++;
		n->kinds |= kind[a.role];
		if (a.role == TW_MASTER)
			s->cast.master = &s->cast.cell[i];
	}
	for (uint32_t i = 0; i < s->cast.nodes; i++) {
		struct node *n = &s->cast.node[i];

		n->slow = 1.0;
		n->use.since = s->now;
		n->worker = n->kinds & NODE_WORKER ? s->cast.workers++ : 0;
		n->server = n->kinds & NODE_SERVER ? s->cast.servers++ : 0;
		if (n->kinds & NODE_WORKER && n->worker < s->options->machines.count)
			n->machine = &s->options->machines.at[n->worker];
		if (n->kinds & (NODE_MASTER | NODE_SERVER))
			s->cast.hub[s->cast.hubs++] = i;
	}
	if (!s->cast.master)
		return tw_fail(&s->ran->error, TW_BAD_INPUT, "a cluster needs a master");
	return TW_OK;
}

static void trace_names(struct sim *s)
{
	const uint32_t cells = s->cluster->cells;
	char name[64];

	if (!s->trace.file)
		return;
	for (uint32_t i = 0; i < s->cast.nodes; i++) {
		const struct node *n = &s->cast.node[i];

		if (n->kinds & NODE_MASTER)
			snprintf(name, sizeof name, "master");
		else if (!(n->kinds & NODE_WORKER))
			snprintf(name, sizeof name, "server %u", n->server);
		else if (cells > 1)
			snprintf(name, sizeof name, "worker %u, stage %u", n->worker / cells,
				 n->worker % cells);
		else
			snprintf(name, sizeof name, "worker %u", n->worker);
		tw_trace_process(&s->trace, i, name);
	}
	for (uint32_t i = 0; i < s->cast.cells; i++) {
		tw_sim_name(s, s->cast.cell[i].ctx.self, name, sizeof name);
		tw_trace_thread(&s->trace, s->cast.cell[i].ctx.self, name);
	}
}

static enum tw_status open_run(struct sim *s)
{
	const struct tw_cluster *k = s->cluster;
	const struct tw_sim_options *o = s->options;

	s->cast.nodes = k->nodes;
	s->cast.cell = tw_heap_zeros(s->heap, (k->seats ? k->seats : 1) * sizeof *s->cast.cell);
	s->cast.node = tw_heap_zeros(s->heap, (k->nodes ? k->nodes : 1) * sizeof *s->cast.node);
	s->cast.hub = s->heap->get(s->heap, (k->nodes ? k->nodes : 1) * sizeof *s->cast.hub);
	s->waits.cell = s->heap->get(s->heap, (k->seats ? k->seats : 1) * sizeof(struct cell *));
	if (!s->cast.cell || !s->cast.node || !s->cast.hub || !s->waits.cell)
		return tw_fail(&s->ran->error, TW_NO_MEMORY, "no memory for %u nodes", k->nodes);
	if (o->machines.groups)
		s->links.group =
			tw_heap_zeros(s->heap, o->machines.groups * sizeof *s->links.group);
	if (o->machines.groups && !s->links.group)
		return tw_fail(&s->ran->error, TW_NO_MEMORY, "no memory for links");
	s->cast.cells = (uint32_t)k->seats;
	cells_fill(s);
	if (nodes_fill(s) != TW_OK)
		return s->ran->error.status;
	if (tw_job_pool_start(&s->pool, k->engine, k->desk, o->threads, s->heap) != TW_OK)
		return tw_fail(&s->ran->error, TW_NO_MEMORY, "no memory or threads to compute");
	trace_names(s);
	return TW_OK;
}

static void boot(struct sim *s)
{
	struct event *tick = tw_sim_event_new(s, EVENT_TICK, NULL, NULL);

	if (!tick)
		return;
	if (!tw_sim_queue(s, s->now + TICK, tick)) {
		tw_slab_give(&s->events, tick);
		return;
	}
	for (uint32_t i = 0; i < s->cast.nodes; i++)
		if (!tw_sim_node_make(s, i))
			return;
	for (uint32_t i = 0; i < s->cast.nodes && !s->over; i++)
		tw_sim_node_start(s, i);
}

static void close_run(struct sim *s)
{
	tw_sim_post_first(s, 0);
	tw_sim_saves_close(s);
	for (uint32_t i = 0; s->cast.node && s->cast.cells && i < s->cast.nodes; i++)
		tw_sim_node_stop(s, i);
	tw_job_pool_stop(&s->pool);
	tw_queue_gather(&s->queue);
	for (size_t i = 0; i < tw_queue_count(&s->queue); i++) {
		struct event *e = tw_queue_at(&s->queue, i)->event;

		if (e && (e->kind == EVENT_ARRIVE || e->kind == EVENT_RECEIVED ||
			  e->kind == EVENT_SERVED))
			tw_sim_parcel_free(s, (struct parcel *)e);
	}
	tw_sim_links_release(s);
	tw_sim_faults_close(s);
	tw_queue_release(&s->queue);
	tw_slab_release(&s->events);
	tw_msg_pool_release(&s->messages);
	tw_slab_release(&s->jobs);
	s->heap->put(s->heap, s->waits.cell);
	s->heap->put(s->heap, s->cast.hub);
	s->heap->put(s->heap, s->cast.cell);
	s->heap->put(s->heap, s->cast.node);
}

enum tw_status tw_sim_run(const struct tw_cluster *cluster, const struct tw_sim_options *options,
			  const struct tw_fault *faults, size_t fault_count, const char *trace,
			  int64_t max_ns, struct tw_ran *ran)
{
	struct tw_heap *crowd = cluster->seats >= CROWD && cluster->heap == &tw_heap_system
					? tw_crowd_heap_new(cluster->heap)
					: NULL;
	struct sim s = {
		.cluster = cluster,
		.options = options,
		.ran = ran,
		.heap = crowd ? crowd : cluster->heap,
		.rng = tw_rng_make(cluster->seed, TW_RNG_SIM),
		.now = options->start,
		.latest = max_ns ? options->start + max_ns : INT64_MAX,
		.faults.next_kill = UINT64_MAX,
		.links.lossy = options->jitter > 0 || options->loss > 0.0,
	};

	*ran = (struct tw_ran){ 0 };
	if (tw_sim_check(options, &ran->error) != TW_OK ||
	    check_seats(cluster, &ran->error) != TW_OK ||
	    tw_trace_open(&s.trace, trace, &ran->error) != TW_OK) {
		tw_crowd_heap_release(crowd);
		return ran->error.status;
	}
	s.out_end = &s.out;
	tw_queue_init(&s.queue, s.heap);
	tw_map_init(&s.links.fifo, s.heap);
	tw_map_init(&s.links.pairs, s.heap);
	tw_map_init(&s.links.friends, s.heap);
	tw_slab_init(&s.events, s.heap, sizeof(struct event));
	tw_msg_pool_init(&s.messages, s.heap, sizeof(struct parcel), offsetof(struct parcel, msg),
			 SIZE_MAX);
	tw_slab_init(&s.jobs, s.heap, sizeof(struct job));
	if (open_run(&s) == TW_OK && tw_sim_faults_open(&s, faults, fault_count) == TW_OK) {
		boot(&s);
		loop(&s);
	}
	ran->virtual_ns = s.now;
	tw_sim_use_end(&s);
	close_run(&s);
	tw_trace_close(&s.trace, &ran->error);
	tw_crowd_heap_release(crowd); /* what the totals have of it lives on */
	return ran->error.status;
}
