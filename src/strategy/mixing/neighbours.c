/* SPDX-License-Identifier: Apache-2.0 */
/* neighbours.c - in every round, each worker takes the mean with its two neighbours on a ring
 * (D-PSGD).  Two workers have one neighbour each. */
#include "strategy/mixing.h"

static uint32_t chunks(uint32_t peers)
{
	(void)peers;
	return 1;
}

static uint32_t neighbours(uint32_t peers)
{
	return peers < 3 ? peers - 1 : 2;
}

static uint32_t moves(uint32_t peers, uint32_t rank, uint32_t chunk)
{
	(void)rank;
	(void)chunk;
	return 1 + 2 * neighbours(peers);
}

/* The own vector first: it is what the others get. */
static struct tw_move move(uint32_t peers, uint32_t rank, uint32_t chunk, uint32_t k)
{
	const uint32_t each = neighbours(peers);
	const uint32_t step = (k - 1) % (each ? each : 1) ? peers - 1 : 1;

	(void)chunk;
	if (k == 0)
		return (struct tw_move){ TW_MOVE_ADD, rank };
	return (struct tw_move){ k <= each ? TW_MOVE_SEND : TW_MOVE_ADD, (rank + step) % peers };
}

static double busiest(const struct tw_reduction_load *load)
{
	return neighbours(load->peers) * load->bytes;
}

static const struct tw_reduction moves_of_round = {
	.name = "neighbours",
	.chunks = chunks,
	.moves = moves,
	.move = move,
	.busiest = busiest,
	.own = true,
};

static double bytes(uint32_t peers, double vector, double message)
{
	(void)message;
	return neighbours(peers) * vector;
}

const struct tw_mixing tw_mixing_neighbours = {
	.name = "neighbours",
	.help = "in every round, a worker takes the mean of its parameters and those of its two "
		"neighbours",
	.round = &moves_of_round,
	.bytes = bytes,
};
