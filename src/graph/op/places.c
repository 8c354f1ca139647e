/* SPDX-License-Identifier: Apache-2.0 */
/* places.c - what tells a position its place without anything trained: sinusoidal features that are
 * added (Vaswani et al. 2017), rotary turns of queries and keys (Su et al. 2021).
 *
 * Position t, pair i of n/2, angle a = t / base^(2 i / n):
 *
 *	sinusoidal	x[2 i] += sin a		x[2 i + 1] += cos a	n: all features
 *	rotary		by heads of n features, of queries and of keys: features i and n/2 + i
 *			turn by a, as in GPT-NeoX and Llama; values stay
 *
 * The angles of all positions are computed once in each run, in scratch: sines, then cosines. */
#include "graph/op.h"
#include "vec/clone.h"
#include "vec/vec.h"

#include <math.h>

static size_t values(const struct tw_op_site *site)
{
	return site->batch * tw_shape_size(&site->in[0]);
}

static enum tw_status wants_sequence(const struct tw_shape *in, struct tw_error *why)
{
	char text[40];

	if (in->rank == 2)
		return TW_OK;
	return tw_fail(why, TW_BAD_INPUT, "needs a sequence, not %s: put embedding before it",
		       tw_shape_text(in, text));
}

static double angle(size_t t, size_t pair, size_t n, double base)
{
	return (double)t * pow(base, -2 * (double)pair / (double)n);
}

/* Of positions x pairs. */
static void make_table(float *sine, size_t positions, size_t n, double base)
{
	const size_t pairs = (n + 1) / 2;
	float *cosine = sine + positions * pairs;

	for (size_t t = 0; t < positions; t++)
		for (size_t i = 0; i < pairs; i++) {
			sine[t * pairs + i] = (float)sin(angle(t, i, n, base));
			cosine[t * pairs + i] = (float)cos(angle(t, i, n, base));
		}
}

static size_t table_bytes(size_t positions, size_t n)
{
	return 2 * positions * ((n + 1) / 2) * sizeof(float);
}

/* sinusoidal */

#define BASE 10000.0

static enum tw_status sinusoidal_form(const void *options, const struct tw_shape *in,
				      struct tw_op_form *form, struct tw_error *why)
{
	const enum tw_status st = wants_sequence(in, why);

	if (st == TW_OK)
		*form = (struct tw_op_form){ .out = *in, .flops = (double)tw_shape_size(in) };
	return st;
}

static enum tw_status sinusoidal_prepare(const struct tw_op_site *site, struct tw_onednn *kit,
					 void *kernel, struct tw_op_memory *need)
{
	need->forward = table_bytes(site->in[0].d[0], site->in[0].d[1]);
	return TW_OK;
}

static enum tw_status sinusoidal_forward(const struct tw_op_site *site, const void *kernel,
					 const struct tw_op_run *run)
{
	const size_t positions = site->in[0].d[0], n = site->in[0].d[1], pairs = (n + 1) / 2;
	const float *sine = run->scratch, *cosine = sine + positions * pairs;

	make_table(run->scratch, positions, n, BASE);
	for (size_t line = 0; line < site->batch * positions; line++) {
		const float *x = run->in[0] + line * n;
		const size_t at = line % positions * pairs;
		float *y = run->out + line * n;

		for (size_t k = 0; k < n; k++)
			y[k] = x[k] + (k % 2 ? cosine : sine)[at + k / 2];
	}
	return TW_OK;
}

static enum tw_status sinusoidal_backward(const struct tw_op_site *site, const void *kernel,
					  const struct tw_op_run *run)
{
	if (run->in_gradient[0] && run->in_gradient[0] != run->out_gradient)
		tw_vec_copy(run->in_gradient[0], run->out_gradient, values(site));
	return TW_OK;
}

static void sinusoidal_reference(const struct tw_op_site *site, const struct tw_op_batch *batch,
				 const double *const *in, const double *const *parameter,
				 double *out)
{
	const size_t positions = site->in[0].d[0], n = site->in[0].d[1];

	for (size_t i = 0; i < values(site); i++) {
		const double a = angle(i / n % positions, i % n / 2, n, BASE);

		out[i] = in[0][i] + (i % n % 2 ? cos(a) : sin(a));
	}
}

static void sinusoidal_torch(const void *options, const struct tw_shape *in,
			     char text[TW_TORCH_ROOM])
{
	snprintf(text, TW_TORCH_ROOM, "Sinusoidal(%u, %u)", in->d[0], in->d[1]);
}

static void sinusoidal_c(const struct tw_op_site *site, FILE *out)
{
	fprintf(out,
		"\tfor (int i = 0; i < N; i++) {\n"
		"\t\tconst double a = i / H * pow(%g, -2.0 * (i %% H / 2) / H);\n\n"
		"\t\ty[i] = x[i] + (float)(i %% H %% 2 ? cos(a) : sin(a));\n"
		"\t}\n",
		BASE);
}

static const struct tw_op_sample sinusoidal_samples[] = {
	{ "", { 2, { 5, 6 } } },
	{ "", { 2, { 17, 3 } } },
	{ "", { 2, { 1, 1 } } },
	{ NULL },
};

static const struct tw_op sinusoidal_op = {
	.name = "sinusoidal",
	.help = "adds sines and cosines of the place in the sequence, which are not trained",
	.traits = TW_OP_IN_PLACE | TW_OP_BACK_IN_PLACE | TW_OP_BY_POSITION,
	.ins = 1,
	.samples = sinusoidal_samples,
	.form = sinusoidal_form,
	.prepare = sinusoidal_prepare,
	.forward = sinusoidal_forward,
	.backward = sinusoidal_backward,
	.reference = sinusoidal_reference,
	.torch = sinusoidal_torch,
	.c = sinusoidal_c,
	.torch_class =
		"class Sinusoidal(nn.Module):\n"
		"    def __init__(self, length, width):\n"
		"        super().__init__()\n"
		"        pair = torch.arange(width) // 2 * 2\n"
		"        a = torch.arange(length).double()[:, None] * 10000.0 ** (-pair / width)\n"
		"        odd = torch.arange(width) % 2 == 1\n"
		"        self.table = torch.where(odd, a.cos(), a.sin()).float()\n"
		"\n"
		"    def forward(self, x):\n"
		"        return x + self.table.to(x)\n",
};

/* rotary */

struct rotary_options {
	uint32_t heads;
	float base;
};

static const struct tw_option rotary_rows[] = {
	TW_OPTION(struct rotary_options, heads, TW_U32, NULL, NULL, 1, 65536,
		  "heads of the attention behind it"),
	TW_OPTION(struct rotary_options, base, TW_F32, "10000", NULL, 1.001, 1e9,
		  "the slowest pair turns once in about 6.28 times this many positions"),
	TW_OPTION_END,
};

static enum tw_status rotary_form(const void *options, const struct tw_shape *in,
				  struct tw_op_form *form, struct tw_error *why)
{
	const struct rotary_options *o = options;
	const uint32_t each = 6 * o->heads;
	const enum tw_status st = wants_sequence(in, why);

	if (st != TW_OK)
		return st;
	if (in->d[1] % each)
		return tw_fail(why, TW_BAD_INPUT,
			       "turns pairs of features of the queries and keys of %u heads, so it "
			       "needs a multiple of %u features, not %u; put it between linear and "
			       "attention",
			       o->heads, each, in->d[1]);
	*form = (struct tw_op_form){ .out = *in, .flops = 2.0 * (double)tw_shape_size(in) };
	return TW_OK;
}

/* Features of a head. */
static size_t head(const struct tw_op_site *site)
{
	const struct rotary_options *o = site->options;

	return site->in[0].d[1] / 3 / o->heads;
}

static double base_of(const struct tw_op_site *site)
{
	return (double)((const struct rotary_options *)site->options)->base;
}

static enum tw_status rotary_prepare(const struct tw_op_site *site, struct tw_onednn *kit,
				     void *kernel, struct tw_op_memory *need)
{
	need->forward = table_bytes(site->in[0].d[0], head(site));
	need->backward = site->train ? need->forward : 0;
	return TW_OK;
}

/* A head of one position; x may be y. */
TW_CLONED_STATIC(void, turn,
		 (float *y, const float *x, const float *sine, const float *cosine, float sign,
		  size_t pairs),
		 (y, x, sine, cosine, sign, pairs))
{
	_Pragma("GCC ivdep") for (size_t i = 0; i < pairs; i++)
	{
		const float a = x[i], b = x[pairs + i], s = sign * sine[i];

		y[i] = a * cosine[i] - b * s;
		y[pairs + i] = b * cosine[i] + a * s;
	}
}

/* Queries and keys turn, backward the other way; values stay. */
static void turn_all(const struct tw_op_site *site, float *table, float sign, const float *x,
		     float *y)
{
	const size_t positions = site->in[0].d[0], n = site->in[0].d[1], each = head(site);
	const size_t pairs = each / 2, turned = 2 * n / 3;
	const float *cosine = table + positions * pairs;

	make_table(table, positions, each, base_of(site));
	for (size_t line = 0; line < site->batch * positions; line++, x += n, y += n) {
		const size_t at = line % positions * pairs;

		for (size_t k = 0; k < turned; k += each)
			turn(y + k, x + k, table + at, cosine + at, sign, pairs);
		if (x != y)
			tw_vec_copy(y + turned, x + turned, n - turned);
	}
}

static enum tw_status rotary_forward(const struct tw_op_site *site, const void *kernel,
				     const struct tw_op_run *run)
{
	turn_all(site, run->scratch, 1, run->in[0], run->out);
	return TW_OK;
}

static enum tw_status rotary_backward(const struct tw_op_site *site, const void *kernel,
				      const struct tw_op_run *run)
{
	if (run->in_gradient[0])
		turn_all(site, run->scratch, -1, run->out_gradient, run->in_gradient[0]);
	return TW_OK;
}

static void rotary_reference(const struct tw_op_site *site, const struct tw_op_batch *batch,
			     const double *const *in, const double *const *parameter, double *out)
{
	const size_t positions = site->in[0].d[0], n = site->in[0].d[1], each = head(site);
	const size_t pairs = each / 2;

	for (size_t i = 0; i < values(site); i++) {
		const size_t k = i % n % each, first = i - k + k % pairs;
		const double a = angle(i / n % positions, k % pairs, each, base_of(site));
		const double x = in[0][first], z = in[0][first + pairs];

		if (i % n >= 2 * n / 3)
			out[i] = in[0][i];
		else
			out[i] = k < pairs ? x * cos(a) - z * sin(a) : z * cos(a) + x * sin(a);
	}
}

static void rotary_torch(const void *options, const struct tw_shape *in, char text[TW_TORCH_ROOM])
{
	const struct rotary_options *o = options;

	snprintf(text, TW_TORCH_ROOM, "Rotary(%u, base=%.9g)", o->heads, (double)o->base);
}

static void rotary_c(const struct tw_op_site *site, FILE *out)
{
	fprintf(out,
		"\tenum { EACH = %zu, PAIRS = EACH / 2 };\n\n"
		"\tfor (int i = 0; i < N; i++) {\n"
		"\t\tconst int k = i %% H %% EACH, at = i - k + k %% PAIRS;\n"
		"\t\tconst double a = i / H * pow(%.9g, -2.0 * (k %% PAIRS) / EACH);\n\n"
		"\t\tif (i %% H >= 2 * H / 3)\n"
		"\t\t\ty[i] = x[i];\n"
		"\t\telse if (k < PAIRS)\n"
		"\t\t\ty[i] = (float)(x[at] * cos(a) - x[at + PAIRS] * sin(a));\n"
		"\t\telse\n"
		"\t\t\ty[i] = (float)(x[at + PAIRS] * cos(a) + x[at] * sin(a));\n"
		"\t}\n",
		head(site), base_of(site));
}

static const struct tw_op_sample rotary_samples[] = {
	{ "1", { 2, { 5, 6 } } },
	{ "3", { 2, { 17, 36 } } },
	{ "heads 2 base 100", { 2, { 3, 24 } } },
	{ NULL },
};

static const struct tw_op rotary_op = {
	.name = "rotary",
	.elsewhere = (const char *const[]){ "rope", NULL },
	.help = "turns queries and keys by their place in the sequence, before attention",
	.traits = TW_OP_IN_PLACE | TW_OP_BACK_IN_PLACE | TW_OP_BY_POSITION,
	.ins = 1,
	.options = rotary_rows,
	.positional = 1,
	.options_bytes = sizeof(struct rotary_options),
	.samples = rotary_samples,
	.form = rotary_form,
	.prepare = rotary_prepare,
	.forward = rotary_forward,
	.backward = rotary_backward,
	.reference = rotary_reference,
	.torch = rotary_torch,
	.c = rotary_c,
	.torch_class = "class Rotary(nn.Module):\n"
		       "    def __init__(self, heads, base=10000.0):\n"
		       "        super().__init__()\n"
		       "        self.heads, self.base = heads, base\n"
		       "\n"
		       "    def forward(self, x):\n"
		       "        b, t, n = x.shape\n"
		       "        x = x.view(b, t, 3, self.heads, 2, -1)\n"
		       "        d = 2 * x.shape[-1]\n"
		       "        pair = torch.arange(0, d, 2, device=x.device).double()\n"
		       "        a = torch.arange(t, device=x.device).double()[:, None]\n"
		       "        a = (a * self.base ** (-pair / d))[:, None, None]\n"
		       "        s, c = a.sin().to(x), a.cos().to(x)\n"
		       "        q, w = x[:, :, :2, :, 0], x[:, :, :2, :, 1]\n"
		       "        turned = torch.stack((q * c - w * s, w * c + q * s), 4)\n"
		       "        return torch.cat((turned, x[:, :, 2:]), 2).reshape(b, t, n)\n",
};

static const struct tw_op *const ops[] = { &sinusoidal_op, &rotary_op, NULL };
const struct tw_op_family tw_op_family_places = { ops };
