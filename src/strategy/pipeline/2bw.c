/* SPDX-License-Identifier: Apache-2.0 */
/* 2bw.c - double-buffered weights: every group reads the version before the newest, at every stage
 * (PipeDream-2BW, Narayanan et al. 2021).
 *
 * Group g reads version g - 1, so every gradient is one update late and two versions are enough.
 * Stage 0 has made g - 1 updates when group g enters if M is at least K - 1. */
#include "strategy/pipeline/one_each.h"

static uint32_t least(const void *options, uint32_t stages)
{
	(void)options;
	return stages > 2 ? stages - 1 : 1;
}

static uint64_t reads(const void *options, const struct tw_pipe_shape *shape, uint64_t micro)
{
	const uint64_t group = micro / shape->micros;

	(void)options;
	return group ? group - 1 : 0;
}

static bool vertical(const void *options)
{
	(void)options;
	return true;
}

const struct tw_pipeline tw_pipeline_2bw = {
	.name = "2bw",
	.help = "one forward, one backward in turn; every stage is one update late and keeps two "
		"versions; accumulate must be at least stages - 1",
	.least = least,
	.move = tw_one_each_move,
	.reads = reads,
	.vertical = vertical,
};
