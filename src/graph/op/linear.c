/* SPDX-License-Identifier: Apache-2.0 */
/* linear.c - y = x w^T + b.
 *
 * Weights stay as the vector has them, [out][in]: packing them again for every fetch costs more
 * than packed products save (measured for the layers of the examples).  Forward is oneDNN's matmul,
 * which was quickest there; linear_back.c has the backward products. */
#include "graph/linear_back.h"
#include "vec/vec.h"
#include "vec/clone.h"

struct linear_options {
	uint32_t outputs;
	bool bias;
};

static const struct tw_option rows[] = {
	TW_OPTION(struct linear_options, outputs, TW_U32, NULL, NULL, 1, 16777216,
		  "number of output features"),
	TW_OPTION(struct linear_options, bias, TW_BOOL, "true", NULL, 0, 0,
		  "add one trained value to each output"),
	TW_OPTION_END,
};

struct linear_kernel {
	uint32_t forward; /* primitive */
	struct tw_linear_back back;
};

static enum tw_status linear_form(const void *options, const struct tw_shape *in,
				  struct tw_op_form *form, struct tw_error *why)
{
	const struct linear_options *o = options;
	const uint32_t n = in[0].d[0];
	char text[40];

	if (in[0].rank != 1)
		return tw_fail(why, TW_BAD_INPUT, "needs features, not %s: put flatten before it",
			       tw_shape_text(&in[0], text));
	*form = (struct tw_op_form){
		.out = { .rank = 1, .d = { o->outputs } },
		.parameters = o->bias ? 2 : 1,
		.products = 2.0 * n * o->outputs,
		.flops = 2.0 * n * o->outputs + (o->bias ? o->outputs : 0),
	};
	form->parameter[0] = (struct tw_op_parameter){ .name = "weight",
						       .rank = 2,
						       .d = { o->outputs, n },
						       .fan_in = n,
						       .fan_out = o->outputs };
	form->parameter[1] =
		(struct tw_op_parameter){ .name = "bias", .rank = 1, .d = { o->outputs } };
	return TW_OK;
}

static bool with_bias(const struct tw_op_site *site)
{
	return ((const struct linear_options *)site->options)->bias;
}

static dnnl_memory_desc_t matrix(uint32_t n, uint32_t m, dnnl_format_tag_t tag)
{
	const dnnl_dims_t d = { n, m };
	dnnl_memory_desc_t md;

	dnnl_memory_desc_init_by_tag(&md, tag == dnnl_a ? 1 : 2, d, dnnl_f32, tag);
	return md;
}

/* y + bias, and ReLU.  Not oneDNN's: that makes 0 of NaN, and a run gone wrong would not be
 * noticed; its sums for the bias's gradient are slow. */
TW_CLONED_STATIC(void, biased,
		 (float *restrict y, const float *restrict bias, size_t lines, size_t n, bool relu),
		 (y, bias, lines, n, relu))
{
	for (size_t r = 0; r < lines; r++, y += n)
		for (size_t i = 0; i < n; i++) {
			const float v = y[i] + bias[i];

			y[i] = relu && v < 0 ? 0 : v;
		}
}

TW_CLONED_STATIC(void, column_sums,
		 (float *restrict out, const float *restrict g, size_t lines, size_t n),
		 (out, g, lines, n))
{
	for (size_t i = 0; i < n; i++)
		out[i] = g[i];
	for (size_t r = 1; r < lines; r++)
		for (size_t i = 0; i < n; i++)
			out[i] += g[r * n + i];
}

static enum tw_status make_forward(const struct tw_op_site *site, struct tw_onednn *kit,
				   struct linear_kernel *l, struct tw_op_memory *need)
{
	static const int arg[] = { DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST };
	const uint32_t in = site->in[0].d[0], out = site->out.d[0];
	const dnnl_memory_desc_t x = matrix(site->batch, in, dnnl_ab), w = matrix(in, out, dnnl_ba);
	const dnnl_memory_desc_t y = matrix(site->batch, out, dnnl_ab);
	dnnl_primitive_desc_t pd;
	const enum tw_status st = tw_onednn_product(kit, &x, &w, &y, false, &pd);

	return st == TW_OK ? tw_onednn_add(kit, pd, arg, 3, &l->forward, &need->forward) : st;
}

static enum tw_status linear_prepare(const struct tw_op_site *site, struct tw_onednn *kit,
				     void *kernel, struct tw_op_memory *need)
{
	struct linear_kernel *l = kernel;
	const enum tw_status st = make_forward(site, kit, l, need);

	if (st != TW_OK || !site->train)
		return st;
	return tw_linear_back_prepare(site, kit, &l->back, &need->backward);
}

static void *changed(const float *p)
{
	return (void *)(uintptr_t)p; /* oneDNN's handles know no const; sources are only read */
}

static enum tw_status linear_forward(const struct tw_op_site *site, const void *kernel,
				     const struct tw_op_run *run)
{
	const struct linear_kernel *l = kernel;
	const size_t lines = site->batch, n = site->out.d[0];
	void *const data[] = { changed(run->in[0]), changed(run->parameter[0]), run->out };
	const enum tw_status st = tw_hand_run(run->hand, l->forward, data, run->scratch);

	if (st == TW_OK && with_bias(site))
		biased(run->out, run->parameter[1], lines, n, site->relu);
	else if (st == TW_OK && site->relu)
		tw_vec_relu(run->out, lines * n);
	return st;
}

static enum tw_status linear_backward(const struct tw_op_site *site, const void *kernel,
				      const struct tw_op_run *run)
{
	const struct linear_kernel *l = kernel;

	if (with_bias(site))
		column_sums(run->change[1], run->out_gradient, site->batch, site->out.d[0]);
	return tw_linear_back_run(site, &l->back, run);
}

static void linear_reference(const struct tw_op_site *site, const struct tw_op_batch *batch,
			     const double *const *in, const double *const *parameter, double *out)
{
	const size_t n = site->in[0].d[0], m = site->out.d[0];

	for (size_t b = 0; b < site->batch; b++)
		for (size_t o = 0; o < m; o++) {
			double sum = with_bias(site) ? parameter[1][o] : 0;

			for (size_t i = 0; i < n; i++)
				sum += in[0][b * n + i] * parameter[0][o * n + i];
			out[b * m + o] = site->relu && sum < 0 ? 0 : sum;
		}
}

static const struct tw_op_sample samples[] = {
	{ "5", { 1, { 7 } } },
	{ "1", { 1, { 1 } } },
	{ "33 bias false", { 1, { 17 } } },
	{ "outputs 16", { 1, { 64 } } },
	/* rows that are copied for some instruction sets, in one piece and in three */
	{ "7", { 1, { 512 } } },
	{ "600", { 1, { 512 } } },
	{ NULL },
};

static void linear_torch(const void *options, const struct tw_shape *in, char text[TW_TORCH_ROOM])
{
	const struct linear_options *o = options;

	snprintf(text, TW_TORCH_ROOM, "nn.Linear(%zu, %u%s)", tw_shape_size(in), o->outputs,
		 o->bias ? "" : ", bias=False");
}

static const struct tw_op linear_op = {
	.name = "linear",
	.elsewhere = (const char *const[]){ "dense", "fc", "fully-connected", NULL },
	.help = "every output is a weighted sum of all inputs",
	.traits = TW_OP_READS_IN | TW_OP_TAKES_RELU | TW_OP_WANTS_FEATURES,
	.ins = 1,
	.options = rows,
	.positional = 1,
	.options_bytes = sizeof(struct linear_options),
	.kernel_bytes = sizeof(struct linear_kernel),
	.samples = samples,
	.form = linear_form,
	.prepare = linear_prepare,
	.forward = linear_forward,
	.backward = linear_backward,
	.reference = linear_reference,
	.torch = linear_torch,
};

static const struct tw_op *const ops[] = { &linear_op, NULL };
const struct tw_op_family tw_op_family_linear = { ops };
