/* SPDX-License-Identifier: Apache-2.0 */
/* test_gauges.c - figures follow from notes, peers and waits; asking costs nobody anything. */
#include "metrics/gauges.h"

#include "base/refusing.h"
#include "metrics/progress.h"
#include "job/prometheus.h"

#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

static json_t *read_health(struct tw_gauges *g, int want)
{
	char *out = NULL;
	size_t len = 0;
	int status = 0;
	json_t *o;

	assert_int_equal(tw_gauges_health(g, &out, &len, &status), TW_OK);
	assert_int_equal(status, want);
	assert_int_equal(strlen(out), len);
	o = json_loadb(out, len, 0, NULL);
	assert_non_null(o);
	tw_heap_system.put(&tw_heap_system, out);
	return o;
}

static const char *status_of(const json_t *o)
{
	return json_string_value(json_object_get(o, "status"));
}

static const struct tw_gate gate = { .name = "test" };
static const struct tw_plan plan = { .dealing.positions = 2000,
				     .problem.samples = 1000,
				     .crew.workers = 4,
				     .problem.shards = 2,
				     .dealing.batch = 10,
				     .dealing.accumulate = 1,
				     .traffic.push = 2,
				     .gate = &gate };

static void note(struct tw_gauges *g, struct tw_note n)
{
	tw_gauges_note(g, &n);
}

static void steps_take_time(void **state)
{
	struct tw_gauges *g = tw_gauges_new(&tw_heap_system, &plan, "serve", "h");

	for (uint32_t k = 1; k <= 3; k++)
		for (uint32_t shard = 0; shard < 2; shard++) /* the first to apply it counts */
			note(g, (struct tw_note){ .kind = TW_NOTE_APPLY,
						  .slot = 1,
						  .shard = shard,
						  .incarnation = 1,
						  .seq = k,
						  .count = 20,
						  .at = k * k * TW_SECOND + shard });
	prometheus_read(g);
	/* 1 s, 4 s, 9 s; two steps each */
	assert_true(prometheus_of("thalweg_worker_step_seconds", "worker=\"1\",host=\"h\"") == 2.5);
	assert_true(prometheus_of("thalweg_worker_step_seconds_mean", "worker=\"1\",host=\"h\"") ==
		    2.0);
	assert_true(prometheus_of("thalweg_steps_total", "") == 6 &&
		    prometheus_of("thalweg_samples_total", "") == 60);
	assert_true(prometheus_of("thalweg_staleness_count", "") == 6);
	/* time away is no step */
	note(g, (struct tw_note){
			.kind = TW_NOTE_VIEW, .slot = 1, .view = { .live = 3, .state = TW_GONE } });
	prometheus_read(g);
	assert_true(prometheus_of("thalweg_worker_up", "worker=\"1\",host=\"h\"") == 0);
	note(g, (struct tw_note){
			.kind = TW_NOTE_VIEW, .slot = 1, .view = { .live = 4, .state = TW_LIVE } });
	note(g, (struct tw_note){ .kind = TW_NOTE_APPLY,
				  .slot = 1,
				  .incarnation = 2,
				  .seq = 1,
				  .count = 20,
				  .apply.tau = 500,
				  .at = 1000 * TW_SECOND });
	prometheus_read(g);
	assert_true(prometheus_of("thalweg_worker_step_seconds", "worker=\"1\",host=\"h\"") == 2.5);
	assert_true(prometheus_of("thalweg_worker_up", "worker=\"1\",host=\"h\"") == 1);
	assert_true(prometheus_of("thalweg_staleness_bucket", "le=\"126\"") == 6);
	assert_true(prometheus_of("thalweg_staleness_bucket", "le=\"+Inf\"") == 7);
	assert_true(prometheus_of("thalweg_staleness_sum", "") == 500);
	/* whoever is not of the plan changes nothing */
	note(g, (struct tw_note){ .kind = TW_NOTE_APPLY, .slot = 99, .count = 5 });
	note(g, (struct tw_note){ .kind = TW_NOTE_APPLY, .shard = 99, .count = 5 });
	note(g, (struct tw_note){ .kind = TW_NOTE_STEP, .slot = UINT32_MAX });
	prometheus_read(g);
	assert_true(prometheus_of("thalweg_samples_total", "") == 80);
	tw_gauges_free(g);
}

static void a_shard_that_moves_in_begins_level(void **state)
{
	struct tw_gauges *g = tw_gauges_new(&tw_heap_system, &plan, "serve", "h");
	struct tw_note n = { .kind = TW_NOTE_APPLY, .incarnation = 1, .count = 20 };

	for (n.seq = 1; n.seq <= 5; n.seq++)
		tw_gauges_note(g, &n);
	note(g, (struct tw_note){ .kind = TW_NOTE_HOSTED, .shard = 1, .hosted.cut = 3 });
	n.shard = 1;
	for (n.seq = 4; n.seq <= 6; n.seq++)
		tw_gauges_note(g, &n);
	prometheus_read(g);
	assert_true(prometheus_of("thalweg_samples_total", "") == 160);
	assert_true(prometheus_of("thalweg_steps_total", "") == 16);
	tw_gauges_free(g);
}

/* It has no shards: their workers do, elsewhere. */
static void a_master_alone_counts_what_it_hears(void **state)
{
	struct tw_gauges *g = tw_gauges_new(&tw_heap_system, &plan, "serve", "h");
	struct tw_note n = { .kind = TW_NOTE_PROGRESS,
			     .progress.point = { .samples = 400, .steps = 40 } };

	/* what was in when the run was taken up again is no news */
	note(g, (struct tw_note){ .kind = TW_NOTE_ROLLBACK, .cut.number = 3 });
	tw_gauges_note(g, &n);
	n.progress.point = (struct tw_point){ .samples = 460, .steps = 46 };
	tw_gauges_note(g, &n);
	prometheus_read(g);
	assert_true(prometheus_of("thalweg_samples_total", "") == 60);
	assert_true(prometheus_of("thalweg_steps_total", "") == 6);
	/* a counter never goes back, though the run may */
	note(g, (struct tw_note){ .kind = TW_NOTE_DEAL, .count = 20 });
	note(g, (struct tw_note){ .kind = TW_NOTE_ROLLBACK, .cut.number = 3 });
	n.progress.point = (struct tw_point){ .samples = 420, .steps = 42 };
	tw_gauges_note(g, &n);
	prometheus_read(g);
	assert_true(prometheus_of("thalweg_samples_total", "") == 60);
	assert_true(prometheus_of("thalweg_steps_total", "") == 6);
	tw_gauges_free(g);
}

static void peers_are_shown(void **state)
{
	static const struct tw_gauge_peer list[] = {
		{ "worker 2", "a\"b\\c\nd", TW_WORKER, 2, 5, true, false, 1.5, 100, 200 },
		{ "worker 2", "old", TW_WORKER, 2, 4, false, true, 90.0, 1, 2 },
		{ "server 1", "caf\xc3\xa9", TW_SERVER, UINT32_MAX, 1, true, false, 0.0, UINT64_MAX,
		  1 },
		{ "\xff\xfe", "h\xc3", TW_ROLES, UINT32_MAX, 9, true, false, NAN, 0, 0 },
	};
	struct tw_gauges *g = tw_gauges_new(&tw_heap_system, &plan, "master", "h");
	static const char two[] = "worker=\"2\",host=\"a\\\"b\\\\c\\nd\"";
	double heard;

	assert_int_equal(tw_gauges_peers(g, list, 4), TW_OK);
	prometheus_read(g);
	assert_true(prometheus_of("thalweg_worker_up", two) == 1);
	heard = prometheus_of("thalweg_worker_last_heard_seconds", two);
	assert_true(heard >= 1.5 && heard < 30);
	assert_true(prometheus_of("thalweg_peer_suspect",
				  "peer=\"worker 2\",host=\"old\",role=\"worker\",node=\"4\"") ==
		    1);
	assert_true(prometheus_of(
			    "thalweg_peer_bytes_sent_total",
			    "peer=\"server 1\",host=\"caf\xc3\xa9\",role=\"server\",node=\"1\"") ==
		    (double)UINT64_MAX);
	assert_true(prometheus_of("thalweg_peer_up",
				  "peer=\"?\?\",host=\"h?\",role=\"unknown\",node=\"9\"") == 1);
	assert_int_equal(tw_gauges_peers(g, NULL, 0), TW_OK);
	prometheus_read(g);
	assert_false(prometheus_has("thalweg_peer_up") || prometheus_has("thalweg_worker_up"));
	tw_gauges_free(g);
}

static void bytes_are_counted(void **state)
{
	struct tw_gauges *g = tw_gauges_new(&tw_heap_system, NULL, "worker", "h");

	tw_gauges_bytes(g, 1000, 50);
	tw_gauges_bytes(g, 900, 60); /* a counter never falls */
	tw_gauges_codec(g, TW_GAUGE_PUSH, 400, 100);
	tw_gauges_codec(g, TW_GAUGE_PUSH, 400, 90);
	tw_gauges_codec(g, TW_GAUGE_PARAMS, 400, 200);
	prometheus_read(g);
	assert_true(prometheus_of("thalweg_bytes_sent_total", "") == 1000);
	assert_true(prometheus_of("thalweg_bytes_received_total", "") == 60);
	assert_true(prometheus_of("thalweg_codec_bytes_total",
				  "direction=\"push\",stage=\"raw\"") == 800);
	assert_true(prometheus_of("thalweg_codec_bytes_total",
				  "direction=\"push\",stage=\"encoded\"") == 190);
	assert_true(prometheus_of("thalweg_codec_bytes_total",
				  "direction=\"params\",stage=\"encoded\"") == 200);
	tw_gauges_free(g);
}

static void health_follows_the_run(void **state)
{
	struct tw_gauges *g = tw_gauges_new(&tw_heap_system, NULL, "master", "h");
	json_t *o = read_health(g, 200), *w;

	assert_string_equal(status_of(o), "starting");
	assert_true(json_is_null(json_object_get(o, "seconds_since_progress")));
	assert_true(json_is_null(json_object_get(o, "loss")));
	json_decref(o);
	note(g, (struct tw_note){ .kind = TW_NOTE_PROGRESS }); /* too early: no plan */
	assert_int_equal(tw_gauges_plan(g, &plan), TW_OK);
	note(g,
	     (struct tw_note){ .kind = TW_NOTE_PROGRESS,
			       .progress = { .dealt = 700,
					     .live = 3,
					     .point = { .samples = 500, .train_loss = 0.25 } } });
	note(g, (struct tw_note){ .kind = TW_NOTE_CUT, .cut.number = 7 });
	o = read_health(g, 200);
	assert_string_equal(status_of(o), "ok");
	assert_true(json_number_value(json_object_get(o, "epochs")) == 0.5);
	assert_true(json_number_value(json_object_get(o, "loss")) == 0.25);
	assert_int_equal(json_integer_value(json_object_get(o, "workers")), 3);
	assert_int_equal(json_integer_value(json_object_get(o, "checkpoint")), 7);
	assert_true(json_number_value(json_object_get(o, "seconds_since_progress")) < 60);
	json_decref(o);

	assert_int_equal(tw_gauges_wait(g, "master", "worker 2", "its push", 6.0), TW_OK);
	assert_int_equal(tw_gauges_wait(g, "master", "worker 2", "its push", 7.0), TW_OK);
	assert_int_equal(tw_gauges_wait(g, "shard 0", "worker 1", "its \"push\"\xff", 1.0), TW_OK);
	o = read_health(g, 503);
	assert_string_equal(status_of(o), "waiting");
	assert_int_equal(json_array_size(json_object_get(o, "waits")), 1);
	w = json_array_get(json_object_get(o, "waits"), 0);
	assert_string_equal(json_string_value(json_object_get(w, "who")), "master");
	assert_string_equal(json_string_value(json_object_get(w, "whom")), "worker 2");
	assert_string_equal(json_string_value(json_object_get(w, "why")), "its push");
	assert_true(json_number_value(json_object_get(w, "seconds")) >= 7.0);
	json_decref(o);
	prometheus_read(g);
	assert_true(prometheus_of("thalweg_waits_total", "") == 1);
	assert_true(prometheus_of("thalweg_waits",
				  "who=\"master\",whom=\"worker 2\",why=\"its push\"") >= 7.0);
	for (int k = 0; k < 30; k++) { /* as many as there are */
		char who[40];

		snprintf(who, sizeof who, "shard %d", k);
		assert_int_equal(tw_gauges_wait(g, who, "worker 1", "its \"push\"\xff", 9.0),
				 TW_OK);
	}
	prometheus_read(g);
	assert_true(prometheus_of("thalweg_waits_total", "") == 31);
	assert_true(prometheus_of("thalweg_waits",
				  "who=\"shard 0\",whom=\"worker 1\",why=\"its \\\"push\\\"?\"") >=
		    9.0);
	for (int k = 0; k < 30; k++) {
		char who[40];

		snprintf(who, sizeof who, "shard %d", k);
		tw_gauges_wait_over(g, who);
	}
	json_decref(read_health(g, 503));
	tw_gauges_wait_over(g, "master");
	tw_gauges_wait_over(g, "nobody");
	json_decref(read_health(g, 200));
	tw_gauges_wait(g, "master", "worker 2", "its push", 6.0);
	tw_gauges_over(g);
	o = read_health(g, 200);
	assert_string_equal(status_of(o), "over");
	json_decref(o);
	tw_gauges_free(g);
}

static void what_is_not_finite_is_shown(void **state)
{
	struct tw_gauges *g = tw_gauges_new(&tw_heap_system, &plan, "master", "h");
	json_t *o;

	note(g, (struct tw_note){ .kind = TW_NOTE_EVAL, .eval = { .loss = NAN, .accuracy = -1 } });
	prometheus_read(g);
	assert_true(isnan(prometheus_of("thalweg_loss", "")));
	assert_false(prometheus_has("thalweg_accuracy"));
	note(g, (struct tw_note){ .kind = TW_NOTE_EVAL,
				  .eval = { .loss = INFINITY, .accuracy = 0.5 } });
	prometheus_read(g);
	assert_true(isinf(prometheus_of("thalweg_loss", "")));
	assert_true(prometheus_of("thalweg_accuracy", "") == 0.5);
	o = read_health(g, 200);
	assert_true(json_is_null(json_object_get(o, "loss")));
	json_decref(o);
	tw_gauges_free(g);
}

/* --- cost, memory, threads -------------------------------------------------------------------- */

static _Atomic bool enough;
static _Atomic int asked;

static void *asks(void *arg)
{
	char *out;
	size_t len;
	int status;

	while (!enough) {
		const struct tw_gauge_peer p = { "worker 0", "x", TW_WORKER, 0, 3, true };

		if (tw_gauges_text(arg, &out, &len) == TW_OK)
			tw_heap_system.put(&tw_heap_system, out);
		if (tw_gauges_health(arg, &out, &len, &status) == TW_OK)
			tw_heap_system.put(&tw_heap_system, out);
		tw_gauges_peers(arg, &p, 1);
		tw_gauges_wait(arg, "master", "worker 2", "its push", 6.0);
		tw_gauges_codec(arg, TW_GAUGE_PUSH, 4, 1);
		tw_gauges_wait_over(arg, "master");
		asked++;
	}
	return NULL;
}

static void notes_are_cheap(void **state)
{
	enum { MANY = 200000 };
	struct refusing heap = REFUSING(0);
	struct tw_gauges *g = tw_gauges_new(&heap.heap, &plan, "serve", "h");
	struct tw_note n = { .kind = TW_NOTE_APPLY, .incarnation = 1, .count = 20 };
	const unsigned calls = heap.calls;
	double best = 1;

	for (int round = 0; round < 5; round++) {
		const int64_t from = tw_clock();
		double each;

		for (int k = 0; k < MANY; k++) {
			n.slot = (uint32_t)k % 4;
			n.seq++;
			n.at += 1000;
			tw_gauges_note(g, &n);
		}
		each = (double)(tw_clock() - from) / MANY / 1e9;
		best = each < best ? each : best;
	}
	print_message("a note: %.0f ns\n", best * 1e9);
	assert_int_equal(heap.calls, calls);
#ifndef TW_SANITIZED
	assert_true(best < 1e-6);
#endif
	tw_gauges_free(g);
	assert_int_equal(heap.live, 0);
}

static void who_asks_disturbs_nobody(void **state)
{
	struct tw_gauges *g = tw_gauges_new(&tw_heap_system, &plan, "serve", "h");
	struct tw_note n = { .kind = TW_NOTE_APPLY, .incarnation = 1, .count = 20 };
	pthread_t thread;

	enough = false;
	assert_int_equal(pthread_create(&thread, NULL, asks, g), 0);
	for (n.seq = 1; n.seq <= 50000 || asked < 20; n.seq++)
		tw_gauges_note(g, &n);
	enough = true;
	pthread_join(thread, NULL);
	prometheus_read(g);
	assert_true(prometheus_of("thalweg_samples_total", "") == 20.0 * (double)(n.seq - 1));
	assert_true(prometheus_of("thalweg_waits_total", "") >= 20);
	tw_gauges_free(g);
}

static void without_memory(void **state)
{
	static const struct tw_gauge_peer peer = { "worker 0", "x", TW_WORKER, 0, 3, true };
	bool whole = false;

	for (unsigned nth = 1; !whole; nth++) {
		struct refusing heap = REFUSING(nth);
		struct tw_gauges *g = tw_gauges_new(&heap.heap, &plan, "serve", "h");
		char *out = NULL, *health = NULL;
		size_t len;
		int status;

		if (g) {
			whole = tw_gauges_peers(g, &peer, 1) == TW_OK;
			whole &= tw_gauges_wait(g, "a", "b", "c", 6.0) == TW_OK;
			whole &= tw_gauges_text(g, &out, &len) == TW_OK;
			whole &= tw_gauges_health(g, &health, &len, &status) == TW_OK;
			heap.heap.put(&heap.heap, out);
			heap.heap.put(&heap.heap, health);
		}
		tw_gauges_free(g);
		assert_int_equal(heap.live, 0);
		assert_true(whole == (heap.calls < nth));
		assert_true(nth < 100);
	}
	tw_gauges_free(NULL);
}

/* What a cell tells is shown, and what it told before it restarted is not lost. */
static void stages_are_shown(void **state)
{
	const struct tw_pipeline schedule = { .name = "test" };
	const struct tw_plan staged = {
		.dealing.positions = 2000,
		.problem.samples = 1000,
		.crew.workers = 1,
		.problem.shards = 2,
		.dealing.batch = 10,
		.dealing.accumulate = 1,
		.traffic.push = 1,
		.staging = { .schedule = &schedule, .stages = 2, .cells = 2 },
		.gate = &gate
	};
	struct tw_gauges *g = tw_gauges_new(&tw_heap_system, &staged, "train", "h");
	const struct tw_stage_note told[] = {
		{ .cell = 0,
		  .first = 0,
		  .last = 6 * TW_SECOND,
		  .work = { .forwards = 4,
			    .backwards = 4,
			    .forward_time = TW_SECOND,
			    .backward_time = 2 * TW_SECOND,
			    .sent = 100,
			    .memory = 7 } },
		{ .cell = 1,
		  .first = 0,
		  .last = 6 * TW_SECOND,
		  .work = { .forwards = 4,
			    .backwards = 4,
			    .forward_time = TW_SECOND,
			    .backward_time = 2 * TW_SECOND,
			    .sent = 10,
			    .memory = 5 } },
		{ .cell = 1,
		  .first = 8 * TW_SECOND,
		  .last = 12 * TW_SECOND,
		  .work = { .forwards = 1,
			    .backwards = 1,
			    .forward_time = TW_SECOND,
			    .backward_time = 2 * TW_SECOND,
			    .sent = 1,
			    .memory = 3 } },
	};
	char *out = NULL;
	size_t len = 0;

	(void)state;
	for (size_t k = 0; k < 3; k++)
		note(g, (struct tw_note){ .kind = TW_NOTE_STAGE,
					  .incarnation = k < 2 ? 1 : 2,
					  .stage = &told[k] });
	/* what the master hears later of the same life, and of a life before, is no news */
	for (uint32_t life = 1; life <= 2; life++)
		note(g, (struct tw_note){
				.kind = TW_NOTE_STAGE, .incarnation = life, .stage = &told[2] });
	assert_int_equal(tw_gauges_text(g, &out, &len), TW_OK);
	assert_non_null(strstr(
		out, "thalweg_stage_micro_batches_total{worker=\"0\",stage=\"0\",lane=\"0\"} 4\n"));
	assert_non_null(strstr(
		out, "thalweg_stage_micro_batches_total{worker=\"0\",stage=\"1\",lane=\"0\"} 5\n"));
	assert_non_null(strstr(
		out,
		"thalweg_stage_forward_seconds_total{worker=\"0\",stage=\"1\",lane=\"0\"} 2\n"));
	assert_non_null(strstr(
		out, "thalweg_stage_sent_bytes_total{worker=\"0\",stage=\"1\",lane=\"0\"} 11\n"));
	assert_non_null(
		strstr(out, "thalweg_stage_memory_bytes{worker=\"0\",stage=\"1\",lane=\"0\"} 5\n"));
	/* 9 of 24 seconds */
	assert_non_null(strstr(out, "thalweg_pipeline_idle_ratio 0.625\n"));
	tw_heap_system.put(&tw_heap_system, out);
	tw_gauges_free(g);
}

/* Who has which place, and which one is waited for. */
static void places_of_cells_are_shown(void **state)
{
	const struct tw_pipeline schedule = { .name = "test" };
	const struct tw_plan staged = {
		.problem.samples = 1000,
		.crew.workers = 12,
		.problem.shards = 2,
		.staging = { .schedule = &schedule, .stages = 2, .cells = 2 },
		.gate = &gate
	};
	struct tw_gauges *g = tw_gauges_new(&tw_heap_system, &staged, "master", "h");
	struct tw_gauges *other = tw_gauges_new(&tw_heap_system, &staged, "worker", "h");
	const struct tw_gauge_peer peer = {
		.name = "worker 1.1", .host = "box", .role = TW_WORKER, .node = 9, .connected = true
	};
	const json_t *c;
	json_t *o;

	(void)state;
	tw_gauges_peers(g, &peer, 1);
	note(g, (struct tw_note){ .kind = TW_NOTE_CELL, .slot = 1, .cell = { 1, 9, true } });
	note(g, (struct tw_note){ .kind = TW_NOTE_CELL, .slot = 2, .cell = { 0, 8, true } });
	note(g, (struct tw_note){ .kind = TW_NOTE_CELL, .slot = 2, .cell = { 0, 8, false } });
	/* what is not there */
	note(g, (struct tw_note){ .kind = TW_NOTE_CELL, .slot = 12, .cell.taken = true });
	note(g, (struct tw_note){ .kind = TW_NOTE_CELL, .cell = { 2, 0, true } });
	assert_int_equal(tw_gauges_wait(g, "master", "worker 1.1 on box", "its push", 6.0), TW_OK);
	assert_int_equal(tw_gauges_wait(g, "shard 0", "worker 11.0", "its push", 6.0), TW_OK);
	o = read_health(g, 503);
	assert_int_equal(json_array_size(json_object_get(o, "cells")), 24);
	for (size_t k = 0; k < 24; k++) {
		const bool taken = k == 3;

		c = json_array_get(json_object_get(o, "cells"), k);
		assert_int_equal(json_integer_value(json_object_get(c, "worker")), k / 2);
		assert_int_equal(json_integer_value(json_object_get(c, "stage")), k % 2);
		assert_string_equal(json_string_value(json_object_get(c, "state")),
				    taken ? "waiting" : "vacant");
		assert_int_equal(json_is_true(json_object_get(c, "awaited")), taken || k == 22);
		assert_int_equal(json_is_null(json_object_get(c, "host")), !taken);
		if (taken)
			assert_string_equal(json_string_value(json_object_get(c, "host")), "box");
	}
	json_decref(o);
	note(g, (struct tw_note){
			.kind = TW_NOTE_VIEW, .slot = 1, .view = { .live = 1, .state = TW_LIVE } });
	o = read_health(g, 503);
	c = json_array_get(json_object_get(o, "cells"), 3);
	assert_string_equal(json_string_value(json_object_get(c, "state")), "working");
	json_decref(o);
	o = read_health(other, 200);
	assert_true(json_is_null(json_object_get(o, "cells")));
	json_decref(o);
	tw_gauges_free(g);
	tw_gauges_free(other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stages_are_shown),
		cmocka_unit_test(places_of_cells_are_shown),
		cmocka_unit_test(steps_take_time),
		cmocka_unit_test(a_shard_that_moves_in_begins_level),
		cmocka_unit_test(a_master_alone_counts_what_it_hears),
		cmocka_unit_test(peers_are_shown),
		cmocka_unit_test(bytes_are_counted),
		cmocka_unit_test(health_follows_the_run),
		cmocka_unit_test(what_is_not_finite_is_shown),
		cmocka_unit_test(notes_are_cheap),
		cmocka_unit_test(who_asks_disturbs_nobody),
		cmocka_unit_test(without_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
