/* SPDX-License-Identifier: Apache-2.0 */
/* digits.c - digits drawn by the program: nothing to fetch, as many as wanted, always the same. */
#include "data/data_memory.h"
#include "data/digit_strokes.h"

struct options {
	uint64_t seed;
	uint32_t count, tests;
	float distort, speckle;
};

static const struct tw_option rows[] = {
	TW_OPTION(struct options, count, TW_U32, "20000", "samples", 10, 10000000,
		  "training samples to draw"),
	TW_OPTION(struct options, tests, TW_U32, "4000", "samples", 1, 10000000,
		  "test samples to draw"),
	TW_OPTION(struct options, seed, TW_U64, "1", NULL, 0, 0,
		  "random seed for drawing the digits"),
	TW_OPTION(struct options, distort, TW_F32, "1", NULL, 0, 2,
		  "how far digits are turned, slanted, stretched, moved and shaken; 0: not at all"),
	TW_OPTION(struct options, speckle, TW_F32, "24", "of 255", 0, 128,
		  "standard deviation of the noise on each pixel"),
	TW_OPTION_END,
};

/* Training and test samples are drawn at counters that are this far apart. */
#define SET_STEP (UINT64_C(1) << 40)

/* As many of each digit as can be, in random order. */
static enum tw_status draw_set(const struct options *o, uint64_t set, uint32_t count,
			       struct tw_data *d, struct tw_samples *s, struct tw_error *why)
{
	const struct tw_rng rng = tw_rng_make(o->seed, TW_RNG_PROBLEM);
	void *value = NULL, *room = NULL;
	enum tw_status st = tw_data_keep_room(d, count, TW_STROKES_AREA, &value, why);
	uint32_t *label;

	if (st == TW_OK)
		st = tw_data_keep_room(d, count, sizeof *label, &room, why);
	if (st != TW_OK)
		return st;
	label = room;
	for (uint64_t i = 0; i < count; i++) {
		label[i] = (uint32_t)(tw_rng_permute(&rng, set, count, i) % 10);
		tw_strokes_draw(&rng, set * SET_STEP + i, label[i], o->distort, o->speckle,
				(uint8_t *)value + i * TW_STROKES_AREA);
	}
	*s = (struct tw_samples){ .count = count, .value = value, .label = label };
	return TW_OK;
}

static enum tw_status draw_all(const void *options, const struct tw_source_site *site,
			       struct tw_data *out, struct tw_error *why)
{
	static const uint64_t shape[] = { 1, TW_STROKES_SIDE, TW_STROKES_SIDE };
	const struct options *o = options;
	enum tw_status st = tw_data_keep_shape(out, "digits", 3, shape, why);

	out->kind = TW_VALUE_U8;
	out->classes = 10;
	out->names.answer = tw_names_digits;
	if (st == TW_OK)
		st = draw_set(o, 0, o->count, out, &out->train, why);
	if (st == TW_OK)
		st = draw_set(o, 1, o->tests, out, &out->test, why);
	if (st != TW_OK)
		tw_data_keep_release(out);
	return st;
}

const struct tw_source tw_source_digits = {
	.name = "digits",
	.help = "digits drawn by the program, 28x28; needs no files",
	.options = rows,
	.options_bytes = sizeof(struct options),
	.drawn = true,
	.sample = (const char *const[]){ "count=40", "tests=10", NULL },
	.open = draw_all,
};
