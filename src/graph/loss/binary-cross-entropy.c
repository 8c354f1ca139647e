/* SPDX-License-Identifier: Apache-2.0 */
/* binary-cross-entropy.c - how wrong predictions are, output by output. */
#include "graph/loss/kit.h"
#include "graph/op/approx.h"
#include "vec/clone.h"

#include <math.h>

#define APART _Pragma("GCC ivdep")

/* A lane's product of 32 factors of at most 2 is far within a double. */
#define TILE (32 * LANES)

/* One output's share, without the logarithm, whose argument goes into the product. */
static inline __attribute__((always_inline)) void take(double *lane, double *product, float z,
						       float t, float e)
{
	*lane += (z < 0 ? 0 : (double)z) - (double)z * (double)t;
	*product *= 1 + (double)e;
}

/* Sum over at most TILE outputs of max(z, 0) - z t + log(1 + exp(-|z|)): the logarithms are taken
 * together, of products.  d (if any) = (sigmoid(z) - t) * share. */
TW_CLONED_STATIC(double, binary, (float *d, const float *z, const float *t, float share, size_t n),
		 (d, z, t, share, n))
{
	double lane[LANES] = { 0 }, product[LANES];
	float e[TILE];
	size_t at = 0;

	APART
	for (size_t i = 0; i < n; i++)
		e[i] = approx_exp(-fabsf(z[i]));
	for (size_t k = 0; k < LANES; k++)
		product[k] = 1;
	for (; n - at >= LANES; at += LANES)
		for (size_t k = 0; k < LANES; k++)
			take(&lane[k], &product[k], z[at + k], t[at + k], e[at + k]);
	for (size_t k = 0; at + k < n; k++)
		take(&lane[k], &product[k], z[at + k], t[at + k], e[at + k]);
	for (size_t k = 0; k < LANES; k++)
		lane[k] += log(product[k]);
	if (d) {
		APART
		for (size_t i = 0; i < n; i++)
			d[i] = ((z[i] < 0 ? e[i] : 1) / (1 + e[i]) - t[i]) * share;
	}
	return in_lane_order(lane);
}

static double binary_sample(float *d, const float *z, const float *t, float share, size_t n)
{
	double sum = 0;

	for (size_t at = 0; at < n; at += TILE)
		sum += binary(d ? d + at : NULL, z + at, t + at, share,
			      n - at < TILE ? n - at : TILE);
	return sum / (double)n;
}

/* What the outputs of a sample are, as bits. */
enum { BEYOND = 1, SOFT = 2, WRONG = 4 };

TW_CLONED_STATIC(int, sides, (const float *z, const float *t, size_t n), (z, t, n))
{
	int beyond = 0, soft = 0, wrong = 0;

	for (size_t i = 0; i < n; i++) {
		beyond |= !(t[i] >= 0) | !(t[i] <= 1);
		soft |= (t[i] != 0) & (t[i] != 1);
		wrong |= ((z[i] > 0) != (t[i] == 1)) | (z[i] != z[i]);
	}
	return (beyond ? BEYOND : 0) | (soft ? SOFT : 0) | (wrong ? WRONG : 0);
}

static enum tw_status binary_forward(const struct tw_op_site *site, const void *kernel,
				     const struct tw_op_run *run)
{
	const size_t n = size_of(site);
	const float share = (float)(1.0 / ((double)n * site->batch));
	double loss = 0, correct = 0;

	if (!run->batch->target && (!run->batch->label || n != 1))
		return TW_BAD_INPUT;
	for (size_t b = 0; b < site->batch; b++) {
		const float *z = run->in[0] + b * n;
		const float label = run->batch->target ? 0 : (float)run->batch->label[b];
		const float *t = run->batch->target ? run->batch->target + b * n : &label;
		const int side = sides(z, t, n);

		if (side & BEYOND)
			return TW_BAD_INPUT;
		if (side & SOFT)
			correct = -1; /* no such thing, whatever the others are */
		else if (correct >= 0)
			correct += !(side & WRONG);
		loss += binary_sample(site->train ? (float *)run->saved + b * n : NULL, z, t, share,
				      n);
	}
	*run->batch->loss = loss;
	*run->batch->correct = correct;
	return TW_OK;
}

static void binary_reference(const struct tw_op_site *site, const struct tw_op_batch *batch,
			     const double *const *in, const double *const *parameter, double *out)
{
	const size_t n = site->batch * size_of(site);

	out[0] = 0;
	for (size_t i = 0; i < n; i++) {
		const double z = in[0][i];
		const double t = batch->target ? (double)batch->target[i] : batch->label[i];

		out[0] += ((z > 0 ? z : 0) - z * t + log1p(exp(-fabs(z)))) / (double)n;
	}
}

static const struct tw_op_sample binary_samples[] = {
	{ "", { 1, { 5 } } },      { "", { 1, { 1 } } },       { "", { 1, { 33 } } },
	{ "", { 1, { 530 } }, 2 }, { "", { 3, { 3, 4, 2 } } }, { NULL },
};

const struct tw_loss tw_loss_binary_cross_entropy = {
	.op = {
		.name = "binary-cross-entropy",
		.elsewhere = (const char *const[]){ "bce", NULL },
		.help = "cross-entropy of each output separately, with targets from 0 to 1 "
			"(includes sigmoid)",
		.traits = TW_OP_LOSS | TW_OP_SIGMOID,
		.ins = 1,
		.samples = binary_samples,
		.form = loss_form,
		.prepare = loss_prepare,
		.forward = binary_forward,
		.backward = loss_backward,
		.reference = binary_reference,
	},
	.takes = TW_LOSS_PAIR | TW_LOSS_TARGETS | TW_LOSS_UNIT,
	.judges = true,
};
