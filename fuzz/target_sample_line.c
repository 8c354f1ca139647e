/* SPDX-License-Identifier: Apache-2.0 */
/* target_sample_line.c - lines of a stream: the first shows what a sample is, the others are read.
 *
 * Input: a byte of choices, then lines. */
#include "fuzz.h"

#include "data/format/sample_line.h"

#include <stdlib.h>
#include <string.h>

static void read_lines(const struct tw_line_format *f, char *at, char *end)
{
	float *value = calloc(f->features, sizeof *value);
	uint64_t number = 1;

	while (value && at < end) {
		char *next = memchr(at, '\n', (size_t)(end - at));
		struct tw_error why = { 0 };
		float target = 0;
		uint32_t label = 0;
		enum tw_status st;

		if (!next)
			next = end;
		st = tw_line_read(f, ++number, at, (size_t)(next - at), value, &label, &target,
				  &why);
		if ((st == TW_OK) == (why.text[0] != 0) ||
		    (st == TW_OK && f->wishes.classes && label >= f->wishes.classes))
			abort();
		at = next + (next < end);
	}
	free(value);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	static const char *const labels[] = { "last", "first", "2", "y" };
	const uint8_t choice = n ? bytes[0] : 0;
	const struct tw_line_wishes w = { "feed", labels[choice & 3], choice & 4 ? "[a, b]" : "all",
					  choice & 8 ? ';' : ',', choice & 16 ? 3 : 0 };
	char *text = malloc(n + 1), *end;
	struct tw_line_format f;
	struct tw_error why = { 0 };
	struct tw_arena names;

	if (!text || n < 2) {
		free(text);
		return 0;
	}
	memcpy(text, bytes + 1, n - 1);
	end = memchr(text, '\n', n - 1);
	if (!end)
		end = text + n - 1;
	tw_arena_init(&names, &tw_heap_system);
	if (tw_line_learn(&w, text, (size_t)(end - text), &names, &f, &why) == TW_OK)
		read_lines(&f, end + (end < text + n - 1), text + n - 1);
	tw_arena_release(&names);
	free(text);
	return 0;
}
