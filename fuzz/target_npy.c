/* SPDX-License-Identifier: Apache-2.0 */
/* target_npy.c - NumPy arrays: samples and labels or values, training and test.
 *
 * Input: choices, the request for memory that is refused, the length of the samples' file (2
 * bytes), that file; the rest is the labels' file. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	struct tw_fuzz_input in = { bytes, n }, x;
	const uint8_t choice = tw_fuzz_byte(&in);
	const char *options[2 * 5 + 1] = { "x", NULL, "y", NULL };
	struct tw_fuzz_heap heap;
	size_t k = 4;

	tw_fuzz_heap_init(&heap, tw_fuzz_byte(&in), ((size_t)1 << 20) + n * 1040 * 16);
	x = tw_fuzz_piece(&in);
	options[1] = tw_fuzz_file(0, x.at, x.left);
	options[3] = tw_fuzz_file(1, in.at, in.left);
	if (choice & 16) {
		options[k++] = "test_x";
		options[k++] = options[1];
		options[k++] = "test_y";
		options[k++] = options[3];
	}
	if (choice & 32) {
		options[k++] = "classes";
		options[k++] = "10";
	}
	tw_fuzz_data("npy", choice, &heap, options);
	return 0;
}
