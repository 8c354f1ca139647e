/* SPDX-License-Identifier: Apache-2.0 */
/* sim_device.c - what a node computes with: one device, and a line of what is asked of it.
 *
 *  (1) What a node computes runs one after the other, in the order it was asked for, whichever of
 *      its actors asked.  The first of the line runs and has its event; the others have none yet.
 *  (2) A cost is drawn for (node, first position, pass), when the computation begins.
 *  (3) A computation that is cancelled leaves the line, and the next one begins at that moment.
 *  (4) An evaluation costs nothing and stands in no line. */
#include "world/sim/sim_run.h"

#include <math.h>

#define LONGEST_COST 9e17 /* ns: a heavy tail must not overflow the clock */

static bool straggles(const struct sim *s, const struct node *n)
{
	const struct tw_sim_options *o = s->options;
	const int64_t period = o->straggle_on + o->straggle_off;

	if (!(n->kinds & NODE_WORKER) || n->worker + o->stragglers < s->cast.workers)
		return false;
	return o->straggle_on == 0 || o->straggle_off == 0 || s->now % period < o->straggle_on;
}

static int64_t cost(const struct sim *s, const struct job *j)
{
	const struct tw_sim_options *o = s->options;
	const struct node *n = tw_sim_node_of(s, j->cell);
	const struct tw_compute *c = j->c;
	double ns = tw_law_draw(o, &s->rng, j->cell->ctx.self.node,
				c->again ? tw_sim_mix(c->in.from, c->again) : c->in.from);

	if (n->machine)
		ns /= n->machine->speed;
	else if ((n->kinds & NODE_WORKER) && o->speeds.count)
		ns /= o->speeds.at[n->worker % o->speeds.count];
	if (straggles(s, n))
		ns *= o->slower;
	ns *= n->slow;
	if (o->per_sample)
		ns *= c->in.count;
	if (o->by_label.count || o->by_sample.count)
		ns *= s->pool.engine->class->effort(s->pool.engine, &c->in);
	if (c->share > 0.0)
		ns *= c->share;
	return ns < LONGEST_COST ? llround(ns) : (int64_t)LONGEST_COST;
}

/* The first of the line, if it has not begun. */
static void begin(struct sim *s, struct node *n)
{
	struct job *j = n->line;

	if (!j || j->event)
		return;
	j->began = s->now;
	tw_sim_use_computing(s, n, true);
	j->event = tw_sim_event(s, s->now + cost(s, j), EVENT_COMPUTED, j->cell, j);
}

static void stand(struct node *n, struct job *j)
{
	j->ahead = n->line_last;
	*(n->line_last ? &n->line_last->behind : &n->line) = j;
	n->line_last = j;
	j->lined = true;
}

static void step_out(struct sim *s, struct node *n, struct job *j)
{
	if (!j->lined)
		return;
	*(j->ahead ? &j->ahead->behind : &n->line) = j->behind;
	*(j->behind ? &j->behind->ahead : &n->line_last) = j->ahead;
	j->lined = false;
	if (!n->line)
		tw_sim_use_computing(s, n, false);
}

/* It is over: nobody works on it, nothing refers to it. */
static void end(struct sim *s, struct job *j)
{
	*(j->before ? &j->before->next : &j->cell->jobs) = j->next;
	if (j->next)
		j->next->before = j->before;
	j->c->world = NULL;
	tw_slab_give(&s->jobs, j);
}

void tw_sim_compute(struct tw_context *ctx, struct tw_compute *c)
{
	struct cell *cell = (struct cell *)ctx;
	struct sim *s = cell->sim;
	struct node *n = tw_sim_node_of(s, cell);
	struct job *j = tw_slab_take(&s->jobs);

	if (!j) {
		tw_sim_fail(s, TW_NO_MEMORY, "no memory for a computation");
		return;
	}
	*j = (struct job){ .c = c, .cell = cell, .began = s->now, .next = cell->jobs };
	if (cell->jobs)
		cell->jobs->before = j;
	cell->jobs = j;
	c->world = j;
	c->in.cancel = &c->cancel;
	atomic_store(&c->cancel, false);
	if (c->pass.kind == TW_PASS_EVALUATE) { /* (4) */
		j->event = tw_sim_event(s, s->now, EVENT_COMPUTED, cell, j);
	} else {
		stand(n, j);
		begin(s, n);
	}
	if (!s->over)
		tw_job_submit(&s->pool, j);
	else
		j->lazy = true; /* the end finds it, and nobody has begun it */
}

void tw_sim_cancel(struct tw_context *ctx, struct tw_compute *c)
{
	struct sim *s = ((struct cell *)ctx)->sim;
	struct job *j = c->world;
	struct node *n;

	if (!j || j->cancelled)
		return;
	n = tw_sim_node_of(s, j->cell);
	atomic_store(&c->cancel, true);
	j->cancelled = true;
	if (j->event)
		tw_sim_give_up(s, j->event);
	step_out(s, n, j);
	j->event = tw_sim_event(s, s->now, EVENT_COMPUTED, j->cell, j);
	begin(s, n); /* (3) */
}

void tw_sim_computed(struct sim *s, struct job *j)
{
	struct cell *cell = j->cell;
	struct node *n = tw_sim_node_of(s, cell);
	struct tw_compute *c = j->c;

	if (j->cancelled) {
		tw_job_drop(&s->pool, j);
		c->status = TW_CANCELLED;
		c->score = (struct tw_score){ 0 };
	} else {
		tw_job_finish(&s->pool, j);
	}
	tw_trace_compute(&s->trace, cell->ctx.self, c, j->began, s->now);
	step_out(s, n, j);
	end(s, j);
	begin(s, n);
	cell->class->computed(cell->actor, &cell->ctx, c);
	tw_sim_leave(s, cell);
}

void tw_sim_jobs_stop(struct sim *s, struct cell *c)
{
	while (c->jobs) {
		struct job *j = c->jobs;

		tw_job_drop(&s->pool, j);
		if (j->event)
			tw_sim_give_up(s, j->event);
		step_out(s, tw_sim_node_of(s, c), j);
		end(s, j);
	}
}
