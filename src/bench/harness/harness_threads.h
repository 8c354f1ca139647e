/* SPDX-License-Identifier: Apache-2.0 */
/* harness_threads.h - a job through the real actors in threads, with an engine and a heap of the
 * bench's. */
#ifndef TW_BENCH_HARNESS_THREADS_H
#define TW_BENCH_HARNESS_THREADS_H

#include "base/heap.h"
#include "base/machine/log.h"
#include "spec/job.h"

/* Run the job to its end, nothing kept.  Its plan is finished here; the engine stays the
 * caller's. */
enum tw_status tw_harness_threads_run(struct tw_job *job, struct tw_engine *engine,
				      struct tw_heap *heap, const struct tw_log *log,
				      struct tw_error *why);

#endif
