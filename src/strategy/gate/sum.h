/* SPDX-License-Identifier: Apache-2.0 */
/* sum.h - the option that gates which collect share: mean or total? */
#ifndef TW_STRATEGY_GATE_SUM_H
#define TW_STRATEGY_GATE_SUM_H

#include "base/option.h"

enum { TW_SUM_MEAN, TW_SUM_TOTAL };

static const char *const tw_sums[] = { [TW_SUM_MEAN] = "mean", [TW_SUM_TOTAL] = "total", NULL };

/* The row of a struct whose uint32_t `sum` it is. */
#define TW_OPTION_SUM(type)                                                                        \
	TW_OPTION_CHOICE(type, sum, "sum", "mean", tw_sums,                                        \
			 "an update takes the mean of its gradients, or their total; total is "    \
			 "mean at N times the rate")

#endif
