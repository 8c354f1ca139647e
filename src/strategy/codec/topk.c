/* SPDX-License-Identifier: Apache-2.0 */
/* topk.c - the largest values, exactly; the others are added up until they are large.
 *
 *	r = r + x; send the k values of r that are furthest from 0, and set them to 0
 *
 * k is a share of the slice, so with one shard the largest of the whole vector are sent.  Of equal
 * ones the first are.  With k of all values nothing is left over, and it is fp32.
 *
 * Bytes: a list (strategy/sparse.h). */
#include "strategy/sparse.h"
#include "vec/vec.h"

struct topk_options {
	double share;
};

static const struct tw_option rows[] = {
	TW_OPTION(struct topk_options, share, TW_F64, "0.01", NULL, 1e-6, 1.0,
		  "the share of the values that is sent, of each shard; from 0.5 on all are sent"),
	TW_OPTION_END
};

static size_t sent_of(const void *options, size_t n)
{
	return tw_sparse_count(((const struct topk_options *)options)->share, n);
}

static size_t bound(const void *options, size_t n)
{
	return tw_list_bound(n, sent_of(options, n));
}

static enum tw_status encode(const void *options, void *state, const struct tw_encoding *of,
			     const float *x, size_t n, uint8_t *out, size_t *len)
{
	(void)of;
	if (*len < bound(options, n))
		return TW_NO_ROOM;
	tw_vec_add(state, x, n);
	*len = tw_list_put(out, state, NULL, n, sent_of(options, n));
	return TW_OK;
}

const struct tw_codec tw_codec_topk = {
	.name = "topk",
	.help = "the largest values, exactly; the rest is kept and sent when it has grown",
	.options = rows,
	.options_bytes = sizeof(struct topk_options),
	.traits = TW_CODEC_REMEMBERS | TW_CODEC_PER_SLICE,
	.state_bytes = tw_residual_bytes,
	.bound = bound,
	.encode = encode,
	.check = tw_list_check,
	.add = tw_list_add,
};
