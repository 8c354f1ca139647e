/* SPDX-License-Identifier: Apache-2.0 */
/* bench.h - how fast it is, against floors measured in the same run on the same machine. */
#ifndef TW_BENCH_BENCH_H
#define TW_BENCH_BENCH_H

#include "base/log.h"
#include "base/status.h"

#include <jansson.h>
#include <stddef.h>

struct tw_bench {
	const char *name, *help;
	/* Append cases to the array.  Takes seconds; says on the log what it does. */
	enum tw_status (*run)(const struct tw_log *log, json_t *cases, struct tw_error *why);
};

extern const struct tw_bench tw_bench_exchange, tw_bench_sim, tw_bench_codec;
extern const struct tw_bench *const tw_bench_all[]; /* NULL at the end */

/* Run one bench, or all for NULL.  *result is {"cases": [{name, value, unit, floor, ratio}], ...},
 * the caller's reference. */
enum tw_status tw_bench_run(const struct tw_bench *one, const struct tw_log *log, json_t **result,
			    struct tw_error *why);

/* Add a case; ratio is value / floor. */
enum tw_status tw_bench_case(json_t *cases, const char *name, double value, const char *unit,
			     double floor, struct tw_error *why);
/* The median; sorts what it is given. */
double tw_median(double *x, size_t n);

#endif
