/* SPDX-License-Identifier: Apache-2.0 */
/* pictures.h - PNG and JPEG files with known pixels, and tar archives, for tests. */
#ifndef TW_TEST_KIT_PICTURES_H
#define TW_TEST_KIT_PICTURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KIT_PICTURE_MOST 200000 /* bytes of a file */

/* How a PNG file is written: by the standard alone, without libpng. */
struct kit_png {
	uint32_t width, height;
	uint8_t depth, type; /* bits of a value; 0 grey, 2 colour, 3 palette, 4 and 6 with alpha */
	bool interlaced;
	const uint8_t *palette; /* 3 bytes for each entry */
	unsigned entries;
	const char *transparent; /* bytes of tRNS; NULL: none */
	size_t transparents;
	/* Channel c of the pixel at x, y: below 2^depth. */
	uint16_t (*value)(uint32_t x, uint32_t y, uint32_t c);
};
size_t kit_png(uint8_t *out, const struct kit_png *how);
/* Another size in the head of a PNG, with the right checksum. */
void kit_png_resize(uint8_t *png, uint32_t width, uint32_t height);

/* By libjpeg-turbo, with all pixels of the chroma planes.  `components`: 1 grey, 3, or 4 for CMYK
 * as Adobe's programs write it (what is left of the light). */
struct kit_jpeg {
	uint32_t width, height;
	int components;
	bool progressive, arithmetic;
	uint8_t (*value)(uint32_t x, uint32_t y, uint32_t c);
};
size_t kit_jpeg(uint8_t *out, const struct kit_jpeg *how);

/* A small PNG of one colour, grey (channels 1) or red, green and blue. */
size_t kit_plain_png(uint8_t *out, uint32_t width, uint32_t height, unsigned channels,
		     uint8_t value);

/* A file of a tar archive: header, bytes, zeros up to 512.  `type` '0' is a file.  Returns where
 * the next one begins. */
size_t kit_tar(uint8_t *out, const char *name, char type, const void *bytes, size_t n);
/* The sum of a header that was changed. */
void kit_tar_sum(uint8_t *header);
/* Two blocks of zeros. */
size_t kit_tar_end(uint8_t *out);

#endif
