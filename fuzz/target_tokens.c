/* SPDX-License-Identifier: Apache-2.0 */
/* target_tokens.c - texts and files of tokens, gzipped or not, with a test file or without.
 *
 * Input: choices (32: a test file; 64: tokens, not bytes; 128: of 32 bits), the request for memory
 * that is refused, the length of the file (2 bytes), the file; the rest is the test file. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	struct tw_fuzz_input in = { bytes, n }, first;
	const uint8_t choice = tw_fuzz_byte(&in);
	const char *options[2 * 5 + 1] = { "length", "3", "file", NULL };
	struct tw_fuzz_heap heap;
	size_t k = 4;

	/* gzip makes at most 1040 bytes of one; they are kept with their labels */
	tw_fuzz_heap_init(&heap, tw_fuzz_byte(&in), ((size_t)1 << 20) + n * 1040 * 32);
	first = tw_fuzz_piece(&in);
	options[3] = tw_fuzz_file(0, first.at, first.left);
	if (choice & 32) {
		options[k++] = "test_file";
		options[k++] = tw_fuzz_file(1, in.at, in.left);
	}
	if (choice & 64) {
		options[k++] = "vocabulary";
		options[k++] = "500";
		options[k++] = "bits";
		options[k++] = choice & 128 ? "32" : "16";
	}
	tw_fuzz_data(choice & 64 ? "tokens" : "text", choice, &heap, options);
	return 0;
}
