/* SPDX-License-Identifier: Apache-2.0 */
/* softsync.c - an update per `collect` contributions, whoever sent them (Zhang et al. 2016).
 *
 * A paper's n-softsync with N workers is collect = floor(N / n); collect = 1 is async.
 *
 * fresh: only gradients of the current parameters count, several of a worker if it is quick; the
 * others are dropped (Rennala SGD, Tyurin and Richtarik 2023).  That is one worker that accumulates
 * `collect` batches, computed by the quickest workers. */
#include "strategy/gate.h"
#include "strategy/gate/sum.h"

struct options {
	uint32_t collect, n;
	struct tw_summing sum;
	bool fresh, stop;
};

static enum tw_status collect_of_n(void *base, uint32_t workers, struct tw_error *why)
{
	struct options *o = base;

	if (o->n > workers)
		return tw_fail(why, TW_BAD_INPUT,
			       "%u does not fit %u workers, because floor(workers / n) must be at "
			       "least 1; use 1 to %u",
			       o->n, workers, workers);
	o->collect = workers / o->n;
	return TW_OK;
}

static const struct tw_option rows[] = {
	TW_OPTION(struct options, collect, TW_U32, "1", "contributions", 1, 300000,
		  "number of contributions in one update", .example = "4"),
	TW_OPTION(struct options, fresh, TW_BOOL, "false", NULL, 0, 0,
		  "only gradients of the current parameters count; the others are dropped, and "
		  "computed again (collect may then be larger than the number of workers)"),
	TW_OPTION(struct options, stop, TW_BOOL, "false", NULL, 0, 0,
		  "with fresh: a worker whose gradient has become too late gives it up and begins "
		  "again"),
	TW_OPTION_SUM(struct options),
	TW_OPTION_ALIAS(struct options, n, TW_U32, "0", 0, 300000, "collect", collect_of_n,
			"the n of n-softsync, instead of collect: collect = floor(workers / n)",
			.example = "2"),
	TW_OPTION_END
};

static enum tw_status check(const void *options, uint32_t workers, struct tw_error *why)
{
	const struct options *o = options;

	if (o->collect >= 1 && (o->fresh || o->collect <= workers))
		return TW_OK;
	return tw_fail(why, TW_BAD_INPUT,
		       "collect: %u contributions per update do not fit %u workers; use 1 to %u, "
		       "or fresh: true, which takes several of a worker",
		       o->collect, workers, workers);
}

/* That of n-softsync is n, also where n does not divide the workers. */
static double late(const void *options, uint32_t workers)
{
	const struct options *o = options;

	return o->n ? (double)o->n : (double)workers / (double)o->collect;
}

static enum tw_verdict admit(const void *options, uint32_t worker, uint64_t staleness)
{
	(void)worker;
	return staleness && ((const struct options *)options)->fresh ? TW_DROP : TW_ACCUMULATE;
}

static uint64_t stops(const void *options)
{
	return ((const struct options *)options)->stop ? 1 : 0;
}

static bool full(const void *options, const struct tw_collected *kept)
{
	return kept->count >= ((const struct options *)options)->collect;
}

static enum tw_keeps keeps(const void *options)
{
	return ((const struct options *)options)->fresh ? TW_KEEP_SUM : TW_KEEP_EACH;
}

const struct tw_gate tw_gate_softsync = {
	.name = "softsync",
	.help = "every `collect` contributions, from any workers, make one update; no worker waits",
	.options = rows,
	.options_bytes = sizeof(struct options),
	.traits = TW_GATE_COLLECTS | TW_GATE_DROPS,
	.check = check,
	.staleness = late,
	.admit = admit,
	.full = full,
	.keeps = keeps,
	.stops = stops,
	.sum = offsetof(struct options, sum),
};
