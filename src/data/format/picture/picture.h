/* SPDX-License-Identifier: Apache-2.0 */
/* picture.h - pictures of PNG and JPEG files as bytes, and cut to one size.
 *
 * The bytes are a stranger's.  No more than TW_PICTURE_MOST pixels are decoded, and no more than a
 * file of that length could hold, so memory is bounded by the file.  A picture that is damaged or
 * cut off is broken; nothing is made up for what it lacks. */
#ifndef TW_DATA_FORMAT_PICTURE_H
#define TW_DATA_FORMAT_PICTURE_H

#include "base/heap.h"

#include <stdbool.h>
#include <stdint.h>

#define TW_PICTURE_MOST (UINT64_C(1) << 26) /* pixels */
#define TW_PICTURE_SIDE 65535u              /* pixels of a side */
#define TW_PICTURE_RATIO                                                                           \
	UINT64_C(8320) /* pixels of one byte: deflate makes 1032 bytes, with 8 pixels each */
#define TW_PICTURE_SAID 80

enum tw_picture_status {
	TW_PICTURE_GOOD,
	TW_PICTURE_EMPTY,   /* no bytes */
	TW_PICTURE_FOREIGN, /* neither PNG nor JPEG */
	TW_PICTURE_BROKEN,
	TW_PICTURE_LARGE, /* more than TW_PICTURE_MOST pixels */
	TW_PICTURE_NO_MEMORY,
};

/* What its head says. */
struct tw_picture_look {
	uint32_t width, height;
	bool colour; /* else it is grey */
	bool deep;   /* 16 bits for a value */
	bool alpha;  /* it has transparent places */
	bool cmyk;   /* colours of a printer */
};

/* Pixels from the left upper corner, row after row; channels of a pixel (grey; or red, green, blue)
 * side by side. */
struct tw_picture {
	uint32_t width, height, channels; /* 1 or 3 */
	uint8_t *pixel;                   /* memory of a heap */
};

/* A decoder: what picture.c knows of a format.  Both write a short reason to `said` where the file
 * is broken. */
struct tw_picture_format {
	const char *magic;
	size_t magic_bytes;
	enum tw_picture_status (*look)(const uint8_t *bytes, size_t n, struct tw_picture_look *out,
				       char said[TW_PICTURE_SAID]);
	/* `out` has room for the picture that `look` announced, with its channels. */
	enum tw_picture_status (*decode)(const uint8_t *bytes, size_t n,
					 const struct tw_picture *out, char said[TW_PICTURE_SAID]);
};
extern const struct tw_picture_format tw_picture_png, tw_picture_jpeg;

/* Do these first bytes, at least 8 of a longer file, begin a PNG or JPEG file? */
bool tw_picture_begins(const uint8_t *bytes, size_t n);
/* Read the head only. */
enum tw_picture_status tw_picture_look(const uint8_t *bytes, size_t n, struct tw_picture_look *out,
				       char said[TW_PICTURE_SAID]);
/* Decode all of it: 16 bits become 8, an alpha channel is left out, and a printer's colours become
 * those of a screen without a profile.  On success out->pixel is the caller's to put back. */
enum tw_picture_status tw_picture_read(struct tw_heap *heap, const uint8_t *bytes, size_t n,
				       struct tw_picture *out, char said[TW_PICTURE_SAID]);
/* Scale it by one factor so that it just covers width x height, cut what stands out, the same on
 * both sides, and write it as planes: channels, height, width.  Scaling is a triangle filter, as
 * wide as a pixel of the coarser side.  Colours become grey by ITU-R 601, and grey becomes three
 * equal planes.  The pixels of `p` may change.  TW_PICTURE_NO_MEMORY or TW_PICTURE_GOOD. */
enum tw_picture_status tw_picture_fit(struct tw_heap *heap, const struct tw_picture *p,
				      uint32_t channels, uint32_t height, uint32_t width,
				      uint8_t *out);

#endif
