/* SPDX-License-Identifier: Apache-2.0 */
/* optimiser.h - the section optimiser of a job: its rows, and what follows from them. */
#ifndef TW_SPEC_OPTIMISER_H
#define TW_SPEC_OPTIMISER_H

#include "spec/field.h"

struct tw_reading;

/* The row that chooses the method; the rows that come with any method. */
extern const struct tw_option tw_optimiser_rows[], tw_optimising_rows[];

/* Which method the job chooses, and the rows that it brings in. */
enum tw_status tw_read_optimiser(struct tw_reading *r);
/* Values that follow; fields that have no meaning with a method are refused if given. */
enum tw_status tw_job_complete_optimiser(struct tw_job *job, struct tw_error *why);
/* Batch, portions and positions, when the number of samples is known. */
enum tw_status tw_job_complete_evaluations(struct tw_job *job, struct tw_error *why);
/* What only the engine tells. */
enum tw_status tw_job_check_optimiser(const struct tw_job *job, const struct tw_engine *engine,
				      struct tw_error *why);

#endif
