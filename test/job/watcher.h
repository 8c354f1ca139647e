/* SPDX-License-Identifier: Apache-2.0 */
/* watcher.h - keeps the history behind each shard's parameters by itself, from the notes and from
 * what the store was given, and compares it with what the run says of itself at its end. */
#ifndef TW_TEST_JOB_WATCHER_H
#define TW_TEST_JOB_WATCHER_H

#include "actor/cluster.h"
#include "node/plan.h"

struct watcher;

/* For a run of this plan, which must outlive it.  `loud`: every note goes to stderr. */
struct watcher *watcher_new(const struct tw_plan *plan, bool loud);
void watcher_free(struct watcher *w);
/* A store in memory that the watcher looks into. */
struct tw_store *watcher_store(struct watcher *w);
/* A tw_observer; arg is the watcher. */
bool watcher_note(void *arg, const struct tw_note *n);
/* Something is wrong; the first sentence is kept. */
void watcher_complain(struct watcher *w, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Compare what was seen with the totals of a run that came to its end. */
void watcher_judge(struct watcher *w, const struct tw_totals *t);
/* The least loss of any evaluation that was not the last. */
double watcher_least(const struct watcher *w);
/* Did a worker ever join? */
bool watcher_saw_worker(const struct watcher *w);
/* The first thing that was wrong; NULL: nothing. */
const char *watcher_wrong(const struct watcher *w);

#endif
