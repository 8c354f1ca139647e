/* SPDX-License-Identifier: Apache-2.0 */
/* cases.h - random problems for the planner, and what the best plan of each costs.
 *
 * Equal, unequal and grouped machines in turn; in a quarter of the cases memory is short. */
#ifndef TW_TEST_PLANNER_CASES_H
#define TW_TEST_PLANNER_CASES_H

#include "planner/planner.h"

#define CASES 300
#define PARTS 12
#define NODES 6

struct plan_case {
	struct tw_planner p;
	struct tw_planner_part part[PARTS];
	struct tw_planner_border border[PARTS];
	struct tw_planner_node node[NODES];
	char options[256];
};

void case_make(struct plan_case *c, uint32_t number);
/* Seconds of the best of all plans, by case; 0: there is none (optima.c). */
extern const double case_optima[CASES];

#endif
