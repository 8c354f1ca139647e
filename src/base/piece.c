/* SPDX-License-Identifier: Apache-2.0 */
/* piece.c - finding elements of a vector that lies in pieces.
 *
 *  (1) whoever asks for elements to be copied has a piece with each of them. */
#include "base/piece.h"

#include "base/status.h"

#include <string.h>

static size_t end_of(const struct tw_piece *p)
{
	return p->from + p->n;
}

/* The first piece that ends behind `from`. */
static size_t find(const struct tw_piece *piece, size_t pieces, size_t from)
{
	size_t low = 0, high = pieces;

	while (low < high) {
		const size_t mid = low + (high - low) / 2;

		if (end_of(&piece[mid]) <= from)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static const float *within(const struct tw_piece *p, size_t from, size_t n)
{
	return p->from <= from && end_of(p) >= from + n ? p->at + (from - p->from) : NULL;
}

const float *tw_piece_of(const struct tw_piece *piece, size_t pieces, size_t from, size_t n)
{
	const size_t k = find(piece, pieces, from);

	return k < pieces ? within(&piece[k], from, n) : NULL;
}

const float *tw_pieces_at(const struct tw_piece *piece, size_t pieces, size_t from, size_t n,
			  float *room)
{
	size_t k = find(piece, pieces, from);
	const float *whole = k < pieces ? within(&piece[k], from, n) : NULL;

	if (whole)
		return whole;
	for (size_t done = 0; done < n; k++) {
		size_t some;

		HOLDS(1, k < pieces && piece[k].from <= from + done);
		some = end_of(&piece[k]) - (from + done);
		some = some < n - done ? some : n - done;
		memcpy(room + done, piece[k].at + (from + done - piece[k].from),
		       some * sizeof *room);
		done += some;
	}
	return room;
}
