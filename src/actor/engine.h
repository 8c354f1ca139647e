/* SPDX-License-Identifier: Apache-2.0 */
/* engine.h - what computes: pure functions from (positions of samples, parameters, keys) to
 * (gradient, loss).  Any thread may call them; nothing in an engine changes after it was opened.
 *
 * Computing by passes.  An engine that can be cut lists its cuts in the order of the forward pass.
 * Cut 0 is where the samples come in, the last one is behind the loss; the part of the model
 * between two cuts, first < last, is a stage.  A pass computes one stage on one batch:
 *
 *	FORWARD	   x -> y, stash	training: batch statistics, dropout
 *	BACKWARD   x, dy, stash -> dx, change
 *	GRADIENT   x -> dx, change	both at once, for stages that end with the loss
 *	EVALUATE   x -> y		running statistics, no dropout; positions of the test set
 *
 * x is what the stage before computed as y, dy what the one behind it computed as dx, both for the
 * same positions.  What the floats in them mean is the engine's business.  GRADIENT of everything
 * is the gradient of the model; a chain of FORWARDs up to some stage, GRADIENT of the last stage
 * (or its FORWARD and BACKWARD) and BACKWARDs down to the first give the same bits: gradient,
 * buffers, loss and count.  That holds with a stash and without.
 *
 *  - The first stage reads inputs and the last one labels or targets by their positions
 *    (in->from), and no samples travel between stages.  Random draws are keyed by position and
 *    layer, so a forward pass that is computed again draws the same.
 *  - BACKWARD without a stash computes the forward pass again from x, with the parameters that it
 *    is given.  With one it reads what FORWARD left there; the parameters should then be those of
 *    that FORWARD (whoever gives others gets the mismatch that he asked for).
 *  - Running statistics (buffers) change in BACKWARD and GRADIENT only, once per batch.
 *  - A loss comes out of the pass that goes forward through it: FORWARD, GRADIENT or EVALUATE of
 *    the last stage.  Every other pass gives a score of zeros, so that scores may be added up.
 *
 * All memory is the caller's.  x, dy, y and dx have tw_model_cut_floats floats and start at
 * multiples of TW_ALIGN bytes; x must be the same bytes in BACKWARD as in FORWARD, so its owner
 * keeps it that long.  A stash has the bytes that `needs` says, belongs to one batch from its
 * FORWARD to its BACKWARD, and may be moved meanwhile.  Any number of batches may be on their way
 * at once. */
#ifndef TW_ACTOR_ENGINE_H
#define TW_ACTOR_ENGINE_H

#include "base/arrived.h"
#include "base/constants.h"
#include "base/order.h"
#include "base/option.h"
#include "base/piece.h"
#include "base/status.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where a computation stands in its run: for whoever computes outside (world/desk.h).  Engines do
 * not look at it. */
struct tw_about {
	uint32_t worker;  /* its slot */
	uint64_t version; /* updates that the parameters have seen: of the first shard ... */
	uint64_t applied; /* ... and samples, with those of own steps; the rate is for that */
	int64_t now;      /* ns of the world's clock, when it was asked for */
};

struct tw_inputs {
	uint64_t from;  /* first global position: epoch * samples + place in the shuffled order */
	uint32_t count; /* samples; they never cross an epoch */
	/* The parameters as the shards cut them.  They cover everything once; those of a stage at
	 * least its own elements, each once. */
	const struct tw_piece *piece;
	size_t pieces;
	const _Atomic bool *cancel; /* may be NULL; looked at between layers */
	struct tw_about about;
	/* The samples, as `give` of an engine of the same job packed them, from a multiple of 8 on;
	 * NULL: this engine has them.  Of the gradient of everything only. */
	const uint8_t *given;
};

/* Samples of a stream, of which nobody knows how many come: one epoch, with room to add to. */
#define TW_STREAM_SAMPLES ((uint64_t)1 << 62)

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

enum tw_pass_kind {
	TW_PASS_GRADIENT,
	TW_PASS_FORWARD,
	TW_PASS_BACKWARD,
	TW_PASS_EVALUATE,
};
#define TW_PASSES 4

/* One pass over the stage between two cuts.  All zeros: the gradient of everything. */
struct tw_pass {
	enum tw_pass_kind kind;
	uint32_t first, last; /* cuts; last 0 stands for the last there is */
	const float *x;       /* crosses cut `first` forward; NULL where that is 0 */
	const float *dy;      /* crosses cut `last` backward; BACKWARD only, NULL behind the loss */
	void *stash;          /* FORWARD writes, BACKWARD reads; NULL: BACKWARD computes again */
	float *y;             /* out, FORWARD and EVALUATE: crosses cut `last` forward.  Behind the
				 loss these are the predictions, and NULL is allowed */
	float *dx;            /* out, BACKWARD and GRADIENT: crosses cut `first` backward; NULL
				 where that is 0 */
};

/* Where a model may be cut, and what crosses there.  Several values do where a connection goes
 * around layers on both sides of the cut. */
#define TW_MODEL_CUT_VALUES 8
#define TW_MODEL_CUT_NAME   32
struct tw_model_cut_value {
	uint32_t floats; /* per sample */
	bool back;       /* its gradient crosses backward; else nothing before it is trained */
};
struct tw_model_cut {
	/* The layer before it as people count: "3"; "4.2" is the second of the residual that is
	 * layer 4.  "" for cut 0 and for the last. */
	char after[TW_MODEL_CUT_NAME];
	double flops; /* forward, per sample, of everything before the cut */
	/* Places in the vector: a stage has the elements from cut[first].trainable to
	 * cut[last].trainable and from cut[first].buffers to cut[last].buffers; may be none. */
	size_t trainable, buffers;
	struct tw_model_cut_value value[TW_MODEL_CUT_VALUES];
	uint32_t values;
};

/* Floats that cross a cut with `count` samples, forward or back: value after value, each from a
 * multiple of 16 floats on, each sample after sample.  The gaps are 0. */
static inline size_t tw_model_cut_floats(const struct tw_model_cut *cut, uint32_t count, bool back)
{
	size_t sum = 0;

	for (uint32_t v = 0; v < cut->values; v++)
		if (!back || cut->value[v].back)
			sum += ((size_t)count * cut->value[v].floats + 15) / 16 * 16;
	return sum;
}

/* Memory of one stage, in bytes. */
struct tw_needs {
	size_t scratch; /* of any pass, whatever the number of samples */
	size_t stash;   /* of one batch with as many samples as was asked for */
};

struct tw_engine {
	const struct tw_engine_class *class;
	size_t trainable, buffers; /* floats; the parameter vector is trainable, then buffers */
	const size_t *tensor;      /* starts of tensors, ascending, tensors + 1 of them; the last is
				      trainable + buffers */
	size_t tensors;
	/* What is frozen: values of the model that the engine has and that are not in the vector,
	 * so that nobody else has to know of them; files and digests do. */
	struct tw_constants constants;
	uint64_t samples, tests; /* training samples in an epoch; test samples (at least 1) */
	uint64_t held;           /* samples of a second set, which follow these */
	uint64_t keeps;          /* of a stream: samples that are here at once; 0: it is none */
	size_t scratch_bytes;    /* memory that one computation needs besides its output */
	double cost;             /* floating-point operations per sample, for scheduling */
	/* Cuts in order, at least 2; 0: only everything can be computed. */
	const struct tw_model_cut *cut;
	size_t cuts;
	struct tw_order order;   /* of the training samples; divided, if at all, before any use */
	struct tw_effort effort; /* set by whoever opens it, before anybody else has it */
};

struct tw_engine_class {
	const char *name;
	/* Initial parameters from..from+n; the constants, in order, are behind the vector. */
	enum tw_status (*init)(const struct tw_engine *e, size_t from, size_t n, float *out);
	/* gradient[0..trainable): mean over the samples; gradient[trainable..): the change of the
	 * buffers.  TW_CANCELLED if the flag was seen. */
	enum tw_status (*gradient)(const struct tw_engine *e, void *scratch,
				   const struct tw_inputs *in, float *gradient,
				   struct tw_score *score);
	/* Score test samples from..from+count (in.from is a test position here). */
	enum tw_status (*evaluate)(const struct tw_engine *e, void *scratch,
				   const struct tw_inputs *in, struct tw_score *score);
	/* One pass of one stage.  change: of BACKWARD and GRADIENT, what `gradient` has for the
	 * elements of the stage: its trainable ones, then its buffers, without a gap between.
	 * TW_BAD_INPUT: no such stage, or a pass that it cannot do.  NULL: without cuts. */
	enum tw_status (*run)(const struct tw_engine *e, void *scratch, const struct tw_inputs *in,
			      const struct tw_pass *pass, float *change, struct tw_score *score);
	/* What passes of this stage need for batches of `count` samples.  May take long the first
	 * time; TW_NO_MEMORY, TW_BAD_INPUT: no such stage.  NULL: without cuts. */
	enum tw_status (*needs)(const struct tw_engine *e, uint32_t first, uint32_t last,
				uint32_t count, struct tw_needs *out);
	/* Training samples for an engine that does not have them: bytes of `count` of them, and
	 * those from..from+count (a batch, as `gradient` takes it) as its `given`.  TW_ABSENT:
	 * they are not here; or why they cannot be read.  NULL: its samples do not travel. */
	size_t (*given_bytes)(const struct tw_engine *e, uint32_t count);
	enum tw_status (*give)(const struct tw_engine *e, uint64_t from, uint32_t count,
			       uint8_t *out);
	/* The mean factor of these samples of the training set, by `effort`.  NULL: the engine
	 * cannot say, and nobody may set `effort`. */
	double (*effort)(const struct tw_engine *e, const struct tw_inputs *in);
	/* Of a stream, as in data/samples.h.  NULL: its samples are all here. */
	void (*arrived)(const struct tw_engine *e, uint64_t want, int64_t wait,
			struct tw_arrived *out);
	void (*forget)(const struct tw_engine *e, uint64_t below);
	void (*close)(struct tw_engine *e);
};

/* Floats of the vector, of the model, and of what `init` gives. */
static inline size_t tw_engine_moving(const struct tw_engine *e)
{
	return e->trainable + e->buffers;
}
static inline size_t tw_engine_floats(const struct tw_engine *e)
{
	return e->trainable + e->buffers + e->constants.floats;
}

/* Is it all of the model? */
static inline bool tw_pass_is_whole(const struct tw_engine *e, const struct tw_pass *p)
{
	return p->first == 0 && (p->last == 0 || p->last + 1 == e->cuts);
}

/* Place in a stage's `change` of an element of the vector that is the stage's. */
static inline size_t tw_pass_place(const struct tw_engine *e, const struct tw_pass *p,
				   size_t element)
{
	const size_t last = p->last ? p->last : e->cuts - 1;

	if (!e->cuts)
		return element;
	if (element < e->trainable)
		return element - e->cut[p->first].trainable;
	return e->cut[last].trainable - e->cut[p->first].trainable + element -
	       e->cut[p->first].buffers;
}

/* Do a pass with whatever function the engine has for it: what worlds call. */
static inline enum tw_status tw_engine_run(const struct tw_engine *e, void *scratch,
					   const struct tw_inputs *in, const struct tw_pass *p,
					   float *change, struct tw_score *score)
{
	const bool whole = tw_pass_is_whole(e, p) && !p->y;

	if (whole && p->kind == TW_PASS_GRADIENT)
		return e->class->gradient(e, scratch, in, change, score);
	if (whole && p->kind == TW_PASS_EVALUATE)
		return e->class->evaluate(e, scratch, in, score);
	return e->class->run ? e->class->run(e, scratch, in, p, change, score) : TW_BAD_INPUT;
}

#endif
