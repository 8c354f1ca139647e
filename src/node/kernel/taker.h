/* SPDX-License-Identifier: Apache-2.0 */
/* taker.h - the seat of the one who takes a contribution at a shard.
 *
 * There is one holder per plan, chosen when the shard opens. */
#ifndef TW_NODE_KERNEL_TAKER_H
#define TW_NODE_KERNEL_TAKER_H

#include "actor/cluster.h"

struct shard;

struct tw_taker {
	const char *name;
	/* PUSH of a worker that may speak for this slot: take it, once and in order, or say why
	 * not, and acknowledge it. */
	void (*push)(struct shard *s, struct tw_context *ctx, uint32_t slot,
		     const struct tw_msg *m);
};

#endif
