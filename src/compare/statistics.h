/* SPDX-License-Identifier: Apache-2.0 */
/* statistics.h - mean and spread over seeds, and whether a difference is more than noise. */
#ifndef TW_COMPARE_STATISTICS_H
#define TW_COMPARE_STATISTICS_H

#include <stdbool.h>
#include <stddef.h>

/* Of those values that are numbers. */
struct tw_summary {
	size_t n;
	double mean;      /* NAN: n is 0 */
	double deviation; /* sample standard deviation; NAN: n is below 2 */
};
struct tw_summary tw_summarise(const double *value, size_t n);

/* P(|T| < t) for Student's t with `freedom` degrees of freedom, which is at least 1. */
double tw_student_within(double t, size_t freedom);
/* The t with P(|T| < t) = share; 0 < share < 1. */
double tw_student_quantile(double share, size_t freedom);

/* The mean of a[k] - b[k] over the pairs in which both are numbers, and its confidence interval. */
struct tw_paired {
	size_t pairs;
	double difference; /* NAN: there is no pair */
	double half;       /* of the 95 % interval; NAN: fewer than 2 pairs */
};
struct tw_paired tw_pair(const double *a, const double *b, size_t n);
/* Is 0 in the interval?  False where there is none. */
bool tw_paired_noise(const struct tw_paired *p);

#endif
