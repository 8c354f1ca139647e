/* SPDX-License-Identifier: Apache-2.0 */
/* cross-entropy.c - how much probability the right class was not given; of a sequence the mean over
 * its positions, which have a class each. */
#include "graph/loss/kit.h"
#include "graph/op/approx.h"
#include "vec/clone.h"

#include <math.h>

#define APART _Pragma("GCC ivdep")

struct entropy_options {
	float smoothing;
};

static const struct tw_option entropy_rows[] = {
	TW_OPTION(struct entropy_options, smoothing, TW_F32, "0", NULL, 0, 0.999,
		  "share of the target that is spread evenly over all classes", .example = "0.1"),
	TW_OPTION_END,
};

static enum tw_status entropy_form(const void *options, const struct tw_shape *in,
				   struct tw_op_form *form, struct tw_error *why)
{
	char text[40];

	if (in[0].rank == 3 || tw_shape_width(in) < 2)
		return tw_fail(why, TW_BAD_INPUT,
			       "needs one output for each of at least 2 classes, not %s",
			       tw_shape_text(&in[0], text));
	return loss_form(options, in, form, why);
}

/* The first of the largest; a NaN is never larger. */
static size_t largest(const float *z, size_t n)
{
	size_t best = 0;

	for (size_t i = 1; i < n; i++)
		if (z[i] > z[best])
			best = i;
	return best;
}

/* e = exp(z - top); returns its sum. */
TW_CLONED_STATIC(double, exp_sum, (float *e, const float *z, float top, size_t n), (e, z, top, n))
{
	double lane[LANES] = { 0 };
	size_t at = 0;

	APART
	for (size_t i = 0; i < n; i++)
		e[i] = approx_exp(z[i] - top);
	for (; n - at >= LANES; at += LANES)
		for (size_t k = 0; k < LANES; k++)
			lane[k] += (double)e[at + k];
	for (size_t k = 0; at + k < n; k++)
		lane[k] += (double)e[at + k];
	return in_lane_order(lane);
}

/* d = (p - even) * share, where p = e / sum. */
TW_CLONED_STATIC(void, soft_gradient,
		 (float *d, const float *e, float factor, float even, size_t n),
		 (d, e, factor, even, n))
{
	APART
	for (size_t i = 0; i < n; i++)
		d[i] = fmaf(e[i], factor, -even);
}

#define EXP_TILE 256

/* The sum of all exponentials; they are kept in e, if it is there. */
static double exp_sum_all(float *e, const float *z, float top, size_t n)
{
	float tile[EXP_TILE];
	double sum = 0;

	for (size_t at = 0; at < n; at += EXP_TILE)
		/* cppcheck-suppress legacyUninitvar ; it is written there, not read */
		sum += exp_sum(e ? e + at : tile, z + at, top,
			       n - at < EXP_TILE ? n - at : EXP_TILE);
	return sum;
}

struct entropy {
	double spread; /* smoothing */
	size_t n;
	float share; /* 1 / lines of the batch */
};

static double entropy_line(const struct entropy *c, const float *z, uint32_t label, float *d,
			   bool *right)
{
	const size_t best = largest(z, c->n);
	const float top = z[best];
	const double sum = exp_sum_all(d, z, top, c->n);
	const double whole = log(sum) + (double)top;
	double loss = whole - (1 - c->spread) * (double)z[label];

	if (c->spread > 0)
		loss -= c->spread * tw_vec_sum(z, c->n) / (double)c->n;
	if (d) {
		const float even = (float)(c->spread / (double)c->n) * c->share;

		soft_gradient(d, d, (float)((double)c->share / sum), even, c->n);
		d[label] -= (float)((1 - c->spread) * (double)c->share);
	}
	*right = best == label && !isnan(top);
	return loss;
}

static double smoothing(const struct tw_op_site *site)
{
	return (double)((const struct entropy_options *)site->options)->smoothing;
}

static enum tw_status entropy_forward(const struct tw_op_site *site, const void *kernel,
				      const struct tw_op_run *run)
{
	const size_t positions = tw_shape_positions(&site->in[0]), lines = tw_op_lines(site);
	const struct entropy c = { smoothing(site), tw_shape_width(&site->in[0]),
				   1.0f / (float)lines };
	double loss = 0, of_sample = 0;
	size_t correct = 0;

	if (!run->batch->label)
		return TW_BAD_INPUT;
	for (size_t b = 0; b < lines; b++) {
		const uint32_t label = run->batch->label[b];
		float *d = site->train ? (float *)run->saved + b * c.n : NULL;
		bool right;

		if (label >= c.n)
			return TW_BAD_INPUT;
		of_sample += entropy_line(&c, run->in[0] + b * c.n, label, d, &right);
		correct += right;
		if (b % positions + 1 < positions)
			continue;
		loss += of_sample / (double)positions;
		of_sample = 0;
	}
	*run->batch->loss = loss;
	*run->batch->correct = (double)correct / (double)positions;
	return TW_OK;
}

static void entropy_reference(const struct tw_op_site *site, const struct tw_op_batch *batch,
			      const double *const *in, const double *const *parameter, double *out)
{
	const size_t n = tw_shape_width(&site->in[0]), lines = tw_op_lines(site);
	const double s = smoothing(site);

	out[0] = 0;
	for (size_t b = 0; b < lines; b++) {
		const double *z = in[0] + b * n;
		double top = z[0], sum = 0;

		for (size_t i = 1; i < n; i++)
			top = z[i] > top ? z[i] : top;
		for (size_t i = 0; i < n; i++)
			sum += exp(z[i] - top);
		for (size_t i = 0; i < n; i++)
			out[0] -= ((i == batch->label[b] ? 1 - s : 0) + s / (double)n) *
				  (z[i] - top - log(sum)) / (double)lines;
	}
}

static const struct tw_op_sample entropy_samples[] = {
	{ "", { 1, { 10 } } },
	{ "smoothing 0.1", { 1, { 7 } } },
	{ "", { 1, { 2 } } },
	{ "smoothing 0.3", { 1, { 301 } } },
	{ "", { 2, { 5, 7 } } },
	{ "smoothing 0.1", { 2, { 3, 2 } } },
	{ NULL },
};

const struct tw_loss tw_loss_cross_entropy = {
	.op = {
		.name = "cross-entropy",
		.help = "negative log-likelihood of the right class (includes softmax)",
		.traits = TW_OP_LOSS | TW_OP_SOFTMAX | TW_OP_BY_POSITION,
		.ins = 1,
		.options = entropy_rows,
		.options_bytes = sizeof(struct entropy_options),
		.samples = entropy_samples,
		.form = entropy_form,
		.prepare = loss_prepare,
		.forward = entropy_forward,
		.backward = loss_backward,
		.reference = entropy_reference,
	},
	.takes = TW_LOSS_LABELS,
	.judges = true,
	.usual = true,
};
