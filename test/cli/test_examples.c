/* SPDX-License-Identifier: Apache-2.0 */
/* test_examples.c - there is an example for every preset, and it learns what its file promises;
 * those of networks train. */
#include "cli/spawn.h"
#include "spec/job.h"

#include <glob.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* The bound in the line "# expect loss below X". */
static double promised(const char *path)
{
	double bound = NAN;
	char line[400];
	FILE *f = fopen(path, "r");

	if (!f)
		print_error("%s is missing\n", path);
	assert_non_null(f);
	while (fgets(line, sizeof line, f))
		sscanf(line, "# expect loss below %lf", &bound);
	fclose(f);
	return bound;
}

static void every_preset_has_an_example_that_learns(void **state)
{
	for (const struct tw_preset *p = tw_presets; p->name; p++) {
		const bool threads = strcmp(p->name, "hogwild") == 0;
		const struct said *s;
		char path[100];
		double bound;
		json_t *r;

		snprintf(path, sizeof path, "examples/%s.yaml", p->name);
		bound = promised(path);
		assert_true(isfinite(bound));
		s = threads ? thalweg(NULL, "train %s --json --run %s/%s", path, scratch(), p->name)
			    : thalweg(NULL, "sim %s --json", path);
		if (s->code)
			print_error("%s: exit code %d: %s\n", path, s->code, s->err);
		assert_int_equal(s->code, 0);
		r = object_of(s);
		assert_string_equal(text_of(r, "strategy"), p->name);
		if (!(number_of(r, "loss") < bound))
			print_error("%s: loss %g, promised below %g\n", path, number_of(r, "loss"),
				    bound);
		assert_true(number_of(r, "loss") < bound);
		json_decref(r);
	}
}

/* Those that the simulator takes, train in threads as well. */
static void every_example_trains_in_threads(void **state)
{
	for (const struct tw_preset *p = tw_presets; p->name; p++) {
		/* a worker with stages is several threads */
		const bool stages = strstr(p->fields, "pipeline:");
		const struct said *s =
			thalweg(NULL,
				"train examples/%s.yaml --json --run %s/t-%s "
				"--set cluster.workers=%d --set train.epochs=%s",
				p->name, scratch(), p->name, stages ? 1 : 4, stages ? "1" : "0.5");
		json_t *r;

		if (s->code)
			print_error("%s: exit code %d: %s\n", p->name, s->code, s->err);
		assert_int_equal(s->code, 0);
		r = object_of(s);
		assert_true(number_of(r, "samples") >= 1024);
		assert_true(isfinite(number_of(r, "loss")));
		json_decref(r);
	}
}

/* Of networks: with few digits, which also stand in for MNIST: that may not have been fetched. */
static void every_network_among_them_trains(void **state)
{
	size_t networks = 0;
	glob_t all;

	assert_int_equal(glob("examples/*-*.yaml", 0, NULL, &all), 0);
	for (size_t k = 0; k < all.gl_pathc; k++) {
		const char *path = all.gl_pathv[k];
		const struct said *s;
		json_t *r;

		if (!strstr(path, "-mnist.yaml") && !strstr(path, "-digits.yaml"))
			continue;
		networks++;
		s = thalweg(NULL,
			    "train %s --json --run %s/n%zu --set train.epochs=1 --set "
			    "data.source=digits --set data.count=320 --set data.tests=64",
			    path, scratch(), k);
		if (s->code)
			print_error("%s: exit code %d: %s\n", path, s->code, s->err);
		assert_int_equal(s->code, 0);
		r = object_of(s);
		assert_true(number_of(r, "samples") >= 288 && number_of(r, "loss") > 0);
		json_decref(r);
	}
	globfree(&all);
	assert_true(networks >= 6);
}

/* The one of a book: with another text, which stands in for it as digits do for MNIST. */
static void the_example_of_a_book_trains(void **state)
{
	const struct said *s = thalweg(NULL,
				       "train examples/moby-dick.yaml --json --run %s/book --set "
				       "train.steps=30 --set data.source=text --set "
				       "data.file=../docs/STRATEGIES.md --set data.length=16 --set "
				       "update.schedule.warmup=0 --set cluster.workers=2",
				       scratch());
	json_t *r;

	if (s->code)
		print_error("moby-dick: exit code %d: %s\n", s->code, s->err);
	assert_int_equal(s->code, 0);
	r = object_of(s);
	assert_true(number_of(r, "samples") >= 360);
	/* less than all bytes being equally likely has */
	assert_true(number_of(r, "loss") > 1 && number_of(r, "loss") < 5);
	json_decref(r);
	s = thalweg(NULL, "generate %s/book --prompt the --length 12 --seed 3", scratch());
	assert_int_equal(s->code, 0);
	assert_true(strncmp(s->out, "the", 3) == 0 && strlen(s->out) >= 15);
}

/* The digest of the whole example and of one that is stopped at each of its checkpoints, with
 * another number of threads. */
static void every_preset_resumes_to_the_same_bits(void **state)
{
	for (const struct tw_preset *p = tw_presets; p->name; p++) {
		const char *cuts = strstr(p->fields, "optimiser:")
					   ? "--set train.epochs=6 --set checkpoint.every=5s"
				   : strstr(p->fields, "pipeline:")
					   ? "--set train.epochs=2 --set checkpoint.every=300ms"
					   : "--set train.epochs=0.5 --set checkpoint.every=10s";
		const struct said *s;
		size_t stops = 0;
		json_t *whole, *r;

		if (strcmp(p->name, "hogwild") == 0)
			continue;
		s = thalweg(NULL, "sim examples/%s.yaml --json --run %s/w-%s --threads 1 %s",
			    p->name, scratch(), p->name, cuts);
		assert_int_equal(s->code, 0);
		whole = object_of(s);
		do {
			s = thalweg(NULL,
				    "sim examples/%s.yaml --json --run %s/p-%s --threads 2 "
				    "--checkpoints 1 %s",
				    p->name, scratch(), p->name, cuts);
			assert_true(++stops < 100);
		} while (s->code == 75);
		if (s->code)
			print_error("%s: exit code %d: %s\n", p->name, s->code, s->err);
		assert_int_equal(s->code, 0);
		assert_true(stops > 1);
		r = object_of(s);
		if (strcmp(text_of(r, "parameters_digest"), text_of(whole, "parameters_digest")))
			print_error("%s: stopped %zu times, other bits\n", p->name, stops - 1);
		assert_string_equal(text_of(r, "parameters_digest"),
				    text_of(whole, "parameters_digest"));
		assert_true(number_of(r, "samples") == number_of(whole, "samples"));
		assert_true(number_of(r, "updates") == number_of(whole, "updates"));
		json_decref(r);
		json_decref(whole);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_preset_has_an_example_that_learns),
		cmocka_unit_test(every_preset_resumes_to_the_same_bits),
		cmocka_unit_test(every_example_trains_in_threads),
		cmocka_unit_test(every_network_among_them_trains),
		cmocka_unit_test(the_example_of_a_book_trains),
	};

	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
