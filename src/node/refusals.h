/* SPDX-License-Identifier: Apache-2.0 */
/* refusals.h - what is true of a plan, and what of it cannot be done together. */
#ifndef TW_NODE_REFUSALS_H
#define TW_NODE_REFUSALS_H

#include "base/facts.h"
#include "node/plan.h"

/* Add the facts of a plan (plan_facts.c); false without memory. */
bool tw_plan_add_facts(const struct tw_plan *p, struct tw_facts *f);

extern const struct tw_refusal_row tw_refusals_gap[], tw_refusals_delta[], tw_refusals_outside[],
	tw_refusals_state[], tw_refusals_stream[], tw_refusals_momentum[], tw_refusals_fetch[],
	tw_refusals_steps[], tw_refusals_project[];
extern const struct tw_refusal_row tw_idle_delta[]; /* as tw_idle_optimiser */

#endif
