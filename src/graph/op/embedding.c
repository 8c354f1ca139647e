/* SPDX-License-Identifier: Apache-2.0 */
/* embedding.c - embedding: for each number of the data its row of a trained table; positions: a
 * trained row for each place of a sequence, added.
 *
 * Numbers come as floats, which are exact below 2^24.  Gradients are those of whole tables: rows
 * that nobody read have 0. */
#include "graph/op.h"
#include "vec/vec.h"

#include <math.h>

#define DEVIATION  0.02f    /* of first values: that of GPT-2 */
#define NUMBER_END 16777216 /* floats count up to here */

static size_t values(const struct tw_op_site *site)
{
	return site->batch * tw_shape_size(&site->in[0]);
}

/* embedding */

struct embedding_options {
	uint32_t vocabulary, width;
};

static const struct tw_option embedding_rows[] = {
	TW_OPTION(struct embedding_options, vocabulary, TW_U32, NULL, NULL, 1, NUMBER_END,
		  "how many different numbers there are: 256 for bytes"),
	TW_OPTION(struct embedding_options, width, TW_U32, NULL, NULL, 1, 65536,
		  "number of features of each position"),
	TW_OPTION_END,
};

static enum tw_status embedding_form(const void *options, const struct tw_shape *in,
				     struct tw_op_form *form, struct tw_error *why)
{
	const struct embedding_options *o = options;
	char text[40];

	if (in->rank != 1)
		return tw_fail(why, TW_BAD_INPUT,
			       "needs one number for each position, such as the bytes of a text, "
			       "not %s",
			       tw_shape_text(in, text));
	*form = (struct tw_op_form){
		.out = { .rank = 2, .d = { in->d[0], o->width } },
		.parameters = 1,
		.flops = (double)in->d[0] * o->width,
	};
	form->parameter[0] = (struct tw_op_parameter){ .name = "weight",
						       .rank = 2,
						       .d = { o->vocabulary, o->width },
						       .deviation = DEVIATION };
	return TW_OK;
}

/* The number that x is; false: it is none of the vocabulary. */
static bool number_of(float x, uint32_t vocabulary, size_t *out)
{
	if (!(x >= 0 && x < (float)vocabulary) || x != floorf(x))
		return false;
	*out = (size_t)x;
	return true;
}

static enum tw_status embedding_forward(const struct tw_op_site *site, const void *kernel,
					const struct tw_op_run *run)
{
	const struct embedding_options *o = site->options;
	const size_t n = values(site);
	size_t row;

	for (size_t i = 0; i < n; i++) {
		if (!number_of(run->in[0][i], o->vocabulary, &row))
			return TW_BAD_INPUT;
		tw_op_copy(run, 0, row * o->width, o->width, run->out + i * o->width);
	}
	return TW_OK;
}

static enum tw_status embedding_backward(const struct tw_op_site *site, const void *kernel,
					 const struct tw_op_run *run)
{
	const struct embedding_options *o = site->options;
	const size_t n = values(site), width = o->width;
	size_t row;

	if (site->frozen)
		return TW_OK;
	if (!run->adds)
		tw_vec_fill(run->change[0], 0, o->vocabulary * width);
	for (size_t i = 0; i < n; i++) {
		if (!number_of(run->in[0][i], o->vocabulary, &row))
			return TW_BAD_INPUT;
		tw_vec_add(run->change[0] + row * width, run->out_gradient + i * width, width);
	}
	return TW_OK;
}

static void embedding_reference(const struct tw_op_site *site, const struct tw_op_batch *batch,
				const double *const *in, const double *const *parameter,
				double *out)
{
	const struct embedding_options *o = site->options;

	for (size_t i = 0; i < values(site); i++)
		for (size_t k = 0; k < o->width; k++)
			out[i * o->width + k] = parameter[0][(size_t)in[0][i] * o->width + k];
}

static const struct tw_op_sample embedding_samples[] = {
	{ "11 5", { 1, { 7 } } },
	{ "vocabulary 3 width 17", { 1, { 1 } } },
	{ "256 32", { 1, { 33 } } },
	{ NULL },
};

static void embedding_torch(const void *options, const struct tw_shape *in,
			    char text[TW_TORCH_ROOM])
{
	const struct embedding_options *o = options;

	snprintf(text, TW_TORCH_ROOM, "Embedding(%u, %u)", o->vocabulary, o->width);
}

static const struct tw_op embedding_op = {
	.name = "embedding",
	.help = "a trained row of features for each number of the data; the first layer of a "
		"text model",
	.traits = TW_OP_READS_IN | TW_OP_READS_NUMBERS | TW_OP_TAKES_PIECES,
	.ins = 1,
	.options = embedding_rows,
	.positional = 2,
	.options_bytes = sizeof(struct embedding_options),
	.samples = embedding_samples,
	.form = embedding_form,
	.forward = embedding_forward,
	.backward = embedding_backward,
	.reference = embedding_reference,
	.torch = embedding_torch,
	.torch_class = "class Embedding(nn.Embedding):\n"
		       "    def forward(self, x):\n"
		       "        return super().forward(x.long())\n",
};

/* positions */

static enum tw_status positions_form(const void *options, const struct tw_shape *in,
				     struct tw_op_form *form, struct tw_error *why)
{
	char text[40];

	if (in->rank != 2)
		return tw_fail(why, TW_BAD_INPUT,
			       "needs a sequence, not %s: put embedding before it",
			       tw_shape_text(in, text));
	*form = (struct tw_op_form){ .out = *in,
				     .parameters = 1,
				     .flops = (double)tw_shape_size(in) };
	form->parameter[0] = (struct tw_op_parameter){
		.name = "weight", .rank = 2, .d = { in->d[0], in->d[1] }, .deviation = DEVIATION
	};
	return TW_OK;
}

static enum tw_status positions_forward(const struct tw_op_site *site, const void *kernel,
					const struct tw_op_run *run)
{
	const size_t n = tw_shape_size(&site->in[0]);

	for (size_t b = 0; b < site->batch; b++)
		tw_vec_add_to(run->out + b * n, run->in[0] + b * n, run->parameter[0], n);
	return TW_OK;
}

static enum tw_status positions_backward(const struct tw_op_site *site, const void *kernel,
					 const struct tw_op_run *run)
{
	if (!site->frozen)
		tw_vec_sum_rows(run->change[0], run->out_gradient, site->batch,
				tw_shape_size(&site->in[0]));
	if (run->in_gradient[0] && run->in_gradient[0] != run->out_gradient)
		tw_vec_copy(run->in_gradient[0], run->out_gradient, values(site));
	return TW_OK;
}

static void positions_reference(const struct tw_op_site *site, const struct tw_op_batch *batch,
				const double *const *in, const double *const *parameter,
				double *out)
{
	const size_t n = tw_shape_size(&site->in[0]);

	for (size_t i = 0; i < values(site); i++)
		out[i] = in[0][i] + parameter[0][i % n];
}

static const struct tw_op_sample positions_samples[] = {
	{ "", { 2, { 3, 5 } } },
	{ "", { 2, { 17, 16 } } },
	{ NULL },
};

static void positions_torch(const void *options, const struct tw_shape *in,
			    char text[TW_TORCH_ROOM])
{
	snprintf(text, TW_TORCH_ROOM, "Positions(%u, %u)", in->d[0], in->d[1]);
}

static const struct tw_op positions_op = {
	.name = "positions",
	.help = "adds trained features that depend on the place in the sequence alone",
	.traits = TW_OP_IN_PLACE | TW_OP_BACK_IN_PLACE | TW_OP_BY_POSITION,
	.ins = 1,
	.samples = positions_samples,
	.form = positions_form,
	.forward = positions_forward,
	.backward = positions_backward,
	.reference = positions_reference,
	.torch = positions_torch,
	.torch_class = "class Positions(nn.Module):\n"
		       "    def __init__(self, length, width):\n"
		       "        super().__init__()\n"
		       "        self.weight = nn.Parameter(torch.randn(length, width) * 0.02)\n"
		       "\n"
		       "    def forward(self, x):\n"
		       "        return x + self.weight\n",
};

static const struct tw_op *const ops[] = { &embedding_op, &positions_op, NULL };
const struct tw_op_family tw_op_family_embedding = { ops };
