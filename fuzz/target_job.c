/* SPDX-License-Identifier: Apache-2.0 */
/* target_job.c - job files: refused with a sentence, or read and explained to a text that reads the
 * same again.
 *
 * Input: the world; the text up to a zero byte; then texts of --set, a zero byte after each. */
#include "fuzz.h"
#include "spec/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SETS_MOST 8

static char *explained(const struct tw_job *job, size_t *n)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, n);

	MUST(out);
	tw_job_explain(job, out);
	MUST(fclose(out) == 0 && text);
	return text;
}

static void same_again(const struct tw_job *job, enum tw_world_kind world)
{
	struct tw_error why = { 0 };
	struct tw_job *other = NULL;
	size_t n = 0, m = 0;
	char *once = explained(job, &n), *twice;

	if (tw_job_read_text("explained", once, n, NULL, 0, NULL, world, &other, &why) != TW_OK) {
		fprintf(stderr, "%s\n%s\n", once, why.text);
		tw_fuzz_broken(__FILE__, __LINE__, "what was explained can be read");
	}
	twice = explained(other, &m);
	if (n != m || memcmp(once, twice, n)) {
		fprintf(stderr, "%s\n--- and then ---\n%s\n", once, twice);
		tw_fuzz_broken(__FILE__, __LINE__, "it is explained the same again");
	}
	tw_job_free(other);
	free(once);
	free(twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	static const enum tw_world_kind worlds[] = { TW_WORLD_SIM, TW_WORLD_THREADS, TW_WORLD_TCP };
	struct tw_fuzz_input in = { bytes, n };
	const enum tw_world_kind world = worlds[tw_fuzz_byte(&in) % 3];
	char *text = malloc(in.left + 1);
	const char *set[SETS_MOST];
	size_t sets = 0, length, at;
	struct tw_error why = { 0 };
	struct tw_job *job = NULL;
	enum tw_status st;

	MUST(text);
	if (in.left)
		memcpy(text, in.at, in.left);
	text[in.left] = '\0';
	length = strlen(text);
	for (at = length + 1; at < in.left && sets < SETS_MOST; at += strlen(text + at) + 1)
		set[sets++] = text + at;
	st = tw_job_read_text("fuzz.yaml", text, length, set, sets, NULL, world, &job, &why);
	if (st == TW_OK) {
		same_again(job, world);
		tw_job_free(job);
	} else {
		MUST(job == NULL);
		tw_fuzz_told(st, &why, false);
	}
	free(text);
	return 0;
}
