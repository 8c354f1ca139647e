/* SPDX-License-Identifier: Apache-2.0 */
/* hybrid_faults.c - workers of several stages that lose a cell, at every event in turn. */
#include "job/hybrid_faults.h"
#include "job/pipes.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define SAMPLES 40 /* 20 in each of two epochs */

enum books {
	ONCE, /* every sample is applied once */
	OR_DROPPED /* ... or was dropped on purpose */,
	AT_LEAST, /* at least once, and those that were applied twice were dealt twice */
};

static const struct hybrid {
	const char *strategy;
	uint32_t accumulate;
	enum books books;
	const char *lanes; /* NULL: one each */
	uint32_t cells;    /* of a worker, then */
} hybrids[] = {
	{ "gate: bsp, pipeline: gpipe", 2, ONCE, NULL, 3 },
	{ "gate: bsp, pipeline: 1f1b-flush", 3, ONCE, NULL, 3 },
	{ "gate: backup, extra: 1, pipeline: 1f1b-flush", 2, OR_DROPPED, NULL, 3 },
	{ "gate: async, pipeline: pipedream", 1, AT_LEAST, NULL, 3 },
	{ "gate: async, pipeline: {schedule: pipedream, stash: false}, codec: {act: int8}", 2,
	  AT_LEAST, NULL, 3 },
	{ "gate: async, pipeline: gpipe", 2, AT_LEAST, NULL, 3 },
	{ "gate: softsync, collect: 2, pipeline: pipedream", 1, AT_LEAST, NULL, 3 },
	{ "gate: ssp, lead: 1, pipeline: pipedream", 1, AT_LEAST, NULL, 3 },
	{ "gate: ssp, lead: 0, pipeline: 1f1b-flush", 2, AT_LEAST, NULL, 3 },
	{ "gate: async, pipeline: pipedream, codec: {up: onebit}", 1, AT_LEAST, NULL, 3 },
	{ "gate: bsp, pipeline: 1f1b-flush, codec: {up: topk, up_share: 0.3}", 2, ONCE, NULL, 3 },
}, laned[] = {
	{ "gate: async, pipeline: pipedream", 1, AT_LEAST, "[2, 1, 1]", 4 },
	{ "gate: async, pipeline: {schedule: pipedream, stash: false}, codec: {act: int8}", 2,
	  AT_LEAST, "[1, 3, 1]", 5 },
	{ "gate: bsp, pipeline: gpipe", 3, ONCE, "[2, 1, 3]", 6 },
	{ "gate: bsp, pipeline: 1f1b-flush", 3, ONCE, "[3, 2, 1]", 6 },
	{ "gate: backup, extra: 1, pipeline: 1f1b-flush", 2, OR_DROPPED, "[2, 2, 1]", 5 },
	{ "gate: async, pipeline: pipedream", 1, AT_LEAST, "[2, 3, 2]", 7 },
	{ "gate: bsp, pipeline: gpipe, codec: {up: topk, up_share: 0.3}", 3, ONCE, "[2, 1, 2]", 5 },
	{ "gate: async, pipeline: pipedream, codec: {up: onebit}", 1, AT_LEAST, "[2, 1, 1]", 4 },
};

static struct pipe_run *run(const struct hybrid *h, uint32_t seed, const char *fault)
{
	return pipe_run(
		TW_WORLD_SIM,
		"model: {quadratic: {dimension: 12, noise: 0.1, stages: 3}}\n"
		"data: {source: none, samples: 20, batch: 1, accumulate: %u}\n"
		"train: {epochs: 2, seed: %u, evaluate: 1}\nupdate: {rate: 0.01}\n"
		"cluster: {workers: 2, stages: 3, servers: 2%s%s}\nstrategy: {%s}\n"
		"checkpoint: {every: 5s}\n"
		"sim: {compute: {law: exponential, mean: 600ms}, latency: 5ms, jitter: 4ms, "
		"closed_limit: 50ms, faults: [%s]}\n",
		h->accumulate, seed, h->lanes ? ", lanes: " : "", h->lanes ? h->lanes : "",
		h->strategy, fault);
}

/* NULL: the samples are accounted for. */
static const char *miscounted(const struct hybrid *h, const struct tw_totals *t)
{
	if (h->books == ONCE && (t->applied != SAMPLES || t->repeated || t->dropped))
		return "samples are not applied once each";
	if (h->books == OR_DROPPED && (t->applied + (double)t->dropped != SAMPLES || t->repeated))
		return "samples are neither applied nor dropped";
	if (h->books == AT_LEAST && (t->applied < SAMPLES || t->repeated > t->redealt))
		return "samples are lost, or repeated without a reason";
	return NULL;
}

static void crash(const struct hybrid *h, uint32_t seed, uint32_t cell, uint64_t event, bool back,
		  int64_t calm)
{
	const char *wrong;
	char fault[100];
	struct pipe_run *r;

	snprintf(fault, sizeof fault, "{crash: worker %u.%u, event: %llu%s}", cell / h->cells,
		 cell % h->cells, (unsigned long long)event, back ? ", restart: 200ms" : "");
	r = run(h, seed, fault);
	wrong = r->status != TW_OK ? r->ran.error.text : miscounted(h, &r->ran.totals);
	/* one worker alone takes twice as long, and somebody may wait to be missed */
	if (!wrong && r->ran.virtual_ns > 4 * calm + 60 * (int64_t)1000000000)
		wrong = "it took too long";
	for (size_t i = 0; !wrong && i < r->floats; i++)
		if (!isfinite(r->vector[i]))
			wrong = "the parameters are not finite";
	if (wrong)
		fail_msg("strategy: {%s}, lanes: %s, accumulate: %u, seed %u, faults: [%s]: %s (%g "
			 "applied, %llu dropped, %llu repeated, %llu dealt again, %g s)",
			 h->strategy, h->lanes ? h->lanes : "[]", h->accumulate, seed, fault, wrong,
			 r->ran.totals.applied, (unsigned long long)r->ran.totals.dropped,
			 (unsigned long long)r->ran.totals.repeated,
			 (unsigned long long)r->ran.totals.redealt,
			 (double)r->ran.virtual_ns / 1e9);
	pipe_free(r);
}

static uint64_t crash_all(const struct hybrid *list, size_t count, uint32_t seed, uint32_t stride)
{
	uint64_t runs = 0;

	for (size_t k = 0; k < count; k++) {
		const struct hybrid *h = &list[k];
		struct pipe_run *r = run(h, seed, "");
		const uint64_t events = r->ran.events;
		const int64_t calm = r->ran.virtual_ns;

		if (r->status != TW_OK || miscounted(h, &r->ran.totals))
			fail_msg("strategy: {%s}, seed %u: %s", h->strategy, seed,
				 r->ran.error.text);
		pipe_free(r);
		for (uint32_t cell = 0; cell < 2 * h->cells; cell++)
			for (uint64_t e = 1 + (cell + 5 * k) % stride; e < events;
			     e += stride, runs += 2) {
				crash(h, seed, cell, e, true, calm);
				crash(h, seed, cell, e, false, calm);
			}
	}
	return runs;
}

uint64_t hybrid_faults(uint32_t seed, uint32_t stride)
{
	return crash_all(hybrids, sizeof hybrids / sizeof hybrids[0], seed, stride);
}

uint64_t lane_faults(uint32_t seed, uint32_t stride)
{
	return crash_all(laned, sizeof laned / sizeof laned[0], seed, stride);
}
