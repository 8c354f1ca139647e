/* SPDX-License-Identifier: Apache-2.0 */
/* conv_weights.c - the gradient of a convolution's weights as a product.
 *
 * The windows of some samples are rows [place][row, column, channel]; the gradient of the output
 * [place][filter], transposed, times these rows is that of the weights [filter][row, column,
 * channel], and the products of all samples are added up.  Stride 1 and LAST only: layouts.c says
 * where it pays.
 *
 * Scratch: scratchpad, the sum of the products, a sample's part of the bias's gradient, rows. */
#include "graph/conv.h"
#include "graph/op/window.h"
#include "vec/vec.h"

#include <string.h>

#define ROWS_MOST ((size_t)1 << 20) /* bytes: they stay in the second cache */
#define MOST      8                 /* samples at a time: more gained nothing */

static size_t places_of(const struct tw_op_site *site)
{
	return (size_t)site->out.d[1] * site->out.d[2];
}

static size_t window_of(const struct tw_op_site *site)
{
	const struct tw_conv_options *o = site->options;

	return (size_t)o->size.h * o->size.w * site->in[0].d[0];
}

/* As many as divide the batch, so that all products are of one shape. */
static uint32_t samples_for(const struct tw_op_site *site)
{
	const size_t each = places_of(site) * window_of(site) * sizeof(float);
	uint32_t n = MOST;

	while (n > 1 && (site->batch % n || n * each > ROWS_MOST))
		n--;
	return n;
}

static enum tw_status add_product(const struct tw_op_site *site, struct tw_onednn *kit,
				  uint32_t samples, bool adds, uint32_t *id, size_t *pad)
{
	static const int arg[] = { DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST };
	const dnnl_dim_t filters = site->out.d[0], window = (dnnl_dim_t)window_of(site);
	const dnnl_dim_t places = (dnnl_dim_t)places_of(site) * samples;
	const dnnl_dims_t da = { filters, places }, db = { places, window };
	const dnnl_dims_t dc = { filters, window };
	dnnl_memory_desc_t a, b, c;
	dnnl_primitive_desc_t pd;
	dnnl_status_t made = dnnl_memory_desc_init_by_tag(&a, 2, da, dnnl_f32, dnnl_ba);
	enum tw_status st;

	if (made == dnnl_success)
		made = dnnl_memory_desc_init_by_tag(&b, 2, db, dnnl_f32, dnnl_ab);
	if (made == dnnl_success)
		made = dnnl_memory_desc_init_by_tag(&c, 2, dc, dnnl_f32, dnnl_ab);
	st = tw_onednn_status(made);
	if (st == TW_OK)
		st = tw_onednn_product(kit, &a, &b, &c, adds, &pd);
	return st == TW_OK ? tw_onednn_add(kit, pd, arg, 3, id, pad) : st;
}

enum tw_status tw_conv_weights_prepare(const struct tw_op_site *site, struct tw_onednn *kit,
				       const struct tw_conv_shapes *s, struct tw_conv_weights *w,
				       size_t *scratch)
{
	const size_t filters = site->out.d[0], window = window_of(site);
	dnnl_memory_desc_t last;
	size_t pad = 0;
	enum tw_status st = tw_onednn_status(
		dnnl_memory_desc_init_by_tag(&last, 4, s->plain.dims, dnnl_f32, dnnl_ohwi));

	w->samples = samples_for(site);
	if (st == TW_OK)
		st = add_product(site, kit, w->samples, false, &w->first, &pad);
	if (st == TW_OK)
		st = add_product(site, kit, w->samples, true, &w->more, &pad);
	if (st == TW_OK)
		st = tw_onednn_reorder(kit, &last, &s->plain, &w->plain, &pad);
	w->sum_at = tw_op_aligned(pad);
	w->bias_at = w->sum_at + tw_op_aligned(filters * window * sizeof(float));
	w->rows_at = w->bias_at + tw_op_aligned(filters * sizeof(float));
	*scratch = w->rows_at + w->samples * places_of(site) * window * sizeof(float);
	return st;
}

/* The windows of one sample. */
static void unfold(const struct tw_op_site *site, const float *x, float *rows)
{
	const struct tw_conv_options *o = site->options;
	const size_t c = site->in[0].d[0], h = site->in[0].d[1], wide = site->in[0].d[2];
	const size_t line = o->size.w * c;

	for (size_t y = 0; y < site->out.d[1]; y++)
		for (size_t u = 0; u < site->out.d[2]; u++, rows += o->size.h * line) {
			size_t r0, r1, q0, q1;

			tw_window_taps(y, o->size.h, 1, o->pad.h, h, &r0, &r1);
			tw_window_taps(u, o->size.w, 1, o->pad.w, wide, &q0, &q1);
			if (r1 - r0 < o->size.h || q1 - q0 < o->size.w)
				memset(rows, 0, o->size.h * line * sizeof *rows);
			for (size_t r = r0; r < r1; r++)
				memcpy(rows + r * line + q0 * c,
				       x + ((y + r - o->pad.h) * wide + u + q0 - o->pad.w) * c,
				       (q1 - q0) * c * sizeof *rows);
		}
}

/* Added up sample by sample: a sum over all places at once would be less exact. */
static void bias_sums(const struct tw_op_site *site, const float *dy, float *one, float *bias)
{
	const size_t filters = site->out.d[0], places = places_of(site);

	memset(bias, 0, filters * sizeof *bias);
	for (size_t b = 0; b < site->batch; b++, dy += places * filters) {
		tw_vec_sum_rows(one, dy, places, filters);
		tw_vec_add(bias, one, filters);
	}
}

enum tw_status tw_conv_weights_run(const struct tw_op_site *site, const struct tw_conv_weights *w,
				   const struct tw_op_run *run)
{
	const struct tw_conv_options *o = site->options;
	const size_t places = places_of(site), each = tw_shape_size(&site->in[0]);
	float *const sum = (float *)((char *)run->scratch + w->sum_at);
	float *const rows = (float *)((char *)run->scratch + w->rows_at);
	void *const move[] = { sum, run->change[0] };
	enum tw_status st = TW_OK;

	if (o->bias)
		bias_sums(site, run->out_gradient, (float *)((char *)run->scratch + w->bias_at),
			  run->change[1]);
	for (size_t b = 0; st == TW_OK && b < site->batch; b += w->samples) {
		void *const data[] = { (void *)(run->out_gradient + b * places * o->filters), rows,
				       sum };

		for (size_t k = 0; k < w->samples; k++)
			unfold(site, run->in[0] + (b + k) * each,
			       rows + k * places * window_of(site));
		st = tw_hand_run(run->hand, b ? w->more : w->first, data, run->scratch);
	}
	return st == TW_OK ? tw_hand_run(run->hand, w->plain, move, run->scratch) : st;
}
