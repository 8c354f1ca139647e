/* SPDX-License-Identifier: Apache-2.0 */
/* conv_data.c - the gradient of a convolution's input, in one of three ways.
 *
 *  direct  oneDNN's own backward pass.
 *  turned  a forward convolution of the output's gradient with the filters turned round and their
 *          two channel sides swapped; stride 1 only.
 *  folded  a product of each sample's gradient [place][filter] with the weights [filter][row,
 *          column, channel], whose rows are then added to the windows they belong to; stride 1
 *          and LAST only.
 *
 * Scratch: scratchpad, weights once reordered, weights twice reordered, rows of one sample. */
#include "graph/conv.h"
#include "graph/op/window.h"
#include "vec/clone.h"

#include <string.h>

/* Where weights pass through: `first` bytes, then `second` bytes, then rows. */
static void carve(struct tw_conv_data *d, size_t pad, size_t first, size_t second, size_t rows,
		  size_t *scratch)
{
	d->first_at = tw_op_aligned(pad);
	d->second_at = d->first_at + tw_op_aligned(first);
	d->rows_at = d->second_at + tw_op_aligned(second);
	*scratch = d->rows_at + rows;
}

static enum tw_status prepare_direct(struct tw_onednn *kit, const struct tw_conv_shapes *s,
				     const_dnnl_primitive_desc_t hint, struct tw_conv_data *d,
				     size_t *scratch)
{
	static const int arg[] = { DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC };
	dnnl_convolution_desc_t desc;
	dnnl_primitive_desc_t pd;
	dnnl_memory_desc_t md;
	size_t pad = 0;
	enum tw_status st = tw_onednn_status(dnnl_convolution_backward_data_desc_init(
		&desc, dnnl_convolution_direct, &s->in, &s->any, &s->out, s->stride, s->pad,
		s->pad));

	if (st == TW_OK)
		st = tw_onednn_status(dnnl_primitive_desc_create(&pd, &desc, tw_onednn_attr(kit),
								 tw_onednn_engine(kit), hint));
	if (st != TW_OK)
		return st;
	md = *dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
	st = tw_onednn_add(kit, pd, arg, 3, &d->primitive, &pad);
	if (st == TW_OK)
		st = tw_onednn_reorder(kit, &s->plain, &md, &d->order, &pad);
	carve(d, pad, dnnl_memory_desc_get_size(&md), 0, 0, scratch);
	return st;
}

static enum tw_status prepare_turned(const struct tw_op_site *site, struct tw_onednn *kit,
				     const struct tw_conv_shapes *s, struct tw_conv_data *d,
				     size_t *scratch)
{
	static const int arg[] = { DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST };
	const struct tw_conv_options *o = site->options;
	const dnnl_dims_t dims = { site->in[0].d[0], o->filters, o->size.h, o->size.w };
	const dnnl_dims_t around = { o->size.h - 1 - o->pad.h, o->size.w - 1 - o->pad.w };
	dnnl_memory_desc_t plain, any, md;
	dnnl_convolution_desc_t desc;
	dnnl_primitive_desc_t pd;
	size_t pad = 0;
	enum tw_status st = tw_onednn_status(
		dnnl_memory_desc_init_by_tag(&plain, 4, dims, dnnl_f32, dnnl_oihw));

	if (st == TW_OK)
		st = tw_onednn_status(
			dnnl_memory_desc_init_by_tag(&any, 4, dims, dnnl_f32, dnnl_format_tag_any));
	if (st == TW_OK)
		st = tw_onednn_status(dnnl_convolution_forward_desc_init(
			&desc, dnnl_forward_training, dnnl_convolution_direct, &s->out, &any, NULL,
			&s->in, s->stride, around, around));
	if (st == TW_OK)
		st = tw_onednn_status(dnnl_primitive_desc_create(&pd, &desc, tw_onednn_attr(kit),
								 tw_onednn_engine(kit), NULL));
	if (st != TW_OK)
		return st;
	md = *dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
	st = tw_onednn_add(kit, pd, arg, 3, &d->primitive, &pad);
	if (st == TW_OK)
		st = tw_onednn_reorder(kit, &plain, &md, &d->order, &pad);
	carve(d, pad, dnnl_memory_desc_get_size(&plain), dnnl_memory_desc_get_size(&md), 0,
	      scratch);
	return st;
}

/* [place][filter] times [filter][window], for one sample. */
static enum tw_status product(const struct tw_op_site *site, struct tw_onednn *kit,
			      dnnl_dim_t window, const dnnl_memory_desc_t *any,
			      dnnl_primitive_desc_t *out)
{
	const struct tw_conv_options *o = site->options;
	const dnnl_dim_t places = (dnnl_dim_t)site->out.d[1] * site->out.d[2];
	const dnnl_dims_t da = { places, o->filters }, dc = { places, window };
	dnnl_memory_desc_t a, c;
	enum tw_status st =
		tw_onednn_status(dnnl_memory_desc_init_by_tag(&a, 2, da, dnnl_f32, dnnl_ab));

	if (st == TW_OK)
		st = tw_onednn_status(dnnl_memory_desc_init_by_tag(&c, 2, dc, dnnl_f32, dnnl_ab));
	return st == TW_OK ? tw_onednn_product(kit, &a, any, &c, false, out) : st;
}

static enum tw_status prepare_folded(const struct tw_op_site *site, struct tw_onednn *kit,
				     const struct tw_conv_shapes *s, struct tw_conv_data *d,
				     size_t *scratch)
{
	static const int arg[] = { DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST };
	const struct tw_conv_options *o = site->options;
	const dnnl_dim_t window = (dnnl_dim_t)o->size.h * o->size.w * site->in[0].d[0];
	const dnnl_dims_t flat = { o->filters, window };
	const size_t places = (size_t)site->out.d[1] * site->out.d[2];
	dnnl_memory_desc_t last, matrix, any, md;
	dnnl_primitive_desc_t pd;
	size_t pad = 0;
	enum tw_status st = tw_onednn_status(
		dnnl_memory_desc_init_by_tag(&last, 4, s->plain.dims, dnnl_f32, dnnl_ohwi));

	if (st == TW_OK)
		st = tw_onednn_status(
			dnnl_memory_desc_init_by_tag(&matrix, 2, flat, dnnl_f32, dnnl_ab));
	if (st == TW_OK)
		st = tw_onednn_status(
			dnnl_memory_desc_init_by_tag(&any, 2, flat, dnnl_f32, dnnl_format_tag_any));
	if (st == TW_OK)
		st = product(site, kit, window, &any, &pd);
	if (st != TW_OK)
		return st;
	md = *dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
	st = tw_onednn_add(kit, pd, arg, 3, &d->primitive, &pad);
	if (st == TW_OK)
		st = tw_onednn_reorder(kit, &s->plain, &last, &d->order, &pad);
	if (st == TW_OK)
		st = tw_onednn_reorder(kit, &matrix, &md, &d->order_again, &pad);
	carve(d, pad, dnnl_memory_desc_get_size(&last), dnnl_memory_desc_get_size(&md),
	      places * (size_t)window * sizeof(float), scratch);
	return st;
}

enum tw_status tw_conv_data_prepare(const struct tw_op_site *site, struct tw_onednn *kit,
				    const struct tw_conv_shapes *s,
				    const_dnnl_primitive_desc_t hint, struct tw_conv_data *d,
				    size_t *scratch)
{
	d->way = tw_conv_way_for(site);
	d->order = d->order_again = TW_KIT_NONE;
	switch (d->way) {
	case TW_CONV_TURNED:
		return prepare_turned(site, kit, s, d, scratch);
	case TW_CONV_FOLDED:
		return prepare_folded(site, kit, s, d, scratch);
	default:
		return prepare_direct(kit, s, hint, d, scratch);
	}
}

/* *weights in another order at `at`, if the primitive wants one; *weights then points there. */
static enum tw_status reorder(const struct tw_op_run *run, uint32_t id, size_t at, void **weights)
{
	void *move[] = { *weights, (char *)run->scratch + at };

	if (id == TW_KIT_NONE)
		return TW_OK;
	*weights = move[1];
	return tw_hand_run(run->hand, id, move, run->scratch);
}

/* to[i][f][taps - 1 - t] = from[f][i][t] */
static void turn(const float *from, size_t filters, size_t channels, size_t taps, float *to)
{
	for (size_t i = 0; i < channels; i++)
		for (size_t f = 0; f < filters; f++) {
			const float *a = from + (f * channels + i) * taps;

			for (size_t t = taps; t-- > 0;)
				*to++ = a[t];
		}
}

/* What the folding needs to know; rows are [out_h][out_w][size.h][size.w][channels]. */
struct fold {
	struct tw_extent size, pad;
	size_t h, w, channels, out_h, out_w;
};

/* The windows in which a pixel lies: it is tap k of the one at place pixel + pad - k. */
static inline void touching(size_t pixel, size_t pad, size_t size, size_t outs, size_t *from,
			    size_t *to)
{
	*from = pixel + pad + 1 > outs ? pixel + pad + 1 - outs : 0;
	*to = pixel + pad + 1 < size ? pixel + pad + 1 : size;
}

static inline __attribute__((always_inline)) void fold_few(const struct fold *f, const float *rows,
							   const size_t at[2], const size_t r[2],
							   const size_t q[2], float *dx)
{
	const size_t window = (size_t)f->size.h * f->size.w * f->channels;

	memset(dx, 0, f->channels * sizeof *dx);
	for (size_t i = r[0]; i < r[1]; i++) {
		const size_t line = (at[0] + f->pad.h - i) * f->out_w + at[1] + f->pad.w;

		for (size_t k = q[0]; k < q[1]; k++)
			for (size_t c = 0; c < f->channels; c++)
				dx[c] += rows[(line - k) * window +
					      (i * f->size.w + k) * f->channels + c];
	}
}

/* As many channels as a register has, from channel c on, over the taps [r[0], r[1]) x [q[0], q[1])
 * of a pixel.  A value is added up in a register: adding row by row into dx would wait for each
 * store. */
#define FOLD_SOME(lanes, c)                                                                        \
	do {                                                                                       \
		lanes sum_ = { 0 };                                                                \
                                                                                                   \
		for (size_t i_ = r[0]; i_ < r[1]; i_++) {                                          \
			const float *line_ =                                                       \
				rows + (c) + i_ * across +                                         \
				((y + f->pad.h - i_) * f->out_w + x + f->pad.w) * window;          \
                                                                                                   \
			for (size_t k_ = q[0]; k_ < q[1]; k_++)                                    \
				sum_ += *(const lanes *)(line_ + k_ * f->channels - k_ * window);  \
		}                                                                                  \
		*(lanes *)(dx + (c)) = sum_;                                                       \
	} while (0)

/* Each pixel of a sample is the sum of the rows' values that belong to it.  The last piece of a
 * pixel begins early enough to be whole; values done twice come out the same.
 *
 * A macro, because gcc takes a vector apart in an inline function of another target before it is
 * inlined. */
#define FOLD(lanes)                                                                                \
	const size_t wide = sizeof(lanes) / sizeof(float), across = f->size.w * f->channels;       \
	const size_t window = f->size.h * across;                                                  \
                                                                                                   \
	for (size_t y = 0; y < f->h; y++)                                                          \
		for (size_t x = 0; x < f->w; x++, dx += f->channels) {                             \
			size_t r[2], q[2], c = 0;                                                  \
                                                                                                   \
			touching(y, f->pad.h, f->size.h, f->out_h, &r[0], &r[1]);                  \
			touching(x, f->pad.w, f->size.w, f->out_w, &q[0], &q[1]);                  \
			for (; c + wide <= f->channels; c += wide)                                 \
				FOLD_SOME(lanes, c);                                               \
			if (f->channels < wide)                                                    \
				fold_few(f, rows, (size_t[2]){ y, x }, r, q, dx);                  \
			else if (c < f->channels)                                                  \
				FOLD_SOME(lanes, f->channels - wide);                              \
		}

#define LANES(name, floats)                                                                        \
	typedef float name __attribute__((vector_size(4 * (floats)), aligned(4)))

LANES(four, 4);

static void fold_plain(const struct fold *f, const float *rows, float *dx){ FOLD(four) }

#ifdef TW_TARGET_AVX2
LANES(eight, 8);
LANES(sixteen, 16);

TW_TARGET_AVX2 static void fold_avx2(const struct fold *f, const float *rows,
				     float *dx){ FOLD(eight) }

TW_TARGET_AVX512 static void fold_avx512(const struct fold *f, const float *rows, float *dx)
{
	FOLD(sixteen)
}
#endif

static void fold(const struct fold *f, const float *rows, float *dx)
{
	switch (tw_isa()) {
#ifdef TW_TARGET_AVX2
	case TW_ISA_AVX512:
		fold_avx512(f, rows, dx);
		break;
	case TW_ISA_AVX2:
		fold_avx2(f, rows, dx);
		break;
#endif
	default:
		fold_plain(f, rows, dx);
	}
}

static enum tw_status run_folded(const struct tw_op_site *site, const struct tw_conv_data *d,
				 const struct tw_op_run *run, void *weights)
{
	const struct tw_conv_options *o = site->options;
	const struct tw_shape *in = &site->in[0], *out = &site->out;
	const struct fold f = {
		.size = o->size,
		.pad = o->pad,
		.h = in->d[1],
		.w = in->d[2],
		.channels = in->d[0],
		.out_h = out->d[1],
		.out_w = out->d[2],
	};
	float *rows = (float *)((char *)run->scratch + d->rows_at);
	enum tw_status st = TW_OK;

	for (size_t b = 0; st == TW_OK && b < site->batch; b++) {
		void *data[] = { (void *)(run->out_gradient + b * tw_shape_size(out)), weights,
				 rows };

		st = tw_hand_run(run->hand, d->primitive, data, run->scratch);
		fold(&f, rows, run->in_gradient[0] + b * tw_shape_size(in));
	}
	return st;
}

enum tw_status tw_conv_data_run(const struct tw_op_site *site, const struct tw_conv_data *d,
				const struct tw_op_run *run)
{
	const struct tw_conv_options *o = site->options;
	const bool turned = d->way == TW_CONV_TURNED;
	void *weights = (void *)run->parameter[0];
	void *data[] = { (void *)run->out_gradient, NULL, run->in_gradient[0] };
	enum tw_status st;

	if (turned) {
		weights = (char *)run->scratch + d->first_at;
		turn(run->parameter[0], o->filters, site->in[0].d[0], (size_t)o->size.h * o->size.w,
		     weights);
	}
	st = reorder(run, d->order, turned ? d->second_at : d->first_at, &weights);
	if (st == TW_OK)
		st = reorder(run, d->order_again, d->second_at, &weights);
	if (st != TW_OK || d->way == TW_CONV_FOLDED)
		return st == TW_OK ? run_folded(site, d, run, weights) : st;
	data[1] = weights;
	return tw_hand_run(run->hand, d->primitive, data, run->scratch);
}
