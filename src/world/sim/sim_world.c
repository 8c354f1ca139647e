/* SPDX-License-Identifier: Apache-2.0 */
/* sim_world.c - what the simulator does for actors: the table of a world, its answers, and the
 * beginning and end of a node. */
#include "world/sim/sim_run.h"

#include <string.h>

/* Nodes. */

bool tw_sim_node_make(struct sim *s, uint32_t node)
{
	struct node *n = &s->cast.node[node];

	n->boot++;
	n->alive = true;
	n->given_up = false;
	n->egress = n->ingress = s->now;
	for (uint32_t i = n->first; i < n->first + n->cells; i++) {
		struct cell *c = &s->cast.cell[i];

		c->ctx.boot = n->boot;
		c->busy = s->now;
		c->queued = s->now - 1;
		c->named = (struct tw_wait){ 0 };
		c->actor = c->class->new (s->heap, c->arg);
		if (!c->actor) {
			tw_sim_fail(s, TW_NO_MEMORY, "no memory for a %s", c->class->name);
			return false;
		}
	}
	return true;
}

void tw_sim_node_start(struct sim *s, uint32_t node)
{
	const struct node *n = &s->cast.node[node];
	const uint32_t boot = n->boot;

	for (uint32_t i = n->first; i < n->first + n->cells && !s->over; i++) {
		struct cell *c = &s->cast.cell[i];

		if (!tw_sim_lives(s, c, boot))
			return;
		c->class->start(c->actor, &c->ctx);
		tw_sim_leave(s, c);
	}
}

static void timer_clear(struct sim *s, struct cell *c, uint32_t timer)
{
	if (c->deadline[timer] >= 0)
		s->due--;
	c->deadline[timer] = -1;
}

static void save_end(struct sim *s, struct save *v)
{
	*(v->before ? &v->before->next : &s->saves) = v->next;
	*(v->next ? &v->next->before : &s->newest_save) = v->before;
	for (size_t i = 0; i < v->parts; i++)
		tw_block_drop(v->part[i].bytes);
	s->heap->put(s->heap, v->part);
	s->heap->put(s->heap, v);
}

static void look_end(struct sim *s, struct look *l)
{
	*(l->before ? &l->before->next : &s->looks) = l->next;
	if (l->next)
		l->next->before = l->before;
	s->heap->put(s->heap, l);
}

static enum tw_status save_do(struct sim *s, struct save *v)
{
	struct tw_store *store = s->cluster->store;

	if (v->more)
		return store->put(store, v->cut, v->part);
	return store->save(store, v->cut, v->part, v->parts);
}

/* Who crashes while it saves leaves a whole cut or none, and nothing of what it gave later. */
static void saves_stop(struct sim *s, uint32_t node)
{
	bool came_so_far = true;

	for (struct save *v = s->saves, *next; v; v = next) {
		next = v->next;
		if (v->event->cell->ctx.self.node != node)
			continue;
		came_so_far = came_so_far &&
			      tw_rng_u64(&s->rng, node, tw_sim_mix((uint64_t)s->now, v->cut)) & 1;
		if (came_so_far)
			save_do(s, v); /* nobody is left to hear whether it worked */
		tw_sim_give_up(s, v->event);
		save_end(s, v);
	}
}

void tw_sim_node_stop(struct sim *s, uint32_t node)
{
	struct node *n = &s->cast.node[node];

	saves_stop(s, node);
	for (uint32_t i = n->first; i < n->first + n->cells; i++) {
		struct cell *c = &s->cast.cell[i];

		tw_sim_jobs_stop(s, c);
		for (uint32_t t = 0; t < SIM_TIMERS; t++) {
			timer_clear(s, c, t);
			if (c->pending[t])
				c->pending[t]->kind = EVENT_GIVEN_UP;
			c->pending[t] = NULL;
		}
		if (c->actor)
			c->class->free(c->actor);
		c->actor = NULL;
	}
	n->alive = false;
}

/* Saves that are still on their way are part of what a good run leaves behind. */
void tw_sim_saves_close(struct sim *s)
{
	struct tw_error *e = &s->ran->error;

	while (s->saves) {
		struct save *v = s->saves;
		enum tw_status status = TW_OK;

		if (e->status == TW_OK || e->status == TW_INTERRUPTED)
			status = save_do(s, v);
		if (status != TW_OK)
			tw_fail(e, status, "checkpoint %llu could not be saved: %s",
				(unsigned long long)v->cut, tw_status_name(status));
		tw_sim_give_up(s, v->event);
		save_end(s, v);
	}
	while (s->looks)
		look_end(s, s->looks);
}

/* The world's table: what actors may ask for. */

static struct cell *cell_of(struct tw_context *ctx)
{
	return (struct cell *)ctx;
}

static struct tw_msg *world_msg_new(struct tw_context *ctx)
{
	return tw_msg_pool_take(&cell_of(ctx)->sim->messages);
}

static void world_msg_free(struct tw_context *ctx, struct tw_msg *m)
{
	if (m)
		tw_sim_parcel_free(cell_of(ctx)->sim, tw_sim_parcel(m));
}

static void world_send(struct tw_context *ctx, struct tw_msg *m)
{
	struct sim *s = cell_of(ctx)->sim;

	m->from = ctx->self;
	m->next = NULL;
	*s->out_end = m;
	s->out_end = &m->next;
}

/* A timer that is moved later keeps its event, which goes on to the new time when it comes: most
 * timers are moved at every message and never fire. */
static void world_timer(struct tw_context *ctx, uint32_t timer, int64_t after)
{
	struct cell *c = cell_of(ctx);
	struct sim *s = c->sim;
	struct event *e;

	HOLDS(5, timer < SIM_TIMERS);
	timer_clear(s, c, timer);
	if (after < 0)
		return;
	c->deadline[timer] = after < INT64_MAX / 2 - s->now ? s->now + after : INT64_MAX / 2;
	s->due++;
	e = c->pending[timer];
	if (e && e->at <= c->deadline[timer])
		return;
	if (e)
		e->kind = EVENT_GIVEN_UP;
	e = c->pending[timer] = tw_sim_event_new(s, EVENT_TIMER, c, NULL);
	if (!e)
		return;
	e->timer = (uint8_t)timer;
	e->at = c->deadline[timer];
	if (!tw_sim_queue(s, e->at, e)) {
		c->pending[timer] = NULL;
		tw_slab_give(&s->events, e);
	}
}

static int64_t world_now(struct tw_context *ctx)
{
	return cell_of(ctx)->sim->now;
}

static void give_parts(struct tw_context *ctx, uint64_t cut, const struct tw_part *parts,
		       size_t count, bool more)
{
	struct cell *c = cell_of(ctx);
	struct sim *s = c->sim;
	struct save *v = tw_heap_zeros(s->heap, sizeof *v);
	struct save *last = s->newest_save;

	if (!v)
		goto out;
	v->part = s->heap->get(s->heap, (count ? count : 1) * sizeof *v->part);
	if (!v->part)
		goto out_put;
	v->cut = cut;
	v->parts = count;
	v->more = more;
	v->at = s->now + (more ? 0 : s->options->save_time);
	if (last && last->at > v->at)
		v->at = last->at;
	v->event = tw_sim_event(s, v->at, EVENT_SAVED, c, v);
	if (!v->event)
		goto out_put;
	for (size_t i = 0; i < count; i++) {
		v->part[i] = parts[i];
		tw_block_keep(parts[i].bytes);
	}
	v->before = last;
	*(last ? &last->next : &s->saves) = v;
	s->newest_save = v;
	return;

out_put:
	s->heap->put(s->heap, v->part);
	s->heap->put(s->heap, v);
out:
	tw_sim_fail(s, TW_NO_MEMORY, "no memory to save checkpoint %llu", (unsigned long long)cut);
}

static void world_save(struct tw_context *ctx, uint64_t cut, const struct tw_part *parts,
		       size_t count)
{
	give_parts(ctx, cut, parts, count, false);
}

static void world_put(struct tw_context *ctx, uint64_t cut, const struct tw_part *part)
{
	give_parts(ctx, cut, part, 1, true);
}

static void world_look(struct tw_context *ctx, uint64_t from, uint64_t to)
{
	struct cell *c = cell_of(ctx);
	struct sim *s = c->sim;
	struct look *l = s->heap->get(s->heap, sizeof *l);

	if (!l) {
		tw_sim_fail(s, TW_NO_MEMORY, "no memory to read a checkpoint");
		return;
	}
	*l = (struct look){ from, to, s->looks, NULL };
	if (s->looks)
		s->looks->before = l;
	s->looks = l;
	tw_sim_event(s, s->now + s->options->load_time, EVENT_LOADED, c, l);
}

static void world_note(struct tw_context *ctx, struct tw_note *note)
{
	struct sim *s = cell_of(ctx)->sim;

	note->at = s->now;
	note->bytes = s->ran->bytes_sent;
	tw_trace_note(&s->trace, ctx->self, note, s->now);
	tw_sim_use_applied(s, note);
	if (s->cluster->observer && !s->cluster->observer(s->cluster->observer_arg, note))
		s->interrupting = true;
}

static void world_log(struct tw_context *ctx, enum tw_level level, const char *line)
{
	struct sim *s = cell_of(ctx)->sim;
	char name[64];

	if (!s->cluster->log || level > s->cluster->log->level)
		return;
	tw_sim_name(s, ctx->self, name, sizeof name);
	tw_log_line(s->cluster->log, level, name, "%s", line);
}

/* Its node stays, and may be told that it is too late. */
static void world_gone(struct tw_context *ctx)
{
	(void)ctx;
}

/* Actors are known by their seats, and nobody lies. */
static void world_named(struct tw_context *ctx, uint32_t slot, uint32_t incarnation)
{
	(void)ctx, (void)slot, (void)incarnation;
}

static void world_members(struct tw_context *ctx, const struct tw_member *list, size_t count)
{
	(void)ctx, (void)list, (void)count;
}

static void world_finish(struct tw_context *ctx, enum tw_status status, struct tw_totals *totals)
{
	struct sim *s = cell_of(ctx)->sim;
	char name[64];

	HOLDS(5, status != TW_OK || ctx->self.role == TW_MASTER);
	if (status == TW_CANCELLED && ctx->self.role == TW_WORKER) { /* let go: the others go on */
		tw_sim_name(s, ctx->self, name, sizeof name);
		tw_log_line(s->cluster->log, TW_ERROR, name, "%s", totals ? totals->text : "");
		return;
	}
	if (s->over) { /* the first cause counts */
		if (totals)
			tw_totals_release(totals);
		return;
	}
	s->over = true;
	if (totals)
		s->ran->totals = *totals;
	s->ran->totals.status = status;
	if (status == TW_OK)
		return;
	tw_sim_name(s, ctx->self, name, sizeof name);
	tw_fail(&s->ran->error, status, "%s: %s", name,
		totals && totals->text[0] ? totals->text : tw_status_name(status));
}

const struct tw_world tw_sim_world = {
	.name = "sim",
	.msg_new = world_msg_new,
	.msg_free = world_msg_free,
	.send = world_send,
	.timer = world_timer,
	.now = world_now,
	.compute = tw_sim_compute,
	.cancel = tw_sim_cancel,
	.save = world_save,
	.put = world_put,
	.look = world_look,
	.note = world_note,
	.log = world_log,
	.finish = world_finish,
	.gone = world_gone,
	.named = world_named,
	.members = world_members,
};

/* What happens. */

void tw_sim_timer(struct sim *s, struct event *e)
{
	struct cell *c = e->cell;
	const uint32_t timer = e->timer;

	if (c->deadline[timer] > s->now) {
		e->at = c->deadline[timer];
		if (!tw_sim_queue(s, e->at, e)) {
			c->pending[timer] = NULL;
			tw_slab_give(&s->events, e);
		}
		return;
	}
	c->pending[timer] = NULL;
	tw_slab_give(&s->events, e);
	if (c->deadline[timer] < 0)
		return;
	timer_clear(s, c, timer);
	c->class->timer(c->actor, &c->ctx, timer);
	tw_sim_leave(s, c);
}

static void on_saved(struct sim *s, struct save *v, struct cell *c)
{
	const uint64_t cut = v->cut;
	const enum tw_status status = save_do(s, v);

	save_end(s, v);
	if (!c->class->saved)
		return;
	c->class->saved(c->actor, &c->ctx, cut, status);
	tw_sim_leave(s, c);
}

static void on_loaded(struct sim *s, struct look *l, struct cell *c, uint32_t boot)
{
	struct tw_store *store = s->cluster->store;
	const uint64_t from = l->from, to = l->to;
	struct tw_part *part = NULL;
	uint64_t cut = 0;
	size_t parts = 0;
	enum tw_status status;

	look_end(s, l);
	if (!tw_sim_lives(s, c, boot))
		return;
	status = store->look ? store->look(store, from, to, &cut, &part, &parts)
			     : store->load(store, &cut, &part, &parts);
	c->class->loaded(c->actor, &c->ctx, cut, part, parts, status);
	tw_sim_leave(s, c);
	if (status == TW_OK)
		store->loaded_free(store, part, parts);
}

void tw_sim_answer(struct sim *s, const struct event *e)
{
	switch (e->kind) {
	case EVENT_COMPUTED:
		tw_sim_computed(s, e->what);
		return;
	case EVENT_SAVED:
		on_saved(s, e->what, e->cell);
		return;
	default:
		on_loaded(s, e->what, e->cell, e->boot);
	}
}
