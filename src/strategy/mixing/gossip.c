/* SPDX-License-Identifier: Apache-2.0 */
/* gossip.c - pairs of workers take the mean of their parameters (AD-PSGD).
 *
 * The even ranks ask, the odd ones answer: the graph is bipartite, so that no circle can wait. */
#include "strategy/mixing.h"

static uint32_t partner(const struct tw_rng *rng, uint32_t peers, uint32_t rank, uint64_t number)
{
	const uint32_t odd = peers / 2;

	if (rank % 2 || !odd)
		return peers;
	return 2 * (uint32_t)(tw_rng_u64(rng, rank, number) % odd) + 1;
}

/* Half of the workers ask: on average, a worker sends its parameters once for each contribution. */
static double bytes(uint32_t peers, double vector, double message)
{
	return vector + (peers - 1) * message;
}

const struct tw_mixing tw_mixing_gossip = {
	.name = "gossip",
	.help = "after its own step, a worker takes the mean of its parameters and another's",
	.partner = partner,
	.bytes = bytes,
};
