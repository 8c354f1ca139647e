/* SPDX-License-Identifier: Apache-2.0 */
/* threads_trace.c - the timeline of a run in threads: what each actor computed, and what it noted.
 *
 * Times are those of the machine's monotonic clock, so that the files of processes on one machine
 * fit together.  The lock of notes guards the file. */
#include "world/threads/threads_inner.h"

#include <stdio.h>

void tw_threads_trace_compute(struct threads *w, const struct cell *c, const struct tw_compute *job,
			      int64_t began)
{
	const int64_t ended = tw_threads_now(w);

	pthread_mutex_lock(&w->note_lock);
	tw_trace_compute(&w->trace, c->seat->addr, job, w->began + began, w->began + ended);
	pthread_mutex_unlock(&w->note_lock);
}

/* Who holds the shards of a node: its worker, or its server; NULL: it has neither. */
static const struct cell *holder_on(const struct threads *w, uint32_t node)
{
	const struct cell *server = NULL;

	for (size_t k = 0; k < w->cells; k++) {
		const struct tw_addr a = w->cell[k].seat->addr;

		if (a.node == node && a.role == TW_WORKER)
			return &w->cell[k];
		if (a.node == node && a.role == TW_SERVER)
			server = &w->cell[k];
	}
	return server;
}

static void name_track(struct threads *w, const struct cell *c)
{
	const struct tw_addr a = c->seat->addr;
	const struct cell *holder = holder_on(w, a.node);
	char name[160];

	if (holder && a.role == TW_SHARD)
		snprintf(name, sizeof name, "shard %u of %s", a.index, holder->name);
	else if (holder && holder != c && a.role == TW_SERVER)
		snprintf(name, sizeof name, "parameters of %s", holder->name);
	else
		snprintf(name, sizeof name, "%s", c->name);
	if (a.role == TW_MASTER || c == holder)
		tw_trace_process(&w->trace, a.node, name);
	tw_trace_thread(&w->trace, a, name);
}

/* Names are known at the end: a worker elsewhere than its master gets its number when it joins. */
void tw_threads_trace_close(struct threads *w)
{
	for (size_t k = 0; w->trace.file && k < w->cells; k++)
		name_track(w, &w->cell[k]);
	tw_trace_close(&w->trace, &w->ran->error);
}
