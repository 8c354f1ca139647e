/* SPDX-License-Identifier: Apache-2.0 */
/* statistics.c - mean and spread over seeds, and whether a difference is more than noise. */
#include "compare/statistics.h"

#include <math.h>

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

struct tw_paired tw_pair(const double *a, const double *b, size_t n)
{
	struct tw_paired p = { .difference = NAN, .half = NAN };
	double sum = 0, squares = 0;

	for (size_t k = 0; k < n; k++)
		if (!isnan(a[k]) && !isnan(b[k])) {
			sum += a[k] - b[k];
			p.pairs++;
		}
	if (!p.pairs)
		return p;
	p.difference = sum / (double)p.pairs;
	for (size_t k = 0; k < n; k++)
		if (!isnan(a[k]) && !isnan(b[k])) {
			const double off = a[k] - b[k] - p.difference;

			squares += off * off;
		}
	if (p.pairs > 1)
		p.half = tw_student_quantile(0.95, p.pairs - 1) *
			 sqrt(squares / (double)(p.pairs - 1) / (double)p.pairs);
	return p;
}

bool tw_paired_noise(const struct tw_paired *p)
{
	return !isnan(p->half) && fabs(p->difference) <= p->half;
}
