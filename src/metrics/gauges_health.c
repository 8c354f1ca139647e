/* SPDX-License-Identifier: Apache-2.0 */
/* gauges_health.c - how the run is, as JSON and a status of HTTP. */
#include "metrics/gauges_inner.h"

#include <jansson.h>
#include <math.h>
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
	return known && isfinite(x) ? json_real(x) : json_null();
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

static json_t *health(const struct gauge_picture *g)
{
	const struct gauge_facts *f = &g->f;
	const bool has_epochs = f->has_in && g->plan && g->plan->problem.samples;

	return json_pack(
		"{s:s, s:s, s:s, s:I, s:o, s:I, s:o, s:o, s:o, s:o}", "status", status_of(g),
		"role", g->role, "host", g->host, "workers", (json_int_t)tw_gauges_live(g),
		"epochs",
		real(has_epochs, has_epochs ? f->in / (double)g->plan->problem.samples : NAN),
		"steps", (json_int_t)gauge_steps(f), "loss",
		real(f->evaluated || f->has_train_loss, f->evaluated ? f->loss : f->train_loss),
		"seconds_since_progress", real(f->begun, gauge_seconds(g->clock - f->progressed)),
		"waits", waits(g), "checkpoint",
		f->cut ? json_integer((json_int_t)f->cut) : json_null());
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
