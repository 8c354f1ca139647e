/* SPDX-License-Identifier: Apache-2.0 */
/* part_times.h - what each part of a model takes that nothing can be cut out of: measured, read
 * from a profile, or by its operations. */
#ifndef TW_QUERY_PART_TIMES_H
#define TW_QUERY_PART_TIMES_H

#include "planner/planner.h"
#include "spec/job.h"

/* The parts between the cuts of an engine, and what crosses from one to the next. */
struct tw_part_times {
	struct tw_planner_part *part;
	struct tw_planner_border *border;
	uint32_t parts, batch;
};

/* Sizes, as the job's codec sends them; times are 0. */
enum tw_status tw_part_times_init(struct tw_part_times *t, const struct tw_job *job,
				  const struct tw_engine *e, struct tw_error *why);
void tw_part_times_release(struct tw_part_times *t);
/* Medians of at least 15 passes of each part on this machine. */
enum tw_status tw_part_times_measure(struct tw_part_times *t, const struct tw_engine *e,
				     struct tw_error *why);
/* A step of `seconds` by operations; a backward takes `backward` times as long as a forward. */
void tw_part_times_flops(struct tw_part_times *t, const struct tw_engine *e, double seconds,
			 double backward);
/* A profile as JSON.  Reading: TW_ABSENT, there is no such file; TW_BAD_INPUT, it is none, or one
 * of another model or batch. */
enum tw_status tw_part_times_write(const struct tw_part_times *t, const struct tw_engine *e,
				   const char *path, struct tw_error *why);
enum tw_status tw_part_times_read(struct tw_part_times *t, const struct tw_engine *e,
				  const char *path, struct tw_error *why);

#endif
