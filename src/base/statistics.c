/* SPDX-License-Identifier: Apache-2.0 */
/* statistics.c - mean and spread of measurements, and the interval of a difference. */
#include "base/statistics.h"

#include <math.h>
#include <stdbool.h>

struct tw_summary tw_summarise(const double *value, size_t n)
{
	struct tw_summary s = { .mean = NAN, .deviation = NAN };
	double sum = 0, squares = 0;

	for (size_t k = 0; k < n; k++)
		if (!isnan(value[k])) {
			sum += value[k];
			s.n++;
		}
	if (s.n)
		s.mean = sum / (double)s.n;
	for (size_t k = 0; k < n; k++)
		if (!isnan(value[k]))
			squares += (value[k] - s.mean) * (value[k] - s.mean);
	if (s.n > 1)
		s.deviation = sqrt(squares / (double)(s.n - 1));
	return s;
}

/* With whole degrees of freedom the integral of the density is a finite sum over powers of the
 * cosine of atan(t / sqrt(freedom)) (Abramowitz and Stegun 26.7.3 and 26.7.4). */
double tw_student_within(double t, size_t freedom)
{
	const double angle = atan(t / sqrt((double)freedom)), square = cos(angle) * cos(angle);
	const bool odd = freedom % 2;
	double term = odd ? cos(angle) : 1, sum = 0;

	for (size_t k = odd ? 3 : 2; k <= freedom; k += 2) {
		sum += term;
		term *= square * (double)(k - 1) / (double)k;
	}
	return odd ? (angle + sin(angle) * sum) * 2 / M_PI : sin(angle) * sum;
}

double tw_student_quantile(double share, size_t freedom)
{
	double low = 0, high = 1;

	while (tw_student_within(high, freedom) < share && high < 1e15)
		high *= 2;
	for (int k = 0; k < 200; k++) {
		const double middle = (low + high) / 2;

		*(tw_student_within(middle, freedom) < share ? &low : &high) = middle;
	}
	return (low + high) / 2;
}

/* After Welford: no sum of squares from which another one is taken away. */
void tw_pairing_add(struct tw_pairing *p, double a, double b)
{
	const double d = a - b, off = d - p->mean;

	if (isnan(a) || isnan(b))
		return;
	p->pairs++;
	p->mean += off / (double)p->pairs;
	p->squares += off * (d - p->mean);
}

struct tw_paired tw_pairing_end(const struct tw_pairing *p)
{
	const double n = (double)p->pairs;

	return (struct tw_paired){
		.pairs = p->pairs,
		.difference = p->pairs ? p->mean : NAN,
		.half = p->pairs < 2 ? NAN
				     : tw_student_quantile(0.95, p->pairs - 1) *
					       sqrt(p->squares / (n - 1) / n),
	};
}
