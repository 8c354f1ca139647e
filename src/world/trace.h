/* SPDX-License-Identifier: Apache-2.0 */
/* trace.h - a run as Chrome's trace-event JSON, which Perfetto opens.
 *
 * One process per node, one thread per actor; a computation is a slice, an apply an instant, and in
 * the simulator a message two slices bound by an arrow.  All functions do nothing while no trace is
 * open, and are called by one thread at a time. */
#ifndef TW_WORLD_TRACE_H
#define TW_WORLD_TRACE_H

#include "actor/actor.h"

#include <stdio.h>

struct trace {
	FILE *file;
	uint64_t arrows;
	const char *path;
};

/* A file that cannot be written is a wrong request: said before anything is made. */
enum tw_status tw_trace_check(const char *path, struct tw_error *why);
enum tw_status tw_trace_open(struct trace *t, const char *path, struct tw_error *why);
/* Ends the JSON; TW_IO if anything could not be written. */
enum tw_status tw_trace_close(struct trace *t, struct tw_error *why);

void tw_trace_process(struct trace *t, uint32_t node, const char *name);
void tw_trace_thread(struct trace *t, struct tw_addr who, const char *name);
void tw_trace_compute(struct trace *t, struct tw_addr who, const struct tw_compute *c,
		      int64_t began, int64_t ended);
void tw_trace_message(struct trace *t, const struct tw_msg *m, int64_t sent, int64_t arrived);
void tw_trace_note(struct trace *t, struct tw_addr who, const struct tw_note *note, int64_t at);
/* Something happened to a node: "crash", "restart". */
void tw_trace_mark(struct trace *t, uint32_t node, const char *what, int64_t at);

#endif
