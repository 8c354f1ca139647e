/* SPDX-License-Identifier: Apache-2.0 */
/* digit_glyphs.h - how people write digits: a few styles of each, as points that a pen passes.
 *
 * A unit box, y downwards.  A smooth stroke is a curve through its points, another has corners at
 * them. */
#ifndef TW_DATA_DIGIT_GLYPHS_H
#define TW_DATA_DIGIT_GLYPHS_H

#include <stdbool.h>
#include <stdint.h>

#define TW_GLYPH_POINTS  12
#define TW_GLYPH_STROKES 2

struct tw_glyph_point {
	float x, y;
};

struct tw_stroke {
	uint32_t points;
	bool smooth;
	struct tw_glyph_point at[TW_GLYPH_POINTS];
};

struct tw_glyph {
	uint32_t digit, strokes;
	struct tw_stroke stroke[TW_GLYPH_STROKES];
};

extern const struct tw_glyph tw_glyphs[]; /* in order of digit */
extern const uint32_t tw_glyphs_count;

#endif
