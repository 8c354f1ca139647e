/* SPDX-License-Identifier: Apache-2.0 */
/* plan_rows.h - a job that is read again with other stages and machines each time; for
 * plan_stages.c. */
#ifndef TW_QUERY_PLAN_ROWS_H
#define TW_QUERY_PLAN_ROWS_H

#include "query/query.h"
#include "query/stages/part_times.h"

#define TW_PLAN_SETS 48 /* fields that are set here, beside those of the caller */

struct tw_plan_rows {
	const struct tw_stages_request *r;
	struct tw_arena keep;
	char *text; /* of the job */
	size_t bytes;
	const char *name;
	struct tw_job_change change; /* sim.nodes of --nodes FILE; path NULL: none */
	const char **set;
	size_t sets, base;  /* fields that are put now; those that all rows have */
	struct tw_job *job; /* in one stage */
	struct tw_engine *engine;
	struct tw_machines machines; /* all there are */
	bool listed;                 /* they are not all alike, or the job lists them */
	struct tw_part_times parts;
	double step;     /* seconds of the whole model on a micro-batch */
	bool own_times;  /* of sim.compute, by operations: the job says what a step takes */
	bool by_parts;   /* measured: sim.compute.stages has what each stage takes */
	const char *how; /* where times come from */
};

enum tw_status tw_plan_rows_open(struct tw_plan_rows *a, const struct tw_stages_request *r,
				 struct tw_error *why);
void tw_plan_rows_close(struct tw_plan_rows *a);

/* One more field. */
enum tw_status tw_plan_rows_put(struct tw_plan_rows *a, struct tw_error *why, const char *format,
				...) __attribute__((format(printf, 3, 4)));
/* The job with the fields as they are, for exactly its machines or (planned) for any. */
enum tw_status tw_plan_rows_read(const struct tw_plan_rows *a, bool planned, struct tw_job **out,
				 struct tw_error *why);
/* sim.nodes with these machines, by their numbers; nothing where all are alike. */
enum tw_status tw_plan_rows_put_nodes(struct tw_plan_rows *a, const uint16_t *node, uint32_t count,
				      struct tw_error *why);
/* What a plan is in a job: cluster, model.stages, strategy.pipeline and sim. */
enum tw_status tw_plan_rows_put_plan(struct tw_plan_rows *a, const struct tw_planner_plan *plan,
				     const struct tw_pipeline *schedule, struct tw_error *why);
/* Seconds that so many more micro-batches take in the simulator, once it is full. */
enum tw_status tw_plan_rows_run(struct tw_plan_rows *a, uint64_t micros, double *seconds,
				struct tw_error *why);

#endif
