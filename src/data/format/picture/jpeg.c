/* SPDX-License-Identifier: Apache-2.0 */
/* jpeg.c - pictures of JPEG files, by libjpeg-turbo. */
#include "data/format/picture/picture.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jpeglib.h>
#include <jerror.h>

#define SCANS_MOST 200 /* passes over a progressive picture; encoders make about ten */

struct reading {
	struct jpeg_decompress_struct jpeg;
	struct jpeg_error_mgr errors;
	struct jpeg_progress_mgr progress;
	jmp_buf back;
	char *said;
	bool no_memory;
};

/* Does not return. */
static void fail(j_common_ptr jpeg)
{
	struct reading *r = jpeg->client_data;
	char text[JMSG_LENGTH_MAX];

	jpeg->err->format_message(jpeg, text);
	snprintf(r->said, TW_PICTURE_SAID, "%.79s", text);
	r->no_memory = jpeg->err->msg_code == JERR_OUT_OF_MEMORY;
	longjmp(r->back, 1);
}

/* A warning (level -1) is about pixels that are missing or made up, but for these. */
static void hear(j_common_ptr jpeg, int level)
{
	const int code = jpeg->err->msg_code;

	if (level < 0 && code != JWRN_EXTRANEOUS_DATA && code != JWRN_ADOBE_XFORM &&
	    code != JWRN_JFIF_MAJOR)
		fail(jpeg);
}

static void silent(j_common_ptr jpeg)
{
	(void)jpeg;
}

/* Each scan goes over the whole picture, and a small file can have very many. */
static void count_scans(j_common_ptr jpeg)
{
	struct reading *r = jpeg->client_data;

	if (r->jpeg.input_scan_number <= SCANS_MOST)
		return;
	snprintf(r->said, TW_PICTURE_SAID, "it has more than %d scans", SCANS_MOST);
	longjmp(r->back, 1);
}

/* To call behind setjmp(r->back): what fails jumps there. */
static void open_jpeg(struct reading *r, const uint8_t *bytes, size_t n)
{
	jpeg_create_decompress(&r->jpeg);
	r->progress.progress_monitor = count_scans;
	r->jpeg.progress = &r->progress;
	jpeg_mem_src(&r->jpeg, bytes, n);
	jpeg_read_header(&r->jpeg, TRUE);
}

/* libjpeg-turbo takes memory of its own. */
static void prepare(struct reading *r, char *said)
{
	memset(r, 0, sizeof *r);
	r->said = said;
	r->jpeg.client_data = r;
	r->jpeg.err = jpeg_std_error(&r->errors);
	r->errors.error_exit = fail;
	r->errors.emit_message = hear;
	r->errors.output_message = silent;
}

static enum tw_picture_status failed(struct reading *r)
{
	jpeg_destroy_decompress(&r->jpeg);
	return r->no_memory ? TW_PICTURE_NO_MEMORY : TW_PICTURE_BROKEN;
}

static bool is_cmyk(const struct reading *r)
{
	return r->jpeg.jpeg_color_space == JCS_CMYK || r->jpeg.jpeg_color_space == JCS_YCCK;
}

static enum tw_picture_status look(const uint8_t *bytes, size_t n, struct tw_picture_look *out,
				   char said[TW_PICTURE_SAID])
{
	struct reading r;

	prepare(&r, said);
	if (setjmp(r.back))
		return failed(&r);
	open_jpeg(&r, bytes, n);
	*out = (struct tw_picture_look){
		.width = r.jpeg.image_width,
		.height = r.jpeg.image_height,
		.colour = r.jpeg.jpeg_color_space != JCS_GRAYSCALE,
		.cmyk = is_cmyk(&r),
	};
	jpeg_destroy_decompress(&r.jpeg);
	return TW_PICTURE_GOOD;
}

/* Ink takes light away.  Adobe's programs, which write nearly all such files, store what is
 * left. */
static void from_ink(const uint8_t *ink, uint32_t width, bool left, uint8_t *to)
{
	for (uint32_t x = 0; x < width; x++, ink += 4, to += 3)
		for (int c = 0; c < 3; c++) {
			const unsigned a = left ? ink[c] : 255u - ink[c];
			const unsigned b = left ? ink[3] : 255u - ink[3];

			to[c] = (uint8_t)((a * b + 127) / 255);
		}
}

static void read_rows(struct reading *r, const struct tw_picture *out)
{
	struct jpeg_decompress_struct *j = &r->jpeg;
	const size_t stride = (size_t)out->width * out->channels;
	JSAMPARRAY ink = NULL;

	j->out_color_space = is_cmyk(r) ? JCS_CMYK : out->channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
	jpeg_start_decompress(j);
	if (j->output_width != out->width || j->output_height != out->height)
		ERREXIT(j, JERR_BAD_LENGTH);
	if (is_cmyk(r))
		ink = j->mem->alloc_sarray((j_common_ptr)j, JPOOL_IMAGE, 4 * out->width, 1);
	while (j->output_scanline < j->output_height) {
		uint8_t *to = out->pixel + j->output_scanline * stride;

		jpeg_read_scanlines(j, ink ? ink : &to, 1);
		if (ink)
			from_ink(ink[0], out->width, j->saw_Adobe_marker, to);
	}
	jpeg_finish_decompress(j);
}

static enum tw_picture_status decode(const uint8_t *bytes, size_t n, const struct tw_picture *out,
				     char said[TW_PICTURE_SAID])
{
	struct reading r;

	prepare(&r, said);
	if (setjmp(r.back))
		return failed(&r);
	open_jpeg(&r, bytes, n);
	read_rows(&r, out);
	jpeg_destroy_decompress(&r.jpeg);
	return TW_PICTURE_GOOD;
}

const struct tw_picture_format tw_picture_jpeg = {
	.magic = "\xff\xd8\xff",
	.magic_bytes = 3,
	.look = look,
	.decode = decode,
};
