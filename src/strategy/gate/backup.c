/* SPDX-License-Identifier: Apache-2.0 */
/* backup.c - synchronous rounds that close without the slowest few (Chen et al. 2016).
 *
 * The first distinct workers count; what comes for a closed round is dropped, never applied. */
#include "strategy/gate.h"
#include "strategy/gate/sum.h"

struct options {
	uint32_t extra;
	struct tw_summing sum;
	bool abandon;
};

static const struct tw_option rows[] = {
	TW_OPTION(struct options, extra, TW_U32, "1", "workers", 0, 65535,
		  "how many of the workers a round does not wait for"),
	TW_OPTION(struct options, abandon, TW_BOOL, "false", NULL, 0, 0,
		  "late workers cancel their computation when their round closes"),
	TW_OPTION_ROBUST_SUM(struct options), TW_OPTION_END
};

static enum tw_status check(const void *options, uint32_t workers, struct tw_error *why)
{
	const struct options *o = options;

	if (o->extra < workers)
		return TW_OK;
	return tw_fail(why, TW_BAD_INPUT,
		       "extra: with %u workers, %u extra would leave no worker for a round; use 0 "
		       "to %u, or more workers",
		       workers, o->extra, workers ? workers - 1 : 0);
}

/* Those who are late already are among the `extra` that are not waited for. */
static uint32_t quorum(const void *options, uint32_t stripes, uint32_t busy)
{
	const struct options *o = options;
	const uint32_t spare = o->extra > busy ? o->extra - busy : 0;

	return stripes > spare ? stripes - spare : 1;
}

static bool abandons(const void *options)
{
	return ((const struct options *)options)->abandon;
}

const struct tw_gate tw_gate_backup = {
	.name = "backup",
	.help = "synchronous rounds with backup workers: a round does not wait for the slowest "
		"`extra`",
	.options = rows,
	.options_bytes = sizeof(struct options),
	.traits = TW_GATE_ROUNDS | TW_GATE_COLLECTS,
	.check = check,
	.quorum = quorum,
	.abandons = abandons,
	.sum = offsetof(struct options, sum),
};
