/* SPDX-License-Identifier: Apache-2.0 */
/* open_engine.h - the data set of a job and the engine that computes on it, opened. */
#ifndef TW_RUN_OPEN_ENGINE_H
#define TW_RUN_OPEN_ENGINE_H

#include "spec/job.h"

/* The engine of the job's model; the caller closes it through its class.  Opens the data set. */
enum tw_status tw_job_open_engine(const struct tw_job *job, struct tw_heap *heap,
				  struct tw_engine **out, struct tw_error *why);

struct tw_reach;
/* The data set alone, and the engine of a network on it. */
enum tw_status tw_job_open_data(const struct tw_job *job, struct tw_heap *heap,
				struct tw_data **out, struct tw_error *why);
/* ... opening no more files than `reach` allows (data/input.h). */
enum tw_status tw_job_open_data_at(const struct tw_job *job, const struct tw_reach *reach,
				   struct tw_heap *heap, struct tw_data **out,
				   struct tw_error *why);
/* ... only read (data.h: tw_data_read), for an import. */
enum tw_status tw_job_read_data(const struct tw_job *job, struct tw_heap *heap,
				struct tw_data **out, struct tw_error *why);
enum tw_status tw_job_open_network(const struct tw_job *job, struct tw_heap *heap,
				   struct tw_engine **out, struct tw_error *why);
/* Gives a network's initial weights (*out from the heap, NULL: random) instead of the file
 * that model.weights names. */
typedef enum tw_status (*tw_job_first)(void *arg, const struct tw_job *job, struct tw_heap *heap,
				       const struct tw_graph *g, float **out, struct tw_error *why);
/* The same on a data set that is open already; it is closed with the engine, and where opening
 * fails.  `first` NULL: as the job says. */
enum tw_status tw_job_open_network_on(const struct tw_job *job, struct tw_heap *heap,
				      struct tw_data *data, tw_job_first first, void *arg,
				      struct tw_engine **out, struct tw_error *why);

/* That file, and that of its answers ("" where they are in it), by their paths from the job's
 * folder: 8,200 bytes of room each.  False: the job names none. */
bool tw_job_test_files(const struct tw_job *job, char *file, char *answers);
/* The values of model.weights; *out stays as it is where the job names none.  What of the file was
 * taken otherwise than by name is added to `warnings`, which may be NULL. */
enum tw_status tw_job_read_weights(const struct tw_job *job, struct tw_heap *heap,
				   const struct tw_graph *g, struct tw_warnings *warnings,
				   float **out, struct tw_error *why);

#endif
