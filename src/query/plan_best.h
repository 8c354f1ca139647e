/* SPDX-License-Identifier: Apache-2.0 */
/* plan_best.h - which of several predicted strategies is best; for plan_strategies.c. */
#ifndef TW_QUERY_PLAN_BEST_H
#define TW_QUERY_PLAN_BEST_H

#include <jansson.h>

/* For each number of workers in `rows`, the best preset of all (family null) and of each family:
 * [{workers, family, strategy, row}], where `row` is its place in `rows`.  Presets that are not
 * predicted or do not fit into the memory are left out, and so is a family without others. */
json_t *tw_plan_best(const json_t *rows);

#endif
