/* SPDX-License-Identifier: Apache-2.0 */
/* local.c - locally connected: a convolution whose every place has filters of its own.
 *
 * Weight: place (row by row), filter, channel, row and column of the window; bias: place, filter.
 * For each place the batch's windows are gathered into a matrix [batch][window] and multiplied with
 * that place's weights [filter][window].
 *
 * Scratch: windows [batch][window], values [batch][filters], weights of a place that do not lie in
 * one piece, scratchpad of the products. */
#include "graph/op.h"
#include "graph/op/window.h"

#include <string.h>

struct local_options {
	uint32_t filters;
	struct tw_extent size, stride, pad;
	bool bias;
};

static const struct tw_option local_options[] = {
	TW_OPTION(struct local_options, filters, TW_U32, NULL, "channels", 1, 65536,
		  "channels of the output"),
	TW_OPTION(struct local_options, size, TW_EXTENT, NULL, "pixels", 1, 255,
		  "height and width of a window"),
	TW_OPTION(struct local_options, stride, TW_EXTENT, "1", "pixels", 1, 255,
		  "pixels from one window to the next"),
	TW_OPTION(struct local_options, pad, TW_EXTENT, "0", "pixels", 0, 254,
		  "zeros put around each plane"),
	TW_OPTION(struct local_options, bias, TW_BOOL, "true", NULL, 0, 0,
		  "add one trained value per place and filter"),
	TW_OPTION_END
};

struct local_kernel {
	uint32_t forward, data, weights;      /* products for one place */
	size_t values_at, weights_at, pad_at; /* in scratch */
};

static struct tw_window window_of(const struct local_options *o)
{
	return (struct tw_window){ o->size, o->stride, o->pad };
}

static enum tw_status form(const void *options, const struct tw_shape *in, struct tw_op_form *f,
			   struct tw_error *why)
{
	const struct local_options *o = options;
	const struct tw_window w = window_of(o);
	const enum tw_status st = tw_window_slide(&w, in, o->filters, &f->out, why);
	const uint64_t taps = (uint64_t)o->size.h * o->size.w;
	uint64_t places;

	if (st != TW_OK)
		return st;
	places = (uint64_t)f->out.d[1] * f->out.d[2];
	if (in->d[0] * taps > INT32_MAX || o->filters * taps > INT32_MAX || places > INT32_MAX ||
	    (double)places * (double)o->filters * (double)(in->d[0] * taps) > 1e12)
		return tw_fail(why, TW_BAD_INPUT, "filters of that size have too many weights");
	f->parameter[0] = (struct tw_op_parameter){
		.name = "weight",
		.rank = 5,
		.d = { (uint32_t)places, o->filters, in->d[0], o->size.h, o->size.w },
		.fan_in = (uint32_t)(in->d[0] * taps),
		.fan_out = (uint32_t)(o->filters * taps),
	};
	f->parameter[1] = (struct tw_op_parameter){ .name = "bias",
						    .rank = 2,
						    .d = { (uint32_t)places, o->filters } };
	f->parameters = o->bias ? 2 : 1;
	f->products = 2.0 * (double)tw_shape_size(&f->out) * f->parameter[0].fan_in;
	f->flops = f->products + (o->bias ? (double)tw_shape_size(&f->out) : 0);
	return TW_OK;
}

/* The numbers the loops need. */
struct frame {
	struct tw_window w;
	size_t channels, h, wide, window; /* of the input; values of a window */
	size_t filters, places, across;   /* of the output; places in a row */
	size_t batch;
};

static struct frame frame_of(const struct tw_op_site *site)
{
	const struct local_options *o = site->options;

	return (struct frame){
		.w = window_of(o),
		.channels = site->in[0].d[0],
		.h = site->in[0].d[1],
		.wide = site->in[0].d[2],
		.window = (size_t)site->in[0].d[0] * o->size.h * o->size.w,
		.filters = o->filters,
		.places = (size_t)site->out.d[1] * site->out.d[2],
		.across = site->out.d[2],
		.batch = site->batch,
	};
}

/* A product c[m][n] = a b, with a and b given by their steps from row to row and within one. */
static enum tw_status product(struct tw_onednn *kit, size_t m, size_t n, size_t k,
			      const size_t a[2], const size_t b[2], uint32_t *id, size_t *scratch)
{
	static const int arg[] = { DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST };
	const dnnl_dims_t da = { (dnnl_dim_t)m, (dnnl_dim_t)k },
			  db = { (dnnl_dim_t)k, (dnnl_dim_t)n };
	const dnnl_dims_t dc = { (dnnl_dim_t)m, (dnnl_dim_t)n };
	const dnnl_dims_t sa = { (dnnl_dim_t)a[0], (dnnl_dim_t)a[1] };
	const dnnl_dims_t sb = { (dnnl_dim_t)b[0], (dnnl_dim_t)b[1] };
	dnnl_memory_desc_t ma, mb, mc;
	dnnl_primitive_desc_t pd;
	enum tw_status st =
		tw_onednn_status(dnnl_memory_desc_init_by_strides(&ma, 2, da, dnnl_f32, sa));

	if (st == TW_OK)
		st = tw_onednn_status(dnnl_memory_desc_init_by_strides(&mb, 2, db, dnnl_f32, sb));
	if (st == TW_OK)
		st = tw_onednn_status(dnnl_memory_desc_init_by_tag(&mc, 2, dc, dnnl_f32, dnnl_ab));
	if (st == TW_OK)
		st = tw_onednn_product(kit, &ma, &mb, &mc, false, &pd);
	return st == TW_OK ? tw_onednn_add(kit, pd, arg, 3, id, scratch) : st;
}

static enum tw_status prepare(const struct tw_op_site *site, struct tw_onednn *kit, void *kernel,
			      struct tw_op_memory *need)
{
	struct local_kernel *k = kernel;
	const struct frame f = frame_of(site);
	const size_t by_window[] = { f.window, 1 }, window_by[] = { 1, f.window };
	const size_t by_filter[] = { f.filters, 1 }, filter_by[] = { 1, f.filters };
	size_t ahead = 0, back = 0;
	enum tw_status st = product(kit, f.batch, f.filters, f.window, by_window, window_by,
				    &k->forward, &ahead);

	if (st == TW_OK && site->train && !site->frozen)
		st = product(kit, f.filters, f.window, f.batch, filter_by, by_window, &k->weights,
			     &back);
	if (st == TW_OK && site->train && site->wants[0])
		st = product(kit, f.batch, f.window, f.filters, by_filter, by_window, &k->data,
			     &back);
	k->values_at = tw_op_aligned(f.batch * f.window * sizeof(float));
	k->weights_at = k->values_at + tw_op_aligned(f.batch * f.filters * sizeof(float));
	k->pad_at = k->weights_at + tw_op_aligned(f.filters * f.window * sizeof(float));
	need->forward = k->pad_at + ahead;
	if (site->train)
		need->backward = k->pad_at + back;
	return st;
}

/* Move the window at `place` of one sample: from x to `window`, or add it back into dx. */
static void each_tap(const struct frame *f, size_t place, const float *x, float *window, float *dx)
{
	const size_t y = place / f->across, u = place % f->across;
	size_t r0, r1, q0, q1;

	tw_window_taps(y, f->w.size.h, f->w.stride.h, f->w.pad.h, f->h, &r0, &r1);
	tw_window_taps(u, f->w.size.w, f->w.stride.w, f->w.pad.w, f->wide, &q0, &q1);
	for (size_t c = 0; c < f->channels; c++)
		for (size_t r = r0; r < r1; r++) {
			const size_t row = c * f->h + y * f->w.stride.h + r - f->w.pad.h;
			const size_t from = row * f->wide + u * f->w.stride.w + q0 - f->w.pad.w;
			float *to = window + (c * f->w.size.h + r) * f->w.size.w + q0;

			if (x)
				memcpy(to, x + from, (q1 - q0) * sizeof *to);
			else
				for (size_t q = 0; q < q1 - q0; q++)
					dx[from + q] += to[q];
		}
}

static void gather(const struct frame *f, size_t place, const float *x, float *windows)
{
	memset(windows, 0, f->batch * f->window * sizeof *windows);
	for (size_t b = 0; b < f->batch; b++)
		each_tap(f, place, x + b * f->channels * f->h * f->wide, windows + b * f->window,
			 NULL);
}

/* The weights of one place. */
static void *weights_of(const struct frame *f, const struct local_kernel *k,
			const struct tw_op_run *run, size_t place)
{
	const size_t n = f->filters * f->window;
	float *room = (float *)((char *)run->scratch + k->weights_at);

	/* oneDNN's handles know no const; sources are only read */
	return (void *)(uintptr_t)tw_op_values(run, 0, place * n, n, room);
}

static enum tw_status forward(const struct tw_op_site *site, const void *kernel,
			      const struct tw_op_run *run)
{
	const struct local_kernel *k = kernel;
	const struct frame f = frame_of(site);
	float *windows = run->scratch;
	float *values = (float *)((char *)run->scratch + k->values_at);
	const float *bias = run->parameter[1];
	enum tw_status st = TW_OK;

	for (size_t p = 0; st == TW_OK && p < f.places; p++) {
		void *data[] = { windows, weights_of(&f, k, run, p), values };

		gather(&f, p, run->in[0], windows);
		st = tw_hand_run(run->hand, k->forward, data, (char *)run->scratch + k->pad_at);
		for (size_t i = 0; i < f.batch * f.filters; i++) {
			const float v =
				values[i] + (bias ? bias[p * f.filters + i % f.filters] : 0);

			run->out[i * f.places + p] = site->relu && v < 0 ? 0 : v;
		}
	}
	return st;
}

/* The gradient at one place as [batch][filters], and what it sums to. */
static void pick(const struct frame *f, size_t place, const float *dy, float *values, float *bias)
{
	if (bias)
		memset(bias, 0, f->filters * sizeof *bias);
	for (size_t b = 0; b < f->batch; b++)
		for (size_t i = 0; i < f->filters; i++) {
			values[b * f->filters + i] = dy[(b * f->filters + i) * f->places + place];
			if (bias)
				bias[i] += values[b * f->filters + i];
		}
}

static enum tw_status backward(const struct tw_op_site *site, const void *kernel,
			       const struct tw_op_run *run)
{
	const struct local_kernel *k = kernel;
	const struct local_options *o = site->options;
	const struct frame f = frame_of(site);
	const size_t each = f.channels * f.h * f.wide, weights = f.filters * f.window;
	float *windows = run->scratch;
	float *values = (float *)((char *)run->scratch + k->values_at);
	void *pad = (char *)run->scratch + k->pad_at;
	enum tw_status st = TW_OK;

	if (site->wants[0])
		memset(run->in_gradient[0], 0, f.batch * each * sizeof(float));
	for (size_t p = 0; st == TW_OK && p < f.places; p++) {
		void *change[] = { values, windows, NULL };
		void *data[] = { values, NULL, windows };

		pick(&f, p, run->out_gradient, values,
		     o->bias && !site->frozen ? run->change[1] + p * f.filters : NULL);
		if (!site->frozen) {
			change[2] = run->change[0] + p * weights;
			gather(&f, p, run->in[0], windows);
			st = tw_hand_run(run->hand, k->weights, change, pad);
		}
		if (st != TW_OK || !site->wants[0])
			continue;
		data[1] = weights_of(&f, k, run, p);
		st = tw_hand_run(run->hand, k->data, data, pad);
		for (size_t b = 0; b < f.batch; b++)
			each_tap(&f, p, NULL, windows + b * f.window,
				 run->in_gradient[0] + b * each);
	}
	return st;
}

/* The value of one filter at one place of one sample. */
static double one(const struct frame *f, const double *x, const double *weight, size_t place)
{
	double sum = 0;

	for (size_t k = 0; k < f->window; k++) {
		const size_t q = k % f->w.size.w, r = k / f->w.size.w % f->w.size.h;
		const size_t c = k / (f->w.size.h * f->w.size.w);
		const size_t y = place / f->across * f->w.stride.h + r;
		const size_t u = place % f->across * f->w.stride.w + q;

		if (y >= f->w.pad.h && y < f->h + f->w.pad.h && u >= f->w.pad.w &&
		    u < f->wide + f->w.pad.w)
			sum += weight[k] *
			       x[(c * f->h + y - f->w.pad.h) * f->wide + u - f->w.pad.w];
	}
	return sum;
}

static void reference(const struct tw_op_site *site, const struct tw_op_batch *batch,
		      const double *const *in, const double *const *parameter, double *out)
{
	const struct local_options *o = site->options;
	const struct frame f = frame_of(site);

	for (size_t b = 0; b < f.batch; b++)
		for (size_t i = 0; i < f.filters; i++)
			for (size_t p = 0; p < f.places; p++) {
				const size_t at = p * f.filters + i;
				double v = one(&f, in[0] + b * f.channels * f.h * f.wide,
					       parameter[0] + at * f.window, p);

				if (o->bias)
					v += parameter[1][at];
				*out++ = site->relu && v < 0 ? 0 : v;
			}
}

static const struct tw_op_sample samples[] = {
	{ "3 3x3", { 3, { 1, 4, 5 } } },
	{ "2 3x2 stride 2x1 pad 1", { 3, { 3, 4, 3 } }, 2 },
	{ "5 2 bias false", { 3, { 4, 3, 3 } }, 3 },
	{ "17 1", { 3, { 2, 2, 1 } }, 2 },
	{ NULL },
};

static void c(const struct tw_op_site *site, FILE *out)
{
	const struct local_options *o = site->options;
	const struct tw_window w = { o->size, o->stride, o->pad };

	tw_window_c(&w, out);
	tw_window_c_loops("0", "C", o->bias ? "p1[(r * MW + q) * MC + f]" : "0",
			  "sum += (double)x[(c * H + h) * W + w] *\n"
			  "\t\t\t\t\tp0[((((r * MW + q) * MC + f) * C + c) * KH + a) * KW + b]",
			  "sum", out);
}

static void torch(const void *options, const struct tw_shape *in, char text[TW_TORCH_ROOM])
{
	const struct local_options *o = options;

	snprintf(text, TW_TORCH_ROOM, "Local((%u, %u, %u), %u, (%u, %u), (%u, %u), (%u, %u), %s)",
		 in->d[0], in->d[1], in->d[2], o->filters, o->size.h, o->size.w, o->stride.h,
		 o->stride.w, o->pad.h, o->pad.w, o->bias ? "True" : "False");
}

static const struct tw_op local = {
	.name = "local",
	.help = "like conv, but every place has its own filters: local 16 3x3",
	.traits = TW_OP_READS_IN | TW_OP_TAKES_RELU | TW_OP_TAKES_PIECES,
	.ins = 1,
	.options = local_options,
	.positional = 2,
	.options_bytes = sizeof(struct local_options),
	.kernel_bytes = sizeof(struct local_kernel),
	.samples = samples,
	.form = form,
	.prepare = prepare,
	.forward = forward,
	.backward = backward,
	.reference = reference,
	.torch = torch,
	.c = c,
	.torch_class =
		"class Local(nn.Module):  # a convolution whose every place has weights of its "
		"own\n"
		"    def __init__(self, shape, filters, size, stride, pad, bias):\n"
		"        super().__init__()\n"
		"        self.window = dict(kernel_size=size, stride=stride, padding=pad)\n"
		"        self.out = [(shape[k + 1] + 2 * pad[k] - size[k]) // stride[k] + 1"
		" for k in (0, 1)]\n"
		"        places = self.out[0] * self.out[1]\n"
		"        self.weight = nn.Parameter("
		"torch.zeros(places, filters, shape[0], *size))\n"
		"        self.bias = nn.Parameter(torch.zeros(places, filters)) if bias else None\n"
		"\n"
		"    def forward(self, x):\n"
		"        x = nn.functional.unfold(x, **self.window)\n"
		"        x = torch.einsum(\"nkl,lfk->nfl\", x, self.weight.flatten(2))\n"
		"        x = x if self.bias is None else x + self.bias.t()\n"
		"        return x.unflatten(2, self.out)\n",
};

const struct tw_op_family tw_op_family_local = { (const struct tw_op *const[]){ &local, NULL } };
