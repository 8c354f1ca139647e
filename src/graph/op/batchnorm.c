/* SPDX-License-Identifier: Apache-2.0 */
/* batchnorm.c - each channel to mean 0 and variance 1 over the batch, then scaled and moved.
 *
 * As PyTorch: training normalises with the biased variance of the batch, and the running variance
 * moves towards the unbiased one; evaluation uses the running statistics.  A channel that has only
 * one value in the batch (which PyTorch refuses) has variance 0, and leaves running_var alone.
 * Late changes of asynchronous workers may lead a running variance below 0 for a while: it counts
 * as 0 then.
 *
 * Sums are of distances from the channel's first value, so one pass is enough for mean and
 * variance.
 *
 * Saved: mean, 1 / deviation and biased variance of each channel.
 * Scratch: see channel_sums.h. */
#include "graph/channel_sums.h"
#include "graph/op.h"
#include "vec/clone.h"

#include <math.h>

struct norm_options {
	float momentum, epsilon;
};

static const struct tw_option norm_options[] = {
	TW_OPTION(struct norm_options, momentum, TW_F32, "0.1", NULL, 0, 1,
		  "weight of a batch in the running statistics"),
	TW_OPTION(struct norm_options, epsilon, TW_F32, "1e-5", NULL, 1e-12, 1,
		  "added to the variance"),
	TW_OPTION_END
};

enum { WEIGHT, BIAS, MEAN, VAR };

static enum tw_status form(const void *options, const struct tw_shape *in, struct tw_op_form *f,
			   struct tw_error *why)
{
	static const char *const name[] = { "weight", "bias", "running_mean", "running_var" };

	f->out = *in;
	for (uint32_t k = 0; k < 4; k++)
		f->parameter[k] = (struct tw_op_parameter){
			.name = name[k],
			.rank = 1,
			.d = { in->d[0] },
			.fill = k == WEIGHT || k == VAR ? 1 : 0,
			.buffer = k >= MEAN,
		};
	f->parameters = 4;
	f->flops = 7.0 * (double)tw_shape_size(in);
	return TW_OK;
}

static enum tw_status prepare(const struct tw_op_site *site, struct tw_onednn *kit, void *kernel,
			      struct tw_op_memory *need)
{
	const struct tw_channels v = tw_channels_of(site);

	need->forward = tw_channel_sums_bytes(&v);
	if (site->train) {
		need->saved = 3 * v.channels * sizeof(float);
		need->backward = need->forward;
	}
	return TW_OK;
}

/* Mean, 1 / deviation and variance of every channel. */
static void statistics(const struct tw_channels *v, const float *x, float epsilon,
		       const struct tw_channel_sums *p, float *saved)
{
	const size_t c = v->channels;

	for (size_t b = 0; b < v->blocks; b++) {
		for (size_t l = 0; l < v->lanes; l++)
			p->shift[l] = x[b * v->rows * v->inner + (v->inner == 1 ? 0 : l)];
		tw_channel_sums_add(v, b, x, NULL, p);
		for (size_t i = 0; i < v->inner; i++) {
			const double far = p->total[i] / v->count;
			const double var = p->total[v->lanes + i] / v->count - far * far;
			const double safe = var < 0 ? 0 : var;
			const size_t k = b * v->inner + i;

			saved[k] = (float)((double)p->shift[i] + far);
			saved[c + k] = (float)(1.0 / sqrt(safe + (double)epsilon));
			saved[2 * c + k] = (float)safe;
		}
	}
}

static inline __attribute__((always_inline)) void move_rows(
	const float *restrict x, const float *restrict mean, const float *restrict scale,
	const float *restrict bias, size_t rows, size_t inner, bool relu, float *restrict y)
{
	for (size_t r = 0; r < rows; r++)
		for (size_t i = 0; i < inner; i++) {
			const float v = (x[r * inner + i] - mean[i]) * scale[i] + bias[i];

			y[r * inner + i] = relu && v < 0 ? 0 : v;
		}
}

TW_CLONED_STATIC(void, move,
		 (const float *x, const float *mean, const float *scale, const float *bias,
		  size_t rows, size_t inner, bool relu, float *y),
		 (x, mean, scale, bias, rows, inner, relu, y))
{
#define CALL(width)                                                                                \
	(relu ? move_rows(x, mean, scale, bias, rows, width, true, y)                              \
	      : move_rows(x, mean, scale, bias, rows, width, false, y))
	TW_CHANNELS_SIZED(inner, CALL)
#undef CALL
}

static enum tw_status forward(const struct tw_op_site *site, const void *kernel,
			      const struct tw_op_run *run)
{
	const struct norm_options *o = site->options;
	const struct tw_channels v = tw_channels_of(site);
	const struct tw_channel_sums p = tw_channel_sums_in(&v, run->scratch);
	const float *mean = run->parameter[MEAN];
	float *scale = p.factor[0];

	if (site->train) {
		statistics(&v, run->in[0], o->epsilon, &p, run->saved);
		mean = run->saved;
		for (size_t c = 0; c < v.channels; c++)
			scale[c] = run->parameter[WEIGHT][c] * mean[v.channels + c];
	} else {
		for (size_t c = 0; c < v.channels; c++) {
			const float var = run->parameter[VAR][c];

			scale[c] =
				run->parameter[WEIGHT][c] / sqrtf((var < 0 ? 0 : var) + o->epsilon);
		}
	}
	for (size_t k = 0; k < v.batch * v.blocks; k++) {
		const size_t c = k % v.blocks * v.inner, at = k * v.rows * v.inner;

		move(run->in[0] + at, mean + c, scale + c, run->parameter[BIAS] + c, v.rows,
		     v.inner, site->relu, run->out + at);
	}
	return TW_OK;
}

/* dx may be dy */
static inline __attribute__((always_inline)) void back_rows(
	const float *x, const float *dy, const float *restrict mean, const float *restrict f0,
	const float *restrict f1, const float *restrict f2, size_t rows, size_t inner, float *dx)
{
	for (size_t r = 0; r < rows; r++)
		_Pragma("GCC ivdep") for (size_t i = 0; i < inner; i++)
		{
			const float d = x[r * inner + i] - mean[i];

			dx[r * inner + i] = (dy[r * inner + i] - f1[i]) * f0[i] - d * f2[i];
		}
}

static inline __attribute__((always_inline)) void back_run(const float *x, const float *dy,
							   float mean, float f0, float f1, float f2,
							   size_t n, float *dx)
{
	_Pragma("GCC ivdep") for (size_t i = 0; i < n; i++) dx[i] =
		(dy[i] - f1) * f0 - (x[i] - mean) * f2;
}

TW_CLONED_STATIC(void, back,
		 (const float *x, const float *dy, const float *mean, const float *f0,
		  const float *f1, const float *f2, size_t rows, size_t inner, float *dx),
		 (x, dy, mean, f0, f1, f2, rows, inner, dx))
{
#define CALL(width) back_rows(x, dy, mean, f0, f1, f2, rows, width, dx)
	if (inner == 1)
		back_run(x, dy, *mean, *f0, *f1, *f2, rows, dx);
	else
		TW_CHANNELS_SIZED(inner, CALL)
#undef CALL
}

/* Gradients of weight and bias, and how dx follows from dy and x. */
static void back_sums(const struct tw_channels *v, const struct tw_op_run *run,
		      const struct tw_channel_sums *p)
{
	const float *mean = run->saved, *inverse = mean + v->channels;

	for (size_t b = 0; b < v->blocks; b++) {
		for (size_t l = 0; l < v->lanes; l++)
			p->shift[l] = mean[b * v->inner + (v->inner == 1 ? 0 : l)];
		tw_channel_sums_add(v, b, run->in[0], run->out_gradient, p);
		for (size_t i = 0; i < v->inner; i++) {
			const size_t c = b * v->inner + i;
			const double inv = (double)inverse[c];
			const double k = (double)run->parameter[WEIGHT][c] * inv;
			const double weight = p->total[v->lanes + i] * inv;

			if (run->change[WEIGHT]) {
				run->change[WEIGHT][c] = (float)weight;
				run->change[BIAS][c] = (float)p->total[i];
			}
			p->factor[0][c] = (float)k;
			p->factor[1][c] = (float)(p->total[i] / v->count);
			p->factor[2][c] = (float)(k * weight * inv / v->count);
		}
	}
}

static enum tw_status backward(const struct tw_op_site *site, const void *kernel,
			       const struct tw_op_run *run)
{
	const struct norm_options *o = site->options;
	const struct tw_channels v = tw_channels_of(site);
	struct tw_channel_sums p;
	const float *mean = run->saved, *var = mean + 2 * v.channels;
	const float unbiased = v.count > 1 ? (float)(v.count / (v.count - 1)) : 0;

	for (size_t c = 0; c < v.channels; c++) {
		run->change[MEAN][c] = o->momentum * (mean[c] - run->parameter[MEAN][c]);
		run->change[VAR][c] =
			v.count > 1 ? o->momentum * (var[c] * unbiased - run->parameter[VAR][c])
				    : 0;
	}
	if (site->frozen && !site->wants[0])
		return TW_OK;
	p = tw_channel_sums_in(&v, run->scratch);
	back_sums(&v, run, &p);
	for (size_t k = 0; site->wants[0] && k < v.batch * v.blocks; k++) {
		const size_t c = k % v.blocks * v.inner, at = k * v.rows * v.inner;

		back(run->in[0] + at, run->out_gradient + at, mean + c, p.factor[0] + c,
		     p.factor[1] + c, p.factor[2] + c, v.rows, v.inner, run->in_gradient[0] + at);
	}
	return TW_OK;
}

static void reference(const struct tw_op_site *site, const struct tw_op_batch *batch,
		      const double *const *in, const double *const *parameter, double *out)
{
	const struct norm_options *o = site->options;
	const size_t channels = site->in[0].d[0], each = tw_shape_size(&site->in[0]);
	const size_t pixels = each / channels, count = site->batch * pixels;

	for (size_t c = 0; c < channels; c++) {
		double mean = parameter[MEAN][c], var = parameter[VAR][c];

#define AT(k) ((k) / pixels * each + c * pixels + (k) % pixels)
		if (site->train) {
			mean = var = 0;
			for (size_t k = 0; k < count; k++)
				mean += in[0][AT(k)] / (double)count;
			for (size_t k = 0; k < count; k++)
				var += (in[0][AT(k)] - mean) * (in[0][AT(k)] - mean) /
				       (double)count;
		}
		for (size_t k = 0; k < count; k++) {
			const double y = (in[0][AT(k)] - mean) / sqrt(var + (double)o->epsilon) *
						 parameter[WEIGHT][c] +
					 parameter[BIAS][c];

			out[AT(k)] = site->relu && y < 0 ? 0 : y;
		}
#undef AT
	}
}

static const struct tw_op_sample samples[] = {
	{ "", { 1, { 7 } }, 5 },
	{ "epsilon 0.01", { 1, { 33 } }, 3 },
	{ "", { 1, { 3 } }, 1 },
	{ "", { 3, { 3, 5, 4 } } },
	{ "momentum 0.3", { 3, { 16, 3, 2 } } },
	{ "", { 3, { 32, 3, 7 } }, 2 },
	{ "", { 3, { 2, 9, 8 } }, 1 },
	{ NULL },
};

static void c(const struct tw_op_site *site, FILE *out)
{
	const struct norm_options *o = site->options;

	fprintf(out,
		"\tfor (int c = 0; c < C; c++) {\n"
		"\t\tconst float scale = p0[c] / sqrtf(fmaxf(p3[c], 0) + (float)%.9g);\n\n"
		"\t\tfor (int i = c * H * W; i < (c + 1) * H * W; i++)\n"
		"\t\t\ty[i] = (x[i] - p2[c]) * scale + p1[c];\n"
		"\t}\n",
		(double)o->epsilon);
}

static void torch(const void *options, const struct tw_shape *in, char text[TW_TORCH_ROOM])
{
	const struct norm_options *o = options;

	snprintf(text, TW_TORCH_ROOM, "nn.BatchNorm%ud(%u, eps=%.9g, momentum=%.9g)",
		 in->rank == 1 ? 1u : 2u, in->d[0], (double)o->epsilon, (double)o->momentum);
}

static const struct tw_op batchnorm = {
	.name = "batchnorm",
	.elsewhere = (const char *const[]){ "bn", NULL },
	.help = "normalises each channel to mean 0 and variance 1 over the batch, then scales and "
		"shifts it",
	.traits = TW_OP_READS_IN | TW_OP_BACK_IN_PLACE | TW_OP_FOLLOWS_LAYOUT | TW_OP_TAKES_RELU |
		  TW_OP_RANDOM_BATCH,
	.ins = 1,
	.options = norm_options,
	.options_bytes = sizeof(struct norm_options),
	.samples = samples,
	.form = form,
	.prepare = prepare,
	.forward = forward,
	.backward = backward,
	.reference = reference,
	.torch = torch,
	.c = c,
};

const struct tw_op_family tw_op_family_batchnorm = { (const struct tw_op *const[]){ &batchnorm,
										    NULL } };
