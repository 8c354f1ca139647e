/* SPDX-License-Identifier: Apache-2.0 */
/* vec.h - kernels over flat float vectors.
 *
 * A kernel *is* its plain loop, with fmaf where it fuses; the clones for AVX-512, AVX2 and plain
 * x86-64 (or another machine) are the same loop compiled three times, so all give the same bits.
 * Reductions use 16 double lanes, element i in lane i % 16, added in lane order.
 * Pointers need no alignment; distinct arguments do not overlap unless the comment allows it. */
#ifndef TW_VEC_VEC_H
#define TW_VEC_VEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void tw_vec_copy(float *out, const float *x, size_t n);
void tw_vec_fill(float *out, float value, size_t n);
void tw_vec_add(float *y, const float *x, size_t n); /* y = y + x */
/* out = x + y; may be one of them.  Returns which of x and y were not finite. */
enum tw_vec_strange { TW_VEC_FIRST = 1, TW_VEC_SECOND = 2 };
unsigned tw_vec_add_to(float *out, const float *x, const float *y, size_t n);
/* out[i] = the sum over all rows of x[row * n + i], in order; at least one row */
void tw_vec_sum_rows(float *out, const float *x, size_t rows, size_t n);
void tw_vec_axpy(float *y, float a, const float *x, size_t n); /* y = fmaf(a, x, y) */
/* out = fmaf(b, y, a * x): tw_vec_scale_to and tw_vec_axpy in one pass; out may be x or y.  Returns
 * as tw_vec_add_to. */
unsigned tw_vec_axpby_to(float *out, float a, const float *x, float b, const float *y, size_t n);
/* w + (there - here) / 2 */
void tw_vec_approach(float *out, const float *w, const float *here, const float *there, size_t n);
void tw_vec_scale(float *y, float a, size_t n);                      /* y = a * y */
void tw_vec_scale_to(float *out, float a, const float *x, size_t n); /* out = a * x; may be same */
void tw_vec_sub(float *out, const float *x, const float *y,
		size_t n);            /* out = x - y; may be same */
void tw_vec_relu(float *y, size_t n); /* y < 0 becomes 0; NaN stays */
/* out = fmaf(-rate, g, w); out may be w.  With `stream`, out is written past the caches. */
void tw_vec_sgd(float *out, const float *w, const float *g, float rate, size_t n, bool stream);
/* out = fmaf(-rate, share * g, w): tw_vec_scale_to and tw_vec_sgd in one pass */
void tw_vec_sgd_share(float *out, const float *w, const float *g, float share, float rate, size_t n,
		      bool stream);
/* As tw_vec_sgd, and says whether all of g was finite (out is rubbish where it was not). */
bool tw_vec_sgd_finite(float *out, const float *w, const float *g, float rate, size_t n,
		       bool stream);
bool tw_vec_finite(const float *x, size_t n);
double tw_vec_dot(const float *x, const float *y, size_t n);
double tw_vec_sum(const float *x, size_t n);
double tw_vec_square(const float *x, size_t n);                   /* sum of squares */
double tw_vec_distance(const float *x, const float *y, size_t n); /* ... of x - y, in double */
/* IEEE half and bfloat16, round to nearest even; finite values too large become the largest
 * finite one. */
void tw_vec_to_fp16(uint16_t *out, const float *x, size_t n);
void tw_vec_from_fp16(float *out, const uint16_t *x, size_t n);
void tw_vec_to_bf16(uint16_t *out, const float *x, size_t n);
void tw_vec_from_bf16(float *out, const uint16_t *x, size_t n);

#endif
