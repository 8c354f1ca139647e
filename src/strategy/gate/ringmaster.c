/* SPDX-License-Identifier: Apache-2.0 */
/* ringmaster.c - asynchronous, but what is too late is not applied (Maranjyan, Tyurin, Richtarik
 * 2025).
 *
 * A contribution with staleness below `limit` is applied alone, any other is dropped.  The limit
 * says how much stale gradients may harm; it does not depend on how slow the slowest workers are,
 * and neither does the time of an update.
 *
 * A run comes to its end: whoever reads after the last update is fresh, and a contribution is
 * dropped only if `limit` updates came between its reading and its arrival.  Each of those updates
 * took positions that never come back. */
#include "strategy/gate.h"

struct options {
	uint32_t limit, per_worker;
	bool stop;
};

static enum tw_status limit_of_share(void *base, uint32_t workers, struct tw_error *why)
{
	struct options *o = base;
	const uint64_t limit = (uint64_t)o->per_worker * workers;

	(void)why;
	o->limit = limit < UINT32_MAX ? (uint32_t)limit : UINT32_MAX;
	return TW_OK;
}

static const struct tw_option rows[] = {
	TW_OPTION(struct options, limit, TW_U32, "16", "updates", 1, 4294967295.0,
		  "drop a contribution whose staleness is at least this number of updates"),
	TW_OPTION(struct options, stop, TW_BOOL, "false", NULL, 0, 0,
		  "a worker whose gradient has become too late gives it up and begins again"),
	TW_OPTION_ALIAS(struct options, per_worker, TW_U32, "0", 0, 300000, "limit", limit_of_share,
			"instead of limit: limit = per_worker * workers", .example = "2"),
	TW_OPTION_END
};

/* Equal workers overtake each other in turn. */
static double late(const void *options, uint32_t workers)
{
	const struct options *o = options;

	return workers < o->limit ? workers : o->limit;
}

static enum tw_verdict admit(const void *options, uint32_t worker, uint64_t staleness)
{
	(void)worker;
	return staleness < ((const struct options *)options)->limit ? TW_APPLY : TW_DROP;
}

static uint64_t stops(const void *options)
{
	const struct options *o = options;

	return o->stop ? o->limit : 0;
}

const struct tw_gate tw_gate_ringmaster = {
	.name = "ringmaster",
	.help = "asynchronous: what `limit` updates have overtaken is dropped, and computed again",
	.options = rows,
	.options_bytes = sizeof(struct options),
	.traits = TW_GATE_DROPS,
	.staleness = late,
	.admit = admit,
	.stops = stops,
};
