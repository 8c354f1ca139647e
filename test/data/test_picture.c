/* SPDX-License-Identifier: Apache-2.0 */
/* test_picture.c - pixels of PNG and JPEG files of every kind, damaged files, and scaling against
 * plain loops. */
#include "data/format/picture/picture.h"
#include "data/kit.h"
#include "kit/pictures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static uint8_t file[KIT_PICTURE_MOST];

static uint16_t noise(uint32_t x, uint32_t y, uint32_t c)
{
	uint32_t v = x * 73856093u ^ y * 19349663u ^ c * 83492791u;

	v ^= v >> 13;
	return (uint16_t)(v * 0x9E3779B1u >> 16);
}

static unsigned depth;

static uint16_t bits(uint32_t x, uint32_t y, uint32_t c)
{
	return (uint16_t)(noise(x, y, c) & ((1u << depth) - 1));
}

/* What a value becomes with 8 bits: the same share of the largest. */
static uint8_t eight(unsigned v)
{
	return (uint8_t)floor(v * 255.0 / ((1u << depth) - 1) + 0.5);
}

static void reads(size_t n, struct tw_picture *p)
{
	char said[TW_PICTURE_SAID];
	const enum tw_picture_status st = tw_picture_read(&tw_heap_system, file, n, p, said);

	if (st != TW_PICTURE_GOOD)
		fail_msg("%d: %s", st, said);
}

static void png_pixels_are_those_written(void **state)
{
	static const struct {
		uint8_t depth, type, channels;
	} kinds[] = {
		{ 1, 0, 1 },  { 2, 0, 1 }, { 4, 0, 1 },  { 8, 0, 1 }, { 16, 0, 1 }, { 8, 2, 3 },
		{ 16, 2, 3 }, { 8, 4, 1 }, { 16, 4, 1 }, { 8, 6, 3 }, { 16, 6, 3 },
	};

	(void)state;
	for (size_t k = 0; k < 2 * COUNT(kinds); k++) {
		const struct kit_png how = {
			.width = 13,
			.height = 9,
			.depth = kinds[k / 2].depth,
			.type = kinds[k / 2].type,
			.interlaced = k % 2,
			.value = bits,
		};
		struct tw_picture_look l;
		struct tw_picture p;
		char said[TW_PICTURE_SAID];
		size_t n;

		depth = how.depth;
		n = kit_png(file, &how);
		reads(n, &p);
		assert_int_equal(tw_picture_look(file, n, &l, said), TW_PICTURE_GOOD);
		assert_true(l.width == 13 && l.height == 9 && !l.cmyk);
		assert_int_equal(l.deep, how.depth == 16);
		assert_int_equal(l.colour, kinds[k / 2].channels == 3);
		assert_int_equal(l.alpha, how.type >= 4);
		assert_true(p.width == 13 && p.height == 9);
		assert_int_equal(p.channels, kinds[k / 2].channels);
		for (uint32_t i = 0; i < 13 * 9 * p.channels; i++) {
			const uint32_t c = i % p.channels, x = i / p.channels % 13;

			assert_int_equal(p.pixel[i], eight(bits(x, i / p.channels / 13, c)));
		}
		tw_heap_system.put(&tw_heap_system, p.pixel);
	}
}

/* Palettes, and transparency that is no channel. */
static void palettes_become_colours(void **state)
{
	uint8_t palette[3 * 16];
	static const uint8_t depths[] = { 1, 2, 4, 8 };

	(void)state;
	for (size_t k = 0; k < sizeof palette; k++)
		palette[k] = (uint8_t)(k * 37);
	for (size_t k = 0; k < 4 * COUNT(depths); k++) {
		const struct kit_png how = {
			.width = 11,
			.height = 5,
			.depth = depths[k / 4],
			.type = 3,
			.interlaced = k / 2 % 2,
			.palette = palette,
			.entries = depths[k / 4] < 4 ? 1u << depths[k / 4] : 16,
			.transparent = k % 2 ? "\0\x80" : NULL,
			.transparents = 2,
			.value = bits,
		};
		struct tw_picture p;

		depth = how.depth < 4 ? how.depth : 4; /* 16 entries */
		reads(kit_png(file, &how), &p);
		assert_int_equal(p.channels, 3);
		for (uint32_t i = 0; i < 55; i++)
			assert_memory_equal(p.pixel + 3 * i, palette + 3 * bits(i % 11, i / 11, 0),
					    3);
		tw_heap_system.put(&tw_heap_system, p.pixel);
	}
}

static uint16_t seven_but_once(uint32_t x, uint32_t y, uint32_t c)
{
	(void)c;
	return x == 10 && y == 4 ? 8 : 7;
}

/* Numbers up to 15 have room in a pixel, but the palette has less: 9 colours, or one too few. */
static void colours_must_be_in_the_palette(void **state)
{
	uint8_t palette[3 * 9] = { 0 };
	struct kit_png how = { .width = 11, .height = 5, .type = 3, .palette = palette };
	char said[TW_PICTURE_SAID];
	struct tw_picture p;

	(void)state;
	how.value = seven_but_once;
	for (int k = 0; k < 4; k++) {
		how.depth = k % 2 ? 4 : 8;
		how.interlaced = k / 2;
		how.entries = 9;
		reads(kit_png(file, &how), &p);
		tw_heap_system.put(&tw_heap_system, p.pixel);
		how.entries = 8;
		assert_int_equal(
			tw_picture_read(&tw_heap_system, file, kit_png(file, &how), &p, said),
			TW_PICTURE_BROKEN);
		assert_string_equal(said, "a pixel has a colour that its palette lacks");
	}
}

static uint8_t slope(uint32_t x, uint32_t y, uint32_t c)
{
	return (uint8_t)(c == 0 ? 8 * x : c == 1 ? 8 * y : 4 * (x + y));
}

/* With the finest quantisation a smooth picture comes back within rounding. */
static void jpeg_pixels_are_near(void **state)
{
	(void)state;
	for (int k = 0; k < 8; k++) {
		const struct kit_jpeg how = { .width = 29,
					      .height = 23,
					      .components = k % 2 ? 3 : 1,
					      .progressive = k / 2 % 2,
					      .arithmetic = k / 4,
					      .value = slope };
		struct tw_picture p;

		reads(kit_jpeg(file, &how), &p);
		assert_true(p.width == 29 && p.height == 23);
		assert_int_equal(p.channels, how.components);
		for (uint32_t i = 0; i < 29 * 23 * p.channels; i++) {
			const uint32_t pixel = i / p.channels;

			assert_in_range(p.pixel[i] + 3 -
						slope(pixel % 29, pixel / 29, i % p.channels),
					0, 6);
		}
		tw_heap_system.put(&tw_heap_system, p.pixel);
	}
}

static uint8_t ink(uint32_t x, uint32_t y, uint32_t c)
{
	(void)x, (void)y;
	return (uint8_t[]){ 200, 100, 50, 128 }[c];
}

static void ink_becomes_light(void **state)
{
	const struct kit_jpeg how = { .width = 16, .height = 16, .components = 4, .value = ink };
	const size_t n = kit_jpeg(file, &how);
	struct tw_picture_look l;
	struct tw_picture p;
	char said[TW_PICTURE_SAID];
	size_t at = 0;

	(void)state;
	reads(n, &p);
	assert_int_equal(tw_picture_look(file, n, &l, said), TW_PICTURE_GOOD);
	assert_true(l.cmyk && l.colour);
	for (int c = 0; c < 3; c++) /* what cyan leaves of what black leaves, and so on */
		assert_in_range(p.pixel[c] + 2 - ink(0, 0, (uint32_t)c) * 128 / 255, 0, 4);
	tw_heap_system.put(&tw_heap_system, p.pixel);

	/* without Adobe's mark the values are ink: another name in the marker hides it */
	while (memcmp(file + at, "Adobe", 5) != 0)
		at++;
	file[at] = 'a';
	reads(n, &p);
	for (int c = 0; c < 3; c++)
		assert_in_range(p.pixel[c] + 2 - (255 - ink(0, 0, (uint32_t)c)) * 127 / 255, 0, 4);
	tw_heap_system.put(&tw_heap_system, p.pixel);
}

/* Every beginning of a file is refused; a file whose bytes were changed is read or refused. */
static void damaged_files_are_broken(void **state)
{
	static uint8_t whole[KIT_PICTURE_MOST];
	char said[TW_PICTURE_SAID];
	struct tw_picture p;

	(void)state;
	depth = 8;
	for (int k = 0; k < 4; k++) {
		const struct kit_png png = { .width = 9,
					     .height = 7,
					     .depth = 8,
					     .type = 2,
					     .interlaced = k % 2,
					     .value = bits };
		const struct kit_jpeg jpeg = { .width = 19,
					       .height = 17,
					       .components = 3,
					       .progressive = k % 2,
					       .value = slope };
		const size_t n = k < 2 ? kit_png(whole, &png) : kit_jpeg(whole, &jpeg);

		for (size_t cut = 0; cut < n; cut++) {
			const enum tw_picture_status st =
				tw_picture_read(&tw_heap_system, whole, cut, &p, said);

			if (cut == 0)
				assert_int_equal(st, TW_PICTURE_EMPTY);
			else if (cut < (k < 2 ? 8 : 3))
				assert_int_equal(st, TW_PICTURE_FOREIGN);
			else if (st != TW_PICTURE_BROKEN || !said[0])
				fail_msg("%d bytes of %zu of file %d: %d", (int)cut, n, k, st);
		}
		for (size_t i = 0; i < n; i++) {
			memcpy(file, whole, n);
			file[i] ^= 0x55;
			if (tw_picture_read(&tw_heap_system, file, n, &p, said) == TW_PICTURE_GOOD)
				tw_heap_system.put(&tw_heap_system, p.pixel);
		}
	}
}

static enum tw_picture_status of_size(uint32_t width, uint32_t height)
{
	const size_t n = kit_plain_png(file, 8, 8, 1, 0);
	struct tw_picture_look l;
	char said[TW_PICTURE_SAID];

	kit_png_resize(file, width, height);
	return tw_picture_look(file, n, &l, said);
}

static void sizes_are_bounded(void **state)
{
	(void)state;
	assert_int_equal(of_size(100, 100), TW_PICTURE_GOOD);
	assert_int_equal(of_size(65535, 1025), TW_PICTURE_LARGE);
	assert_int_equal(of_size(65536, 1), TW_PICTURE_BROKEN);
	assert_int_equal(of_size(0, 1), TW_PICTURE_BROKEN);
	assert_int_equal(of_size(8000, 8000), TW_PICTURE_BROKEN); /* out of 70 bytes? */
}

/* --- scaling ---------------------------------------------------------------------------------- */

/* The sum over all pixels of the picture, of both triangles at once. */
static double reference(const struct tw_picture *p, uint32_t c, uint32_t height, uint32_t width,
			uint32_t y, uint32_t x)
{
	const double tall = (double)p->height / height, wide = (double)p->width / width;
	const double step = fmin(tall, wide), reach = fmax(step, 1);
	const double cy = (p->height - height * step) / 2 + (y + 0.5) * step;
	const double cx = (p->width - width * step) / 2 + (x + 0.5) * step;
	double sum = 0, all = 0;

	for (uint32_t i = 0; i < p->height; i++)
		for (uint32_t j = 0; j < p->width; j++) {
			const double a = fmax(0, 1 - fabs(i + 0.5 - cy) / reach);
			const double b = fmax(0, 1 - fabs(j + 0.5 - cx) / reach);

			sum += a * b * p->pixel[(i * p->width + j) * p->channels + c];
			all += a * b;
		}
	return sum / all;
}

static void scaling_is_a_plain_sum(void **state)
{
	static const uint32_t sizes[][4] = {
		{ 20, 20, 8, 8 }, { 9, 31, 7, 7 }, { 31, 9, 4, 12 }, { 5, 7, 16, 16 },
		{ 40, 30, 1, 1 }, { 1, 1, 3, 5 },  { 1, 50, 4, 4 },  { 12, 16, 12, 10 },
	};
	uint8_t out[3 * 256];

	(void)state;
	for (size_t k = 0; k < 2 * COUNT(sizes); k++) {
		const uint32_t *s = sizes[k / 2], channels = k % 2 ? 3 : 1;
		struct tw_picture p = { .width = s[1], .height = s[0], .channels = channels };

		p.pixel = malloc((size_t)s[0] * s[1] * channels);
		for (uint32_t i = 0; i < s[0] * s[1] * channels; i++)
			p.pixel[i] = (uint8_t)noise(i, 3, 1);
		assert_int_equal(tw_picture_fit(&tw_heap_system, &p, channels, s[2], s[3], out),
				 TW_PICTURE_GOOD);
		for (uint32_t i = 0; i < s[2] * s[3] * channels; i++) {
			const uint32_t c = i / (s[2] * s[3]), at = i % (s[2] * s[3]);
			const double want = reference(&p, c, s[2], s[3], at / s[3], at % s[3]);

			assert_true(fabs(want - out[i]) <= 0.5 + 1e-9);
		}
		free(p.pixel);
	}
}

static void channels_become_others(void **state)
{
	uint8_t colour[] = { 255, 0, 0, 0, 255, 0, 0, 0, 255, 90, 90, 90 }, grey[] = { 7, 8 };
	struct tw_picture p = { .width = 4, .height = 1, .channels = 3, .pixel = colour };
	uint8_t out[12];

	(void)state;
	assert_int_equal(tw_picture_fit(&tw_heap_system, &p, 3, 1, 4, out), TW_PICTURE_GOOD);
	assert_memory_equal(out, ((uint8_t[]){ 255, 0, 0, 90, 0, 255, 0, 90, 0, 0, 255, 90 }), 12);
	assert_int_equal(tw_picture_fit(&tw_heap_system, &p, 1, 1, 4, out), TW_PICTURE_GOOD);
	assert_memory_equal(out, ((uint8_t[]){ 76, 150, 29, 90 }), 4); /* .299, .587, .114 */
	p = (struct tw_picture){ .width = 2, .height = 1, .channels = 1, .pixel = grey };
	assert_int_equal(tw_picture_fit(&tw_heap_system, &p, 3, 1, 2, out), TW_PICTURE_GOOD);
	assert_memory_equal(out, ((uint8_t[]){ 7, 8, 7, 8, 7, 8 }), 6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(png_pixels_are_those_written),
		cmocka_unit_test(palettes_become_colours),
		cmocka_unit_test(colours_must_be_in_the_palette),
		cmocka_unit_test(jpeg_pixels_are_near),
		cmocka_unit_test(ink_becomes_light),
		cmocka_unit_test(damaged_files_are_broken),
		cmocka_unit_test(sizes_are_bounded),
		cmocka_unit_test(scaling_is_a_plain_sum),
		cmocka_unit_test(channels_become_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
