/* SPDX-License-Identifier: Apache-2.0 */
/* truth.h - what an op must give, by its own `reference` in double: values, and derivatives by
 * central differences. */
#ifndef TEST_GRAPH_TRUTH_H
#define TEST_GRAPH_TRUTH_H

#include "graph/op.h"

#define TRUTH_TENSORS (TW_OP_INS + TW_OP_PARAMETERS) /* inputs, then parameters */
#define TRUTH_SPOTS   40
#define TRUTH_WAYS    2

/* d f / d (one value, or one way through all values) of a tensor, f = sum of r * out. */
struct truth_spot {
	size_t index;
	double slope;
};

struct truth {
	const struct tw_op *op;
	const char *text;
	void *options;
	struct tw_op_form form;
	struct tw_op_site site; /* PLAIN, without ReLU */
	bool has[TRUTH_TENSORS];
	size_t n[TRUTH_TENSORS], outs; /* values */
	float *value[TRUTH_TENSORS];   /* what the op gets */
	double *exact[TRUTH_TENSORS];  /* the same numbers */
	double *out;                   /* of the reference; a loss: one value */
	float *cotangent;              /* r; none of a loss */
	struct tw_op_batch batch;
	double loss, correct;

	struct truth_spot spot[TRUTH_TENSORS][TRUTH_SPOTS], way[TRUTH_TENSORS][TRUTH_WAYS];
	uint32_t spots[TRUTH_TENSORS];
	double scale[TRUTH_TENSORS]; /* root mean square of the spots' slopes */
};

/* Where things go wrong, for messages: op, text, batch, layout. */
extern char truth_where[400];

/* Everything but the differences.  `options` stay the caller's. */
void truth_make(struct truth *t, const struct tw_op *op, const struct tw_op_sample *sample,
		void *options, uint32_t batch, bool train);
void truth_free(struct truth *t);
/* The reference's values for what `batch` says now. */
void truth_refer(const struct truth *t, double *out);
/* Fill spot, way and scale.  Places with a kink are avoided. */
void truth_differences(struct truth *t);
/* Which way number k goes: +1 or -1 for each value. */
double truth_way(uint32_t tensor, uint32_t k, size_t index);
bool truth_passes(const struct tw_op_site *site, const struct tw_op *op);

#endif
