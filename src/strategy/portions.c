/* SPDX-License-Identifier: Apache-2.0 */
/* portions.c - the gate of a run that an optimiser drives: workers contribute portions of one
 * evaluation, and what they compute for an evaluation that is over is of no use. */
#include "strategy/gate.h"

static bool abandons(const void *options)
{
	(void)options;
	return true;
}

const struct tw_gate tw_gate_portions = {
	.name = "portions",
	.help = "portions of an evaluation are added up in order",
	.traits = TW_GATE_ROUNDS | TW_GATE_COLLECTS,
	.abandons = abandons,
};
