/* SPDX-License-Identifier: Apache-2.0 */
/* target_picture.c - one PNG or JPEG file, decoded and cut to a size.
 *
 * Input: choices, the request for memory that is refused, height and width of the target (a byte
 * each); the rest is the file. */
#include "fuzz.h"

#include "data/format/picture/picture.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static uint32_t big(const uint8_t *at)
{
	return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* Chunks that were changed would only be skipped: give each the checksum that it has. */
static void right_sums(uint8_t *png, size_t n)
{
	for (size_t at = 8; at + 12 <= n;) {
		const uint32_t bytes = big(png + at);
		uint32_t sum;

		if (bytes > n - at - 12)
			return;
		sum = (uint32_t)crc32(0, png + at + 4, bytes + 4);
		for (int k = 0; k < 4; k++)
			png[at + 8 + bytes + k] = (uint8_t)(sum >> (24 - 8 * k));
		at += 12 + (size_t)bytes;
	}
}

static void fit(struct tw_fuzz_heap *heap, const struct tw_picture *p, uint8_t choice, uint32_t h,
		uint32_t w)
{
	const uint32_t channels = choice & 2 ? 1 : 3;
	uint8_t *out = malloc((size_t)channels * h * w);

	MUST(out);
	MUST(tw_picture_fit(&heap->heap, p, channels, h, w, out) == TW_PICTURE_GOOD ||
	     heap->refuse);
	free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	struct tw_fuzz_input in = { bytes, n };
	const uint8_t choice = tw_fuzz_byte(&in), refuse = tw_fuzz_byte(&in);
	const uint32_t h = tw_fuzz_byte(&in) % 64u + 1, w = tw_fuzz_byte(&in) % 64u + 1;
	uint8_t *file = malloc(in.left + 1);
	struct tw_picture_look l;
	struct tw_picture p;
	struct tw_fuzz_heap heap;
	char said[TW_PICTURE_SAID];
	enum tw_picture_status st;

	MUST(file);
	memcpy(file, in.at, in.left);
	if (choice & 1)
		right_sums(file, in.left);
	tw_fuzz_heap_init(&heap, refuse, ((size_t)4 << 20) + in.left * TW_PICTURE_RATIO * 3);
	st = tw_picture_read(&heap.heap, file, in.left, &p, said);
	MUST(strlen(said) < TW_PICTURE_SAID);
	MUST(st != TW_PICTURE_NO_MEMORY || heap.refuse);
	if (st == TW_PICTURE_GOOD) {
		MUST(tw_picture_look(file, in.left, &l, said) == TW_PICTURE_GOOD);
		MUST(l.width == p.width && l.height == p.height);
		MUST(p.channels == (l.colour ? 3 : 1));
		fit(&heap, &p, choice, h, w);
		heap.heap.put(&heap.heap, p.pixel);
	}
	MUST(heap.live == 0);
	free(file);
	return 0;
}
