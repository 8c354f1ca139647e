/* SPDX-License-Identifier: Apache-2.0 */
/* nesterov.h - the options that the outer rules with Nesterov's momentum share. */
#ifndef TW_STRATEGY_OUTER_NESTEROV_H
#define TW_STRATEGY_OUTER_NESTEROV_H

#include "strategy/outer.h"

struct tw_nesterov_options {
	float rate, momentum;
};

static const struct tw_option tw_nesterov_rows[] = {
	TW_OPTION(struct tw_nesterov_options, rate, TW_F32, "0.7", NULL, 0, 1000, "learning rate"),
	TW_OPTION(struct tw_nesterov_options, momentum, TW_F32, "0.9", NULL, 0, 0.999999,
		  "share of the momentum that stays"),
	TW_OPTION_END,
};

#endif
