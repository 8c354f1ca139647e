/* SPDX-License-Identifier: Apache-2.0 */
/* clock.h - the clock that nobody can set.  Actors have the world's instead. */
#ifndef TW_BASE_CLOCK_H
#define TW_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds since some moment. */
static inline int64_t tw_clock(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* Seconds since the clock showed `from`. */
static inline double tw_clock_seconds(int64_t from)
{
	return (double)(tw_clock() - from) * 1e-9;
}

#endif
