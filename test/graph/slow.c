/* SPDX-License-Identifier: Apache-2.0 */
/* slow.c - see slow.h. */
#include "graph/slow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

static double *widen(const float *x, size_t n)
{
	double *out = malloc((n ? n : 1) * sizeof *out);

	assert_non_null(out);
	for (size_t i = 0; i < n; i++)
		out[i] = (double)x[i];
	return out;
}

void slow_init(struct slow *s, const struct tw_graph *g, enum tw_program_kind kind, uint32_t batch,
	       uint64_t seed, const float *x, const float *vector, const struct tw_op_batch *facts)
{
	*s = (struct slow){ .graph = g, .batch = batch, .seed = seed, .facts = facts };
	s->train = kind == TW_PROGRAM_TRAIN;
	s->vector = widen(vector, g->trainable + g->buffers);
	s->value[0] = widen(x, batch * tw_shape_size(&g->node[0].shape));
	for (uint32_t n = 1; n < g->nodes; n++) {
		s->value[n] = calloc(batch * tw_shape_size(&g->node[n].shape), sizeof(double));
		assert_non_null(s->value[n]);
	}
}

void slow_release(struct slow *s)
{
	for (uint32_t n = 0; n < s->graph->nodes; n++)
		free(s->value[n]);
	free(s->vector);
}

static void one_node(struct slow *s, uint32_t n)
{
	const struct tw_graph_node *node = &s->graph->node[n];
	struct tw_op_site site = { .options = node->options, .batch = s->batch, .layer = n };
	const double *in[TW_OP_INS] = { NULL }, *parameter[TW_OP_PARAMETERS] = { NULL };

	site.ins = node->ins;
	site.out = node->shape;
	site.train = s->train;
	site.seed = s->seed;
	for (uint32_t k = 0; k < site.ins; k++) {
		site.in[k] = s->graph->node[node->in[k]].shape;
		in[k] = s->value[node->in[k]];
	}
	for (uint32_t k = 0; k < node->form.parameters; k++)
		parameter[k] = s->vector + s->graph->tensor[node->tensor[k]].from;
	node->op->reference(&site, s->facts, in, parameter, s->value[n]);
}

double slow_loss(struct slow *s)
{
	for (uint32_t n = 1; n < s->graph->nodes; n++)
		one_node(s, n);
	return s->value[s->graph->nodes - 1][0];
}

double slow_gradient(struct slow *s, size_t i)
{
	const double there = s->vector[i], h = 1e-5;
	double up, down;

	s->vector[i] = there + h;
	up = slow_loss(s);
	s->vector[i] = there - h;
	down = slow_loss(s);
	s->vector[i] = there;
	return (up - down) / (2 * h);
}
