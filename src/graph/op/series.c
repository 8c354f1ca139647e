/* SPDX-License-Identifier: Apache-2.0 */
/* series.c - series: rows of values as a sequence with a length; summary: a sequence as one row.
 *
 * A sample of a series is its length and then all positions, feature by feature, as the data has
 * them; what is behind the length is padding, and becomes 0 whatever it was. */
#include "graph/op.h"
#include "vec/vec.h"

#include <math.h>
#include <string.h>

/* --- series ----------------------------------------------------------------------------------- */

struct series_options {
	uint32_t width;
};

static const struct tw_option series_rows[] = {
	TW_OPTION(struct series_options, width, TW_U32, NULL, NULL, 1, 65536,
		  "number of features of each position: the columns of the data that are read"),
	TW_OPTION_END,
};

static enum tw_status series_form(const void *options, const struct tw_shape *in,
				  struct tw_op_form *form, struct tw_error *why)
{
	const uint32_t width = ((const struct series_options *)options)->width;
	char text[40];

	if (in->rank != 1 || in->d[0] < 2 || (in->d[0] - 1) % width)
		return tw_fail(why, TW_BAD_INPUT,
			       "needs a length and then positions of %u features, as data.group "
			       "makes them, not %s values",
			       width, tw_shape_text(in, text));
	*form = (struct tw_op_form){ .out = { .rank = 2, .d = { (in->d[0] - 1) / width, width } } };
	return TW_OK;
}

static enum tw_status series_forward(const struct tw_op_site *site, const void *kernel,
				     const struct tw_op_run *run)
{
	const size_t positions = site->out.d[0], width = site->out.d[1], n = positions * width;

	for (size_t b = 0; b < site->batch; b++) {
		const float *x = run->in[0] + b * (n + 1);
		float *y = run->out + b * n;
		size_t some;

		if (!(x[0] >= 1 && x[0] <= (float)positions) || x[0] != floorf(x[0]))
			return TW_BAD_INPUT;
		some = (size_t)x[0] * width;
		tw_vec_copy(y, x + 1, some);
		tw_vec_fill(y + some, 0, n - some);
	}
	return TW_OK;
}

static enum tw_status series_backward(const struct tw_op_site *site, const void *kernel,
				      const struct tw_op_run *run)
{
	const size_t width = site->out.d[1], n = site->out.d[0] * width;

	for (size_t b = 0; run->in_gradient[0] && b < site->batch; b++) {
		const size_t some = (size_t)run->in[0][b * (n + 1)] * width;
		float *dx = run->in_gradient[0] + b * (n + 1);

		dx[0] = 0;
		tw_vec_copy(dx + 1, run->out_gradient + b * n, some);
		tw_vec_fill(dx + 1 + some, 0, n - some);
	}
	return TW_OK;
}

static void series_reference(const struct tw_op_site *site, const struct tw_op_batch *batch,
			     const double *const *in, const double *const *parameter, double *out)
{
	const size_t width = site->out.d[1], n = site->out.d[0] * width;

	for (size_t i = 0; i < site->batch * n; i++) {
		const double *x = in[0] + i / n * (n + 1);

		out[i] = (double)(i % n / width) < floor(x[0] + 0.5) ? x[1 + i % n] : 0;
	}
}

static void series_torch(const void *options, const struct tw_shape *in, char text[TW_TORCH_ROOM])
{
	const struct series_options *o = options;

	snprintf(text, TW_TORCH_ROOM, "Series(%u)", o->width);
}

static void series_c(const struct tw_op_site *site, FILE *out)
{
	fprintf(out, "\tfor (int i = 0; i < M; i++)\n"
		     "\t\ty[i] = i / MH < (int)x[0] ? x[1 + i] : 0;\n");
}

static const struct tw_op_sample series_samples[] = {
	{ "3", { 1, { 13 } } },
	{ "1", { 1, { 2 } } },
	{ "width 5", { 1, { 36 } } },
	{ NULL },
};

static const struct tw_op series_op = {
	.name = "series",
	.help = "the values of a sample as positions of so many features; the first layer of a "
		"model of series",
	.traits = TW_OP_READS_IN | TW_OP_GIVES_LENGTHS,
	.ins = 1,
	.options = series_rows,
	.positional = 1,
	.options_bytes = sizeof(struct series_options),
	.samples = series_samples,
	.form = series_form,
	.forward = series_forward,
	.backward = series_backward,
	.reference = series_reference,
	.torch = series_torch,
	.c = series_c,
	.torch_class = "class Series(nn.Module):  # rows of a length and then all positions\n"
		       "    length = None  # of the samples of the batch, for the layers behind\n"
		       "\n"
		       "    def __init__(self, width):\n"
		       "        super().__init__()\n"
		       "        self.width = width\n"
		       "\n"
		       "    @staticmethod\n"
		       "    def mask(x):\n"
		       "        return torch.arange(x.shape[1], device=x.device)[None, :, None] < "
		       "Series.length[:, None, None]\n"
		       "\n"
		       "    def forward(self, x):\n"
		       "        Series.length = x[:, 0].long()\n"
		       "        x = x[:, 1:].view(len(x), -1, self.width)\n"
		       "        return torch.where(Series.mask(x), x, 0.0)\n",
};

/* --- summary ---------------------------------------------------------------------------------- */

enum { SUMMARY_MEAN, SUMMARY_MAX, SUMMARY_LAST };

static const char *const summaries[] = { "mean", "max", "last", NULL };

struct summary_options {
	uint32_t of;
};

static const struct tw_option summary_rows[] = {
	TW_OPTION_CHOICE(struct summary_options, of, "of", "mean", summaries,
			 "mean or max: of each feature over all positions; last: the features of "
			 "the last position"),
	TW_OPTION_END,
};

static enum tw_status summary_form(const void *options, const struct tw_shape *in,
				   struct tw_op_form *form, struct tw_error *why)
{
	char text[40];

	if (in->rank != 2)
		return tw_fail(why, TW_BAD_INPUT,
			       "needs a sequence, not %s: put embedding or series before it",
			       tw_shape_text(in, text));
	*form = (struct tw_op_form){ .out = { .rank = 1, .d = { in->d[1] } },
				     .flops = (double)tw_shape_size(in) };
	return TW_OK;
}

static uint32_t kind_of(const struct tw_op_site *site)
{
	return ((const struct summary_options *)site->options)->of;
}

/* Saved: of a maximum, the position that has it. */
static enum tw_status summary_prepare(const struct tw_op_site *site, struct tw_onednn *kit,
				      void *kernel, struct tw_op_memory *need)
{
	if (site->train && kind_of(site) == SUMMARY_MAX)
		need->saved = site->batch * site->out.d[0] * sizeof(uint32_t);
	return TW_OK;
}

/* The first of the largest; NaN is larger than all. */
static void largest(const float *x, size_t length, size_t n, float *y, uint32_t *at)
{
	for (size_t k = 0; k < n; k++) {
		size_t best = 0;

		for (size_t t = 1; t < length && !isnan(x[best * n + k]); t++)
			if (!(x[t * n + k] <= x[best * n + k]))
				best = t;
		y[k] = x[best * n + k];
		if (at)
			at[k] = (uint32_t)best;
	}
}

static enum tw_status summary_forward(const struct tw_op_site *site, const void *kernel,
				      const struct tw_op_run *run)
{
	const size_t positions = site->in[0].d[0], n = site->in[0].d[1];

	for (size_t b = 0; b < site->batch; b++) {
		const size_t length = tw_op_length(site, run->in[1], b);
		const float *x = run->in[0] + b * positions * n;
		float *y = run->out + b * n;

		if (kind_of(site) == SUMMARY_LAST) {
			tw_vec_copy(y, x + (length - 1) * n, n);
		} else if (kind_of(site) == SUMMARY_MAX) {
			largest(x, length, n, y,
				site->train ? (uint32_t *)run->saved + b * n : NULL);
		} else {
			tw_vec_sum_rows(y, x, length, n);
			tw_vec_scale(y, 1.0f / (float)length, n);
		}
	}
	return TW_OK;
}

static enum tw_status summary_backward(const struct tw_op_site *site, const void *kernel,
				       const struct tw_op_run *run)
{
	const size_t positions = site->in[0].d[0], n = site->in[0].d[1];

	for (size_t b = 0; run->in_gradient[0] && b < site->batch; b++) {
		const size_t length = tw_op_length(site, run->in[1], b);
		const float *dy = run->out_gradient + b * n;
		float *dx = run->in_gradient[0] + b * positions * n;

		tw_vec_fill(dx, 0, positions * n);
		if (kind_of(site) == SUMMARY_LAST)
			tw_vec_copy(dx + (length - 1) * n, dy, n);
		for (size_t k = 0; kind_of(site) == SUMMARY_MAX && k < n; k++)
			dx[((const uint32_t *)run->saved)[b * n + k] * n + k] = dy[k];
		for (size_t t = 0; kind_of(site) == SUMMARY_MEAN && t < length; t++)
			tw_vec_scale_to(dx + t * n, 1.0f / (float)length, dy, n);
	}
	return TW_OK;
}

static void summary_reference(const struct tw_op_site *site, const struct tw_op_batch *batch,
			      const double *const *in, const double *const *parameter, double *out)
{
	const size_t positions = site->in[0].d[0], n = site->in[0].d[1];

	for (size_t i = 0; i < site->batch * n; i++) {
		const size_t length = tw_op_refer_length(site, in[1], i / n);
		const double *x = in[0] + i / n * positions * n + i % n;
		double sum = 0, most = x[0];

		for (size_t t = 0; t < length; t++) {
			sum += x[t * n] / (double)length;
			most = x[t * n] > most ? x[t * n] : most;
		}
		out[i] = kind_of(site) == SUMMARY_MEAN  ? sum
			 : kind_of(site) == SUMMARY_MAX ? most
							: x[(length - 1) * n];
	}
}

static void summary_torch(const void *options, const struct tw_shape *in, char text[TW_TORCH_ROOM])
{
	const struct summary_options *o = options;

	snprintf(text, TW_TORCH_ROOM, "Summary(\"%s\")", summaries[o->of]);
}

static void summary_c(const struct tw_op_site *site, FILE *out)
{
	static const char *const add[] = {
		"sum += (double)x[t * H + i] / length",
		"sum = t == 0 || x[t * H + i] > sum ? x[t * H + i] : sum", "sum = x[t * H + i]"
	};

	fprintf(out,
		"\tconst int length = %s;\n\n"
		"\tfor (int i = 0; i < H; i++) {\n"
		"\t\tdouble sum = 0;\n\n"
		"\t\tfor (int t = 0; t < length; t++)\n"
		"\t\t\t%s;\n"
		"\t\ty[i] = (float)sum;\n"
		"\t}\n",
		site->ins > 1 ? "(int)z[0]" : "C", add[kind_of(site)]);
}

static const struct tw_op_sample summary_samples[] = {
	{ "", { 2, { 5, 7 } } },
	{ "max", { 2, { 3, 4 } } },
	{ "of last", { 2, { 4, 3 } } },
	{ "mean", { 2, { 6, 5 } }, .lengths = true },
	{ "max", { 2, { 5, 3 } }, .lengths = true },
	{ "last", { 2, { 7, 2 } }, .lengths = true },
	{ NULL },
};

static const struct tw_op summary_op = {
	.name = "summary",
	.help = "one row of features for a whole sequence, such as for its class",
	.traits = TW_OP_READS_IN | TW_OP_BY_POSITION | TW_OP_TAKES_LENGTHS,
	.ins = 1,
	.options = summary_rows,
	.positional = 1,
	.options_bytes = sizeof(struct summary_options),
	.samples = summary_samples,
	.form = summary_form,
	.prepare = summary_prepare,
	.forward = summary_forward,
	.backward = summary_backward,
	.reference = summary_reference,
	.torch = summary_torch,
	.c = summary_c,
	.torch_class = "class Summary(nn.Module):\n"
		       "    def __init__(self, of):\n"
		       "        super().__init__()\n"
		       "        self.of = of\n"
		       "\n"
		       "    def forward(self, x):\n"
		       "        if self.of == \"last\":\n"
		       "            return x[:, -1]\n"
		       "        return x.mean(1) if self.of == \"mean\" else x.amax(1)\n",
	.torch_padded =
		"class Summary(nn.Module):\n"
		"    def __init__(self, of):\n"
		"        super().__init__()\n"
		"        self.of = of\n"
		"\n"
		"    def forward(self, x):\n"
		"        if self.of == \"last\":\n"
		"            return x[torch.arange(len(x)), Series.length - 1]\n"
		"        if self.of == \"max\":\n"
		"            return x.masked_fill(~Series.mask(x), float(\"-inf\")).amax(1)\n"
		"        return (x * Series.mask(x)).sum(1) / Series.length[:, None]\n",
};

static const struct tw_op *const ops[] = { &series_op, &summary_op, NULL };
const struct tw_op_family tw_op_family_series = { ops };
