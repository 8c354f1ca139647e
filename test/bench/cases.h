/* SPDX-License-Identifier: Apache-2.0 */
/* cases.h - run a bench in a test, and read its cases. */
#ifndef TW_TEST_BENCH_CASES_H
#define TW_TEST_BENCH_CASES_H

#include "bench/bench.h"

/* Run it; what it says on the log goes nowhere, and no process may be left.  The caller's. */
json_t *bench_result(const struct tw_bench *bench, struct tw_bench_how how);
/* The case of that name, and its number. */
const json_t *get(const json_t *result, const char *name);
double field(const json_t *c, const char *name);
/* Every child was waited for. */
void no_child_is_left(void);

#endif
