/* SPDX-License-Identifier: Apache-2.0 */
/* one_each.h - one forward, one backward, without an end: what asynchronous schedules do.
 *
 * A cell makes as many forwards first as there are cells after it: stage s of K, K - 1 - s.  The
 * lanes of a stage share them (Narayanan et al. 2019).  From then on each forward is followed by
 * the backward of the oldest micro-batch in flight, and every M backwards by an update. */
#ifndef TW_STRATEGY_PIPELINE_ONE_EACH_H
#define TW_STRATEGY_PIPELINE_ONE_EACH_H

#include "strategy/pipeline.h"

static inline struct tw_pipe_move tw_one_each_move(const struct tw_pipe_post *post, uint64_t k)
{
	const uint64_t warm = post->ahead, per_group = 2 * (uint64_t)post->micros + 1;
	uint64_t group, at, micro;

	if (k < warm)
		return (struct tw_pipe_move){ TW_FORWARD, post->stage, k };
	group = (k - warm) / per_group;
	at = (k - warm) % per_group;
	if (at == per_group - 1)
		return (struct tw_pipe_move){ TW_UPDATE, post->stage, group };
	micro = group * post->micros + at / 2;
	if (at % 2)
		return (struct tw_pipe_move){ TW_BACKWARD, post->stage, micro };
	return (struct tw_pipe_move){ TW_FORWARD, post->stage, warm + micro };
}

#endif
