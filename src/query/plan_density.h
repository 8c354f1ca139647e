/* SPDX-License-Identifier: Apache-2.0 */
/* plan_density.h - which share of the values a codec sends, where that depends on the gradients. */
#ifndef TW_QUERY_PLAN_DENSITY_H
#define TW_QUERY_PLAN_DENSITY_H

#include "cost/cost.h"

struct tw_plan_density {
	double share;     /* of the values that are sent; 0: it could not be measured */
	double per_value; /* bytes, over all values */
};

/* Means over the first steps of one worker with the plan's codec and learning rate. */
struct tw_plan_density tw_plan_density(const struct tw_engine *e, const struct tw_plan *p,
				       uint32_t batch);

#endif
