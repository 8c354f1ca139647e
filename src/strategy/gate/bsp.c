/* SPDX-License-Identifier: Apache-2.0 */
/* bsp.c - synchronous: a round waits for everybody, then all go on from the same parameters. */
#include "strategy/gate.h"
#include "strategy/gate/sum.h"

enum { TOGETHER, IN_TURN };

struct options {
	uint32_t apply;
	struct tw_summing sum;
};

static const char *const ways[] = { [TOGETHER] = "sum", [IN_TURN] = "in-turn", NULL };

static const struct tw_option rows[] = { TW_OPTION_CHOICE(
						 struct options, apply, "apply", "sum", ways,
						 "apply the gradients of a round as one, or in "
						 "turn (each at rate/N, unless sum: total)"),
					 TW_OPTION_ROBUST_SUM(struct options), TW_OPTION_END };

static bool in_turn(const void *options)
{
	return ((const struct options *)options)->apply == IN_TURN;
}

const struct tw_gate tw_gate_bsp = {
	.name = "bsp",
	.help = "synchronous rounds: every worker contributes before any worker continues",
	.options = rows,
	.options_bytes = sizeof(struct options),
	.traits = TW_GATE_ROUNDS | TW_GATE_COLLECTS | TW_GATE_IN_TURN,
	.in_turn = in_turn,
	.sum = offsetof(struct options, sum),
};
