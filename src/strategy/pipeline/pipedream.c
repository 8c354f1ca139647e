/* SPDX-License-Identifier: Apache-2.0 */
/* pipedream.c - one forward, one backward in turn, and nobody waits for an update of the others
 * (Narayanan et al. 2019; Harlap et al. 2018).
 *
 * Stage s reads what it has: its gradients are K - 1 - s updates late with an update per
 * micro-batch.  stash: the backward of a micro-batch uses the parameters of its forward, so stage s
 * keeps K - s versions.  vertical: every stage uses the version that stage 0 had when the
 * micro-batch entered, so that all gradients of it are of one network, K - 1 updates old. */
#include "strategy/pipeline/one_each.h"

struct options {
	bool stash, vertical;
};

static const struct tw_option rows[] = {
	TW_OPTION(struct options, stash, TW_BOOL, "true", NULL, 0, 0,
		  "the backward of a micro-batch uses the parameters that its forward used; false: "
		  "the newest, which saves memory and makes a gradient of no network"),
	TW_OPTION(struct options, vertical, TW_BOOL, "false", NULL, 0, 0,
		  "all stages use the version that the first one had when the micro-batch entered"),
	TW_OPTION_END
};

static bool stashes(const void *options)
{
	return ((const struct options *)options)->stash;
}

static bool vertical(const void *options)
{
	return ((const struct options *)options)->vertical;
}

static enum tw_status check(const void *options, struct tw_error *why)
{
	if (vertical(options) && !stashes(options))
		return tw_fail(why, TW_BAD_INPUT,
			       "vertical: needs stash: true, because a version that all stages "
			       "have in common must be kept until the backward");
	return TW_OK;
}

/* When micro-batch b enters, stage 0 has made the backwards of all before b - K + 1. */
static uint64_t reads(const void *options, const struct tw_pipe_shape *shape, uint64_t micro)
{
	if (!vertical(options))
		return TW_PIPE_NEWEST;
	return micro < shape->stages ? 0 : (micro - shape->stages + 1) / shape->micros;
}

const struct tw_pipeline tw_pipeline_pipedream = {
	.name = "pipedream",
	.help = "one forward, one backward in turn, without waiting for updates; stage s of K is "
		"K - 1 - s updates late",
	.options = rows,
	.options_bytes = sizeof(struct options),
	.check = check,
	.move = tw_one_each_move,
	.reads = reads,
	.stashes = stashes,
	.vertical = vertical,
};
