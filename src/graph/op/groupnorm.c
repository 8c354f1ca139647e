/* SPDX-License-Identifier: Apache-2.0 */
/* groupnorm.c - the channels of a sample in groups, each to mean 0 and variance 1, then every
 * channel scaled and moved (Wu and He 2018).  A sample does not depend on its batch.
 *
 * Saved: mean and 1 / deviation of each group of each sample.
 * Scratch of backward: two groups of floats, and two doubles for each channel. */
#include "graph/op.h"
#include "graph/op/norm.h"
#include "vec/clone.h"
#include "vec/vec.h"

#include <math.h>
#include <string.h>

struct groupnorm_options {
	uint32_t groups;
	float epsilon;
};

static const struct tw_option rows[] = {
	TW_OPTION(struct groupnorm_options, groups, TW_U32, NULL, "groups", 1, 1u << 20,
		  "into how many groups the channels are divided", .example = "8"),
	TW_OPTION(struct groupnorm_options, epsilon, TW_F32, "1e-5", NULL, 1e-12, 1,
		  "added to the variance"),
	TW_OPTION_END,
};

/* A sample: `groups` groups of `each` channels of `pixels` values. */
struct sizes {
	size_t groups, each, pixels, n; /* n: values of a group */
};

static struct sizes sizes_of(const struct tw_op_site *site)
{
	const struct groupnorm_options *o = site->options;
	const struct tw_shape *in = &site->in[0];
	const size_t pixels = tw_shape_size(in) / in->d[0], each = in->d[0] / o->groups;

	return (struct sizes){ o->groups, each, pixels, each * pixels };
}

static enum tw_status form(const void *options, const struct tw_shape *in, struct tw_op_form *f,
			   struct tw_error *why)
{
	const struct groupnorm_options *o = options;

	if (in->d[0] % o->groups)
		return tw_fail(why, TW_BAD_INPUT, "%u %s cannot be divided into %u equal groups",
			       in->d[0], in->rank == 1 ? "values" : "channels", o->groups);
	f->out = *in;
	for (uint32_t k = 0; k < 2; k++)
		f->parameter[k] = (struct tw_op_parameter){
			.name = k ? "bias" : "weight",
			.rank = 1,
			.d = { in->d[0] },
			.fill = k ? 0 : 1,
		};
	f->parameters = 2;
	f->flops = 7.0 * (double)tw_shape_size(in);
	return TW_OK;
}

static enum tw_status prepare(const struct tw_op_site *site, struct tw_onednn *kit, void *kernel,
			      struct tw_op_memory *need)
{
	const struct sizes z = sizes_of(site);

	if (site->train) {
		need->saved = 2 * site->batch * z.groups * sizeof(float);
		need->backward = 2 * z.groups * z.each * sizeof(double) + 2 * z.n * sizeof(float);
	}
	return TW_OK;
}

TW_CLONED_STATIC(void, scale_move,
		 (float *restrict y, float inverse, const float *restrict weight,
		  const float *restrict bias, size_t channels, size_t pixels),
		 (y, inverse, weight, bias, channels, pixels))
{
	if (pixels == 1) {
		for (size_t c = 0; c < channels; c++)
			y[c] = y[c] * inverse * weight[c] + bias[c];
		return;
	}
	for (size_t c = 0; c < channels; c++) {
		const float w = weight[c], b = bias[c];

		for (size_t i = 0; i < pixels; i++)
			y[c * pixels + i] = y[c * pixels + i] * inverse * w + b;
	}
}

static enum tw_status forward(const struct tw_op_site *site, const void *kernel,
			      const struct tw_op_run *run)
{
	const struct groupnorm_options *o = site->options;
	const struct sizes z = sizes_of(site);
	float *saved = run->saved;

	for (size_t k = 0; k < site->batch * z.groups; k++) {
		const size_t c = k % z.groups * z.each;
		const float *x = run->in[0] + k * z.n;
		float *y = run->out + k * z.n;
		float place[2];

		tw_norm_center(x, z.n, o->epsilon, y, place);
		scale_move(y, place[1], run->parameter[0] + c, run->parameter[1] + c, z.each,
			   z.pixels);
		if (site->train)
			memcpy(saved + 2 * k, place, sizeof place);
	}
	return TW_OK;
}

/* The group to mean 0 and variance 1, and the gradient times its channel's weight. */
TW_CLONED_STATIC(void, group_parts,
		 (const float *restrict x, const float *restrict dy, const float *restrict weight,
		  const float *restrict place, size_t channels, size_t pixels, float *restrict unit,
		  float *restrict weighted),
		 (x, dy, weight, place, channels, pixels, unit, weighted))
{
	const float mean = place[0], inverse = place[1];

	for (size_t i = 0; i < channels * pixels; i++)
		unit[i] = (x[i] - mean) * inverse;
	if (pixels == 1) {
		for (size_t c = 0; c < channels; c++)
			weighted[c] = dy[c] * weight[c];
		return;
	}
	for (size_t c = 0; c < channels; c++) {
		const float w = weight[c];

		for (size_t i = 0; i < pixels; i++)
			weighted[c * pixels + i] = dy[c * pixels + i] * w;
	}
}

/* What the group gives to the gradients of its channels' weights and biases. */
static void add_channels(const struct sizes *z, const float *dy, const float *unit, double *dweight,
			 double *dbias)
{
	for (size_t c = 0; c < z->each; c++) {
		const size_t at = c * z->pixels;

		dweight[c] += z->pixels == 1 ? (double)dy[at] * (double)unit[at]
					     : tw_vec_dot(dy + at, unit + at, z->pixels);
		dbias[c] += z->pixels == 1 ? (double)dy[at] : tw_vec_sum(dy + at, z->pixels);
	}
}

static enum tw_status backward(const struct tw_op_site *site, const void *kernel,
			       const struct tw_op_run *run)
{
	const struct sizes z = sizes_of(site);
	const size_t channels = z.groups * z.each;
	const float *saved = run->saved;
	double *dweight = run->scratch, *dbias = dweight + channels;
	float *unit = (float *)(dbias + channels), *weighted = unit + z.n;

	memset(dweight, 0, 2 * channels * sizeof *dweight);
	for (size_t k = 0; k < site->batch * z.groups; k++) {
		const size_t c = k % z.groups * z.each;
		const float *dy = run->out_gradient + k * z.n;

		group_parts(run->in[0] + k * z.n, dy, run->parameter[0] + c, saved + 2 * k, z.each,
			    z.pixels, unit, weighted);
		if (!site->frozen)
			add_channels(&z, dy, unit, dweight + c, dbias + c);
		if (site->wants[0])
			tw_norm_back(unit, weighted, saved[2 * k + 1], z.n,
				     run->in_gradient[0] + k * z.n);
	}
	for (size_t c = 0; c < channels && !site->frozen; c++) {
		run->change[0][c] = (float)dweight[c];
		run->change[1][c] = (float)dbias[c];
	}
	return TW_OK;
}

static void reference(const struct tw_op_site *site, const struct tw_op_batch *batch,
		      const double *const *in, const double *const *parameter, double *out)
{
	const struct groupnorm_options *o = site->options;
	const struct sizes z = sizes_of(site);

	for (size_t k = 0; k < site->batch * z.groups; k++) {
		const double *x = in[0] + k * z.n;
		double mean = 0, var = 0;

		for (size_t i = 0; i < z.n; i++)
			mean += x[i] / (double)z.n;
		for (size_t i = 0; i < z.n; i++)
			var += (x[i] - mean) * (x[i] - mean) / (double)z.n;
		for (size_t i = 0; i < z.n; i++) {
			const size_t c = k % z.groups * z.each + i / z.pixels;

			out[k * z.n + i] =
				(x[i] - mean) / sqrt(var + (double)o->epsilon) * parameter[0][c] +
				parameter[1][c];
		}
	}
}

static const struct tw_op_sample samples[] = {
	{ "1", { 1, { 7 } } },          { "3", { 1, { 33 } } },
	{ "3", { 3, { 3, 2, 5 } } },    { "4 epsilon 0.01", { 3, { 16, 3, 2 } } },
	{ "2", { 3, { 4, 5, 7 } }, 3 }, { NULL },
};

static void c(const struct tw_op_site *site, FILE *out)
{
	const struct groupnorm_options *o = site->options;
	const struct sizes z = sizes_of(site);

	fprintf(out,
		"\tfor (int g = 0; g < %zu; g++) {\n"
		"\t\tconst float *const v = x + g * %zu;\n"
		"\t\tdouble mean = 0, var = 0;\n\n"
		"\t\tfor (int i = 0; i < %zu; i++)\n"
		"\t\t\tmean += (double)v[i] / %zu;\n"
		"\t\tfor (int i = 0; i < %zu; i++)\n"
		"\t\t\tvar += (v[i] - mean) * (v[i] - mean) / %zu;\n"
		"\t\tfor (int i = 0; i < %zu; i++) {\n"
		"\t\t\tconst int c = g * %zu + i / (H * W);\n\n"
		"\t\t\ty[g * %zu + i] = (float)((v[i] - mean) / sqrt(var + %.9g)) * p0[c] + "
		"p1[c];\n"
		"\t\t}\n\t}\n",
		z.groups, z.n, z.n, z.n, z.n, z.n, z.n, z.each, z.n, (double)o->epsilon);
}

static void torch(const void *options, const struct tw_shape *in, char text[TW_TORCH_ROOM])
{
	const struct groupnorm_options *o = options;

	snprintf(text, TW_TORCH_ROOM, "nn.GroupNorm(%u, %u, eps=%.9g)", o->groups, in->d[0],
		 (double)o->epsilon);
}

static const struct tw_op groupnorm = {
	.name = "groupnorm",
	.elsewhere = (const char *const[]){ "gn", NULL },
	.help = "makes mean 0 and variance 1 of groups of channels, then scales and shifts "
		"channels",
	.traits = TW_OP_READS_IN | TW_OP_BACK_IN_PLACE,
	.ins = 1,
	.options = rows,
	.positional = 1,
	.options_bytes = sizeof(struct groupnorm_options),
	.samples = samples,
	.form = form,
	.prepare = prepare,
	.forward = forward,
	.backward = backward,
	.reference = reference,
	.torch = torch,
	.c = c,
};

const struct tw_op_family tw_op_family_groupnorm = {
	(const struct tw_op *const[]){ &groupnorm, NULL },
};
