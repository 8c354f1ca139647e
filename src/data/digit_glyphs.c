/* SPDX-License-Identifier: Apache-2.0 */
/* digit_glyphs.c - the table of styles. */
#include "data/digit_glyphs.h"

#define CURVE(n, ...)                                                                              \
	{                                                                                          \
		.points = n, .smooth = true, .at = { __VA_ARGS__ }                                 \
	}
#define LINES(n, ...)                                                                              \
	{                                                                                          \
		.points = n, .at = { __VA_ARGS__ }                                                 \
	}
#define P(px, py)                                                                                  \
	{                                                                                          \
		px##f, py##f                                                                       \
	}

/* clang-format off */
const struct tw_glyph tw_glyphs[] = {
	/* 0: round; narrow; begun at the right with a small overlap */
	{ .digit = 0, .strokes = 1, .stroke = {
		CURVE(9, P(0.50, 0.08), P(0.29, 0.22), P(0.22, 0.50), P(0.30, 0.80),
			P(0.50, 0.92), P(0.71, 0.79), P(0.78, 0.50), P(0.70, 0.21),
			P(0.50, 0.08)),
	} },
	{ .digit = 0, .strokes = 1, .stroke = {
		CURVE(9, P(0.52, 0.08), P(0.38, 0.22), P(0.33, 0.50), P(0.37, 0.79),
			P(0.49, 0.92), P(0.61, 0.79), P(0.66, 0.50), P(0.62, 0.22),
			P(0.50, 0.09)),
	} },
	{ .digit = 0, .strokes = 1, .stroke = {
		CURVE(10, P(0.62, 0.14), P(0.42, 0.12), P(0.26, 0.32), P(0.24, 0.64),
			P(0.40, 0.90), P(0.62, 0.86), P(0.76, 0.62), P(0.74, 0.32), P(0.58, 0.13),
			P(0.44, 0.18)),
	} },
	/* 1: a bar; with a flag; with flag and foot */
	{ .digit = 1, .strokes = 1, .stroke = {
		LINES(2, P(0.50, 0.08), P(0.50, 0.92)),
	} },
	{ .digit = 1, .strokes = 1, .stroke = {
		LINES(3, P(0.33, 0.30), P(0.53, 0.08), P(0.53, 0.92)),
	} },
	{ .digit = 1, .strokes = 2, .stroke = {
		LINES(3, P(0.36, 0.26), P(0.52, 0.09), P(0.52, 0.90)),
		LINES(2, P(0.30, 0.91), P(0.74, 0.91)),
	} },
	/* 2: with a straight foot; with a loop */
	{ .digit = 2, .strokes = 2, .stroke = {
		CURVE(7, P(0.25, 0.29), P(0.35, 0.13), P(0.55, 0.09), P(0.73, 0.23),
			P(0.67, 0.43), P(0.46, 0.66), P(0.24, 0.90)),
		LINES(2, P(0.24, 0.90), P(0.78, 0.90)),
	} },
	{ .digit = 2, .strokes = 1, .stroke = {
		CURVE(11, P(0.26, 0.24), P(0.42, 0.09), P(0.66, 0.16), P(0.68, 0.38),
			P(0.50, 0.66), P(0.31, 0.88), P(0.20, 0.83), P(0.29, 0.73), P(0.47, 0.83),
			P(0.64, 0.91), P(0.80, 0.84)),
	} },
	{ .digit = 2, .strokes = 1, .stroke = {
		LINES(5, P(0.26, 0.20), P(0.62, 0.10), P(0.70, 0.32), P(0.24, 0.89),
			P(0.76, 0.88)),
	} },
	/* 3: two bows; flat top */
	{ .digit = 3, .strokes = 2, .stroke = {
		CURVE(5, P(0.27, 0.17), P(0.50, 0.08), P(0.71, 0.23), P(0.62, 0.41),
			P(0.43, 0.47)),
		CURVE(5, P(0.43, 0.47), P(0.68, 0.54), P(0.75, 0.73), P(0.55, 0.91),
			P(0.25, 0.83)),
	} },
	{ .digit = 3, .strokes = 2, .stroke = {
		LINES(3, P(0.27, 0.11), P(0.71, 0.11), P(0.46, 0.42)),
		CURVE(5, P(0.46, 0.42), P(0.69, 0.51), P(0.74, 0.71), P(0.55, 0.91),
			P(0.26, 0.84)),
	} },
	/* 4: open; closed; curved arm */
	{ .digit = 4, .strokes = 2, .stroke = {
		LINES(3, P(0.34, 0.10), P(0.23, 0.57), P(0.80, 0.57)),
		LINES(2, P(0.62, 0.28), P(0.60, 0.93)),
	} },
	{ .digit = 4, .strokes = 1, .stroke = {
		LINES(4, P(0.62, 0.93), P(0.62, 0.08), P(0.18, 0.65), P(0.84, 0.65)),
	} },
	{ .digit = 4, .strokes = 2, .stroke = {
		CURVE(5, P(0.28, 0.10), P(0.25, 0.34), P(0.34, 0.50), P(0.54, 0.48),
			P(0.68, 0.34)),
		LINES(2, P(0.72, 0.08), P(0.66, 0.93)),
	} },
	/* 5: with corners; in one sweep */
	{ .digit = 5, .strokes = 2, .stroke = {
		LINES(3, P(0.73, 0.11), P(0.34, 0.11), P(0.30, 0.46)),
		CURVE(6, P(0.30, 0.46), P(0.53, 0.38), P(0.73, 0.51), P(0.73, 0.73),
			P(0.53, 0.91), P(0.25, 0.83)),
	} },
	{ .digit = 5, .strokes = 1, .stroke = {
		CURVE(8, P(0.74, 0.12), P(0.44, 0.12), P(0.33, 0.27), P(0.40, 0.43),
			P(0.64, 0.51), P(0.72, 0.70), P(0.55, 0.91), P(0.27, 0.85)),
	} },
	/* 6: round; straight stem; closed low */
	{ .digit = 6, .strokes = 1, .stroke = {
		CURVE(10, P(0.67, 0.10), P(0.44, 0.24), P(0.29, 0.50), P(0.29, 0.77),
			P(0.48, 0.92), P(0.70, 0.82), P(0.70, 0.62), P(0.52, 0.52), P(0.34, 0.62),
			P(0.29, 0.74)),
	} },
	{ .digit = 6, .strokes = 2, .stroke = {
		LINES(2, P(0.56, 0.07), P(0.29, 0.66)),
		CURVE(7, P(0.29, 0.66), P(0.36, 0.88), P(0.56, 0.92), P(0.72, 0.77),
			P(0.64, 0.58), P(0.44, 0.56), P(0.29, 0.70)),
	} },
	/* 7: plain; with a bar; bent */
	{ .digit = 7, .strokes = 1, .stroke = {
		LINES(3, P(0.21, 0.12), P(0.77, 0.12), P(0.42, 0.92)),
	} },
	{ .digit = 7, .strokes = 2, .stroke = {
		LINES(3, P(0.23, 0.12), P(0.76, 0.12), P(0.43, 0.92)),
		LINES(2, P(0.36, 0.51), P(0.72, 0.51)),
	} },
	{ .digit = 7, .strokes = 2, .stroke = {
		LINES(3, P(0.24, 0.24), P(0.25, 0.12), P(0.77, 0.12)),
		CURVE(4, P(0.77, 0.12), P(0.58, 0.38), P(0.50, 0.64), P(0.48, 0.93)),
	} },
	/* 8: in one line; two rings */
	{ .digit = 8, .strokes = 1, .stroke = {
		CURVE(12, P(0.67, 0.22), P(0.50, 0.08), P(0.32, 0.20), P(0.40, 0.40),
			P(0.62, 0.55), P(0.71, 0.75), P(0.52, 0.92), P(0.30, 0.78), P(0.38, 0.56),
			P(0.60, 0.40), P(0.68, 0.24), P(0.62, 0.13)),
	} },
	{ .digit = 8, .strokes = 2, .stroke = {
		CURVE(7, P(0.50, 0.08), P(0.33, 0.18), P(0.35, 0.39), P(0.52, 0.47),
			P(0.67, 0.36), P(0.66, 0.16), P(0.50, 0.08)),
		CURVE(7, P(0.50, 0.47), P(0.29, 0.60), P(0.31, 0.83), P(0.51, 0.92),
			P(0.71, 0.81), P(0.70, 0.58), P(0.50, 0.47)),
	} },
	/* 9: straight tail; curved tail; bent under */
	{ .digit = 9, .strokes = 2, .stroke = {
		CURVE(7, P(0.69, 0.24), P(0.52, 0.08), P(0.32, 0.19), P(0.31, 0.40),
			P(0.48, 0.50), P(0.66, 0.38), P(0.69, 0.24)),
		LINES(2, P(0.69, 0.14), P(0.64, 0.93)),
	} },
	{ .digit = 9, .strokes = 1, .stroke = {
		CURVE(10, P(0.69, 0.24), P(0.53, 0.08), P(0.33, 0.17), P(0.30, 0.38),
			P(0.46, 0.49), P(0.64, 0.40), P(0.70, 0.22), P(0.70, 0.52), P(0.58, 0.80),
			P(0.37, 0.93)),
	} },
	{ .digit = 9, .strokes = 2, .stroke = {
		CURVE(6, P(0.68, 0.16), P(0.46, 0.09), P(0.30, 0.26), P(0.40, 0.46),
			P(0.60, 0.42), P(0.70, 0.22)),
		CURVE(5, P(0.70, 0.14), P(0.72, 0.50), P(0.66, 0.80), P(0.48, 0.93),
			P(0.28, 0.84)),
	} },
};
/* clang-format on */

const uint32_t tw_glyphs_count = sizeof tw_glyphs / sizeof tw_glyphs[0];
