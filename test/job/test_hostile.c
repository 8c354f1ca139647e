/* SPDX-License-Identifier: Apache-2.0 */
/* test_hostile.c - whatever bytes come as a job file: a job, or one sentence; never a crash. */
#include "job/reading.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

static enum tw_status survive(const char *bytes, size_t n, const char *set)
{
	struct tw_job *job = NULL;
	struct tw_error why = { 0 };
	const enum tw_status st = tw_job_read_text("job.yaml", bytes, n, &set, set ? 1 : 0, NULL,
						   TW_WORLD_SIM, &job, &why);

	if (st == TW_OK) {
		char *text = explained(job);

		assert_string_equal(why.text, "");
		free(text);
		tw_job_free(job);
		return st;
	}
	assert_int_equal(st, TW_BAD_INPUT);
	assert_null(job);
	if (!is_sentence(why.text))
		fail_msg("no sentence: '%s'", why.text);
	return st;
}

static char *repeated(const char *unit, size_t times, const char *before, const char *after)
{
	const size_t n = strlen(unit);
	char *text = malloc(strlen(before) + n * times + strlen(after) + 1), *p = text;

	assert_non_null(text);
	p = stpcpy(p, before);
	for (size_t k = 0; k < times; k++)
		p = stpcpy(p, unit);
	strcpy(p, after);
	return text;
}

static void large_and_deep(void **state)
{
	static const struct {
		const char *unit;
		size_t times;
		const char *before, *after;
	} texts[] = {
		{ "[", 100000, "", "" },
		{ "{a: ", 100000, "", "" },
		{ "- ", 100000, "", "" },
		{ "? ", 100000, "", "" },
		{ "a: b\n", 100000, "", "" },
		{ "x", 900000, "", "" },
		{ "x", 900000, SMALL "train: {seed: ", "}\n" },
		{ "x", 900000, SMALL, ": 1\n" },
		{ "9", 200, SMALL "train: {seed: ", "}\n" },
		{ "1, ", 200000, SMALL "sim: {speeds: [", "1]}\n" },
		{ "&a ", 1000, SMALL "train: ", "\n" },
		{ "#\n", 500000, "", SMALL },
		{ " ", 1000000, "", "" },
		{ "x: 1\n", 300000, "", "" },
		{ "!", 100000, "a: ", "" },
		{ "\"", 1001, "", "" },
		{ "---\n", 10000, "", "" },
		{ "%YAML 1.1\n", 1000, "", "" },
	};

	(void)state;
	for (size_t k = 0; k < sizeof texts / sizeof texts[0]; k++) {
		char *text =
			repeated(texts[k].unit, texts[k].times, texts[k].before, texts[k].after);
		const clock_t began = clock();

		survive(text, strlen(text), NULL);
		/* nothing about a file of a MiB may take long */
		assert_true((clock() - began) / (double)CLOCKS_PER_SEC < 20);
		free(text);
	}
}

static void laughs_are_not_multiplied(void **state)
{
	static const char bomb[] = "a: &a [x, x, x, x, x, x, x, x, x]\n"
				   "b: &b [*a, *a, *a, *a, *a, *a, *a]\n"
				   "c: &c [*b, *b, *b, *b, *b, *b, *b]\n"
				   "d: &d [*c, *c, *c, *c, *c, *c, *c]\n"
				   "e: &e [*d, *d, *d, *d, *d, *d, *d]\n";

	(void)state;
	assert_int_equal(survive(bomb, strlen(bomb), NULL), TW_BAD_INPUT);
}

static void a_mebibyte_is_enough(void **state)
{
	char *text = repeated("#\n", TW_JOB_BYTES_MAX / 2 + 1, "", SMALL);
	struct tw_job *job = NULL;
	struct tw_error why = { 0 };

	(void)state;
	assert_int_equal(tw_job_read_text("job.yaml", text, strlen(text), NULL, 0, NULL,
					  TW_WORLD_SIM, &job, &why),
			 TW_BAD_INPUT);
	assert_string_equal(why.text,
			    "job.yaml: is longer than 1 MiB, which no job file needs to be");
	free(text);
}

static void raw_bytes(void **state)
{
	static const char zero[] =
		"data: {samples: 8}\nmodel: {quadratic: {dimension: 2}}\n\0x: 1\n";
	static const char control[] = "data: {samples: \x01\x02}\n";
	static const char utf8[] = "data: {samples: \xff\xfe}\n";
	static const char utf16[] = "\xff\xfe"
				    "d\0a\0t\0a\0:\0 \0{\0}\0\n\0";
	static const char value[] = SMALL "train: {seed: \"a\\nb\\x07\"}\n";
	static const char key[] = SMALL "train: {\"se\\ned\": 1}\n";
	static const char accents[] = SMALL "strat\xc3\xa9gie: {\xc3\xa9: 1}\n";

	(void)state;
	assert_int_equal(survive(zero, sizeof zero - 1, NULL), TW_BAD_INPUT);
	assert_int_equal(survive(control, sizeof control - 1, NULL), TW_BAD_INPUT);
	assert_int_equal(survive(utf8, sizeof utf8 - 1, NULL), TW_BAD_INPUT);
	assert_int_equal(survive(utf16, sizeof utf16 - 1, NULL), TW_BAD_INPUT);
	assert_int_equal(survive(value, sizeof value - 1, NULL), TW_BAD_INPUT);
	assert_int_equal(survive(key, sizeof key - 1, NULL), TW_BAD_INPUT);
	assert_int_equal(survive(accents, sizeof accents - 1, NULL), TW_BAD_INPUT);
}

static void flags_of_any_kind(void **state)
{
	static const char *const sets[] = {
		"",
		"=",
		".",
		".=1",
		"a",
		"a.=1",
		"a..b=2",
		"strategy=[",
		"strategy={",
		"strategy=",
		"strategy={{{{{{{{{{{{",
		"sim.faults=[{}]",
		"sim.faults=7",
		"sim.faults.0=1",
		"train=5",
		"train={}",
		"train=[]",
		"model=",
		"model={}",
		"data=x",
		"loss={a: 1}",
		"train.seed=\n\x01",
		"x\ny=1",
		"\xff=\xfe",
		"strategy.name.x=1",
		"sim.speeds=[1,,2]",
		"sim.speeds=[nan]",
		"sim.speeds=[]",
		"strategy.local=7",
		"update.rule={a: [1]}",
	};
	char *text = repeated("a.", 5000, "", "=1");

	(void)state;
	for (size_t k = 0; k < sizeof sets / sizeof sets[0]; k++)
		survive(SMALL, strlen(SMALL), sets[k]);
	assert_int_equal(survive(SMALL, strlen(SMALL), text), TW_BAD_INPUT);
	free(text);
	text = repeated("x", 100000, "train.seed=", "");
	assert_int_equal(survive(SMALL, strlen(SMALL), text), TW_BAD_INPUT);
	free(text);
}

/* Good jobs with a few bytes changed, cut, doubled or swapped with pieces of the language. */
static void mutated_jobs(void **state)
{
	static const char *const seeds[] = {
		SMALL
		"strategy: {name: downpour, push: 3, fetch: 4}\ntrain: {epochs: 3, seed: 1}\n",
		SMALL
		"cluster: {workers: 5, servers: 2}\nsim:\n  compute: {law: gamma, mean: 1ms}\n"
		"  faults:\n    - {crash: worker 3, at: 5s, restart: 2s}\n"
		"    - {partition: worker 2, from: everybody, at: 3s, lasts: 20s}\n",
		"data: {samples: 100, global_batch: 7}\nmodel: {least-squares: {dimension: 12}}\n"
		"update: {rule: momentum, schedule: {kind: step, at: [1, 2]}}\nstrategy: dc-ssgd\n",
	};
	static const char *const pieces[] = {
		"{",    "}",     "[",  "]", ": ",       "\n", "\n  ",     "- ",      "*a",
		"&a ",  "'",     "\"", "#", "!!",       "|",  ">",        "\t",      "---\n",
		"none", "1e999", "-1", "0", "strategy", "~",  "\xc3\xa9", "99999999"
	};
	const struct tw_rng rng = tw_rng_make(4711, TW_RNG_TEST);
	size_t good = 0, bad = 0;

	(void)state;
	for (size_t k = 0; k < 3; k++)
		assert_int_equal(survive(seeds[k], strlen(seeds[k]), NULL), TW_OK);
	for (uint64_t run = 0; run < 6000; run++) {
		const char *seed = seeds[run % 3];
		size_t n = strlen(seed);
		char text[1200];
		const uint64_t changes = 1 + tw_rng_u64(&rng, run, 0) % 4;

		memcpy(text, seed, n);
		for (uint64_t k = 0; k < changes; k++) {
			const uint64_t draw = tw_rng_u64(&rng, run, k + 1);
			const size_t at = (draw >> 8) % n, pick = (draw >> 32) % 26;
			const size_t length = strlen(pieces[pick]);

			if (text[at] >= '0' && text[at] <= '9') {
				text[at] = (char)('0' + (draw >> 40) % 10);
			} else if (draw % 4 == 0) {
				text[at] = (char)(draw >> 40);
			} else if (draw % 4 == 1 && n > 40) {
				const size_t gone = 1 + (draw >> 40) % 20;
				const size_t cut = gone < n - at ? gone : n - at;

				memmove(text + at, text + at + cut, n - at - cut);
				n -= cut;
			} else if (n + length < sizeof text) {
				memmove(text + at + length, text + at, n - at);
				memcpy(text + at, pieces[pick], length);
				n += length;
			}
		}
		if (survive(text, n, NULL) == TW_OK)
			good++;
		else
			bad++;
	}
	/* the loop reaches both answers, or it tests nothing */
	assert_true(good > 100 && bad > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(large_and_deep),       cmocka_unit_test(laughs_are_not_multiplied),
		cmocka_unit_test(a_mebibyte_is_enough), cmocka_unit_test(raw_bytes),
		cmocka_unit_test(flags_of_any_kind),    cmocka_unit_test(mutated_jobs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
