/* SPDX-License-Identifier: Apache-2.0 */
/* malenia.c - an update is the mean of the workers' own means (Malenia SGD, Tyurin and Richtarik
 * 2023): for workers that have different data.
 *
 * Only gradients of the current parameters count.  With B_i of worker i, an update is due when all
 * n active workers have contributed and n times the harmonic mean of the B_i has reached `collect`:
 *
 *	n^2 / sum(1 / B_i) >= collect
 *
 * It is the number of contributions where all B_i are equal.  What those who have gone meanwhile,
 * or have nothing left to do, have contributed counts in the mean and not in the condition.  Quick
 * workers make the mean of their own gradients better, and do not count more than slow ones. */
#include "strategy/gate.h"
#include "strategy/gate/sum.h"

struct options {
	uint32_t collect;
	struct tw_summing sum;
	bool stop;
};

static const struct tw_option rows[] = {
	TW_OPTION(struct options, collect, TW_U32, "1", "contributions", 1, 300000,
		  "what n times the harmonic mean of the workers' contributions must reach; 1: one "
		  "contribution of each is enough",
		  .example = "2"),
	TW_OPTION(struct options, stop, TW_BOOL, "false", NULL, 0, 0,
		  "a worker whose gradient has become too late gives it up and begins again"),
	TW_OPTION_SUM(struct options), TW_OPTION_END
};

static enum tw_verdict admit(const void *options, uint32_t worker, uint64_t staleness)
{
	(void)options, (void)worker;
	return staleness ? TW_DROP : TW_ACCUMULATE;
}

static uint64_t stops(const void *options)
{
	return ((const struct options *)options)->stop ? 1 : 0;
}

/* The sum of inverses is made by adding and subtracting: it may be off in its last bits. */
static bool full(const void *options, const struct tw_collected *kept)
{
	const double n = kept->workers, collect = ((const struct options *)options)->collect;

	return kept->workers && !kept->missing && n * n * (1.0 + 1e-9) >= collect * kept->inverse;
}

static enum tw_keeps keeps(const void *options)
{
	(void)options;
	return TW_KEEP_BY_WORKER;
}

const struct tw_gate tw_gate_malenia = {
	.name = "malenia",
	.help = "once every worker has contributed: the mean of the workers' own mean gradients, "
		"all of the same parameters",
	.options = rows,
	.options_bytes = sizeof(struct options),
	.traits = TW_GATE_COLLECTS | TW_GATE_DROPS | TW_GATE_WAITS,
	.admit = admit,
	.full = full,
	.keeps = keeps,
	.stops = stops,
	.sum = offsetof(struct options, sum),
};
