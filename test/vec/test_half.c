/* SPDX-License-Identifier: Apache-2.0 */
/* test_half.c - half and bfloat16 against slow references that reason about values, not bits. */
#include "vec/vec.h"
#include "base/machine/isa.h"
#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

/* A 16-bit format: 1 + exponent + fraction bits. */
struct format {
	const char *name;
	int fraction, bias, top; /* top: the exponent field that is all ones */
	void (*to)(uint16_t *, const float *, size_t);
	void (*from)(float *, const uint16_t *, size_t);
};

static const struct format formats[] = {
	{ "fp16", 10, 15, 31, tw_vec_to_fp16, tw_vec_from_fp16 },
	{ "bf16", 7, 127, 255, tw_vec_to_bf16, tw_vec_from_bf16 },
};

static uint32_t bits_of(float v)
{
	uint32_t bits;

	memcpy(&bits, &v, sizeof bits);
	return bits;
}

static float float_of(uint32_t bits)
{
	float v;

	memcpy(&v, &bits, sizeof v);
	return v;
}

/* The value of a finite pattern, exactly. */
static double value(const struct format *f, uint16_t h)
{
	const int exponent = h >> f->fraction & f->top;
	const int fraction = h & ((1 << f->fraction) - 1);
	const double size = exponent ? ldexp(1 + ldexp(fraction, -f->fraction), exponent - f->bias)
				     : ldexp(fraction, 1 - f->bias - f->fraction);

	return h & 0x8000 ? -size : size;
}

static bool is_strange(const struct format *f, uint16_t h)
{
	return (h >> f->fraction & f->top) == f->top;
}

/* All patterns as floats, in one call and so in every lane. */
static void check_from(const struct format *f)
{
	static uint16_t in[65536 + 16];
	static float out[65536 + 16];

	for (uint32_t shift = 0; shift < 3; shift++) {
		for (uint32_t k = 0; k < 65536; k++)
			in[k + shift] = (uint16_t)k;
		f->from(out + shift, in + shift, 65536);
		for (uint32_t k = 0; k < 65536; k++) {
			const uint16_t h = (uint16_t)k;
			const float got = out[k + shift];
			const uint32_t fraction = h & ((1u << f->fraction) - 1);

			assert_int_equal(bits_of(got) >> 31, h >> 15);
			if (!is_strange(f, h))
				assert_true((double)got == value(f, h));
			else if (fraction == 0)
				assert_true(isinf(got));
			else
				assert_true(isnan(got) && (bits_of(got) & 0x7fffff) ==
								  fraction << (23 - f->fraction));
		}
	}
}

/* Every pattern that is a number comes back. */
static void check_there_and_back(const struct format *f)
{
	static uint16_t in[65536], back[65536];
	static float mid[65536];

	for (uint32_t k = 0; k < 65536; k++)
		in[k] = (uint16_t)k;
	f->from(mid, in, 65536);
	f->to(back, mid, 65536);
	for (uint32_t k = 0; k < 65536; k++) {
		const uint16_t quiet = (uint16_t)(1u << (f->fraction - 1));

		if (isnan(mid[k]))
			assert_int_equal(back[k], in[k] | quiet);
		else
			assert_int_equal(back[k], in[k]);
	}
}

/* The nearest number of the format by searching, the even pattern on a tie, never infinite. */
static uint16_t nearest(const struct format *f, float v)
{
	const uint16_t sign = (uint16_t)(bits_of(v) >> 16 & 0x8000);
	const double size = fabs((double)v);
	uint32_t low = 0, high = ((uint32_t)f->top << f->fraction) - 1;

	if (size >= value(f, (uint16_t)high))
		return (uint16_t)(sign | high);
	while (high - low > 1) {
		const uint32_t mid = (low + high) / 2;

		if (value(f, (uint16_t)mid) <= size)
			low = mid;
		else
			high = mid;
	}
	const double below = size - value(f, (uint16_t)low),
		     above = value(f, (uint16_t)high) - size;

	if (below < above || (below == above && low % 2 == 0))
		return (uint16_t)(sign | low);
	return (uint16_t)(sign | high);
}

#define BATCH 4099

static void check_batch(const struct format *f, const float *in)
{
	uint16_t out[BATCH + 1];

	out[BATCH] = 0xbeef;
	f->to(out, in, BATCH);
	assert_int_equal(out[BATCH], 0xbeef);
	for (size_t k = 0; k < BATCH; k++) {
		if (isnan(in[k])) {
			assert_true(is_strange(f, out[k]) &&
				    (out[k] & ((1 << f->fraction) - 1)) != 0);
		} else if (isinf(in[k])) {
			assert_int_equal(out[k], (in[k] < 0 ? 0x8000 : 0) | f->top << f->fraction);
		} else if (out[k] != nearest(f, in[k])) {
			fail_msg("%s of %a is %04x, not %04x (%s)", f->name, (double)in[k], out[k],
				 nearest(f, in[k]), tw_isa_name(tw_isa()));
		}
	}
}

/* Random bits; and around every border between two patterns the neighbours of the tie. */
static void check_to(const struct format *f)
{
	const struct tw_rng r = tw_rng_make(4, TW_RNG_TEST);
	static float in[BATCH];
	size_t n = 0;

	for (uint64_t round = 0; round < 100; round++) {
		for (uint64_t k = 0; k < BATCH; k++)
			in[k] = float_of((uint32_t)tw_rng_u64(&r, round, k));
		check_batch(f, in);
	}
	for (uint64_t round = 0; round < 100; round++) { /* where half has its numbers */
		for (uint64_t k = 0; k < BATCH; k++)
			in[k] = ldexpf((float)tw_rng_uniform(&r, 1000 + round, k) - 0.5f,
				       (int)(k % 48) - 28);
		check_batch(f, in);
	}
	for (uint32_t h = 0; h < 65535; h++) {
		if (is_strange(f, (uint16_t)h))
			continue;
		const double next =
			is_strange(f, (uint16_t)(h + 1))
				? 2 * value(f, (uint16_t)h) - value(f, (uint16_t)(h - 1))
				: value(f, (uint16_t)(h + 1));
		const float tie = (float)((value(f, (uint16_t)h) + next) / 2);

		in[n++] = tie;
		in[n++] = nextafterf(tie, INFINITY);
		in[n++] = nextafterf(tie, -INFINITY);
		if (n + 3 > BATCH) {
			check_batch(f, in);
			n = 0;
		}
	}
	check_batch(f, in);
}

static void check_edges(const struct format *f)
{
	const float in[] = {
		INFINITY, -INFINITY, 3.4028235e38f, -3.4028235e38f, 0.0f,     -0.0f,
		1e-45f,   -1e-45f,   65504.0f,      65519.996f,     65520.0f, -65536.0f
	};
	const uint16_t half[] = { 0x7c00, 0xfc00, 0x7bff, 0xfbff, 0,      0x8000,
				  0,      0x8000, 0x7bff, 0x7bff, 0x7bff, 0xfbff };
	const uint16_t brain[] = { 0x7f80, 0xff80, 0x7f7f, 0xff7f, 0,      0x8000,
				   0,      0x8000, 0x4780, 0x4780, 0x4780, 0xc780 };
	const uint16_t *want = f->fraction == 10 ? half : brain;
	uint16_t out[12];

	f->to(out, in, 12);
	for (int k = 0; k < 12; k++)
		assert_int_equal(out[k], want[k]);
}

static void each(void (*check)(const struct format *))
{
	const enum tw_isa best = tw_isa();

	for (int isa = TW_ISA_PLAIN; isa <= (int)best; isa++) {
		assert_true(tw_isa_pin((enum tw_isa)isa));
		for (size_t k = 0; k < 2; k++)
			check(&formats[k]);
	}
}

static void all_patterns_are_read(void **state)
{
	each(check_from);
}

static void all_patterns_come_back(void **state)
{
	each(check_there_and_back);
}

static void floats_go_to_the_nearest(void **state)
{
	each(check_to);
}

static void edges_are_as_written(void **state)
{
	each(check_edges);
}

/* Short vectors and odd alignments take the loops' ends: same results as one by one. */
static void check_short(const struct format *f)
{
	const struct tw_rng r = tw_rng_make(5, TW_RNG_TEST);
	float in[80], back[81];
	uint16_t out[81], one;

	tw_rng_gauss_fill(&r, 0, 0, in, 80);
	for (size_t n = 0; n <= 67; n++)
		for (size_t shift = 0; shift < 8; shift++) {
			out[shift + n] = 0xbeef;
			back[shift + n] = 42;
			f->to(out + shift, in + 7 - shift, n);
			f->from(back + shift, out + shift, n);
			assert_int_equal(out[shift + n], 0xbeef);
			assert_true(back[shift + n] == 42);
			for (size_t k = 0; k < n; k++) {
				f->to(&one, in + 7 - shift + k, 1);
				assert_int_equal(out[shift + k], one);
				assert_true((double)back[shift + k] == value(f, one));
			}
		}
}

static void short_vectors_agree(void **state)
{
	each(check_short);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_patterns_are_read),
		cmocka_unit_test(all_patterns_come_back),
		cmocka_unit_test(floats_go_to_the_nearest),
		cmocka_unit_test(edges_are_as_written),
		cmocka_unit_test(short_vectors_agree),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
