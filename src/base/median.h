/* SPDX-License-Identifier: Apache-2.0 */
/* median.h - the middle one of some measurements. */
#ifndef TW_BASE_MEDIAN_H
#define TW_BASE_MEDIAN_H

#include <stddef.h>

/* The median: the mean of the middle two of an even number, 0 of none.  Sorts what it is given. */
double tw_median(double *x, size_t n);

#endif
