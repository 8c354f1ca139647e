/* SPDX-License-Identifier: Apache-2.0 */
/* median.c - the middle one of some measurements. */
#include "base/median.h"

#include <stdlib.h>

static int ascending(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double tw_median(double *x, size_t n)
{
	if (!n)
		return 0.0;
	qsort(x, n, sizeof *x, ascending);
	return n % 2 ? x[n / 2] : 0.5 * (x[n / 2 - 1] + x[n / 2]);
}
