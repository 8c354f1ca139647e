/* SPDX-License-Identifier: Apache-2.0 */
/* init.c - first values, drawn for (tensor, element) and for nobody in particular. */
#include "model/model.h"

#include "vec/vec.h"

#include <math.h>
#include <string.h>

/* How one tensor's elements come about: `fill`, or a draw times `width`. */
struct draw {
	enum { FILL, GAUSS, UNIFORM } kind;
	float fill, width; /* deviation of GAUSS, bound of UNIFORM */
};

/* The fan_in of what a bias is added to: its own if the op says so, else that of the drawn tensor
 * beside it. */
static uint32_t bias_fan(const struct tw_graph *g, const struct tw_graph_tensor *t)
{
	const struct tw_op_form *form = &g->node[t->node].form;

	if (t->form.fan_in)
		return t->form.fan_in;
	for (uint32_t k = 0; k < form->parameters; k++)
		if (form->parameter[k].fan_in)
			return form->parameter[k].fan_in;
	return 0;
}

static struct draw drawn(enum tw_init init, double in, double out)
{
	switch (init) {
	case TW_INIT_HE:
		return (struct draw){ GAUSS, .width = (float)sqrt(2 / in) };
	case TW_INIT_HE_UNIFORM:
		return (struct draw){ UNIFORM, .width = (float)sqrt(6 / in) };
	case TW_INIT_XAVIER:
		return (struct draw){ GAUSS, .width = (float)sqrt(2 / (in + out)) };
	case TW_INIT_XAVIER_UNIFORM:
		return (struct draw){ UNIFORM, .width = (float)sqrt(6 / (in + out)) };
	case TW_INIT_LECUN:
		return (struct draw){ GAUSS, .width = (float)sqrt(1 / in) };
	case TW_INIT_TORCH:
		return (struct draw){ UNIFORM, .width = (float)sqrt(1 / in) };
	case TW_INIT_NORMAL:
		return (struct draw){ GAUSS, .width = 0.01f };
	case TW_INIT_ZEROS:
		break;
	}
	return (struct draw){ FILL, .fill = 0 };
}

static struct draw draw_of(const struct tw_graph *g, const struct tw_graph_tensor *t)
{
	const bool bias = strncmp(t->form.name, "bias", 4) == 0; /* also "bias_ih_l0" */
	const uint32_t fan = bias ? bias_fan(g, t) : t->form.fan_in;

	if (t->form.deviation > 0)
		return (struct draw){ GAUSS, .width = t->form.deviation };
	if (!fan || t->form.buffer || (bias && t->init != TW_INIT_TORCH))
		return (struct draw){ FILL, .fill = t->form.fill };
	return drawn((enum tw_init)t->init, fan, t->form.fan_out);
}

/* Elements first..first+n in (-width, width).  A block of the generator has two of them: that is
 * half the work, and 32 bits are more than a float keeps. */
static void uniform(const struct tw_rng *r, uint64_t tensor, uint64_t first, float width,
		    float *out, size_t n)
{
	const double scale = 2 * (double)width * 0x1p-32;
	uint64_t pair = 0;

	for (size_t i = 0; i < n; i++) {
		const uint64_t element = first + i;

		if (i == 0 || element % 2 == 0)
			pair = tw_rng_u64(r, tensor, element / 2);
		const uint32_t bits = (uint32_t)(element % 2 ? pair >> 32 : pair);

		out[i] = (float)(((double)bits + 0.5) * scale - (double)width);
	}
}

void tw_model_init(const struct tw_graph *g, uint64_t seed, size_t from, size_t n, float *out)
{
	const struct tw_rng rng = tw_rng_make(seed, TW_RNG_INIT);

	for (uint32_t k = 0; k < g->tensors; k++) {
		const struct tw_graph_tensor *t = &g->tensor[k];
		const size_t a = t->from > from ? t->from : from;
		const size_t b = t->from + t->n < from + n ? t->from + t->n : from + n;
		const struct draw d = draw_of(g, t);

		if (a >= b)
			continue;
		switch (d.kind) {
		case FILL:
			tw_vec_fill(out + (a - from), d.fill, b - a);
			break;
		case GAUSS:
			tw_rng_gauss_fill(&rng, k, a - t->from, out + (a - from), b - a);
			tw_vec_scale(out + (a - from), d.width, b - a);
			break;
		case UNIFORM:
			uniform(&rng, k, a - t->from, d.width, out + (a - from), b - a);
			break;
		}
	}
}
