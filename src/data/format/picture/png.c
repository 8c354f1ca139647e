/* SPDX-License-Identifier: Apache-2.0 */
/* png.c - pictures of PNG files, by libpng. */
#include "data/format/picture/picture.h"

#include <png.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#define CHUNK_MOST (1u << 20) /* bytes of a chunk that is no picture, inflated */

struct reading {
	const uint8_t *at;
	size_t left;
	char *said;
	png_structp png;
	png_infop info;
};

/* Does not return: libpng jumps to where the reading began. */
static void fail(png_structp png, png_const_charp text)
{
	struct reading *r = png_get_error_ptr(png);

	snprintf(r->said, TW_PICTURE_SAID, "%s", text);
	png_longjmp(png, 1);
}

static void ignore(png_structp png, png_const_charp text)
{
	(void)png, (void)text;
}

static void next_bytes(png_structp png, png_bytep to, png_size_t n)
{
	struct reading *r = png_get_io_ptr(png);

	if (n > r->left)
		png_error(png, "it ends too early");
	memcpy(to, r->at, n);
	r->at += n;
	r->left -= n;
}

/* libpng takes memory of its own. */
static bool open_png(struct reading *r, const uint8_t *bytes, size_t n, char *said)
{
	*r = (struct reading){ .at = bytes, .left = n, .said = said };
	r->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, r, fail, ignore);
	r->info = r->png ? png_create_info_struct(r->png) : NULL;
	if (!r->info) {
		png_destroy_read_struct(&r->png, NULL, NULL);
		return false;
	}
	png_set_read_fn(r->png, r, next_bytes);
	png_set_user_limits(r->png, TW_PICTURE_SIDE, TW_PICTURE_SIDE);
	png_set_chunk_malloc_max(r->png, CHUNK_MOST);
	return true;
}

static void describe(const struct reading *r, struct tw_picture_look *out)
{
	const uint8_t type = png_get_color_type(r->png, r->info);

	*out = (struct tw_picture_look){
		.width = png_get_image_width(r->png, r->info),
		.height = png_get_image_height(r->png, r->info),
		.colour = type & PNG_COLOR_MASK_COLOR,
		.deep = png_get_bit_depth(r->png, r->info) == 16,
		.alpha = type & PNG_COLOR_MASK_ALPHA ||
			 png_get_valid(r->png, r->info, PNG_INFO_tRNS),
	};
}

static enum tw_picture_status look(const uint8_t *bytes, size_t n, struct tw_picture_look *out,
				   char said[TW_PICTURE_SAID])
{
	struct reading r;

	if (!open_png(&r, bytes, n, said))
		return TW_PICTURE_NO_MEMORY;
	if (setjmp(png_jmpbuf(r.png))) {
		png_destroy_read_struct(&r.png, &r.info, NULL);
		return TW_PICTURE_BROKEN;
	}
	png_read_info(r.png, r.info);
	describe(&r, out);
	png_destroy_read_struct(&r.png, &r.info, NULL);
	return TW_PICTURE_GOOD;
}

static bool has_palette(const struct reading *r)
{
	return png_get_color_type(r->png, r->info) == PNG_COLOR_TYPE_PALETTE;
}

/* 8 bits for each value; grey or red, green and blue, or a number of the palette; nothing else. */
static void plain(struct reading *r)
{
	if (has_palette(r)) {
		png_set_packing(r->png);
		return;
	}
	png_set_expand(r->png);
	png_set_scale_16(r->png);
	png_set_strip_alpha(r->png);
}

/* Numbers, which end where their row does, become colours.  libpng would take black for a number
 * that the palette lacks, and say nothing. */
static void take_colours(struct reading *r, const struct tw_picture *out)
{
	png_colorp colour = NULL;
	int colours = 0;
	uint8_t *to = out->pixel;

	png_get_PLTE(r->png, r->info, &colour, &colours);
	for (uint32_t y = 0; y < out->height; y++) {
		const uint8_t *number = to + (size_t)2 * out->width;

		for (uint32_t x = 0; x < out->width; x++, to += 3) {
			const int v = number[x];

			if (v >= colours)
				png_error(r->png, "a pixel has a colour that its palette lacks");
			to[0] = colour[v].red;
			to[1] = colour[v].green;
			to[2] = colour[v].blue;
		}
	}
}

static void read_rows(struct reading *r, const struct tw_picture *out)
{
	const size_t stride = (size_t)out->width * out->channels;
	const bool palette = has_palette(r);
	const size_t bytes = palette ? out->width : stride;
	const int passes = png_set_interlace_handling(r->png);

	png_read_update_info(r->png, r->info);
	if (png_get_rowbytes(r->png, r->info) != bytes || (palette && out->channels != 3) ||
	    png_get_image_height(r->png, r->info) != out->height)
		png_error(r->png, "its rows are not as its head says");
	for (int pass = 0; pass < passes; pass++)
		for (uint32_t y = 0; y < out->height; y++)
			png_read_row(r->png, out->pixel + (y + 1) * stride - bytes, NULL);
	if (palette)
		take_colours(r, out);
	png_read_end(r->png, NULL);
}

static enum tw_picture_status decode(const uint8_t *bytes, size_t n, const struct tw_picture *out,
				     char said[TW_PICTURE_SAID])
{
	struct reading r;

	if (!open_png(&r, bytes, n, said))
		return TW_PICTURE_NO_MEMORY;
	if (setjmp(png_jmpbuf(r.png))) {
		png_destroy_read_struct(&r.png, &r.info, NULL);
		return TW_PICTURE_BROKEN;
	}
	png_read_info(r.png, r.info);
	plain(&r);
	read_rows(&r, out);
	png_destroy_read_struct(&r.png, &r.info, NULL);
	return TW_PICTURE_GOOD;
}

const struct tw_picture_format tw_picture_png = {
	.magic = "\x89PNG\r\n\x1a\n",
	.magic_bytes = 8,
	.look = look,
	.decode = decode,
};
