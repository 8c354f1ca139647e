/* SPDX-License-Identifier: Apache-2.0 */
/* layernorm.c - all values of a sample to mean 0 and variance 1, then scaled and moved one by one;
 * of a sequence those of each position.
 *
 * What is normalised together is a line.  Weight and bias have a line's shape.  Saved: mean and
 * 1 / deviation of each line.  Scratch of backward: two lines. */
#include "graph/op.h"
#include "graph/op/norm.h"
#include "vec/clone.h"
#include "vec/vec.h"

#include <math.h>
#include <string.h>

struct layernorm_options {
	float epsilon;
};

static const struct tw_option layernorm_options[] = { TW_OPTION(struct layernorm_options, epsilon,
								TW_F32, "1e-5", NULL, 1e-12, 1,
								"added to the variance"),
						      TW_OPTION_END };

static enum tw_status form(const void *options, const struct tw_shape *in, struct tw_op_form *f,
			   struct tw_error *why)
{
	const uint32_t leading = in->rank == 2; /* sizes that are not of a line */

	f->out = *in;
	for (uint32_t k = 0; k < 2; k++) {
		f->parameter[k] = (struct tw_op_parameter){
			.name = k ? "bias" : "weight",
			.rank = in->rank - leading,
			.fill = k ? 0 : 1,
		};
		for (uint32_t i = leading; i < in->rank; i++)
			f->parameter[k].d[i - leading] = in->d[i];
	}
	f->parameters = 2;
	f->flops = 7.0 * (double)tw_shape_size(in);
	return TW_OK;
}

static enum tw_status prepare(const struct tw_op_site *site, struct tw_onednn *kit, void *kernel,
			      struct tw_op_memory *need)
{
	if (site->train) {
		need->saved = 2 * (size_t)tw_op_lines(site) * sizeof(float);
		need->backward = 2 * (size_t)tw_shape_width(&site->in[0]) * sizeof(float);
	}
	return TW_OK;
}

TW_CLONED_STATIC(void, scale_move,
		 (float *restrict y, float inverse, const float *restrict weight,
		  const float *restrict bias, size_t n),
		 (y, inverse, weight, bias, n))
{
	for (size_t i = 0; i < n; i++)
		y[i] = y[i] * inverse * weight[i] + bias[i];
}

static enum tw_status forward(const struct tw_op_site *site, const void *kernel,
			      const struct tw_op_run *run)
{
	const struct layernorm_options *o = site->options;
	const size_t n = tw_shape_width(&site->in[0]);
	float *saved = run->saved;

	for (size_t b = 0; b < tw_op_lines(site); b++) {
		const float *x = run->in[0] + b * n;
		float *y = run->out + b * n;
		float place[2];

		tw_norm_center(x, n, o->epsilon, y, place);
		scale_move(y, place[1], run->parameter[0], run->parameter[1], n);
		if (site->train)
			memcpy(saved + 2 * b, place, sizeof place);
	}
	return TW_OK;
}

/* What one line gives to the parameters' gradients; unit and weighted are kept for dx. */
TW_CLONED_STATIC(void, add_line,
		 (const float *restrict x, const float *restrict dy, const float *restrict weight,
		  const float *restrict place, size_t n, float *restrict dweight,
		  float *restrict dbias, float *restrict unit, float *restrict weighted),
		 (x, dy, weight, place, n, dweight, dbias, unit, weighted))
{
	const float mean = place[0], inverse = place[1];

	for (size_t i = 0; i < n; i++) {
		unit[i] = (x[i] - mean) * inverse;
		weighted[i] = dy[i] * weight[i];
		dweight[i] += dy[i] * unit[i];
		dbias[i] += dy[i];
	}
}

/* The same where the parameters are frozen. */
TW_CLONED_STATIC(void, split_line,
		 (const float *restrict x, const float *restrict dy, const float *restrict weight,
		  const float *restrict place, size_t n, float *restrict unit,
		  float *restrict weighted),
		 (x, dy, weight, place, n, unit, weighted))
{
	const float mean = place[0], inverse = place[1];

	for (size_t i = 0; i < n; i++) {
		unit[i] = (x[i] - mean) * inverse;
		weighted[i] = dy[i] * weight[i];
	}
}

static enum tw_status backward(const struct tw_op_site *site, const void *kernel,
			       const struct tw_op_run *run)
{
	const size_t n = tw_shape_width(&site->in[0]);
	const float *saved = run->saved;
	float *unit = run->scratch, *weighted = unit + n;

	if (!site->frozen) {
		memset(run->change[0], 0, n * sizeof(float));
		memset(run->change[1], 0, n * sizeof(float));
	}
	for (size_t b = 0; b < tw_op_lines(site); b++) {
		const float *x = run->in[0] + b * n, *dy = run->out_gradient + b * n;

		if (site->frozen)
			split_line(x, dy, run->parameter[0], saved + 2 * b, n, unit, weighted);
		else
			add_line(x, dy, run->parameter[0], saved + 2 * b, n, run->change[0],
				 run->change[1], unit, weighted);
		if (site->wants[0])
			tw_norm_back(unit, weighted, saved[2 * b + 1], n,
				     run->in_gradient[0] + b * n);
	}
	return TW_OK;
}

static void reference(const struct tw_op_site *site, const struct tw_op_batch *batch,
		      const double *const *in, const double *const *parameter, double *out)
{
	const struct layernorm_options *o = site->options;
	const size_t n = tw_shape_width(&site->in[0]);

	for (size_t b = 0; b < tw_op_lines(site); b++) {
		const double *x = in[0] + b * n;
		double mean = 0, var = 0;

		for (size_t i = 0; i < n; i++)
			mean += x[i] / (double)n;
		for (size_t i = 0; i < n; i++)
			var += (x[i] - mean) * (x[i] - mean) / (double)n;
		for (size_t i = 0; i < n; i++)
			out[b * n + i] =
				(x[i] - mean) / sqrt(var + (double)o->epsilon) * parameter[0][i] +
				parameter[1][i];
	}
}

static const struct tw_op_sample samples[] = {
	{ "", { 1, { 7 } } },    { "", { 1, { 33 } } },   { "epsilon 0.01", { 3, { 3, 2, 5 } } },
	{ "", { 1, { 2 } }, 3 }, { "", { 2, { 3, 9 } } }, { NULL },
};

static void c(const struct tw_op_site *site, FILE *out)
{
	const struct layernorm_options *o = site->options;

	fprintf(out,
		"\tenum { L = %s };\n\n"
		"\tfor (int t = 0; t < N; t += L) {\n"
		"\t\tdouble mean = 0, var = 0;\n\n"
		"\t\tfor (int i = 0; i < L; i++)\n"
		"\t\t\tmean += (double)x[t + i] / L;\n"
		"\t\tfor (int i = 0; i < L; i++)\n"
		"\t\t\tvar += (x[t + i] - mean) * (x[t + i] - mean) / L;\n"
		"\t\tfor (int i = 0; i < L; i++)\n"
		"\t\t\ty[t + i] = (float)((x[t + i] - mean) / sqrt(var + %.9g)) * p0[i] + "
		"p1[i];\n"
		"\t}\n",
		site->in[0].rank == 2 ? "H" : "N", (double)o->epsilon);
}

static void torch(const void *options, const struct tw_shape *in, char text[TW_TORCH_ROOM])
{
	const struct layernorm_options *o = options;

	if (in->rank != 3)
		snprintf(text, TW_TORCH_ROOM, "nn.LayerNorm(%u, eps=%.9g)", tw_shape_width(in),
			 (double)o->epsilon);
	else
		snprintf(text, TW_TORCH_ROOM, "nn.LayerNorm([%u, %u, %u], eps=%.9g)", in->d[0],
			 in->d[1], in->d[2], (double)o->epsilon);
}

static const struct tw_op layernorm = {
	.name = "layernorm",
	.elsewhere = (const char *const[]){ "ln", NULL },
	.help = "normalises the values of a sample or a position to mean 0 and variance 1, and "
		"scales them",
	.traits = TW_OP_READS_IN | TW_OP_BACK_IN_PLACE | TW_OP_BY_POSITION,
	.ins = 1,
	.options = layernorm_options,
	.options_bytes = sizeof(struct layernorm_options),
	.samples = samples,
	.form = form,
	.prepare = prepare,
	.forward = forward,
	.backward = backward,
	.reference = reference,
	.torch = torch,
	.c = c,
};

const struct tw_op_family tw_op_family_layernorm = {
	(const struct tw_op *const[]){ &layernorm, NULL },
};
