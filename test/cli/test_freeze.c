/* SPDX-License-Identifier: Apache-2.0 */
/* test_freeze.c - frozen layers as a user meets them: processes, checkpoints, exported files,
 * predictions, inspect. */
#include "cli/spawn.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const char job[] =
	"data: {source: digits, count: 200, tests: 50, batch: 20}\n"
	"model: {layers: [conv 4 3x3, batchnorm, relu, maxpool 2, linear 32, relu, linear 10],\n"
	"  freeze: [0, 1, 4]}\n"
	"train: {epochs: 3, seed: 3}\n"
	"update: {rule: adam, rate: 0.01}\n"
	"cluster: {workers: 2, servers: 2, shards: 3}\n"
	"checkpoint: {keep: 2}\n"
	"strategy: ssgd\n";

static void all_worlds_and_files_agree(void **state)
{
	char *file = strdup(put_job(job)), *dir = path_kept("run"),
	     *safe = path_kept("m.safetensors");
	char *wanted, *again;
	struct said const *s;
	json_t *o;

	wanted = digest_after("train %s --run %s", file, dir);
	again = digest_after("train %s --processes --run %s-2", file, dir);
	same_digest(strdup(wanted), again);
	same_digest(strdup(wanted), digest_after("sim %s --run %s-3", file, dir));
	same_digest(strdup(wanted), digest_after("eval %s%s", dir, ""));
	expect(thalweg(NULL, "export %s --to %s -q", dir, safe), 0);
	same_digest(strdup(wanted), digest_after("eval %s --job %s", safe, file));
	/* what was trained is the beginning of another run with something else frozen */
	again = digest_after("train %s --set model.freeze=[0-3] --run %s-4", file, dir);
	assert_string_not_equal(again, wanted);
	free(again);
	again = digest_after(
		"train %s --set model.freeze=[6] --set model.weights=m.safetensors --run "
		"%s-5",
		file, dir);
	same_digest(
		again,
		digest_after("train %s --set model.freeze=[6] --set model.weights=m.safetensors "
			     "--processes --run %s-6",
			     file, dir));
	s = thalweg(NULL, "inspect %s --json", dir);
	expect(s, 0);
	o = object_of(s);
	assert_int_equal(json_integer_value(json_object_get(o, "frozen")), 40 + 8 + 676 * 32 + 32);
	assert_int_equal(json_integer_value(json_object_get(o, "parameters")), 330);
	json_decref(o);
	has(thalweg(NULL, "inspect %s", dir)->out, "330 trained, 21712 frozen, 8 buffers");
	has(thalweg(NULL, "inspect %s", dir)->out, "frozen.safetensors");
	has(thalweg(NULL, "inspect %s", file)->out, "frozen\n");
	free(wanted);
	free(file);
	free(dir);
	free(safe);
}

/* An old checkpoint goes with its frozen file, and a damaged one is refused by name. */
static void frozen_files_are_kept_and_checked(void **state)
{
	char *file = strdup(put_job(job)), *dir = path_kept("kept");
	char path[600];
	FILE *f;

	expect(thalweg(NULL,
		       "sim %s --run %s -q --set checkpoint.every=100ms --set "
		       "checkpoint.keep=1",
		       file, dir),
	       0);
	snprintf(path, sizeof path, "ls %s | grep -c ^ckpt", dir);
	f = popen(path, "r");
	assert_non_null(f);
	assert_int_equal(fgetc(f), '1');
	assert_int_equal(fgetc(f), '\n');
	pclose(f);
	snprintf(path, sizeof path,
		 "for c in %s/ckpt-*; do printf x >> $c/frozen.safetensors; done", dir);
	assert_int_equal(system(path), 0);
	has(thalweg(NULL, "eval %s", dir)->err, "frozen.safetensors is too long");
	free(file);
	free(dir);
}

static void programs_that_join_have_no_freeze(void **state)
{
	const char *file = put_job("data: {source: none, samples: 10}\n"
				   "model: {tensors: x.safetensors, freeze: [0]}\n");
	char command[600];

	snprintf(command, sizeof command, "train %s", file);
	thalweg_refuses(NULL, "model.freeze: all tensors of the file are trained; leave out",
			command);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_worlds_and_files_agree),
		cmocka_unit_test(frozen_files_are_kept_and_checked),
		cmocka_unit_test(programs_that_join_have_no_freeze),
	};

	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
