/* SPDX-License-Identifier: Apache-2.0 */
/* adam.h - the step that adam and adamw share. */
#ifndef TW_STRATEGY_RULE_ADAM_H
#define TW_STRATEGY_RULE_ADAM_H

#include "strategy/rule.h"

struct tw_adam_options {
	double beta1, beta2;
	float epsilon;
};

extern const struct tw_option tw_adam_rows[];
extern const char *const tw_adam_names[];

/* out = w (1 - rate decay) - rate d, with d the bias-corrected mean over the root of the
 * bias-corrected mean square; the direction is d. */
void tw_adam_step(const struct tw_adam_options *o, const struct tw_apply *a, float decay);

#endif
