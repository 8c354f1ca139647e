/* SPDX-License-Identifier: Apache-2.0 */
/* momentum.c - the heavy ball, with the rate outside the velocity (form A, PyTorch's). */
#include "strategy/rule/momentum.h"
#include "strategy/scalar.h"
#include "vec/clone.h"

#include <math.h>

const struct tw_option tw_momentum_rows[] = {
	TW_OPTION(struct tw_momentum_options, momentum, TW_F32, "0.9", NULL, 0, 0.999999,
		  "share of the velocity that each update keeps"),
	TW_OPTION_END
};

TW_CLONED_STATIC(void, step, (const struct tw_apply *a, float *v, float gamma, size_t n),
		 (a, v, gamma, n))
{
	const float *const w = a->w, *const g = a->g, rate = a->rate;
	float *const out = a->out, *const direction = a->direction;

#pragma GCC ivdep
	for (size_t i = 0; i < n; i++) {
		const float next = fmaf(gamma, v[i], g[i]);

		v[i] = next;
		if (direction)
			direction[i] = next;
		out[i] = fmaf(-rate, next, w[i]);
	}
}

void tw_momentum_step(const struct tw_momentum_options *o, const struct tw_apply *a, float *v)
{
	step(a, v, o->momentum, a->n);
}

TW_CLONED_STATIC(void, ahead, (float *out, const float *w, const float *v, float by, size_t n),
		 (out, w, v, by, n))
{
#pragma GCC ivdep
	for (size_t i = 0; i < n; i++)
		out[i] = fmaf(-by, v[i], w[i]);
}

void tw_momentum_ahead(const struct tw_momentum_options *o, const struct tw_apply *a,
		       const float *v, float *out)
{
	ahead(out, a->w, v, a->rate * o->momentum, a->n);
}

static void apply(const void *options, const struct tw_apply *a)
{
	tw_momentum_step(options, a, a->array[0]);
}

static const char *const names[] = { "momentum" };

const struct tw_rule tw_rule_momentum = {
	.name = "momentum",
	.help = "heavy-ball momentum, one velocity for all workers",
	.options = tw_momentum_rows,
	.options_bytes = sizeof(struct tw_momentum_options),
	.rate = { .standard = 0.01, .low = 0.0001, .high = 0.1 },
	.traits = TW_RULE_LINEAR,
	.arrays = 1,
	.array_names = names,
	.apply = apply,
};
