/* SPDX-License-Identifier: Apache-2.0 */
/* optimiser_refusals.c - fields that have no meaning while an optimiser trains, in the order of
 * fields, and what to use instead. */
#include "strategy/refusals.h"

#define IDLE(because)                                                                              \
	"has no effect with optimiser: [optimiser], because " because                              \
	"; leave this out, or leave optimiser: out"

const struct tw_refusal_row tw_idle_optimiser[] = {
	{ "optimises", "data.global_batch", NULL,
	  IDLE("workers compute portions; use optimiser.batch") },
	{ "optimises", "data.accumulate", NULL,
	  IDLE("workers compute portions; use optimiser.portion") },
	{ "optimises", "data.deal", NULL, IDLE("any worker may compute any portion") },
	{ "optimises", "data.shuffle.", NULL, IDLE("it takes all samples of a portion at once") },
	{ "optimises", "train.steps", NULL,
	  IDLE("an optimiser counts evaluations; use optimiser.evaluations") },
	{ "optimises", "train.updates", NULL,
	  IDLE("an optimiser counts iterations; use optimiser.iterations") },
	{ "optimises", "train.warm.", NULL, IDLE("an optimiser needs no warm start") },
	{ "optimises", "train.on_divergence.", NULL, IDLE("a line search does not diverge") },
	{ "optimises", "train.gap", NULL,
	  IDLE("gradients are of the very point that is searched from") },
	{ "optimises", "update.", NULL, IDLE("the optimiser takes the place of update:") },
	{ "optimises", "strategy.", NULL, IDLE("the optimiser takes the place of strategy:") },
	{ "optimises", "sim.delay.", NULL, IDLE("sim.delay delays gradients of update:") },
	{ NULL },
};
