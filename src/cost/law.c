/* SPDX-License-Identifier: Apache-2.0 */
/* law.c - the distribution of computing times: of one step, and of several steps together. */
#include "cost/law.h"

#include <math.h>

#define NS 1e-9

/* The lower incomplete gamma function over the complete one, by its series or, for large x, by the
 * continued fraction of its complement (Lentz). */
static double gamma_below(double shape, double x)
{
	const double front = x > 0 ? exp(shape * log(x) - x - lgamma(shape)) : 0;
	double term = 1.0 / shape, sum = term, b = x + 1 - shape, c = 1e300, d = 1 / b, h = d;

	if (x <= 0)
		return 0;
	if (x < shape + 1) {
		for (double k = shape + 1; term > sum * 1e-12 && k < shape + 1e5; k++)
			sum += term *= x / k;
		return front * sum;
	}
	for (int k = 1; k < 100000; k++) {
		const double a = -k * (k - shape);
		double ratio;

		b += 2;
		d = 1 / (a * d + b);
		c = b + a / c;
		h *= ratio = d * c;
		if (fabs(ratio - 1) < 1e-12)
			break;
	}
	return 1 - front * h;
}

static double log_normal_below(double centre, double sigma, double t)
{
	if (t <= 0)
		return 0;
	return sigma > 0 ? 0.5 * erfc((centre - log(t)) / (sigma * sqrt(2))) : t >= exp(centre);
}

/* One step, in units of its mean (log-normal: of its median). */
static double one_below(const struct tw_sim_options *o, double x)
{
	switch (o->law) {
	case TW_LAW_UNIFORM:
		return o->spread > 0 ? fmin(1, fmax(0, (x - 1 + o->spread) / (2 * o->spread)))
				     : x >= 1;
	case TW_LAW_LOG_NORMAL:
		return log_normal_below(0, o->sigma, x);
	case TW_LAW_EXPONENTIAL:
		return x > 0 ? -expm1(-x) : 0;
	case TW_LAW_GAMMA:
		return gamma_below(o->shape, x * o->shape);
	case TW_LAW_PARETO: {
		const double least = (o->shape - 1) / o->shape;

		return x > least ? 1 - pow(least / x, o->shape) : 0;
	}
	default:
		return x >= 1;
	}
}

/* Mean and variance of one step, in the same units. */
static void moments(const struct tw_sim_options *o, double *mean, double *variance)
{
	const double e = o->law == TW_LAW_LOG_NORMAL ? exp(o->sigma * o->sigma) : 1;

	*mean = sqrt(e);
	switch (o->law) {
	case TW_LAW_UNIFORM:
		*variance = o->spread * o->spread / 3;
		break;
	case TW_LAW_LOG_NORMAL:
		*variance = e * (e - 1);
		break;
	case TW_LAW_EXPONENTIAL:
		*variance = 1;
		break;
	case TW_LAW_GAMMA:
		*variance = 1 / o->shape;
		break;
	case TW_LAW_PARETO:
		*variance = o->shape > 2 ? 1 / (o->shape * (o->shape - 2)) : INFINITY;
		break;
	default:
		*variance = 0;
	}
}

static double unit(const struct tw_cost_law *l)
{
	const int64_t ns = l->of->law == TW_LAW_LOG_NORMAL ? l->of->median : l->of->mean;

	return (double)ns * NS * l->samples;
}

void tw_cost_law_init(struct tw_cost_law *l, const struct tw_sim_options *of, double batch,
		      double steps)
{
	double mean, variance, square;

	*l = (struct tw_cost_law){ .of = of,
				   .steps = steps,
				   .samples = of->per_sample ? batch : 1 };
	moments(of, &mean, &variance);
	l->mean = steps * mean * unit(l);
	l->deviation = sqrt(steps * variance) * unit(l);
	l->constant = variance == 0;
	square = l->deviation / l->mean;
	l->sigma = sqrt(log1p(square * square));
	l->centre = log(l->mean) - l->sigma * l->sigma / 2;
}

/* Without a variance (pareto) the longest of k steps makes the sum long.  The others take their
 * mean below the time that one step in k exceeds. */
static double heavy_below(const struct tw_cost_law *l, double x)
{
	const double k = l->steps, share = 1 - pow(k, 1 / l->of->shape - 1);

	return pow(one_below(l->of, x - (k - 1) * share / (1 - 1 / k)), k);
}

double tw_cost_law_below(const struct tw_cost_law *l, double t)
{
	const double u = unit(l);

	if (l->constant)
		return t >= l->mean;
	if (l->steps == 1)
		return one_below(l->of, t / u);
	if (isfinite(l->deviation))
		return log_normal_below(l->centre, l->sigma, t);
	return heavy_below(l, t / u);
}

double tw_cost_law_above(const struct tw_cost_law *l, double share)
{
	double low = 0, high = l->mean;

	if (l->constant)
		return l->mean;
	while (1 - tw_cost_law_below(l, high) > share && high < 1e12 * l->mean)
		high *= 2;
	for (int k = 0; k < 60; k++) {
		const double middle = (low + high) / 2;

		*(1 - tw_cost_law_below(l, middle) > share ? &low : &high) = middle;
	}
	return high;
}
