/* SPDX-License-Identifier: Apache-2.0 */
/* threads_trace.c - the timeline of a run in threads: what each actor computed, and what it noted.
 *
 * Times are those of the machine's monotonic clock, so that the files of processes on one machine
 * fit together.  The lock of notes guards the file. */
#include "world/threads_inner.h"

void tw_threads_trace_compute(struct threads *w, const struct cell *c, const struct tw_compute *job,
			      int64_t began)
{
	const int64_t ended = tw_threads_now(w);

	pthread_mutex_lock(&w->note_lock);
	tw_trace_compute(&w->trace, c->seat->addr, job, w->began + began, w->began + ended);
	pthread_mutex_unlock(&w->note_lock);
}

void tw_threads_trace_note(struct threads *w, struct tw_addr who, const struct tw_note *note)
{
	struct tw_note at = *note;

	at.at += w->began;
	tw_trace_note(&w->trace, who, &at);
}

/* Names are known at the end: a worker elsewhere than its master gets its number when it joins. */
void tw_threads_trace_close(struct threads *w)
{
	for (size_t k = 0; w->trace.file && k < w->cells; k++) {
		const struct cell *c = &w->cell[k];

		if (c->owner || c->seat->addr.role == TW_MASTER)
			tw_trace_process(&w->trace, c->seat->addr.node, c->name);
		tw_trace_thread(&w->trace, c->seat->addr, c->name);
	}
	tw_trace_close(&w->trace, &w->ran->error);
}
