/* SPDX-License-Identifier: Apache-2.0 */
/* run_directory.h - the directory of a run: whose it is, what is in it, and that nobody else writes
 * to it.
 *
 *	lock         held (flock) while a run uses the directory
 *	job.yaml     the job with everything spelled out, under a line that names world, hash and
 *	             which defaults it was read with
 *	log.jsonl    evaluations, views, checkpoints, one JSON object per line
 *	ckpt-<n>/    see checkpoint_directory.h
 *	diverged     the run diverged and is not finished: it may go on with a lower rate
 *	cluster      who this cluster is, where it has several processes (run/tcp_setup.h)
 *	restarts     how often it was restarted with a lower rate, and the rate of its job
 *	result.json  the result, when the run is finished
 *
 * The directory itself may be a symbolic link.  No name in it is followed, at any depth, and only
 * these names are removed: nothing outside of it is ever written or removed. */
#ifndef TW_CHECKPOINT_RUN_DIRECTORY_H
#define TW_CHECKPOINT_RUN_DIRECTORY_H

#include "base/machine/log.h"
#include "spec/job.h"

#include <jansson.h>

struct tw_run_directory;

/* Does it have a run with the defaults from before TW_JOB_DEFAULTS?  False too if it is
 * nothing of the kind. */
bool tw_run_directory_is_former(const char *path);

/* May a run use it: is it not there, empty, or the directory of a run?  Nothing is changed.
 * TW_BAD_INPUT: a home directory, for example. */
enum tw_status tw_run_directory_check(const char *path, struct tw_error *why);
/* Names in the directory of a run, and below it (files.h). */
bool tw_run_directory_knows(const char *name, unsigned depth);

/* Make or enter the directory for `job`.  An unfinished run of the same job in the same world is
 * gone on with; one that diverged may have another update.rate and update.clip then, and a finished
 * one must have become longer; another job or a finished run of the same length is refused
 * (TW_BAD_INPUT), unless `again`, which starts over after saying on the log what it removes.
 * TW_BAD_INPUT also where the path cannot be a directory; TW_REFUSED: somebody else runs in it. */
enum tw_status tw_run_directory_open(const char *path, const struct tw_job *job, bool again,
				     const struct tw_log *log, struct tw_run_directory **out,
				     struct tw_error *why);
void tw_run_directory_close(struct tw_run_directory *r); /* NULL is allowed */

bool tw_run_directory_resumes(const struct tw_run_directory *r);
const char *tw_run_directory_path(const struct tw_run_directory *r);
/* The job as it is spelled out; lives as long as the directory is open. */
const char *tw_run_directory_job_text(const struct tw_run_directory *r);
/* When log.jsonl says that the checkpoint was complete; 0 if it does not say so. */
double tw_run_directory_cut_time(const struct tw_run_directory *r, uint64_t cut);
/* Append one line to log.jsonl; takes the reference.  What cannot be written is said once. */
void tw_run_directory_log(struct tw_run_directory *r, json_t *line);
/* The run diverged: it may be gone on with by a job with another update.rate or update.clip, until
 * it is finished.  TW_IO. */
enum tw_status tw_run_directory_diverged(struct tw_run_directory *r);
/* How often the run of a job with this update.rate was restarted after a divergence. */
uint32_t tw_run_directory_restarts(const struct tw_run_directory *r, double rate);
/* It is so often now, whatever becomes of this process.  TW_IO. */
enum tw_status tw_run_directory_restarted(struct tw_run_directory *r, uint32_t restarts,
					  double rate);
/* The run is over: write result.json. */
enum tw_status tw_run_directory_finish(struct tw_run_directory *r, const json_t *result,
				       struct tw_error *why);

#endif
