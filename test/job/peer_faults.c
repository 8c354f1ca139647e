/* SPDX-License-Identifier: Apache-2.0 */
/* peer_faults.c - replicas without a server under faults. */
#include "kit/reduce.h"
#include "peer_faults.h"

#include "strategy/mixing.h"

#include <stdio.h>
#include <string.h>

static unsigned long runs, failures, interrupted;
static bool differed, went_back;

/* What a run says of itself that the watcher does not see. */
static void heard(const char *who, const char *line)
{
	(void)who;
	differed = differed || strstr(line, "are not those of") != NULL;
	went_back = went_back || strstr(line, "restored from checkpoint") != NULL ||
		    strstr(line, "restarts from the initial") != NULL;
}

/* `stays`: nobody but one peer at a time is lost, so nothing may go back. */
static void try_run(struct faultrun *r, struct faultend *end, bool stays)
{
	const char *wrong;

	differed = went_back = false;
	r->heard = heard;
	wrong = faultrun(r, end);
	if (!wrong && differed)
		wrong = "replicas differ";
	if (!wrong && stays && went_back)
		wrong = "it went back to a checkpoint although a replica was left";
	runs++;
	interrupted += end->status == TW_INTERRUPTED;
	if (!wrong)
		return;
	failures++;
	fprintf(stderr, "FAILED %s\n  replay: %s\n", wrong, faultrun_replay(r));
}

static unsigned long ended(void)
{
	const unsigned long failed = failures;

	printf("%lu runs, %lu interrupted\n", runs, interrupted);
	runs = failures = interrupted = 0;
	return failed;
}

/* A way to do without a server: a reduction, or a mixing. */
struct way {
	const char *name;
	bool gathers;                   /* contributions can go to all as they were encoded */
	const struct tw_mixing *mixing; /* NULL: replicas are equal after every round */
};

/* False: there are no more. */
static bool way_at(size_t k, struct way *out)
{
	size_t reductions = 0;

	while (kit_reduction_at(reductions))
		reductions++;
	if (k < reductions)
		*out = (struct way){ kit_reduction_at(k)->name, kit_reduction_at(k)->gather, NULL };
	else if (tw_mixing_all[k - reductions])
		*out = (struct way){ tw_mixing_all[k - reductions]->name, false,
				     tw_mixing_all[k - reductions] };
	else
		return false;
	return true;
}

static bool spreads(const struct way *w)
{
	return w->mixing && (w->mixing->traits & TW_MIXING_SPREADS);
}

static const char *strategy(const struct way *w, uint64_t k)
{
	static char text[120];
	const bool rounds = !w->mixing || w->mixing->round;
	const char *format = rounds ? "{gate: bsp, topology: %s}" : "{gate: async, topology: %s}";

	if (w->gathers && k % 8 > 5)
		format = k % 8 == 6 ? "{gate: bsp, codec: {up: threshold, up_tau: 0.01}, topology: "
				      "%s}"
				    : "{gate: bsp, codec: {up: onebit, up_tile: 8}, topology: %s}";
	else if (!w->mixing && k % 4 == 3)
		format = "{name: diloco, push: 2, topology: %s}";
	else if (!w->mixing && k % 4 == 2)
		format = "{gate: bsp, codec: {up: fp16}, topology: %s}";
	else if (spreads(w) && k % 3 == 2)
		format = "{gate: async, codec: {up: threshold, up_tau: 0.01}, topology: %s}";
	else if (spreads(w) && k % 3 == 1)
		format = "{gate: async, codec: {up: topk, up_share: 0.3}, topology: %s}";
	snprintf(text, sizeof text, format, w->name);
	return text;
}

/* Replicas outlive the master, unless they differ, or workers keep what belongs to rounds. */
static bool outlives(const struct faultrun *r, const struct way *w)
{
	return !w->mixing && !strstr(r->preset, "diloco") && !strstr(r->preset, "threshold") &&
	       !strstr(r->preset, "onebit");
}

static void kill_everywhere(const struct way *way, uint32_t node, int64_t lasts, uint64_t stride,
			    uint32_t shards)
{
	struct faultend end = { .events = UINT64_MAX };

	for (uint64_t event = 1; event < end.events && failures < 20; event += stride) {
		struct faultrun r = { .preset = strategy(way, event),
				      .workers = 4,
				      .shards = shards,
				      .seed = 7,
				      .running = !way->mixing && event % 3 == 0,
				      .evaluates = event / stride % 2,
				      .fault = { { .kind = TW_FAULT_KILL_AT,
						   .a = node,
						   .lasts = lasts,
						   .event = event } },
				      .faults = 1,
				      .forever = lasts < 0 };

		try_run(&r, &end, node != 0 || outlives(&r, way));
	}
}

unsigned long peer_faults_kills(uint64_t stride)
{
	struct way way;

	for (size_t k = 0; way_at(k, &way); k++) {
		for (uint32_t node = 1; node <= 4; node++) {
			kill_everywhere(&way, node, -1, stride, 1 + node % 2);
			kill_everywhere(&way, node, TW_SECOND / 10, stride, 2);
			kill_everywhere(&way, node, 3 * TW_SECOND, stride, 1);
		}
		kill_everywhere(&way, 0, 2 * TW_SECOND, stride, 2);
	}
	return ended();
}

unsigned long peer_faults_pairs(uint64_t stride)
{
	static const struct {
		uint32_t a, b;
		uint64_t after;
	} pair[] = { { 1, 2, 0 }, { 2, 4, 1 }, { 3, 1, 7 }, { 4, 3, 23 } };

	struct way way;

	for (size_t k = 0; way_at(k, &way); k++)
		for (size_t p = 0; p < sizeof pair / sizeof pair[0]; p++) {
			struct faultend end = { .events = UINT64_MAX };

			for (uint64_t event = 1; event < end.events && failures < 20;
			     event += stride) {
				const int64_t lasts = event % 2 ? -1 : TW_SECOND / 4;
				struct faultrun r = { .preset = strategy(&way, event / 2),
						      .workers = 4,
						      .shards = 2,
						      .seed = 9,
						      .fault = { { .kind = TW_FAULT_KILL_AT,
								   .a = pair[p].a,
								   .lasts = lasts,
								   .event = event },
								 { .kind = TW_FAULT_KILL_AT,
								   .a = pair[p].b,
								   .lasts = lasts,
								   .event = event +
									    pair[p].after } },
						      .faults = 2,
						      .forever = lasts < 0 };

				try_run(&r, &end, true);
			}
		}
	return ended();
}

unsigned long peer_faults_seeds(uint64_t first, uint64_t count)
{
	struct way way;

	for (uint64_t seed = first; seed < first + count && failures < 20; seed++)
		for (size_t k = 0; way_at(k, &way); k++) {
			const uint64_t h = seed * 2654435761u + k * 40503u;
			struct faultrun r = { .preset = strategy(&way, h >> 33),
					      .workers = 1 + (way.mixing != NULL) +
							 (uint32_t)(h >> 3) % 6,
					      .shards = 1 + (uint32_t)(h >> 11) % 3,
					      .seed = seed,
					      .fault_seed = seed,
					      .crashes = (uint32_t)(h >> 13) % 4,
					      .partitions = (uint32_t)(h >> 17) % 3,
					      .resets = (uint32_t)(h >> 19) % 6,
					      .slow = (uint32_t)(h >> 23) % 2,
					      .loss = (h >> 29) % 3 == 0 ? 0.1 : 0,
					      .running = !way.mixing && (h >> 31) % 2,
					      .evaluates = (h >> 35) % 2,
					      .forever = true };
			struct faultend end;

			try_run(&r, &end, false);
		}
	return ended();
}

unsigned long peer_faults_numbers(uint32_t most)
{
	struct way way;

	for (size_t k = 0; way_at(k, &way) && failures < 20; k++)
		for (uint32_t workers = 2; workers <= most && !way.mixing; workers++)
			for (uint32_t spot = 0; spot < workers * PEER_FAULTS_VALUES; spot++) {
				struct faultrun r = { .preset = strategy(&way, 0),
						      .workers = workers,
						      .shards = 1 + spot % 3,
						      .seed = 1 + spot,
						      .poisoned = 2u << spot % workers,
						      .doses = 1 + spot % 2,
						      .spot = spot / workers };
				struct faultend end;

				try_run(&r, &end, true);
				if (end.totals.refused == r.doses)
					continue;
				failures++;
				fprintf(stderr, "FAILED %llu refused of %u\n  replay: %s\n",
					(unsigned long long)end.totals.refused, r.doses,
					faultrun_replay(&r));
			}
	return ended();
}

unsigned long peer_faults_leaves(uint64_t first, uint64_t count)
{
	struct way way;

	for (uint64_t seed = first; seed < first + count && failures < 20; seed++)
		for (size_t k = 0; way_at(k, &way); k++) {
			const uint64_t h = (seed * 2654435761u + k * 40503u) * 0x9e3779b97f4a7c15u;
			struct faultrun r = { .preset = strategy(&way, h >> 33),
					      .workers = 3 + (uint32_t)(h >> 13) % 3,
					      .shards = 1 + (uint32_t)(h >> 11) % 3,
					      .seed = seed,
					      .fault_seed = seed,
					      .crashes = (uint32_t)(h >> 17) % 3,
					      .spare = (uint32_t)(h >> 19) % 3,
					      .running = !way.mixing && (h >> 31) % 2,
					      .evaluates = (h >> 35) % 2,
					      .forever = true };
			struct faultend end;

			for (uint32_t i = 0; i < (h >> 21) % 3; i++)
				r.leaver[r.leavers++] =
					(struct leaver){ 1 + (uint32_t)((h >> 23) + i) % r.workers,
							 (int64_t)(h >> (25 + i)) % TW_SECOND };
			if ((h >> 40) % 3 == 0) {
				r.poisoned = 1u << (1 + (h >> 43) % r.workers);
				r.doses = 1 + (uint32_t)(h >> 47) % 12;
				r.spot = (uint32_t)(h >> 51) % PEER_FAULTS_VALUES;
			}
			try_run(&r, &end, false);
			if (r.crashes || r.poisoned || !end.totals.lost_updates)
				continue;
			failures++;
			fprintf(stderr, "FAILED %llu updates lost by a clean leave\n  replay: %s\n",
				(unsigned long long)end.totals.lost_updates, faultrun_replay(&r));
		}
	return ended();
}
