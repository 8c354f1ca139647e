/* SPDX-License-Identifier: Apache-2.0 */
/* softmax.c - values of a sample (or of each pixel, over its channels) made positive with sum 1.
 *
 * What one sum runs over is a line.  Lines lie either in runs of neighbouring values (features,
 * LAST, BLOCK16) or, in PLAIN images, side by side: then up to 16 of them are done at a time.
 * Sums are in double, lane i % 16 of a line, added in lane order. */
#include "graph/op.h"
#include "graph/op/approx.h"
#include "vec/clone.h"

#define LANES 16
#define APART _Pragma("GCC ivdep")

/* How the lines of a batch lie.  Handed on by value: a loop's bounds must not be what its stores
 * might change. */
struct lines {
	size_t groups;      /* samples, or blocks of pixels' rows: every group is `step` apart */
	size_t lines, next; /* lines of a group and from one to the next */
	size_t runs, apart; /* runs of a line and from one to the next */
	size_t run;         /* values of a run */
	size_t step;
};

static struct lines lines_of(const struct tw_op_site *site)
{
	const struct tw_shape *s = &site->in[0];
	const size_t channels = s->d[0], size = tw_shape_size(s), pixels = size / channels;

	if (pixels > 1 && site->in_layout[0] == TW_LAYOUT_BLOCK16)
		return (struct lines){ site->batch,    pixels, LANES, channels / LANES,
				       pixels * LANES, LANES,  size };
	if (pixels > 1 && site->in_layout[0] == TW_LAYOUT_PLAIN)
		return (struct lines){ site->batch, pixels, 1, channels, pixels, 1, size };
	return (struct lines){ site->batch, pixels, channels, 1, channels, channels, size };
}

static double total(const double lane[LANES])
{
	double sum = 0;

	for (size_t k = 0; k < LANES; k++)
		sum += lane[k];
	return sum;
}

/* One line in runs. */

TW_CLONED_STATIC(float, largest, (const float *x, const struct lines l), (x, l))
{
	float lane[LANES], most = -INFINITY;

	for (size_t k = 0; k < LANES; k++)
		lane[k] = -INFINITY;
	for (size_t r = 0; r < l.runs; r++) {
		const float *v = x + r * l.apart;
		size_t i = 0;

		for (; i + LANES <= l.run; i += LANES)
			for (size_t k = 0; k < LANES; k++)
				lane[k] = v[i + k] > lane[k] ? v[i + k] : lane[k];
		for (size_t k = 0; i + k < l.run; k++)
			lane[k] = v[i + k] > lane[k] ? v[i + k] : lane[k];
	}
	for (size_t k = 0; k < LANES; k++)
		most = lane[k] > most ? lane[k] : most;
	return most;
}

/* y = e^(x - most); their sum. */
TW_CLONED_STATIC(double, powers, (float *y, const float *x, float most, const struct lines l),
		 (y, x, most, l))
{
	double lane[LANES] = { 0 };

	for (size_t r = 0; r < l.runs; r++) {
		const float *v = x + r * l.apart;
		float *w = y + r * l.apart;
		size_t i = 0;

		APART
		for (size_t k = 0; k < l.run; k++)
			w[k] = approx_exp(v[k] - most);
		for (; i + LANES <= l.run; i += LANES)
			for (size_t k = 0; k < LANES; k++)
				lane[k] += (double)w[i + k];
		for (size_t k = 0; i + k < l.run; k++)
			lane[k] += (double)w[i + k];
	}
	return total(lane);
}

TW_CLONED_STATIC(double, inner, (const float *x, const float *y, const struct lines l), (x, y, l))
{
	double lane[LANES] = { 0 };

	for (size_t r = 0; r < l.runs; r++) {
		const float *v = x + r * l.apart, *w = y + r * l.apart;
		size_t i = 0;

		for (; i + LANES <= l.run; i += LANES)
			for (size_t k = 0; k < LANES; k++)
				lane[k] += (double)v[i + k] * (double)w[i + k];
		for (size_t k = 0; i + k < l.run; k++)
			lane[k] += (double)v[i + k] * (double)w[i + k];
	}
	return total(lane);
}

TW_CLONED_STATIC(void, scale, (float *y, float by, const struct lines l), (y, by, l))
{
	for (size_t r = 0; r < l.runs; r++)
		for (size_t i = 0; i < l.run; i++)
			y[r * l.apart + i] *= by;
}

/* dx = y (dy - mean) */
TW_CLONED_STATIC(void, centre,
		 (float *dx, const float *dy, const float *y, float mean, const struct lines l),
		 (dx, dy, y, mean, l))
{
	for (size_t r = 0; r < l.runs; r++) {
		APART
		for (size_t i = r * l.apart; i < r * l.apart + l.run; i++)
			dx[i] = y[i] * (dy[i] - mean);
	}
}

/* `n` lines (at most LANES) side by side, each of l.runs values. */

TW_CLONED_STATIC(void, beside, (float *y, const float *x, const struct lines l, size_t n),
		 (y, x, l, n))
{
	float most[LANES], by[LANES];
	double sum[LANES] = { 0 };

	for (size_t k = 0; k < n; k++)
		most[k] = x[k];
	for (size_t r = 1; r < l.runs; r++)
		for (size_t k = 0; k < n; k++) {
			const float v = x[r * l.apart + k];

			most[k] = v > most[k] ? v : most[k];
		}
	for (size_t r = 0; r < l.runs; r++) {
		APART
		for (size_t k = 0; k < n; k++) {
			const float e = approx_exp(x[r * l.apart + k] - most[k]);

			y[r * l.apart + k] = e;
			sum[k] += (double)e;
		}
	}
	for (size_t k = 0; k < n; k++)
		by[k] = (float)(1 / sum[k]);
	for (size_t r = 0; r < l.runs; r++) {
		APART
		for (size_t k = 0; k < n; k++)
			y[r * l.apart + k] *= by[k];
	}
}

TW_CLONED_STATIC(void, beside_back,
		 (float *dx, const float *dy, const float *y, const struct lines l, size_t n),
		 (dx, dy, y, l, n))
{
	double sum[LANES] = { 0 };

	for (size_t r = 0; r < l.runs; r++)
		for (size_t k = 0; k < n; k++)
			sum[k] += (double)dy[r * l.apart + k] * (double)y[r * l.apart + k];
	for (size_t r = 0; r < l.runs; r++) {
		APART
		for (size_t k = 0; k < n; k++) {
			const size_t i = r * l.apart + k;

			dx[i] = y[i] * (dy[i] - (float)sum[k]);
		}
	}
}

static enum tw_status softmax_form(const void *options, const struct tw_shape *in,
				   struct tw_op_form *form, struct tw_error *why)
{
	*form = (struct tw_op_form){ .out = in[0], .flops = 20 * (double)tw_shape_size(&in[0]) };
	return TW_OK;
}

static size_t side_by_side(const struct lines *l, size_t line)
{
	if (l->next != 1 || l->runs == 1)
		return 0;
	return l->lines - line < LANES ? l->lines - line : LANES;
}

static enum tw_status softmax_forward(const struct tw_op_site *site, const void *kernel,
				      const struct tw_op_run *run)
{
	const struct lines l = lines_of(site);

	for (size_t g = 0; g < l.groups; g++)
		for (size_t line = 0, n; line < l.lines; line += n ? n : 1) {
			const size_t at = g * l.step + line * l.next;
			const float *x = run->in[0] + at;
			float *y = run->out + at;

			n = side_by_side(&l, line);
			if (n)
				beside(y, x, l, n);
			else
				scale(y, (float)(1 / powers(y, x, largest(x, l), l)), l);
		}
	return TW_OK;
}

static enum tw_status softmax_backward(const struct tw_op_site *site, const void *kernel,
				       const struct tw_op_run *run)
{
	const struct lines l = lines_of(site);

	for (size_t g = 0; run->in_gradient[0] && g < l.groups; g++)
		for (size_t line = 0, n; line < l.lines; line += n ? n : 1) {
			const size_t at = g * l.step + line * l.next;
			const float *y = run->out + at, *dy = run->out_gradient + at;
			float *dx = run->in_gradient[0] + at;

			n = side_by_side(&l, line);
			if (n)
				beside_back(dx, dy, y, l, n);
			else
				centre(dx, dy, y, (float)inner(dy, y, l), l);
		}
	return TW_OK;
}

static void softmax_reference(const struct tw_op_site *site, const struct tw_op_batch *batch,
			      const double *const *in, const double *const *parameter, double *out)
{
	const size_t channels = site->in[0].d[0], size = tw_shape_size(&site->in[0]);
	const size_t pixels = size / channels;

	for (size_t i = 0; i < site->batch * pixels; i++) {
		const size_t at = i / pixels * size + i % pixels;
		double most = in[0][at], sum = 0;

		for (size_t c = 1; c < channels; c++)
			most = fmax(most, in[0][at + c * pixels]);
		for (size_t c = 0; c < channels; c++)
			sum += exp(in[0][at + c * pixels] - most);
		for (size_t c = 0; c < channels; c++)
			out[at + c * pixels] = exp(in[0][at + c * pixels] - most) / sum;
	}
}

static const struct tw_op_sample samples[] = {
	{ "", { 1, { 10 } } },       { "", { 1, { 1 } } },
	{ "", { 1, { 35 } } },       { "", { 3, { 5, 3, 7 } } },
	{ "", { 3, { 32, 1, 3 } } }, { "", { 3, { 19, 1, 1 } } },
	{ "", { 3, { 1, 2, 2 } } },  { NULL },
};

static void softmax_c(const struct tw_op_site *site, FILE *out)
{
	fputs("\tfor (int i = 0; i < H * W; i++) {\n"
	      "\t\tfloat most = x[i];\n"
	      "\t\tdouble sum = 0;\n\n"
	      "\t\tfor (int c = 1; c < C; c++)\n"
	      "\t\t\tmost = fmaxf(most, x[c * H * W + i]);\n"
	      "\t\tfor (int c = 0; c < C; c++)\n"
	      "\t\t\tsum += exp((double)x[c * H * W + i] - most);\n"
	      "\t\tfor (int c = 0; c < C; c++)\n"
	      "\t\t\ty[c * H * W + i] = (float)(exp((double)x[c * H * W + i] - most) / sum);\n"
	      "\t}\n",
	      out);
}

static void softmax_torch(const void *options, const struct tw_shape *in, char text[TW_TORCH_ROOM])
{
	snprintf(text, TW_TORCH_ROOM, "nn.Softmax(1)");
}

static const struct tw_op softmax_op = {
	.name = "softmax",
	.help = "makes values positive with sum 1, over the features or over the channels of each "
		"pixel",
	.traits = TW_OP_READS_OUT | TW_OP_IN_PLACE | TW_OP_BACK_IN_PLACE | TW_OP_FOLLOWS_LAYOUT |
		  TW_OP_SOFTMAX,
	.ins = 1,
	.samples = samples,
	.form = softmax_form,
	.forward = softmax_forward,
	.backward = softmax_backward,
	.reference = softmax_reference,
	.torch = softmax_torch,
	.c = softmax_c,
};

static const struct tw_op *const ops[] = { &softmax_op, NULL };
const struct tw_op_family tw_op_family_softmax = { ops };
