/* SPDX-License-Identifier: Apache-2.0 */
/* cost_tools.h - a job's predicted cost beside what the simulator counts. */
#ifndef TW_TEST_JOB_COST_TOOLS_H
#define TW_TEST_JOB_COST_TOOLS_H

#include "cost/cost.h"

#include <stdbool.h>
#include <stdio.h>

struct cost_job {
	const char *model;    /* the sections data: and model: */
	const char *strategy; /* as it stands behind strategy: */
	const char *sim;      /* as it stands behind sim: */
	const char *cluster;  /* more fields of cluster:, ", servers: 2"; "" none */
	uint32_t workers;
	uint32_t rounds; /* contributions of each worker that are counted */
};

struct cost_counted {
	double samples_per_second, bytes_per_step, staleness;
	double step; /* seconds in which as many batches were applied as there are workers */
};

/* What the model says, and what the simulator counts between two runs, of which the second is as
 * long again: start and end cancel out.  Gradients are zeros, so that nothing depends on them and
 * the network is only as large as it is. */
void cost_predict(const struct cost_job *j, struct tw_cost *out);
void cost_count(const struct cost_job *j, struct cost_counted *out);
/* Both, and fail the test where the time of a step differs by more than `most` (0.15: 15 %).
 * Returns by how much it does.  With TW_COST_LOUD in the environment it prints every comparison. */
double cost_compare(const struct cost_job *j, double most);

/* Presets that have a reason instead of a prediction (test_cost.c). */
bool cost_is_beyond(const char *strategy, uint32_t workers);

/* Three networks: 784-512-512-10, a small convnet, and a quadratic; NULL after the last. */
extern const char *const cost_models[];

#endif
