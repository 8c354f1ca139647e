/* SPDX-License-Identifier: Apache-2.0 */
/* statistics.h - mean and spread of measurements, and the interval of a difference. */
#ifndef TW_BASE_STATISTICS_H
#define TW_BASE_STATISTICS_H

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

/* The mean difference of pairs, and its confidence interval. */
struct tw_paired {
	size_t pairs;
	double difference; /* NAN: there is no pair */
	double half;       /* of the 95 % interval (Student's t); NAN: fewer than 2 pairs */
};
/* Sums over pairs; begins with zeros. */
struct tw_pairing {
	size_t pairs;
	double mean, squares; /* of the differences; squares of what they are off the mean */
};
/* One pair; nothing if one of the two is no number. */
void tw_pairing_add(struct tw_pairing *p, double a, double b);
struct tw_paired tw_pairing_end(const struct tw_pairing *p);

#endif
