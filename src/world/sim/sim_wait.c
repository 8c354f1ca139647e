/* SPDX-License-Identifier: Apache-2.0 */
/* sim_wait.c - who waits for whom, in sentences. */
#include "world/sim/sim_run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONG_WAIT (5 * TW_SECOND)

/* Who holds the shards of this node: a server, or a worker where there are none. */
static void name_holder(const struct sim *s, const struct node *n, char *out, size_t room)
{
	const uint32_t cells = s->cluster->cells;

	if (!(n->kinds & NODE_WORKER))
		snprintf(out, room, "server %u", n->server);
	else if (cells > 1)
		snprintf(out, room, "worker %u.%u", n->worker / cells, n->worker % cells);
	else
		snprintf(out, room, "worker %u", n->worker);
}

static void name_as(const struct sim *s, struct tw_addr a, const uint32_t *slot, char *out,
		    size_t room)
{
	const struct node *n = a.node < s->cast.nodes ? &s->cast.node[a.node] : NULL;
	char holder[40];

	if (n)
		name_holder(s, n, holder, sizeof holder);
	switch (a.role) {
	case TW_MASTER:
		snprintf(out, room, "master");
		return;
	case TW_SHARD:
		if (n)
			snprintf(out, room, "shard %u on %s", a.index, holder);
		else
			snprintf(out, room, "shard %u", a.index);
		return;
	case TW_SERVER:
		if (n)
			snprintf(out, room, "%s%s", n->kinds & NODE_WORKER ? "parameters of " : "",
				 holder);
		else
			snprintf(out, room, "server %u", a.node);
		return;
	default:
		if (s->cluster->cells > 1 && slot) /* nodes may have changed their places */
			snprintf(out, room, "worker %u.%u", *slot, a.index);
		else if (slot || !n)
			snprintf(out, room, "worker %u", slot ? *slot : a.node);
		else
			snprintf(out, room, "%s", holder);
	}
}

void tw_sim_name(const struct sim *s, struct tw_addr addr, char *out, size_t room)
{
	name_as(s, addr, NULL, out, room);
}

static void sentence(const struct sim *s, const struct cell *c, const struct tw_wait *w, char *out,
		     size_t room)
{
	char who[64], whom[64], step[24] = "";

	name_as(s, c->ctx.self, NULL, who, sizeof who);
	name_as(s, w->whom, &w->slot, whom, sizeof whom);
	if (w->step)
		snprintf(step, sizeof step, " %" PRIu64, w->step);
	snprintf(out, room, "%s has waited %.1f s for %s: %s%s", who,
		 (double)(s->now - w->since) / 1e9, whom, w->why ? w->why : "no reason given",
		 step);
}

static bool waits(const struct cell *c, struct tw_wait *w)
{
	*w = (struct tw_wait){ 0 };
	return c->actor && c->class->waiting && c->class->waiting(c->actor, w);
}

static bool same_wait(const struct tw_wait *a, const struct tw_wait *b)
{
	return a->since == b->since && a->slot == b->slot && a->whom.node == b->whom.node &&
	       a->whom.role == b->whom.role && a->whom.index == b->whom.index && a->why;
}

void tw_sim_wait_look(struct sim *s, struct cell *c)
{
	if (c->looked_at)
		return;
	c->looked_at = true;
	s->waits.cell[s->waits.count++] = c;
}

static int in_order(const void *a, const void *b)
{
	const struct cell *x = *(struct cell *const *)a, *y = *(struct cell *const *)b;

	return x < y ? -1 : x > y;
}

/* Does it wait now, for somebody of whom nothing was said yet? */
static bool waits_anew(const struct sim *s, const struct cell *c, struct tw_wait *w)
{
	if (!waits(c, w))
		return false;
	if (w->since < s->options->rest)
		w->since = s->options->rest;
	return !same_wait(&c->named, w);
}

/* Those who wait, in the order of their seats. */
static void say_waits(struct sim *s)
{
	qsort(s->waits.cell, s->waits.count, sizeof(struct cell *), in_order);
	for (uint32_t i = 0; i < s->waits.count; i++) {
		struct cell *c = s->waits.cell[i];
		struct tw_wait w;
		char line[300];

		if (!waits_anew(s, c, &w) || s->now - w.since < LONG_WAIT)
			continue;
		c->named = w;
		if (!c->named.why)
			c->named.why = "";
		s->ran->waits++;
		sentence(s, c, &w, line, sizeof line);
		tw_log_line(s->cluster->log, TW_WARNING, "sim", "%s", line);
	}
}

void tw_sim_tick(struct sim *s)
{
	uint32_t left = 0;
	bool news = false;

	/* until then all wait for that moment, and for nobody */
	if (s->now < s->options->rest)
		return;
	for (uint32_t i = 0; i < s->waits.count; i++) {
		struct cell *c = s->waits.cell[i];
		struct tw_wait w;

		c->looked_at = waits_anew(s, c, &w);
		if (!c->looked_at)
			continue;
		s->waits.cell[left++] = c;
		news = news || s->now - w.since >= LONG_WAIT;
	}
	s->waits.count = left;
	if (news)
		say_waits(s);
}
void tw_sim_stuck(struct sim *s, const char *why)
{
	struct tw_error *e = &s->ran->error;
	char text[sizeof e->text - 60];
	size_t used = (size_t)snprintf(text, sizeof text, "%s", why), count = 0, untold = 0;

	for (uint32_t i = 0; i < s->cast.cells; i++) {
		struct tw_wait w;
		char line[300];
		int n;

		if (!waits(&s->cast.cell[i], &w))
			continue;
		sentence(s, &s->cast.cell[i], &w, line, sizeof line);
		tw_log_line(s->cluster->log, TW_ERROR, "sim", "%s", line);
		if (untold || used + strlen(line) + 2 >= sizeof text) {
			untold++;
			continue;
		}
		n = snprintf(text + used, sizeof text - used, "%s%s", count++ ? "; " : ": ", line);
		used += (size_t)n;
	}
	if (untold)
		tw_sim_fail(s, TW_REFUSED, "%s; and %zu other actors wait", text, untold);
	else if (count)
		tw_sim_fail(s, TW_REFUSED, "%s", text);
	else
		tw_sim_fail(s, TW_REFUSED, "%s, and no actor reports that it waits", text);
}
