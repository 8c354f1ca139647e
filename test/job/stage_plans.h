/* SPDX-License-Identifier: Apache-2.0 */
/* stage_plans.h - tests that ask where to cut a model: the question, and predictions beside what
 * the simulator counts. */
#ifndef TW_TEST_JOB_STAGE_PLANS_H
#define TW_TEST_JOB_STAGE_PLANS_H

#include "query/query.h"

/* Fields that are NULL are as if they were not given.  The job is written to the scratch folder. */
enum tw_status stage_plans_ask(const char *job, struct tw_stages_request r, json_t **out,
			       struct tw_error *why);
/* The same, which must succeed. */
json_t *stage_plans(const char *job, struct tw_stages_request r);
double stage_number(const json_t *row, const char *name);
/* Fails the test if a plan that ran was predicted more than this share too fast or too slow;
 * returns the largest share. */
double stage_plans_near(const json_t *answer, double most, const char *what);

#endif
