/* SPDX-License-Identifier: Apache-2.0 */
/* linear_back.c - the two backward products of a linear layer, over padded copies where that pays.
 *
 *  weights  dw[out][in] = dy^T x, with copies of dy and x
 *  data     dx[batch][in] = dy w, with some rows of w at a time, whose products are added up: with
 *           a copy of BLOCK rows, which stays in the cache, or in place (tw_linear_rows)
 *
 * Without a copy, weights and data of few rows are oneDNN's inner product.  Its kernels for AVX2
 * (2.6) are slow where the rows of a matrix lie a multiple of 1 or 2 KB apart: they share few sets
 * of the first cache.
 *
 * GFLOP/s of one core of an AMD EPYC (family 25, model 17) that was limited to AVX2, copying
 * included, batch x in -> out:
 *
 *                      weights          data
 *                      as is  padded    as is  padded
 *  64 x 256 -> 256     94     108       108    98
 *  64 x 512 -> 512     73     105       66     104
 *  64 x 1024 -> 1024   91     98        44     89
 *  128 x 2048 -> 2048  98     101       44     86
 *  128 x 2048 -> 10    48     68        49     84
 *  64 x 8192 -> 8192   99     99        41     68
 *  64 x 784 -> 512     109    110       113    100
 *
 * Data with BLOCK rows, padded: 64 rows 82 to 95, 128 rows 90 to 100, 256 rows 90 to 102, 512 rows
 * 88 to 101 for the four square layers from 512 to 8192.  In place, in so many rows of 4 MiB as
 * tw_linear_rows says, and all rows at once: 128 x 784 -> 2048 106 and 108 with AVX2, 104 and 103
 * with AVX-512; with AVX-512 also 128 x 2048 -> 2048 97 and 98, 64 x 8192 -> 8192 96 and 97. */
#include "graph/linear_back.h"

#include "base/machine/isa.h"
#include "graph/op/product.h"

#include <string.h>

#define PAD   16  /* floats between the rows of a copy */
#define BLOCK 256 /* rows of the weights that are copied at a time */

enum product { WEIGHTS, DATA };

/* Copies pay with this instruction set if a row has a multiple of so many values. */
static const struct {
	enum tw_isa isa;
	enum product product;
	uint32_t row;
} table[] = {
	{ TW_ISA_AVX2, WEIGHTS, 256 },
	{ TW_ISA_AVX2, DATA, 512 },
};

static bool pays(enum product product, uint32_t row)
{
	for (size_t k = 0; k < sizeof table / sizeof table[0]; k++)
		if (table[k].isa == tw_isa() && table[k].product == product)
			return row % table[k].row == 0;
	return false;
}

/* --- as is --------------------------------------------------------------------------------- */

/* What oneDNN wants to see before it makes a backward inner product. */
struct hint {
	dnnl_memory_desc_t x, w, y;
	dnnl_primitive_desc_t forward;
};

static enum tw_status make_hint(const struct tw_op_site *site, struct tw_onednn *kit,
				struct hint *h)
{
	const uint32_t in = tw_shape_width(&site->in[0]), out = tw_shape_width(&site->out);
	dnnl_inner_product_desc_t d;
	dnnl_status_t st;

	h->x = tw_product_view(tw_op_lines(site), in, in, 1);
	h->w = tw_product_view(out, in, in, 1);
	h->y = tw_product_view(tw_op_lines(site), out, out, 1);
	st = dnnl_inner_product_forward_desc_init(&d, dnnl_forward_training, &h->x, &h->w, NULL,
						  &h->y);
	if (st == dnnl_success)
		st = dnnl_primitive_desc_create(&h->forward, &d, tw_onednn_attr(kit),
						tw_onednn_engine(kit), NULL);
	return tw_onednn_status(st);
}

static enum tw_status add_inner(struct tw_onednn *kit, const struct hint *h,
				const dnnl_inner_product_desc_t *d, const int *arg, uint32_t *id,
				size_t *pad)
{
	dnnl_primitive_desc_t pd;
	const enum tw_status st = tw_onednn_status(dnnl_primitive_desc_create(
		&pd, d, tw_onednn_attr(kit), tw_onednn_engine(kit), h->forward));

	return st == TW_OK ? tw_onednn_add(kit, pd, arg, 3, id, pad) : st;
}

static enum tw_status inner_weights(struct tw_onednn *kit, const struct hint *h,
				    struct tw_linear_back *l, size_t *pad)
{
	static const int arg[] = { DNNL_ARG_DIFF_DST, DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS };
	dnnl_inner_product_desc_t d;
	const enum tw_status st = tw_onednn_status(
		dnnl_inner_product_backward_weights_desc_init(&d, &h->x, &h->w, NULL, &h->y));

	return st == TW_OK ? add_inner(kit, h, &d, arg, &l->weights, pad) : st;
}

static enum tw_status inner_data(struct tw_onednn *kit, const struct hint *h,
				 struct tw_linear_back *l, size_t *pad)
{
	static const int arg[] = { DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC };
	dnnl_inner_product_desc_t d;
	const enum tw_status st = tw_onednn_status(
		dnnl_inner_product_backward_data_desc_init(&d, &h->x, &h->w, &h->y));

	return st == TW_OK ? add_inner(kit, h, &d, arg, &l->data, pad) : st;
}

/* --- over copies --------------------------------------------------------------------------- */

static enum tw_status padded_weights(const struct tw_op_site *site, struct tw_onednn *kit,
				     struct tw_linear_back *l, size_t *pad)
{
	const uint32_t in = tw_shape_width(&site->in[0]), out = tw_shape_width(&site->out),
		       batch = tw_op_lines(site);
	const dnnl_memory_desc_t y = tw_product_view(out, batch, 1, out + PAD);
	const dnnl_memory_desc_t x = tw_product_view(batch, in, in + PAD, 1);
	const dnnl_memory_desc_t w = tw_product_view(out, in, in, 1);

	return tw_product_add(kit, y, x, w, false, &l->weights, pad);
}

/* The product with so many rows of the weights. */
static enum tw_status some_rows(const struct tw_op_site *site, struct tw_onednn *kit, uint32_t rows,
				bool padded, bool adds, uint32_t *id, size_t *pad)
{
	const uint32_t in = tw_shape_width(&site->in[0]);
	const dnnl_memory_desc_t y =
		tw_product_view(tw_op_lines(site), rows, tw_shape_width(&site->out), 1);
	const dnnl_memory_desc_t w = tw_product_view(rows, in, padded ? in + PAD : in, 1);
	const dnnl_memory_desc_t x = tw_product_view(tw_op_lines(site), in, in, 1);

	return rows ? tw_product_add(kit, y, w, x, adds, id, pad) : TW_OK;
}

static enum tw_status data_by_rows(const struct tw_op_site *site, struct tw_onednn *kit,
				   struct tw_linear_back *l, size_t *pad)
{
	const uint32_t out = tw_shape_width(&site->out), rows = l->rows;
	const bool padded = l->data_padded;
	enum tw_status st = some_rows(site, kit, rows, padded, false, &l->data, pad);

	if (st == TW_OK)
		st = some_rows(site, kit, out >= 2 * rows ? rows : 0, padded, true, &l->more, pad);
	return st == TW_OK ? some_rows(site, kit, out % rows, padded, true, &l->rest, pad) : st;
}

/* --- both ---------------------------------------------------------------------------------- */

static size_t copies(const struct tw_op_site *site, const struct tw_linear_back *l)
{
	const size_t in = tw_shape_width(&site->in[0]), out = tw_shape_width(&site->out);
	const size_t lines = tw_op_lines(site);
	const size_t weights = l->weights_padded ? lines * (in + out + 2 * PAD) : 0;
	const size_t data = site->wants[0] ? l->rows * (l->data_padded ? in + PAD : in) : 0;

	return (weights > data ? weights : data) * sizeof(float);
}

static uint32_t rows_for(const struct tw_op_site *site, bool padded)
{
	const uint32_t out = tw_shape_width(&site->out);

	if (!padded)
		return tw_linear_rows(site);
	return out < BLOCK ? out : BLOCK;
}

enum tw_status tw_linear_back_prepare(const struct tw_op_site *site, struct tw_onednn *kit,
				      struct tw_linear_back *l, size_t *scratch)
{
	const uint32_t in = tw_shape_width(&site->in[0]);
	struct hint h = { .forward = NULL };
	size_t pad = 0;
	enum tw_status st = make_hint(site, kit, &h);

	l->weights_padded = pays(WEIGHTS, in) && !site->frozen;
	l->data_padded = pays(DATA, in);
	l->rows = rows_for(site, l->data_padded);
	if (st == TW_OK && !site->frozen)
		st = l->weights_padded ? padded_weights(site, kit, l, &pad)
				       : inner_weights(kit, &h, l, &pad);
	if (st == TW_OK && site->wants[0])
		st = l->data_padded || l->rows < tw_shape_width(&site->out)
			     ? data_by_rows(site, kit, l, &pad)
			     : inner_data(kit, &h, l, &pad);
	dnnl_primitive_desc_destroy(h.forward);
	l->copies_at = tw_op_aligned(pad);
	*scratch = l->copies_at + copies(site, l);
	return st;
}

static void copy_rows(const float *from, size_t rows, size_t n, float *to)
{
	for (size_t r = 0; r < rows; r++, from += n, to += n + PAD)
		memcpy(to, from, n * sizeof *to);
}

static enum tw_status run_weights(const struct tw_op_site *site, const struct tw_linear_back *l,
				  const struct tw_op_run *run, float *at)
{
	const size_t in = tw_shape_width(&site->in[0]), out = tw_shape_width(&site->out);
	void *data[] = { tw_product_source(run->out_gradient), tw_product_source(run->in[0]),
			 run->change[0] };

	if (l->weights_padded) {
		data[0] = at;
		data[1] = at + tw_op_lines(site) * (out + PAD);
		copy_rows(run->out_gradient, tw_op_lines(site), out, data[0]);
		copy_rows(run->in[0], tw_op_lines(site), in, data[1]);
	}
	return tw_hand_run(run->hand, l->weights, data, run->scratch);
}

/* Rows r..r+n of the weights as the products want them; `at` has room for a copy. */
static void *some_weights(const struct tw_linear_back *l, const struct tw_op_run *run, size_t in,
			  size_t r, size_t n, float *at)
{
	if (!l->data_padded)
		return tw_product_source(tw_op_values(run, 0, r * in, n * in, at));
	for (size_t i = 0; i < n; i++)
		tw_op_copy(run, 0, (r + i) * in, in, at + i * (in + PAD));
	return at;
}

static enum tw_status run_data(const struct tw_op_site *site, const struct tw_linear_back *l,
			       const struct tw_op_run *run, float *at)
{
	const size_t in = tw_shape_width(&site->in[0]), out = tw_shape_width(&site->out),
		     rows = l->rows;
	enum tw_status st = TW_OK;

	for (size_t r = 0; r < out && st == TW_OK; r += rows) {
		const size_t n = out - r < rows ? out - r : rows;
		void *data[] = { tw_product_source(run->out_gradient + r),
				 some_weights(l, run, in, r, n, at), run->in_gradient[0] };

		st = tw_hand_run(run->hand,
				 n < rows ? l->rest
				 : r      ? l->more
					  : l->data,
				 data, run->scratch);
	}
	return st;
}

enum tw_status tw_linear_back_run(const struct tw_op_site *site, const struct tw_linear_back *l,
				  const struct tw_op_run *run)
{
	float *at = (float *)((char *)run->scratch + l->copies_at);
	const enum tw_status st = site->frozen ? TW_OK : run_weights(site, l, run, at);

	return st == TW_OK && run->in_gradient[0] ? run_data(site, l, run, at) : st;
}
