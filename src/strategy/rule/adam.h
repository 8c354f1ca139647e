/* SPDX-License-Identifier: Apache-2.0 */
/* adam.h - the options of adam and its kin, and the step that adam and adamw share. */
#ifndef TW_STRATEGY_RULE_ADAM_H
#define TW_STRATEGY_RULE_ADAM_H

#include "strategy/rule.h"

struct tw_adam_options {
	double beta1, beta2;
	float epsilon;
};

/* Rows of a struct with beta1, beta2 and epsilon. */
#define TW_ADAM_ROWS(type)                                                                         \
	TW_OPTION(type, beta1, TW_F64, "0.9", NULL, 0, 0.999999,                                   \
		  "share of the old value that the running mean keeps"),                           \
		TW_OPTION(type, beta2, TW_F64, "0.999", NULL, 0, 0.9999999,                        \
			  "share of the old value that the running mean square keeps"),            \
		TW_OPTION(type, epsilon, TW_F32, "1e-8", NULL, 0, 1e6,                             \
			  "added to the root of the mean square")
extern const struct tw_option tw_adam_rows[];
extern const char *const tw_adam_names[];

/* out = w (1 - rate decay) - rate d, with d the bias-corrected mean over the root of the
 * bias-corrected mean square; the direction is d. */
void tw_adam_step(const struct tw_adam_options *o, const struct tw_apply *a, float decay);

#endif
