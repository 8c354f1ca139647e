/* SPDX-License-Identifier: Apache-2.0 */
/* query.h - jobs and trained parameters, looked at from outside a run: described, scored, exported.
 *
 * Every answer is one JSON object; the caller prints it.  TW_BAD_INPUT,
 * TW_ABSENT and TW_BAD_BYTES mean that what was asked for is wrong, not there, or damaged. */
#ifndef TW_QUERY_QUERY_H
#define TW_QUERY_QUERY_H

#include "checkpoint/snapshot.h"

/* Fields to override and, for job files, the environment: as tw_job_read takes them. */
struct tw_query_words {
	const char *const *set;
	size_t sets;
	const char *const *environ_;
};

/* The job at `path` ("-": standard input), in whichever world accepts it. */
enum tw_status tw_query_job(const char *path, const struct tw_query_words *w, struct tw_job **out,
			    struct tw_error *why);

/* The text of a job on standard input, to be freed. */
enum tw_status tw_query_input(char **text, size_t *bytes, struct tw_error *why);

struct tw_plan_request {
	const char *path; /* a job file, or "-" */
	struct tw_query_words words;
	const uint32_t *workers; /* numbers of workers to predict for */
	size_t count;            /* ... of them; 0: as many as the job has */
	/* what a step, a byte and a message cost, as the fields of sim: take it; "": as the job
	 * says */
	const char *compute, *bandwidth, *latency;
	uint64_t memory; /* bytes that a node has; 0: any */
	/* share of the values that a codec sends whose bytes depend on the gradients; 0: it is
	 * measured */
	double density;
};
/* What every preset would cost for the job: {job, parameters, compute_seconds, ..., rows}.  The
 * first row of each number of workers is the job's own strategy.  A row has `not_predicted`, the
 * reason, or the figures of src/cost/cost.h.  Measures for a second where the job does not say what
 * a step costs. */
enum tw_status tw_query_plan(const struct tw_plan_request *r, json_t **out, struct tw_error *why);

struct tw_schedule_request {
	const char *path; /* a job file with stages, or "-" */
	struct tw_query_words words;
	const char *read;  /* a file of lists (schedule_csv.h) in place of the job's schedule; "" */
	const char *write; /* a file to write the lists to; "" */
	const char *compute; /* time of a step, as sim.compute takes it; "": as the job says, else
				as measured */
	uint64_t micros;     /* micro-batches to play; 0: as many as show the pipeline full */
	/* a finished job and its engine, which stay the caller's, instead of `path`; may be NULL */
	struct tw_job *job;
	struct tw_engine *engine;
};
/* What a pipeline would do: {schedule, stages, makespan_seconds, bubble, rows by stage, picture}.
 * Runs nothing but, where nobody says how long they take, the passes of the stages. */
enum tw_status tw_query_schedule(const struct tw_schedule_request *r, json_t **out,
				 struct tw_error *why);

struct tw_stages_request {
	const char *path; /* a job file with a pipeline, or "-" */
	struct tw_query_words words;
	const char *nodes;   /* how many machines, or a file with a list as in sim.nodes; "": the
				job's sim.nodes */
	const char *profile; /* a file of times: read, or measured and written; "" */
	const char *compute, *bandwidth, *latency; /* as of tw_plan_request */
	uint64_t memory; /* of a machine whose entry says nothing; 0: any */
	uint64_t micros; /* micro-batches whose time is compared; 0: enough to see it full */
};
/* Where to cut the job's model and how many machines compute each stage: {job, schedule, times,
 * nodes, possible, rows, best, schedule_of_best}.  Rows are the best plans, and what they are
 * compared with: data parallelism, a stage for each machine, and one machine alone.  Each was run
 * in the simulator, or has `not_run`, the reason; `fields` of a plan go into the job. */
enum tw_status tw_query_stages(const struct tw_stages_request *r, json_t **out,
			       struct tw_error *why);

struct tw_eval_request {
	const char *path; /* a run directory, a checkpoint, or a safetensors file */
	const char *job;  /* NULL: the checkpoint's own */
	struct tw_query_words words;
	enum tw_data_set on;
	const char *data;        /* a file of rows with answers, instead of the job's; "" none */
	const char *answers;     /* as of tw_predict_request */
	const char *separator;   /* as there */
	const char *predictions; /* a file for one line per sample (predictions.h); NULL: none */
	bool force;              /* may overwrite it */
	uint32_t worst;          /* rows to list that are predicted worst */
	const struct tw_log *log;
};
/* Score trained parameters on a set of the job's data, or on a file: {set, loss, accuracy, samples,
 * seconds, samples_per_second, checkpoint, parameters_digest, buffers_digest}, and of a network
 * that predicts classes or values what tw_quality_report adds, of one that predicts tokens what
 * tw_token_figures_report adds.  Values are
 * normalised and classes numbered as the model card says.  Refused: data that changed since the
 * training where the set is drawn from it, since it would contain training samples. */
enum tw_status tw_query_eval(const struct tw_eval_request *r, json_t **out, struct tw_error *why);

struct tw_predict_request {
	const char *path; /* as above */
	const char *job;  /* what a file without a card belongs to; NULL: its own */
	struct tw_query_words words;
	const char *data;        /* the rows; "-": standard input */
	const char *answers;     /* of NPY and IDX, which have them apart; "" none */
	const char *data_format; /* "csv", "npy", "idx", "image"; "": as the bytes say */
	const char *separator;   /* of CSV rows, as data.separator; "" or NULL: as usual */
	const char *to;          /* a file; NULL: `out` */
	FILE *out;
	const char *format; /* "csv", "jsonl", "npy"; "": by the file's name */
	bool force;         /* may overwrite */
	bool raw;           /* the network's outputs as they are */
	const struct tw_log *log;
};
/* Predict rows, and write one line for each (predictions.h): {checkpoint, data, to, rows, answers,
 * task}.  The data of the training is not needed.  TW_IO with errno EPIPE and no sentence: the
 * reader closed the pipe. */
enum tw_status tw_query_predict(const struct tw_predict_request *r, json_t **out,
				struct tw_error *why);

struct tw_generate_request {
	const char *path; /* as above */
	struct tw_query_words words;
	const char *prompt; /* bytes of a text, or numbers with blanks between them */
	uint64_t length;    /* tokens that follow it */
	double temperature; /* logits are divided by it; 0: always the likeliest token */
	uint32_t top_k;     /* drawn from so many likeliest tokens; 0: from all */
	uint64_t seed;
	/* Hears each token as soon as it is known, those of the prompt first; bytes: it is the byte
	 * of a text.  False: that is enough. */
	bool (*emit)(void *arg, uint32_t token, bool bytes);
	/* Not NULL: nothing is drawn; it hears the logits of the token behind the prompt. */
	void (*logits)(void *arg, const float *y, uint32_t tokens);
	void *arg;
	const struct tw_log *log;
};
/* Let a network that predicts tokens go on with a text.  Refused: a network that predicts something
 * else, or that looks at tokens behind the one it predicts; a prompt without tokens, or with some
 * outside the vocabulary. */
enum tw_status tw_query_generate(const struct tw_generate_request *r, struct tw_error *why);

/* How far the trial of models has come, as a line for a terminal. */
typedef void (*tw_init_show)(void *arg, const char *text);
struct tw_init_request {
	const char *data;  /* a file of samples */
	const char *label; /* "" for the last column */
	const char *to;    /* "": the file's name with .yaml, beside it */
	bool force;        /* may overwrite */
	bool quick;        /* try no models: the usual one */
	tw_init_show show; /* may be NULL */
	void *show_arg;
};
/* Write a job for such a file, with comments: {to, data, trial}, where `data` is what tw_query_data
 * says of it, and `trial` what tw_init_choose says of the models that were tried; null with
 * `quick`. */
enum tw_status tw_query_init(const struct tw_init_request *r, json_t **out, struct tw_error *why);

/* What a job trains: {job, model, layers, parameters, buffers, mflop, batch, memory}; with `plan`
 * also {plan, steps} of one training batch, with `measure` also {stages}, and layers have `ms`. */
struct tw_describe_request {
	bool plan, measure;
};
enum tw_status tw_query_describe(const struct tw_job *job, const struct tw_describe_request *r,
				 json_t **out, struct tw_error *why);
/* What is in a snapshot: where it comes from, its files, and statistics of every tensor. */
enum tw_status tw_query_snapshot(const struct tw_snapshot *s, json_t **out, struct tw_error *why);

/* The data set of a job: shape, classes, counts, how often each class occurs, fingerprint, names of
 * columns, answers and label where they are known, and what its source found odd (warnings). */
enum tw_status tw_query_data(const struct tw_job *job, json_t **out, struct tw_error *why);
/* {shape, train, test, validation, classes, targets} of a data set that is open. */
json_t *tw_query_counts(const struct tw_data *d);
/* A list of texts. */
json_t *tw_query_warnings(const struct tw_warnings *w);
/* Write the data of a job to the new file `to`, whose name ends with .tws: {file, bytes,
 * fingerprint, ...} with the counts.  Progress goes to the job's listener. */
enum tw_status tw_query_import(const struct tw_job *job, const char *to, json_t **out,
			       struct tw_error *why);
/* Look at all of such a file: the same without notes and warnings. */
enum tw_status tw_query_verify(const char *file, json_t **out, struct tw_error *why);
/* The first `count` training images, pixels from 0 (least of the image) to 1: {height, width,
 * samples: [{label, image}]}; channels are averaged.  TW_BAD_INPUT if samples are not images. */
enum tw_status tw_query_images(const struct tw_job *job, uint32_t count, json_t **out,
			       struct tw_error *why);
/* Sources of data, and the sets that can be fetched with whether they are in `cache`. */
json_t *tw_query_sources(const char *cache);
/* What graphs compute with: oneDNN's version and instruction set, zlib's version. */
json_t *tw_query_libraries(void);

#endif
