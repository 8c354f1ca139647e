/* SPDX-License-Identifier: Apache-2.0 */
/* combine.c - add: the sum of two layers (a residual's end); scale: times a constant. */
#include "graph/op.h"
#include "vec/clone.h"
#include "vec/vec.h"

#define APART _Pragma("GCC ivdep")

static size_t values(const struct tw_op_site *site)
{
	return site->batch * tw_shape_size(&site->in[0]);
}

/* add */

TW_CLONED_STATIC(void, sum, (float *out, const float *x, const float *y, size_t n), (out, x, y, n))
{
	APART
	for (size_t i = 0; i < n; i++)
		out[i] = x[i] + y[i];
}

TW_CLONED_STATIC(void, sum_relu, (float *out, const float *x, const float *y, size_t n),
		 (out, x, y, n))
{
	APART
	for (size_t i = 0; i < n; i++) {
		const float v = x[i] + y[i];

		out[i] = v < 0 ? 0 : v;
	}
}

static enum tw_status add_form(const void *options, const struct tw_shape *in,
			       struct tw_op_form *form, struct tw_error *why)
{
	char first[40], second[40];

	if (!tw_shape_same(&in[0], &in[1]))
		return tw_fail(why, TW_BAD_INPUT, "needs two inputs of one shape, not %s and %s",
			       tw_shape_text(&in[0], first), tw_shape_text(&in[1], second));
	*form = (struct tw_op_form){ .out = in[0], .flops = (double)tw_shape_size(&in[0]) };
	return TW_OK;
}

static enum tw_status add_forward(const struct tw_op_site *site, const void *kernel,
				  const struct tw_op_run *run)
{
	(site->relu ? sum_relu : sum)(run->out, run->in[0], run->in[1], values(site));
	return TW_OK;
}

static void add_reference(const struct tw_op_site *site, const struct tw_op_batch *batch,
			  const double *const *in, const double *const *parameter, double *out)
{
	for (size_t i = 0; i < values(site); i++)
		out[i] = in[0][i] + in[1][i];
}

static void add_c(const struct tw_op_site *site, FILE *out)
{
	fputs(TW_OP_C_EACH "x[i] + z[i];\n", out);
}

static const struct tw_op_sample add_samples[] = {
	{ "", { 1, { 17 } } },
	{ "", { 3, { 3, 5, 3 } } },
	{ "", { 3, { 32, 3, 1 } } },
	{ "", { 2, { 3, 4 } } },
	{ NULL },
};

/* No `backward`: both gradients are the output's, see TW_OP_ADDS. */
static const struct tw_op add_op = {
	.name = "add",
	.help = "the sum of two layers of one shape",
	.traits = TW_OP_ADDS | TW_OP_IN_PLACE | TW_OP_FOLLOWS_LAYOUT | TW_OP_TAKES_RELU |
		  TW_OP_BY_POSITION,
	.ins = 2,
	.samples = add_samples,
	.form = add_form,
	.forward = add_forward,
	.reference = add_reference,
	.c = add_c,
};

/* scale */

struct scale_options {
	float by;
};

static const struct tw_option scale_rows[] = {
	TW_OPTION(struct scale_options, by, TW_F32, NULL, NULL, -1e6, 1e6, "factor of every value"),
	TW_OPTION_END,
};

static float by_of(const struct tw_op_site *site)
{
	return ((const struct scale_options *)site->options)->by;
}

static enum tw_status scale_form(const void *options, const struct tw_shape *in,
				 struct tw_op_form *form, struct tw_error *why)
{
	*form = (struct tw_op_form){ .out = in[0], .flops = (double)tw_shape_size(&in[0]) };
	return TW_OK;
}

static enum tw_status scale_forward(const struct tw_op_site *site, const void *kernel,
				    const struct tw_op_run *run)
{
	tw_vec_scale_to(run->out, by_of(site), run->in[0], values(site));
	return TW_OK;
}

static enum tw_status scale_backward(const struct tw_op_site *site, const void *kernel,
				     const struct tw_op_run *run)
{
	if (run->in_gradient[0])
		tw_vec_scale_to(run->in_gradient[0], by_of(site), run->out_gradient, values(site));
	return TW_OK;
}

static void scale_reference(const struct tw_op_site *site, const struct tw_op_batch *batch,
			    const double *const *in, const double *const *parameter, double *out)
{
	for (size_t i = 0; i < values(site); i++)
		out[i] = (double)by_of(site) * in[0][i];
}

static const struct tw_op_sample scale_samples[] = {
	{ "0.5", { 1, { 5 } } },
	{ "by -3", { 3, { 3, 1, 7 } } },
	{ "0.1", { 3, { 16, 3, 3 } } },
	{ "0", { 1, { 1 } } },
	{ NULL },
};

static void scale_c(const struct tw_op_site *site, FILE *out)
{
	fprintf(out, TW_OP_C_EACH "(float)%.9g * x[i];\n", (double)by_of(site));
}

static void scale_torch(const void *options, const struct tw_shape *in, char text[TW_TORCH_ROOM])
{
	const struct scale_options *o = options;

	snprintf(text, TW_TORCH_ROOM, "Scale(%.9g)", (double)o->by);
}

static const struct tw_op scale_op = {
	.name = "scale",
	.help = "multiplies by a constant",
	.traits = TW_OP_IN_PLACE | TW_OP_BACK_IN_PLACE | TW_OP_FOLLOWS_LAYOUT | TW_OP_BY_POSITION,
	.ins = 1,
	.options = scale_rows,
	.positional = 1,
	.options_bytes = sizeof(struct scale_options),
	.samples = scale_samples,
	.form = scale_form,
	.forward = scale_forward,
	.backward = scale_backward,
	.reference = scale_reference,
	.torch = scale_torch,
	.c = scale_c,
	.torch_class = "class Scale(nn.Module):\n"
		       "    def __init__(self, by):\n"
		       "        super().__init__()\n"
		       "        self.by = by\n"
		       "\n"
		       "    def forward(self, x):\n"
		       "        return x * self.by\n",
};

static const struct tw_op *const ops[] = { &add_op, &scale_op, NULL };
const struct tw_op_family tw_op_family_combine = { ops };
