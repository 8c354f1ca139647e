/* SPDX-License-Identifier: Apache-2.0 */
/* mesh.c - every worker sends its contribution to every other one (Strom 2015). */
#include "strategy/mixing.h"

static double bytes(uint32_t peers, double vector, double message)
{
	(void)vector;
	return (peers - 1) * message;
}

const struct tw_mixing tw_mixing_mesh = {
	.name = "mesh",
	.help = "every worker sends its contributions to all others, and all of them apply them",
	.traits = TW_MIXING_SPREADS,
	.bytes = bytes,
};
