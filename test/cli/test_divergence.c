/* SPDX-License-Identifier: Apache-2.0 */
/* test_divergence.c - train.on_divergence: a run that diverges trains on with a lower rate, and
 * ends as if somebody had given that rate by hand. */
#include "cli/spawn.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* The rate rises from 0 by 1 in an epoch, and 2 is too much: good checkpoints come first. */
static const char later[] =
	"model: {quadratic: {dimension: 24, curvature: [0.1, 1], noise: 0.1, tensors: 3}}\n"
	"data: {source: none, samples: 64, batch: 4}\n"
	"train: {epochs: 60, seed: 3}\n"
	"update: {rule: sgd, rate: 100, schedule: {kind: constant, warmup: 100}}\n"
	"cluster: {workers: 2, shards: 3}\n"
	"strategy: %s\n"
	"checkpoint: {every: 1s, keep: 1000}\n"
	"sim: {compute: {mean: 100ms}}\n";

/* The first step is too large. */
static const char at_once[] = "model: {name: mlp, hidden: [16]}\n"
			      "data: {source: digits, count: 2000, tests: 100, batch: 16}\n"
			      "train: {epochs: 1, seed: 1}\n"
			      "update: {rate: 1e6}\n"
			      "cluster: {workers: 2}\n"
			      "strategy: ssgd\n";

#define TWICE "--set train.on_divergence.restarts=2 --set train.on_divergence.rate=0.1"

static void is(const json_t *result, const char *field, double value)
{
	const json_t *v = json_object_get(result, field);

	assert_true(json_is_number(v));
	if (json_number_value(v) != value)
		fail_msg("%s is %.17g, not %.17g", field, json_number_value(v), value);
}

/* The digest of a run that must end well, after so many restarts, at this rate. */
static void good(const struct said *s, int restarts, double rate, char digest[64])
{
	json_t *r;
	char *d;

	expect(s, 0);
	r = object_of(s);
	is(r, "restarts", restarts);
	is(r, "rate", rate);
	json_decref(r);
	d = digest_of(s);
	snprintf(digest, 64, "%s", d);
	free(d);
}

/* By hand, and by itself: gradients, what workers keep, and deltas. */
static void it_ends_as_if_resumed_by_hand(void **state)
{
	static const char *const strategies[] = { "ssgd", "{name: averaging, push: 2}",
						  "{gate: bsp, send: delta, push: 2, merge: "
						  "elastic, alpha: 0.1, outer: {rule: add}}" };

	(void)state;
	for (size_t k = 0; k < sizeof strategies / sizeof strategies[0]; k++) {
		char text[1000], path[300], own[64], hand[64];
		const struct said *s;
		json_t *r;

		snprintf(text, sizeof text, later, strategies[k]);
		snprintf(path, sizeof path, "%s", put_job(text));
		s = thalweg(NULL, "sim %s --run %s/own%zu --json " TWICE, path, scratch(), k);
		good(s, 2, 1, own);
		has(s->err, "restart 1 of 2, from ");
		has(s->err, "/ckpt-"); /* not from the beginning */
		has(s->err, "with update.rate=10 (it was 100)");
		has(s->err, "with update.rate=1 (it was 10)");

		s = thalweg(NULL, "sim %s --run %s/hand%zu --json", path, scratch(), k);
		expect(s, 1);
		has(s->err, "such as --set update.rate=0.1 (it is 100)"); /* 10 would not help */
		r = object_of(s);
		assert_true(json_is_true(json_object_get(r, "diverged")));
		is(r, "restarts", 0);
		json_decref(r);
		expect(thalweg(NULL, "sim %s --run %s/hand%zu --json --set update.rate=10", path,
			       scratch(), k),
		       1);
		good(thalweg(NULL, "sim %s --run %s/hand%zu --json --set update.rate=1", path,
			     scratch(), k),
		     0, 1, hand);
		assert_string_equal(own, hand);
	}
}

/* The directory knows of the restarts: a run that is stopped again and again ends the same. */
static void stopping_does_not_matter(void **state)
{
	char text[1000], path[300], whole[64], parts[64];
	const struct said *s;
	int stops = 0;

	(void)state;
	snprintf(text, sizeof text, later, "ssgd");
	snprintf(path, sizeof path, "%s", put_job(text));
	good(thalweg(NULL, "sim %s --run %s/whole --json " TWICE, path, scratch()), 2, 1, whole);
	do {
		s = thalweg(NULL, "sim %s --run %s/parts --json --checkpoints 7 " TWICE, path,
			    scratch());
		stops += s->code == 75;
		assert_true(stops < 100);
	} while (s->code == 75);
	good(s, 2, 1, parts);
	assert_true(stops > 4);
	assert_string_equal(whole, parts);

	/* another rate by hand is a new beginning, and so is --again */
	good(thalweg(NULL, "sim %s --run %s/whole --again --json --set update.rate=1 " TWICE, path,
		     scratch()),
	     0, 1, parts);
	good(thalweg(NULL, "sim %s --json --set update.rate=1", path), 0, 1, whole);
	assert_string_equal(whole, parts);
}

static void when_all_restarts_are_used_it_has_failed(void **state)
{
	char text[1000], path[300];
	const struct said *s;
	json_t *r;

	(void)state;
	snprintf(text, sizeof text, later, "asgd");
	snprintf(path, sizeof path, "%s", put_job(text));
	s = thalweg(NULL,
		    "sim %s --run %s/used --json --set train.on_divergence.restarts=1 --set "
		    "train.on_divergence.rate=0.9",
		    path, scratch());
	expect(s, 1);
	has(s->err, "restart 1 of 1");
	has(s->err, "training diverged after");
	has(s->err, "(it is 90)");
	r = object_of(s);
	assert_true(json_is_true(json_object_get(r, "diverged")));
	is(r, "restarts", 1);
	is(r, "rate", 90);
	json_decref(r);
}

/* Without a checkpoint it starts over: in every world the bits of the lower rate alone. */
static void without_a_checkpoint_it_is_the_plain_job(void **state)
{
	static const char again[] =
		"--set train.on_divergence.restarts=1 --set train.on_divergence.rate=1e-7";
	struct running part[3];
	char path[300], plain[64], own[64], join[400];
	const struct said *s;

	(void)state;
	snprintf(path, sizeof path, "%s", put_job(at_once));
	good(thalweg(NULL, "sim %s --json --set update.rate=0.1", path), 0, 0.1, plain);
	s = thalweg(NULL, "sim %s --json %s", path, again);
	good(s, 1, 1e6 * 1e-7, own);
	has(s->err, "from the beginning");
	assert_string_equal(own, plain);
	good(thalweg(NULL, "train %s --run %s/threads --json %s", path, scratch(), again), 1,
	     1e6 * 1e-7, own);
	assert_string_equal(own, plain);

	thalweg_begin(&part[0], NULL, "serve %s --run %s/tcp --listen 127.0.0.1:0 --json %s", path,
		      scratch(), again);
	await_line(&part[0], "to join: thalweg ", join, sizeof join);
	for (int k = 1; k < 3; k++)
		thalweg_begin(&part[k], NULL, "%s --json", join);
	for (int k = 0; k < 3; k++) {
		struct said said;

		thalweg_end(&part[k], &said);
		good(&said, 1, 1e6 * 1e-7, own);
		assert_string_equal(own, plain);
		if (k)
			has(said.err, "; joining again");
		said_free(&said);
	}
	thalweg_refuses(
		NULL, "train.on_divergence.restarts: the processes of --processes end",
		"train examples/ssgd.yaml --processes --set train.on_divergence.restarts=1");
}

/* Prices of houses: the job is warned, and the advice after the divergence names the reasons. */
static void targets_of_another_scale_are_named(void **state)
{
	char path[300];
	const char *file;
	const struct said *s;
	FILE *f;

	(void)state;
	snprintf(path, sizeof path, "%s/prices.csv", scratch());
	f = fopen(path, "w");
	assert_non_null(f);
	fprintf(f, "rooms,age,price\n");
	for (int k = 0; k < 100; k++)
		fprintf(f, "%d,%d,%d\n", 1 + k % 7, k % 50,
			50000 + 30000 * (k % 7) - 500 * (k % 50));
	fclose(f);
	file = put_job(
		"data: {source: csv, file: prices.csv, label: price, task: values, batch: 4,\n"
		"       normalise_targets: none}\n"
		"model: {layers: [linear 8, relu, linear 1]}\nloss: mean-squared\n"
		"train: {epochs: 20, seed: 1}\nupdate: {rate: 0.1}\n"
		"cluster: {workers: 2}\n");
	s = thalweg(NULL, "train %s --run %s/prices", file, scratch());
	expect(s, 1);
	has(s->err, "the target price has mean 1.2");
	has(s->err, "data.normalise_targets: standard scales it for the network");
	has(s->err, "training diverged after");
	has(s->err, "; or start another run with data.normalise_targets: standard, since the "
		    "targets have mean 1.2");
	has(s->err, "; or start another run with update.rule: adagrad, adam, ");
	/* and classes are none of this */
	s = thalweg(at_once, "train - --run %s/classes", scratch());
	expect(s, 1);
	assert_null(strstr(s->err, "target"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_ends_as_if_resumed_by_hand),
		cmocka_unit_test(stopping_does_not_matter),
		cmocka_unit_test(when_all_restarts_are_used_it_has_failed),
		cmocka_unit_test(without_a_checkpoint_it_is_the_plain_job),
		cmocka_unit_test(targets_of_another_scale_are_named),
	};

	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
