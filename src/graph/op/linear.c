/* SPDX-License-Identifier: Apache-2.0 */
/* linear.c - y = x w^T + b.
 *
 * Weights stay as the vector has them, [out][in]: packing them anew for every fetch costs more than
 * packed products save (measured for the layers of the examples).  Forward is oneDNN's matmul,
 * which was quickest there; both backward products are its inner product, whose weight gradient
 * brings that of the bias along. */
#include "graph/op.h"
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
	uint32_t forward, data, weights; /* primitives */
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
	const enum tw_status st = tw_onednn_product(kit, &x, &w, &y, &pd);

	return st == TW_OK ? tw_onednn_add(kit, pd, arg, 3, &l->forward, &need->forward) : st;
}

/* What oneDNN wants to see before it makes a backward inner product. */
struct hint {
	dnnl_memory_desc_t x, w, y;
	dnnl_primitive_desc_t forward;
};

static dnnl_status_t make_hint(const struct tw_op_site *site, struct tw_onednn *kit, struct hint *h)
{
	const uint32_t in = site->in[0].d[0], out = site->out.d[0];
	dnnl_inner_product_desc_t d;
	dnnl_status_t st;

	h->x = matrix(site->batch, in, dnnl_ab);
	h->w = matrix(out, in, dnnl_ab);
	h->y = matrix(site->batch, out, dnnl_ab);
	st = dnnl_inner_product_forward_desc_init(&d, dnnl_forward_training, &h->x, &h->w, NULL,
						  &h->y);
	if (st != dnnl_success)
		return st;
	return dnnl_primitive_desc_create(&h->forward, &d, tw_onednn_attr(kit),
					  tw_onednn_engine(kit), NULL);
}

static enum tw_status make_weights(const struct tw_op_site *site, struct tw_onednn *kit,
				   const struct hint *h, struct linear_kernel *l,
				   struct tw_op_memory *need)
{
	static const int arg[] = { DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS };
	dnnl_inner_product_desc_t d;
	dnnl_primitive_desc_t pd;
	dnnl_status_t st =
		dnnl_inner_product_backward_weights_desc_init(&d, &h->x, &h->w, NULL, &h->y);

	if (st == dnnl_success)
		st = dnnl_primitive_desc_create(&pd, &d, tw_onednn_attr(kit), tw_onednn_engine(kit),
						h->forward);
	if (st != dnnl_success)
		return tw_onednn_status(st);
	return tw_onednn_add(kit, pd, arg, 3, &l->weights, &need->backward);
}

static enum tw_status make_data(struct tw_onednn *kit, const struct hint *h,
				struct linear_kernel *l, struct tw_op_memory *need)
{
	static const int arg[] = { DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC };
	dnnl_inner_product_desc_t d;
	dnnl_primitive_desc_t pd;
	dnnl_status_t st = dnnl_inner_product_backward_data_desc_init(&d, &h->x, &h->w, &h->y);

	if (st == dnnl_success)
		st = dnnl_primitive_desc_create(&pd, &d, tw_onednn_attr(kit), tw_onednn_engine(kit),
						h->forward);
	if (st != dnnl_success)
		return tw_onednn_status(st);
	return tw_onednn_add(kit, pd, arg, 3, &l->data, &need->backward);
}

static enum tw_status linear_prepare(const struct tw_op_site *site, struct tw_onednn *kit,
				     void *kernel, struct tw_op_memory *need)
{
	struct linear_kernel *l = kernel;
	enum tw_status st = make_forward(site, kit, l, need);
	struct hint h = { 0 };

	if (st != TW_OK || !site->train)
		return st;
	st = tw_onednn_status(make_hint(site, kit, &h));
	if (st != TW_OK)
		return st;
	st = make_weights(site, kit, &h, l, need);
	if (st == TW_OK && site->wants[0])
		st = make_data(kit, &h, l, need);
	dnnl_primitive_desc_destroy(h.forward);
	return st;
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
	void *const dy = changed(run->out_gradient);
	void *const weights[] = { changed(run->in[0]), dy, run->change[0] };
	void *const data[] = { dy, changed(run->parameter[0]), run->in_gradient[0] };
	enum tw_status st = tw_hand_run(run->hand, l->weights, weights, run->scratch);

	if (st == TW_OK && with_bias(site))
		column_sums(run->change[1], run->out_gradient, site->batch, site->out.d[0]);
	if (st == TW_OK && run->in_gradient[0])
		st = tw_hand_run(run->hand, l->data, data, run->scratch);
	return st;
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
