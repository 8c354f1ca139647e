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
	static const char *const labels[] = { "last", "1", "2", "class" };
	struct tw_fuzz_input in = { bytes, n }, train;
	const uint8_t choice = tw_fuzz_byte(&in), how = tw_fuzz_byte(&in);
	const char *options[2 * 6 + 1] = {
		"header",    headers[how & 3],
		"separator", separators[how >> 2 & 3],
		"label",     labels[how >> 4 & 3],
		"task",      how & 64 ? "values" : "classes",
		"file",      NULL,
	};
	struct tw_fuzz_heap heap;

	tw_fuzz_heap_init(&heap, tw_fuzz_byte(&in), ((size_t)8 << 20) + n * 1040 * 64);
	train = tw_fuzz_piece(&in);
	options[9] = tw_fuzz_file(0, train.at, train.left);
	if (choice & 16) {
		options[10] = "test_file";
		options[11] = tw_fuzz_file(1, in.at, in.left);
	}
	tw_fuzz_data("csv", choice, &heap, options);
	return 0;
}
