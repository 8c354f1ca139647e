/* SPDX-License-Identifier: Apache-2.0 */
/* threads_context.c - the effects of actors in the threads world; all are called inside a cell. */
#include "world/threads/threads_inner.h"
#include "base/grow.h"

#include <string.h>

static struct door *context_of(struct tw_context *ctx)
{
	return (struct door *)ctx;
}

static struct tw_msg *context_msg_new(struct tw_context *ctx)
{
	return tw_msg_pool_take(&context_of(ctx)->hand->messages);
}

static void context_msg_free(struct tw_context *ctx, struct tw_msg *m)
{
	if (m)
		tw_msg_pool_give(&context_of(ctx)->hand->messages, m);
}

static void context_send(struct tw_context *ctx, struct tw_msg *m)
{
	struct hand *me = context_of(ctx)->hand;

	m->from = ctx->self;
	m->next = NULL;
	*me->out_end = m;
	me->out_end = &m->next;
}

static int64_t context_now(struct tw_context *ctx)
{
	return tw_threads_now(context_of(ctx)->cell->world);
}

/* Room for one more alarm. */
static bool more_alarms(struct cell *c)
{
	return TW_GROW(c->world->heap, c->alarm, c->alarm_room, c->alarms, c->alarms + 1);
}

static void context_timer(struct tw_context *ctx, uint32_t id, int64_t after)
{
	struct cell *c = context_of(ctx)->cell;
	struct threads *w = c->world;
	const int64_t now = tw_threads_now(w);
	int64_t due = INT64_MAX;
	size_t k = 0;

	HOLDS(1, &c->door.ctx == ctx); /* not from `shared` */
	while (k < c->alarms && c->alarm[k].id != id)
		k++;
	if (after < 0) {
		if (k < c->alarms)
			c->alarm[k] = c->alarm[--c->alarms];
	} else {
		if (k == c->alarms) {
			if (!more_alarms(c)) {
				tw_give_up(ctx, TW_NO_MEMORY, "no memory for a timer");
				return;
			}
			c->alarms++;
		}
		/* always later than now, or a timer that sets itself would never let go */
		after = after ? after : 1;
		c->alarm[k] = (struct alarm){
			.id = id,
			.due = after < INT64_MAX - 1 - now ? now + after : INT64_MAX - 1,
		};
	}
	for (k = 0; k < c->alarms; k++)
		if (c->alarm[k].due < due)
			due = c->alarm[k].due;
	atomic_store(&c->due, due);
	if (!c->owner && due < atomic_load(&w->wake_at))
		tw_threads_wake(&w->hand[HOUSEKEEPER]);
	if (c->owner && due < atomic_load(&c->owner->until)) { /* we are a visitor (4) */
		atomic_store(&c->owner->called, true);
		tw_threads_wake(c->owner);
	}
}

static void context_compute(struct tw_context *ctx, struct tw_compute *compute)
{
	struct cell *c = context_of(ctx)->cell;

	/* somebody is there to compute */
	HOLDS(4, (c->owner || c->world->cluster->desk) && &c->door.ctx == ctx);
	atomic_store(&compute->cancel, false);
	compute->world = NULL;
	*c->wanted_end = compute;
	c->wanted_end = (struct tw_compute **)&compute->world;
}

static void context_cancel(struct tw_context *ctx, struct tw_compute *compute)
{
	struct cell *c = context_of(ctx)->cell;

	atomic_store(&compute->cancel, true);
	if (c->running == compute && c->owner)
		atomic_store(&c->owner->stop, true);
	/* one that has not begun is completed when this handler has returned */
}

static struct job *new_job(struct tw_context *ctx, enum job_kind kind)
{
	struct cell *c = context_of(ctx)->cell;
	struct job *j = tw_heap_zeros(c->world->heap, sizeof *j);

	if (!j) {
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for a checkpoint");
		return NULL;
	}
	j->mail.kind = kind == JOB_LOAD ? MAIL_LOADED : MAIL_SAVED;
	j->kind = kind;
	j->cell = c;
	return j;
}

static void give_parts(struct tw_context *ctx, enum job_kind kind, uint64_t cut,
		       const struct tw_part *parts, size_t count)
{
	struct threads *w = context_of(ctx)->cell->world;
	struct job *j = new_job(ctx, kind);

	if (!j)
		return;
	j->parts = w->heap->get(w->heap, count * sizeof *parts);
	if (!j->parts) {
		w->heap->put(w->heap, j);
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for a checkpoint");
		return;
	}
	for (size_t k = 0; k < count; k++) {
		j->parts[k] = parts[k];
		tw_block_keep(parts[k].bytes);
	}
	j->cut = cut;
	j->count = count;
	tw_threads_job(w, j);
}

static void context_save(struct tw_context *ctx, uint64_t cut, const struct tw_part *parts,
			 size_t count)
{
	give_parts(ctx, JOB_SAVE, cut, parts, count);
}

static void context_put(struct tw_context *ctx, uint64_t cut, const struct tw_part *part)
{
	give_parts(ctx, JOB_PUT, cut, part, 1);
}

static void context_look(struct tw_context *ctx, uint64_t from, uint64_t to)
{
	struct job *j = new_job(ctx, JOB_LOAD);

	if (!j)
		return;
	j->from = from;
	j->to = to;
	tw_threads_job(context_of(ctx)->cell->world, j);
}

static void context_note(struct tw_context *ctx, struct tw_note *note)
{
	struct threads *w = context_of(ctx)->cell->world;
	uint64_t received;
	bool go_on = true;

	if (note->kind == TW_NOTE_PINNED || note->kind == TW_NOTE_PROGRESS)
		tw_threads_bytes(w, &note->bytes, &received);
	pthread_mutex_lock(&w->note_lock);
	note->at = tw_threads_now(w); /* inside: times of notes never go back */
	if (w->cluster->observer)
		go_on = w->cluster->observer(w->cluster->observer_arg, note);
	tw_trace_note(&w->trace, ctx->self, note, w->began + note->at);
	pthread_mutex_unlock(&w->note_lock);
	if (!go_on && !atomic_exchange(&w->stopped_by_observer, true))
		tw_threads_wake(&w->hand[HOUSEKEEPER]);
}

static void context_log(struct tw_context *ctx, enum tw_level level, const char *line)
{
	struct cell *c = context_of(ctx)->cell;

	if (c->world->cluster->log)
		tw_log_line(c->world->cluster->log, level, c->name, "%s", line);
}

static void context_finish(struct tw_context *ctx, enum tw_status status, struct tw_totals *totals)
{
	struct cell *c = context_of(ctx)->cell;

	/* a worker that the cluster let go; where it is alone in its process, that ends */
	if (status == TW_CANCELLED && ctx->self.role == TW_WORKER && !c->world->options.gateway) {
		tw_log_line(c->world->cluster->log, TW_ERROR, c->name, "%s",
			    totals ? totals->text : "");
		return;
	}
	tw_threads_end(c->world, status, totals, c == c->world->master ? NULL : c->name);
}

/* Others of the process go on.  The gateway is told when what the handler sent is on its way. */
static void context_gone(struct tw_context *ctx)
{
	context_of(ctx)->hand->gone = true;
}

/* A cell of a worker is called by its place, which is the index in its name. */
static struct tw_addr called(const struct cell *c)
{
	struct tw_addr a = c->seat->addr;

	if (a.role == TW_WORKER)
		a.index = c->place;
	return a;
}

static void context_named(struct tw_context *ctx, uint32_t slot, uint32_t incarnation)
{
	struct cell *c = context_of(ctx)->cell;
	const struct tw_gateway *g = c->world->options.gateway;

	if (!g)
		return;
	tw_threads_name(c->world, called(c), slot, c->name, sizeof c->name);
	g->named(g->arg, slot, incarnation);
}

static void context_members(struct tw_context *ctx, const struct tw_member *list, size_t count)
{
	struct cell *c = context_of(ctx)->cell;
	const struct tw_gateway *g = c->world->options.gateway;

	for (size_t k = 0; ctx->self.role == TW_WORKER && k < count; k++)
		if (list[k].node == ctx->self.node)
			c->place = (uint16_t)k;
	if (g && count)
		g->members(g->arg, ctx->self, list, count);
}

static void context_sum(struct tw_context *ctx, const struct tw_sum *sum)
{
	const struct tw_gateway *g = context_of(ctx)->cell->world->options.gateway;

	if (g && g->sum) {
		g->sum(g->arg, ctx->self, sum);
		return;
	}
	tw_block_drop(sum->in);
	tw_block_drop(sum->out);
	tw_block_drop(sum->more);
	tw_give_up(ctx, TW_BAD_INPUT, "only MPI ranks have a library that adds up");
}

const struct tw_world tw_threads_world = {
	.name = "threads",
	.msg_new = context_msg_new,
	.msg_free = context_msg_free,
	.send = context_send,
	.timer = context_timer,
	.now = context_now,
	.compute = context_compute,
	.cancel = context_cancel,
	.sum = context_sum,
	.save = context_save,
	.put = context_put,
	.look = context_look,
	.note = context_note,
	.log = context_log,
	.finish = context_finish,
	.gone = context_gone,
	.named = context_named,
	.members = context_members,
};
