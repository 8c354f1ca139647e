/* SPDX-License-Identifier: Apache-2.0 */
/* test_isa.c - THALWEG_ISA limits the program and what it starts; --isa wins; it is no field. */
#include "base/machine/isa.h"
#include "cli/spawn.h"

#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

/* oneDNN's products decide its digest. */
static const char job[] = "data: {source: digits, count: 200, tests: 100, batch: 20}\n"
			  "model: {layers: [conv 4 5x5, relu, linear 20, relu, linear 10]}\n"
			  "train: {epochs: 1, seed: 5}\nupdate: {rate: 0.05}\nstrategy: ssgd\n"
			  "cluster: {workers: 2}\n";

/* `isa` of a result, and its digest where `digest` is not NULL; both the caller's to free. */
static char *isa_of(const char *environment, const char *command, char **digest)
{
	struct running r;
	struct said s;
	json_t *o;
	char *isa;

	thalweg_begin(&r, environment, "%s", command);
	thalweg_end(&r, &s);
	expect(&s, 0);
	o = object_of(&s);
	isa = strdup(text_of(o, "isa"));
	if (digest)
		*digest = strdup(text_of(o, "parameters_digest"));
	json_decref(o);
	said_free(&s);
	return isa;
}

/* In threads, processes and the simulator: the bits of --isa, also those of oneDNN. */
static void runs_obey_it(void **state)
{
	static const char *const limits[] = { "avx2", "plain" };
	static const char *const worlds[] = { "sim", "train", "train --processes" };
	const char *path = put_job(job);

	for (size_t k = strcmp(tw_isa_name(tw_isa_machine()), "plain") ? 0 : 1; k < 2; k++) {
		char environment[40], command[300], *isa, *want, *is;

		snprintf(environment, sizeof environment, "THALWEG_ISA=%s", limits[k]);
		snprintf(command, sizeof command, "sim %s --json -q --isa %s", path, limits[k]);
		free(isa_of(NULL, command, &want));
		for (size_t w = 0; w < 3; w++) {
			snprintf(command, sizeof command,
				 "%s %s --json -q --again --run %s/run-%zu", worlds[w], path,
				 scratch(), w);
			isa = isa_of(environment, command, &is);
			assert_string_equal(isa, limits[k]);
			assert_string_equal(is, want);
			free(isa);
			free(is);
		}
		free(want);
	}
}

static void compare_obeys_it(void **state)
{
	char command[300], pattern[300], *isa;
	glob_t found;
	json_t *o;

	snprintf(command, sizeof command, "compare %s --json -q --seeds 2 --run %s/side",
		 put_job(job), scratch());
	isa = isa_of("THALWEG_ISA=plain", command, NULL);
	assert_string_equal(isa, "plain");
	free(isa);
	snprintf(pattern, sizeof pattern, "%s/side/cells/*/result.json", scratch());
	assert_int_equal(glob(pattern, 0, NULL, &found), 0);
	assert_true(found.gl_pathc >= 2); /* and what it adds for comparison */
	for (size_t k = 0; k < found.gl_pathc; k++) {
		o = json_load_file(found.gl_pathv[k], 0, NULL);
		assert_string_equal(text_of(o, "isa"), "plain");
		json_decref(o);
	}
	globfree(&found);
}

static void the_flag_wins(void **state)
{
	const char *machine = tw_isa_name(tw_isa_machine());
	char command[300], *isa;

	snprintf(command, sizeof command, "sim %s --json -q --isa %s", put_job(job), machine);
	isa = isa_of("THALWEG_ISA=plain", command, NULL);
	assert_string_equal(isa, machine);
	free(isa);
	snprintf(command, sizeof command, "sim %s --json -q --isa plain", put_job(job));
	isa = isa_of("THALWEG_ISA=avx512", command, NULL);
	assert_string_equal(isa, "plain");
	free(isa);
}

static void the_doctor_shows_it(void **state)
{
	struct running r;
	struct said s;
	json_t *o;

	thalweg_begin(&r, "THALWEG_ISA=plain PATH=/nowhere", "doctor --json"); /* no PyTorch */
	thalweg_end(&r, &s);
	expect(&s, 0);
	o = object_of(&s);
	assert_string_equal(text_of(o, "isa"), "plain");
	assert_string_equal(text_of(o, "machine_isa"), tw_isa_name(tw_isa_machine()));
	has(text_of(json_object_get(o, "libraries"), "onednn"), "will use sse41");
	json_decref(o);
	said_free(&s);
	thalweg_begin(&r, "THALWEG_ISA=plain PATH=/nowhere", "doctor");
	thalweg_end(&r, &s);
	expect(&s, 0);
	if (strcmp(tw_isa_name(tw_isa_machine()), "plain") != 0)
		has(s.out, "plain; THALWEG_ISA sets this limit");
	said_free(&s);
}

static void a_name_that_is_none_is_refused(void **state)
{
	static const char why[] = "THALWEG_ISA: needs plain, avx2 or avx512, not 'avx'";
	char command[300];

	snprintf(command, sizeof command, "sim %s --json", put_job(job));
	thalweg_refuses("THALWEG_ISA=avx", why, command);
	thalweg_refuses("THALWEG_ISA=avx", why, "doctor");
	thalweg_refuses("THALWEG_ISA=avx", why, "key");
	thalweg_refuses("THALWEG_ISA=AVX2", "not 'AVX2'", command);
}

/* A variable with the name of a field changes what is explained; this one does not. */
static void it_is_no_field(void **state)
{
	const char *path = put_job(job);
	struct running r;
	struct said with, without;

	thalweg_begin(&r, "THALWEG_ISA=plain", "sim %s --explain", path);
	thalweg_end(&r, &with);
	thalweg_begin(&r, NULL, "sim %s --explain", path);
	thalweg_end(&r, &without);
	expect(&with, 0);
	assert_string_equal(with.err, "");
	assert_string_equal(with.out, without.out);
	said_free(&with);
	said_free(&without);
	thalweg_refuses(NULL, "isa", "sim examples/ssgd.yaml --set isa=plain");
}

int main(void)
{
#define IN_SCRATCH(f) cmocka_unit_test_setup_teardown(f, scratch_make, scratch_remove)
	const struct CMUnitTest tests[] = {
		IN_SCRATCH(runs_obey_it),
		IN_SCRATCH(compare_obeys_it),
		IN_SCRATCH(the_flag_wins),
		IN_SCRATCH(the_doctor_shows_it),
		IN_SCRATCH(a_name_that_is_none_is_refused),
		IN_SCRATCH(it_is_no_field),
	};

	unsetenv("THALWEG_ISA"); /* every case says what it wants */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
