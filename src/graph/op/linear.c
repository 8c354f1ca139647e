/* SPDX-License-Identifier: Apache-2.0 */
/* linear.c - y = x w^T + b, of a sequence position by position.
 *
 * Weights stay as the vector has them, [out][in]: packing them again for every fetch costs more
 * than packed products save (measured for the layers of the examples).  Forward is oneDNN's matmul,
 * which was quickest there, with some rows of the weights at a time (tw_linear_rows); linear_back.c
 * has the backward products.  GFLOP/s of one core of an AMD EPYC (family 25, model 17) by rows and
 * at once, batch x in -> out:
 *
 *                      AVX2, limited    AVX-512
 *  128 x 784 -> 2048   98     103       94     91
 *  128 x 2048 -> 2048  94     93        100    94
 *  64 x 8192 -> 8192   83     75        92     91
 *
 * With AVX-512, products whose rows do not lie together are slower (70 to 86), so those of some
 * rows are made beside the output, and the pass that adds the bias moves them.
 *
 * Scratch of forward: scratchpad, rows of the weights that do not lie in one piece, their
 * products. */
#include "graph/linear_back.h"
#include "graph/op/product.h"
#include "vec/clone.h"
#include "vec/vec.h"

struct linear_options {
	uint32_t outputs;
	bool bias, tied;
};

static const struct tw_option linear_rows[] = {
	TW_OPTION(struct linear_options, outputs, TW_U32, NULL, NULL, 1, 16777216,
		  "number of output features"),
	TW_OPTION(struct linear_options, bias, TW_BOOL, "true", NULL, 0, 0,
		  "add one trained value to each output"),
	TW_OPTION(struct linear_options, tied, TW_BOOL, "false", NULL, 0, 0,
		  "its weight is the embedding that the network begins with; needs bias false"),
	TW_OPTION_END,
};

struct linear_kernel {
	uint32_t forward, rest; /* primitives: for some rows of the weights, and the last ones */
	size_t rows_at, products_at; /* in scratch */
	struct tw_linear_back back;
};

static enum tw_status linear_form(const void *options, const struct tw_shape *in,
				  struct tw_op_form *form, struct tw_error *why)
{
	const struct linear_options *o = options;
	const uint32_t n = tw_shape_width(in), positions = tw_shape_positions(in);
	char text[40];

	if (in[0].rank == 3)
		return tw_fail(why, TW_BAD_INPUT, "needs features, not %s: put flatten before it",
			       tw_shape_text(&in[0], text));
	if (o->tied && (o->bias || in->rank != 2))
		return tw_fail(
			why, TW_BAD_INPUT,
			o->bias ? "is tied to an embedding, which has no bias; write bias false"
				: "is tied to an embedding, so it needs a sequence, not %s",
			tw_shape_text(in, text));
	*form = (struct tw_op_form){
		.out = { .rank = in->rank, .d = { in->rank == 2 ? positions : o->outputs } },
		.parameters = o->bias ? 2 : 1,
		.products = 2.0 * n * o->outputs * positions,
		.flops = (2.0 * n + (o->bias ? 1 : 0)) * o->outputs * positions,
	};
	form->out.d[in->rank - 1] = o->outputs;
	form->parameter[0] = (struct tw_op_parameter){ .name = "weight",
						       .rank = 2,
						       .d = { o->outputs, n },
						       .fan_in = n,
						       .fan_out = o->outputs,
						       .tied = o->tied };
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

/* y = p + bias, and ReLU; `wide` values lie between the lines of y.  p may be y, bias NULL.  Not
 * oneDNN's: that makes 0 of NaN, and a run gone wrong would not be noticed; its sums for the bias's
 * gradient are slow. */
TW_CLONED_STATIC(void, biased,
		 (float *y, const float *p, const float *restrict bias, size_t lines, size_t n,
		  size_t wide, bool relu),
		 (y, p, bias, lines, n, wide, relu))
{
	for (size_t r = 0; r < lines; r++, y += wide, p += n)
		_Pragma("GCC ivdep") for (size_t i = 0; i < n; i++)
		{
			const float v = bias ? p[i] + bias[i] : p[i];

			y[i] = relu && v < 0 ? 0 : v;
		}
}

/* The product with so many rows of the weights. */
static enum tw_status some_rows(const struct tw_op_site *site, struct tw_onednn *kit, uint32_t rows,
				uint32_t *id, size_t *pad)
{
	static const int arg[] = { DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST };
	const uint32_t in = tw_shape_width(&site->in[0]);
	const dnnl_memory_desc_t x = matrix(tw_op_lines(site), in, dnnl_ab);
	const dnnl_memory_desc_t w = matrix(in, rows, dnnl_ba);
	const dnnl_memory_desc_t y = matrix(tw_op_lines(site), rows, dnnl_ab);
	dnnl_primitive_desc_t pd;
	const enum tw_status st = tw_onednn_product(kit, &x, &w, &y, false, &pd);

	return st == TW_OK ? tw_onednn_add(kit, pd, arg, 3, id, pad) : st;
}

static enum tw_status make_forward(const struct tw_op_site *site, struct tw_onednn *kit,
				   struct linear_kernel *l, size_t *scratch)
{
	const uint32_t in = tw_shape_width(&site->in[0]), out = tw_shape_width(&site->out),
		       rows = tw_linear_rows(site);
	size_t pad = 0;
	enum tw_status st = some_rows(site, kit, rows, &l->forward, &pad);

	if (st == TW_OK && out % rows)
		st = some_rows(site, kit, out % rows, &l->rest, &pad);
	l->rows_at = tw_op_aligned(pad);
	l->products_at = l->rows_at + tw_op_aligned((size_t)rows * in * sizeof(float));
	*scratch = l->products_at +
		   (rows < out ? (size_t)tw_op_lines(site) * rows * sizeof(float) : 0);
	return st;
}

static enum tw_status linear_prepare(const struct tw_op_site *site, struct tw_onednn *kit,
				     void *kernel, struct tw_op_memory *need)
{
	struct linear_kernel *l = kernel;
	const enum tw_status st = make_forward(site, kit, l, &need->forward);

	if (st != TW_OK || !site->train)
		return st;
	return tw_linear_back_prepare(site, kit, &l->back, &need->backward);
}

static enum tw_status linear_forward(const struct tw_op_site *site, const void *kernel,
				     const struct tw_op_run *run)
{
	const struct linear_kernel *l = kernel;
	const size_t in = tw_shape_width(&site->in[0]), out = tw_shape_width(&site->out),
		     rows = tw_linear_rows(site);
	const float *bias = with_bias(site) ? run->parameter[1] : NULL;
	float *room = (float *)((char *)run->scratch + l->rows_at);
	float *y = rows < out ? (float *)((char *)run->scratch + l->products_at) : run->out;
	enum tw_status st = TW_OK;

	for (size_t r = 0; r < out && st == TW_OK; r += rows) {
		const size_t n = out - r < rows ? out - r : rows;
		void *const data[] = {
			tw_product_source(run->in[0]),
			tw_product_source(tw_op_values(run, 0, r * in, n * in, room)), y
		};

		st = tw_hand_run(run->hand, n < rows ? l->rest : l->forward, data, run->scratch);
		if (st == TW_OK && (bias || site->relu || y != run->out))
			biased(run->out + r, y, bias ? bias + r : NULL, tw_op_lines(site), n, out,
			       site->relu);
	}
	return st;
}

static enum tw_status linear_backward(const struct tw_op_site *site, const void *kernel,
				      const struct tw_op_run *run)
{
	const struct linear_kernel *l = kernel;

	if (with_bias(site) && !site->frozen)
		tw_vec_sum_rows(run->change[1], run->out_gradient, tw_op_lines(site),
				tw_shape_width(&site->out));
	return tw_linear_back_run(site, &l->back, run);
}

static void linear_reference(const struct tw_op_site *site, const struct tw_op_batch *batch,
			     const double *const *in, const double *const *parameter, double *out)
{
	const size_t n = tw_shape_width(&site->in[0]), m = tw_shape_width(&site->out);

	for (size_t b = 0; b < tw_op_lines(site); b++)
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
	/* more rows than are multiplied at a time, with some left */
	{ "66", { 1, { 16400 } }, 1 },
	/* every position of a sequence alike */
	{ "9", { 2, { 5, 7 } } },
	{ "6 bias false", { 2, { 3, 512 } } },
	{ "11 bias false tied true", { 2, { 3, 5 } } },
	{ NULL },
};

static void linear_c(const struct tw_op_site *site, FILE *out)
{
	const bool lines = site->in[0].rank == 2;

	fprintf(out,
		"%s\tfor (int o = 0; o < %s; o++) {\n"
		"\t\tdouble sum = %s;\n\n"
		"\t\tfor (int i = 0; i < %s; i++)\n"
		"\t\t\tsum += (double)x[%si] * p0[o * %s + i];\n"
		"\t\ty[%so] = (float)sum;\n"
		"\t}\n",
		lines ? "\tfor (int t = 0; t < C; t++)\n" : "", lines ? "MH" : "M",
		with_bias(site) ? "p1[o]" : "0", lines ? "H" : "N", lines ? "t * H + " : "",
		lines ? "H" : "N", lines ? "t * MH + " : "");
}

static void linear_torch(const void *options, const struct tw_shape *in, char text[TW_TORCH_ROOM])
{
	const struct linear_options *o = options;

	snprintf(text, TW_TORCH_ROOM, o->tied ? "Tied()" : "nn.Linear(%u, %u%s)",
		 tw_shape_width(in), o->outputs, o->bias ? "" : ", bias=False");
}

static const struct tw_op linear_op = {
	.name = "linear",
	.elsewhere = (const char *const[]){ "dense", "fc", "fully-connected", NULL },
	.help = "every output is a weighted sum of all inputs",
	.traits = TW_OP_READS_IN | TW_OP_TAKES_RELU | TW_OP_WANTS_FEATURES | TW_OP_TAKES_PIECES |
		  TW_OP_BY_POSITION,
	.ins = 1,
	.options = linear_rows,
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
	.torch_tied = "class Tied(nn.Module):  # its weight is that of another module\n"
		      "    def forward(self, x):\n"
		      "        return x @ self.to[0].weight.t()\n",
	.c = linear_c,
};

static const struct tw_op *const ops[] = { &linear_op, NULL };
const struct tw_op_family tw_op_family_linear = { ops };
