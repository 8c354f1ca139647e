/* SPDX-License-Identifier: Apache-2.0 */
/* test_suggest.c - sentences name the variants that have what their marks ask for, and every mark
 * that a sentence of the program has is known. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "spec/help/suggest.h"
#include "strategy/codec.h"
#include "strategy/gate.h"

static void says(const char *sentence, const char *expected)
{
	struct tw_job job = { .plan = { .gate = tw_gate_find("ssp") } };
	char out[300];

	assert_string_equal(tw_suggest(&job, sentence, out, sizeof out), expected);
}

static void marks_become_names(void **state)
{
	says("no mark at all; use 1 ]", "no mark at all; use 1 ]");
	says("[gate] waits", "ssp waits");
	says("use codec: {up: [an exact codec]}, or [plain rule]", "use codec: {up: fp32}, or sgd");
	says("[idle policy]", "none");
	says("", "");
}

/* "a, b or c" of all that fit, and no other. */
static void all_that_fit_are_listed(void **state)
{
	char expected[300] = "", last[100] = "";
	size_t count = 0, at = 0;

	for (size_t k = 0; tw_codec_all[k]; k++) {
		if (!(tw_codec_all[k]->traits & TW_CODEC_DOWN))
			continue;
		if (count++)
			at += (size_t)snprintf(expected + at, sizeof expected - at, "%s%s",
					       count > 2 ? ", " : "", last);
		snprintf(last, sizeof last, "%s", tw_codec_all[k]->name);
	}
	assert_true(count >= 2);
	snprintf(expected + at, sizeof expected - at, " or %s", last);
	says("[downward codec]", expected);
}

/* However little room there is, nothing is written behind it. */
static void what_does_not_fit_is_cut(void **state)
{
	const struct tw_job job = { .plan = { .gate = tw_gate_find("ssp") } };
	char whole[100], out[100];

	tw_suggest(&job, "of [gate], [downward codec] and [plain rule]", whole, sizeof whole);
	for (size_t room = 1; room <= strlen(whole) + 1; room++) {
		memset(out, '#', sizeof out);
		tw_suggest(&job, "of [gate], [downward codec] and [plain rule]", out, room);
		assert_int_equal(strlen(out), room - 1);
		assert_memory_equal(out, whole, room - 1);
		assert_int_equal(out[room], '#');
	}
}

/* The text of all string literals of a file, one after the other. */
static char *literals(const char *path)
{
	FILE *f = fopen(path, "r");
	char *text = calloc(1, 1 << 20), *out = calloc(1, 1 << 20), *to = out;
	bool inside = false;

	assert_non_null(f);
	assert_true(text && out && fread(text, 1, (1 << 20) - 1, f) > 0);
	fclose(f);
	for (const char *p = text; *p; p++) {
		if (inside && *p == '\\' && p[1])
			p++;
		else if (*p == '"')
			inside = !inside;
		else if (inside)
			*to++ = *p;
	}
	free(text);
	return out;
}

/* An unknown mark would end the program when its sentence is said. */
static void every_mark_of_the_program_is_known(void **state)
{
	static const char *const files[] = { "src/spec/stages.c", "src/spec/values.c" };
	const struct tw_job job = { .plan = { .gate = tw_gate_find("ssp") } };
	size_t marks = 0;

	for (size_t k = 0; k < sizeof files / sizeof files[0]; k++) {
		char *all = literals(files[k]), mark[80], out[300];

		for (const char *p = strchr(all, '['); p; p = strchr(p + 1, '[')) {
			const size_t n = strcspn(p, "]") + 1;

			/* a list of numbers, "[]" or "[...]" is an example and no mark */
			if (!(p[1] >= 'a' && p[1] <= 'z') || n >= sizeof mark)
				continue;
			snprintf(mark, sizeof mark, "%.*s", (int)n, p);
			tw_suggest(&job, mark, out, sizeof out);
			assert_true(*out && !strchr(out, '['));
			marks++;
		}
		free(all);
	}
	assert_true(marks >= 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(marks_become_names),
		cmocka_unit_test(all_that_fit_are_listed),
		cmocka_unit_test(what_does_not_fit_is_cut),
		cmocka_unit_test(every_mark_of_the_program_is_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
