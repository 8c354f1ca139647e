/* SPDX-License-Identifier: Apache-2.0 */
/* target_json_lines.c - tables as lines of JSON, gzipped or not, with and without a test file.
 *
 * Input: choices (2 bytes), the request for memory that is refused, the length of the training file
 * (2 bytes), that file; the rest is the test file. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	static const char *const labels[] = { "last", "1", "[2, 1]", "class" };
	static const char *const tasks[] = { "auto", "classes", "values", "auto" };
	static const char *const missing[] = { "mean", "indicator", "drop", "refuse" };
	struct tw_fuzz_input in = { bytes, n }, train;
	const uint8_t choice = tw_fuzz_byte(&in), how = tw_fuzz_byte(&in);
	const char *options[2 * 7 + 1] = { "label",   labels[how & 3],
					   "task",    tasks[how >> 2 & 3],
					   "missing", missing[how >> 4 & 3],
					   "file",    NULL };
	size_t k = 8;
	struct tw_fuzz_heap heap;

	/* 16 cells of a byte, at most, and what a table needs for each */
	tw_fuzz_heap_init(&heap, tw_fuzz_byte(&in), ((size_t)64 << 20) + n * 1040 * 64 * 16);
	train = tw_fuzz_piece(&in);
	options[7] = tw_fuzz_file(0, train.at, train.left);
	if (choice & 16) {
		options[k++] = "test_file";
		options[k++] = tw_fuzz_file(1, in.at, in.left);
	}
	if (choice & 32) {
		options[k++] = "columns";
		options[k++] = "[a, b.c]";
	} else if (choice & 64) {
		options[k++] = "drop";
		options[k++] = "[a, list]";
	}
	tw_fuzz_data("json-lines", choice, &heap, options);
	return 0;
}
