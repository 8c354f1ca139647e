/* SPDX-License-Identifier: Apache-2.0 */
/* recurrent.c - lstm, gru, rnn: each position of a sequence is computed from its features and from
 * what the position before it gave; before the first one is nothing but zeros.
 *
 * Tensors, the order of gates (lstm: i, f, g, o; gru: r, z, n) and formulas are PyTorch's, for one
 * layer.  What is here goes along a sequence once; both_ways.c makes two directions of it.
 * With a = x w_ih^T + b_ih and u = h w_hh^T + b_hh, h of the position
 * before:
 *
 *	lstm	i, f, o = sigmoid(a + u)	g = tanh(a + u)
 *		c = f c + i g			h = o tanh(c)
 *	gru	r, z = sigmoid(a + u)		n = tanh(a + r u)
 *		h = (1 - z) n + z h
 *	rnn	h = tanh(a + u)
 *
 * a is one product over all positions of the batch, u one for each position over the samples.
 * Backward runs from the last position to the first and leaves the gradients of a and of u, from
 * which three more products over all positions make those of the input and of the weights.
 *
 * A sample's positions lie together, so those of one time are lines that are a sample apart.
 * Saved, for each position: the gates, activated, and then the cell (lstm) or u of n (gru), or h
 * (rnn), `all` blocks of `width` values.  Without training they are in scratch. */
#include "graph/both_ways.h"
#include "graph/op/approx.h"
#include "graph/op/product.h"
#include "vec/clone.h"
#include "vec/vec.h"

#include <string.h>

enum { W_IH, W_HH, B_IH, B_HH };

struct recurrent_options {
	struct tw_ways ways; /* must stay first */
	uint32_t width;
};

static const struct tw_option rows[] = {
	TW_OPTION(struct recurrent_options, width, TW_U32, NULL, NULL, 1, 65536,
		  "number of features that each position gets, from each direction"),
	TW_OPTION_CHOICE(
		struct recurrent_options, ways.direction, "direction", "forward", tw_directions,
		"forward: from the first position to the last; both: back again, too, with "
		"features of its own"),
	TW_OPTION_END,
};

struct recurrent_kernel {
	uint32_t project, step;          /* primitives of forward: a, u */
	uint32_t back, dx, dw_ih, dw_hh; /* ... of backward; back: from u to h */
	/* In scratch, behind the scratchpad: forward u and what is saved; backward the gradients of
	 * a and u, what comes back to h and to the cell, and h of the position before. */
	size_t u_at, kept_at, da_at, du_at, dh_at, dc_at, before_at;
};

struct sizes {
	size_t batch, length, in, width;
	size_t gates, all; /* blocks of `width` values: of a, and of what is saved */
};

static struct sizes sizes_of(const struct tw_op_site *site, size_t gates)
{
	const struct recurrent_options *o = site->options;

	return (struct sizes){ site->batch, site->in[0].d[0],         site->in[0].d[1], o->width,
			       gates,       gates > 1 ? gates + 1 : 1 };
}

/* --- what both have in common ----------------------------------------------------------------- */

static enum tw_status form(const void *options, uint32_t gates, const struct tw_shape *in,
			   struct tw_op_form *f, struct tw_error *why)
{
	const uint32_t width = ((const struct recurrent_options *)options)->width, n = in->d[1];
	static const char *const name[] = { "weight_ih_l0", "weight_hh_l0", "bias_ih_l0",
					    "bias_hh_l0" };
	char text[40];

	if (in->rank != 2)
		return tw_fail(why, TW_BAD_INPUT,
			       "needs a sequence, not %s: put embedding before it",
			       tw_shape_text(in, text));
	*f = (struct tw_op_form){ .out = { .rank = 2, .d = { in->d[0], width } }, .parameters = 4 };
	for (uint32_t k = 0; k < 4; k++)
		f->parameter[k] = (struct tw_op_parameter){
			.name = name[k],
			.rank = k < 2 ? 2 : 1,
			.d = { gates * width, k == W_IH   ? n
					      : k == W_HH ? width
							  : 0 },
			.fan_in = width,
			.fan_out = gates * width,
		};
	f->products = 2.0 * in->d[0] * gates * width * ((double)n + width);
	f->flops = f->products + 30.0 * in->d[0] * gates * width;
	return TW_OK;
}

static size_t floats(size_t n)
{
	return tw_op_aligned(n * sizeof(float));
}

static enum tw_status prepare_back(const struct tw_op_site *site, const struct sizes *s,
				   struct tw_onednn *kit, struct recurrent_kernel *k, size_t *need)
{
	const size_t lines = s->batch * s->length, g = s->gates * s->width, h = s->width;
	const dnnl_memory_desc_t turned = tw_product_view(g, lines, 1, g);
	size_t pad = 0;
	enum tw_status st = tw_product_add(
		kit, tw_product_view(s->batch, g, s->length * g, 1), tw_product_view(g, h, h, 1),
		tw_product_view(s->batch, h, h, 1), false, &k->back, &pad);

	if (st == TW_OK && site->wants[0])
		st = tw_product_add(kit, tw_product_view(lines, g, g, 1),
				    tw_product_view(g, s->in, s->in, 1),
				    tw_product_view(lines, s->in, s->in, 1), false, &k->dx, &pad);
	if (st == TW_OK && !site->frozen)
		st = tw_product_add(kit, turned, tw_product_view(lines, s->in, s->in, 1),
				    tw_product_view(g, s->in, s->in, 1), false, &k->dw_ih, &pad);
	if (st == TW_OK && !site->frozen)
		st = tw_product_add(kit, turned, tw_product_view(lines, h, h, 1),
				    tw_product_view(g, h, h, 1), false, &k->dw_hh, &pad);
	k->da_at = tw_op_aligned(pad);
	k->du_at = k->da_at + floats(lines * g);
	k->dh_at = k->du_at + floats(lines * g);
	k->dc_at = k->dh_at + floats(s->batch * h);
	k->before_at = k->dc_at + floats(s->batch * h);
	*need = k->before_at + floats(lines * h);
	return st;
}

static enum tw_status prepare(const struct tw_op_site *site, size_t gates, struct tw_onednn *kit,
			      struct recurrent_kernel *k, struct tw_op_memory *need)
{
	const struct sizes s = sizes_of(site, gates);
	const size_t lines = s.batch * s.length, g = s.gates * s.width, h = s.width;
	const size_t kept = lines * s.all * h;
	size_t pad = 0;
	enum tw_status st = tw_product_add(
		kit, tw_product_view(lines, s.in, s.in, 1), tw_product_view(s.in, g, 1, s.in),
		tw_product_view(lines, g, s.all * h, 1), false, &k->project, &pad);

	if (st == TW_OK)
		st = tw_product_add(kit, tw_product_view(s.batch, h, s.length * h, 1),
				    tw_product_view(h, g, 1, h), tw_product_view(s.batch, g, g, 1),
				    false, &k->step, &pad);
	k->u_at = tw_op_aligned(pad);
	k->kept_at = k->u_at + floats(s.batch * g);
	need->forward = k->kept_at + (site->train ? 0 : floats(kept));
	if (st != TW_OK || !site->train)
		return st;
	need->saved = kept * sizeof(float);
	return prepare_back(site, &s, kit, k, &need->backward);
}

static float *scratch_at(const struct tw_op_run *run, size_t at)
{
	return (float *)((char *)run->scratch + at);
}

/* One position of one sample: kept has a and gets what is saved; u is the product with h, before
 * (and its cell) those of the position before, NULL at the first. */
struct spot {
	float *kept, *h;
	const float *u, *b_ih, *b_hh, *before, *cell;
	size_t width;
};
typedef void (*ahead)(const struct spot *s);

static enum tw_status forward(const struct tw_op_site *site, size_t gates,
			      const struct recurrent_kernel *k, const struct tw_op_run *run,
			      ahead step)
{
	const struct sizes s = sizes_of(site, gates);
	const size_t h = s.width, each = s.all * h;
	float *kept = site->train ? run->saved : scratch_at(run, k->kept_at);
	float *u = scratch_at(run, k->u_at);
	void *const project[] = { tw_product_source(run->in[0]),
				  tw_product_source(run->parameter[W_IH]), kept };
	enum tw_status st = tw_hand_run(run->hand, k->project, project, run->scratch);

	memset(u, 0, s.batch * s.gates * h * sizeof *u);
	for (size_t t = 0; t < s.length && st == TW_OK; t++) {
		void *const product[] = { run->out + (t ? t - 1 : 0) * h,
					  tw_product_source(run->parameter[W_HH]), u };

		if (t)
			st = tw_hand_run(run->hand, k->step, product, run->scratch);
		for (size_t b = 0; b < s.batch && st == TW_OK; b++) {
			const size_t line = b * s.length + t;
			const struct spot spot = {
				.kept = kept + line * each,
				.h = run->out + line * h,
				.u = u + b * s.gates * h,
				.b_ih = run->parameter[B_IH],
				.b_hh = run->parameter[B_HH],
				.before = t ? run->out + (line - 1) * h : NULL,
				.cell = t ? kept + (line - 1) * each + (s.all - 1) * h : NULL,
				.width = h,
			};

			step(&spot);
		}
	}
	return st;
}

/* One position of one sample, backward: dh is what comes to h, dc what comes to the cell (lstm), or
 * to h past u (gru), and then what goes to those of the position before. */
struct back_spot {
	const float *kept, *before, *cell;
	float *da, *du, *dh, *dc;
	size_t width;
};
typedef void (*behind)(const struct back_spot *s);

/* h of the position before each; zeros before the first. */
static void shift(const struct sizes *s, const float *h, float *to)
{
	const size_t n = s->length * s->width;

	for (size_t b = 0; b < s->batch; b++, h += n, to += n) {
		memset(to, 0, s->width * sizeof *to);
		memcpy(to + s->width, h, (n - s->width) * sizeof *to);
	}
}

static enum tw_status weights_back(const struct sizes *s, const struct recurrent_kernel *k,
				   const struct tw_op_run *run)
{
	const size_t lines = s->batch * s->length, g = s->gates * s->width;
	float *da = scratch_at(run, k->da_at), *du = scratch_at(run, k->du_at);
	float *before = scratch_at(run, k->before_at);
	void *const of_x[] = { da, tw_product_source(run->in[0]), run->change[W_IH] };
	void *const of_h[] = { du, before, run->change[W_HH] };
	enum tw_status st = tw_hand_run(run->hand, k->dw_ih, of_x, run->scratch);

	if (st == TW_OK)
		st = tw_hand_run(run->hand, k->dw_hh, of_h, run->scratch);
	tw_vec_sum_rows(run->change[B_IH], da, lines, g);
	tw_vec_sum_rows(run->change[B_HH], du, lines, g);
	return st;
}

static enum tw_status backward(const struct tw_op_site *site, size_t gates,
			       const struct recurrent_kernel *k, const struct tw_op_run *run,
			       behind step)
{
	const struct sizes s = sizes_of(site, gates);
	const size_t h = s.width, g = s.gates * h, each = s.all * h;
	float *da = scratch_at(run, k->da_at), *du = scratch_at(run, k->du_at);
	float *dh = scratch_at(run, k->dh_at), *dc = scratch_at(run, k->dc_at);
	float *before = scratch_at(run, k->before_at);
	const float *kept = run->saved;
	enum tw_status st = TW_OK;

	shift(&s, run->out, before);
	memset(dc, 0, s.batch * h * sizeof *dc);
	for (size_t t = s.length; t-- > 0 && st == TW_OK;) {
		void *const product[] = { du + t * g, tw_product_source(run->parameter[W_HH]), dh };
		for (size_t b = 0; b < s.batch; b++) {
			const size_t line = b * s.length + t;
			const float *dy = run->out_gradient + line * h;
			const struct back_spot spot = {
				.kept = kept + line * each,
				.before = before + line * h,
				.cell = t ? kept + (line - 1) * each + (s.all - 1) * h : NULL,
				.da = da + line * g,
				.du = du + line * g,
				.dh = dh + b * h,
				.dc = dc + b * h,
				.width = h,
			};

			if (t + 1 == s.length)
				tw_vec_copy(spot.dh, dy, h);
			else
				tw_vec_add(spot.dh, dy, h);
			step(&spot);
		}
		if (t)
			st = tw_hand_run(run->hand, k->back, product, run->scratch);
	}
	if (st == TW_OK && run->in_gradient[0]) {
		void *const of_x[] = { da, tw_product_source(run->parameter[W_IH]),
				       run->in_gradient[0] };

		st = tw_hand_run(run->hand, k->dx, of_x, run->scratch);
	}
	return st == TW_OK && !site->frozen ? weights_back(&s, k, run) : st;
}

/* One direction of one sample in double: the k-th position that it comes to has features x_at and
 * gives h_at. */
struct track {
	struct sizes s;
	const double *x, *const *p;
	double *h;
	size_t length, apart; /* apart: from h of a position to the next */
	bool back;
};

static const double *x_at(const struct track *a, size_t k)
{
	return a->x + tw_way_place(a->back, k, a->length) * a->s.in;
}

static double *h_at(const struct track *a, size_t k)
{
	return a->h + tw_way_place(a->back, k, a->length) * a->apart;
}

/* a and u of one gate of the k-th position, as all references need them. */
static void refer_gates(const struct track *on, size_t k, size_t row, double *a, double *u)
{
	const struct sizes *s = &on->s;
	const double *x = x_at(on, k), *h = k ? h_at(on, k - 1) : NULL;

	*a = on->p[B_IH][row];
	*u = on->p[B_HH][row];
	for (size_t i = 0; i < s->in; i++)
		*a += x[i] * on->p[W_IH][row * s->in + i];
	for (size_t i = 0; h && i < s->width; i++)
		*u += h[i] * on->p[W_HH][row * s->width + i];
}

/* All samples in all directions; h_of gives value i of the k-th position. */
static void refer(const struct tw_op_site *site, size_t gates, const double *const *in,
		  const double *const *parameter, double *out,
		  double (*h_of)(const struct track *on, size_t k, size_t i))
{
	const struct sizes s = sizes_of(site, gates);
	const size_t ways = site->out.d[1] / s.width;

	for (size_t line = 0; line < s.batch * ways; line++) {
		const size_t b = line / ways, way = line % ways;
		const struct track on = {
			.s = s,
			.x = in[0] + b * s.length * s.in,
			.p = parameter + 4 * way,
			.h = out + b * s.length * ways * s.width + way * s.width,
			.length = tw_op_refer_length(site, in[1], b),
			.apart = ways * s.width,
			.back = way == 1,
		};

		for (size_t k = 0; k < s.length; k++)
			for (size_t i = 0; i < s.width; i++)
				h_at(&on, k)[i] = h_of(&on, k, i);
	}
}

static double sigmoid(double x)
{
	return 1 / (1 + exp(-x));
}

static const struct tw_op_sample samples[] = {
	{ "3", { 2, { 4, 5 } } },
	{ "17", { 2, { 7, 6 } } },
	{ "width 1", { 2, { 1, 1 } } },
	{ "32", { 2, { 5, 33 } }, 3 },
	{ "3 both", { 2, { 4, 5 } } },
	{ "width 5 direction both", { 2, { 6, 2 } }, .lengths = true },
	{ NULL },
};

/* The table's functions of an op, from those that go along a sequence once. */
#define WAYS(name)                                                                                 \
	static enum tw_status name##_ways_form(const void *options, const struct tw_shape *in,     \
					       struct tw_op_form *f, struct tw_error *why)         \
	{                                                                                          \
		return tw_ways_form(&name##_once, options, in, f, why);                            \
	}                                                                                          \
	static enum tw_status name##_ways_prepare(const struct tw_op_site *site,                   \
						  struct tw_onednn *kit, void *kernel,             \
						  struct tw_op_memory *need)                       \
	{                                                                                          \
		return tw_ways_prepare(&name##_once, site, kit, kernel, need);                     \
	}                                                                                          \
	static enum tw_status name##_ways_forward(const struct tw_op_site *site,                   \
						  const void *kernel, const struct tw_op_run *run) \
	{                                                                                          \
		return tw_ways_forward(&name##_once, site, kernel, run);                           \
	}                                                                                          \
	static enum tw_status name##_ways_backward(                                                \
		const struct tw_op_site *site, const void *kernel, const struct tw_op_run *run)    \
	{                                                                                          \
		return tw_ways_backward(&name##_once, site, kernel, run);                          \
	}

static void say_torch(const char *name, const void *options, const struct tw_shape *in,
		      char text[TW_TORCH_ROOM])
{
	const struct recurrent_options *o = options;

	snprintf(text, TW_TORCH_ROOM, "%s(%u, %u, batch_first=True%s)", name, in->d[1], o->width,
		 tw_goes_both_ways(o) ? ", bidirectional=True" : "");
}

/* One direction in C; `h` makes value i of position t from a[] and u[]. */
static void write_way(const struct tw_op_site *site, size_t gates, bool back, const char *h,
		      FILE *out)
{
	const unsigned p = back ? 4 : 0;

	fprintf(out,
		"\tfor (int k = 0; k < C; k++) {\n"
		"\t\tconst int t = %s, s = %s;\n"
		"\t\tconst float *const h = y + s * MH + %s;\n"
		"\t\tfloat *const to = y + t * MH + %s;\n\n"
		"\t\tfor (int i = 0; i < EACH; i++) {\n"
		"\t\t\tdouble a[%zu], u[%zu];\n\n"
		"\t\t\tfor (int g = 0; g < %zu; g++) {\n"
		"\t\t\t\tconst int r = g * EACH + i;\n\n"
		"\t\t\t\ta[g] = p%u[r];\n"
		"\t\t\t\tu[g] = p%u[r];\n"
		"\t\t\t\tfor (int j = 0; j < H; j++)\n"
		"\t\t\t\t\ta[g] += (double)x[t * H + j] * p%u[r * H + j];\n"
		"\t\t\t\tfor (int j = 0; k && j < EACH; j++)\n"
		"\t\t\t\t\tu[g] += (double)h[j] * p%u[r * EACH + j];\n"
		"\t\t\t}\n"
		"%s"
		"\t\t}\n"
		"\t}\n",
		back ? "k < length ? length - 1 - k : k" : "k",
		back ? "!k ? 0 : k - 1 < length ? length - k : k - 1" : "k ? k - 1 : 0",
		back ? "EACH" : "0", back ? "EACH" : "0", gates, gates, gates, p + B_IH, p + B_HH,
		p + W_IH, p + W_HH, h);
}

static void write_c(const struct tw_op_site *site, size_t gates, const char *h, FILE *out)
{
	const struct recurrent_options *o = site->options;

	fprintf(out, "\tenum { EACH = %u };\n", o->width);
	if (gates == 4)
		fputs("\tdouble c[EACH] = { 0 };\n", out);
	if (tw_goes_both_ways(o))
		fprintf(out, "\tconst int length = %s;\n", site->ins > 1 ? "(int)z[0]" : "C");
	fputc('\n', out);
	write_way(site, gates, false, h, out);
	if (tw_goes_both_ways(o))
		write_way(site, gates, true, h, out);
}

#define TORCH_CLASS(name)                                                                          \
	"class " name "(nn." name "):\n"                                                           \
	"    def forward(self, x):\n"                                                              \
	"        return super().forward(x)[0]\n"
#define TORCH_PADDED(name)                                                                         \
	"class " name "(nn." name "):\n"                                                           \
	"    def forward(self, x):\n"                                                              \
	"        packed = nn.utils.rnn.pack_padded_sequence(\n"                                    \
	"            x, Series.length.cpu(), batch_first=True, enforce_sorted=False)\n"            \
	"        return nn.utils.rnn.pad_packed_sequence(\n"                                       \
	"            super().forward(packed)[0], batch_first=True, total_length=x.shape[1])[0]\n"

/* --- lstm ------------------------------------------------------------------------------------- */

static enum tw_status lstm_form(const void *options, const struct tw_shape *in,
				struct tw_op_form *f, struct tw_error *why)
{
	return form(options, 4, in, f, why);
}

static enum tw_status lstm_prepare(const struct tw_op_site *site, struct tw_onednn *kit,
				   void *kernel, struct tw_op_memory *need)
{
	return prepare(site, 4, kit, kernel, need);
}

TW_CLONED_STATIC(void, lstm_cell,
		 (float *restrict kept, float *restrict h, const float *restrict u,
		  const float *restrict b_ih, const float *restrict b_hh,
		  const float *restrict cell, size_t n),
		 (kept, h, u, b_ih, b_hh, cell, n))
{
	for (size_t k = 0; k < n; k++) {
		const float i = approx_sigmoid(kept[k] + b_ih[k] + (u[k] + b_hh[k]));
		const float f =
			approx_sigmoid(kept[n + k] + b_ih[n + k] + (u[n + k] + b_hh[n + k]));
		const float g = approx_tanh(kept[2 * n + k] + b_ih[2 * n + k] +
					    (u[2 * n + k] + b_hh[2 * n + k]));
		const float o = approx_sigmoid(kept[3 * n + k] + b_ih[3 * n + k] +
					       (u[3 * n + k] + b_hh[3 * n + k]));
		const float c = fmaf(f, cell ? cell[k] : 0, i * g);

		kept[k] = i;
		kept[n + k] = f;
		kept[2 * n + k] = g;
		kept[3 * n + k] = o;
		kept[4 * n + k] = c;
		h[k] = o * approx_tanh(c);
	}
}

static void lstm_ahead(const struct spot *s)
{
	lstm_cell(s->kept, s->h, s->u, s->b_ih, s->b_hh, s->cell, s->width);
}

static enum tw_status lstm_forward(const struct tw_op_site *site, const void *kernel,
				   const struct tw_op_run *run)
{
	return forward(site, 4, kernel, run, lstm_ahead);
}

TW_CLONED_STATIC(void, lstm_slope,
		 (const float *restrict kept, const float *restrict cell, float *restrict da,
		  float *restrict dh, float *restrict dc, size_t n),
		 (kept, cell, da, dh, dc, n))
{
	for (size_t k = 0; k < n; k++) {
		const float i = kept[k], f = kept[n + k], g = kept[2 * n + k];
		const float o = kept[3 * n + k], tanh_c = approx_tanh(kept[4 * n + k]);
		const float d = fmaf(dh[k] * o, 1 - tanh_c * tanh_c, dc[k]);

		da[k] = d * g * i * (1 - i);
		da[n + k] = d * (cell ? cell[k] : 0) * f * (1 - f);
		da[2 * n + k] = d * i * (1 - g * g);
		da[3 * n + k] = dh[k] * tanh_c * o * (1 - o);
		dc[k] = d * f;
	}
}

static void lstm_behind(const struct back_spot *s)
{
	lstm_slope(s->kept, s->cell, s->da, s->dh, s->dc, s->width);
	memcpy(s->du, s->da, 4 * s->width * sizeof *s->du);
}

static enum tw_status lstm_backward(const struct tw_op_site *site, const void *kernel,
				    const struct tw_op_run *run)
{
	return backward(site, 4, kernel, run, lstm_behind);
}

/* The cell of the k-th position, from the first one on. */
static double lstm_refer(const struct track *on, size_t k, size_t i)
{
	double cell = 0, open = 0;

	for (size_t at = 0; at <= k; at++) {
		double gate[4];

		for (size_t g = 0; g < 4; g++) {
			double a, u;

			refer_gates(on, at, g * on->s.width + i, &a, &u);
			gate[g] = g == 2 ? tanh(a + u) : sigmoid(a + u);
		}
		cell = gate[1] * cell + gate[0] * gate[2];
		open = gate[3];
	}
	return open * tanh(cell);
}

static void lstm_reference(const struct tw_op_site *site, const struct tw_op_batch *batch,
			   const double *const *in, const double *const *parameter, double *out)
{
	refer(site, 4, in, parameter, out, lstm_refer);
}

static void lstm_torch(const void *options, const struct tw_shape *in, char text[TW_TORCH_ROOM])
{
	say_torch("LSTM", options, in, text);
}

static void lstm_c(const struct tw_op_site *site, FILE *out)
{
	write_c(site, 4,
		"\t\t\tc[i] = (k ? c[i] / (1 + exp(-a[1] - u[1])) : 0) +\n"
		"\t\t\t\ttanh(a[2] + u[2]) / (1 + exp(-a[0] - u[0]));\n"
		"\t\t\tto[i] = (float)(tanh(c[i]) / (1 + exp(-a[3] - u[3])));\n",
		out);
}

static const struct tw_op lstm_once = {
	.form = lstm_form,
	.prepare = lstm_prepare,
	.forward = lstm_forward,
	.backward = lstm_backward,
};
WAYS(lstm)

#define TRAITS (TW_OP_READS_IN | TW_OP_READS_OUT | TW_OP_BY_POSITION | TW_OP_TAKES_LENGTHS)

static const struct tw_op lstm_op = {
	.name = "lstm",
	.help = "long short-term memory: each position from its features and what came before",
	.traits = TRAITS,
	.ins = 1,
	.options = rows,
	.positional = 2,
	.options_bytes = sizeof(struct recurrent_options),
	.kernel_bytes = TW_WAYS_KERNEL + sizeof(struct recurrent_kernel),
	.samples = samples,
	.form = lstm_ways_form,
	.prepare = lstm_ways_prepare,
	.forward = lstm_ways_forward,
	.backward = lstm_ways_backward,
	.reference = lstm_reference,
	.torch = lstm_torch,
	.c = lstm_c,
	.torch_class = TORCH_CLASS("LSTM"),
	.torch_padded = TORCH_PADDED("LSTM"),
};

/* --- gru -------------------------------------------------------------------------------------- */

static enum tw_status gru_form(const void *options, const struct tw_shape *in, struct tw_op_form *f,
			       struct tw_error *why)
{
	return form(options, 3, in, f, why);
}

static enum tw_status gru_prepare(const struct tw_op_site *site, struct tw_onednn *kit,
				  void *kernel, struct tw_op_memory *need)
{
	return prepare(site, 3, kit, kernel, need);
}

TW_CLONED_STATIC(void, gru_cell,
		 (float *restrict kept, float *restrict h, const float *restrict u,
		  const float *restrict b_ih, const float *restrict b_hh,
		  const float *restrict before, size_t w),
		 (kept, h, u, b_ih, b_hh, before, w))
{
	for (size_t k = 0; k < w; k++) {
		const float r = approx_sigmoid(kept[k] + b_ih[k] + (u[k] + b_hh[k]));
		const float z =
			approx_sigmoid(kept[w + k] + b_ih[w + k] + (u[w + k] + b_hh[w + k]));
		const float of_h = u[2 * w + k] + b_hh[2 * w + k];
		const float n = approx_tanh(fmaf(r, of_h, kept[2 * w + k] + b_ih[2 * w + k]));

		kept[k] = r;
		kept[w + k] = z;
		kept[2 * w + k] = n;
		kept[3 * w + k] = of_h;
		h[k] = fmaf(z, (before ? before[k] : 0) - n, n);
	}
}

static void gru_ahead(const struct spot *s)
{
	gru_cell(s->kept, s->h, s->u, s->b_ih, s->b_hh, s->before, s->width);
}

static enum tw_status gru_forward(const struct tw_op_site *site, const void *kernel,
				  const struct tw_op_run *run)
{
	return forward(site, 3, kernel, run, gru_ahead);
}

/* past: what comes back to h of the position behind this one without going through its u. */
TW_CLONED_STATIC(void, gru_slope,
		 (const float *restrict kept, const float *restrict before, float *restrict da,
		  float *restrict du, const float *restrict dh, float *restrict past, size_t w),
		 (kept, before, da, du, dh, past, w))
{
	for (size_t k = 0; k < w; k++) {
		const float r = kept[k], z = kept[w + k], n = kept[2 * w + k];
		const float d = dh[k] + past[k], dn = d * (1 - z) * (1 - n * n);

		da[k] = du[k] = dn * kept[3 * w + k] * r * (1 - r);
		da[w + k] = du[w + k] = d * (before[k] - n) * z * (1 - z);
		da[2 * w + k] = dn;
		du[2 * w + k] = dn * r;
		past[k] = d * z;
	}
}

static void gru_behind(const struct back_spot *s)
{
	gru_slope(s->kept, s->before, s->da, s->du, s->dh, s->dc, s->width);
}

static enum tw_status gru_backward(const struct tw_op_site *site, const void *kernel,
				   const struct tw_op_run *run)
{
	return backward(site, 3, kernel, run, gru_behind);
}

static double gru_refer(const struct track *on, size_t k, size_t i)
{
	double a[3], u[3], z, n;

	for (size_t g = 0; g < 3; g++)
		refer_gates(on, k, g * on->s.width + i, &a[g], &u[g]);
	z = sigmoid(a[1] + u[1]);
	n = tanh(a[2] + sigmoid(a[0] + u[0]) * u[2]);
	return (1 - z) * n + z * (k ? h_at(on, k - 1)[i] : 0);
}

static void gru_reference(const struct tw_op_site *site, const struct tw_op_batch *batch,
			  const double *const *in, const double *const *parameter, double *out)
{
	refer(site, 3, in, parameter, out, gru_refer);
}

static void gru_torch(const void *options, const struct tw_shape *in, char text[TW_TORCH_ROOM])
{
	say_torch("GRU", options, in, text);
}

static void gru_c(const struct tw_op_site *site, FILE *out)
{
	write_c(site, 3,
		"\t\t\tconst double past = 1 / (1 + exp(-a[1] - u[1]));\n"
		"\t\t\tconst double n = tanh(a[2] + u[2] / (1 + exp(-a[0] - u[0])));\n\n"
		"\t\t\tto[i] = (float)((1 - past) * n + (k ? past * h[i] : 0));\n",
		out);
}

static const struct tw_op gru_once = {
	.form = gru_form,
	.prepare = gru_prepare,
	.forward = gru_forward,
	.backward = gru_backward,
};
WAYS(gru)

static const struct tw_op gru_op = {
	.name = "gru",
	.help = "gated recurrent unit: each position from its features and what came before",
	.traits = TRAITS,
	.ins = 1,
	.options = rows,
	.positional = 2,
	.options_bytes = sizeof(struct recurrent_options),
	.kernel_bytes = TW_WAYS_KERNEL + sizeof(struct recurrent_kernel),
	.samples = samples,
	.form = gru_ways_form,
	.prepare = gru_ways_prepare,
	.forward = gru_ways_forward,
	.backward = gru_ways_backward,
	.reference = gru_reference,
	.torch = gru_torch,
	.c = gru_c,
	.torch_class = TORCH_CLASS("GRU"),
	.torch_padded = TORCH_PADDED("GRU"),
};

/* --- rnn -------------------------------------------------------------------------------------- */

static enum tw_status rnn_form(const void *options, const struct tw_shape *in, struct tw_op_form *f,
			       struct tw_error *why)
{
	return form(options, 1, in, f, why);
}

static enum tw_status rnn_prepare(const struct tw_op_site *site, struct tw_onednn *kit,
				  void *kernel, struct tw_op_memory *need)
{
	return prepare(site, 1, kit, kernel, need);
}

TW_CLONED_STATIC(void, rnn_cell,
		 (float *restrict kept, float *restrict h, const float *restrict u,
		  const float *restrict b_ih, const float *restrict b_hh, size_t n),
		 (kept, h, u, b_ih, b_hh, n))
{
	for (size_t k = 0; k < n; k++)
		kept[k] = h[k] = approx_tanh(kept[k] + b_ih[k] + (u[k] + b_hh[k]));
}

static void rnn_ahead(const struct spot *s)
{
	rnn_cell(s->kept, s->h, s->u, s->b_ih, s->b_hh, s->width);
}

static enum tw_status rnn_forward(const struct tw_op_site *site, const void *kernel,
				  const struct tw_op_run *run)
{
	return forward(site, 1, kernel, run, rnn_ahead);
}

TW_CLONED_STATIC(void, rnn_slope,
		 (const float *restrict kept, float *restrict da, float *restrict du,
		  const float *restrict dh, size_t n),
		 (kept, da, du, dh, n))
{
	for (size_t k = 0; k < n; k++)
		da[k] = du[k] = dh[k] * (1 - kept[k] * kept[k]);
}

static void rnn_behind(const struct back_spot *s)
{
	rnn_slope(s->kept, s->da, s->du, s->dh, s->width);
}

static enum tw_status rnn_backward(const struct tw_op_site *site, const void *kernel,
				   const struct tw_op_run *run)
{
	return backward(site, 1, kernel, run, rnn_behind);
}

static double rnn_refer(const struct track *on, size_t k, size_t i)
{
	double a, u;

	refer_gates(on, k, i, &a, &u);
	return tanh(a + u);
}

static void rnn_reference(const struct tw_op_site *site, const struct tw_op_batch *batch,
			  const double *const *in, const double *const *parameter, double *out)
{
	refer(site, 1, in, parameter, out, rnn_refer);
}

static void rnn_torch(const void *options, const struct tw_shape *in, char text[TW_TORCH_ROOM])
{
	say_torch("RNN", options, in, text);
}

static void rnn_c(const struct tw_op_site *site, FILE *out)
{
	write_c(site, 1, "\t\t\tto[i] = (float)tanh(a[0] + u[0]);\n", out);
}

static const struct tw_op rnn_once = {
	.form = rnn_form,
	.prepare = rnn_prepare,
	.forward = rnn_forward,
	.backward = rnn_backward,
};
WAYS(rnn)

static const struct tw_op rnn_op = {
	.name = "rnn",
	.elsewhere = (const char *const[]){ "elman", "simple-rnn", "simplernn", NULL },
	.help = "plain recurrence: tanh of a position's features and of what came before",
	.traits = TRAITS,
	.ins = 1,
	.options = rows,
	.positional = 2,
	.options_bytes = sizeof(struct recurrent_options),
	.kernel_bytes = TW_WAYS_KERNEL + sizeof(struct recurrent_kernel),
	.samples = samples,
	.form = rnn_ways_form,
	.prepare = rnn_ways_prepare,
	.forward = rnn_ways_forward,
	.backward = rnn_ways_backward,
	.reference = rnn_reference,
	.torch = rnn_torch,
	.c = rnn_c,
	.torch_class = TORCH_CLASS("RNN"),
	.torch_padded = TORCH_PADDED("RNN"),
};

static const struct tw_op *const ops[] = { &lstm_op, &gru_op, &rnn_op, NULL };
const struct tw_op_family tw_op_family_recurrent = { ops };
