/* SPDX-License-Identifier: Apache-2.0 */
/* test_rate_auto.c - update.rate: auto in every world: one number, and the run that has it. */
#include "cli/spawn.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const char job[] = "data: {source: digits, count: 200, tests: 50, batch: 20}\n"
			  "model: {layers: [linear 16, relu, linear 10]}\n"
			  "train: {epochs: 1, seed: 3}\nupdate: {rate: auto}\n"
			  "cluster: {workers: 2}\nstrategy: ssgd\n";

static void all_worlds_find_the_same(void **state)
{
	static const char *const verbs[] = { "sim", "train", "train --processes" };
	char *file = strdup(put_job(job)), *first = NULL, line[60];
	double rate = 0;

	for (size_t k = 0; k < 3; k++) {
		char *digest = NULL;
		double found;
		const struct said *s = thalweg(NULL, "%s --json -v --run %s-%zu %s", verbs[k],
					       path_of("run"), k, file);
		json_t *o;

		expect(s, 0);
		has(s->err, "update.rate: auto: ");
		has(s->err, "of 7 rates from 0.001 to 1 in 32 steps each");
		o = object_of(s);
		found = json_number_value(json_object_get(o, "rate"));
		json_decref(o);
		digest = digest_of(s);
		if (k)
			assert_string_equal(digest, first);
		else
			first = strdup(digest);
		assert_true(!k || found == rate);
		rate = found;
		free(digest);
	}
	snprintf(line, sizeof line, "  rate: %g\n", rate);
	has(thalweg(NULL, "train %s --explain", file)->out, line);
	free(first);
	free(file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_worlds_find_the_same),
	};

	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
