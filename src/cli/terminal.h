/* SPDX-License-Identifier: Apache-2.0 */
/* terminal.h - what goes to stderr: log lines, and one progress line where there is a terminal. */
#ifndef TW_CLI_TERMINAL_H
#define TW_CLI_TERMINAL_H

#include "base/machine/log.h"
#include "metrics/progress.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct tw_terminal {
	pthread_mutex_t lock; /* log lines come from any thread */
	struct tw_log log;    /* use this one */
	bool tty, drawn;      /* drawn: a progress line stands at the cursor */
	bool quiet;           /* no progress */
	int64_t spoke;        /* when progress was last shown, ns of CLOCK_MONOTONIC */
	char line[200];       /* the progress line */
};

void tw_terminal_init(struct tw_terminal *t, bool quiet, bool verbose);
/* This process is another's child now, and the progress line on the terminal is not ours: log only
 * warnings and errors, unless --verbose was given. */
void tw_terminal_child(struct tw_terminal *t);
/* Wipe the progress line, before something else is printed. */
void tw_terminal_clear(struct tw_terminal *t);
/* A tw_progress_show; arg is the terminal.  A line that is redrawn a few times a second on a
 * terminal; elsewhere a line every few seconds. */
void tw_terminal_show(void *arg, const struct tw_progress *p);
/* The same with a text of the caller's. */
void tw_terminal_line(struct tw_terminal *t, const char *text);
/* Hears how far the reading of a file has come (data/listener.h); arg is the terminal. */
void tw_terminal_reading(void *arg, const char *file, const char *doing, uint64_t done,
			 uint64_t total);
/* The text of a progress line: "epoch 1.25/5, loss 0.0123, ...". */
void tw_terminal_text(const struct tw_progress *p, char *out, size_t room);

#endif
