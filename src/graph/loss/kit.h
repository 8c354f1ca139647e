/* SPDX-License-Identifier: Apache-2.0 */
/* kit.h - what the losses of this folder share.
 *
 * Forward leaves in `saved` what backward only has to hand on: the gradient of the batch's mean.
 * Sums within a sample run in 16 double lanes, those over samples in order of samples, so every
 * clone gives the same bits. */
#ifndef TW_GRAPH_LOSS_KIT_H
#define TW_GRAPH_LOSS_KIT_H

#include "graph/loss.h"
#include "vec/vec.h"

#define LANES 16

/* All losses: any shape in (PLAIN), nothing out. */

static inline size_t size_of(const struct tw_op_site *site)
{
	return tw_shape_size(&site->in[0]);
}

static inline enum tw_status loss_form(const void *options, const struct tw_shape *in,
				       struct tw_op_form *form, struct tw_error *why)
{
	*form = (struct tw_op_form){ .flops = 4.0 * (double)tw_shape_size(&in[0]) };
	return TW_OK;
}

static inline enum tw_status loss_prepare(const struct tw_op_site *site, struct tw_onednn *kit,
					  void *kernel, struct tw_op_memory *need)
{
	if (site->train)
		need->saved = site->batch * size_of(site) * sizeof(float);
	return TW_OK;
}

static inline enum tw_status loss_backward(const struct tw_op_site *site, const void *kernel,
					   const struct tw_op_run *run)
{
	const size_t n = size_of(site);
	const float *weight = run->batch->weight, *share = run->batch->share;
	float *d = run->in_gradient[0];

	if (!d)
		return TW_OK;
	tw_vec_copy(d, run->saved, site->batch * n);
	for (size_t i = 0; weight && i < site->batch * n; i++)
		d[i] *= weight[i / n];
	for (size_t i = 0; share && i < site->batch * n; i++)
		d[i] *= share[i % n];
	return TW_OK;
}

static inline double in_lane_order(const double *lane)
{
	double sum = 0;

	for (size_t k = 0; k < LANES; k++)
		sum += lane[k];
	return sum;
}

#endif
