/* SPDX-License-Identifier: Apache-2.0 */
/* serial.h - jobs run in process, and plain serial loops that do the same sums in the same order.
 *
 * A run in the simulator is watched: which contribution reached which shard when, which version a
 * worker was shown, when it began a step.  That order, and nothing else, drives one serial loop
 * over whole vectors, written from the formulas of the literature.  It must end with the same
 * bits as the actors. */
#ifndef TW_TEST_JOB_SERIAL_H
#define TW_TEST_JOB_SERIAL_H

#include "actor/cluster.h"
#include "checkpoint/digest.h"
#include "spec/job.h"

/* --- jobs --- */

struct watch {
	tw_observer observer; /* may be NULL */
	void *arg;
	void (*worker_hears)(void *arg, uint32_t slot,
			     const struct tw_msg *m); /* sim; may be NULL */
	struct tw_store *store;                       /* NULL: one that is thrown away */
	bool resume;                                  /* go on from the store's newest cut */
	uint64_t stop_after;                          /* cuts; 0: never */
};

/* A job that has run. */
struct outcome {
	struct tw_job *job;
	struct tw_engine *engine;
	struct tw_ran ran;
	float *vector; /* evaluated, trainable and buffers */
	size_t n;
	char digest[TW_DIGEST_TEXT]; /* of the trainable part */
};

/* Read `text` (and up to `set`, "path=value" texts, NULL at the end; may be NULL); fails the test
 * if it is refused. */
void outcome_open(struct outcome *o, const char *text, const char *const *set,
		  enum tw_world_kind world);
/* Run it; fails the test if it does not end well (or, with stop_after, interrupted). */
void outcome_run(struct outcome *o, const struct watch *watch);
void outcome_close(struct outcome *o);
/* The job of `whole`, which has run and made at least three cuts, stopped after each of the first
 * three in turn and resumed: it ends with the same digest and counts. */
void outcome_stops_change_nothing(const struct outcome *whole, const char *text,
				  const char *const *set);
/* All three for a text made like printf's, without a watch. */
void outcome_of(struct outcome *o, enum tw_world_kind world, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* --- formulas --- */

/* One element of one contribution, or of one update. */
struct cell {
	float w, sent;
	float *policy;       /* three numbers of the correction's own */
	float *rule;         /* four of the rule's own */
	float *mine;         /* the worker's */
	uint64_t tau, count; /* count: corrections, or updates, so far, this one included */
	float rate, rate_max, decay;
	float before;    /* the rate of this worker's update before; 0: there was none */
	float factor;    /* out: for the weight decay; 1 unless the correction says otherwise */
	float direction; /* out: what is multiplied with the rate */
};

struct formula {
	/* The corrected gradient; NULL: as it is. */
	float (*correct)(const struct formula *f, struct cell *c, float g);
	/* After the update, with its direction (gap); may be NULL. */
	void (*observe)(const struct formula *f, struct cell *c);
	/* The new parameter. */
	float (*step)(const struct formula *f, struct cell *c, float g);
	/* What workers see; NULL: w. */
	float (*view)(const struct formula *f, struct cell *c);
	/* DANA-Slim: what the worker sends instead of g; the shard only subtracts it.  before: the
	 * rate of the contribution before. */
	float (*prepare)(const struct formula *f, float *v, float g, float rate, float before);
	bool stamped;   /* the rate is that of the answer the gradient was computed on */
	bool own_decay; /* the rule decays by itself */
	bool in_turn;   /* a round's contributions one after the other, at rate / count */
	bool total;     /* contributions are added and not averaged; in turn: at the rate itself */
	bool rounds;
	bool each;      /* `view` reads `mine`: each worker sees another vector */
	bool statistic; /* policy[2] is B-FASGD's v */
	bool unbias;    /* FASGD's means are corrected for their beginning at 0 */
	float lambda, momentum, epsilon, mean;
	double beta, beta2, gamma, memory;
};

float correct_inverse(const struct formula *f, struct cell *c, float g);
float correct_mean(const struct formula *f, struct cell *c, float g);
float correct_delay(const struct formula *f, struct cell *c, float g);
float correct_adaptive(const struct formula *f, struct cell *c, float g);
float correct_fasgd(const struct formula *f, struct cell *c, float g);
float correct_gap(const struct formula *f, struct cell *c, float g);
void observe_gap(const struct formula *f, struct cell *c);
float step_sgd(const struct formula *f, struct cell *c, float g);
float step_momentum(const struct formula *f, struct cell *c, float g);
float step_multi(const struct formula *f, struct cell *c, float g);
float step_adagrad(const struct formula *f, struct cell *c, float g);
float step_rmsprop(const struct formula *f, struct cell *c, float g);
float step_adam(const struct formula *f, struct cell *c, float g);
float step_dana(const struct formula *f, struct cell *c, float g);
float step_minus(const struct formula *f, struct cell *c, float g);
float view_nag(const struct formula *f, struct cell *c);
float view_multi(const struct formula *f, struct cell *c);
float view_dana(const struct formula *f, struct cell *c);
float prepare_slim(const struct formula *f, float *v, float g, float rate, float before);

/* --- the loop --- */

struct serial;

/* A loop for the job of `o`, which must be open and not have run. */
struct serial *serial_new(const struct outcome *o, const struct formula *f);
void serial_free(struct serial *z);
/* Watch the run with these: .observer = serial_note, .worker_hears = serial_hears, .arg = z. */
bool serial_note(void *z, const struct tw_note *note);
void serial_hears(void *z, uint32_t slot, const struct tw_msg *m);
/* The first thing that did not fit (a staleness, a contribution that should not be), or NULL. */
const char *serial_complaint(const struct serial *z);
/* Parameters, and what workers would be shown (where each sees another vector, worker 0), in layout
 * order. */
void serial_vector(const struct serial *z, float *out);
void serial_shown(const struct serial *z, float *out);

/* What happened in runs, so that a test can tell that it met what it is about. */
struct seen {
	uint64_t runs, updates, stale, skipped, dropped, given_up, small;
};

/* Open, run and replay; fails the test, naming `label`, if a bit differs.  Adds to *seen. */
void serial_agrees(const char *label, const char *text, const struct formula *f, struct seen *seen);

#endif
