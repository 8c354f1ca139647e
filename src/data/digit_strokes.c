/* SPDX-License-Identifier: Apache-2.0 */
/* digit_strokes.c - from a glyph to pixels: shaken points, a slanted and turned box, a round pen.
 *
 * Draws: uniform b = 0 chooses the style; gauss elements 0..63 make the geometry, from 64 on one
 * for each pixel. */
#include "data/digit_strokes.h"
#include "data/digit_glyphs.h"

#include <math.h>
#include <string.h>

#define SIDE      TW_STROKES_SIDE
#define GEOMETRY  64
#define PER_CURVE 6 /* segments between two points of a curve */

enum {
	DRAW_TURN,
	DRAW_SHEAR,
	DRAW_WIDE,
	DRAW_HIGH,
	DRAW_X,
	DRAW_Y,
	DRAW_PEN,
	DRAW_INK,
	DRAW_POINTS
};

_Static_assert(DRAW_POINTS + 2 * TW_GLYPH_POINTS * TW_GLYPH_STROKES <= GEOMETRY,
	       "two draws for each point");

struct pen {
	float radius, ink;
	float xx, xy, yx, yy, x, y; /* the affine map from the unit box to pixels */
	float cover[TW_STROKES_AREA];
};

static float clamp(float v, float low, float high)
{
	return v < low ? low : v > high ? high : v;
}

/* Within two deviations, so that no digit leaves the picture. */
static float mild(const float *g, int which, float distort)
{
	return clamp(g[which], -2, 2) * distort;
}

static void hold_pen(struct pen *pen, const float *g, float distort)
{
	const float turn = clamp(mild(g, DRAW_TURN, distort) * 0.17f, -1, 1), t = turn * turn;
	const float sine = turn * (1 - t / 6 * (1 - t / 20)), cosine = 1 - t / 2 * (1 - t / 12);
	const float shear = mild(g, DRAW_SHEAR, distort) * 0.16f;
	const float wide = 19 * clamp(1 + mild(g, DRAW_WIDE, distort) * 0.14f, 0.3f, 1.7f);
	const float high = 20 * clamp(1 + mild(g, DRAW_HIGH, distort) * 0.10f, 0.3f, 1.7f);

	pen->radius = clamp(1.15f + mild(g, DRAW_PEN, distort) * 0.30f, 0.45f, 3);
	pen->ink = clamp(225 + mild(g, DRAW_INK, distort) * 18, 120, 255);
	pen->xx = cosine * wide;
	pen->xy = (cosine * shear - sine) * high;
	pen->yx = sine * wide;
	pen->yy = (sine * shear + cosine) * high;
	pen->x = (SIDE - 1) * 0.5f + mild(g, DRAW_X, distort) * 1.3f;
	pen->y = (SIDE - 1) * 0.5f + mild(g, DRAW_Y, distort) * 1.3f;
}

static struct tw_glyph_point map(const struct pen *pen, struct tw_glyph_point p)
{
	const float x = p.x - 0.5f, y = p.y - 0.5f;

	return (struct tw_glyph_point){ pen->xx * x + pen->xy * y + pen->x,
					pen->yx * x + pen->yy * y + pen->y };
}

static int pixel(float v)
{
	return (int)clamp(v, 0, SIDE - 1);
}

/* Every pixel near the segment is covered as far as the pen reaches it. */
static void draw_segment(struct pen *pen, struct tw_glyph_point a, struct tw_glyph_point b)
{
	const float reach = pen->radius + 0.5f, dx = b.x - a.x, dy = b.y - a.y;
	const float square = dx * dx + dy * dy, inverse = square > 1e-12f ? 1 / square : 0;
	const int left = pixel((a.x < b.x ? a.x : b.x) - reach);
	const int right = pixel((a.x > b.x ? a.x : b.x) + reach + 1);
	const int top = pixel((a.y < b.y ? a.y : b.y) - reach);
	const int bottom = pixel((a.y > b.y ? a.y : b.y) + reach + 1);

	for (int y = top; y <= bottom; y++)
		for (int x = left; x <= right; x++) {
			const float px = (float)x - a.x, py = (float)y - a.y;
			const float along = clamp((px * dx + py * dy) * inverse, 0, 1);
			const float ox = px - along * dx, oy = py - along * dy;
			const float cover = clamp(reach - sqrtf(ox * ox + oy * oy), 0, 1);
			float *at = &pen->cover[y * SIDE + x];

			*at = cover > *at ? cover : *at;
		}
}

/* Catmull and Rom's curve between b and c, whose neighbours are a and d. */
static struct tw_glyph_point between(struct tw_glyph_point a, struct tw_glyph_point b,
				     struct tw_glyph_point c, struct tw_glyph_point d, float t)
{
	const float t2 = t * t, t3 = t2 * t;
	const float wa = (2 * t2 - t - t3) * 0.5f, wb = (2 - 5 * t2 + 3 * t3) * 0.5f;
	const float wc = (t + 4 * t2 - 3 * t3) * 0.5f, wd = (t3 - t2) * 0.5f;

	return (struct tw_glyph_point){ wa * a.x + wb * b.x + wc * c.x + wd * d.x,
					wa * a.y + wb * b.y + wc * c.y + wd * d.y };
}

static void draw_stroke(struct pen *pen, const struct tw_glyph_point *p, uint32_t n, bool smooth)
{
	for (uint32_t k = 0; k + 1 < n; k++) {
		struct tw_glyph_point last = p[k];

		for (int i = 1; smooth && i < PER_CURVE; i++) {
			const struct tw_glyph_point next =
				between(p[k ? k - 1 : 0], p[k], p[k + 1],
					p[k + 2 < n ? k + 2 : k + 1], (float)i / PER_CURVE);

			draw_segment(pen, last, next);
			last = next;
		}
		draw_segment(pen, last, p[k + 1]);
	}
}

static void draw_glyph(struct pen *pen, const struct tw_glyph *glyph, const float *shake,
		       float distort)
{
	for (uint32_t s = 0; s < glyph->strokes; s++) {
		const struct tw_stroke *stroke = &glyph->stroke[s];
		struct tw_glyph_point p[TW_GLYPH_POINTS];

		for (uint32_t k = 0; k < stroke->points; k++) {
			const float *by = shake + 2 * (s * TW_GLYPH_POINTS + k);

			p[k].x = stroke->at[k].x + clamp(by[0], -2, 2) * 0.028f * distort;
			p[k].y = stroke->at[k].y + clamp(by[1], -2, 2) * 0.028f * distort;
			p[k] = map(pen, p[k]);
		}
		draw_stroke(pen, p, stroke->points, stroke->smooth);
	}
}

/* One of the digit's styles. */
static const struct tw_glyph *choose(uint32_t digit, uint64_t draw)
{
	uint32_t first = 0, count = 0;

	while (tw_glyphs[first].digit != digit)
		first++;
	while (first + count < tw_glyphs_count && tw_glyphs[first + count].digit == digit)
		count++;
	return &tw_glyphs[first + (uint32_t)((draw >> 32) * count >> 32)];
}

void tw_strokes_draw(const struct tw_rng *rng, uint64_t a, uint32_t digit, float distort,
		     float speckle, uint8_t out[TW_STROKES_AREA])
{
	float g[GEOMETRY + TW_STROKES_AREA];
	struct pen pen;

	tw_rng_gauss_fill(rng, a, 0, g, GEOMETRY + TW_STROKES_AREA);
	memset(pen.cover, 0, sizeof pen.cover);
	hold_pen(&pen, g, distort);
	draw_glyph(&pen, choose(digit, tw_rng_u64(rng, a, 0)), g + DRAW_POINTS, distort);
	for (int i = 0; i < TW_STROKES_AREA; i++)
		out[i] = (uint8_t)(clamp(pen.cover[i] * pen.ink + g[GEOMETRY + i] * speckle, 0,
					 255) +
				   0.5f);
}
