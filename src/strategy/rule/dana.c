/* SPDX-License-Identifier: Apache-2.0 */
/* dana.c - a velocity per worker, and workers see where all of them will have taken w (DANA).
 *
 *	v' = momentum r v_i + rate g;  S = S + v' - v_i;  w = w - v';  v_i = v'
 *	view: w - momentum S
 *
 * where r is the rate over that of the worker's push before.  The worker's half (DANA-Slim), whose
 * shard only subtracts, pushes u = (1 + momentum) v' - momentum v.  The rate is inside the velocity
 * (form B) and is corrected at the worker's own push, so both halves show the same vector under
 * every schedule, and one worker alone is Nesterov's momentum (docs/RATIONALE.md).
 *
 *  (1) sum + rest is the sum of all v_j to within rounding of `rest`, and sum is that rounded to
 *      float, however many updates there were.  Adding to a plain float would drift. */
#include "strategy/rule/momentum.h"
#include "strategy/scalar.h"
#include "vec/clone.h"
#include "vec/vec.h"

#include <math.h>

/* Knuth's two-sum: *sum + returned error is exactly the old *sum + x. */
static inline __attribute__((always_inline)) float add(float *sum, float x)
{
	const float old = *sum, both = old + x, of_x = both - old;

	*sum = both;
	return (old - (both - of_x)) + (x - of_x);
}

/* Replace `gone` by `come` in the sum; keeps (1). */
static inline __attribute__((always_inline)) void replace(float *sum, float *rest, float gone,
							  float come)
{
	float s = *sum, r = *rest;

	r += add(&s, -gone);
	r += add(&s, come);

	const float whole = s + r;

	*rest = r - (whole - s);
	*sum = whole;
}

/* keep: momentum r */
TW_CLONED_STATIC(void, step,
		 (const struct tw_apply *a, float *sum, float *rest, float keep, size_t n),
		 (a, sum, rest, keep, n))
{
	const float *const w = a->w, *const g = a->g, rate = a->rate;
	float *const out = a->out, *const v = a->mine;

#pragma GCC ivdep
	for (size_t i = 0; i < n; i++) {
		const float old = v[i], next = fmaf(keep, old, rate * g[i]);

		replace(&sum[i], &rest[i], old, next);
		v[i] = next;
		out[i] = w[i] - next;
	}
}

TW_CLONED_STATIC(void, divide, (float *out, const float *v, float rate, size_t n),
		 (out, v, rate, n))
{
#pragma GCC ivdep
	for (size_t i = 0; i < n; i++)
		out[i] = tw_tame(v[i] / rate);
}

TW_CLONED_STATIC(void, ahead, (float *out, const float *w, const float *sum, float gamma, size_t n),
		 (out, w, sum, gamma, n))
{
#pragma GCC ivdep
	for (size_t i = 0; i < n; i++)
		out[i] = fmaf(-gamma, sum[i], w[i]);
}

TW_CLONED_STATIC(void, forget, (float *sum, float *rest, float *v, size_t n), (sum, rest, v, n))
{
#pragma GCC ivdep
	for (size_t i = 0; i < n; i++) {
		replace(&sum[i], &rest[i], v[i], 0.0f);
		v[i] = 0.0f;
	}
}

/* v' - momentum v is rate g + momentum (r - 1) v: at a constant rate just rate g. */
TW_CLONED_STATIC(void, slim, (const struct tw_prepare *p, float gamma, float ratio, size_t n),
		 (p, gamma, ratio, n))
{
	const float *const g = p->g, rate = p->rate, keep = gamma * ratio;
	const float change = gamma * (ratio - 1.0f);
	float *const v = p->v, *const u = p->u;

#pragma GCC ivdep
	for (size_t i = 0; i < n; i++) {
		const float old = v[i], now = rate * g[i], next = fmaf(keep, old, now);

		v[i] = next;
		u[i] = fmaf(gamma, next, fmaf(change, old, now));
	}
}

static float gamma_of(const void *options)
{
	return ((const struct tw_momentum_options *)options)->momentum;
}

static void apply(const void *options, const struct tw_apply *a)
{
	const float keep = gamma_of(options) * tw_rate_ratio(a->rate, a->before);

	step(a, a->array[0], a->array[1], keep, a->n);
	if (a->direction && a->rate > 0.0f)
		divide(a->direction, a->mine, a->rate, a->n);
	else if (a->direction) /* at rate 0 the quotient says nothing */
		tw_vec_copy(a->direction, a->g, a->n);
}

static void view(const void *options, const struct tw_apply *a, float *out)
{
	ahead(out, a->w, a->array[0], gamma_of(options), a->n);
}

static void leave(const void *options, float *const *array, float *mine, size_t n)
{
	(void)options;
	forget(array[0], array[1], mine, n);
}

static void prepare(const void *options, const struct tw_prepare *p)
{
	slim(p, gamma_of(options), tw_rate_ratio(p->rate, p->before), p->n);
}

/* The shard's vector holds -momentum v_i of this worker; this takes it back. */
static void farewell(const void *options, const float *v, float *u, size_t n)
{
	tw_vec_scale_to(u, -gamma_of(options), v, n);
}

static const char *const names[] = { "sum", "rest" };

const struct tw_rule tw_rule_dana = {
	.name = "dana",
	.help = "a velocity for each worker; workers see the look-ahead over all of them",
	.options = tw_momentum_rows,
	.options_bytes = sizeof(struct tw_momentum_options),
	.rate = { .standard = 0.01, .low = 0.0001, .high = 0.1 },
	.traits = TW_RULE_PER_WORKER | TW_RULE_OWN_VIEW | TW_RULE_STAMPED | TW_RULE_LINEAR,
	.arrays = 2,
	.array_names = names,
	.apply = apply,
	.view = view,
	.kept = "theta (dana)",
	.leave = leave,
	.prepare = prepare,
	.farewell = farewell,
	.kept_sent = "Theta (dana-slim)",
};
