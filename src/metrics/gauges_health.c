/* SPDX-License-Identifier: Apache-2.0 */
/* gauges_health.c - how the run is, as JSON and a status of HTTP. */
#include "metrics/gauges_inner.h"

#include "base/json.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *status_of(const struct gauge_picture *g)
{
	if (g->f.over)
		return "over";
	if (g->waits)
		return "waiting";
	return g->f.begun ? "ok" : "starting";
}

static json_t *real(bool known, double x)
{
	return known ? tw_json_number(x) : json_null();
}

static json_t *waits(const struct gauge_picture *g)
{
	json_t *list = json_array();

	for (size_t k = 0; k < g->waits; k++) {
		const struct gauge_wait *w = &g->wait[k];
		json_t *one =
			json_pack("{s:s, s:s, s:s, s:f}", "who", w->who, "whom", w->whom, "why",
				  w->why, "seconds", gauge_seconds(g->clock - w->since));

		if (json_array_append_new(list, one)) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

/* Does a wait that is shown name this cell? */
static bool is_awaited(const struct gauge_picture *g, uint32_t slot, uint32_t cell)
{
	char name[48];
	const int n = snprintf(name, sizeof name, "worker %u.%u", slot, cell);

	for (size_t k = 0; k < g->waits; k++)
		if (strncmp(g->wait[k].whom, name, (size_t)n) == 0 &&
		    !isdigit((unsigned char)g->wait[k].whom[n]))
			return true;
	return false;
}

/* A place: who has it, and what is known of who has had it. */
static json_t *cell(const struct gauge_picture *g, uint32_t slot, uint32_t cell)
{
	const struct gauge_cell *c = &g->cell[slot * tw_plan_cells(g->plan) + cell];
	const struct tw_stage_note n = tw_stage_figures_of(g->stages, slot, cell);
	const int64_t span = tw_stage_figures_span(g->stages);
	const struct gauge_peer *by = NULL;

	for (size_t k = 0; c->here && k < g->peers && !by; k++)
		if (g->peer[k].p.node == c->node && g->peer[k].p.role == TW_WORKER)
			by = &g->peer[k];
	return json_pack(
		"{s:I, s:I, s:I, s:s, s:o, s:o, s:b, s:b, s:I, s:o}", "worker", (json_int_t)slot,
		"cell", (json_int_t)cell, "stage", (json_int_t)tw_plan_stage_of(g->plan, cell),
		"state",
		!c->here                                                 ? "vacant"
		: g->slot[slot].state == TW_LIVE && g->slot[slot].viewed ? "working"
									 : "waiting",
		"node", c->here ? json_integer(c->node) : json_null(), "host",
		by ? tw_json_text(by->p.host) : json_null(), "suspect", by && by->p.suspect,
		"awaited", is_awaited(g, slot, cell), "micro_batches", (json_int_t)n.work.backwards,
		"idle",
		real(n.work.forwards && span > 0,
		     1 - (double)(n.work.forward_time + n.work.backward_time) / (double)span));
}

/* NULL: there are none, or the master is elsewhere. */
static json_t *cells(const struct gauge_picture *g)
{
	json_t *list;

	if (!g->cells || !g->placing)
		return json_null();
	list = json_array();
	for (uint32_t k = 0; k < g->cells; k++)
		json_array_append_new(
			list, cell(g, k / tw_plan_cells(g->plan), k % tw_plan_cells(g->plan)));
	return list;
}

static void put_figures(json_t *o, const struct tw_figure *rows, const void *base)
{
	for (const struct tw_figure *f = rows; f->name; f++)
		if (f->health)
			tw_json_set(o, f->health,
				    !tw_figure_is_known(f, base) ? NULL
				    : f->type <= TW_COUNT32
					    ? tw_json_count(tw_figure_count(f, base))
					    : tw_json_number(tw_figure_real(f, base)));
}

static json_t *health(const struct gauge_picture *g)
{
	const struct gauge_facts *f = &g->f;
	const struct gauge_page page = tw_gauges_page(g);
	json_t *o = json_pack(
		"{s:s, s:s, s:s, s:n, s:n, s:n, s:n, s:o, s:o, s:o, s:o}", "status", status_of(g),
		"role", g->role, "host", g->host, "workers", "epochs", "steps", "loss",
		"seconds_since_progress", real(f->begun, gauge_seconds(g->clock - f->progressed)),
		"waits", waits(g), "checkpoint",
		f->cut ? json_integer((json_int_t)f->cut) : json_null(), "cells", cells(g));

	put_figures(o, tw_gauge_training, &page);
	put_figures(o, tw_result_figures, &(struct tw_ran){ .totals.tally = g->tally });
	return o;
}

/* The text with a newline, from the heap. */
static enum tw_status dump(struct tw_heap *heap, const json_t *o, char **out, size_t *len)
{
	char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;
	const size_t n = text ? strlen(text) : 0;
	char *copy = text ? heap->get(heap, n + 2) : NULL;

	if (copy) {
		memcpy(copy, text, n);
		memcpy(copy + n, "\n", 2);
		*out = copy;
		*len = n + 1;
	}
	free(text);
	return copy ? TW_OK : TW_NO_MEMORY;
}

enum tw_status tw_gauges_health(struct tw_gauges *gauges, char **out, size_t *len, int *status)
{
	struct gauge_picture g;
	enum tw_status st;
	json_t *o;

	if (tw_gauges_picture(gauges, &g) != TW_OK)
		return TW_NO_MEMORY;
	o = health(&g);
	st = dump(g.heap, o, out, len);
	*status = g.waits && !g.f.over ? 503 : 200;
	json_decref(o);
	tw_gauges_picture_release(&g);
	return st;
}
