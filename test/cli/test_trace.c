/* SPDX-License-Identifier: Apache-2.0 */
/* test_trace.c - the timelines of pipelines: every pass of every stage is there, in the order in
 * which it can have been, in the simulator, in threads and in processes. */
#include "cli/spawn.h"
#include "kit/has.h"
#include "kit/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define STAGES 3
#define MICROS 60 /* 120 samples in batches of 4, twice */

struct span {
	double from, to; /* microseconds */
	uint64_t sample; /* position of its first */
	bool back;
};

/* The spans of a track, in the order of their begins. */
struct track {
	json_int_t node;
	struct span span[4 * MICROS];
	size_t spans;
	bool named;
};

struct timeline {
	struct track track[STAGES];
	size_t tracks;
};

static struct track *track_of(struct timeline *t, const json_t *event)
{
	const json_int_t node = json_integer_value(json_object_get(event, "pid"));

	for (size_t k = 0; k < t->tracks; k++)
		if (t->track[k].node == node)
			return &t->track[k];
	assert_true(t->tracks < STAGES);
	t->track[t->tracks].node = node;
	return &t->track[t->tracks++];
}

static void take(struct timeline *t, const json_t *event)
{
	const char *name = json_string_value(json_object_get(event, "name"));
	const bool back = strcmp(name, "backward") == 0;
	const double from = json_number_value(json_object_get(event, "ts"));
	struct track *k;

	if (!back && strcmp(name, "forward") != 0)
		return;
	assert_string_equal(json_string_value(json_object_get(event, "ph")), "X");
	k = track_of(t, event);
	assert_true(k->spans < 4 * MICROS);
	k->span[k->spans++] =
		(struct span){ from, from + json_number_value(json_object_get(event, "dur")),
			       (uint64_t)json_integer_value(
				       json_object_get(json_object_get(event, "args"), "from")),
			       back };
}

static void read_file(struct timeline *t, const char *path)
{
	json_t *file = json_load_file(path, 0, NULL), *event;
	size_t k;

	if (!file)
		fail_msg("%s is no JSON", path);
	json_array_foreach(json_object_get(file, "traceEvents"), k, event) take(t, event);
	/* who has computed has a name */
	json_array_foreach(json_object_get(file, "traceEvents"), k,
			   event) if (strcmp(json_string_value(json_object_get(event, "name")),
					     "process_name") == 0) for (size_t i = 0; i < t->tracks;
									i++) t->track[i]
		.named |= t->track[i].node == json_integer_value(json_object_get(event, "pid"));
	json_decref(file);
}

static int by_begin(const void *a, const void *b)
{
	const struct span *x = a, *y = b;

	return x->from < y->from ? -1 : x->from > y->from;
}

static int by_node(const void *a, const void *b)
{
	const struct track *x = a, *y = b;

	return x->node < y->node ? -1 : x->node > y->node;
}

static const struct span *find(const struct track *t, uint64_t sample, bool back)
{
	for (size_t k = 0; k < t->spans; k++)
		if (t->span[k].sample == sample && t->span[k].back == back)
			return &t->span[k];
	fail_msg("node %lld has no such pass of sample %llu", (long long)t->node,
		 (unsigned long long)sample);
	return NULL;
}

/* Times are written with three decimals. */
#define SLACK 0.002

static void judge(struct timeline *t)
{
	assert_int_equal(t->tracks, STAGES);
	qsort(t->track, STAGES, sizeof *t->track, by_node);
	for (size_t s = 0; s < STAGES; s++) {
		struct track *k = &t->track[s];

		assert_true(k->named);
		assert_int_equal(k->spans, 2 * MICROS);
		qsort(k->span, k->spans, sizeof *k->span, by_begin);
		for (size_t i = 0; i + 1 < k->spans; i++)
			assert_true(k->span[i].to <= k->span[i + 1].from + SLACK);
		for (size_t i = 0; i < k->spans; i++) {
			const struct span *one = &k->span[i];

			assert_true(one->to >= one->from);
			if (one->back)
				assert_true(find(k, one->sample, false)->to <= one->from + SLACK);
			else if (s)
				assert_true(find(k - 1, one->sample, false)->to <=
					    one->from + SLACK);
			if (one->back && s + 1 < STAGES)
				assert_true(find(k + 1, one->sample, true)->to <=
					    one->from + SLACK);
		}
	}
}

static const char *job(void)
{
	return put_job("data: {source: digits, count: 120, tests: 20, batch: 4, accumulate: 3}\n"
		       "model: {layers: [linear 16, relu, linear 16, relu, linear 10]}\n"
		       "train: {epochs: 2}\nupdate: {rate: 0.05}\n"
		       "cluster: {stages: 3}\nstrategy: gpipe\n");
}

static void of_the_simulator(void **state)
{
	struct timeline t = { 0 };

	(void)state;
	expect(thalweg(NULL, "sim %s --trace %s", job(), path_of("sim.json")), 0);
	read_file(&t, path_of("sim.json"));
	judge(&t);
}

static void of_threads(void **state)
{
	struct timeline t = { 0 };

	(void)state;
	expect(thalweg(NULL, "train %s --run %s/run --trace %s/t.json", job(), scratch(),
		       scratch()),
	       0);
	read_file(&t, path_of("t.json"));
	judge(&t);
}

/* One file for each process; on one machine their clocks are one. */
static void of_processes(void **state)
{
	struct timeline t = { 0 };

	(void)state;
	expect(thalweg(NULL, "train %s --processes --run %s/run --trace %s/p.json", job(),
		       scratch(), scratch()),
	       0);
	read_file(&t, path_of("p.json"));
	assert_int_equal(t.tracks, 0); /* the master computes nothing */
	read_file(&t, path_of("p.json.worker-1"));
	read_file(&t, path_of("p.json.worker-2"));
	read_file(&t, path_of("p.json.worker-3"));
	judge(&t);
}

/* --- names of tracks ----------------------------------------------------------------------- */

/* Every node has a name, and every track one that begins or ends with that of somebody whom the
 * user knows; returns how many nodes are called `who` and a number. */
static size_t nodes_called(const char *path, const char *who, bool servers)
{
	json_t *file = json_load_file(path, 0, NULL), *event;
	size_t k, count = 0;

	if (!file)
		fail_msg("%s is no JSON", path);
	json_array_foreach(json_object_get(file, "traceEvents"), k, event)
	{
		const char *of = json_string_value(json_object_get(event, "name"));
		const char *name =
			json_string_value(json_object_get(json_object_get(event, "args"), "name"));

		if (strcmp(of, "process_name") != 0 && strcmp(of, "thread_name") != 0)
			continue;
		if (!servers && strstr(name, "server"))
			fail_msg("%s: there are no servers, and a track is called %s", path, name);
		if (!strstr(name, "worker ") && !strstr(name, "server ") && !strstr(name, "master"))
			fail_msg("%s: whose track is %s?", path, name);
		count += strcmp(of, "process_name") == 0 && strncmp(name, who, strlen(who)) == 0;
	}
	json_decref(file);
	return count;
}

static const char *three_workers(const char *strategy)
{
	char text[400];

	snprintf(text, sizeof text,
		 "model: {quadratic: {dimension: 8}}\n"
		 "data: {source: none, samples: 60, batch: 1}\nupdate: {rate: 0.01}\n"
		 "cluster: {workers: 3}\nstrategy: %s\n",
		 strategy);
	return put_job(text);
}

/* Where workers hold the parameters themselves, they are workers all the same. */
static void workers_are_called_workers(void **state)
{
	static const char *const peers[] = { "gossip", "ring", "d-psgd", "strom" };

	(void)state;
	for (size_t k = 0; k < sizeof peers / sizeof peers[0]; k++) {
		expect(thalweg(NULL, "sim %s --trace %s", three_workers(peers[k]),
			       path_of("s.json")),
		       0);
		assert_int_equal(nodes_called(path_of("s.json"), "worker ", false), 3);
		expect(thalweg(NULL, "train %s --run %s/run --again --trace %s/t.json",
			       three_workers(peers[k]), scratch(), scratch()),
		       0);
		assert_int_equal(nodes_called(path_of("t.json"), "worker ", false), 3);
	}
	expect(thalweg(NULL, "train %s --processes --run %s/p --trace %s/p.json",
		       three_workers(peers[0]), scratch(), scratch()),
	       0);
	assert_int_equal(nodes_called(path_of("p.json"), "worker ", false), 0);
	assert_int_equal(nodes_called(path_of("p.json.worker-2"), "worker ", false), 1);
}

static void servers_are_called_servers(void **state)
{
	(void)state;
	expect(thalweg(NULL, "sim %s --trace %s", three_workers("asgd"), path_of("s.json")), 0);
	expect(thalweg(NULL, "train %s --run %s/run --trace %s/t.json", three_workers("asgd"),
		       scratch(), scratch()),
	       0);
	assert_int_equal(nodes_called(path_of("s.json"), "worker ", true), 3);
	assert_int_equal(nodes_called(path_of("s.json"), "server 0", true), 1);
	assert_int_equal(nodes_called(path_of("t.json"), "worker ", true), 3);
	assert_int_equal(nodes_called(path_of("t.json"), "server 0", true), 1);
}

static void what_cannot_be_written_is_refused(void **state)
{
	char command[600];

	(void)state;
	snprintf(command, sizeof command, "train %s --run %s/run --trace %s/nowhere/t.json", job(),
		 scratch(), scratch());
	thalweg_refuses(NULL, "--trace: ", command);
	thalweg_refuses(NULL, "--trace is for one process",
			"join 127.0.0.1:1 --workers 2 --trace t.json");
	snprintf(command, sizeof command, "train %s --world mpi --trace t.json", job());
	thalweg_refuses(NULL, "--trace is for threads", command);
}

#define IN_SCRATCH(f) cmocka_unit_test_setup_teardown(f, scratch_make, scratch_remove)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IN_SCRATCH(of_the_simulator),
		IN_SCRATCH(of_threads),
		IN_SCRATCH(of_processes),
		IN_SCRATCH(workers_are_called_workers),
		IN_SCRATCH(servers_are_called_servers),
		IN_SCRATCH(what_cannot_be_written_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
