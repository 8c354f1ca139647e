/* SPDX-License-Identifier: Apache-2.0 */
/* gap.c - divide by how far the parameters have moved, in average steps (Barkai et al. 2020).
 *
 *	penalty = 1 + |w - sent| / C,    C = rate_max (sqrt(square) + epsilon)
 *
 * where `square` is the bias-corrected running mean of the rule's squared direction.  It is kept
 * corrected, as square += (1 - m) / (1 - m^t) (d d - square), because corrections and updates are
 * counted apart.  The weight decay is divided by the same penalty. */
#include "strategy/scalar.h"
#include "strategy/staleness.h"
#include "vec/clone.h"

#include <math.h>

struct options {
	double memory;
	float epsilon;
};

static const struct tw_option rows[] = {
	TW_OPTION(struct options, memory, TW_F64, "0.999", NULL, 0, 0.999999,
		  "share of the old value that the running mean square of the direction keeps"),
	TW_OPTION(struct options, epsilon, TW_F32, "1e-8", NULL, 0, 1e6,
		  "added to the average step"),
	TW_OPTION_END
};

/* rate_max may be 0: then any distance is infinitely many steps, and none (NaN) is none. */
static inline __attribute__((always_inline)) float penalty(float w, float sent, float square,
							   float rate, float epsilon)
{
	const float moved = fabsf(w - sent);
	const float p = 1.0f + moved / (rate * (sqrtf(square) + epsilon));

	return p > 1.0f ? p : 1.0f;
}

TW_CLONED_STATIC(void, divide,
		 (const struct tw_correction *c, const float *square, float epsilon, size_t n),
		 (c, square, epsilon, n))
{
	const float *const w = c->w, *const sent = c->sent, rate = c->rate_max;
	float *const g = c->g, *const decay = c->decay;

#pragma GCC ivdep
	for (size_t i = 0; i < n; i++) {
		const float p = penalty(w[i], sent[i], square[i], rate, epsilon);

		g[i] = g[i] / p;
		if (decay)
			decay[i] = 1.0f / p;
	}
}

TW_CLONED_STATIC(void, average, (float *square, const float *direction, float part, size_t n),
		 (square, direction, part, n))
{
#pragma GCC ivdep
	for (size_t i = 0; i < n; i++) {
		const float s = square[i], d = direction[i];
		const float next = fmaf(part, tw_tame(d * d) - s, s);

		square[i] = next > 0.0f ? tw_tame(next) : 0.0f;
	}
}

static void correct(const void *options, struct tw_correction *c)
{
	divide(c, c->array[0], ((const struct options *)options)->epsilon, c->n);
}

static void observe(const void *options, float *const *array, const float *direction, size_t n,
		    uint64_t count)
{
	const double m = ((const struct options *)options)->memory;

	average(array[0], direction, (float)((1.0 - m) / (1.0 - tw_power(m, count))), n);
}

const struct tw_staleness tw_staleness_gap = {
	.name = "gap",
	.help = "gap-aware: divides a gradient by the distance the parameters moved, in average "
		"steps",
	.options = rows,
	.options_bytes = sizeof(struct options),
	.traits = TW_STALENESS_SENT | TW_STALENESS_OBSERVES | TW_STALENESS_DECAY,
	.arrays = 1,
	.correct = correct,
	.observe = observe,
};
