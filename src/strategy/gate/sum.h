/* SPDX-License-Identifier: Apache-2.0 */
/* sum.h - the options that gates which collect share: what becomes of several contributions? */
#ifndef TW_STRATEGY_GATE_SUM_H
#define TW_STRATEGY_GATE_SUM_H

#include "base/option.h"
#include "strategy/gate.h"

static const char *const tw_sums[] __attribute__((unused)) = {
	[TW_SUM_MEAN] = "mean",
	[TW_SUM_TOTAL] = "total",
	NULL,
};
static const char *const tw_robust_sums[] __attribute__((unused)) = {
	[TW_SUM_MEAN] = "mean",
	[TW_SUM_TOTAL] = "total",
	[TW_SUM_MEDIAN] = "median",
	[TW_SUM_TRIMMED] = "trimmed",
	NULL,
};

/* The row of a struct whose struct tw_summing `sum` it is. */
#define TW_OPTION_SUM(type)                                                                        \
	TW_OPTION_CHOICE(type, sum.kind, "sum", "mean", tw_sums,                                   \
			 "an update applies the mean of its gradients, or their total, which "     \
			 "equals the mean at N times the rate")

/* The rows of such a struct, for gates of rounds. */
#define TW_OPTION_ROBUST_SUM(type)                                                                 \
	TW_OPTION_CHOICE(type, sum.kind, "sum", "mean", tw_robust_sums,                            \
			 "an update takes the mean of its gradients, or their total (the mean at " \
			 "N times the rate); or, against a few workers that send nonsense, the "   \
			 "median of each parameter, or its mean without the largest and "          \
			 "smallest (trimmed)"),                                                    \
		TW_OPTION_AS(type, sum.trim, "trim", TW_F32, "0.25", NULL, 0, 0.499999,            \
			     "sum: trimmed: share of the workers that is left out at each end")

#endif
