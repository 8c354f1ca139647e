/* SPDX-License-Identifier: Apache-2.0 */
/* smooth.c - smooth relatives of relu: elu, silu, softplus.
 *
 * elu and softplus know their derivative from their output, so they run in place.  A NaN stays one,
 * forward and backward. */
#include "graph/op.h"
#include "graph/op/approx.h"
#include "vec/clone.h"

#define APART _Pragma("GCC ivdep") /* arrays are the same or apart */
#define FROM_OUT                                                                                   \
	(TW_OP_READS_OUT | TW_OP_IN_PLACE | TW_OP_BACK_IN_PLACE | TW_OP_FOLLOWS_LAYOUT |           \
	 TW_OP_BY_POSITION)

static size_t values(const struct tw_op_site *site)
{
	return site->batch * tw_shape_size(&site->in[0]);
}

static enum tw_status form(const void *options, const struct tw_shape *in, struct tw_op_form *form,
			   struct tw_error *why)
{
	*form = (struct tw_op_form){ .out = in[0], .flops = 20.0 * (double)tw_shape_size(&in[0]) };
	return TW_OK;
}

/* elu (Clevert et al. 2015) */

struct elu_options {
	float alpha;
};

static const struct tw_option elu_rows[] = {
	TW_OPTION(struct elu_options, alpha, TW_F32, "1", NULL, 0, 1000,
		  "how far below 0 the output goes"),
	TW_OPTION_END,
};

static const struct tw_op_sample elu_samples[] = {
	{ "", { 1, { 13 } } },
	{ "0.2", { 3, { 5, 3, 2 } } },
	{ "alpha 0", { 1, { 7 } } },
	{ "alpha 1.5", { 3, { 16, 2, 3 } } },
	{ NULL },
};

TW_CLONED_STATIC(void, elu, (float *y, const float *x, float alpha, size_t n), (y, x, alpha, n))
{
	APART
	for (size_t i = 0; i < n; i++) {
		const float below = alpha * approx_expm1(approx_at_most(x[i], 0));

		y[i] = x[i] > 0 ? x[i] : below;
	}
}

/* Below 0 the slope is alpha e^x, which is y + alpha. */
TW_CLONED_STATIC(void, elu_back,
		 (float *dx, const float *dy, const float *y, float alpha, size_t n),
		 (dx, dy, y, alpha, n))
{
	APART
	for (size_t i = 0; i < n; i++)
		dx[i] = y[i] > 0 ? dy[i] : dy[i] * (y[i] + alpha);
}

static float alpha_of(const struct tw_op_site *site)
{
	return ((const struct elu_options *)site->options)->alpha;
}

static enum tw_status elu_forward(const struct tw_op_site *site, const void *kernel,
				  const struct tw_op_run *run)
{
	elu(run->out, run->in[0], alpha_of(site), values(site));
	return TW_OK;
}

static enum tw_status elu_backward(const struct tw_op_site *site, const void *kernel,
				   const struct tw_op_run *run)
{
	if (run->in_gradient[0])
		elu_back(run->in_gradient[0], run->out_gradient, run->out, alpha_of(site),
			 values(site));
	return TW_OK;
}

static void elu_reference(const struct tw_op_site *site, const struct tw_op_batch *batch,
			  const double *const *in, const double *const *parameter, double *out)
{
	for (size_t i = 0; i < values(site); i++)
		out[i] = in[0][i] > 0 ? in[0][i] : (double)alpha_of(site) * expm1(in[0][i]);
}

static void elu_c(const struct tw_op_site *site, FILE *out)
{
	fprintf(out, TW_OP_C_EACH "x[i] > 0 ? x[i] : (float)%.9g * expm1f(x[i]);\n",
		(double)alpha_of(site));
}

static void elu_torch(const void *options, const struct tw_shape *in, char text[TW_TORCH_ROOM])
{
	const struct elu_options *o = options;

	snprintf(text, TW_TORCH_ROOM, "nn.ELU(%.9g)", (double)o->alpha);
}

static const struct tw_op elu_op = {
	.name = "elu",
	.help = "x above 0, alpha * (e^x - 1) below",
	.traits = FROM_OUT,
	.ins = 1,
	.options = elu_rows,
	.positional = 1,
	.options_bytes = sizeof(struct elu_options),
	.samples = elu_samples,
	.form = form,
	.forward = elu_forward,
	.backward = elu_backward,
	.reference = elu_reference,
	.torch = elu_torch,
	.c = elu_c,
};

/* silu (Elfwing et al. 2017) */

static const struct tw_op_sample silu_samples[] = {
	{ "", { 1, { 37 } } },
	{ "", { 1, { 1 } } },
	{ "", { 3, { 16, 3, 5 } } },
	{ NULL },
};

TW_CLONED_STATIC(void, silu, (float *y, const float *x, size_t n), (y, x, n))
{
	APART
	for (size_t i = 0; i < n; i++)
		y[i] = x[i] * approx_sigmoid(x[i]);
}

TW_CLONED_STATIC(void, silu_back, (float *dx, const float *dy, const float *x, size_t n),
		 (dx, dy, x, n))
{
	APART
	for (size_t i = 0; i < n; i++) {
		const float s = approx_sigmoid(x[i]);

		dx[i] = dy[i] * fmaf(x[i], s * (1.0f - s), s);
	}
}

static enum tw_status silu_forward(const struct tw_op_site *site, const void *kernel,
				   const struct tw_op_run *run)
{
	silu(run->out, run->in[0], values(site));
	return TW_OK;
}

static enum tw_status silu_backward(const struct tw_op_site *site, const void *kernel,
				    const struct tw_op_run *run)
{
	if (run->in_gradient[0])
		silu_back(run->in_gradient[0], run->out_gradient, run->in[0], values(site));
	return TW_OK;
}

static void silu_reference(const struct tw_op_site *site, const struct tw_op_batch *batch,
			   const double *const *in, const double *const *parameter, double *out)
{
	for (size_t i = 0; i < values(site); i++)
		out[i] = in[0][i] / (1 + exp(-in[0][i]));
}

static void silu_c(const struct tw_op_site *site, FILE *out)
{
	fputs(TW_OP_C_EACH "x[i] / (1 + expf(-x[i]));\n", out);
}

static void silu_torch(const void *options, const struct tw_shape *in, char text[TW_TORCH_ROOM])
{
	snprintf(text, TW_TORCH_ROOM, "nn.SiLU()");
}

static const struct tw_op silu_op = {
	.name = "silu",
	.elsewhere = (const char *const[]){ "swish", NULL },
	.help = "x / (1 + e^-x)",
	.traits = TW_OP_READS_IN | TW_OP_BACK_IN_PLACE | TW_OP_FOLLOWS_LAYOUT | TW_OP_BY_POSITION,
	.ins = 1,
	.samples = silu_samples,
	.form = form,
	.forward = silu_forward,
	.backward = silu_backward,
	.reference = silu_reference,
	.torch = silu_torch,
	.c = silu_c,
};

/* softplus (Dugas et al. 2000) */

struct softplus_options {
	float beta;
};

static const struct tw_option softplus_rows[] = {
	TW_OPTION(struct softplus_options, beta, TW_F32, "1", NULL, 1e-3, 1000,
		  "how sharp the bend at 0 is"),
	TW_OPTION_END,
};

static const struct tw_op_sample softplus_samples[] = {
	{ "", { 1, { 33 } } },
	{ "2", { 3, { 5, 3, 2 } } },
	{ "beta 0.5", { 3, { 16, 2, 3 } } },
	{ NULL },
};

/* log(1 + e^v) is v above 0, plus log(1 + e^-|v|). */
TW_CLONED_STATIC(void, softplus, (float *y, const float *x, float beta, float inverse, size_t n),
		 (y, x, beta, inverse, n))
{
	APART
	for (size_t i = 0; i < n; i++)
		y[i] = approx_at_least(x[i], 0) +
		       inverse * approx_log1p(approx_exp(-fabsf(beta * x[i])));
}

/* The slope is the sigmoid of beta x, which is 1 - e^(-beta y). */
TW_CLONED_STATIC(void, softplus_back,
		 (float *dx, const float *dy, const float *y, float beta, size_t n),
		 (dx, dy, y, beta, n))
{
	APART
	for (size_t i = 0; i < n; i++)
		dx[i] = -dy[i] * approx_expm1(-beta * y[i]);
}

static float beta_of(const struct tw_op_site *site)
{
	return ((const struct softplus_options *)site->options)->beta;
}

static enum tw_status softplus_forward(const struct tw_op_site *site, const void *kernel,
				       const struct tw_op_run *run)
{
	softplus(run->out, run->in[0], beta_of(site), 1.0f / beta_of(site), values(site));
	return TW_OK;
}

static enum tw_status softplus_backward(const struct tw_op_site *site, const void *kernel,
					const struct tw_op_run *run)
{
	if (run->in_gradient[0])
		softplus_back(run->in_gradient[0], run->out_gradient, run->out, beta_of(site),
			      values(site));
	return TW_OK;
}

static void softplus_reference(const struct tw_op_site *site, const struct tw_op_batch *batch,
			       const double *const *in, const double *const *parameter, double *out)
{
	const double beta = (double)beta_of(site);

	for (size_t i = 0; i < values(site); i++)
		out[i] = fmax(in[0][i], 0) + log1p(exp(-fabs(beta * in[0][i]))) / beta;
}

static void softplus_c(const struct tw_op_site *site, FILE *out)
{
	const double beta = (double)beta_of(site);

	fprintf(out,
		TW_OP_C_EACH "fmaxf(x[i], 0) + log1pf(expf(-fabsf((float)%.9g * x[i]))) / "
			     "(float)%.9g;\n",
		beta, beta);
}

static void softplus_torch(const void *options, const struct tw_shape *in, char text[TW_TORCH_ROOM])
{
	const struct softplus_options *o = options;

	snprintf(text, TW_TORCH_ROOM, "nn.Softplus(%.9g)", (double)o->beta);
}

static const struct tw_op softplus_op = {
	.name = "softplus",
	.help = "log(1 + e^(beta x)) / beta",
	.traits = FROM_OUT,
	.ins = 1,
	.options = softplus_rows,
	.positional = 1,
	.options_bytes = sizeof(struct softplus_options),
	.samples = softplus_samples,
	.form = form,
	.forward = softplus_forward,
	.backward = softplus_backward,
	.reference = softplus_reference,
	.torch = softplus_torch,
	.c = softplus_c,
};

static const struct tw_op *const ops[] = { &elu_op, &silu_op, &softplus_op, NULL };
const struct tw_op_family tw_op_family_smooth = { ops };
