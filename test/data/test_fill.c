/* SPDX-License-Identifier: Apache-2.0 */
/* test_fill.c - batches against plain loops, and augmentation that depends on the position only. */
#include "data/kit.h"
#include "base/machine/isa.h"

#include <math.h>
#include <string.h>

#define COUNT  23
#define PIXELS (3 * 7 * 9)

static uint8_t bytes[COUNT * PIXELS];
static float floats[COUNT * PIXELS], targets[COUNT * 3], scale[PIXELS], shift[PIXELS];
static uint32_t labels[COUNT];

/* Images of 3 channels of 7x9, as bytes or floats, with labels or targets. */
static struct tw_data made(enum tw_value kind, uint32_t answers)
{
	struct tw_data d = {
		.rank = 3,
		.shape = { 3, 7, 9 },
		.features = PIXELS,
		.kind = kind,
		.classes = answers ? 0 : 5,
		.targets = answers,
		.scale = scale,
		.shift = shift,
		.train = { .count = COUNT,
			   .value = kind == TW_VALUE_U8 ? (void *)bytes : (void *)floats,
			   .label = labels,
			   .target = targets },
	};

	return d;
}

static int setup(void **state)
{
	const struct tw_rng r = tw_rng_make(5, TW_RNG_TEST);

	for (int i = 0; i < COUNT * PIXELS; i++) {
		bytes[i] = (uint8_t)tw_rng_u64(&r, 0, (uint64_t)i);
		floats[i] = (float)tw_rng_gauss(&r, 1, (uint64_t)i);
	}
	for (int i = 0; i < PIXELS; i++) {
		scale[i] = 0.5f + (float)i / 64;
		shift[i] = (float)(i % 13) - 6;
	}
	for (int i = 0; i < COUNT; i++)
		labels[i] = (uint32_t)i % 5;
	for (int i = 0; i < COUNT * 3; i++)
		targets[i] = (float)i / 7;
	return 0;
}

static float raw_of(const struct tw_data *d, uint64_t sample, size_t feature)
{
	return d->kind == TW_VALUE_U8 ? (float)bytes[sample * PIXELS + feature]
				      : floats[sample * PIXELS + feature];
}

static void plain_batches(void **state)
{
	const uint64_t index[] = { 3, 0, 22, 3, 11 };

	for (int kind = 0; kind < 2; kind++)
		for (uint32_t answers = 0; answers <= 3; answers += 3) {
			struct tw_data d = made((enum tw_value)kind, answers);
			const struct tw_batch b = { .set = &d.train, .index = index, .count = 5 };
			float x[5 * PIXELS], target[15];
			uint32_t label[5];

			tw_data_fill(&d, &b, NULL, 0, x, answers ? NULL : label,
				     answers ? target : NULL);
			for (int k = 0; k < 5; k++)
				for (int f = 0; f < PIXELS; f++) {
					const float v = raw_of(&d, index[k], (size_t)f) * scale[f];

					assert_true(x[k * PIXELS + f] == v + shift[f]);
				}
			for (int k = 0; k < 5 && !answers; k++)
				assert_int_equal(label[k], labels[index[k]]);
			for (int k = 0; k < 15 && answers; k++)
				assert_true(target[k] ==
					    targets[index[k / 3] * 3 + (uint64_t)(k % 3)]);
		}
}

/* The picture moved by (right, down), perhaps mirrored, as a plain loop says. */
static bool is_moved(const struct tw_data *d, uint64_t sample, int right, int down, bool mirror,
		     const float *x)
{
	for (int c = 0; c < 3; c++)
		for (int y = 0; y < 7; y++)
			for (int u = 0; u < 9; u++) {
				const int to = (c * 7 + y) * 9 + u;
				const int sy = y - down, su = mirror ? 8 - (u - right) : u - right;
				float v = 0;

				if (sy >= 0 && sy < 7 && su >= 0 && su < 9)
					v = raw_of(d, sample, (size_t)((c * 7 + sy) * 9 + su));
				v = v * scale[to];
				if (x[to] != v + shift[to])
					return false;
			}
	return true;
}

static void images_move_and_are_mirrored(void **state)
{
	const struct tw_data_options o = { .shift = 3, .flip = true };

	for (int kind = 0; kind < 2; kind++) {
		struct tw_data d = made((enum tw_value)kind, 0);
		int rights[7] = { 0 }, downs[7] = { 0 }, mirrors = 0;

		for (uint64_t p = 0; p < 700; p++) {
			const uint64_t sample = p % COUNT;
			const struct tw_batch b = { &d.train, &sample, 1, p };
			float x[PIXELS];
			uint32_t label;
			int found = 0;

			tw_data_fill(&d, &b, &o, 9, x, &label, NULL);
			for (int k = 0; k < 98; k++) {
				const int right = k % 7 - 3, down = k / 7 % 7 - 3;

				if (!is_moved(&d, sample, right, down, k >= 49, x))
					continue;
				found++;
				rights[right + 3]++;
				downs[down + 3]++;
				mirrors += k >= 49;
			}
			assert_int_equal(found, 1);
		}
		for (int k = 0; k < 7; k++) {
			assert_in_range(rights[k], 60, 140);
			assert_in_range(downs[k], 60, 140);
		}
		assert_in_range(mirrors, 290, 410);
	}
}

/* However the positions are cut into batches, the same comes out. */
static void batches_do_not_matter(void **state)
{
	const struct tw_data_options o = { .shift = 2, .flip = true, .noise = 0.25 };
	struct tw_data d = made(TW_VALUE_U8, 0);
	uint64_t index[20];
	float whole[20 * PIXELS], parts[20 * PIXELS];
	uint32_t label[20];

	for (uint64_t k = 0; k < 20; k++)
		index[k] = k * 7 % COUNT;
	tw_data_fill(&d, &(struct tw_batch){ &d.train, index, 20, 1000 }, &o, 4, whole, label,
		     NULL);
	for (uint32_t step = 1; step < 20; step++) {
		for (uint32_t k = 0; k < 20; k += step) {
			const uint32_t n = 20 - k < step ? 20 - k : step;
			const struct tw_batch b = { &d.train, index + k, n, 1000 + k };

			tw_data_fill(&d, &b, &o, 4, parts + k * PIXELS, label, NULL);
		}
		assert_memory_equal(whole, parts, sizeof whole);
	}
	tw_data_fill(&d, &(struct tw_batch){ &d.train, index, 20, 1001 }, &o, 4, parts, label,
		     NULL);
	assert_memory_not_equal(whole, parts, sizeof whole);
	tw_data_fill(&d, &(struct tw_batch){ &d.train, index, 20, 1000 }, &o, 5, parts, label,
		     NULL);
	assert_memory_not_equal(whole, parts, sizeof whole);
}

/* Every length has a place where the wide steps end. */
static void every_instruction_set_gives_the_same_bits(void **state)
{
	const enum tw_isa best = tw_isa();

	for (uint32_t n = 1; n <= PIXELS; n++)
		for (int kind = 0; kind < 2; kind++) {
			const uint64_t sample = n % 5;
			struct tw_data d = made((enum tw_value)kind, 0);
			const struct tw_batch b = { &d.train, &sample, 1, 0 };
			float x[PIXELS + 1];
			uint32_t label;

			d.rank = 1;
			d.features = n;
			for (int isa = TW_ISA_PLAIN; isa <= (int)best; isa++) {
				assert_true(tw_isa_pin((enum tw_isa)isa));
				x[n] = 77;
				tw_data_fill(&d, &b, NULL, 0, x, &label, NULL);
				assert_true(x[n] == 77);
				for (size_t f = 0; f < n; f++) {
					const size_t at = sample * n + f;
					const float v = (kind == TW_VALUE_U8 ? (float)bytes[at]
									     : floats[at]) *
							scale[f];

					assert_true(x[f] == v + shift[f]);
				}
			}
		}
	tw_isa_pin(best);
}

static void noise_is_gauss(void **state)
{
	const struct tw_data_options o = { .noise = 0.5 };
	struct tw_data d = made(TW_VALUE_F32, 0);
	double sum = 0, square = 0;
	float plain[PIXELS], shaken[PIXELS];
	const int n = 500;
	uint32_t label;

	for (uint64_t p = 0; p < (uint64_t)n; p++) {
		const uint64_t sample = p % COUNT;
		const struct tw_batch b = { &d.train, &sample, 1, p };

		tw_data_fill(&d, &b, NULL, 1, plain, &label, NULL);
		tw_data_fill(&d, &b, &o, 1, shaken, &label, NULL);
		for (int f = 0; f < PIXELS; f++) {
			const double v = (double)shaken[f] - (double)plain[f];

			sum += v;
			square += v * v;
		}
	}
	assert_true(fabs(sum / (n * PIXELS)) < 0.01);
	assert_true(fabs(sqrt(square / (n * PIXELS)) - 0.5) < 0.01);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_batches),
		cmocka_unit_test(images_move_and_are_mirrored),
		cmocka_unit_test(batches_do_not_matter),
		cmocka_unit_test(every_instruction_set_gives_the_same_bits),
		cmocka_unit_test(noise_is_gauss),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
