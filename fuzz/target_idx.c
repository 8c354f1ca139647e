/* SPDX-License-Identifier: Apache-2.0 */
/* target_idx.c - IDX files: images and labels, training and test, gzipped or not.
 *
 * Input: choices, the request for memory that is refused, the length of the images (2 bytes), the
 * images; the rest are the labels. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	struct tw_fuzz_input in = { bytes, n }, images;
	const uint8_t choice = tw_fuzz_byte(&in);
	const char *options[2 * 5 + 1] = { "images", NULL, "labels", NULL };
	struct tw_fuzz_heap heap;
	size_t k = 4;

	/* gzip makes at most 1040 bytes of one; they are kept and their label's floats beside */
	tw_fuzz_heap_init(&heap, tw_fuzz_byte(&in), ((size_t)1 << 20) + n * 1040 * 16);
	images = tw_fuzz_piece(&in);
	options[1] = tw_fuzz_file(0, images.at, images.left);
	options[3] = tw_fuzz_file(1, in.at, in.left);
	if (choice & 16) {
		options[k++] = "test_images";
		options[k++] = options[1];
		options[k++] = "test_labels";
		options[k++] = options[3];
	}
	if (choice & 32) {
		options[k++] = "classes";
		options[k++] = "10";
	}
	tw_fuzz_data("idx", choice, &heap, options);
	return 0;
}
