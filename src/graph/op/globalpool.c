/* SPDX-License-Identifier: Apache-2.0 */
/* globalpool.c - the mean of each whole plane, from any layout. */
#include "graph/op.h"
#include "graph/op/window.h"
#include "vec/clone.h"
#include "vec/vec.h"

#include <string.h>

static enum tw_status form(const void *options, const struct tw_shape *in, struct tw_op_form *f,
			   struct tw_error *why)
{
	char text[40];

	if (in->rank != 3)
		return tw_fail(why, TW_BAD_INPUT,
			       "needs channels x height x width, not %s values in a row",
			       tw_shape_text(in, text));
	f->out = (struct tw_shape){ 1, { in->d[0] } };
	f->flops = (double)tw_shape_size(in);
	return TW_OK;
}

static void layout(struct tw_op_site *site)
{
	site->out_layout = TW_LAYOUT_PLAIN;
}

TW_CLONED_STATIC(void, sum, (const float *restrict x, size_t pixels, size_t inner, float *y),
		 (x, pixels, inner, y))
{
	memset(y, 0, inner * sizeof *y);
	for (size_t p = 0; p < pixels; p++)
		for (size_t i = 0; i < inner; i++)
			y[i] += x[p * inner + i];
	for (size_t i = 0; i < inner; i++)
		y[i] /= (float)pixels;
}

static enum tw_status forward(const struct tw_op_site *site, const void *kernel,
			      const struct tw_op_run *run)
{
	const struct tw_planes p = tw_planes_of(&site->in[0], site->batch, site->in_layout[0]);
	const size_t pixels = p.h * p.w;

	for (size_t o = 0; o < p.outer; o++)
		if (p.inner == 1)
			run->out[o] = (float)(tw_vec_sum(run->in[0] + o * pixels, pixels) /
					      (double)pixels);
		else
			sum(run->in[0] + o * pixels * p.inner, pixels, p.inner,
			    run->out + o * p.inner);
	return TW_OK;
}

static enum tw_status backward(const struct tw_op_site *site, const void *kernel,
			       const struct tw_op_run *run)
{
	const struct tw_planes p = tw_planes_of(&site->in[0], site->batch, site->in_layout[0]);
	const size_t pixels = p.h * p.w;
	float *dx = run->in_gradient[0];

	if (!site->wants[0])
		return TW_OK;
	for (size_t o = 0; o < p.outer; o++) {
		const float *dy = run->out_gradient + o * p.inner;

		for (size_t k = 0; k < pixels; k++, dx += p.inner)
			for (size_t i = 0; i < p.inner; i++)
				dx[i] = dy[i] / (float)pixels;
	}
	return TW_OK;
}

static void reference(const struct tw_op_site *site, const struct tw_op_batch *batch,
		      const double *const *in, const double *const *parameter, double *out)
{
	const size_t pixels = (size_t)site->in[0].d[1] * site->in[0].d[2];

	for (size_t p = 0; p < (size_t)site->batch * site->in[0].d[0]; p++) {
		out[p] = 0;
		for (size_t k = 0; k < pixels; k++)
			out[p] += in[0][p * pixels + k] / (double)pixels;
	}
}

static const struct tw_op_sample samples[] = {
	{ "", { 3, { 3, 4, 6 } } },
	{ "", { 3, { 1, 1, 1 } } },
	{ "", { 3, { 32, 3, 5 } } },
	{ "", { 3, { 7, 8, 1 } } },
	{ NULL },
};

static void c(const struct tw_op_site *site, FILE *out)
{
	fputs("\tfor (int c = 0; c < C; c++) {\n"
	      "\t\tdouble sum = 0;\n\n"
	      "\t\tfor (int i = c * H * W; i < (c + 1) * H * W; i++)\n"
	      "\t\t\tsum += x[i];\n"
	      "\t\ty[c] = (float)(sum / (H * W));\n"
	      "\t}\n",
	      out);
}

static void torch(const void *options, const struct tw_shape *in, char text[TW_TORCH_ROOM])
{
	snprintf(text, TW_TORCH_ROOM, "GlobalPool()");
}

static const struct tw_op globalpool = {
	.name = "globalpool",
	.help = "the mean of each channel: one value per channel",
	.ins = 1,
	.samples = samples,
	.form = form,
	.layout = layout,
	.forward = forward,
	.backward = backward,
	.reference = reference,
	.torch = torch,
	.c = c,
	.torch_class = "class GlobalPool(nn.Module):\n"
		       "    def forward(self, x):\n"
		       "        return x.mean((2, 3))\n",
};

const struct tw_op_family tw_op_family_globalpool = {
	(const struct tw_op *const[]){ &globalpool, NULL },
};
