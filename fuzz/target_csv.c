/* SPDX-License-Identifier: Apache-2.0 */
/* target_csv.c - tables of separated text, gzipped or not, with and without a test file.
 *
 * Input: choices (2 bytes), the request for memory that is refused, the length of the training file
 * (2 bytes), that file; the rest is the test file. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	static const char *const headers[] = { "auto", "yes", "no", "auto" };
	static const char *const separators[] = { ",", ";", "tab", " " };
	static const char *const labels[] = { "last", "1", "[2, 1]", "class" };
	static const char *const tasks[] = { "auto", "classes", "values", "auto" };
	static const char *const missing[] = { "mean",      "median", "zero",
					       "indicator", "drop",   "refuse" };
	static const char *const holds[] = { "random", "class", "column", "group", "time" };
	struct tw_fuzz_input in = { bytes, n }, train;
	const uint8_t choice = tw_fuzz_byte(&in), how = tw_fuzz_byte(&in);
	const uint8_t more = (uint8_t)(choice * 31 + how * 7 + n); /* of what is rarely wanted */
	const char *options[2 * 11 + 1] = {
		"header",    headers[how & 3],
		"separator", separators[how >> 2 & 3],
		"label",     labels[how >> 4 & 3],
		"task",      tasks[how >> 6],
		"file",      NULL,
		"missing",   missing[more % 6],
		"hold.by",   holds[more / 6 % 5],
	};
	int at = 14;
	struct tw_fuzz_heap heap;

	tw_fuzz_heap_init(&heap, tw_fuzz_byte(&in), ((size_t)8 << 20) + n * 1040 * 64);
	train = tw_fuzz_piece(&in);
	options[9] = tw_fuzz_file(0, train.at, train.left);
	if (more / 6 % 5 >= 2) {
		options[at++] = "hold.column";
		options[at++] = "1";
	}
	if (more & 128) {
		options[at++] = "categories";
		options[at++] = "1";
	}
	if (choice & 32) {
		options[at++] = "weight";
		options[at++] = "2";
	}
	if (choice & 16) {
		options[at++] = "test_file";
		options[at++] = tw_fuzz_file(1, in.at, in.left);
	}
	tw_fuzz_data("csv", choice, &heap, options);
	return 0;
}
