/* SPDX-License-Identifier: Apache-2.0 */
/* refusals.h - which choices of gates, rules, codecs, topologies and pipelines do not go together.
 * spec/check.c says in which order the tables are asked. */
#ifndef TW_STRATEGY_REFUSALS_H
#define TW_STRATEGY_REFUSALS_H

#include "base/facts.h"

extern const struct tw_refusal_row tw_refusals_alone[], tw_refusals_late[], tw_refusals_robust[],
	tw_refusals_lockfree[], tw_refusals_rounds[], tw_refusals_codec[], tw_refusals_topology[],
	tw_refusals_staged[], tw_refusals_staged_gate[], tw_refusals_vertical[],
	tw_refusals_lanes[];

/* Fields that say nothing when the facts are true: they are left out of the explained job, and
 * refused only if the user gave them. */
extern const struct tw_refusal_row tw_idle_optimiser[];

#endif
