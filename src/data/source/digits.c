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
	TW_OPTION(struct options, count, TW_U32, "20000", "samples", 10, 100000000,
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

/* One set. */
struct drawn {
	struct tw_supply supply; /* must stay first */
	struct tw_heap *heap;
	struct options options;
	struct tw_rng rng;
	uint64_t set;
	uint32_t count;
};

/* As many of each digit as can be, in random order. */
static enum tw_status draw(struct tw_supply *s, const uint64_t *position, uint32_t n, void *room,
			   struct tw_sample *out, struct tw_error *why)
{
	const struct drawn *w = (const struct drawn *)s;
	uint8_t *value = room;
	uint32_t *label = (uint32_t *)(value + (size_t)n * TW_STROKES_AREA);

	(void)why;
	for (uint32_t k = 0; k < n; k++, value += TW_STROKES_AREA, label++) {
		const uint64_t i = position[k];

		*label = (uint32_t)(tw_rng_permute(&w->rng, w->set, w->count, i) % 10);
		tw_strokes_draw(&w->rng, w->set * SET_STEP + i, *label, w->options.distort,
				w->options.speckle, value);
		out[k] = (struct tw_sample){ .value = value, .label = label };
	}
	return TW_OK;
}

static void let_go(struct tw_supply *s)
{
	struct drawn *w = (struct drawn *)s;

	w->heap->put(w->heap, w);
}

static enum tw_status draw_set(const struct options *o, uint64_t set, uint32_t count,
			       struct tw_data *d, struct tw_samples *s, struct tw_error *why)
{
	struct drawn *w = tw_heap_zeros(d->heap, sizeof *w);

	if (!w)
		return tw_data_keep_no_memory(why, "digits", sizeof *w);
	*w = (struct drawn){
		.supply = { .fill = draw, .close = let_go },
		.heap = d->heap,
		.options = *o,
		.rng = tw_rng_make(o->seed, TW_RNG_PROBLEM),
		.set = set,
		.count = count,
	};
	tw_data_keep_supply(d, &w->supply);
	*s = (struct tw_samples){ .count = count, .supply = &w->supply };
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
