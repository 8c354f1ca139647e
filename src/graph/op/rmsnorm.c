/* SPDX-License-Identifier: Apache-2.0 */
/* rmsnorm.c - all values of a sample, or of each position of a sequence, divided by the root of
 * their mean square, then scaled one by one.
 *
 * What is normalised together is a line; the weight has a line's size.  Saved: 1 / root of each
 * line.  Scratch of backward: two lines. */
#include "graph/op.h"
#include "graph/op/norm.h"

struct rmsnorm_options {
	float epsilon;
};

static const struct tw_option rows[] = {
	TW_OPTION(struct rmsnorm_options, epsilon, TW_F32, "1e-5", NULL, 1e-12, 1,
		  "added to the mean square"),
	TW_OPTION_END,
};

static double epsilon_of(const struct tw_op_site *site)
{
	return (double)((const struct rmsnorm_options *)site->options)->epsilon;
}

static enum tw_status form(const void *options, const struct tw_shape *in, struct tw_op_form *f,
			   struct tw_error *why)
{
	*f = (struct tw_op_form){ .out = *in,
				  .parameters = 1,
				  .flops = 5.0 * (double)tw_shape_size(in) };
	f->parameter[0] = (struct tw_op_parameter){
		.name = "weight", .rank = 1, .d = { tw_shape_width(in) }, .fill = 1
	};
	return TW_OK;
}

static enum tw_status prepare(const struct tw_op_site *site, struct tw_onednn *kit, void *kernel,
			      struct tw_op_memory *need)
{
	if (site->train) {
		need->saved = tw_op_lines(site) * sizeof(float);
		need->backward = 2 * (size_t)tw_shape_width(&site->in[0]) * sizeof(float);
	}
	return TW_OK;
}

TW_CLONED_STATIC(void, scaled,
		 (float *restrict y, const float *restrict x, float inverse,
		  const float *restrict weight, size_t n),
		 (y, x, inverse, weight, n))
{
	for (size_t i = 0; i < n; i++)
		y[i] = x[i] * inverse * weight[i];
}

static enum tw_status forward(const struct tw_op_site *site, const void *kernel,
			      const struct tw_op_run *run)
{
	const size_t n = tw_shape_width(&site->in[0]), lines = tw_op_lines(site);
	float *saved = run->saved;

	for (size_t b = 0; b < lines; b++) {
		const float *x = run->in[0] + b * n;
		const double square = tw_vec_square(x, n) / (double)n;
		const float inverse = (float)(1 / sqrt(square + epsilon_of(site)));

		scaled(run->out + b * n, x, inverse, run->parameter[0], n);
		if (site->train)
			saved[b] = inverse;
	}
	return TW_OK;
}

/* What one line gives to the weight's gradient, which may be NULL; unit and weighted are kept. */
TW_CLONED_STATIC(void, split,
		 (const float *restrict x, const float *restrict dy, const float *restrict weight,
		  float inverse, size_t n, float *restrict dweight, float *restrict unit,
		  float *restrict weighted),
		 (x, dy, weight, inverse, n, dweight, unit, weighted))
{
	for (size_t i = 0; i < n; i++) {
		unit[i] = x[i] * inverse;
		weighted[i] = dy[i] * weight[i];
	}
	for (size_t i = 0; dweight && i < n; i++)
		dweight[i] += dy[i] * unit[i];
}

static enum tw_status backward(const struct tw_op_site *site, const void *kernel,
			       const struct tw_op_run *run)
{
	const size_t n = tw_shape_width(&site->in[0]), lines = tw_op_lines(site);
	float *dweight = site->frozen ? NULL : run->change[0];
	float *unit = run->scratch, *weighted = unit + n;
	const float *saved = run->saved;

	if (dweight)
		tw_vec_fill(dweight, 0, n);
	for (size_t b = 0; b < lines; b++) {
		split(run->in[0] + b * n, run->out_gradient + b * n, run->parameter[0], saved[b], n,
		      dweight, unit, weighted);
		if (site->wants[0])
			tw_norm_slope(unit, weighted, saved[b], 0,
				      (float)(tw_vec_dot(weighted, unit, n) / (double)n), n,
				      run->in_gradient[0] + b * n);
	}
	return TW_OK;
}

static void reference(const struct tw_op_site *site, const struct tw_op_batch *batch,
		      const double *const *in, const double *const *parameter, double *out)
{
	const size_t n = tw_shape_width(&site->in[0]);

	for (size_t b = 0; b < tw_op_lines(site); b++) {
		const double *x = in[0] + b * n;
		double square = 0;

		for (size_t i = 0; i < n; i++)
			square += x[i] * x[i] / (double)n;
		for (size_t i = 0; i < n; i++)
			out[b * n + i] = x[i] / sqrt(square + epsilon_of(site)) * parameter[0][i];
	}
}

static const struct tw_op_sample samples[] = {
	{ "", { 1, { 7 } } },
	{ "epsilon 0.01", { 3, { 3, 2, 5 } } },
	{ "", { 2, { 5, 33 } } },
	{ NULL },
};

static void c(const struct tw_op_site *site, FILE *out)
{
	fprintf(out,
		"\tenum { L = %s };\n\n"
		"\tfor (int t = 0; t < N; t += L) {\n"
		"\t\tdouble square = 0;\n\n"
		"\t\tfor (int i = 0; i < L; i++)\n"
		"\t\t\tsquare += (double)x[t + i] * x[t + i] / L;\n"
		"\t\tfor (int i = 0; i < L; i++)\n"
		"\t\t\ty[t + i] = (float)(x[t + i] / sqrt(square + %.9g)) * p0[i];\n"
		"\t}\n",
		site->in[0].rank == 2 ? "H" : "N", epsilon_of(site));
}

static void torch(const void *options, const struct tw_shape *in, char text[TW_TORCH_ROOM])
{
	const struct rmsnorm_options *o = options;

	snprintf(text, TW_TORCH_ROOM, "RMSNorm(%u, %.9g, %u)", tw_shape_width(in),
		 (double)o->epsilon, in->rank == 3 ? 3u : 1u);
}

static const struct tw_op rmsnorm_op = {
	.name = "rmsnorm",
	.help = "divides the values of a sample or a position by the root of their mean square",
	.traits = TW_OP_READS_IN | TW_OP_BACK_IN_PLACE | TW_OP_BY_POSITION,
	.ins = 1,
	.options = rows,
	.options_bytes = sizeof(struct rmsnorm_options),
	.samples = samples,
	.form = form,
	.prepare = prepare,
	.forward = forward,
	.backward = backward,
	.reference = reference,
	.torch = torch,
	.c = c,
	.torch_class =
		"class RMSNorm(nn.Module):\n"
		"    def __init__(self, width, eps, sizes):\n"
		"        super().__init__()\n"
		"        self.eps = eps\n"
		"        self.sizes = sizes\n"
		"        self.weight = nn.Parameter(torch.ones(width))\n"
		"\n"
		"    def forward(self, x):\n"
		"        y = x.flatten(-self.sizes)\n"
		"        square = y.pow(2).mean(-1, keepdim=True)\n"
		"        return (y * torch.rsqrt(square + self.eps) * self.weight).view_as(x)\n",
};

static const struct tw_op *const ops[] = { &rmsnorm_op, NULL };
const struct tw_op_family tw_op_family_rmsnorm = { ops };
