/* SPDX-License-Identifier: Apache-2.0 */
/* digit_strokes.h - digits as strokes of a pen, distorted at random and drawn into 28x28 bytes. */
#ifndef TW_DATA_DIGIT_STROKES_H
#define TW_DATA_DIGIT_STROKES_H

#include "base/rng.h"

#define TW_STROKES_SIDE 28
#define TW_STROKES_AREA (TW_STROKES_SIDE * TW_STROKES_SIDE)

/* Draw `digit` (0 to 9) as sample `a` of the stream: style, distortion and noise come from it and
 * from nothing else.  `distort` scales all distortions (1 is usual); `speckle` is the deviation of
 * the noise on each pixel, of 255.  Only + - * / and sqrt: the same bytes on every machine. */
void tw_strokes_draw(const struct tw_rng *rng, uint64_t a, uint32_t digit, float distort,
		     float speckle, uint8_t out[TW_STROKES_AREA]);

#endif
