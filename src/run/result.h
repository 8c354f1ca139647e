/* SPDX-License-Identifier: Apache-2.0 */
/* result.h - the result of a run, as one JSON object.  Names in it never change meaning. */
#ifndef TW_RUN_RESULT_H
#define TW_RUN_RESULT_H

#include "actor/cluster.h"
#include "metrics/progress.h"
#include "metrics/stage_figures.h"
#include "node/figures.h"
#include "spec/job.h"

#include <jansson.h>

struct tw_result_facts {
	double seconds;         /* of the wall clock, earlier sessions of a resumed run included */
	const char *checkpoint; /* path of the last complete one, or NULL */
	bool interrupted;       /* stopped on request; the figures are those so far */
	bool diverged;          /* stopped because the loss is no longer a number */
	uint32_t restarts;      /* after divergences */
	struct tw_stage_figures *stages; /* of the cells; NULL: workers have none */
	double goal_seconds;             /* when train.until was reached, as `seconds` or virtual */
};

/* The result of `job`.  TW_NO_MEMORY, or TW_BAD_BYTES if the vector is not what the plan says. */
enum tw_status tw_result_make(const struct tw_job *job, const struct tw_ran *ran,
			      const struct tw_result_facts *facts, json_t **out,
			      struct tw_error *why);
/* A result from outside (a peer, a file), before it is shown: all of its text becomes printable.
 * lines: line ends stay, for callers that print JSON, where they are escaped. */
void tw_result_printable(json_t *result, bool lines);
/* Which vector is evaluated, exported and digested: "w", "theta (dana)". */
const char *tw_result_evaluated(const struct tw_plan *plan);

/* Schedule, and figures of the cells that are known; NULL: the job has no stages. */
json_t *tw_result_pipeline(const struct tw_plan *plan, struct tw_stage_figures *figures);

#endif
