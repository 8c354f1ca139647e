/* SPDX-License-Identifier: Apache-2.0 */
/* dgc.c - Deep Gradient Compression (Lin et al. 2018): the largest values of a residual of
 * velocities.
 *
 *	u = momentum * u + x; r = r + u; send the k values of r that are furthest from 0, and set
 *	them to 0 in r (sent) and in u (factor masking)
 *
 * The momentum is in what is sent, so the rule must have none.  During the warm-up the share falls
 * from a quarter to its own value, by equal factors.
 *
 * Bytes: a list (strategy/sparse.h). */
#include "strategy/sparse.h"
#include "vec/clone.h"

#include <math.h>

#define WARM 0.25 /* the share at the start of the warm-up */

struct dgc_options {
	double share, warmup;
	float momentum;
};

static const struct tw_option rows[] = {
	TW_OPTION(struct dgc_options, share, TW_F64, "0.001", NULL, 1e-6, WARM,
		  "the share of the values that is sent, of each shard"),
	TW_OPTION(struct dgc_options, momentum, TW_F32, "0.9", NULL, 0, 0.9999,
		  "momentum of the velocity that is added up"),
	TW_OPTION(struct dgc_options, warmup, TW_EPOCHS, "0 epochs", "epochs", 0, 1e6,
		  "time in which the share falls from a quarter to its own value",
		  .example = "4 epochs"),
	TW_OPTION_END
};

/* The residual, then the velocity. */
static size_t state_bytes(const void *options, size_t n)
{
	(void)options;
	return 2 * n * sizeof(float);
}

static size_t bound(const void *options, size_t n)
{
	const struct dgc_options *o = options;

	return tw_list_bound(n, tw_sparse_count(o->warmup > 0 ? WARM : o->share, n));
}

static double share_at(const struct dgc_options *o, double progress)
{
	if (!(progress < o->warmup))
		return o->share;
	return WARM * pow(o->share / WARM, progress / o->warmup);
}

TW_CLONED_STATIC(void, collect, (float *r, float *u, const float *x, float momentum, size_t n),
		 (r, u, x, momentum, n))
{
#pragma GCC ivdep
	for (size_t i = 0; i < n; i++) {
		u[i] = fmaf(momentum, u[i], x[i]);
		r[i] += u[i];
	}
}

static enum tw_status encode(const void *options, void *state, const struct tw_encoding *of,
			     const float *x, size_t n, uint8_t *out, size_t *len)
{
	const struct dgc_options *o = options;
	float *const r = state, *const u = r + n;

	if (*len < bound(options, n))
		return TW_NO_ROOM;
	collect(r, u, x, o->momentum, n);
	*len = tw_list_put(out, r, u, n, tw_sparse_count(share_at(o, of->progress), n));
	return TW_OK;
}

const struct tw_codec tw_codec_dgc = {
	.name = "dgc",
	.help = "the largest values of summed velocities; momentum is the codec's, not the rule's",
	.options = rows,
	.options_bytes = sizeof(struct dgc_options),
	.traits = TW_CODEC_REMEMBERS | TW_CODEC_PER_SLICE | TW_CODEC_MOMENTUM,
	.state_bytes = state_bytes,
	.bound = bound,
	.encode = encode,
	.check = tw_list_check,
	.add = tw_list_add,
};
