/* SPDX-License-Identifier: Apache-2.0 */
/* approx.h - exp, log, tanh and the normal distribution in float, for loops that run in vectors.
 *
 * No branches, no calls, no conversions that a machine may lack: selects, fmaf and integer
 * arithmetic on the bits, so each clone of a loop gives the same bits.  Where
 * the result is a normal number, exp, expm1, log1p and tanh are within 2 units in the last place,
 * sigmoid within 3, tails of the normal distribution within 1e-6 of themselves; NaN stays NaN. */
#ifndef TW_GRAPH_OP_APPROX_H
#define TW_GRAPH_OP_APPROX_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#define APPROX static inline __attribute__((always_inline))

APPROX float approx_of_bits(uint32_t bits)
{
	float x;

	memcpy(&x, &bits, sizeof x);
	return x;
}

APPROX uint32_t approx_bits(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof bits);
	return bits;
}

/* Both as the machine's min and max: NaN passes. */
APPROX float approx_at_least(float x, float low)
{
	return x < low ? low : x;
}

APPROX float approx_at_most(float x, float high)
{
	return x > high ? high : x;
}

/* e^x = 2^n e^r with |r| <= ln 2 / 2: n (in the lower bits of *shifted, as whole + ROUND) and, by
 * Cephes' polynomial, e^r - 1. */
#define APPROX_ROUND 0x1.8p23f /* adding it leaves n in the lower bits */

APPROX float approx_exp_rest(float v, float *shifted)
{
	*shifted = fmaf(v, 1.44269504f, APPROX_ROUND);

	const float n = *shifted - APPROX_ROUND;
	const float r = fmaf(n, 2.12194440e-4f, fmaf(n, -0.693359375f, v));
	float p = 1.9875691500e-4f;

	p = fmaf(p, r, 1.3981999507e-3f);
	p = fmaf(p, r, 8.3334519073e-3f);
	p = fmaf(p, r, 4.1665795894e-2f);
	p = fmaf(p, r, 1.6666665459e-1f);
	p = fmaf(p, r, 5.0000001201e-1f);
	return fmaf(p, r * r, r);
}

/* 2^n comes in two factors, so that results may be denormal, 0 or infinite. */
APPROX float approx_exp(float x)
{
	float shifted;
	const float rest =
		approx_exp_rest(approx_at_most(approx_at_least(x, -104.0f), 89.0f), &shifted);
	const uint32_t whole = approx_bits(shifted) - approx_bits(APPROX_ROUND) + 256; /* n + 256 */
	const uint32_t half = whole / 2, other = whole - half;

	return (rest + 1.0f) * approx_of_bits((half - 1) << 23) * approx_of_bits((other - 1) << 23);
}

/* e^x - 1 for x at most 0: nothing is lost near 0, where n is 0. */
APPROX float approx_expm1(float x)
{
	float shifted;
	const float rest = approx_exp_rest(approx_at_least(x, -30.0f), &shifted);
	const uint32_t n = approx_bits(shifted) - approx_bits(APPROX_ROUND);
	const float power = approx_of_bits((n + 127) << 23);

	return fmaf(power, rest, power - 1.0f);
}

/* log(1 + x) for x from 0 to 1: 2 artanh(x / (2 + x)) by its series, whose argument is at most
 * 1/3. */
APPROX float approx_log1p(float x)
{
	const float z = x / (2.0f + x), square = z * z;
	float p = 2.0f / 15;

	p = fmaf(p, square, 2.0f / 13);
	p = fmaf(p, square, 2.0f / 11);
	p = fmaf(p, square, 2.0f / 9);
	p = fmaf(p, square, 2.0f / 7);
	p = fmaf(p, square, 2.0f / 5);
	p = fmaf(p, square, 2.0f / 3);
	return fmaf(p * square, z, 2.0f * z);
}

APPROX float approx_sigmoid(float x)
{
	return 1.0f / (1.0f + approx_exp(-x));
}

/* Cephes: a polynomial near 0, elsewhere through e^2|x|, with the sign put back. */
APPROX float approx_tanh(float x)
{
	const float a = fabsf(x), z = x * x;
	const float far = copysignf(1.0f - 2.0f / (approx_exp(2.0f * a) + 1.0f), x);
	float p = -5.70498872745e-3f;

	p = fmaf(p, z, 2.06390887954e-2f);
	p = fmaf(p, z, -5.37397155531e-2f);
	p = fmaf(p, z, 1.33314422036e-1f);
	p = fmaf(p, z, -3.33332819422e-1f);
	return a > 0.625f ? far : fmaf(p * z, x, x);
}

/* How much of a normal distribution lies below x, and its density there.  The smaller tail is
 * e^(-x^2/2) times a polynomial in t = 1 / (1 + 0.35 |x|), fitted for the least relative error;
 * the square's rounding error is put back. */
APPROX void approx_normal(float x, float *below, float *density)
{
	const float a = approx_at_most(fabsf(x), 15.0f), t = 1.0f / fmaf(a, 0.35f, 1.0f);
	const float square = a * a, lost = fmaf(a, a, -square);
	const float bell = approx_exp(-0.5f * square) * fmaf(lost, -0.5f, 1.0f);
	float p = -0.0291585233f, tail;

	p = fmaf(p, t, 0.144033924f);
	p = fmaf(p, t, -0.255845010f);
	p = fmaf(p, t, 0.159326240f);
	p = fmaf(p, t, -0.0232166089f);
	p = fmaf(p, t, 0.105554186f);
	p = fmaf(p, t, 0.119820893f);
	p = fmaf(p, t, 0.139863566f);
	p = fmaf(p, t, 0.139621302f);
	tail = p * t * bell;
	*below = x < 0 ? tail : 1.0f - tail;
	*density = 0.398942280f * bell;
}

#endif
