/* SPDX-License-Identifier: Apache-2.0 */
/* stopwatch.h - the clock that measurements of a job on this machine read. */
#ifndef TW_QUERY_STOPWATCH_H
#define TW_QUERY_STOPWATCH_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds since some moment. */
static inline int64_t tw_stopwatch(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* Seconds since the stopwatch showed `from`. */
static inline double tw_stopwatch_seconds(int64_t from)
{
	return (double)(tw_stopwatch() - from) * 1e-9;
}

#endif
