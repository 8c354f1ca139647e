/* SPDX-License-Identifier: Apache-2.0 */
/* attention.c - each position of a sequence takes a weighted mean of values of all positions, or
 * of those up to itself, by heads.
 *
 * A position's features are queries, keys and values one after the other, each of the heads side by
 * side: what `linear` with three times the width gives.  Per head, with scores s = q k^T / sqrt(d):
 *
 *	p = softmax(s), by rows		y = p v
 *	dv = p^T dy	dp = dy v^T	ds = p (dp - sum(p dp)) / sqrt(d)
 *	dq = ds k	dk = ds^T q
 *
 * Products are oneDNN's, head by head on strided views, so nothing is copied; scale, mask and
 * softmax are one pass of ours over a row.  What the mask hides has the weight 0 exactly.
 *
 * Saved: p of all heads of the batch; where nothing is saved it is one head's, in scratch.  Scratch
 * of backward: dp of one head.  In both the scratchpad of the primitives is first. */
#include "graph/op.h"
#include "graph/op/approx.h"
#include "graph/op/product.h"
#include "vec/clone.h"
#include "vec/vec.h"

#define LANES 16
#define APART _Pragma("GCC ivdep")

enum { MASK_CAUSAL, MASK_NONE };

static const char *const masks[] = { "causal", "none", NULL };

struct attention_options {
	uint32_t heads, mask;
};

static const struct tw_option rows[] = {
	TW_OPTION(struct attention_options, heads, TW_U32, NULL, NULL, 1, 65536,
		  "number of heads; the features are divided among them"),
	TW_OPTION_CHOICE(struct attention_options, mask, "mask", "causal", masks,
			 "causal: a position sees itself and those before it; none: it sees all"),
	TW_OPTION_END,
};

struct attention_kernel {
	uint32_t scores, mix;           /* primitives of forward */
	uint32_t dv, dp, dq, dk;        /* ... of backward */
	size_t forward_at, backward_at; /* in scratch, behind the scratchpad */
};

/* Sizes of a site, in floats. */
struct sizes {
	size_t heads, length, each; /* features of a head */
	size_t width;               /* of all heads; three times as many come in */
	size_t square;              /* weights of a head */
};

static struct sizes sizes_of(const struct tw_op_site *site)
{
	const struct attention_options *o = site->options;
	const size_t width = site->out.d[1], length = site->out.d[0];

	return (struct sizes){ o->heads, length, width / o->heads, width, length * length };
}

static enum tw_status form(const void *options, const struct tw_shape *in, struct tw_op_form *f,
			   struct tw_error *why)
{
	const struct attention_options *o = options;
	const uint32_t length = in->d[0], each = 3 * o->heads;
	char text[40];

	if (in->rank != 2)
		return tw_fail(why, TW_BAD_INPUT,
			       "needs a sequence, not %s: put embedding before it",
			       tw_shape_text(in, text));
	if (in->d[1] % each)
		return tw_fail(why, TW_BAD_INPUT,
			       "needs queries, keys and values of %u heads, so a multiple of %u "
			       "features, not %u; put before it, for example, linear %u",
			       o->heads, each, in->d[1],
			       in->d[1] > UINT32_MAX - each ? each : (in->d[1] / each + 1) * each);
	*f = (struct tw_op_form){ .out = { .rank = 2, .d = { length, in->d[1] / 3 } } };
	f->products = 4.0 * length * length * f->out.d[1];
	f->flops = f->products + 20.0 * length * length * o->heads;
	return TW_OK;
}

static enum tw_status prepare_back(const struct sizes *s, struct tw_onednn *kit,
				   struct attention_kernel *k, size_t *pad)
{
	const size_t t = s->length, d = s->each, in = 3 * s->width;
	const dnnl_memory_desc_t part = tw_product_view(t, d, in, 1),
				 weights = tw_product_view(t, t, t, 1);
	const dnnl_memory_desc_t turned = tw_product_view(t, t, 1, t),
				 back = tw_product_view(t, d, s->width, 1);
	enum tw_status st = tw_product_add(kit, turned, back, part, false, &k->dv, pad);

	if (st == TW_OK)
		st = tw_product_add(kit, back, tw_product_view(d, t, 1, in), weights, false, &k->dp,
				    pad);
	if (st == TW_OK)
		st = tw_product_add(kit, weights, part, part, false, &k->dq, pad);
	return st == TW_OK ? tw_product_add(kit, turned, part, part, false, &k->dk, pad) : st;
}

static enum tw_status prepare(const struct tw_op_site *site, struct tw_onednn *kit, void *kernel,
			      struct tw_op_memory *need)
{
	const struct sizes s = sizes_of(site);
	const size_t t = s.length, d = s.each, in = 3 * s.width;
	const size_t square = s.square * sizeof(float);
	struct attention_kernel *k = kernel;
	size_t pad = 0, back = 0;
	enum tw_status st =
		tw_product_add(kit, tw_product_view(t, d, in, 1), tw_product_view(d, t, 1, in),
			       tw_product_view(t, t, t, 1), false, &k->scores, &pad);

	if (st == TW_OK)
		st = tw_product_add(kit, tw_product_view(t, t, t, 1), tw_product_view(t, d, in, 1),
				    tw_product_view(t, d, s.width, 1), false, &k->mix, &pad);
	k->forward_at = tw_op_aligned(pad);
	need->forward = k->forward_at + (site->train ? 0 : square);
	if (st != TW_OK || !site->train)
		return st;
	st = prepare_back(&s, kit, k, &back);
	k->backward_at = tw_op_aligned(back);
	need->saved = site->batch * s.heads * square;
	need->backward = k->backward_at + square;
	return st;
}

/* The first n of `all` scores become weights, the others 0. */
TW_CLONED_STATIC(void, weigh, (float *x, float scale, size_t n, size_t all), (x, scale, n, all))
{
	double lane[LANES] = { 0 }, sum = 0;
	float most = x[0], factor;
	size_t i = 0;

	for (size_t k = 1; k < n; k++)
		most = x[k] > most ? x[k] : most;
	APART
	for (size_t k = 0; k < n; k++)
		x[k] = approx_exp((x[k] - most) * scale);
	for (; i + LANES <= n; i += LANES)
		for (size_t k = 0; k < LANES; k++)
			lane[k] += (double)x[i + k];
	for (size_t k = 0; i + k < n; k++)
		lane[k] += (double)x[i + k];
	for (size_t k = 0; k < LANES; k++)
		sum += lane[k];
	factor = (float)(1 / sum);
	APART
	for (size_t k = 0; k < n; k++)
		x[k] *= factor;
	APART
	for (size_t k = n; k < all; k++)
		x[k] = 0;
}

/* dp becomes ds. */
TW_CLONED_STATIC(void, slope,
		 (float *restrict d, const float *restrict p, float along, float scale, size_t n,
		  size_t all),
		 (d, p, along, scale, n, all))
{
	for (size_t k = 0; k < n; k++)
		d[k] = p[k] * (d[k] - along) * scale;
	for (size_t k = n; k < all; k++)
		d[k] = 0;
}

static float scale_of(const struct sizes *s)
{
	return (float)(1 / sqrt((double)s->each));
}

/* How many positions the position number r sees, of a sample of this length. */
static size_t seen(const struct tw_op_site *site, size_t r, size_t length)
{
	const struct attention_options *o = site->options;

	return o->mask == MASK_CAUSAL && r < length ? r + 1 : length;
}

static enum tw_status forward_head(const struct tw_op_site *site, const struct attention_kernel *k,
				   const struct tw_op_run *run, const float *x, size_t length,
				   float *p, float *y)
{
	const struct sizes s = sizes_of(site);
	void *const scores[] = { tw_product_source(x), tw_product_source(x + s.width), p };
	void *const mix[] = { p, tw_product_source(x + 2 * s.width), y };
	const enum tw_status st = tw_hand_run(run->hand, k->scores, scores, run->scratch);

	if (st != TW_OK)
		return st;
	for (size_t r = 0; r < s.length; r++)
		weigh(p + r * s.length, scale_of(&s), seen(site, r, length), s.length);
	return tw_hand_run(run->hand, k->mix, mix, run->scratch);
}

static enum tw_status forward(const struct tw_op_site *site, const void *kernel,
			      const struct tw_op_run *run)
{
	const struct attention_kernel *k = kernel;
	const struct sizes s = sizes_of(site);
	float *own = (float *)((char *)run->scratch + k->forward_at);
	enum tw_status st = TW_OK;

	for (size_t b = 0; b < site->batch; b++)
		for (size_t h = 0; h < s.heads && st == TW_OK; h++) {
			float *p = site->train ? (float *)run->saved + (b * s.heads + h) * s.square
					       : own;

			st = forward_head(site, k, run,
					  run->in[0] + b * s.length * 3 * s.width + h * s.each,
					  tw_op_length(site, run->in[1], b), p,
					  run->out + b * s.length * s.width + h * s.each);
		}
	return st;
}

static enum tw_status back_head(const struct tw_op_site *site, const struct attention_kernel *k,
				const struct tw_op_run *run, const float *x, const float *p,
				const float *dy, size_t length, float *dx)
{
	const struct sizes s = sizes_of(site);
	float *d = (float *)((char *)run->scratch + k->backward_at);
	void *const dv[] = { tw_product_source(p), tw_product_source(dy), dx + 2 * s.width };
	void *const dp[] = { tw_product_source(dy), tw_product_source(x + 2 * s.width), d };
	void *const dq[] = { d, tw_product_source(x + s.width), dx };
	void *const dk[] = { d, tw_product_source(x), dx + s.width };
	enum tw_status st = tw_hand_run(run->hand, k->dv, dv, run->scratch);

	if (st == TW_OK)
		st = tw_hand_run(run->hand, k->dp, dp, run->scratch);
	if (st != TW_OK)
		return st;
	for (size_t r = 0, at = 0; r < s.length; r++, at += s.length) {
		const size_t n = seen(site, r, length);

		slope(d + at, p + at, (float)tw_vec_dot(p + at, d + at, n), scale_of(&s), n,
		      s.length);
	}
	st = tw_hand_run(run->hand, k->dq, dq, run->scratch);
	return st == TW_OK ? tw_hand_run(run->hand, k->dk, dk, run->scratch) : st;
}

static enum tw_status backward(const struct tw_op_site *site, const void *kernel,
			       const struct tw_op_run *run)
{
	const struct attention_kernel *k = kernel;
	const struct sizes s = sizes_of(site);
	enum tw_status st = TW_OK;

	if (!run->in_gradient[0])
		return TW_OK;
	for (size_t b = 0; b < site->batch; b++)
		for (size_t h = 0; h < s.heads && st == TW_OK; h++) {
			const size_t in = b * s.length * 3 * s.width + h * s.each;

			st = back_head(site, k, run, run->in[0] + in,
				       (const float *)run->saved + (b * s.heads + h) * s.square,
				       run->out_gradient + b * s.length * s.width + h * s.each,
				       tw_op_length(site, run->in[1], b), run->in_gradient[0] + in);
		}
	return st;
}

/* One position of one head, whose queries begin at x; keys and values of position i are at
 * from + 3 i * width. */
static void refer(const struct sizes *s, const double *x, const double *from, size_t n, double *y)
{
	const size_t in = 3 * s->width;
	double sum = 0;

	for (size_t e = 0; e < s->each; e++)
		y[e] = 0;
	for (size_t i = 0; i < n; i++) {
		double score = 0;

		for (size_t e = 0; e < s->each; e++)
			score += x[e] * from[i * in + s->width + e];
		score = exp(score / sqrt((double)s->each));
		sum += score;
		for (size_t e = 0; e < s->each; e++)
			y[e] += score * from[i * in + 2 * s->width + e];
	}
	for (size_t e = 0; e < s->each; e++)
		y[e] /= sum;
}

static void reference(const struct tw_op_site *site, const struct tw_op_batch *batch,
		      const double *const *in, const double *const *parameter, double *out)
{
	const struct sizes s = sizes_of(site);

	for (size_t b = 0; b < site->batch; b++)
		for (size_t r = 0; r < s.length; r++)
			for (size_t h = 0; h < s.heads; h++) {
				const double *from =
					in[0] + b * s.length * 3 * s.width + h * s.each;

				refer(&s, from + r * 3 * s.width, from,
				      seen(site, r, tw_op_refer_length(site, in[1], b)),
				      out + (b * s.length + r) * s.width + h * s.each);
			}
}

static const struct tw_op_sample samples[] = {
	{ "1", { 2, { 5, 9 } } },
	{ "3 causal", { 2, { 17, 45 } } },
	{ "2 none", { 2, { 7, 12 } } },
	{ "heads 4 mask causal", { 2, { 33, 96 } }, 2 },
	{ "1 none", { 2, { 1, 3 } }, 1 },
	{ "2 none", { 2, { 7, 12 } }, .lengths = true },
	{ "2", { 2, { 6, 12 } }, .lengths = true },
	{ NULL },
};

static void torch(const void *options, const struct tw_shape *in, char text[TW_TORCH_ROOM])
{
	const struct attention_options *o = options;

	snprintf(text, TW_TORCH_ROOM, "Attention(%u%s)", o->heads,
		 o->mask == MASK_CAUSAL ? "" : ", causal=False");
}

static const struct tw_op attention_op = {
	.name = "attention",
	.elsewhere = (const char *const[]){ "self-attention", "multi-head-attention",
					    "multiheadattention", NULL },
	.help = "self-attention over queries, keys and values, which a linear layer before it "
		"makes",
	.traits = TW_OP_READS_IN | TW_OP_BY_POSITION | TW_OP_TAKES_LENGTHS,
	.ins = 1,
	.options = rows,
	.positional = 2,
	.options_bytes = sizeof(struct attention_options),
	.kernel_bytes = sizeof(struct attention_kernel),
	.samples = samples,
	.form = form,
	.prepare = prepare,
	.forward = forward,
	.backward = backward,
	.reference = reference,
	.torch = torch,
	.torch_class = "class Attention(nn.Module):\n"
		       "    def __init__(self, heads, causal=True):\n"
		       "        super().__init__()\n"
		       "        self.heads = heads\n"
		       "        self.causal = causal\n"
		       "\n"
		       "    def forward(self, x):\n"
		       "        b, t, n = x.shape\n"
		       "        x = x.view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)\n"
		       "        s = x[0] @ x[1].transpose(-2, -1) / x.shape[-1] ** 0.5\n"
		       "        if self.causal:\n"
		       "            mask = torch.ones(t, t, device=x.device).triu(1).bool()\n"
		       "            s = s.masked_fill(mask, float(\"-inf\"))\n"
		       "        y = s.softmax(-1) @ x[2]\n"
		       "        return y.transpose(1, 2).reshape(b, t, n // 3)\n",
	.torch_padded =
		"class Attention(nn.Module):\n"
		"    def __init__(self, heads, causal=True):\n"
		"        super().__init__()\n"
		"        self.heads = heads\n"
		"        self.causal = causal\n"
		"\n"
		"    def forward(self, x):\n"
		"        b, t, n = x.shape\n"
		"        hidden = ~Series.mask(x)[:, None, None, :, 0]\n"
		"        x = x.view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)\n"
		"        s = x[0] @ x[1].transpose(-2, -1) / x.shape[-1] ** 0.5\n"
		"        if self.causal:\n"
		"            hidden = hidden | torch.ones(t, t, device=x.device).triu(1).bool()\n"
		"        y = s.masked_fill(hidden, float(\"-inf\")).softmax(-1) @ x[2]\n"
		"        return y.transpose(1, 2).reshape(b, t, n // 3)\n",
};

static const struct tw_op *const ops[] = { &attention_op, NULL };
const struct tw_op_family tw_op_family_attention = { ops };
