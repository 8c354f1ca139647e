/* SPDX-License-Identifier: Apache-2.0 */
/* reading.h - what tests of job files share: read a text, explain a job. */
#ifndef TW_TEST_JOB_READING_H
#define TW_TEST_JOB_READING_H

#include "spec/job.h"

#include <stdbool.h>

/* A job that every world accepts. */
#define SMALL                                                                                      \
	"data: {source: none, samples: 4096, batch: 4}\n"                                          \
	"model: {quadratic: {dimension: 20}}\n"

/* Read `text` as job.yaml with up to NULL-terminated `set` and `env`; either may be NULL. */
enum tw_status read_job(const char *text, const char *const *set, const char *const *env,
			enum tw_world_kind world, struct tw_job **out, struct tw_error *why);
/* The same, which must succeed; one flag or none. */
struct tw_job *good_job(const char *text, const char *set, enum tw_world_kind world);
/* The explained job, to be freed. */
char *explained(const struct tw_job *job);
/* The preset as it stands behind `strategy:` in a short run: one that pushes deltas does so every
 * two steps.  The text lives as long as the program. */
const char *short_strategy(const struct tw_preset *p);
/* The same with more fields, such as ", extra: 1" (NULL: none); good until the next call. */
const char *with_fields(const char *strategy, const char *more);
/* Does it have servers, or does every worker hold the parameters? */
bool has_servers(const struct tw_preset *p);
/* Is its model cut into stages?  Most tests are of models that cannot be cut; test_pipeline.c is of
 * those that can. */
bool has_stages(const struct tw_preset *p);
/* Does an optimiser drive it?  Such a job has neither an update nor a strategy of its own. */
bool has_optimiser(const struct tw_preset *p);
/* Is it one sentence: one line, no control characters, not empty, begins with a place? */
int is_sentence(const char *text);

#endif
