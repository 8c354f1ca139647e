/* SPDX-License-Identifier: Apache-2.0 */
/* 1f1b-flush.c - a backward as soon as there is one, and an empty pipeline before each update
 * (PipeDream-Flush, Narayanan et al. 2021).
 *
 * The sums and idle times are those of all forwards before all backwards, but stage s never has
 * more than K - s micro-batches in flight.  Lanes of a stage share them. */
#include "strategy/pipeline.h"

static struct tw_pipe_move move(const struct tw_pipe_post *post, uint64_t k)
{
	const uint64_t m = post->micros, ahead = post->ahead;
	const uint64_t warm = ahead < m ? ahead : m;
	const uint64_t group = k / (2 * m + 1), at = k % (2 * m + 1), first = group * m;

	if (at == 2 * m)
		return (struct tw_pipe_move){ TW_UPDATE, post->stage, group };
	if (at < warm)
		return (struct tw_pipe_move){ TW_FORWARD, post->stage, first + at };
	if (at >= 2 * m - warm) /* no forward is left */
		return (struct tw_pipe_move){ TW_BACKWARD, post->stage, first + at - m };
	if ((at - warm) % 2)
		return (struct tw_pipe_move){ TW_BACKWARD, post->stage, first + (at - warm) / 2 };
	return (struct tw_pipe_move){ TW_FORWARD, post->stage, first + warm + (at - warm) / 2 };
}

const struct tw_pipeline tw_pipeline_1f1b_flush = {
	.name = "1f1b-flush",
	.help = "one forward, one backward in turn; the update waits until the group is done; "
		"nothing is late, and few activations are kept",
	.traits = TW_PIPELINE_FLUSHES,
	.move = move,
};
