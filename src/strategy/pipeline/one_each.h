/* SPDX-License-Identifier: Apache-2.0 */
/* one_each.h - one forward, one backward, without an end: what asynchronous schedules do.
 *
 * Cell c of K makes K - 1 - c forwards first.  From then on each forward is followed by the
 * backward of the oldest micro-batch in flight, and every M backwards by an update. */
#ifndef TW_STRATEGY_PIPELINE_ONE_EACH_H
#define TW_STRATEGY_PIPELINE_ONE_EACH_H

#include "strategy/pipeline.h"

static inline struct tw_pipe_move tw_one_each_move(const struct tw_pipe_shape *shape, uint32_t cell,
						   uint64_t k)
{
	const uint64_t warm = shape->stages - 1 - cell, per_group = 2 * (uint64_t)shape->micros + 1;
	uint64_t group, at, micro;

	if (k < warm)
		return (struct tw_pipe_move){ TW_FORWARD, cell, k };
	group = (k - warm) / per_group;
	at = (k - warm) % per_group;
	if (at == per_group - 1)
		return (struct tw_pipe_move){ TW_UPDATE, cell, group };
	micro = group * shape->micros + at / 2;
	if (at % 2)
		return (struct tw_pipe_move){ TW_BACKWARD, cell, micro };
	return (struct tw_pipe_move){ TW_FORWARD, cell, warm + micro };
}

#endif
