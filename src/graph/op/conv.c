/* SPDX-License-Identifier: Apache-2.0 */
/* conv.c - convolution: one set of filters slides over the planes of a sample.
 *
 * Weights are PyTorch's: filter, channel of the group, row, column; bias per filter.  oneDNN's
 * kernels want weights in their own order, so they are reordered in each pass (microseconds).
 *
 * Scratch: scratchpad of the primitives, then weights as the pass wants them. */
#include "graph/conv.h"
#include "graph/layouts.h"
#include "graph/op.h"
#include "graph/op/window.h"
#include "vec/vec.h"

#include <string.h>

static const struct tw_option conv_options[] = {
	TW_OPTION(struct tw_conv_options, filters, TW_U32, NULL, "channels", 1, 65536,
		  "channels of the output"),
	TW_OPTION(struct tw_conv_options, size, TW_EXTENT, NULL, "pixels", 1, 255,
		  "height and width of a filter"),
	TW_OPTION(struct tw_conv_options, stride, TW_EXTENT, "1", "pixels", 1, 255,
		  "pixels from one position of the filter to the next"),
	TW_OPTION(struct tw_conv_options, pad, TW_EXTENT, "0", "pixels", 0, 254,
		  "zeros put around each plane"),
	TW_OPTION(struct tw_conv_options, groups, TW_U32, "1", "groups", 1, 65536,
		  "number of independent groups of channels"),
	TW_OPTION(struct tw_conv_options, bias, TW_BOOL, "true", NULL, 0, 0,
		  "add one trained value per filter"),
	TW_OPTION_END
};

struct conv_kernel {
	uint32_t forward, weights;     /* primitives */
	uint32_t order, plain;         /* reorders of weights; TW_KIT_NONE where none */
	size_t forward_at, weights_at; /* in scratch, behind the scratchpad */
	bool unfolds;                  /* `by_product` instead of `weights` and `plain` */
	struct tw_conv_weights by_product;
	struct tw_conv_data data;
};

static struct tw_window window_of(const struct tw_conv_options *o)
{
	return (struct tw_window){ o->size, o->stride, o->pad };
}

static enum tw_status form(const void *options, const struct tw_shape *in, struct tw_op_form *f,
			   struct tw_error *why)
{
	const struct tw_conv_options *o = options;
	const struct tw_window w = window_of(o);
	const enum tw_status st = tw_window_slide(&w, in, o->filters, &f->out, why);
	const uint64_t taps = (uint64_t)o->size.h * o->size.w;

	if (st != TW_OK)
		return st;
	if (in->d[0] % o->groups || o->filters % o->groups)
		return tw_fail(why, TW_BAD_INPUT,
			       "%" PRIu32 " groups do not divide %" PRIu32 " channels and %" PRIu32
			       " filters",
			       o->groups, in->d[0], o->filters);
	if (in->d[0] / o->groups * taps > INT32_MAX || o->filters * taps > INT32_MAX)
		return tw_fail(why, TW_BAD_INPUT, "a filter of that size has too many weights");
	f->parameter[0] = (struct tw_op_parameter){
		.name = "weight",
		.rank = 4,
		.d = { o->filters, in->d[0] / o->groups, o->size.h, o->size.w },
		.fan_in = (uint32_t)(in->d[0] / o->groups * taps),
		.fan_out = (uint32_t)(o->filters * taps),
	};
	f->parameter[1] =
		(struct tw_op_parameter){ .name = "bias", .rank = 1, .d = { o->filters } };
	f->parameters = o->bias ? 2 : 1;
	f->products = 2.0 * (double)tw_shape_size(&f->out) * f->parameter[0].fan_in;
	f->flops = f->products + (o->bias ? (double)tw_shape_size(&f->out) : 0);
	return TW_OK;
}

static void layout(struct tw_op_site *site)
{
	const struct tw_conv_options *o = site->options;

	tw_layout_conv(site->in[0].d[0], o->filters, o->groups, &site->in_layout[0],
		       &site->out_layout);
}

static enum tw_status describe(const struct tw_op_site *site, struct tw_conv_shapes *s)
{
	const struct tw_conv_options *o = site->options;
	const uint32_t g = o->groups;
	const uint32_t c = site->in[0].d[0];
	const dnnl_dims_t grouped = { g, o->filters / g, c / g, o->size.h, o->size.w };
	const dnnl_dims_t single = { o->filters, c, o->size.h, o->size.w };
	const dnnl_dims_t bias = { o->filters };
	/* one channel: PLAIN and LAST are the same bytes, and only LAST has quick kernels */
	const enum tw_layout in = c == 1 ? site->out_layout : site->in_layout[0];
	enum tw_status st = tw_onednn_describe(&site->in[0], site->batch, (int)in, &s->in);

	if (st == TW_OK)
		st = tw_onednn_describe(&site->out, site->batch, (int)site->out_layout, &s->out);
	if (st == TW_OK)
		st = tw_onednn_status(dnnl_memory_desc_init_by_tag(
			&s->plain, g > 1 ? 5 : 4, g > 1 ? grouped : single, dnnl_f32,
			g > 1 ? dnnl_goihw : dnnl_oihw));
	if (st == TW_OK)
		st = tw_onednn_status(dnnl_memory_desc_init_by_tag(
			&s->any, s->plain.ndims, s->plain.dims, dnnl_f32, dnnl_format_tag_any));
	if (st == TW_OK)
		st = tw_onednn_status(
			dnnl_memory_desc_init_by_tag(&s->bias, 1, bias, dnnl_f32, dnnl_a));
	s->stride[0] = o->stride.h, s->stride[1] = o->stride.w;
	s->pad[0] = o->pad.h, s->pad[1] = o->pad.w;
	return st;
}

static enum tw_status forward_desc(const struct tw_op_site *site, const struct tw_onednn *kit,
				   const struct tw_conv_shapes *s, dnnl_primitive_desc_t *out)
{
	const struct tw_conv_options *o = site->options;
	dnnl_convolution_desc_t d;
	enum tw_status st = tw_onednn_status(dnnl_convolution_forward_desc_init(
		&d, site->train ? dnnl_forward_training : dnnl_forward_inference,
		dnnl_convolution_direct, &s->in, &s->any, o->bias ? &s->bias : NULL, &s->out,
		s->stride, s->pad, s->pad));

	if (st == TW_OK)
		st = tw_onednn_status(dnnl_primitive_desc_create(out, &d, tw_onednn_attr(kit),
								 tw_onednn_engine(kit), NULL));
	return st;
}

/* oneDNN 2.6's 1x1 kernel for AVX2 adds up pixels that it passes over, if it passes over any and
 * the input's channels do not fill its registers. */
static bool is_wrong(const struct tw_op_site *site, const_dnnl_primitive_desc_t pd)
{
	const struct tw_conv_options *o = site->options;
	const char *name = "";

	if ((o->stride.h == 1 && o->stride.w == 1) || site->in[0].d[0] % 8 == 0)
		return false;
	return dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name) == dnnl_success &&
	       strcmp(name, "jit_1x1:avx2") == 0;
}

static enum tw_status weights_desc(const struct tw_op_site *site, const struct tw_onednn *kit,
				   const struct tw_conv_shapes *s, const_dnnl_primitive_desc_t hint,
				   dnnl_primitive_desc_t *out)
{
	const struct tw_conv_options *o = site->options;
	dnnl_primitive_desc_iterator_t each;
	dnnl_convolution_desc_t d;
	enum tw_status st = tw_onednn_status(dnnl_convolution_backward_weights_desc_init(
		&d, dnnl_convolution_direct, &s->in, &s->any, o->bias ? &s->bias : NULL, &s->out,
		s->stride, s->pad, s->pad));

	if (st == TW_OK)
		st = tw_onednn_status(dnnl_primitive_desc_iterator_create(
			&each, &d, tw_onednn_attr(kit), tw_onednn_engine(kit), hint));
	if (st != TW_OK)
		return st;
	*out = dnnl_primitive_desc_iterator_fetch(each);
	while (*out && is_wrong(site, *out)) {
		dnnl_primitive_desc_destroy(*out);
		*out = dnnl_primitive_desc_iterator_next(each) == dnnl_success
			       ? dnnl_primitive_desc_iterator_fetch(each)
			       : NULL;
	}
	dnnl_primitive_desc_iterator_destroy(each);
	return *out ? TW_OK : tw_onednn_status(dnnl_unimplemented);
}

static enum tw_status add_forward(const struct tw_op_site *site, struct tw_onednn *kit,
				  const struct tw_conv_shapes *s, dnnl_primitive_desc_t pd,
				  struct conv_kernel *k, dnnl_memory_desc_t *ordered,
				  struct tw_op_memory *need)
{
	static const int arg[] = { DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_BIAS };
	const struct tw_conv_options *o = site->options;
	enum tw_status st;

	*ordered = *dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
	st = tw_onednn_add(kit, pd, arg, o->bias ? 4 : 3, &k->forward, &need->forward);
	return st == TW_OK ? tw_onednn_reorder(kit, &s->plain, ordered, &k->order, &need->forward)
			   : st;
}

static enum tw_status add_weights(const struct tw_op_site *site, struct tw_onednn *kit,
				  const struct tw_conv_shapes *s, dnnl_primitive_desc_t pd,
				  struct conv_kernel *k, size_t *bytes, size_t *scratch)
{
	static const int arg[] = { DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS,
				   DNNL_ARG_DIFF_BIAS };
	const struct tw_conv_options *o = site->options;
	const dnnl_memory_desc_t md =
		*dnnl_primitive_desc_query_md(pd, dnnl_query_diff_weights_md, 0);
	enum tw_status st = tw_onednn_add(kit, pd, arg, o->bias ? 4 : 3, &k->weights, scratch);

	*bytes = dnnl_memory_desc_get_size(&md);
	return st == TW_OK ? tw_onednn_reorder(kit, &md, &s->plain, &k->plain, scratch) : st;
}

static enum tw_status prepare_weights(const struct tw_op_site *site, struct tw_onednn *kit,
				      const struct tw_conv_shapes *s,
				      const_dnnl_primitive_desc_t hint, struct conv_kernel *k,
				      size_t *scratch)
{
	dnnl_primitive_desc_t pd;
	size_t changes = 0, pad = 0;
	enum tw_status st;

	k->unfolds = tw_conv_unfolds(site);
	if (k->unfolds)
		return tw_conv_weights_prepare(site, kit, s, &k->by_product, scratch);
	st = weights_desc(site, kit, s, hint, &pd);
	if (st == TW_OK)
		st = add_weights(site, kit, s, pd, k, &changes, &pad);
	k->weights_at = tw_op_aligned(pad);
	*scratch = k->weights_at + (k->plain == TW_KIT_NONE ? 0 : changes);
	return st;
}

static enum tw_status prepare_backward(const struct tw_op_site *site, struct tw_onednn *kit,
				       const struct tw_conv_shapes *s,
				       const_dnnl_primitive_desc_t hint, struct conv_kernel *k,
				       size_t *bytes)
{
	size_t scratch = 0, data = 0;
	enum tw_status st = site->frozen ? TW_OK : prepare_weights(site, kit, s, hint, k, &scratch);

	if (st == TW_OK && site->wants[0])
		st = tw_conv_data_prepare(site, kit, s, hint, &k->data, &data);
	*bytes = scratch > data ? scratch : data; /* one after the other */
	return st;
}

static enum tw_status prepare(const struct tw_op_site *site, struct tw_onednn *kit, void *kernel,
			      struct tw_op_memory *need)
{
	struct conv_kernel *k = kernel;
	dnnl_primitive_desc_t pd = NULL;
	dnnl_primitive_desc_t hint = NULL;
	dnnl_memory_desc_t ordered;
	struct tw_conv_shapes s;
	enum tw_status st = describe(site, &s);

	if (st == TW_OK)
		st = forward_desc(site, kit, &s, &hint);
	if (st == TW_OK)
		st = tw_onednn_status(dnnl_primitive_desc_clone(&pd, hint));
	if (st == TW_OK)
		st = add_forward(site, kit, &s, pd, k, &ordered, need);
	if (st == TW_OK && site->train)
		st = prepare_backward(site, kit, &s, hint, k, &need->backward);
	if (hint)
		dnnl_primitive_desc_destroy(hint);
	if (st != TW_OK)
		return st;
	k->forward_at = tw_op_aligned(need->forward);
	if (k->order != TW_KIT_NONE)
		need->forward = k->forward_at + dnnl_memory_desc_get_size(&ordered);
	return TW_OK;
}

static enum tw_status forward(const struct tw_op_site *site, const void *kernel,
			      const struct tw_op_run *run)
{
	const struct conv_kernel *k = kernel;
	void *data[] = { (void *)run->in[0], (void *)run->parameter[0], run->out,
			 (void *)run->parameter[1] };
	enum tw_status st = TW_OK;

	if (k->order != TW_KIT_NONE) {
		void *move[] = { data[1], (char *)run->scratch + k->forward_at };

		st = tw_hand_run(run->hand, k->order, move, run->scratch);
		data[1] = move[1];
	}
	if (st == TW_OK)
		st = tw_hand_run(run->hand, k->forward, data, run->scratch);
	if (st == TW_OK && site->relu) /* not oneDNN's: that makes 0 of NaN, unnoticed */
		tw_vec_relu(run->out, site->batch * tw_shape_size(&site->out));
	return st;
}

static enum tw_status run_weights(const struct conv_kernel *k, const struct tw_op_run *run)
{
	void *const at = (char *)run->scratch + k->weights_at;
	void *data[] = { (void *)run->in[0], (void *)run->out_gradient,
			 k->plain == TW_KIT_NONE ? (void *)run->change[0] : at, run->change[1] };
	void *move[] = { at, run->change[0] };
	const enum tw_status st = tw_hand_run(run->hand, k->weights, data, run->scratch);

	return st == TW_OK && k->plain != TW_KIT_NONE
		       ? tw_hand_run(run->hand, k->plain, move, run->scratch)
		       : st;
}

static enum tw_status backward(const struct tw_op_site *site, const void *kernel,
			       const struct tw_op_run *run)
{
	const struct conv_kernel *k = kernel;
	const enum tw_status st = site->frozen ? TW_OK
				  : k->unfolds ? tw_conv_weights_run(site, &k->by_product, run)
					       : run_weights(k, run);

	return st == TW_OK && site->wants[0] ? tw_conv_data_run(site, &k->data, run) : st;
}

/* One value of the output: sample b, filter f, row y, column x. */
static double place(const struct tw_op_site *site, const double *in, const double *weight,
		    uint32_t f, size_t y, size_t x)
{
	const struct tw_conv_options *o = site->options;
	const size_t h = site->in[0].d[1], w = site->in[0].d[2];
	const size_t channels = site->in[0].d[0] / o->groups;
	const size_t first = f / (o->filters / o->groups) * channels;
	double sum = 0;
	size_t r0, r1, q0, q1;

	tw_window_taps(y, o->size.h, o->stride.h, o->pad.h, h, &r0, &r1);
	tw_window_taps(x, o->size.w, o->stride.w, o->pad.w, w, &q0, &q1);
	for (size_t c = 0; c < channels; c++)
		for (size_t r = r0; r < r1; r++)
			for (size_t q = q0; q < q1; q++)
				sum += in[((first + c) * h + y * o->stride.h + r - o->pad.h) * w +
					  x * o->stride.w + q - o->pad.w] *
				       weight[((f * channels + c) * o->size.h + r) * o->size.w + q];
	return sum;
}

static void reference(const struct tw_op_site *site, const struct tw_op_batch *batch,
		      const double *const *in, const double *const *parameter, double *out)
{
	const struct tw_conv_options *o = site->options;
	const size_t each = tw_shape_size(&site->in[0]);

	for (size_t b = 0; b < site->batch; b++)
		for (uint32_t f = 0; f < o->filters; f++)
			for (size_t y = 0; y < site->out.d[1]; y++)
				for (size_t x = 0; x < site->out.d[2]; x++) {
					double v = place(site, in[0] + b * each, parameter[0], f, y,
							 x);

					if (o->bias)
						v += parameter[1][f];
					*out++ = site->relu && v < 0 ? 0 : v;
				}
}

static const struct tw_op_sample samples[] = {
	{ "3 3x3", { 3, { 1, 5, 6 } }, 0 },
	{ "20 5x5", { 3, { 1, 9, 8 } }, 2 },
	{ "5 3x2 stride 2x1 pad 1", { 3, { 3, 7, 5 } }, 0 },
	{ "16 3 pad 1", { 3, { 3, 5, 4 } }, 2 },
	{ "16 3 pad 1 bias false", { 3, { 16, 4, 4 } }, 2 },
	{ "32 3 pad 1 stride 2", { 3, { 16, 6, 5 } }, 1 },
	{ "7 5x5", { 3, { 6, 8, 7 } }, 3 },
	{ "18 1x1 stride 2", { 3, { 9, 5, 5 } }, 2 },
	{ "3 1x1 stride 2", { 3, { 1, 6, 6 } }, 2 },
	{ "8 1x1 stride 2x1", { 3, { 4, 6, 6 } }, 2 },
	{ "6 3 pad 1 groups 2", { 3, { 4, 5, 4 } }, 0 },
	{ "32 3 pad 1 groups 2", { 3, { 32, 3, 4 } }, 1 },
	{ "16 3 pad 1 groups 16", { 3, { 16, 5, 4 } }, 2 },
	{ "5 3 groups 5 stride 2", { 3, { 5, 7, 5 } }, 2 },
	{ "10 2 groups 5", { 3, { 5, 4, 5 } }, 2 },
	{ "32 3 pad 1", { 3, { 32, 3, 2 } }, 2 },
	{ "35 3x5 pad 1x2", { 3, { 32, 2, 3 } }, 1 },
	{ "33 3 pad 1", { 3, { 18, 3, 2 } }, 2 },
	{ "32 2x5 pad 0x2", { 3, { 3, 3, 4 } }, 2 },
	{ "4 3x1 pad 2x0", { 3, { 2, 4, 3 } }, 2 },
	{ "32 3 pad 2 bias false", { 3, { 5, 3, 2 } }, 10 }, /* unfolded in several steps */
	{ NULL },
};

static void c(const struct tw_op_site *site, FILE *out)
{
	const struct tw_conv_options *o = site->options;
	const struct tw_window w = window_of(o);

	tw_window_c(&w, out);
	fprintf(out, "\tenum { G = %u, EACH = C / G };\n\n", o->groups);
	tw_window_c_loops("0", "EACH", o->bias ? "p1[f]" : "0",
			  "sum += (double)x[((f / (MC / G) * EACH + c) * H + h) * W + w] *\n"
			  "\t\t\t\t\tp0[((f * EACH + c) * KH + a) * KW + b]",
			  "sum", out);
}

static void torch(const void *options, const struct tw_shape *in, char text[TW_TORCH_ROOM])
{
	const struct tw_conv_options *o = options;

	snprintf(text, TW_TORCH_ROOM,
		 "nn.Conv2d(%u, %u, (%u, %u), stride=(%u, %u), padding=(%u, %u), groups=%u%s)",
		 in->d[0], o->filters, o->size.h, o->size.w, o->stride.h, o->stride.w, o->pad.h,
		 o->pad.w, o->groups, o->bias ? "" : ", bias=False");
}

static const struct tw_op conv = {
	.name = "conv",
	.help = "filters that slide over the planes: conv 20 5x5 stride 1 pad 2",
	.traits = TW_OP_READS_IN | TW_OP_TAKES_RELU,
	.ins = 1,
	.options = conv_options,
	.positional = 2,
	.options_bytes = sizeof(struct tw_conv_options),
	.kernel_bytes = sizeof(struct conv_kernel),
	.samples = samples,
	.form = form,
	.layout = layout,
	.prepare = prepare,
	.forward = forward,
	.backward = backward,
	.reference = reference,
	.torch = torch,
	.c = c,
};

const struct tw_op_family tw_op_family_conv = { (const struct tw_op *const[]){ &conv, NULL } };
