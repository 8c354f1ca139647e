/* SPDX-License-Identifier: Apache-2.0 */
/* prelu.c - x above 0, a trained slope times x below: one slope, or one for each channel (He et al.
 * 2015).
 *
 * Scratch of backward: a double for each channel and 16 lanes, in whose order sums are made. */
#include "graph/channel_sums.h"
#include "graph/op.h"
#include "vec/clone.h"

#include <string.h>

#define LANES 16

enum { BY_LAYER, BY_CHANNEL };
static const char *const by_names[] = { "layer", "channel", NULL };

struct prelu_options {
	float slope;
	uint32_t by;
};

static const struct tw_option rows[] = {
	TW_OPTION(struct prelu_options, slope, TW_F32, "0.25", NULL, -10, 10,
		  "the slope below 0 that training begins with"),
	TW_OPTION_CHOICE(struct prelu_options, by, "by", "layer", by_names,
			 "whether there is one slope, or one for each channel"),
	TW_OPTION_END,
};

static const struct tw_op_sample samples[] = {
	{ "", { 1, { 7 } } },
	{ "0.1", { 3, { 3, 5, 7 } } },
	{ "by channel", { 1, { 33 } } },
	{ "0.3 by channel", { 3, { 3, 5, 7 } } },
	{ "by channel", { 3, { 32, 3, 3 } } },
	{ NULL },
};

static bool by_channel(const struct tw_op_site *site)
{
	return ((const struct prelu_options *)site->options)->by == BY_CHANNEL;
}

static enum tw_status form(const void *options, const struct tw_shape *in, struct tw_op_form *f,
			   struct tw_error *why)
{
	const struct prelu_options *o = options;

	*f = (struct tw_op_form){
		.out = in[0],
		.parameters = 1,
		.flops = 2.0 * (double)tw_shape_size(&in[0]),
	};
	f->parameter[0] = (struct tw_op_parameter){
		.name = "weight",
		.rank = 1,
		.d = { o->by == BY_CHANNEL ? in->d[0] : 1 },
		.fill = o->slope,
	};
	return TW_OK;
}

static enum tw_status prepare(const struct tw_op_site *site, struct tw_onednn *kit, void *kernel,
			      struct tw_op_memory *need)
{
	if (site->train)
		need->backward = (site->in[0].d[0] + LANES) * sizeof(double);
	return TW_OK;
}

/* A run of values that share a slope, and rows of one value of each of `inner` channels. */

TW_CLONED_STATIC(void, bend, (float *y, const float *x, float slope, size_t n), (y, x, slope, n))
{
	for (size_t i = 0; i < n; i++)
		y[i] = x[i] < 0 ? slope * x[i] : x[i];
}

TW_CLONED_STATIC(void, bend_rows,
		 (float *restrict y, const float *restrict x, const float *restrict slope,
		  size_t count, size_t inner),
		 (y, x, slope, count, inner))
{
	for (size_t r = 0; r < count; r++)
		for (size_t i = 0; i < inner; i++) {
			const float v = x[r * inner + i];

			y[r * inner + i] = v < 0 ? slope[i] * v : v;
		}
}

TW_CLONED_STATIC(void, bend_back,
		 (float *dx, const float *dy, const float *x, float slope, size_t n),
		 (dx, dy, x, slope, n))
{
	_Pragma("GCC ivdep") for (size_t i = 0; i < n; i++) dx[i] =
		x[i] < 0 ? slope * dy[i] : dy[i];
}

TW_CLONED_STATIC(void, bend_rows_back,
		 (float *dx, const float *dy, const float *restrict x, const float *restrict slope,
		  size_t count, size_t inner),
		 (dx, dy, x, slope, count, inner))
{
	for (size_t r = 0; r < count; r++)
		_Pragma("GCC ivdep") for (size_t i = 0; i < inner; i++)
		{
			const size_t k = r * inner + i;

			dx[k] = x[k] < 0 ? slope[i] * dy[k] : dy[k];
		}
}

/* What a value gives to the gradient of its slope. */
static inline __attribute__((always_inline)) double part(float x, float dy)
{
	return x < 0 ? (double)x * (double)dy : 0;
}

/* Value i is added to lane i % LANES. */
TW_CLONED_STATIC(void, add_run,
		 (double *restrict lane, const float *restrict dy, const float *restrict x,
		  size_t n),
		 (lane, dy, x, n))
{
	size_t i = 0;

	for (; i + LANES <= n; i += LANES)
		for (size_t l = 0; l < LANES; l++)
			lane[l] += part(x[i + l], dy[i + l]);
	for (size_t l = 0; i + l < n; l++)
		lane[l] += part(x[i + l], dy[i + l]);
}

TW_CLONED_STATIC(void, add_rows,
		 (double *restrict sum, const float *restrict dy, const float *restrict x,
		  size_t count, size_t inner),
		 (sum, dy, x, count, inner))
{
	for (size_t r = 0; r < count; r++)
		for (size_t i = 0; i < inner; i++)
			sum[i] += part(x[r * inner + i], dy[r * inner + i]);
}

static double run_sum(const float *dy, const float *x, size_t n, double lane[LANES])
{
	double sum = 0;

	memset(lane, 0, LANES * sizeof *lane);
	add_run(lane, dy, x, n);
	for (size_t l = 0; l < LANES; l++)
		sum += lane[l];
	return sum;
}

static enum tw_status forward(const struct tw_op_site *site, const void *kernel,
			      const struct tw_op_run *run)
{
	const struct tw_channels v = tw_channels_of(site);
	const float *slope = run->parameter[0];

	if (!by_channel(site)) {
		bend(run->out, run->in[0], slope[0], site->batch * tw_shape_size(&site->in[0]));
		return TW_OK;
	}
	for (size_t k = 0; k < v.batch * v.blocks; k++) {
		const size_t c = k % v.blocks * v.inner, at = k * v.rows * v.inner;

		if (v.inner == 1)
			bend(run->out + at, run->in[0] + at, slope[c], v.rows);
		else
			bend_rows(run->out + at, run->in[0] + at, slope + c, v.rows, v.inner);
	}
	return TW_OK;
}

/* Of each channel. */
static void channels_back(const struct tw_op_site *site, const struct tw_op_run *run)
{
	const struct tw_channels v = tw_channels_of(site);
	const float *slope = run->parameter[0];
	double *sum = run->scratch, *lane = sum + v.channels;

	memset(sum, 0, v.channels * sizeof *sum);
	for (size_t k = 0; k < v.batch * v.blocks; k++) {
		const size_t c = k % v.blocks * v.inner, at = k * v.rows * v.inner;
		const float *x = run->in[0] + at, *dy = run->out_gradient + at;

		if (v.inner == 1 && !site->frozen)
			sum[c] += run_sum(dy, x, v.rows, lane);
		else if (!site->frozen)
			add_rows(sum + c, dy, x, v.rows, v.inner);
		if (!run->in_gradient[0])
			continue;
		if (v.inner == 1)
			bend_back(run->in_gradient[0] + at, dy, x, slope[c], v.rows);
		else
			bend_rows_back(run->in_gradient[0] + at, dy, x, slope + c, v.rows, v.inner);
	}
	for (size_t c = 0; c < v.channels && !site->frozen; c++)
		run->change[0][c] = (float)sum[c];
}

static enum tw_status backward(const struct tw_op_site *site, const void *kernel,
			       const struct tw_op_run *run)
{
	const size_t n = site->batch * tw_shape_size(&site->in[0]);

	if (by_channel(site)) {
		channels_back(site, run);
		return TW_OK;
	}
	if (!site->frozen)
		run->change[0][0] = (float)run_sum(run->out_gradient, run->in[0], n, run->scratch);
	if (run->in_gradient[0])
		bend_back(run->in_gradient[0], run->out_gradient, run->in[0], run->parameter[0][0],
			  n);
	return TW_OK;
}

static void reference(const struct tw_op_site *site, const struct tw_op_batch *batch,
		      const double *const *in, const double *const *parameter, double *out)
{
	const size_t each = tw_shape_size(&site->in[0]), pixels = each / site->in[0].d[0];

	for (size_t i = 0; i < site->batch * each; i++) {
		const double slope = parameter[0][by_channel(site) ? i % each / pixels : 0];

		out[i] = in[0][i] < 0 ? slope * in[0][i] : in[0][i];
	}
}

static void c(const struct tw_op_site *site, FILE *out)
{
	fprintf(out, TW_OP_C_EACH "x[i] < 0 ? p0[%s] * x[i] : x[i];\n",
		by_channel(site) ? "i / (H * W)" : "0");
}

static void torch(const void *options, const struct tw_shape *in, char text[TW_TORCH_ROOM])
{
	const struct prelu_options *o = options;

	snprintf(text, TW_TORCH_ROOM, "nn.PReLU(%u, %.9g)", o->by == BY_CHANNEL ? in->d[0] : 1,
		 (double)o->slope);
}

static const struct tw_op prelu = {
	.name = "prelu",
	.help = "x above 0, a trained slope times x below",
	.traits = TW_OP_READS_IN | TW_OP_BACK_IN_PLACE | TW_OP_FOLLOWS_LAYOUT,
	.ins = 1,
	.options = rows,
	.positional = 1,
	.options_bytes = sizeof(struct prelu_options),
	.samples = samples,
	.form = form,
	.prepare = prepare,
	.forward = forward,
	.backward = backward,
	.reference = reference,
	.torch = torch,
	.c = c,
};

const struct tw_op_family tw_op_family_prelu = { (const struct tw_op *const[]){ &prelu, NULL } };
