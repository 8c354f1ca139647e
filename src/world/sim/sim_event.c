/* SPDX-License-Identifier: Apache-2.0 */
/* sim_event.c - events: made, queued, given up; and what ends a run. */
#include "world/sim/sim_run.h"

#include <stdarg.h>
#include <stdio.h>

void tw_sim_fail(struct sim *s, enum tw_status status, const char *format, ...)
{
	char text[sizeof s->ran->error.text];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	if (!s->over)
		tw_fail(&s->ran->error, status, "%s", text);
	s->over = true;
}

bool tw_sim_queue(struct sim *s, int64_t at, struct event *e)
{
	if (tw_queue_push(&s->queue, at, e))
		return true;
	tw_sim_fail(s, TW_NO_MEMORY, "no memory for the simulator's queue");
	return false;
}

bool tw_sim_push(struct sim *s, int64_t at, struct event *e)
{
	if (!tw_sim_queue(s, at, e))
		return false;
	s->due++;
	return true;
}

struct event *tw_sim_event_new(struct sim *s, enum event_kind kind, struct cell *cell, void *what)
{
	struct event *e = tw_slab_take(&s->events);

	if (!e) {
		tw_sim_fail(s, TW_NO_MEMORY, "no memory for an event");
		return NULL;
	}
	*e = (struct event){ .kind = (uint8_t)kind, .cell = cell, .what = what };
	if (cell)
		e->boot = cell->ctx.boot;
	return e;
}

struct event *tw_sim_event(struct sim *s, int64_t at, enum event_kind kind, struct cell *cell,
			   void *what)
{
	struct event *e = tw_sim_event_new(s, kind, cell, what);

	if (e && !tw_sim_push(s, at, e)) {
		tw_slab_give(&s->events, e);
		return NULL;
	}
	return e;
}

void tw_sim_give_up(struct sim *s, struct event *e)
{
	e->kind = EVENT_GIVEN_UP;
	s->due--;
}

bool tw_sim_lives(const struct sim *s, const struct cell *c, uint32_t boot)
{
	return c->actor && c->ctx.boot == boot;
}
