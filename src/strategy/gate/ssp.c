/* SPDX-License-Identifier: Apache-2.0 */
/* ssp.c - stale synchronous parallel: apply at once, hold whoever is too far ahead (Ho 2013).
 *
 * Only answers are held, so a worker starts no step while its clock is more than `lead` above the
 * slowest; what it has pushed is in already (read-my-writes). */
#include "strategy/gate.h"

struct options {
	uint32_t lead;
};

static const struct tw_option rows[] = {
	TW_OPTION(struct options, lead, TW_U32, "3", "contributions", 0, 4294967295.0,
		  "how far ahead of the slowest worker a worker may start a step"),
	TW_OPTION_END
};

static double lead(const void *options)
{
	return ((const struct options *)options)->lead;
}

static bool may_read(const void *options, const struct tw_clocks *clocks, uint64_t clock,
		     uint32_t *whom)
{
	const struct options *o = options;

	/* an idle worker may be behind `least`, and with nobody active there is no minimum */
	if (!clocks->active_count || clock <= clocks->least || clock - clocks->least <= o->lead)
		return true;
	*whom = clocks->least_slot;
	return false;
}

const struct tw_gate tw_gate_ssp = {
	.name = "ssp",
	.help = "stale synchronous parallel: no worker runs more than `lead` ahead of the slowest",
	.options = rows,
	.options_bytes = sizeof(struct options),
	.traits = TW_GATE_HOLDS,
	.lead = lead,
	.may_read = may_read,
};
