/* SPDX-License-Identifier: Apache-2.0 */
/* target_tar.c - tar files of images and their classes.
 *
 * Input: choices, the request for memory that is refused; the rest is the archive. */
#include "fuzz.h"

#include "kit/pictures.h"

#include <stdlib.h>
#include <string.h>

/* A header with a wrong sum ends the reading: give each block that could be one the right sum. */
static void right_sums(uint8_t *tar, size_t n)
{
	for (size_t at = 0; at + 512 <= n; at += 512)
		if (memcmp(tar + at + 257, "ustar", 5) == 0)
			kit_tar_sum(tar + at);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	struct tw_fuzz_input in = { bytes, n };
	const uint8_t choice = tw_fuzz_byte(&in), refuse = tw_fuzz_byte(&in);
	const char *options[2 * 5 + 1] = { "file", NULL, "size", choice & 16 ? "9x5" : "8x8" };
	uint8_t *tar = malloc(in.left + 1);
	struct tw_fuzz_heap heap;
	size_t k = 4;

	memcpy(tar, in.at, in.left);
	if (choice & 64)
		right_sums(tar, in.left);
	/* pictures come and go: what is held at once is far less */
	tw_fuzz_heap_init(&heap, refuse, ((size_t)8 << 20) + n * 1040 * 8320 * 6);
	options[1] = tw_fuzz_file(0, tar, in.left);
	options[k++] = "unreadable";
	options[k++] = choice & 32 ? "skip" : "refuse";
	if (choice & 128) {
		options[k++] = "test_file";
		options[k++] = options[1];
	}
	tw_fuzz_data("tar", choice, &heap, options);
	free(tar);
	return 0;
}
