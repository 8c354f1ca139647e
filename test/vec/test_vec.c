/* SPDX-License-Identifier: Apache-2.0 */
/* test_vec.c - every kernel, in every instruction set of this machine, against its plain loop:
 * the same bits at every length and alignment, and nothing written beside its output. */
#include "vec/vec.h"
#include "base/machine/isa.h"
#include "base/rng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define MOST  20011
#define FENCE 32

static _Alignas(64) float x_all[MOST + 2 * FENCE], y_all[MOST + 2 * FENCE];
static _Alignas(64) float out_all[MOST + 2 * FENCE], want_all[MOST + 2 * FENCE];
/* where the vectors of this trial begin */
static float *x, *y, *out, *want;

static const size_t lengths[] = { 100,  127,  128,  129,  255,  1000, 2047,
				  2048, 2049, 2063, 4096, 4097, 8191, MOST - 16 };

static void fill(uint64_t trial)
{
	const struct tw_rng r = tw_rng_make(trial, TW_RNG_TEST);

	tw_rng_gauss_fill(&r, 1, 0, x_all, MOST + 2 * FENCE);
	tw_rng_gauss_fill(&r, 2, 0, y_all, MOST + 2 * FENCE);
	for (size_t i = 0; i < MOST + 2 * FENCE; i += 7)
		x_all[i] = ldexpf(x_all[i], (int)(i % 250) - 125);
	x_all[60] = 0;
	x_all[61] = -0.0f;
	y_all[62] = 1e-42f; /* subnormal */
}

/* Begin both outputs as the same rubbish (or as x, for kernels that work in place). */
static void begin(uint64_t trial, bool in_place)
{
	const size_t shift = trial * 5 % 17;

	x = x_all + FENCE + shift;
	y = y_all + FENCE + trial % 3;
	out = out_all + FENCE + trial * 3 % 16;
	want = want_all + FENCE + trial * 3 % 16;
	memset(out_all, 0x5a, sizeof out_all);
	memset(want_all, 0x5a, sizeof want_all);
	if (in_place) {
		memcpy(out, x, MOST * sizeof *out - 64);
		memcpy(want, x, MOST * sizeof *out - 64);
	}
}

static void agree(const char *what, size_t n)
{
	if (memcmp(out_all, want_all, sizeof out_all) != 0)
		fail_msg("%s differs from its loop: n %zu, %s", what, n, tw_isa_name(tw_isa()));
}

static void check_plain_kernels(size_t n, uint64_t trial)
{
	const float a = 0.37f + (float)trial;

	begin(trial, false);
	tw_vec_copy(out, x, n);
	for (size_t i = 0; i < n; i++)
		want[i] = x[i];
	agree("copy", n);

	begin(trial, false);
	tw_vec_fill(out, a, n);
	for (size_t i = 0; i < n; i++)
		want[i] = a;
	agree("fill", n);

	begin(trial, true);
	tw_vec_relu(out, n);
	for (size_t i = 0; i < n; i++)
		want[i] = want[i] < 0 ? 0 : want[i];
	agree("relu", n);

	begin(trial, true);
	tw_vec_add(out, y, n);
	for (size_t i = 0; i < n; i++)
		want[i] = want[i] + y[i];
	agree("add", n);

	for (size_t rows = 1; rows < 4; rows++) {
		const size_t wide = n / rows;

		begin(trial, false);
		tw_vec_sum_rows(out, x, rows, wide);
		for (size_t i = 0; i < wide; i++) {
			want[i] = x[i];
			for (size_t r = 1; r < rows; r++)
				want[i] += x[r * wide + i];
		}
		agree("sum_rows", n);
	}

	begin(trial, false);
	tw_vec_add_to(out, x, y, n);
	for (size_t i = 0; i < n; i++)
		want[i] = x[i] + y[i];
	agree("add_to", n);

	begin(trial, true);
	tw_vec_add_to(out, y, out, n);
	for (size_t i = 0; i < n; i++)
		want[i] = y[i] + want[i];
	agree("add_to in place", n);

	/* the bits of the two passes that they replace */
	begin(trial, false);
	tw_vec_sgd_share(out, x, y, 0.3f, a, n, trial % 2);
	tw_vec_scale_to(y, 0.3f, y, n);
	tw_vec_sgd(want, x, y, a, n, false);
	agree("sgd_share", n);

	begin(trial, false);
	tw_vec_axpby_to(out, 0.3f, x, a, y, n);
	tw_vec_scale_to(want, 0.3f, x, n);
	tw_vec_axpy(want, a, y, n);
	agree("axpby_to", n);

	begin(trial, true);
	tw_vec_axpby_to(out, a, out, 0.3f, y, n);
	for (size_t i = 0; i < n; i++) {
		const volatile float scaled = a * want[i]; /* rounded */

		want[i] = fmaf(0.3f, y[i], scaled);
	}
	agree("axpby_to in place", n);

	begin(trial, true);
	tw_vec_axpy(out, a, y, n);
	for (size_t i = 0; i < n; i++)
		want[i] = fmaf(a, y[i], want[i]);
	agree("axpy", n);

	begin(trial, true);
	tw_vec_scale(out, a, n);
	for (size_t i = 0; i < n; i++)
		want[i] = a * want[i];
	agree("scale", n);

	begin(trial, false);
	tw_vec_scale_to(out, a, x, n);
	for (size_t i = 0; i < n; i++)
		want[i] = a * x[i];
	agree("scale_to", n);

	begin(trial, true);
	tw_vec_scale_to(out, a, out, n);
	for (size_t i = 0; i < n; i++)
		want[i] = a * want[i];
	agree("scale_to in place", n);

	begin(trial, false);
	tw_vec_sub(out, x, y, n);
	for (size_t i = 0; i < n; i++)
		want[i] = x[i] - y[i];
	agree("sub", n);

	begin(trial, true);
	tw_vec_sub(out, out, y, n);
	for (size_t i = 0; i < n; i++)
		want[i] = want[i] - y[i];
	agree("sub on its first", n);

	begin(trial, true);
	tw_vec_sub(out, y, out, n);
	for (size_t i = 0; i < n; i++)
		want[i] = y[i] - want[i];
	agree("sub on its second", n);
}

static void check_sgd(size_t n, uint64_t trial)
{
	const float rate = 0.01f;

	for (int stream = 0; stream < 2; stream++) {
		begin(trial, false);
		tw_vec_sgd(out, x, y, rate, n, stream);
		for (size_t i = 0; i < n; i++)
			want[i] = fmaf(-rate, y[i], x[i]);
		agree(stream ? "sgd streamed" : "sgd", n);

		begin(trial, true);
		assert_true(tw_vec_sgd_finite(out, out, y, rate, n, stream));
		for (size_t i = 0; i < n; i++)
			want[i] = fmaf(-rate, y[i], want[i]);
		agree(stream ? "sgd streamed in place" : "sgd in place", n);
	}
}

static double lanes(const float *p, const float *q, size_t n, int kind)
{
	double lane[16] = { 0 }, sum = 0;

	for (size_t i = 0; i < n; i++) {
		const double a = p[i], b = q[i];

		switch (kind) {
		case 0:
			lane[i % 16] += a * b;
			break;
		case 1:
			lane[i % 16] += a;
			break;
		case 2:
			lane[i % 16] += a * a;
			break;
		case 3:
			lane[i % 16] += (a - b) * (a - b);
			break;
		}
	}
	for (int k = 0; k < 16; k++)
		sum += lane[k];
	return sum;
}

static void check_sums(size_t n, uint64_t trial)
{
	begin(trial, false);
	assert_true(tw_vec_dot(x, y, n) == lanes(x, y, n, 0));
	assert_true(tw_vec_sum(x, n) == lanes(x, y, n, 1));
	assert_true(tw_vec_square(x, n) == lanes(x, y, n, 2));
	assert_true(tw_vec_distance(x, y, n) == lanes(x, y, n, 3));
}

/* Whatever is strange, wherever it is, is seen; what is beside the vector is not. */
static void check_finite(size_t n, uint64_t trial)
{
	static const float strange[] = { INFINITY, -INFINITY, NAN };

	begin(trial, false);
	x[-1] = NAN;
	x[n] = INFINITY;
	assert_true(tw_vec_finite(x, n));
	for (size_t k = 0; k < n; k += 1 + n / 70) {
		const float kept = x[k];

		for (size_t s = 0; s < 3; s++) {
			x[k] = strange[s];
			assert_false(tw_vec_finite(x, n));
			assert_false(tw_vec_sgd_finite(out, y, x, 0.1f, n, s == 1));
			assert_int_equal(tw_vec_add_to(out, x, y, n), TW_VEC_FIRST);
			assert_int_equal(tw_vec_add_to(out, y, x, n), TW_VEC_SECOND);
			assert_int_equal(tw_vec_axpby_to(out, 0.3f, x, 2.0f, y, n), TW_VEC_FIRST);
			assert_int_equal(tw_vec_axpby_to(out, 0.3f, y, 2.0f, x, n), TW_VEC_SECOND);
			assert_int_equal(tw_vec_add_to(out, x, x, n), TW_VEC_FIRST | TW_VEC_SECOND);
		}
		x[k] = 3.4e38f;
		assert_true(tw_vec_finite(x, n));
		assert_int_equal(tw_vec_add_to(out, x, x, n), 0); /* too large for a float */
		assert_int_equal(tw_vec_axpby_to(out, 1.0f, x, 2.0f, y, n), 0);
		assert_true(tw_vec_sgd_finite(out, y, x, 0.1f, n, false));
		x[k] = kept;
	}
	fill(trial);
}

static void check_all(size_t n, uint64_t trial)
{
	check_plain_kernels(n, trial);
	check_sgd(n, trial);
	check_sums(n, trial);
	check_finite(n, trial);
}

static void in_each_isa(void (*body)(void))
{
	const enum tw_isa best = tw_isa();

	for (int isa = TW_ISA_PLAIN; isa <= (int)best; isa++) {
		assert_true(tw_isa_pin((enum tw_isa)isa));
		assert_int_equal(tw_isa(), isa);
		body();
	}
	assert_int_equal(tw_isa(), best);
}

static void all_lengths(void)
{
	fill(0);
	for (size_t n = 0; n <= 67; n++)
		for (uint64_t trial = 0; trial < 6; trial++)
			check_all(n, trial);
	for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++)
		for (uint64_t trial = 0; trial < 17; trial += 4)
			check_all(lengths[k] - 16, trial + k % 3);
}

static void kernels_are_their_loops(void **state)
{
	in_each_isa(all_lengths);
}

static void what_is_missing_cannot_be_pinned(void **state)
{
	const enum tw_isa best = tw_isa();

	for (int isa = (int)tw_isa_machine() + 1; isa <= TW_ISA_AVX512; isa++)
		assert_false(tw_isa_pin((enum tw_isa)isa));
	assert_int_equal(tw_isa(), best);
	assert_string_equal(tw_isa_name(TW_ISA_PLAIN), "plain");
	assert_string_equal(tw_isa_name(TW_ISA_AVX2), "avx2");
	assert_string_equal(tw_isa_name(TW_ISA_AVX512), "avx512");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kernels_are_their_loops),
		cmocka_unit_test(what_is_missing_cannot_be_pinned),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
