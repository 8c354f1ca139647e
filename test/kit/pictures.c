/* SPDX-License-Identifier: Apache-2.0 */
/* pictures.c - see pictures.h. */
#include "kit/pictures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <jpeglib.h>

/* --- PNG -------------------------------------------------------------------------------------- */

static size_t big(uint8_t *out, uint32_t v)
{
	for (int k = 0; k < 4; k++)
		out[k] = (uint8_t)(v >> (24 - 8 * k));
	return 4;
}

static size_t chunk(uint8_t *out, const char *type, const void *bytes, size_t n)
{
	size_t at = big(out, (uint32_t)n);

	memcpy(out + at, type, 4);
	if (n)
		memcpy(out + at + 4, bytes, n);
	return at + 4 + n + big(out + at + 4 + n, (uint32_t)crc32(0, out + 4, (uInt)n + 4));
}

/* Some of the rows and columns: from x0, y0 on in steps. */
static size_t rows(uint8_t *out, const struct kit_png *how, const uint32_t pass[4])
{
	static const uint8_t channels[] = { 1, 0, 3, 1, 2, 0, 4 };
	size_t n = 0;

	for (uint32_t y = pass[1]; y < how->height && pass[0] < how->width; y += pass[3]) {
		unsigned bits = 0, byte = 0;

		out[n++] = 0; /* no filter */
		for (uint32_t x = pass[0]; x < how->width; x += pass[2])
			for (uint32_t c = 0; c < channels[how->type]; c++) {
				const unsigned v = how->value(x, y, c);

				if (how->depth == 16)
					out[n++] = (uint8_t)(v >> 8);
				byte = byte << (how->depth & 15) |
				       (v & ((1u << (how->depth & 15)) - 1));
				bits += how->depth;
				if (how->depth >= 8)
					out[n++] = (uint8_t)v;
				else if (bits % 8 == 0)
					out[n++] = (uint8_t)byte;
			}
		if (how->depth < 8 && bits % 8)
			out[n++] = (uint8_t)(byte << (8 - bits % 8));
	}
	return n;
}

size_t kit_png(uint8_t *out, const struct kit_png *how)
{
	static const uint32_t whole[4] = { 0, 0, 1, 1 };
	static const uint32_t adam[7][4] = { { 0, 0, 8, 8 }, { 4, 0, 8, 8 }, { 0, 4, 4, 8 },
					     { 2, 0, 4, 4 }, { 0, 2, 2, 4 }, { 1, 0, 2, 2 },
					     { 0, 1, 1, 2 } };
	uint8_t *raw = malloc(KIT_PICTURE_MOST), *packed = malloc(KIT_PICTURE_MOST);
	uint8_t head[13];
	uLongf bytes = KIT_PICTURE_MOST;
	size_t n = 0, at = 8;

	memcpy(out, "\x89PNG\r\n\x1a\n", 8);
	big(head, how->width);
	big(head + 4, how->height);
	memcpy(head + 8, (uint8_t[]){ how->depth, how->type, 0, 0, how->interlaced }, 5);
	at += chunk(out + at, "IHDR", head, sizeof head);
	if (how->palette)
		at += chunk(out + at, "PLTE", how->palette, 3 * (size_t)how->entries);
	if (how->transparent)
		at += chunk(out + at, "tRNS", how->transparent, how->transparents);
	if (!how->interlaced)
		n = rows(raw, how, whole);
	for (int k = 0; how->interlaced && k < 7; k++)
		n += rows(raw + n, how, adam[k]);
	if (compress(packed, &bytes, raw, n) != Z_OK)
		abort();
	at += chunk(out + at, "IDAT", packed, bytes);
	at += chunk(out + at, "IEND", NULL, 0);
	free(raw);
	free(packed);
	return at;
}

void kit_png_resize(uint8_t *png, uint32_t width, uint32_t height)
{
	big(png + 16, width);
	big(png + 20, height);
	big(png + 29, (uint32_t)crc32(0, png + 12, 17));
}

static uint8_t plain;

static uint16_t plain_value(uint32_t x, uint32_t y, uint32_t c)
{
	(void)x, (void)y;
	return (uint8_t)(plain + 10 * c);
}

size_t kit_plain_png(uint8_t *out, uint32_t width, uint32_t height, unsigned channels,
		     uint8_t value)
{
	plain = value;
	return kit_png(out, &(struct kit_png){ .width = width,
					       .height = height,
					       .depth = 8,
					       .type = channels == 1 ? 0 : 2,
					       .value = plain_value });
}

/* --- JPEG ------------------------------------------------------------------------------------- */

size_t kit_jpeg(uint8_t *out, const struct kit_jpeg *how)
{
	struct jpeg_compress_struct j;
	struct jpeg_error_mgr errors;
	uint8_t *row = malloc((size_t)how->width * (size_t)how->components), *bytes = NULL;
	unsigned long n = 0;

	j.err = jpeg_std_error(&errors);
	jpeg_create_compress(&j);
	jpeg_mem_dest(&j, &bytes, &n);
	j.image_width = how->width;
	j.image_height = how->height;
	j.input_components = how->components;
	j.in_color_space = how->components == 1   ? JCS_GRAYSCALE
			   : how->components == 3 ? JCS_RGB
						  : JCS_CMYK;
	jpeg_set_defaults(&j);
	jpeg_set_quality(&j, 100, TRUE);
	for (int c = 0; c < j.num_components; c++)
		j.comp_info[c].h_samp_factor = j.comp_info[c].v_samp_factor = 1;
	if (how->progressive)
		jpeg_simple_progression(&j);
	j.arith_code = how->arithmetic;
	jpeg_start_compress(&j, TRUE);
	for (uint32_t y = 0; y < how->height; y++) {
		for (uint32_t x = 0; x < how->width; x++)
			for (int c = 0; c < how->components; c++)
				row[x * (uint32_t)how->components + (uint32_t)c] =
					how->value(x, y, (uint32_t)c);
		jpeg_write_scanlines(&j, &row, 1);
	}
	jpeg_finish_compress(&j);
	jpeg_destroy_compress(&j);
	if (n > KIT_PICTURE_MOST)
		abort();
	memcpy(out, bytes, n);
	free(bytes);
	free(row);
	return n;
}

/* --- tar -------------------------------------------------------------------------------------- */

void kit_tar_sum(uint8_t *header)
{
	unsigned sum = 0;

	memset(header + 148, ' ', 8);
	for (int k = 0; k < 512; k++)
		sum += header[k];
	snprintf((char *)header + 148, 8, "%06o", sum);
}

size_t kit_tar(uint8_t *out, const char *name, char type, const void *bytes, size_t n)
{
	const size_t whole = 512 + (n + 511) / 512 * 512;

	memset(out, 0, whole);
	strncpy((char *)out, name, 99);
	memcpy(out + 100, "0000644", 7);
	snprintf((char *)out + 124, 12, "%011zo", n);
	out[156] = (uint8_t)type;
	memcpy(out + 257, "ustar\00000", 8);
	kit_tar_sum(out);
	memcpy(out + 512, bytes, n);
	return whole;
}

size_t kit_tar_end(uint8_t *out)
{
	memset(out, 0, 1024);
	return 1024;
}
