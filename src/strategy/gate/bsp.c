/* SPDX-License-Identifier: Apache-2.0 */
/* bsp.c - synchronous: a round waits for everybody, then all go on from the same parameters. */
#include "strategy/gate.h"

enum { SUM, IN_TURN };

struct options {
	uint32_t apply;
};

static const char *const ways[] = { [SUM] = "sum", [IN_TURN] = "in-turn", NULL };

static const struct tw_option rows[] = {
	TW_OPTION_CHOICE(struct options, apply, "apply", "sum", ways,
			 "sum a round's gradients, or apply them in turn at rate/N each"),
	TW_OPTION_END
};

static uint32_t quorum(const void *options, uint32_t stripes, uint32_t busy)
{
	(void)options, (void)busy;
	return stripes;
}

static bool abandons(const void *options)
{
	(void)options;
	return false; /* nobody is ever late */
}

static bool in_turn(const void *options)
{
	return ((const struct options *)options)->apply == IN_TURN;
}

static enum tw_verdict admit(const void *options, uint32_t worker, uint64_t staleness)
{
	(void)options, (void)worker, (void)staleness;
	return TW_ACCUMULATE;
}

const struct tw_gate tw_gate_bsp = {
	.name = "bsp",
	.help = "synchronous rounds: every worker contributes before anyone goes on",
	.options = rows,
	.options_bytes = sizeof(struct options),
	.traits = TW_GATE_ROUNDS | TW_GATE_COLLECTS | TW_GATE_IN_TURN,
	.quorum = quorum,
	.abandons = abandons,
	.in_turn = in_turn,
	.admit = admit,
};
