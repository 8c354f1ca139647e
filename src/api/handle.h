/* SPDX-License-Identifier: Apache-2.0 */
/* handle.h - what stands behind a thalweg_job; for the files of this folder. */
#ifndef TW_API_HANDLE_H
#define TW_API_HANDLE_H

#include "thalweg.h"

#include "base/log.h"
#include "spec/job.h"
#include "checkpoint/tensors.h"

#include <jansson.h>
#include <pthread.h>

struct thalweg_job {
	struct tw_heap *heap;
	struct tw_job *job;
	struct tw_plan plan; /* as it was read: every training begins with it */
	struct tw_engine *engine;
	struct tw_tensors own;           /* of our own engines */
	const struct tw_tensors *layout; /* these, or the caller's */
	struct thalweg_tensor *tensor;   /* the same for the caller */
	float *vector;                   /* trained or loaded; NULL: nothing yet */
	json_t *result;                  /* the last one, and its text from malloc */
	char *json;
	thalweg_listener listen;
	void *user;
	pthread_mutex_t voice; /* one call of the listener at a time */
	struct tw_log log;
	_Atomic int stop;
	bool kept;                 /* checkpoints of this training are on disk */
	struct thalweg_event last; /* progress as it was last heard of */
};

/* Copy the internal sentence to the caller's struct, and return its status. */
enum thalweg_status tw_api_fail(struct thalweg_error *why, const struct tw_error *said);

/* THALWEG_OK, and nothing in the caller's struct of what an earlier call left there. */
enum thalweg_status tw_api_done(struct thalweg_error *why);

/* THALWEG_BAD_INPUT with the sentence that this argument of a function is NULL. */
enum thalweg_status tw_api_null(struct thalweg_error *why, const char *function,
				const char *argument);

/* The sink of `log`; arg is the job. */
void tw_api_log(void *arg, enum tw_level level, const char *who, const char *line);

/* The caller's engine as one of ours; `batch`: the most samples of one gradient. */
enum tw_status tw_outer_open(struct tw_heap *heap, const struct thalweg_engine *from,
			     uint32_t batch, uint64_t seed, struct tw_engine **out,
			     struct tw_error *why);
/* What a function of the caller returned that was not 0, once; 0: nothing, or another engine. */
int tw_outer_failure(struct tw_engine *e, const char **function);
/* As the caller named them, living with the engine; NULL where he did not or the engine is ours. */
const struct tw_tensors *tw_outer_tensors(const struct tw_engine *e);

#endif
