/* SPDX-License-Identifier: Apache-2.0 */
/* dropout.c - leaves values out by chance and enlarges the others, so that the mean stays.
 *
 * Value e of a sample (counted in PLAIN order, whatever the layout) is drawn for the sample's
 * global position, the layer and e: word e % 4 of the Philox block with the counter (e / 4, layer,
 * position), and it is left out if that word is below rate * 2^32.  So a sample that is computed
 * again, elsewhere or in another batch, loses the same values.
 *
 * `saved` has one byte for each value, in the order of the layout: 1 if it is kept.  Without
 * training nothing happens: see TW_OP_PASSES. */
#include "graph/op.h"
#include "base/rng.h"
#include "vec/clone.h"

#include <math.h>
#include <string.h>

#define APART  _Pragma("GCC ivdep")
#define BLOCKS 64 /* of Philox at once */

struct dropout_options {
	float rate;
};

static const struct tw_option dropout_rows[] = {
	TW_OPTION(struct dropout_options, rate, TW_F32, "0.5", NULL, 0, 0.999,
		  "share of the values that is set to 0 in training"),
	TW_OPTION_END,
};

struct dropout_kernel {
	struct tw_rng rng;
	uint32_t below; /* words below it leave their value out */
	float larger;   /* what the others are multiplied by */
};

/* The counter's last three words. */
struct drawn_for {
	uint32_t layer, position[2];
};

/* BLOCKS blocks from `first` on, in vector loops; kept[4 * i + k] = 1 for words that keep their
 * value. */
TW_CLONED_STATIC(void, draw,
		 (const struct dropout_kernel *d, const struct drawn_for *what, uint32_t first,
		  uint8_t *kept),
		 (d, what, first, kept))
{
	uint32_t x[4 * BLOCKS];
	const uint32_t below = d->below;

	for (uint32_t i = 0; i < BLOCKS; i++) {
		x[i] = first + i;
		x[BLOCKS + i] = what->layer;
		x[2 * BLOCKS + i] = what->position[0];
		x[3 * BLOCKS + i] = what->position[1];
	}
	tw_philox_rounds(d->rng.key, x, BLOCKS);
	for (uint32_t i = 0; i < BLOCKS; i++)
		for (uint32_t k = 0; k < 4; k++)
			kept[4 * i + k] = x[k * BLOCKS + i] >= below;
}

TW_CLONED_STATIC(void, thin,
		 (float *out, const float *x, const uint8_t *kept, float larger, size_t n),
		 (out, x, kept, larger, n))
{
	APART
	for (size_t i = 0; i < n; i++)
		out[i] = kept[i] ? larger * x[i] : 0;
}

/* The bytes of one sample in PLAIN order. */
static void draw_sample(const struct dropout_kernel *d, const struct drawn_for *what, uint8_t *kept,
			size_t n)
{
	for (size_t i = 0; i < n; i += 4 * BLOCKS) {
		uint8_t some[4 * BLOCKS];

		draw(d, what, (uint32_t)(i / 4), some);
		memcpy(kept + i, some, n - i < sizeof some ? n - i : sizeof some);
	}
}

/* From PLAIN order to that of the layout. */
static void place(const struct tw_op_site *site, const uint8_t *plain, uint8_t *kept)
{
	const size_t channels = site->in[0].d[0], size = tw_shape_size(&site->in[0]);
	const size_t pixels = size / channels;
	const size_t wide = site->in_layout[0] == TW_LAYOUT_LAST ? channels : 16;

	for (size_t c = 0; c < channels; c++)
		for (size_t p = 0; p < pixels; p++)
			kept[(c / wide * pixels + p) * wide + c % wide] = plain[c * pixels + p];
}

static enum tw_status dropout_form(const void *options, const struct tw_shape *in,
				   struct tw_op_form *form, struct tw_error *why)
{
	*form = (struct tw_op_form){ .out = in[0], .flops = (double)tw_shape_size(&in[0]) };
	return TW_OK;
}

static double rate_of(const struct tw_op_site *site)
{
	return (double)((const struct dropout_options *)site->options)->rate;
}

static enum tw_status dropout_prepare(const struct tw_op_site *site, struct tw_onednn *kit,
				      void *kernel, struct tw_op_memory *need)
{
	struct dropout_kernel *d = kernel;
	const size_t size = tw_shape_size(&site->in[0]);

	d->rng = tw_rng_make(site->seed, TW_RNG_DROPOUT);
	d->below = (uint32_t)(rate_of(site) * 0x1p32);
	d->larger = (float)(1 / (1 - rate_of(site)));
	need->saved = site->batch * size;
	need->forward = site->in_layout[0] == TW_LAYOUT_PLAIN ? 0 : size;
	return TW_OK;
}

static enum tw_status dropout_forward(const struct tw_op_site *site, const void *kernel,
				      const struct tw_op_run *run)
{
	const struct dropout_kernel *d = kernel;
	const size_t size = tw_shape_size(&site->in[0]);
	const bool plain = site->in_layout[0] == TW_LAYOUT_PLAIN;

	for (uint32_t b = 0; b < site->batch; b++) {
		const uint64_t position = run->batch->position + b;
		const struct drawn_for what = {
			site->layer, { (uint32_t)position, (uint32_t)(position >> 32) }
		};
		uint8_t *kept = (uint8_t *)run->saved + b * size;

		draw_sample(d, &what, plain ? kept : run->scratch, size);
		if (!plain)
			place(site, run->scratch, kept);
	}
	thin(run->out, run->in[0], run->saved, d->larger, site->batch * size);
	return TW_OK;
}

static enum tw_status dropout_backward(const struct tw_op_site *site, const void *kernel,
				       const struct tw_op_run *run)
{
	const struct dropout_kernel *d = kernel;

	if (run->in_gradient[0])
		thin(run->in_gradient[0], run->out_gradient, run->saved, d->larger,
		     site->batch * tw_shape_size(&site->in[0]));
	return TW_OK;
}

static void dropout_reference(const struct tw_op_site *site, const struct tw_op_batch *batch,
			      const double *const *in, const double *const *parameter, double *out)
{
	const struct tw_rng rng = tw_rng_make(site->seed, TW_RNG_DROPOUT);
	const size_t size = tw_shape_size(&site->in[0]);

	for (size_t i = 0; i < site->batch * size; i++) {
		const uint64_t position = batch->position + i / size;
		const uint32_t counter[4] = { (uint32_t)(i % size / 4), site->layer,
					      (uint32_t)position, (uint32_t)(position >> 32) };
		uint32_t word[4];

		tw_philox(rng.key, counter, word);
		if (!site->train)
			out[i] = in[0][i];
		else if (word[i % size % 4] < floor(rate_of(site) * 0x1p32))
			out[i] = 0;
		else
			out[i] = in[0][i] / (1 - rate_of(site));
	}
}

static const struct tw_op_sample samples[] = {
	{ "", { 1, { 259 } } }, { "0.2", { 3, { 3, 5, 7 } } }, { "rate 0.9", { 3, { 32, 3, 5 } } },
	{ "0", { 1, { 3 } } },  { "0.3", { 2, { 4, 9 } } },    { NULL },
};

static void dropout_torch(const void *options, const struct tw_shape *in, char text[TW_TORCH_ROOM])
{
	const struct dropout_options *o = options;

	snprintf(text, TW_TORCH_ROOM, "nn.Dropout(%.9g)", (double)o->rate);
}

static const struct tw_op dropout_op = {
	.name = "dropout",
	.help = "sets a random share of the values to 0 in training, drawn for each sample",
	.traits = TW_OP_IN_PLACE | TW_OP_BACK_IN_PLACE | TW_OP_FOLLOWS_LAYOUT | TW_OP_DRAWS |
		  TW_OP_PASSES | TW_OP_BY_POSITION,
	.ins = 1,
	.options = dropout_rows,
	.positional = 1,
	.options_bytes = sizeof(struct dropout_options),
	.kernel_bytes = sizeof(struct dropout_kernel),
	.samples = samples,
	.form = dropout_form,
	.prepare = dropout_prepare,
	.forward = dropout_forward,
	.backward = dropout_backward,
	.reference = dropout_reference,
	.torch = dropout_torch,
};

static const struct tw_op *const ops[] = { &dropout_op, NULL };
const struct tw_op_family tw_op_family_dropout = { ops };
