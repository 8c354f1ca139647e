/* SPDX-License-Identifier: Apache-2.0 */
/* mean-squared.c - the mean of the squared differences between predictions and targets. */
#include "graph/loss/kit.h"
#include "vec/clone.h"

#include <math.h>

#define APART _Pragma("GCC ivdep")

/* Sum of squared differences; d (if any) = their gradient's share. */
TW_CLONED_STATIC(double, squared, (float *d, const float *p, const float *t, float share, size_t n),
		 (d, p, t, share, n))
{
	double lane[LANES] = { 0 };
	size_t at = 0;

	for (; n - at >= LANES; at += LANES)
		for (size_t k = 0; k < LANES; k++) {
			const double e = (double)p[at + k] - (double)t[at + k];

			lane[k] += e * e;
		}
	for (size_t k = 0; at + k < n; k++) {
		const double e = (double)p[at + k] - (double)t[at + k];

		lane[k] += e * e;
	}
	if (d) {
		APART
		for (size_t i = 0; i < n; i++)
			d[i] = (p[i] - t[i]) * share;
	}
	return in_lane_order(lane);
}

static enum tw_status squared_forward(const struct tw_op_site *site, const void *kernel,
				      const struct tw_op_run *run)
{
	const size_t n = size_of(site);
	const float share = (float)(2.0 / ((double)n * site->batch));
	double loss = 0;

	if (!run->batch->target)
		return TW_BAD_INPUT;
	for (size_t b = 0; b < site->batch; b++) {
		float *d = site->train ? (float *)run->saved + b * n : NULL;

		loss += squared(d, run->in[0] + b * n, run->batch->target + b * n, share, n) /
			(double)n;
	}
	*run->batch->loss = loss;
	*run->batch->correct = -1;
	return TW_OK;
}

static void squared_reference(const struct tw_op_site *site, const struct tw_op_batch *batch,
			      const double *const *in, const double *const *parameter, double *out)
{
	const size_t n = site->batch * size_of(site);

	out[0] = 0;
	for (size_t i = 0; i < n; i++)
		out[0] += pow(in[0][i] - (double)batch->target[i], 2) / (double)n;
}

static const struct tw_op_sample squared_samples[] = {
	{ "", { 1, { 7 } } },
	{ "", { 1, { 1 } } },
	{ "", { 3, { 3, 5, 2 } } },
	{ NULL },
};

const struct tw_loss tw_loss_mean_squared = {
	.op = {
		.name = "mean-squared",
		.elsewhere = (const char *const[]){ "mse", NULL },
		.help = "the mean of the squared differences from the targets",
		.traits = TW_OP_LOSS,
		.ins = 1,
		.samples = squared_samples,
		.form = loss_form,
		.prepare = loss_prepare,
		.forward = squared_forward,
		.backward = loss_backward,
		.reference = squared_reference,
	},
	.takes = TW_LOSS_TARGETS,
	.usual = true,
};
