/* SPDX-License-Identifier: Apache-2.0 */
/* layouts.c - the table of layouts.
 *
 * From runs at batch 64 on one core of an Ice Lake with oneDNN 2.6.3, ms for forward, backward by
 * weights, backward by data:
 *
 *	                              PLAIN             LAST            BLOCK16
 *	avx512  20x12x12 -> 50 5x5    4.2  4.2  4.5     2.2  2.4  3.9   -
 *	        16x32x32 -> 16 3x3    9.7 19.7 18.8     4.0  2.9  3.6   3.6  4.0  3.5
 *	        32x16x16 -> 32 3x3    9.8 15.6 13.4     3.2  3.0  3.9   3.7  4.3  3.9
 *	        64x8x8   -> 64 3x3    7.4  7.5  8.7     2.7  2.3  3.0   3.0  3.6  3.1
 *	        32x16x16, depthwise   4.8  6.5  7.3     0.2  0.2  0.4   0.2  0.2  0.3
 *	avx2    16x32x32 -> 16 3x3   10.5 15.7 13.9     4.1  4.7  3.3   plain loops, seconds
 *	plain   16x16x16 -> 16 3x3   10.8 14.8 12.5    10.8 15.9  7.0   plain loops, seconds
 *	        32x16x16, depthwise   5.8  9.1 13.2     0.6  0.6  0.5
 *
 * Backward by data in LAST, direct, turned and folded (see conv_data.c):
 *
 *	avx512  20x12x12 -> 50 5x5    3.9  4.8  1.9
 *	        32x16x16 -> 32 3x3    3.4  2.3  -
 *	        64x8x8   -> 64 3x3    3.2  1.9  -
 *	        16x32x32 -> 16 3x3    3.6  4.0  -
 *
 * The same on one core of an AMD EPYC (family 25, model 17), direct and folded:
 *
 *	avx512  20x12x12 -> 50 5x5    2.9  2.1
 *	avx2    20x12x12 -> 50 5x5    4.3  2.2
 *	        16x32x32 -> 16 3x3    2.8  3.7
 *	        32x16x16 -> 32 3x3    2.6  3.2
 *	        64x8x8   -> 64 3x3    2.4  2.9
 *
 * Backward by weights there, direct and unfolded (see conv_weights.c):
 *
 *	avx512  20x12x12 -> 50 5x5    2.5  2.1
 *	avx2    20x12x12 -> 50 5x5    2.7  2.2
 *	        16x32x32 -> 16 3x3    3.0  3.8
 *	        32x16x16 -> 32 3x3    3.1  3.4
 *	        64x8x8   -> 64 3x3    3.1  3.0
 *	        1x28x28  -> 20 5x5    0.6  1.2
 *
 * So BLOCK16 never pays for its narrower choice of kernels; LAST always has one that is compiled
 * for the machine, also for odd channels and groups. */
#include "graph/layouts.h"
#include "graph/conv.h"
#include "base/machine/isa.h"

enum shape_class { DENSE, GROUPED, DEPTHWISE, CLASSES };

static const enum tw_layout conv[][CLASSES] = {
	[TW_ISA_PLAIN] = { [DENSE] = TW_LAYOUT_PLAIN,
			   [GROUPED] = TW_LAYOUT_PLAIN,
			   [DEPTHWISE] = TW_LAYOUT_LAST },
	[TW_ISA_AVX2] = { [DENSE] = TW_LAYOUT_LAST,
			  [GROUPED] = TW_LAYOUT_LAST,
			  [DEPTHWISE] = TW_LAYOUT_LAST },
	[TW_ISA_AVX512] = { [DENSE] = TW_LAYOUT_LAST,
			    [GROUPED] = TW_LAYOUT_LAST,
			    [DEPTHWISE] = TW_LAYOUT_LAST },
};

void tw_layout_conv(uint32_t ins, uint32_t outs, uint32_t groups, enum tw_layout *in,
		    enum tw_layout *out)
{
	const enum shape_class class = groups == 1                    ? DENSE
				       : groups == ins && ins == outs ? DEPTHWISE
								      : GROUPED;

	*in = *out = conv[tw_isa()][class];
	if (ins == 1) /* the same bytes: nothing needs to be moved */
		*in = TW_LAYOUT_PLAIN;
}

/* Are the kernels of oneDNN slow, and products not?  Those of oneDNN fill registers with channels
 * of the input. */
static bool odd_channels(const struct tw_op_site *site)
{
	const struct tw_conv_options *o = site->options;

	return site->in[0].d[0] % 16 && o->filters >= 32 && o->size.h * o->size.w >= 9;
}

/* Stride 1, no groups, LAST. */
static bool is_simple(const struct tw_op_site *site)
{
	const struct tw_conv_options *o = site->options;

	return tw_isa() != TW_ISA_PLAIN && o->groups == 1 && o->stride.h == 1 && o->stride.w == 1 &&
	       site->in_layout[0] == TW_LAYOUT_LAST && site->out_layout == TW_LAYOUT_LAST;
}

bool tw_conv_unfolds(const struct tw_op_site *site)
{
	return is_simple(site) && odd_channels(site) && site->in[0].d[0] > 1;
}

enum tw_conv_way tw_conv_way_for(const struct tw_op_site *site)
{
	const struct tw_conv_options *o = site->options;
	const struct tw_shape *in = &site->in[0], *out = &site->out;
	const bool same = in->d[1] == out->d[1] && in->d[2] == out->d[2];

	if (!is_simple(site))
		return TW_CONV_DIRECT;
	if (tw_isa() == TW_ISA_AVX512 && same && in->d[0] >= 32 && in->d[0] % 16 == 0 &&
	    o->filters >= 32)
		return TW_CONV_TURNED;
	return odd_channels(site) ? TW_CONV_FOLDED : TW_CONV_DIRECT;
}
