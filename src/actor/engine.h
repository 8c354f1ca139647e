/* SPDX-License-Identifier: Apache-2.0 */
/* engine.h - what computes: pure functions from (positions of samples, parameters, keys) to
 * (gradient, loss).  Any thread may call them; nothing in an engine changes after it was opened. */
#ifndef TW_ACTOR_ENGINE_H
#define TW_ACTOR_ENGINE_H

#include "base/order.h"
#include "base/option.h"
#include "base/status.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The parameters as the shards cut them: piece k holds elements from..from+n.  Pieces are in
 * order and cover everything once. */
struct tw_piece {
	const float *at;
	size_t from, n;
};

struct tw_inputs {
	uint64_t from;  /* first global position: epoch * samples + place in the shuffled order */
	uint32_t count; /* samples; they never cross an epoch */
	const struct tw_piece *piece;
	size_t pieces;
	const _Atomic bool *cancel; /* may be NULL; looked at between layers */
};

struct tw_score {
	double loss;    /* sum over the samples */
	double correct; /* how many were right; -1 where the task has no such thing */
	uint64_t samples;
};

/* How much longer than others some samples take, for the simulator's cost: a factor for each label
 * (1 for those beyond the list), or for each sample of the training set (the list repeats).  At
 * most one list is not empty. */
struct tw_effort {
	struct tw_f64s by_label, by_sample;
};

struct tw_engine {
	const struct tw_engine_class *class;
	size_t trainable, buffers; /* floats; the parameter vector is trainable, then buffers */
	const size_t *tensor;      /* starts of tensors, ascending, tensors + 1 of them; the last is
				      trainable + buffers */
	size_t tensors;
	uint64_t samples, tests; /* training samples in an epoch; test samples (at least 1) */
	size_t scratch_bytes;    /* memory that one computation needs besides its output */
	double cost;             /* floating-point operations per sample, for scheduling */
	struct tw_order order;   /* of the training samples; divided, if at all, before any use */
	struct tw_effort effort; /* set by whoever opens it, before anybody else has it */
};

struct tw_engine_class {
	const char *name;
	/* Initial parameters from..from+n. */
	enum tw_status (*init)(const struct tw_engine *e, size_t from, size_t n, float *out);
	/* gradient[0..trainable): mean over the samples; gradient[trainable..): the change of the
	 * buffers.  TW_CANCELLED if the flag was seen. */
	enum tw_status (*gradient)(const struct tw_engine *e, void *scratch,
				   const struct tw_inputs *in, float *gradient,
				   struct tw_score *score);
	/* Score test samples from..from+count (in.from is a test position here). */
	enum tw_status (*evaluate)(const struct tw_engine *e, void *scratch,
				   const struct tw_inputs *in, struct tw_score *score);
	/* The mean factor of these samples of the training set, by `effort`.  NULL: the engine
	 * cannot say, and nobody may set `effort`. */
	double (*effort)(const struct tw_engine *e, const struct tw_inputs *in);
	void (*close)(struct tw_engine *e);
};

#endif
