/* SPDX-License-Identifier: Apache-2.0 */
/* quadratic.h - engines whose exact answers are known: quadratics and least squares. */
#ifndef TW_ENGINE_QUADRATIC_H
#define TW_ENGINE_QUADRATIC_H

#include "actor/engine.h"
#include "base/option.h"
#include "base/heap.h"

/* model: {quadratic: {...}}: loss 1/2 sum a_i (w_i - target_i)^2; gradient of a batch: mean over
 * its samples of a_i (w_i - target_i) + noise * gauss(sample, i).  Curvatures are drawn evenly from
 * [low, high]; `curvature: [c]` gives all the same. */
struct tw_quadratic_options {
	uint64_t dimension;
	struct tw_f64s curvature; /* one value, or low and high */
	double noise;             /* standard deviation of each sample's gradient noise */
	double start;             /* initial parameters: start, or ... */
	double spread;            /* ... start + spread * gauss */
	double target;            /* where the minimum is: target * gauss(i); 0: at the origin */
	uint64_t buffers;         /* running statistics that the engine keeps: tests of the path */
	uint64_t tensors;         /* number of tensors to split the vector into; 0: one, or one for
				     each stage */
	uint64_t stages;          /* that it can be computed in; 0: one */
	struct tw_f64s per_stage; /* curvature of each stage; empty: `curvature` for all */
};
extern const struct tw_option tw_quadratic_rows[];

/* model: {least-squares: {...}}: `samples` rows x_s (dense gauss, or with disjoint supports: row s
 * touches only block s mod blocks), labels y = x.w* + noise; loss 1/2 (x.w - y)^2 per sample. */
struct tw_least_squares_options {
	uint64_t dimension;
	double noise;    /* of the labels */
	uint64_t blocks; /* 0: dense; else disjoint supports */
	double start;
	uint64_t stages; /* that it can be computed in; 0: one */
};
extern const struct tw_option tw_least_squares_rows[];

/* Stages.  Each has an equal run of the elements.  What crosses a cut is one float for each sample:
 * of a quadratic the loss of the stages so far, of least squares the product of row and parameters
 * so far; what comes back is how the total depends on it.  So a stage's part of the gradient of a
 * quadratic depends on its own parameters alone, and that of least squares on all of them.  With
 * more than one stage the gradient of everything rounds these sums to float, too, and equals that
 * of the stages bit for bit.
 *
 * `samples` training samples in an epoch.  NULL without memory. */
struct tw_engine *tw_quadratic_open(struct tw_heap *heap, const struct tw_quadratic_options *o,
				    uint64_t samples, uint64_t seed);
struct tw_engine *tw_least_squares_open(struct tw_heap *heap,
					const struct tw_least_squares_options *o, uint64_t samples,
					uint64_t seed);

#endif
