/* SPDX-License-Identifier: Apache-2.0 */
/* activation.c - functions of one value: relu, leaky-relu, tanh, sigmoid, gelu.
 *
 * All but gelu know their derivative from their output, so they run in place.  A NaN stays one,
 * forward and backward, so that a run gone wrong is noticed. */
#include "graph/op.h"
#include "graph/op/approx.h"
#include "vec/clone.h"

#define APART _Pragma("GCC ivdep") /* arrays are the same or apart */

static size_t values(const struct tw_op_site *site)
{
	return site->batch * tw_shape_size(&site->in[0]);
}

static enum tw_status keep_shape(const struct tw_shape *in, struct tw_op_form *form, double flops)
{
	*form = (struct tw_op_form){ .out = in[0], .flops = flops * (double)tw_shape_size(&in[0]) };
	return TW_OK;
}

static const struct tw_op_sample samples[] = {
	{ "", { 1, { 7 } } },        { "", { 1, { 1 } } },    { "", { 3, { 3, 5, 7 } } },
	{ "", { 3, { 32, 3, 3 } } }, { "", { 2, { 3, 6 } } }, { NULL },
};

/* relu */

TW_CLONED_STATIC(void, relu, (float *y, const float *x, size_t n), (y, x, n))
{
	APART
	for (size_t i = 0; i < n; i++)
		y[i] = x[i] < 0 ? 0 : x[i];
}

TW_CLONED_STATIC(void, relu_back, (float *dx, const float *dy, const float *y, size_t n),
		 (dx, dy, y, n))
{
	APART
	for (size_t i = 0; i < n; i++)
		dx[i] = y[i] <= 0 ? 0 : dy[i];
}

static enum tw_status relu_form(const void *options, const struct tw_shape *in,
				struct tw_op_form *form, struct tw_error *why)
{
	return keep_shape(in, form, 1);
}

static enum tw_status relu_forward(const struct tw_op_site *site, const void *kernel,
				   const struct tw_op_run *run)
{
	relu(run->out, run->in[0], values(site));
	return TW_OK;
}

static enum tw_status relu_backward(const struct tw_op_site *site, const void *kernel,
				    const struct tw_op_run *run)
{
	if (run->in_gradient[0])
		relu_back(run->in_gradient[0], run->out_gradient, run->out, values(site));
	return TW_OK;
}

static void relu_reference(const struct tw_op_site *site, const struct tw_op_batch *batch,
			   const double *const *in, const double *const *parameter, double *out)
{
	for (size_t i = 0; i < values(site); i++)
		out[i] = in[0][i] < 0 ? 0 : in[0][i];
}

#define FROM_OUT                                                                                   \
	(TW_OP_READS_OUT | TW_OP_IN_PLACE | TW_OP_BACK_IN_PLACE | TW_OP_FOLLOWS_LAYOUT |           \
	 TW_OP_BY_POSITION)

static void relu_c(const struct tw_op_site *site, FILE *out)
{
	fputs(TW_OP_C_EACH "x[i] < 0 ? 0 : x[i];\n", out);
}

static void relu_torch(const void *options, const struct tw_shape *in, char text[TW_TORCH_ROOM])
{
	snprintf(text, TW_TORCH_ROOM, "nn.ReLU()");
}

static const struct tw_op relu_op = {
	.name = "relu",
	.help = "max(x, 0)",
	.traits = FROM_OUT | TW_OP_IS_RELU,
	.ins = 1,
	.samples = samples,
	.form = relu_form,
	.forward = relu_forward,
	.backward = relu_backward,
	.reference = relu_reference,
	.torch = relu_torch,
	.c = relu_c,
};

/* leaky-relu */

struct leaky_options {
	float slope;
};

static const struct tw_option leaky_rows[] = {
	TW_OPTION(struct leaky_options, slope, TW_F32, "0.01", NULL, 0, 1,
		  "what values below 0 are multiplied by"),
	TW_OPTION_END,
};

static const struct tw_op_sample leaky_samples[] = {
	{ "", { 1, { 13 } } },
	{ "0.2", { 3, { 5, 3, 2 } } },
	{ "slope 0", { 3, { 16, 2, 3 } } },
	{ NULL },
};

TW_CLONED_STATIC(void, leaky, (float *y, const float *x, float slope, size_t n), (y, x, slope, n))
{
	APART
	for (size_t i = 0; i < n; i++)
		y[i] = x[i] < 0 ? slope * x[i] : x[i];
}

/* The slope is not negative, so the output is above 0 where the input was. */
TW_CLONED_STATIC(void, leaky_back,
		 (float *dx, const float *dy, const float *y, float slope, size_t n),
		 (dx, dy, y, slope, n))
{
	APART
	for (size_t i = 0; i < n; i++)
		dx[i] = y[i] <= 0 ? slope * dy[i] : dy[i];
}

static float slope_of(const struct tw_op_site *site)
{
	return ((const struct leaky_options *)site->options)->slope;
}

static enum tw_status leaky_form(const void *options, const struct tw_shape *in,
				 struct tw_op_form *form, struct tw_error *why)
{
	return keep_shape(in, form, 2);
}

static enum tw_status leaky_forward(const struct tw_op_site *site, const void *kernel,
				    const struct tw_op_run *run)
{
	leaky(run->out, run->in[0], slope_of(site), values(site));
	return TW_OK;
}

static enum tw_status leaky_backward(const struct tw_op_site *site, const void *kernel,
				     const struct tw_op_run *run)
{
	if (run->in_gradient[0])
		leaky_back(run->in_gradient[0], run->out_gradient, run->out, slope_of(site),
			   values(site));
	return TW_OK;
}

static void leaky_reference(const struct tw_op_site *site, const struct tw_op_batch *batch,
			    const double *const *in, const double *const *parameter, double *out)
{
	for (size_t i = 0; i < values(site); i++)
		out[i] = in[0][i] < 0 ? (double)slope_of(site) * in[0][i] : in[0][i];
}

static void leaky_c(const struct tw_op_site *site, FILE *out)
{
	fprintf(out, TW_OP_C_EACH "x[i] < 0 ? (float)%.9g * x[i] : x[i];\n",
		(double)slope_of(site));
}

static void leaky_torch(const void *options, const struct tw_shape *in, char text[TW_TORCH_ROOM])
{
	const struct leaky_options *o = options;

	snprintf(text, TW_TORCH_ROOM, "nn.LeakyReLU(%.9g)", (double)o->slope);
}

static const struct tw_op leaky_op = {
	.name = "leaky-relu",
	.help = "x above 0, slope * x below",
	.traits = FROM_OUT,
	.ins = 1,
	.options = leaky_rows,
	.positional = 1,
	.options_bytes = sizeof(struct leaky_options),
	.samples = leaky_samples,
	.form = leaky_form,
	.forward = leaky_forward,
	.backward = leaky_backward,
	.reference = leaky_reference,
	.torch = leaky_torch,
	.c = leaky_c,
};

/* tanh and sigmoid */

TW_CLONED_STATIC(void, hyperbolic, (float *y, const float *x, size_t n), (y, x, n))
{
	APART
	for (size_t i = 0; i < n; i++)
		y[i] = approx_tanh(x[i]);
}

TW_CLONED_STATIC(void, hyperbolic_back, (float *dx, const float *dy, const float *y, size_t n),
		 (dx, dy, y, n))
{
	APART
	for (size_t i = 0; i < n; i++)
		dx[i] = dy[i] * fmaf(-y[i], y[i], 1.0f);
}

TW_CLONED_STATIC(void, sigmoid, (float *y, const float *x, size_t n), (y, x, n))
{
	APART
	for (size_t i = 0; i < n; i++)
		y[i] = approx_sigmoid(x[i]);
}

TW_CLONED_STATIC(void, sigmoid_back, (float *dx, const float *dy, const float *y, size_t n),
		 (dx, dy, y, n))
{
	APART
	for (size_t i = 0; i < n; i++)
		dx[i] = dy[i] * (y[i] * (1.0f - y[i]));
}

static enum tw_status smooth_form(const void *options, const struct tw_shape *in,
				  struct tw_op_form *form, struct tw_error *why)
{
	return keep_shape(in, form, 20);
}

static enum tw_status tanh_forward(const struct tw_op_site *site, const void *kernel,
				   const struct tw_op_run *run)
{
	hyperbolic(run->out, run->in[0], values(site));
	return TW_OK;
}

static enum tw_status tanh_backward(const struct tw_op_site *site, const void *kernel,
				    const struct tw_op_run *run)
{
	if (run->in_gradient[0])
		hyperbolic_back(run->in_gradient[0], run->out_gradient, run->out, values(site));
	return TW_OK;
}

static void tanh_reference(const struct tw_op_site *site, const struct tw_op_batch *batch,
			   const double *const *in, const double *const *parameter, double *out)
{
	for (size_t i = 0; i < values(site); i++)
		out[i] = tanh(in[0][i]);
}

static enum tw_status sigmoid_forward(const struct tw_op_site *site, const void *kernel,
				      const struct tw_op_run *run)
{
	sigmoid(run->out, run->in[0], values(site));
	return TW_OK;
}

static enum tw_status sigmoid_backward(const struct tw_op_site *site, const void *kernel,
				       const struct tw_op_run *run)
{
	if (run->in_gradient[0])
		sigmoid_back(run->in_gradient[0], run->out_gradient, run->out, values(site));
	return TW_OK;
}

static void sigmoid_reference(const struct tw_op_site *site, const struct tw_op_batch *batch,
			      const double *const *in, const double *const *parameter, double *out)
{
	for (size_t i = 0; i < values(site); i++)
		out[i] = 1 / (1 + exp(-in[0][i]));
}

static void tanh_c(const struct tw_op_site *site, FILE *out)
{
	fputs(TW_OP_C_EACH "tanhf(x[i]);\n", out);
}

static void sigmoid_c(const struct tw_op_site *site, FILE *out)
{
	fputs(TW_OP_C_EACH "1 / (1 + expf(-x[i]));\n", out);
}

static void tanh_torch(const void *options, const struct tw_shape *in, char text[TW_TORCH_ROOM])
{
	snprintf(text, TW_TORCH_ROOM, "nn.Tanh()");
}

static void sigmoid_torch(const void *options, const struct tw_shape *in, char text[TW_TORCH_ROOM])
{
	snprintf(text, TW_TORCH_ROOM, "nn.Sigmoid()");
}

static const struct tw_op tanh_op = {
	.name = "tanh",
	.help = "hyperbolic tangent",
	.traits = FROM_OUT,
	.ins = 1,
	.samples = samples,
	.form = smooth_form,
	.forward = tanh_forward,
	.backward = tanh_backward,
	.reference = tanh_reference,
	.torch = tanh_torch,
	.c = tanh_c,
};

static const struct tw_op sigmoid_op = {
	.name = "sigmoid",
	.help = "1 / (1 + e^-x)",
	.traits = FROM_OUT | TW_OP_SIGMOID,
	.ins = 1,
	.samples = samples,
	.form = smooth_form,
	.forward = sigmoid_forward,
	.backward = sigmoid_backward,
	.reference = sigmoid_reference,
	.torch = sigmoid_torch,
	.c = sigmoid_c,
};

/* gelu: x times the part of a normal distribution below x, or the well-known approximation of that
 * by tanh, which is x * sigmoid(2 u) with u = sqrt(2 / pi) (x + 0.044715 x^3). */

enum gelu_approximate { GELU_NONE, GELU_TANH };
static const char *const gelu_choices[] = { "none", "tanh", NULL };

struct gelu_options {
	uint32_t approximate;
};

static const struct tw_option gelu_rows[] = {
	TW_OPTION_CHOICE(struct gelu_options, approximate, "approximate", "none", gelu_choices,
			 "none: the exact normal distribution; tanh: the older approximation"),
	TW_OPTION_END,
};

static const struct tw_op_sample gelu_samples[] = {
	{ "", { 1, { 37 } } },
	{ "", { 3, { 16, 3, 5 } } },
	{ "approximate tanh", { 1, { 19 } } },
	{ "approximate none", { 3, { 3, 4, 1 } } },
	{ "", { 2, { 5, 3 } } },
	{ NULL },
};

#define GELU_LINEAR 1.59576912f               /* 2 sqrt(2 / pi) */
#define GELU_CUBIC  (1.59576912f * 0.044715f) /* times x^2 */
#define GELU_LIMIT  16.0f                     /* beyond it the sigmoid is 0 or 1 */

TW_CLONED_STATIC(void, gelu, (float *y, const float *x, size_t n), (y, x, n))
{
	APART
	for (size_t i = 0; i < n; i++) {
		float below, density;

		approx_normal(x[i], &below, &density);
		y[i] = x[i] * below;
	}
}

TW_CLONED_STATIC(void, gelu_back, (float *dx, const float *dy, const float *x, size_t n),
		 (dx, dy, x, n))
{
	APART
	for (size_t i = 0; i < n; i++) {
		float below, density;

		approx_normal(x[i], &below, &density);
		dx[i] = dy[i] * fmaf(x[i], density, below);
	}
}

TW_CLONED_STATIC(void, gelu_tanh, (float *y, const float *x, size_t n), (y, x, n))
{
	APART
	for (size_t i = 0; i < n; i++) {
		const float v = approx_at_most(approx_at_least(x[i], -GELU_LIMIT), GELU_LIMIT);

		y[i] = x[i] * approx_sigmoid(v * fmaf(GELU_CUBIC, v * v, GELU_LINEAR));
	}
}

TW_CLONED_STATIC(void, gelu_tanh_back, (float *dx, const float *dy, const float *x, size_t n),
		 (dx, dy, x, n))
{
	APART
	for (size_t i = 0; i < n; i++) {
		const float v = approx_at_most(approx_at_least(x[i], -GELU_LIMIT), GELU_LIMIT);
		const float s = approx_sigmoid(v * fmaf(GELU_CUBIC, v * v, GELU_LINEAR));
		const float rise = v * fmaf(3 * GELU_CUBIC, v * v, GELU_LINEAR);

		dx[i] = dy[i] * fmaf(rise, s * (1.0f - s), s);
	}
}

static bool by_tanh(const struct tw_op_site *site)
{
	return ((const struct gelu_options *)site->options)->approximate == GELU_TANH;
}

static enum tw_status gelu_forward(const struct tw_op_site *site, const void *kernel,
				   const struct tw_op_run *run)
{
	(by_tanh(site) ? gelu_tanh : gelu)(run->out, run->in[0], values(site));
	return TW_OK;
}

static enum tw_status gelu_backward(const struct tw_op_site *site, const void *kernel,
				    const struct tw_op_run *run)
{
	if (run->in_gradient[0])
		(by_tanh(site) ? gelu_tanh_back : gelu_back)(run->in_gradient[0], run->out_gradient,
							     run->in[0], values(site));
	return TW_OK;
}

static void gelu_reference(const struct tw_op_site *site, const struct tw_op_batch *batch,
			   const double *const *in, const double *const *parameter, double *out)
{
	for (size_t i = 0; i < values(site); i++) {
		const double x = in[0][i], u = sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);

		out[i] = x * (by_tanh(site) ? 0.5 * (1 + tanh(u)) : 0.5 * erfc(-x * M_SQRT1_2));
	}
}

static void gelu_c(const struct tw_op_site *site, FILE *out)
{
	fputs(by_tanh(site) ? TW_OP_C_EACH
		      "0.5f * x[i] * (1 + tanhf(0.797884561f * (x[i] + 0.044715f * x[i] * x[i] "
		      "* x[i])));\n"
			    : TW_OP_C_EACH "0.5f * x[i] * erfcf(-0.707106781f * x[i]);\n",
	      out);
}

static void gelu_torch(const void *options, const struct tw_shape *in, char text[TW_TORCH_ROOM])
{
	const struct gelu_options *o = options;

	snprintf(text, TW_TORCH_ROOM, "nn.GELU(%s)",
		 o->approximate == GELU_TANH ? "approximate=\"tanh\"" : "");
}

static const struct tw_op gelu_op = {
	.name = "gelu",
	.help = "x times the probability that a normal variable is below x",
	.traits = TW_OP_READS_IN | TW_OP_BACK_IN_PLACE | TW_OP_FOLLOWS_LAYOUT | TW_OP_BY_POSITION,
	.ins = 1,
	.options = gelu_rows,
	.options_bytes = sizeof(struct gelu_options),
	.samples = gelu_samples,
	.form = smooth_form,
	.forward = gelu_forward,
	.backward = gelu_backward,
	.reference = gelu_reference,
	.torch = gelu_torch,
	.c = gelu_c,
};

static const struct tw_op *const ops[] = { &relu_op,    &leaky_op, &tanh_op,
					   &sigmoid_op, &gelu_op,  NULL };
const struct tw_op_family tw_op_family_activation = { ops };
