/* SPDX-License-Identifier: Apache-2.0 */
/* schedule.c - the rate over the course of a run.
 *
 * The warm-up is a factor on whatever the schedule gives, so that its end is no jump. */
#include "strategy/rule.h"
#include "strategy/scalar.h"

#include <math.h>

#define SAMPLES 4096

static double fraction(double part, double whole)
{
	if (whole <= 0.0)
		return 1.0;
	return part >= whole ? 1.0 : part <= 0.0 ? 0.0 : part / whole;
}

static uint64_t steps(const struct tw_schedule *s, double progress)
{
	uint64_t taken = 0;

	if (s->every > 0.0) /* 0.3 / 0.1 is 2.9999...: a step must not come a batch late for that */
		return progress > 0.0 ? (uint64_t)(progress / s->every + 1e-9) : 0;
	while (taken < s->at.count && s->at.at[taken] <= progress)
		taken++;
	return taken;
}

static double schedule_shape(const struct tw_schedule *s, double progress)
{
	const double done = fraction(progress, s->epochs);

	switch (s->kind) {
	case TW_SCHEDULE_STEP:
		return tw_power(s->factor, steps(s, progress));
	case TW_SCHEDULE_COSINE:
		return s->final + (1.0 - s->final) * 0.5 * (1.0 + cos(M_PI * done));
	case TW_SCHEDULE_LINEAR:
		return 1.0 + (s->final - 1.0) * done;
	case TW_SCHEDULE_INVERSE_ROOT:
		return 1.0 / sqrt(1.0 + progress / s->update);
	case TW_SCHEDULE_INVERSE:
		return 1.0 / (1.0 + progress / s->update);
	default:
		return 1.0;
	}
}

static double warm(const struct tw_schedule *s, double progress)
{
	const double done = progress < s->warmup ? fraction(progress, s->warmup) : 1.0;

	return s->warmup_from + (1.0 - s->warmup_from) * done;
}

static double schedule_rate(const struct tw_schedule *s, double progress)
{
	return s->rate * schedule_shape(s, progress) * warm(s, progress);
}

float tw_schedule_rate(const struct tw_schedule *s, double progress)
{
	return (float)schedule_rate(s, progress);
}

/* The largest rate on [from, to], where the rate is smooth: the best of many samples, then a
 * ternary search between its neighbours.  (During a warm-up the product has no closed form.) */
static double largest_between(const struct tw_schedule *s, double from, double to)
{
	const double width = (to - from) / SAMPLES;
	double best = schedule_rate(s, from), at = from;

	if (!(to > from))
		return best;
	for (int k = 1; k <= SAMPLES; k++) {
		const double p = k < SAMPLES ? from + k * width : to;

		if (schedule_rate(s, p) > best) {
			best = schedule_rate(s, p);
			at = p;
		}
	}
	double low = at - width > from ? at - width : from,
	       high = at + width < to ? at + width : to;

	for (int k = 0; k < 100; k++) {
		const double a = low + (high - low) / 3.0, b = high - (high - low) / 3.0;

		if (schedule_rate(s, a) < schedule_rate(s, b))
			low = a;
		else
			high = b;
	}
	return fmax(best, schedule_rate(s, low));
}

/* Where a step falls inside the warm-up the rate is largest just before it. */
static double largest_step(const struct tw_schedule *s)
{
	const double end = fmax(s->warmup, s->epochs);
	const uint64_t count = s->every > 0.0 ? (uint64_t)(end / s->every) : s->at.count;
	double best = fmax(schedule_rate(s, 0.0), schedule_rate(s, end));

	for (uint64_t k = 0; k < count; k++) {
		const double at = s->every > 0.0 ? (double)(k + 1) * s->every : s->at.at[k];

		best = fmax(best, s->rate * tw_power(s->factor, k) * warm(s, at));
		best = fmax(best, schedule_rate(s, at));
	}
	return best;
}

float tw_schedule_largest(const struct tw_schedule *s)
{
	const double end = fmax(s->warmup, s->epochs);

	if (s->kind == TW_SCHEDULE_STEP)
		return (float)largest_step(s);
	return (float)fmax(largest_between(s, 0.0, s->warmup), largest_between(s, s->warmup, end));
}
