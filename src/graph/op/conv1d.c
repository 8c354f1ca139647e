/* SPDX-License-Identifier: Apache-2.0 */
/* conv1d.c - convolution along the positions of a sequence: each position from `size` neighbours.
 *
 * The weight is PyTorch's, [filters][features][size].  Features of neighbours lie side by side, so
 * the windows of all positions are copied into rows [size][features]; with the weight in that
 * order everything is three products over all rows of the batch:
 *
 *	y = rows w^T + b	dw = dy^T rows		drows = dy w
 *
 * and drows are added to where they were copied from, window by window.  Outside of the sequence,
 * and behind the length that a sample has, there are zeros.
 *
 * Scratch: the scratchpad, the weight (backward: its gradient, too) in that order, the rows, and in
 * backward their gradients. */
#include "graph/op.h"
#include "graph/op/product.h"
#include "vec/vec.h"

#include <string.h>

struct conv1d_options {
	uint32_t filters, size, stride, pad;
	bool bias;
};

static const struct tw_option rows[] = {
	TW_OPTION(struct conv1d_options, filters, TW_U32, NULL, NULL, 1, 65536,
		  "number of features that each position gets"),
	TW_OPTION(struct conv1d_options, size, TW_U32, NULL, "positions", 1, 65536,
		  "how many neighbours are seen at once"),
	TW_OPTION(struct conv1d_options, pad, TW_U32, "0", "positions", 0, 65536,
		  "zeros put before and behind the sequence"),
	TW_OPTION(struct conv1d_options, stride, TW_U32, "1", "positions", 1, 65536,
		  "from one output to the next", .example = "2"),
	TW_OPTION(struct conv1d_options, bias, TW_BOOL, "true", NULL, 0, 0,
		  "add one trained value to each filter"),
	TW_OPTION_END,
};

struct conv1d_kernel {
	uint32_t forward, dw, drows; /* primitives */
	/* in scratch */
	size_t weight_at, rows_at, change_at, drows_at;
};

struct sizes {
	size_t lines, window; /* rows, and values of one */
	size_t length, features, outputs, filters;
};

static struct sizes sizes_of(const struct tw_op_site *site)
{
	const struct conv1d_options *o = site->options;
	const struct tw_shape *in = &site->in[0];

	return (struct sizes){
		.lines = (size_t)site->batch * site->out.d[0],
		.window = (size_t)o->size * in->d[1],
		.length = in->d[0],
		.features = in->d[1],
		.outputs = site->out.d[0],
		.filters = o->filters,
	};
}

static enum tw_status form(const void *options, const struct tw_shape *in, struct tw_op_form *f,
			   struct tw_error *why)
{
	const struct conv1d_options *o = options;
	const uint64_t padded = (uint64_t)in->d[0] + 2 * (uint64_t)o->pad;
	double products;
	char text[40];

	if (in->rank != 2)
		return tw_fail(
			why, TW_BAD_INPUT,
			"needs a sequence, not %s: put embedding or series before it; images "
			"have conv",
			tw_shape_text(in, text));
	if (o->size > padded)
		return tw_fail(why, TW_BAD_INPUT,
			       "%u neighbours do not fit into %u positions with pad %u; use a "
			       "smaller size or a larger pad",
			       o->size, in->d[0], o->pad);
	if (o->pad >= o->size)
		return tw_fail(why, TW_BAD_INPUT,
			       "pad %u is not below the size %u, so some outputs would see only "
			       "zeros",
			       o->pad, o->size);
	if ((uint64_t)o->size * in->d[1] > UINT32_MAX / 4)
		return tw_fail(why, TW_BAD_INPUT, "%u neighbours of %u features are too many",
			       o->size, in->d[1]);
	*f = (struct tw_op_form){
		.out = { .rank = 2,
			 .d = { (uint32_t)((padded - o->size) / o->stride) + 1, o->filters } },
		.parameters = o->bias ? 2 : 1,
	};
	products = 2.0 * o->size * in->d[1] * (double)o->filters * f->out.d[0];
	f->products = products;
	f->flops = products + (o->bias ? (double)tw_shape_size(&f->out) : 0);
	f->parameter[0] = (struct tw_op_parameter){ .name = "weight",
						    .rank = 3,
						    .d = { o->filters, in->d[1], o->size },
						    .fan_in = o->size * in->d[1],
						    .fan_out = o->size * o->filters };
	f->parameter[1] =
		(struct tw_op_parameter){ .name = "bias", .rank = 1, .d = { o->filters } };
	return TW_OK;
}

static bool with_bias(const struct tw_op_site *site)
{
	return ((const struct conv1d_options *)site->options)->bias;
}

static size_t floats(size_t n)
{
	return tw_op_aligned(n * sizeof(float));
}

static float *scratch_at(const struct tw_op_run *run, size_t at)
{
	return (float *)((char *)run->scratch + at);
}

static enum tw_status prepare(const struct tw_op_site *site, struct tw_onednn *kit, void *kernel,
			      struct tw_op_memory *need)
{
	const struct sizes s = sizes_of(site);
	const size_t n = s.filters, m = s.window;
	struct conv1d_kernel *k = kernel;
	size_t pad = 0;
	enum tw_status st =
		tw_product_add(kit, tw_product_view(s.lines, m, m, 1), tw_product_view(m, n, 1, m),
			       tw_product_view(s.lines, n, n, 1), false, &k->forward, &pad);

	if (st == TW_OK && site->train && !site->frozen)
		st = tw_product_add(kit, tw_product_view(n, s.lines, 1, n),
				    tw_product_view(s.lines, m, m, 1), tw_product_view(n, m, m, 1),
				    false, &k->dw, &pad);
	if (st == TW_OK && site->train && site->wants[0])
		st = tw_product_add(kit, tw_product_view(s.lines, n, n, 1),
				    tw_product_view(n, m, m, 1), tw_product_view(s.lines, m, m, 1),
				    false, &k->drows, &pad);
	k->weight_at = tw_op_aligned(pad);
	k->rows_at = k->weight_at + floats(n * m);
	k->change_at = k->rows_at + floats(s.lines * m);
	k->drows_at = k->change_at + floats(n * m);
	need->forward = k->change_at;
	if (site->train)
		need->backward = k->drows_at + floats(s.lines * m);
	return st;
}

/* The weight by neighbours, or back to PyTorch's order. */
static void turn(const struct sizes *s, const float *from, float *to, bool back)
{
	const size_t size = s->window / s->features;

	for (size_t o = 0; o < s->filters; o++, from += s->window, to += s->window)
		for (size_t f = 0; f < s->features; f++)
			for (size_t j = 0; j < size; j++) {
				const size_t ours = j * s->features + f, theirs = f * size + j;

				to[back ? theirs : ours] = from[back ? ours : theirs];
			}
}

/* The neighbours of one output that are there: first..first+n of the sequence, from neighbour
 * `skip` of the window on. */
struct seen {
	size_t first, skip, n;
};

static struct seen seen_by(const struct tw_op_site *site, size_t output, size_t length)
{
	const struct conv1d_options *o = site->options;
	const size_t at = output * o->stride; /* in the sequence with its zeros */
	struct seen w = { .skip = at < o->pad ? o->pad - at : 0 };

	w.first = at + w.skip - o->pad;
	if (w.skip < o->size && w.first < length)
		w.n = o->size - w.skip < length - w.first ? o->size - w.skip : length - w.first;
	return w;
}

static void gather(const struct tw_op_site *site, const struct sizes *s,
		   const struct tw_op_run *run, float *to)
{
	for (size_t line = 0; line < s->lines; line++, to += s->window) {
		const size_t b = line / s->outputs;
		const struct seen w =
			seen_by(site, line % s->outputs, tw_op_length(site, run->in[1], b));
		const float *x = run->in[0] + (b * s->length + w.first) * s->features;

		memset(to, 0, s->window * sizeof *to);
		if (w.n)
			memcpy(to + w.skip * s->features, x, w.n * s->features * sizeof *to);
	}
}

static enum tw_status forward(const struct tw_op_site *site, const void *kernel,
			      const struct tw_op_run *run)
{
	const struct conv1d_kernel *k = kernel;
	const struct sizes s = sizes_of(site);
	float *weight = scratch_at(run, k->weight_at), *windows = scratch_at(run, k->rows_at);
	void *const data[] = { windows, weight, run->out };
	enum tw_status st;

	turn(&s, run->parameter[0], weight, false);
	gather(site, &s, run, windows);
	st = tw_hand_run(run->hand, k->forward, data, run->scratch);
	for (size_t i = 0; st == TW_OK && with_bias(site) && i < s.lines; i++)
		tw_vec_add(run->out + i * s.filters, run->parameter[1], s.filters);
	return st;
}

static void scatter(const struct tw_op_site *site, const struct sizes *s,
		    const struct tw_op_run *run, const float *from)
{
	tw_vec_fill(run->in_gradient[0], 0, site->batch * s->length * s->features);
	for (size_t line = 0; line < s->lines; line++, from += s->window) {
		const size_t b = line / s->outputs;
		const struct seen w =
			seen_by(site, line % s->outputs, tw_op_length(site, run->in[1], b));

		if (w.n)
			tw_vec_add(run->in_gradient[0] + (b * s->length + w.first) * s->features,
				   from + w.skip * s->features, w.n * s->features);
	}
}

static enum tw_status backward(const struct tw_op_site *site, const void *kernel,
			       const struct tw_op_run *run)
{
	const struct conv1d_kernel *k = kernel;
	const struct sizes s = sizes_of(site);
	float *weight = scratch_at(run, k->weight_at), *windows = scratch_at(run, k->rows_at);
	float *change = scratch_at(run, k->change_at), *drows = scratch_at(run, k->drows_at);
	void *const dy = tw_product_source(run->out_gradient);
	void *const of_weight[] = { dy, windows, change };
	void *const of_rows[] = { dy, weight, drows };
	enum tw_status st = TW_OK;

	if (!site->frozen) {
		gather(site, &s, run, windows);
		st = tw_hand_run(run->hand, k->dw, of_weight, run->scratch);
		turn(&s, change, run->change[0], true);
		if (with_bias(site))
			tw_vec_sum_rows(run->change[1], run->out_gradient, s.lines, s.filters);
	}
	if (st != TW_OK || !run->in_gradient[0])
		return st;
	turn(&s, run->parameter[0], weight, false);
	st = tw_hand_run(run->hand, k->drows, of_rows, run->scratch);
	if (st == TW_OK)
		scatter(site, &s, run, drows);
	return st;
}

static void reference(const struct tw_op_site *site, const struct tw_op_batch *batch,
		      const double *const *in, const double *const *parameter, double *out)
{
	const struct conv1d_options *o = site->options;
	const struct sizes s = sizes_of(site);

	for (size_t line = 0; line < s.lines; line++)
		for (size_t k = 0; k < s.filters; k++) {
			const size_t b = line / s.outputs;
			double sum = o->bias ? parameter[1][k] : 0;

			for (size_t j = 0; j < o->size; j++)
				for (size_t f = 0; f < s.features; f++) {
					const size_t t = line % s.outputs * o->stride + j;

					if (t < o->pad ||
					    t - o->pad >= tw_op_refer_length(site, in[1], b))
						continue;
					sum += in[0][(b * s.length + t - o->pad) * s.features + f] *
					       parameter[0][(k * s.features + f) * o->size + j];
				}
			out[line * s.filters + k] = sum;
		}
}

static void torch(const void *options, const struct tw_shape *in, char text[TW_TORCH_ROOM])
{
	const struct conv1d_options *o = options;

	snprintf(text, TW_TORCH_ROOM, "Conv1d(%u, %u, %u, stride=%u, padding=%u%s)", in->d[1],
		 o->filters, o->size, o->stride, o->pad, o->bias ? "" : ", bias=False");
}

static void write_c(const struct tw_op_site *site, FILE *out)
{
	const struct conv1d_options *o = site->options;

	fprintf(out,
		"\tenum { SIZE = %u, PAD = %u, STRIDE = %u };\n"
		"\tconst int length = %s;\n\n"
		"\tfor (int i = 0; i < M; i++) {\n"
		"\t\tconst int o = i %% MH;\n"
		"\t\tdouble sum = %s;\n\n"
		"\t\tfor (int j = 0; j < SIZE; j++) {\n"
		"\t\t\tconst int t = i / MH * STRIDE + j - PAD;\n\n"
		"\t\t\tfor (int f = 0; t >= 0 && t < length && f < H; f++)\n"
		"\t\t\t\tsum += (double)x[t * H + f] * p0[(o * H + f) * SIZE + j];\n"
		"\t\t}\n"
		"\t\ty[i] = (float)sum;\n"
		"\t}\n",
		o->size, o->pad, o->stride, site->ins > 1 ? "(int)z[0]" : "C",
		o->bias ? "p1[o]" : "0");
}

static const struct tw_op_sample samples[] = {
	{ "4 3", { 2, { 7, 5 } } },
	{ "filters 3 size 1", { 2, { 3, 2 } } },
	{ "5 4 pad 2 stride 2", { 2, { 11, 3 } } },
	{ "17 5 pad 4 bias false", { 2, { 1, 16 } } },
	{ "4 3 pad 1", { 2, { 9, 5 } }, .lengths = true },
	{ NULL },
};

static const struct tw_op conv1d_op = {
	.name = "conv1d",
	.elsewhere = (const char *const[]){ "convolution1d", "conv-1d", NULL },
	.help = "convolution along the positions of a sequence",
	.traits = TW_OP_READS_IN | TW_OP_BY_POSITION | TW_OP_TAKES_LENGTHS,
	.ins = 1,
	.options = rows,
	.positional = 2,
	.options_bytes = sizeof(struct conv1d_options),
	.kernel_bytes = sizeof(struct conv1d_kernel),
	.samples = samples,
	.form = form,
	.prepare = prepare,
	.forward = forward,
	.backward = backward,
	.reference = reference,
	.torch = torch,
	.c = write_c,
	.torch_class = "class Conv1d(nn.Conv1d):\n"
		       "    def forward(self, x):\n"
		       "        return super().forward(x.transpose(1, 2)).transpose(1, 2)\n",
	.torch_padded = "class Conv1d(nn.Conv1d):\n"
			"    def forward(self, x):\n"
			"        x = x * Series.mask(x)\n"
			"        return super().forward(x.transpose(1, 2)).transpose(1, 2)\n",
};

static const struct tw_op *const ops[] = { &conv1d_op, NULL };
const struct tw_op_family tw_op_family_conv1d = { ops };
