/* SPDX-License-Identifier: Apache-2.0 */
/* affine.c - times a number, plus a number: both fixed, for each channel or for each value.
 *
 * `export --standalone` puts it before a network with the scales and shifts of the data's
 * normalisation.  They are buffers: training leaves them as they are. */
#include "graph/op.h"
#include "vec/clone.h"

#include <string.h>

enum { BY_CHANNEL, BY_VALUE };
static const char *const by_names[] = { "channel", "value", NULL };

struct affine_options {
	uint32_t by;
};

static const struct tw_option rows[] = {
	TW_OPTION_CHOICE(
		struct affine_options, by, "by", "channel", by_names,
		"whether an image has one pair of numbers for each channel or for each value"),
	TW_OPTION_END,
};

/* An image's channel has `run` values that share their numbers. */
static size_t run_of(const void *options, const struct tw_shape *in)
{
	const struct affine_options *o = options;

	return in->rank == 3 && o->by == BY_CHANNEL ? (size_t)in->d[1] * in->d[2] : 1;
}

static enum tw_status affine_form(const void *options, const struct tw_shape *in,
				  struct tw_op_form *form, struct tw_error *why)
{
	const bool shared = in->rank == 3 && run_of(options, in) > 1;
	struct tw_op_parameter p = {
		.name = "weight", .rank = in->rank, .fill = 1, .buffer = true
	};

	for (uint32_t k = 0; k < in->rank; k++)
		p.d[k] = k && shared ? 1 : in->d[k];
	*form = (struct tw_op_form){
		.out = in[0],
		.parameters = 2,
		.flops = 2.0 * (double)tw_shape_size(&in[0]),
	};
	form->parameter[0] = p;
	p.name = "bias";
	p.fill = 0;
	form->parameter[1] = p;
	return TW_OK;
}

TW_CLONED_STATIC(void, by_run,
		 (float *restrict y, const float *restrict x, float scale, float shift, size_t n),
		 (y, x, scale, shift, n))
{
	for (size_t i = 0; i < n; i++)
		y[i] = x[i] * scale + shift;
}

TW_CLONED_STATIC(void, by_value,
		 (float *restrict y, const float *restrict x, const float *restrict scale,
		  const float *restrict shift, size_t n),
		 (y, x, scale, shift, n))
{
	for (size_t i = 0; i < n; i++)
		y[i] = x[i] * scale[i] + shift[i];
}

static enum tw_status affine_forward(const struct tw_op_site *site, const void *kernel,
				     const struct tw_op_run *run)
{
	const size_t size = tw_shape_size(&site->in[0]), each = run_of(site->options, site->in);
	const float *w = run->parameter[0], *b = run->parameter[1];

	for (size_t s = 0; s < site->batch; s++) {
		const float *x = run->in[0] + s * size;
		float *y = run->out + s * size;

		if (each == 1)
			by_value(y, x, w, b, size);
		else
			for (size_t c = 0; c < size / each; c++)
				by_run(y + c * each, x + c * each, w[c], b[c], each);
	}
	return TW_OK;
}

static enum tw_status affine_backward(const struct tw_op_site *site, const void *kernel,
				      const struct tw_op_run *run)
{
	const size_t size = tw_shape_size(&site->in[0]), each = run_of(site->options, site->in);

	for (uint32_t k = 0; k < 2 && !site->frozen; k++)
		memset(run->change[k], 0, size / each * sizeof(float));
	for (size_t i = 0; run->in_gradient[0] && i < site->batch * size; i++)
		run->in_gradient[0][i] = run->out_gradient[i] * run->parameter[0][i % size / each];
	return TW_OK;
}

static void affine_reference(const struct tw_op_site *site, const struct tw_op_batch *batch,
			     const double *const *in, const double *const *parameter, double *out)
{
	const size_t size = tw_shape_size(&site->in[0]), each = run_of(site->options, site->in);

	for (size_t i = 0; i < site->batch * size; i++)
		out[i] = in[0][i] * parameter[0][i % size / each] + parameter[1][i % size / each];
}

static void affine_c(const struct tw_op_site *site, FILE *out)
{
	const size_t each = run_of(site->options, site->in);

	fprintf(out, TW_OP_C_EACH "x[i] * p0[i / %zu] + p1[i / %zu];\n", each, each);
}

static void affine_torch(const void *options, const struct tw_shape *in, char text[TW_TORCH_ROOM])
{
	const bool shared = run_of(options, in) > 1;

	if (in->rank == 1)
		snprintf(text, TW_TORCH_ROOM, "Affine(%u)", in->d[0]);
	else
		snprintf(text, TW_TORCH_ROOM, "Affine(%u, %u, %u)", in->d[0], shared ? 1 : in->d[1],
			 shared ? 1 : in->d[2]);
}

static const struct tw_op_sample samples[] = {
	{ "", { 1, { 7 } } },
	{ "", { 3, { 3, 5, 7 } } },
	{ "by channel", { 3, { 16, 3, 2 } } },
	{ "by value", { 3, { 2, 3, 5 } } },
	{ "by value", { 1, { 19 } } },
	{ NULL },
};

static const struct tw_op affine_op = {
	.name = "affine",
	.help = "multiplies by a fixed number and adds another: the normalisation of a standalone "
		"export",
	.ins = 1,
	.options = rows,
	.options_bytes = sizeof(struct affine_options),
	.samples = samples,
	.form = affine_form,
	.forward = affine_forward,
	.backward = affine_backward,
	.reference = affine_reference,
	.torch = affine_torch,
	.c = affine_c,
	.torch_class = "class Affine(nn.Module):  # the normalisation: fixed, not trained\n"
		       "    def __init__(self, *shape):\n"
		       "        super().__init__()\n"
		       "        self.register_buffer(\"weight\", torch.ones(shape))\n"
		       "        self.register_buffer(\"bias\", torch.zeros(shape))\n"
		       "\n"
		       "    def forward(self, x):\n"
		       "        return x * self.weight + self.bias\n",
};

static const struct tw_op *const ops[] = { &affine_op, NULL };
const struct tw_op_family tw_op_family_affine = { ops };
