/* SPDX-License-Identifier: Apache-2.0 */
/* problem.h - a caller's engine for tests: 1/2 sum a_i (w_i - t_i(sample))^2, watched closely. */
#ifndef TW_TEST_API_PROBLEM_H
#define TW_TEST_API_PROBLEM_H

#include "thalweg.h"

#include <stdatomic.h>

#define PARAMETERS 37
#define BUFFERS    5
#define SAMPLES    48
#define TESTS      1000

struct problem {
	struct thalweg_engine engine;
	_Atomic int inside, most;                 /* calls now, and most at a time */
	_Atomic int meet;                         /* a call waits until so many are inside */
	_Atomic int fail_gradient, fail_evaluate; /* what they return */
	_Atomic unsigned gradients, evaluated;    /* calls, and test samples seen */
	_Atomic unsigned seen[8][SAMPLES];        /* by epoch */
	uint64_t order[8 * SAMPLES];              /* as one worker met them */
	_Atomic unsigned met;
	size_t count[8 * SAMPLES]; /* samples of each call, likewise */
};

void problem_init(struct problem *p);
/* The gradient of one batch by plain loops; g has PARAMETERS + BUFFERS elements. */
void problem_gradient(const float *w, const uint64_t *sample, size_t count, float *g);
/* Open or fail the test with the sentence. */
struct thalweg_job *problem_open(struct problem *p, enum thalweg_world world, const char *text);

#endif
