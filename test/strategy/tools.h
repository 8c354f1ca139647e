/* SPDX-License-Identifier: Apache-2.0 */
/* tools.h - what the strategy tests share: options from rows, made-up vectors, instruction sets. */
#ifndef TEST_STRATEGY_TOOLS_H
#define TEST_STRATEGY_TOOLS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/option.h"
#include "base/machine/isa.h"

#include <stdbool.h>

/* The options of a variant: defaults, then name/text pairs up to NULL.  Lives until the process
 * ends. */
void *options_given(const struct tw_option *rows, size_t bytes, ...) __attribute__((sentinel));
#define OPTIONS(variant, ...)                                                                      \
	options_given((variant)->options, (variant)->options_bytes, __VA_ARGS__)

/* n gaussian values times `scale`, named by `what`. */
void gauss(float *out, size_t n, uint64_t what, float scale);
/* A number below `most`, named by `what`. */
uint32_t pick(uint64_t what, uint32_t most);
/* Values from the edges of the float range: zeros of both signs, denormals, up to `largest`. */
void edges(float *out, size_t n, uint64_t what, float largest);
bool same_bits(const float *a, const float *b, size_t n);
bool all_finite(const float *x, size_t n);

/* for (int isa = -1; isa_next(&isa);) pins each instruction set up to the one in use, plain first,
 * and ends with that. */
bool isa_next(int *isa);

#define CHECK(truth) assert_true(truth)
/* |a - b| <= within * max(1, |b|) */
#define NEAR(a, b, within) assert_true(near_to(a, b, within, __FILE__, __LINE__))
bool near_to(double a, double b, double within, const char *file, int line);

#endif
