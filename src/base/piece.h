/* SPDX-License-Identifier: Apache-2.0 */
/* piece.h - a vector whose parts lie in several places. */
#ifndef TW_BASE_PIECE_H
#define TW_BASE_PIECE_H

#include <stddef.h>

/* Elements from..from+n of the vector.  Pieces are in order and do not overlap. */
struct tw_piece {
	const float *at;
	size_t from, n;
};

/* Where elements from..from+n lie, if one piece has them all; else NULL. */
const float *tw_piece_of(const struct tw_piece *piece, size_t pieces, size_t from, size_t n);
/* The same; where several pieces have them, they are copied to `room`.  HOLDS that they are there.
 * Takes log(pieces) steps, and one for each piece that it copies from. */
const float *tw_pieces_at(const struct tw_piece *piece, size_t pieces, size_t from, size_t n,
			  float *room);

#endif
