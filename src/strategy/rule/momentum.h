/* SPDX-License-Identifier: Apache-2.0 */
/* momentum.h - the heavy ball that momentum, nag and multi share. */
#ifndef TW_STRATEGY_RULE_MOMENTUM_H
#define TW_STRATEGY_RULE_MOMENTUM_H

#include "strategy/rule.h"

struct tw_momentum_options {
	float momentum;
};

extern const struct tw_option tw_momentum_rows[];

/* v = momentum v + g, out = w - rate v; the direction is v. */
void tw_momentum_step(const struct tw_momentum_options *o, const struct tw_apply *a, float *v);

/* Where the velocity alone would take w: out = w - rate momentum v. */
void tw_momentum_ahead(const struct tw_momentum_options *o, const struct tw_apply *a,
		       const float *v, float *out);

#endif
