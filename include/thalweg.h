/* SPDX-License-Identifier: Apache-2.0 */
/* thalweg.h - train one model on many workers, from a program of your own.
 *
 * Open a job (what `thalweg train` reads), train it, look at the parameters, evaluate, save.  Or
 * supply your own gradient function; the job then only says how many workers there are and how they
 * work together.  Or open a session: your own loop takes tasks and answers them, in a cluster, in
 * this process or simulated.
 *
 * Names.  Every public name begins with thalweg_ or THALWEG_; names inside the library begin with
 * tw_.  The prefix therefore tells which symbols of the shared or static library are public.
 *
 * Ownership.  What a function returns through a pointer to const belongs to the job; its comment
 * says how long it lives.  What you pass in is read during the call and copied if it is needed
 * later, except `user` pointers and functions, which must stay valid until thalweg_close.
 *
 * Threads.  A job is used by one thread at a time; thalweg_stop is the exception.  Different jobs
 * are independent and may be used at the same time.  A session is used by any number of threads.
 *
 * Failures.  Functions that can fail return a status and fill *why, which may be NULL, with one
 * sentence; on success they clear it.  Outputs are written on success only.  NULL for a pointer
 * that may not be NULL is THALWEG_BAD_INPUT and a sentence; functions without a status then do
 * nothing and return 0 or NULL.  The library does not write to stdout or stderr, handle signals or
 * end the process, with one exception: if it finds its own memory in an impossible state, it
 * reports that on stderr and aborts.
 *
 * Environment.  THALWEG_ISA=avx2 or =plain limits the instruction set, as it does for the program;
 * it is read when the library is loaded.  If it names none, opening a job or a model is
 * THALWEG_BAD_INPUT.
 *
 * Versions.  Structs here may grow between minor versions, and the shared library's name changes
 * with them; programs must initialise structs with { 0 } or designated initialisers. */
#ifndef THALWEG_H
#define THALWEG_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define THALWEG_VERSION_MAJOR 0
#define THALWEG_VERSION_MINOR 1
#define THALWEG_VERSION_PATCH 0
#define THALWEG_VERSION       "0.1.0"

#if defined(__GNUC__)
#define THALWEG_API __attribute__((visibility("default")))
#else
#define THALWEG_API
#endif

/* The version of the library that is linked, "0.1.0"; compare it with THALWEG_VERSION. */
THALWEG_API const char *thalweg_version(void);

enum thalweg_status {
	THALWEG_OK = 0,
	THALWEG_NO_MEMORY,   /* an allocation failed */
	THALWEG_BAD_INPUT,   /* the request or the job is wrong; the text says what is accepted */
	THALWEG_BAD_BYTES,   /* a file is damaged */
	THALWEG_NO_ROOM,     /* a buffer is too small */
	THALWEG_IO,          /* disk or operating system refused */
	THALWEG_REFUSED,     /* training diverged or no gradient was usable, a directory is in use,
			      * your function returned a failure */
	THALWEG_ABSENT,      /* the requested thing does not exist */
	THALWEG_INTERRUPTED, /* stopped on request */
	THALWEG_CANCELLED    /* abandoned because the result is no longer needed */
};

/* One word for a status, never NULL, static. */
THALWEG_API const char *thalweg_status_name(enum thalweg_status status);

struct thalweg_error {
	enum thalweg_status status;
	char text[600]; /* one sentence; "" while the status is THALWEG_OK */
};

/* --- your own engine -------------------------------------------------------------------------- */

/* A tensor of the parameter vector: elements from..from+count, row-major. */
struct thalweg_tensor {
	const char *name;
	uint32_t rank; /* 0: a single number */
	uint64_t shape[8];
	size_t from, count;
	int buffer; /* a running statistic: kept, averaged and saved, but not trained */
};

/* The input of an engine's functions. */
struct thalweg_batch {
	const uint64_t *sample; /* numbers of samples, 0..samples-1 (evaluation: 0..tests-1) */
	size_t count;
	uint64_t epoch;          /* 0, 1, ...; samples come in another order in each */
	const float *parameters; /* all elements, buffers last; valid during the call */
	void *scratch; /* scratch_bytes, aligned to 64, not cleared; not shared with other calls */
};

/* Your own model: your functions compute, the library deals samples, moves gradients and applies
 * them.
 *
 * Both functions are called from threads of the library, several at a time (one for each worker; in
 * the simulator as many as sim.threads says), unless one_at_a_time is set; thalweg_evaluate calls
 * from its own thread.  The same batch and parameters must give the same answer: samples are dealt
 * again when a worker is lost.  The functions return 0; any other value ends the training with
 * THALWEG_REFUSED. */
struct thalweg_engine {
	size_t parameters, buffers; /* floats; at least 1 parameter */
	const float *initial;       /* initial weights and buffers, copied; NULL: zeros */
	uint64_t samples, tests;    /* samples per epoch, and test samples; at least 1 each */
	/* Optional.  Name, rank and shape of each tensor in the order of the vector, trainable ones
	 * first, together parameters + buffers elements; from, count and buffer are ignored. */
	const struct thalweg_tensor *tensor;
	size_t tensors;
	size_t scratch_bytes;
	int one_at_a_time; /* never call a function of this engine while another call runs */
	void *user;        /* passed to the functions */
	/* gradient[0..parameters): mean gradient of the loss over the batch, then the change of
	 * each buffer; the function must write all of it.  *loss: mean over the batch. */
	int (*gradient)(void *user, const struct thalweg_batch *batch, float *gradient,
			double *loss);
	/* *loss: mean over these test samples; *correct: how many predictions were right;
	 * leave it as it is (negative) if the task has no accuracy. */
	int (*evaluate)(void *user, const struct thalweg_batch *batch, double *loss,
			double *correct);
};

/* --- opening a job ---------------------------------------------------------------------------- */

enum thalweg_event_kind {
	THALWEG_PROGRESS,   /* several times a second */
	THALWEG_EVALUATION, /* loss and accuracy; epochs, samples and staleness of its parameters */
	THALWEG_CHECKPOINT, /* number `checkpoint` is complete in the run directory */
	THALWEG_LOG         /* a line to show: level, who, line; other fields are not filled */
};

enum thalweg_level { THALWEG_ERROR, THALWEG_WARNING, THALWEG_INFO, THALWEG_DEBUG };

struct thalweg_event {
	enum thalweg_event_kind kind;
	double seconds;          /* since training began */
	double epochs;           /* samples / samples of an epoch */
	uint64_t samples, total; /* applied so far, and in the whole run; total 0: unknown */
	double samples_per_second;
	double seconds_left;   /* an estimate; negative: unknown */
	double loss, accuracy; /* NaN: unknown, or the task has none */
	double staleness;      /* mean over the applied contributions, in updates */
	uint32_t workers;      /* in the cluster now */
	uint64_t checkpoint;
	enum thalweg_level level;
	const char *who, *line; /* valid during the call */
};

/* Receives every event.  Called from threads of the library, never twice at a time for one job.
 * The training waits during the call: return soon, and call no function of the job except
 * thalweg_stop.  A return value other than 0 has the effect of thalweg_stop. */
typedef int (*thalweg_listener)(void *user, const struct thalweg_event *event);

enum thalweg_world {
	THALWEG_THREADS = 0, /* one thread per worker, on this machine */
	THALWEG_SIM          /* simulated machines, virtual time; the same result every time */
};

struct thalweg_request {
	const char *path; /* a job file; or: */
	const char *text; /* the job itself, YAML; relative paths start at the current folder */
	const char *const *set; /* overrides, "train.seed=2" */
	size_t sets;
	int environment; /* also read THALWEG_ variables that name fields, as the program does */
	enum thalweg_world world;
	const struct thalweg_engine *engine; /* then the job has no model and no data.source */
	thalweg_listener listen;             /* may be NULL */
	void *user;                          /* passed to `listen` */
	int verbosity; /* of THALWEG_LOG: -1 warnings, 0 as the program prints, 1 details */
};

/* Events for callers that no thread of the library may call, such as interpreters.  Give
 * thalweg_events_listen as `listen` and the events as `user`; then ask for them, from one thread at
 * a time.  At most `room` events are kept: the oldest are dropped, and of progress only the last is
 * kept.  One struct may serve several jobs and sessions, one after the other. */
struct thalweg_events;
THALWEG_API enum thalweg_status thalweg_events_open(size_t room, struct thalweg_events **out,
						    struct thalweg_error *why);
THALWEG_API int thalweg_events_listen(void *events, const struct thalweg_event *event);
/* 1: *out is the oldest, after waiting for one up to `ms` milliseconds; its texts are valid until
 * the next call.  0: there is none. */
THALWEG_API int thalweg_events_next(struct thalweg_events *events, unsigned ms,
				    struct thalweg_event *out);
/* Not before the jobs and sessions that they listen to are closed; NULL is allowed. */
THALWEG_API void thalweg_events_close(struct thalweg_events *events);

struct thalweg_job;

/* Read the job, open its data, make its model and check that it can be trained.  Reads files and
 * may take a while.  On success the caller owns *out until thalweg_close. */
THALWEG_API enum thalweg_status thalweg_open(const struct thalweg_request *request,
					     struct thalweg_job **out, struct thalweg_error *why);
/* Not while training; NULL is allowed. */
THALWEG_API void thalweg_close(struct thalweg_job *job);

/* --- training --------------------------------------------------------------------------------- */

struct thalweg_result {
	/* On the test set; NaN: the task has none, or interrupted before any evaluation. */
	double loss, accuracy;
	double epochs, updates; /* epochs dealt; json has "epochs_applied", too */
	uint64_t steps, samples;
	double seconds, samples_per_second;
	double staleness; /* mean */
	uint32_t workers;
	int interrupted;
	char digest[33];        /* of the trainable parameters; "" if interrupted */
	const char *checkpoint; /* path of the last one, or NULL; until the next training */
	const char *json; /* all of it, as `thalweg train --json` prints; lives as `checkpoint` */
};

enum thalweg_flags { THALWEG_AGAIN = 1 /* start over if the directory has a finished run */ };

/* Train from the initial weights to the end of the job.  Blocks.  `directory` is a run directory:
 * it is created and gets checkpoints, log and result; if it has a run that was stopped, training
 * resumes from its checkpoint.  NULL keeps nothing.  THALWEG_OK: *result is filled (it may be NULL)
 * and the job has the parameters (see below).  THALWEG_INTERRUPTED: the same, but without
 * parameters, and loss and accuracy are those of the last evaluation; with a directory, the next
 * call resumes from its checkpoint.  THALWEG_REFUSED: training diverged, or every gradient was
 * refused because it was not finite; the job then has no parameters.  May be called again. */
THALWEG_API enum thalweg_status thalweg_train(struct thalweg_job *job, const char *directory,
					      unsigned flags, struct thalweg_result *result,
					      struct thalweg_error *why);

/* Ask the training to make a checkpoint and end with THALWEG_INTERRUPTED; returns at once.  May be
 * called from any thread, from the listener and from a signal handler.  If no training runs, it
 * stops the next one. */
THALWEG_API void thalweg_stop(struct thalweg_job *job);

/* --- parameters ------------------------------------------------------------------------------- */

/* The number of tensors of the model, and in *out (may be NULL) the tensors in the order of the
 * vector; they live as long as the job. */
THALWEG_API size_t thalweg_tensors(const struct thalweg_job *job,
				   const struct thalweg_tensor **out);
/* The parameters that were trained or loaded last, and their number of floats; NULL: none yet.
 * Valid until the next training, load or close. */
THALWEG_API const float *thalweg_parameters(const struct thalweg_job *job, size_t *count);

/* Take parameters from a run directory (its newest checkpoint), one checkpoint, or a safetensors
 * file.  Parameters that do not fit the job's model are refused.  Training does not start from
 * them: for that, name a file as model.weights in the job, or set `initial` of the engine. */
THALWEG_API enum thalweg_status thalweg_load(struct thalweg_job *job, const char *path,
					     struct thalweg_error *why);
/* Write the parameters as safetensors; an existing file is replaced only when all is written.
 * THALWEG_ABSENT: nothing was trained or loaded. */
THALWEG_API enum thalweg_status thalweg_save(struct thalweg_job *job, const char *path,
					     struct thalweg_error *why);

struct thalweg_score {
	double loss, accuracy; /* means; accuracy NaN: the task has none */
	uint64_t samples;
};

/* Score the parameters on the whole test set, in this thread.  The figures are bit for bit those of
 * the end of their training.  THALWEG_ABSENT: nothing was trained or loaded. */
THALWEG_API enum thalweg_status thalweg_evaluate(struct thalweg_job *job,
						 struct thalweg_score *score,
						 struct thalweg_error *why);

/* --- a session: your loop computes, the cluster exchanges ------------------------------------- */

/* A session gives your loop tasks: "the gradient of these samples at these parameters".  It takes
 * the answers, exchanges them by the job's strategy, and deals the samples so that each comes once
 * in an epoch, also when workers are lost.
 *
 *	while ((got = thalweg_next(s, 100, NULL, &task, &why)) != THALWEG_END)
 *		if (got == THALWEG_TASK) {
 *			... compute, write task.vector ...
 *			thalweg_done(s, &task, &answer, &why);
 *		}
 *
 * Threads.  Any number of threads may call thalweg_next, _done and _fail of one session; a task is
 * answered once, by any of them.  The library calls nothing of yours (but a listener, if you give
 * one).  thalweg_next returns after `ms` at the latest.  thalweg_done applies what it was given,
 * and what that sets off: in this process it is the update of the parameters.  Leases, heartbeats
 * and the clock go on while you compute.
 *
 * Order.  Simulated sessions give one task at a time, in the order of virtual time, so a caller
 * with random state of its own gets the same run again.  Others give tasks as they come.
 *
 * Processes.  A session belongs to the process that opened it: after a fork, every call in the
 * child is THALWEG_REFUSED (thalweg_next: THALWEG_END with that status).  A process has 64 sessions
 * at most. */
struct thalweg_session;

/* Your model, its data, and how many samples there are.  Everything is copied. */
struct thalweg_layout {
	/* Name, rank, shape and buffer of each tensor, trainable ones first, in the order of the
	 * vector; from and count are ignored.  0 tensors: one, "parameters", of `parameters`. */
	const struct thalweg_tensor *tensor;
	size_t tensors;
	size_t parameters;    /* without tensors: trainable floats */
	const float *initial; /* all floats; NULL: zeros.  JOIN: NULL, the master has them */
	/* In an epoch: tasks have numbers 0..samples-1.  JOIN: 0 takes `samples` and `tests` of the
	 * master's job (thalweg_session_facts).  With data.placement: own, the number of samples of
	 * this caller alone (JOIN), or of all workers of this process together: each has an equal
	 * part, with numbers from 0 on. */
	uint64_t samples;
	uint64_t tests;   /* 0: nothing is evaluated, and the loss of a result is that of the
			       * last step */
	const char *data; /* any text that is the same for the same data; NULL: not compared */
};

struct thalweg_session_request {
	/* sizeof(struct thalweg_session_request).  A program that was compiled with an earlier
	 * header has fewer fields: the others are zeros. */
	size_t size;
	struct thalweg_layout layout;
	/* With a job: the workers are in this process, or simulated (its `world`), or on all ranks
	 * of an MPI (address "mpi"); it has neither an engine nor a model. */
	const struct thalweg_request *job;
	const char *directory; /* as for thalweg_train; NULL keeps nothing */
	unsigned flags;        /* with a directory: THALWEG_AGAIN */
	/* Without a job: join the cluster of `thalweg serve` as one worker.  Its job has
	 * model: {tensors: FILE}. */
	const char *address; /* of the master: "head:7433"; with a job: NULL or "mpi" */
	const char *key;     /* the file of the cluster's key; NULL: it has none */
	const char *save;    /* a new file for the model when the run is over; NULL: none */
	double patience;     /* seconds without a master before END; 0: 600; negative: for ever */
	thalweg_listener listen; /* hears log lines only; may be NULL */
	void *user;
	int verbosity; /* as in struct thalweg_request */
	/* Not 0: your loop takes the steps with an optimiser of its own, and answers with the new
	 * values of all floats.  The job then has update: {rule: caller}, and only then.  Negative:
	 * as the job says (thalweg_session_facts). */
	int own_steps;
	/* A join that waits for the master gives up with THALWEG_INTERRUPTED within 100 ms after
	 * another thread (atomically) or a signal handler has set this to anything but 0.  May be
	 * NULL. */
	const volatile int *cancel;
	/* Join: not 0: fetch the model when the run is over, for thalweg_session_save and
	 * thalweg_session_parameters. */
	int keep;
	/* Join: instead of a key, certificates as `thalweg join` takes them, PEM: this process's,
	 * its private key, and the authority that signs all of them; NULL: none. */
	const char *certificate, *certificate_key, *authority;
};

/* Ranks of an MPI (address "mpi").  A launcher (mpirun, mpiexec, srun) starts the program, and each
 * rank opens the session with the same job and layout.  Without cluster.workers each rank is one
 * worker.  A thread of the session calls MPI, from MPI_Init to MPI_Finalize: a program that has
 * initialised MPI itself is refused, and a process has one such session.  Rank 0 has directory,
 * result and parameters.  If a rank dies, MPI ends all of them. */

/* Open a session; it begins to train at once.  A join waits for the master's job, as long as
 * `patience` says.  THALWEG_BAD_INPUT: the request, the job or the layout is wrong; if the master's
 * job has other tensors, the sentence lists those that differ.  THALWEG_REFUSED, THALWEG_IO: the
 * master refuses us (another key), or cannot be reached.  On
 * success the caller owns *out until thalweg_session_close. */
THALWEG_API enum thalweg_status thalweg_session_open(const struct thalweg_session_request *request,
						     struct thalweg_session **out,
						     struct thalweg_error *why);

/* What the job of a session says. */
struct thalweg_session_facts {
	size_t parameters, buffers; /* floats: trained ones, and running statistics */
	uint64_t samples, tests;
	uint32_t batch;   /* samples of a step at most */
	uint32_t workers; /* of the job; others may join or leave */
	int simulated;    /* time is virtual */
	int own_steps;    /* answers are new values of all floats, not gradients */
};
THALWEG_API enum thalweg_status thalweg_session_facts(struct thalweg_session *s,
						      struct thalweg_session_facts *facts,
						      struct thalweg_error *why);

enum thalweg_work {
	THALWEG_STEP, /* training samples: answer with a vector and the loss */
	THALWEG_SCORE /* test samples: answer with the loss and, if there is one, `correct` */
};

/* What it points to is valid until the task is answered. */
struct thalweg_task {
	uint64_t id;
	uint32_t work;          /* enum thalweg_work */
	uint32_t worker;        /* whose it is: the worker's number in the cluster */
	const uint64_t *sample; /* `count` numbers */
	uint64_t count;
	uint64_t epoch; /* 0, 1, ...; SCORE: 0 */
	/* All floats, buffers last.  Do not write here unless it is your `into`: others read it. */
	const float *parameters;
	float *vector;    /* STEP: room for the answer, aligned to 64 bytes, not cleared */
	uint64_t version; /* updates in these parameters */
	/* STEP: updates of others between this worker's last task and this one */
	double staleness;
	double progress; /* share of the run that is applied, 0 to 1; NaN: it has no known end */
	double rate;     /* of learning, by update.rate and its schedule */
	double now;      /* seconds since the run began; virtual ones if simulated */
};

enum thalweg_got {
	THALWEG_END,  /* the run is over; why->status is THALWEG_OK, or says why it ended early */
	THALWEG_TASK, /* *task is filled */
	THALWEG_IDLE  /* there is nothing to do now: look at your signals and call again */
};

/* The next task, after waiting for one up to `ms` milliseconds.  `into`: room of yours for all
 * floats of the parameters; they are copied there in one pass, and task->parameters is `into`.
 * NULL: memory of the library's, and one copy fewer if they are in one piece there.  *why may be
 * NULL.  A wrong call is THALWEG_END with THALWEG_BAD_INPUT in *why. */
THALWEG_API enum thalweg_got thalweg_next(struct thalweg_session *s, unsigned ms, float *into,
					  struct thalweg_task *task, struct thalweg_error *why);

struct thalweg_answer {
	double loss;    /* mean over the task's samples */
	double correct; /* SCORE: how many were right; negative: the task has no such thing */
	/* STEP: the mean gradient, then the change of each buffer (own_steps: the new values of
	 * parameters and buffers); it is copied.  NULL: task->vector has it, and nothing is copied.
	 */
	const float *vector;
};

/* Answer a task.  THALWEG_CANCELLED: nobody wants it any more, its samples are dealt again or were
 * not needed; go on.  THALWEG_REFUSED: the loss is not finite; the answer was passed on, and what
 * is not finite in its vector is refused where it is applied, and counted; go on.
 * THALWEG_BAD_INPUT: not an open task of this session; nothing has changed. */
THALWEG_API enum thalweg_status thalweg_done(struct thalweg_session *s,
					     const struct thalweg_task *task,
					     const struct thalweg_answer *answer,
					     struct thalweg_error *why);

/* Vectors of your own that answers are given in without a copy: a loop that keeps its gradients in
 * one piece of memory computes them there.  A vector has room for all floats of its session,
 * aligned to 64 bytes, not cleared. */
struct thalweg_vector;
/* THALWEG_NO_MEMORY.  The caller owns *out until thalweg_vector_free. */
THALWEG_API enum thalweg_status thalweg_vector_new(struct thalweg_session *s,
						   struct thalweg_vector **out,
						   struct thalweg_error *why);
THALWEG_API float *thalweg_vector_floats(struct thalweg_vector *v);
/* Not 0: it was lent, and the library still reads it or writes there (clipping, decay).  Do not
 * touch it then.  Mostly it is free again when thalweg_next gives the worker's next task. */
THALWEG_API int thalweg_vector_busy(const struct thalweg_vector *v);
/* At any time, also when it is busy or its session was closed; NULL is allowed. */
THALWEG_API void thalweg_vector_free(struct thalweg_vector *v);
/* As thalweg_done, with the answer in `v`; answer->vector is not looked at.  THALWEG_BAD_INPUT also
 * for a vector that is busy, or of a session with another number of floats. */
THALWEG_API enum thalweg_status thalweg_done_with(struct thalweg_session *s,
						  const struct thalweg_task *task,
						  const struct thalweg_answer *answer,
						  struct thalweg_vector *v,
						  struct thalweg_error *why);

/* The task cannot be computed: the run ends with THALWEG_REFUSED and this reason.  One that joined
 * leaves the cluster, and others get its samples. */
THALWEG_API enum thalweg_status thalweg_fail(struct thalweg_session *s,
					     const struct thalweg_task *task, const char *reason,
					     struct thalweg_error *why);

/* Stop: a checkpoint is made if there is a directory, what is begun is finished, and then
 * thalweg_next returns THALWEG_END; go on answering until then.  One that joined leaves, gives back
 * what it has not begun, and ends with THALWEG_OK; the run goes on without it.  Any thread, and
 * signal handlers. */
THALWEG_API void thalweg_session_stop(struct thalweg_session *s);

/* After THALWEG_END, as of thalweg_train; its texts live until the session is closed.
 * THALWEG_ABSENT: the run is not over, or ended without a result; the sentence says why. */
THALWEG_API enum thalweg_status thalweg_session_result(struct thalweg_session *s,
						       struct thalweg_result *result,
						       struct thalweg_error *why);
/* After THALWEG_END: the parameters of the run as safetensors.  THALWEG_ABSENT: there are none; one
 * that joined has them if its request says `keep`, and was there when the run ended. */
THALWEG_API enum thalweg_status thalweg_session_save(struct thalweg_session *s, const char *path,
						     struct thalweg_error *why);
/* After THALWEG_END: the parameters of the run and their number, until the session is closed; NULL:
 * there are none (as for thalweg_session_save). */
THALWEG_API const float *thalweg_session_parameters(struct thalweg_session *s, size_t *count);

/* End the session: a run that is not over is stopped at once, as by two interrupts, and its
 * directory has its last checkpoint.  Open tasks are void: no thread may still use what they point
 * to.  All threads of the session end.  Calls of other threads return before this does. */
THALWEG_API enum thalweg_status thalweg_session_close(struct thalweg_session *s,
						      struct thalweg_error *why);

/* What the public structs of this library look like: "thalweg 0.1 thalweg_task 104 id@0/8 ...",
 * each with its size and the offsets and sizes of its fields, made from this header when the
 * library was built.  A binding that describes the structs itself compares it before any other
 * call. */
THALWEG_API const char *thalweg_abi(void);

/* --- using a trained model -------------------------------------------------------------------- */

/* A trained network without its job and its data: everything comes from the model card in
 * checkpoints and exported files. */
struct thalweg_model;

struct thalweg_model_facts {
	size_t inputs; /* values of a row, not normalised: the model does that */
	uint32_t rank; /* 1, or 3: channels, height, width */
	uint32_t shape[3];
	size_t outputs;                  /* numbers that thalweg_predict writes for a row */
	int classes;                     /* not 0: outputs are probabilities, one per class */
	const char *const *input_names;  /* of columns; NULL: unknown */
	const char *const *output_names; /* of classes or values; NULL: numbers from 0 */
	/* Of a table: columns that are read, as thalweg_predict_cells takes them; 0: no table. */
	size_t columns;
	const char *const *column_names; /* NULL: the table has no header */
};

/* Open a run directory (its newest checkpoint), one checkpoint, or an exported safetensors file.
 * On success the caller owns *out until thalweg_model_close.  Refused: a network that predicts the
 * next tokens of a text, which takes no rows. */
THALWEG_API enum thalweg_status thalweg_model_open(const char *path, struct thalweg_model **out,
						   struct thalweg_error *why);
THALWEG_API void thalweg_model_close(struct thalweg_model *model); /* NULL is allowed */
/* The facts live as long as the model. */
THALWEG_API const struct thalweg_model_facts *thalweg_model_facts(
	const struct thalweg_model *model);
/* Predict `count` rows of `inputs` floats: `out` gets count * outputs numbers, the same that
 * `thalweg predict` writes.  One thread at a time for each model. */
THALWEG_API enum thalweg_status thalweg_predict(struct thalweg_model *model, const float *rows,
						size_t count, float *out,
						struct thalweg_error *why);
/* The same of a table's cells as text: `count` rows of `columns` cells, with words, dates and
 * missing values (NULL, "", "NA") as `thalweg predict` reads them; a word that the training set did
 * not have is allowed.  THALWEG_BAD_INPUT with a sentence: a cell is not what its column needs
 * ("cells:3:" is the third row), or the model is not of a table. */
THALWEG_API enum thalweg_status thalweg_predict_cells(struct thalweg_model *model,
						      const char *const *cells, size_t count,
						      float *out, struct thalweg_error *why);

#ifdef __cplusplus
}
#endif
#endif
