/* SPDX-License-Identifier: Apache-2.0 */
/* softsync.c - an update per `collect` contributions, whoever sent them (Zhang et al. 2016).
 *
 * A paper's n-softsync with N workers is collect = floor(N / n); collect = 1 is async. */
#include "strategy/gate.h"
#include "strategy/gate/sum.h"

struct options {
	uint32_t collect, sum, n;
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
	TW_OPTION(struct options, collect, TW_U32, "1", "contributions", 1, 100000,
		  "number of contributions in one update"),
	TW_OPTION_SUM(struct options),
	TW_OPTION_ALIAS(struct options, n, TW_U32, "0", 0, 100000, "collect", collect_of_n,
			"the n of n-softsync, instead of collect: collect = floor(workers / n)"),
	TW_OPTION_END
};

static enum tw_status check(const void *options, uint32_t workers, struct tw_error *why)
{
	const struct options *o = options;

	if (o->collect >= 1 && o->collect <= workers)
		return TW_OK;
	return tw_fail(why, TW_BAD_INPUT,
		       "collect: %u contributions per update do not fit %u workers; use 1 to %u",
		       o->collect, workers, workers);
}

/* That of n-softsync is n, also where n does not divide the workers. */
static double late(const void *options, uint32_t workers)
{
	const struct options *o = options;

	return o->n ? (double)o->n : (double)workers / (double)o->collect;
}

static bool totals(const void *options)
{
	return ((const struct options *)options)->sum == TW_SUM_TOTAL;
}

static enum tw_verdict admit(const void *options, uint32_t worker, uint64_t staleness)
{
	(void)options, (void)worker, (void)staleness;
	return TW_ACCUMULATE;
}

static bool full(const void *options, uint32_t collected)
{
	return collected >= ((const struct options *)options)->collect;
}

const struct tw_gate tw_gate_softsync = {
	.name = "softsync",
	.help = "every `collect` contributions, from any workers, make one update; no worker waits",
	.options = rows,
	.options_bytes = sizeof(struct options),
	.traits = TW_GATE_COLLECTS,
	.check = check,
	.staleness = late,
	.admit = admit,
	.full = full,
	.totals = totals,
};
