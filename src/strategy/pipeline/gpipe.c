/* SPDX-License-Identifier: Apache-2.0 */
/* gpipe.c - all forwards of a group, all its backwards, then the update (Huang et al. 2018). */
#include "strategy/pipeline.h"

static struct tw_pipe_move move(const struct tw_pipe_post *post, uint64_t k)
{
	const uint64_t m = post->micros, group = k / (2 * m + 1), at = k % (2 * m + 1);

	if (at == 2 * m)
		return (struct tw_pipe_move){ TW_UPDATE, post->stage, group };
	if (at < m)
		return (struct tw_pipe_move){ TW_FORWARD, post->stage, group * m + at };
	return (struct tw_pipe_move){ TW_BACKWARD, post->stage, group * m + at - m };
}

const struct tw_pipeline tw_pipeline_gpipe = {
	.name = "gpipe",
	.help = "all forwards of a group, then all backwards, then the update; nothing is late",
	.traits = TW_PIPELINE_FLUSHES,
	.move = move,
};
