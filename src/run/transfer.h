/* SPDX-License-Identifier: Apache-2.0 */
/* transfer.h - a job and its data set as they travel to a process that joins. */
#ifndef TW_RUN_TRANSFER_H
#define TW_RUN_TRANSFER_H

#include "base/machine/log.h"
#include "spec/job.h"

/* What must agree between processes of one run: SHA-256, because a joiner identifies the run's data
 * set by its hash alone.  Zeros only where there is nothing to hash (a model that generates
 * its samples has no data). */
struct tw_transfer_facts {
	struct tw_sha job, layout, data;
};
/* After tw_job_finish_plan: hash of the job (what must be the same to resume), of the layout
 * (names, shapes, places of tensors), and the data set's fingerprint. */
enum tw_status tw_transfer_facts(const struct tw_job *job, const struct tw_engine *engine,
				 struct tw_transfer_facts *out, struct tw_error *why);

/* The text that a joiner reads: the job spelled out, whatever files, flags and environment it came
 * from.  Reading it (tw_job_read_text in the same world, without environment) gives a job of the
 * same facts.  *text is freed by free(). */
enum tw_status tw_transfer_text(const struct tw_job *job, char **text, size_t *bytes,
				struct tw_error *why);

/* The data set as bytes, for those who do not have it. */
struct tw_transfer_set;
/* TW_ABSENT: there is none to send (the model generates its samples). */
enum tw_status tw_transfer_set_open(const struct tw_job *job, const struct tw_engine *engine,
				    struct tw_transfer_set **out, struct tw_error *why);
void tw_transfer_set_close(struct tw_transfer_set *s); /* NULL is allowed */
uint64_t tw_transfer_set_bytes(const struct tw_transfer_set *s);
/* Any thread may call it; the bytes never change.  TW_BAD_INPUT: beyond the end. */
enum tw_status tw_transfer_set_read(const struct tw_transfer_set *s, uint64_t from, void *to,
				    size_t bytes);

/* Which files of its own machine a joiner may open, by its user's flags.  The master chooses what a
 * job names: without the user's permission none of it is opened, written or searched.  Initial
 * weights (model.weights) come from the master unless `all`. */
struct tw_transfer_paths {
	bool no_values;   /* the initial values of a model that callers compute are not
			 * needed here, unless the job has no servers */
	bool all;         /* what the job names, as it names it */
	const char *data; /* its data files, by their names in this folder; NULL: none */
	const char *copy; /* the run's data set, as a set file of the user's; NULL: none */
};

/* Gets bytes of the data set from a process that has it. */
typedef enum tw_status (*tw_transfer_receive)(void *arg, uint64_t from, void *to, size_t bytes,
					      struct tw_error *why);
/* Open the engine of a job that came as text, with the data set of this fingerprint: from `copy`,
 * which must be it; else as the job says, if it needs no files or `paths` allow them and it is the
 * right one; else from the cache (by fingerprint); else received (`bytes` of it, 0: it cannot be
 * given), checked, and kept in the cache.  What is in the cache is checked like anything from
 * outside.  One info line on `log` says where the data came from.  An error if no process has
 * it. */
enum tw_status tw_transfer_open_engine(struct tw_job *job, const struct tw_transfer_paths *paths,
				       const struct tw_sha *fingerprint, uint64_t bytes,
				       tw_transfer_receive receive, void *arg,
				       const struct tw_log *log, struct tw_engine **out,
				       struct tw_error *why);

#endif
