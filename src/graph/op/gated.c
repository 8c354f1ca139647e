/* SPDX-License-Identifier: Apache-2.0 */
/* gated.c - glu, swiglu, geglu: half of the features, each multiplied with a function of one of the
 * other half (Dauphin et al. 2017; Shazeer 2020).
 *
 * With a the first half and b the second:
 *
 *	glu	a sigmoid(b), as PyTorch has it
 *	swiglu	silu(a) b, as Llama's gate and up projections one after the other
 *	geglu	gelu(a) b, in the same order
 *
 * Two linear layers of n outputs that share an input are one of 2 n; that is what stands before. */
#include "graph/op.h"
#include "graph/op/approx.h"
#include "vec/clone.h"

static enum tw_status form(const void *options, const struct tw_shape *in, struct tw_op_form *f,
			   struct tw_error *why)
{
	const uint32_t width = tw_shape_width(in);
	char text[40];

	if (in->rank == 3)
		return tw_fail(why, TW_BAD_INPUT, "needs features, not %s: put flatten before it",
			       tw_shape_text(in, text));
	if (width % 2)
		return tw_fail(why, TW_BAD_INPUT,
			       "multiplies the halves of its features, and %u are odd; put before "
			       "it, for example, linear %u",
			       width, width + 1);
	*f = (struct tw_op_form){ .out = *in };
	f->out.d[in->rank - 1] = width / 2;
	f->flops = 20.0 * (double)tw_shape_size(&f->out);
	return TW_OK;
}

/* A line's halves, what becomes of them, and their gradients. */
struct line {
	const float *a, *b, *dy;
	float *y, *da, *db;
	size_t n;
};

/* Each line of the batch: forward where `back` is false. */
static void each(const struct tw_op_site *site, const struct tw_op_run *run, bool back,
		 void (*deed)(const struct line *l))
{
	const size_t n = tw_shape_width(&site->out), lines = tw_op_lines(site);

	for (size_t i = 0; i < lines; i++) {
		struct line l = { .a = run->in[0] + 2 * i * n, .n = n };

		l.b = l.a + n;
		if (back) {
			l.dy = run->out_gradient + i * n;
			l.da = run->in_gradient[0] + 2 * i * n;
			l.db = l.da + n;
		} else {
			l.y = run->out + i * n;
		}
		deed(&l);
	}
}

/* glu */

TW_CLONED_STATIC(void, glu,
		 (float *restrict y, const float *restrict a, const float *restrict b, size_t n),
		 (y, a, b, n))
{
	for (size_t i = 0; i < n; i++)
		y[i] = a[i] * approx_sigmoid(b[i]);
}

TW_CLONED_STATIC(void, glu_back,
		 (float *restrict da, float *restrict db, const float *restrict dy,
		  const float *restrict a, const float *restrict b, size_t n),
		 (da, db, dy, a, b, n))
{
	for (size_t i = 0; i < n; i++) {
		const float s = approx_sigmoid(b[i]);

		da[i] = dy[i] * s;
		db[i] = dy[i] * a[i] * (s * (1.0f - s));
	}
}

static void glu_line(const struct line *l)
{
	glu(l->y, l->a, l->b, l->n);
}

static void glu_line_back(const struct line *l)
{
	glu_back(l->da, l->db, l->dy, l->a, l->b, l->n);
}

static enum tw_status glu_forward(const struct tw_op_site *site, const void *kernel,
				  const struct tw_op_run *run)
{
	each(site, run, false, glu_line);
	return TW_OK;
}

static enum tw_status glu_backward(const struct tw_op_site *site, const void *kernel,
				   const struct tw_op_run *run)
{
	if (run->in_gradient[0])
		each(site, run, true, glu_line_back);
	return TW_OK;
}

/* swiglu */

TW_CLONED_STATIC(void, swiglu,
		 (float *restrict y, const float *restrict a, const float *restrict b, size_t n),
		 (y, a, b, n))
{
	for (size_t i = 0; i < n; i++)
		y[i] = a[i] * approx_sigmoid(a[i]) * b[i];
}

TW_CLONED_STATIC(void, swiglu_back,
		 (float *restrict da, float *restrict db, const float *restrict dy,
		  const float *restrict a, const float *restrict b, size_t n),
		 (da, db, dy, a, b, n))
{
	for (size_t i = 0; i < n; i++) {
		const float s = approx_sigmoid(a[i]);

		da[i] = dy[i] * b[i] * fmaf(a[i], s * (1.0f - s), s);
		db[i] = dy[i] * (a[i] * s);
	}
}

static void swiglu_line(const struct line *l)
{
	swiglu(l->y, l->a, l->b, l->n);
}

static void swiglu_line_back(const struct line *l)
{
	swiglu_back(l->da, l->db, l->dy, l->a, l->b, l->n);
}

static enum tw_status swiglu_forward(const struct tw_op_site *site, const void *kernel,
				     const struct tw_op_run *run)
{
	each(site, run, false, swiglu_line);
	return TW_OK;
}

static enum tw_status swiglu_backward(const struct tw_op_site *site, const void *kernel,
				      const struct tw_op_run *run)
{
	if (run->in_gradient[0])
		each(site, run, true, swiglu_line_back);
	return TW_OK;
}

/* geglu */

TW_CLONED_STATIC(void, geglu,
		 (float *restrict y, const float *restrict a, const float *restrict b, size_t n),
		 (y, a, b, n))
{
	for (size_t i = 0; i < n; i++) {
		float below, density;

		approx_normal(a[i], &below, &density);
		y[i] = a[i] * below * b[i];
	}
}

TW_CLONED_STATIC(void, geglu_back,
		 (float *restrict da, float *restrict db, const float *restrict dy,
		  const float *restrict a, const float *restrict b, size_t n),
		 (da, db, dy, a, b, n))
{
	for (size_t i = 0; i < n; i++) {
		float below, density;

		approx_normal(a[i], &below, &density);
		da[i] = dy[i] * b[i] * fmaf(a[i], density, below);
		db[i] = dy[i] * (a[i] * below);
	}
}

static void geglu_line(const struct line *l)
{
	geglu(l->y, l->a, l->b, l->n);
}

static void geglu_line_back(const struct line *l)
{
	geglu_back(l->da, l->db, l->dy, l->a, l->b, l->n);
}

static enum tw_status geglu_forward(const struct tw_op_site *site, const void *kernel,
				    const struct tw_op_run *run)
{
	each(site, run, false, geglu_line);
	return TW_OK;
}

static enum tw_status geglu_backward(const struct tw_op_site *site, const void *kernel,
				     const struct tw_op_run *run)
{
	if (run->in_gradient[0])
		each(site, run, true, geglu_line_back);
	return TW_OK;
}

/* --- references, in double -------------------------------------------------------------------- */

static double refer_glu(double a, double b)
{
	return a / (1 + exp(-b));
}

static double refer_swiglu(double a, double b)
{
	return a / (1 + exp(-a)) * b;
}

static double refer_geglu(double a, double b)
{
	return a * 0.5 * erfc(-a / sqrt(2.0)) * b;
}

static void refer(const struct tw_op_site *site, const double *x, double *y,
		  double (*of)(double a, double b))
{
	const size_t n = tw_shape_width(&site->out);

	for (size_t i = 0; i < tw_op_lines(site); i++, x += 2 * n, y += n)
		for (size_t k = 0; k < n; k++)
			y[k] = of(x[k], x[n + k]);
}

static void glu_reference(const struct tw_op_site *site, const struct tw_op_batch *batch,
			  const double *const *in, const double *const *parameter, double *out)
{
	refer(site, in[0], out, refer_glu);
}

static void swiglu_reference(const struct tw_op_site *site, const struct tw_op_batch *batch,
			     const double *const *in, const double *const *parameter, double *out)
{
	refer(site, in[0], out, refer_swiglu);
}

static void geglu_reference(const struct tw_op_site *site, const struct tw_op_batch *batch,
			    const double *const *in, const double *const *parameter, double *out)
{
	refer(site, in[0], out, refer_geglu);
}

/* --- elsewhere -------------------------------------------------------------------------------- */

/* C has one position in MC, or the only one. */
static void write_c(const struct tw_op_site *site, FILE *out, const char *formula)
{
	const bool lines = site->in[0].rank == 2;
	const uint32_t n = tw_shape_width(&site->out);

	fprintf(out,
		"\tfor (int t = 0; t < %s; t++, x += %u, y += %u)\n"
		"\t\tfor (int i = 0; i < %u; i++) {\n"
		"\t\t\tconst float a = x[i], b = x[%u + i];\n\n"
		"\t\t\ty[i] = %s;\n"
		"\t\t}\n",
		lines ? "C" : "1", 2 * n, n, n, n, formula);
}

static void glu_c(const struct tw_op_site *site, FILE *out)
{
	write_c(site, out, "a / (1 + expf(-b))");
}

static void swiglu_c(const struct tw_op_site *site, FILE *out)
{
	write_c(site, out, "a / (1 + expf(-a)) * b");
}

static void geglu_c(const struct tw_op_site *site, FILE *out)
{
	write_c(site, out, "0.5f * a * erfcf(-0.70710678f * a) * b");
}

static void glu_torch(const void *options, const struct tw_shape *in, char text[TW_TORCH_ROOM])
{
	snprintf(text, TW_TORCH_ROOM, "nn.GLU()");
}

static void swiglu_torch(const void *options, const struct tw_shape *in, char text[TW_TORCH_ROOM])
{
	snprintf(text, TW_TORCH_ROOM, "Gated(nn.functional.silu)");
}

static void geglu_torch(const void *options, const struct tw_shape *in, char text[TW_TORCH_ROOM])
{
	snprintf(text, TW_TORCH_ROOM, "Gated(nn.functional.gelu)");
}

static const char gated_class[] = "class Gated(nn.Module):\n"
				  "    def __init__(self, function):\n"
				  "        super().__init__()\n"
				  "        self.function = function\n"
				  "\n"
				  "    def forward(self, x):\n"
				  "        a, b = x.chunk(2, -1)\n"
				  "        return self.function(a) * b\n";

static const struct tw_op_sample samples[] = {
	{ "", { 1, { 14 } } },
	{ "", { 1, { 2 } } },
	{ "", { 2, { 5, 34 } } },
	{ NULL },
};

#define TRAITS (TW_OP_READS_IN | TW_OP_BY_POSITION)

static const struct tw_op glu_op = {
	.name = "glu",
	.help = "the first half of the features, each times the sigmoid of one of the second half",
	.traits = TRAITS,
	.ins = 1,
	.samples = samples,
	.form = form,
	.forward = glu_forward,
	.backward = glu_backward,
	.reference = glu_reference,
	.torch = glu_torch,
	.c = glu_c,
};

static const struct tw_op swiglu_op = {
	.name = "swiglu",
	.help = "silu of the first half of the features, each times one of the second half",
	.traits = TRAITS,
	.ins = 1,
	.samples = samples,
	.form = form,
	.forward = swiglu_forward,
	.backward = swiglu_backward,
	.reference = swiglu_reference,
	.torch = swiglu_torch,
	.c = swiglu_c,
	.torch_class = gated_class,
};

static const struct tw_op geglu_op = {
	.name = "geglu",
	.help = "gelu of the first half of the features, each times one of the second half",
	.traits = TRAITS,
	.ins = 1,
	.samples = samples,
	.form = form,
	.forward = geglu_forward,
	.backward = geglu_backward,
	.reference = geglu_reference,
	.torch = geglu_torch,
	.c = geglu_c,
	.torch_class = gated_class,
};

static const struct tw_op *const ops[] = { &glu_op, &swiglu_op, &geglu_op, NULL };
const struct tw_op_family tw_op_family_gated = { ops };
