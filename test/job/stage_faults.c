/* SPDX-License-Identifier: Apache-2.0 */
/* stage_faults.c - see stage_faults.h. */
#include "job/stage_faults.h"
#include "job/watcher.h"
#include "job/trial.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char *const strategies[] = { "gpipe", "pipedream", "pipedream-2bw",
					  "pipedream-flush" };

/* More fields of the sections data and cluster. */
static const char *more_data = "", *more_cluster = "";

/* A run that a watcher has seen; it fails the test where something is wrong. */
static uint64_t watched(const char *strategy, uint32_t seed, const char *memory, const char *fault,
			bool back)
{
	struct trial t;
	struct tw_ran ran;
	struct watcher *w;
	enum tw_status st;
	uint64_t events;

	trial_open(&t, TW_WORLD_SIM,
		   "model: {quadratic: {dimension: 12, noise: 0.1, stages: 3}}\n"
		   "data: {source: none, samples: 24, batch: 1%s}\n"
		   "train: {epochs: 2, evaluate: 1, seed: %u}\nupdate: {rate: 0.01}\n"
		   "cluster: {stages: 3, place: with-stage, wait: 20s%s}\nstrategy: {name: %s}\n"
		   "checkpoint: {every: 2s, memory: %s}\n"
		   "sim: {compute: {law: exponential, mean: 600ms}, latency: 5ms, jitter: 4ms, "
		   "closed_limit: 50ms, save_time: 20ms, faults: [%s]}\n",
		   more_data, seed, more_cluster, strategy, memory, fault);
	w = watcher_new(&t.job->plan, false);
	t.observer = watcher_note;
	t.observer_arg = w;
	st = trial_run(&t, &tw_heap_system, watcher_store(w), &ran);
	if (st != TW_OK && (back || st != TW_INTERRUPTED))
		fail_msg("%s, seed %u, memory %s, %s: %s: %s", strategy, seed, memory, fault,
			 tw_status_name(st), ran.error.text);
	if (st == TW_OK)
		watcher_judge(w, &ran.totals);
	if (watcher_wrong(w))
		fail_msg("%s, seed %u, memory %s, %s: %s", strategy, seed, memory, fault,
			 watcher_wrong(w));
	/* all shards go back together: none lacks what another has */
	if (st == TW_OK && (ran.totals.lost_updates || ran.totals.applied < 48))
		fail_msg("%s, seed %u, memory %s, %s: %llu updates are lost, %g samples are in",
			 strategy, seed, memory, fault, (unsigned long long)ran.totals.lost_updates,
			 ran.totals.applied);
	events = ran.events;
	tw_totals_release(&ran.totals);
	watcher_free(w);
	trial_close(&t);
	return events;
}

/* A node crashes at every stride-th event of this schedule; `last`: not always to come back. */
static uint64_t crash(const char *strategy, uint32_t seed, const char *node, uint64_t events,
		      uint64_t first, uint32_t stride, bool last)
{
	static const char *const memories[] = { "64MiB", "0B" };
	uint64_t runs = 0;

	for (uint64_t e = first; e < events; e += stride, runs++) {
		const char *memory = memories[e / stride % 2];
		char fault[100];

		snprintf(fault, sizeof fault, "{crash: %s, event: %llu, restart: 200ms}", node,
			 (unsigned long long)e);
		watched(strategy, seed, memory, fault, true);
		snprintf(fault, sizeof fault, "{crash: %s, event: %llu}", node,
			 (unsigned long long)e);
		if (last && e / stride % 3 == 0)
			watched(strategy, seed, memory, fault, false);
	}
	return runs;
}

uint64_t stage_faults_crashes(uint32_t seed, uint32_t stride)
{
	static const char *const nodes[] = { "worker 0.0", "worker 0.1", "worker 0.2", "master" };
	uint64_t runs = 0;

	for (size_t i = 0; i < COUNT(strategies); i++) {
		const uint64_t events = watched(strategies[i], seed, "64MiB", "", true);

		for (size_t k = 0; k < COUNT(nodes); k++)
			runs += crash(strategies[i], seed, nodes[k], events, 1 + (k + i) % stride,
				      stride, k < 3);
	}
	return runs;
}

uint64_t stage_faults_lanes(uint32_t seed, uint32_t stride)
{
	static const char *const laned[] = { "pipedream", "pipedream-flush" };
	uint64_t runs = 0;

	more_cluster = ", lanes: [2, 1, 2]";
	for (size_t i = 0; i < COUNT(laned); i++) {
		uint64_t events;

		more_data = i ? ", accumulate: 3" : "";
		events = watched(laned[i], seed, "64MiB", "", true);
		for (uint32_t cell = 0; cell < 5; cell++) {
			char node[20];

			snprintf(node, sizeof node, "worker 0.%u", cell);
			runs += crash(laned[i], seed, node, events, 1 + cell % stride, stride,
				      true);
		}
		runs += crash(laned[i], seed, "master", events, 1 + 5 % stride, stride, false);
	}
	more_data = more_cluster = "";
	return runs;
}

uint64_t stage_faults_links(uint32_t seed)
{
	static const char *const faults[] = {
		"{reset: worker 0.0, to: worker 0.1, at: %gs}",
		"{reset: worker 0.2, to: master, at: %gs}",
		"{partition: worker 0.1, from: everybody, at: %gs, lasts: 20s}",
		"{partition: worker 0.0, from: worker 0.1, at: %gs, lasts: 40s}",
		"{partition: worker 0.1, from: master, at: %gs, lasts: 30s}",
		"{slow: worker 0.1, factor: 9, at: %gs, lasts: 3s}",
	};
	uint64_t runs = 0;

	for (size_t f = 0; f < COUNT(faults); f++)
		for (double at = 0.1; at < 12; at += 0.7, runs++) {
			char text[120];

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
			snprintf(text, sizeof text, faults[f], at);
#pragma GCC diagnostic pop
			watched(strategies[(f + seed) % COUNT(strategies)], seed, "64MiB", text,
				true);
		}
	return runs;
}
