/* SPDX-License-Identifier: Apache-2.0 */
/* handle.h - what stands behind a thalweg_job; for the files of this folder. */
#ifndef TW_API_HANDLE_H
#define TW_API_HANDLE_H

#include "thalweg.h"

#include "base/machine/log.h"
#include "spec/job.h"
#include "checkpoint/tensors.h"
#include "world/desk.h"

#include <jansson.h>
#include <pthread.h>

struct thalweg_job {
	struct tw_heap *heap;
	struct tw_job *job;
	struct tw_plan plan; /* as it was read: every training begins with it */
	struct tw_engine *engine;
	struct tw_outer *outer;        /* the caller's functions; NULL: the engine is ours */
	struct tw_tensors layout;      /* of the engine */
	struct thalweg_tensor *tensor; /* the same for the caller */
	float *vector;                 /* trained or loaded; NULL: nothing yet */
	json_t *result;                /* the last one, and its text from malloc */
	char *json;
	thalweg_listener listen;
	void *user;
	pthread_mutex_t voice; /* one call of the listener at a time */
	struct tw_log log;
	_Atomic int stop;
	struct tw_ranks *ranks;    /* we are rank 0 of these; else NULL */
	bool kept;                 /* checkpoints of this training are on disk */
	struct thalweg_event last; /* progress as it was last heard of */
};

/* status.c */

/* Copy the internal sentence to the caller's struct, and return its status. */
enum thalweg_status tw_api_fail(struct thalweg_error *why, const struct tw_error *said);

/* THALWEG_OK, and nothing in the caller's struct of what an earlier call left there. */
enum thalweg_status tw_api_done(struct thalweg_error *why);

/* THALWEG_BAD_INPUT with the sentence that this argument of a function is NULL. */
enum thalweg_status tw_api_null(struct thalweg_error *why, const char *function,
				const char *argument);

/* open.c */

typedef enum tw_status (*tw_api_engine)(void *arg, struct tw_job *job, struct tw_heap *heap,
					struct tw_engine **out, struct tw_error *why);
struct tw_api_how {
	const char *const *own; /* overrides besides the request's */
	size_t owns;
	/* Opens an engine for a session once the job is read; NULL: the request's own, or the
	 * job's. */
	tw_api_engine engine;
	void *arg;
	uint32_t ranks; /* the world is that of so many MPI ranks; 0: the request's */
};
/* As thalweg_open. */
enum tw_status tw_api_open(const struct thalweg_request *request, const struct tw_api_how *how,
			   struct thalweg_job **out, struct tw_error *why);
enum tw_level tw_api_level(int verbosity);
/* Samples of one task at most, where gradients have `batch`. */
static inline uint64_t tw_task_most(uint32_t batch)
{
	const uint32_t portion = 256; /* samples of an evaluation that are asked about at once */

	return batch > portion ? batch : portion;
}
/* Samples of a gradient at most. */
uint32_t tw_api_batch(const struct tw_job *job);

/* train.c */

/* The sink of `log`; arg is the job. */
void tw_api_log(void *arg, enum tw_level level, const char *who, const char *line);

enum tw_status tw_api_check_directory(const char *directory, unsigned flags, struct tw_error *why);
/* Train it; `desk`: who computes, NULL: the engine.  `threads`: of the simulator, 0: as it says. */
enum tw_status tw_api_train(struct thalweg_job *h, const char *directory, unsigned flags,
			    struct tw_desk *desk, uint32_t threads, struct tw_error *why);
/* The result as the caller gets it; h->result is there. */
void tw_api_result(const struct thalweg_job *h, struct thalweg_result *out);

/* parameters.c */

enum tw_status tw_api_save(const struct thalweg_job *h, const char *path, struct tw_error *why);
/* Put these bytes there, or nothing; what is there already is replaced. */
enum tw_status tw_api_write(const char *path, const struct tw_block *bytes, struct tw_error *why);

/* own_gradient.c */

/* The caller's engine: its functions, and what we know of the model; `batch`: the most samples of
 * one gradient.  The engine is closed first. */
enum tw_status tw_outer_open(struct tw_heap *heap, const struct thalweg_engine *from,
			     uint32_t batch, uint64_t seed, struct tw_outer **out,
			     struct tw_engine **engine, struct tw_error *why);
void tw_outer_close(struct tw_outer *o); /* NULL is allowed */
/* Call `run` while so many threads serve its desk by the caller's functions. */
typedef enum tw_status (*tw_outer_run)(void *arg, struct tw_desk *desk, struct tw_error *why);
enum tw_status tw_outer_train(struct tw_outer *o, const struct tw_engine *engine, uint32_t threads,
			      tw_outer_run run, void *arg, struct tw_error *why);
/* What a function of the caller returned that was not 0, once; 0: nothing, or `o` is NULL. */
int tw_outer_failure(struct tw_outer *o, const char **function);

#endif
