/* SPDX-License-Identifier: Apache-2.0 */
/* run_job.h - what the verbs that run a job have in common: a job, a world, a result. */
#ifndef TW_CLI_RUN_JOB_H
#define TW_CLI_RUN_JOB_H

#include "cli/verb.h"
#include "spec/job.h"
#include "run/ranks.h"
#include "run/tcp_setup.h"

/* First in the flags of every verb that runs a job. */
struct tw_work_flags {
	struct tw_texts set;
	bool json, again, explain;
	const char *run, *isa, *log;
	uint64_t checkpoints;
	const char *trace; /* NULL: the verb has no such flag */
	uint32_t threads;  /* sim only */
};

#define TW_TRACE_FLAG(help)                                                                        \
	TW_FLAG(struct tw_work_flags, trace, "trace", TW_TEXT, "", "FILE", 0, 0, help)

#define TW_WORK_FLAGS(run_help)                                                                    \
	TW_FLAG_MANY(struct tw_work_flags, set, "set", "PATH=VALUE",                               \
		     "override a field of the job: update.rate=0.05; may be repeated"),            \
		TW_SWITCH(struct tw_work_flags, json, "json",                                      \
			  "print the result as one JSON object"),                                  \
		TW_SWITCH(struct tw_work_flags, explain, "explain",                                \
			  "print the job with every preset and default spelled out, and exit"),    \
		TW_FLAG(struct tw_work_flags, run, "run", TW_TEXT, "", "DIR", 0, 0, run_help),     \
		TW_SWITCH(                                                                         \
			struct tw_work_flags, again, "again",                                      \
			"start over in a run directory that holds a finished run or another job"), \
		TW_FLAG(struct tw_work_flags, checkpoints, "checkpoints", TW_U64, "0", "N", 0,     \
			1e15, "stop with exit code 75 after this many checkpoints; 0: never"),     \
		TW_FLAG(struct tw_work_flags, log, "log", TW_TEXT, "", "FILE", 0, 0,               \
			"append metrics as JSON lines; a file, /dev/stdout, /dev/stderr or "       \
			"/dev/null"),                                                              \
		TW_FLAG(struct tw_work_flags, isa, "isa", TW_TEXT, "", "NAME", 0, 0,               \
			"use at most this instruction set: plain, avx2 or avx512")

/* Read the job, run it in `world`, print its result.  `dir` as given or the default for the verb;
 * NULL: keep nothing.  Returns the exit code. */
int tw_work(const struct tw_call *call, enum tw_world_kind world, const char *dir);
/* The same in steps.  Check the flags and read the job at `path`; *out is the caller's. */
enum tw_status tw_work_read(const struct tw_call *call, const char *path, enum tw_world_kind world,
			    const char *dir, struct tw_job **out, struct tw_error *why);
/* ... where a launcher has started `ranks` processes. */
enum tw_status tw_work_read_ranks(const struct tw_call *call, const char *path,
				  enum tw_world_kind world, const char *dir, uint32_t ranks,
				  struct tw_job **out, struct tw_error *why);
/* --explain: print the job. */
enum tw_status tw_work_explain(struct tw_job *job, struct tw_error *why);
/* Run it (`net`: in the world tcp) and print its result. */
enum tw_status tw_work_run(const struct tw_call *call, struct tw_job *job, const char *dir,
			   struct tw_tcp_setup *net, struct tw_error *why);
/* Run the job on ranks, as rank 0; print its result. */
enum tw_status tw_work_run_ranks(const struct tw_call *call, struct tw_job *job, const char *dir,
				 struct tw_ranks *ranks, struct tw_error *why);
/* runs/<the job file's name without folder and suffix>. */
void tw_work_dir(const char *job, char *out, size_t room);

#endif
