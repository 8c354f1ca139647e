/* SPDX-License-Identifier: Apache-2.0 */
/* test_piece.c - every range of a vector that was cut at random, against the vector itself. */
#include "base/piece.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define BEFORE 3 /* elements that no piece has */
#define ALL    40

static float vector[ALL], apart[ALL][ALL];
static struct tw_piece piece[ALL];
static size_t pieces;

/* Piece k is copied to a place of its own, so what lies in two pieces never lies together. */
static void cut(uint64_t draw)
{
	const struct tw_rng rng = tw_rng_make(draw, TW_RNG_TEST);
	size_t at = BEFORE;

	for (pieces = 0; at < ALL; pieces++) {
		const size_t most = 1 + tw_rng_u64(&rng, 1, 0) % ALL;
		size_t n = tw_rng_u64(&rng, 2, pieces) % (most + 1); /* some are empty */

		n = n < ALL - at ? n : ALL - at;
		if (pieces == ALL - 1)
			n = ALL - at;
		memcpy(apart[pieces], vector + at, n * sizeof(float));
		piece[pieces] = (struct tw_piece){ apart[pieces], at, n };
		at += n;
	}
}

static bool in_one(size_t from, size_t n)
{
	for (size_t k = 0; k < pieces; k++)
		if (from >= piece[k].from && from + n <= piece[k].from + piece[k].n)
			return true;
	return false;
}

static void every_range_is_found(void **state)
{
	float room[ALL];

	for (size_t i = 0; i < ALL; i++)
		vector[i] = (float)i;
	for (uint64_t draw = 0; draw < 200; draw++) {
		cut(draw);
		for (size_t from = BEFORE; from < ALL; from++)
			for (size_t n = 1; from + n <= ALL; n++) {
				const float *one = tw_piece_of(piece, pieces, from, n);
				const float *at = tw_pieces_at(piece, pieces, from, n, room);

				assert_int_equal(one != NULL, in_one(from, n));
				assert_ptr_equal(at, one ? one : room);
				assert_memory_equal(at, vector + from, n * sizeof *at);
			}
	}
}

static void what_no_piece_has_is_not_found(void **state)
{
	cut(7);
	assert_null(tw_piece_of(piece, pieces, BEFORE - 1, 1));
	assert_null(tw_piece_of(piece, pieces, BEFORE - 1, 5));
	assert_null(tw_piece_of(piece, pieces, ALL - 1, 2));
	assert_null(tw_piece_of(piece, pieces, ALL, 1));
	assert_null(tw_piece_of(piece, 0, 0, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_range_is_found),
		cmocka_unit_test(what_no_piece_has_is_not_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
