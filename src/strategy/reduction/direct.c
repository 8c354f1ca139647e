/* SPDX-License-Identifier: Apache-2.0 */
/* direct.c - chunk c belongs to peer c: all send it theirs, it adds them in the order of ranks and
 * gives the sum to all.
 *
 * The order is the one in which a server adds the contributions of a round, so the bits are the
 * same; the bytes are those of a ring.  Every peer talks to every other one.
 *
 * Where inputs must arrive as they were sent, all send theirs to all, and each adds up everything
 * in the same order. */
#include "strategy/reduction_owner.h"

/* --- inputs as they are --------------------------------------------------------------------- */

static uint32_t gather_chunks(uint32_t peers)
{
	(void)peers;
	return 1;
}

static uint32_t gather_moves(uint32_t peers, uint32_t rank, uint32_t chunk)
{
	(void)rank;
	(void)chunk;
	return 2 * peers - 1;
}

static struct tw_move gather_move(uint32_t peers, uint32_t rank, uint32_t chunk, uint32_t k)
{
	(void)chunk;
	if (k < peers - 1)
		return (struct tw_move){ TW_MOVE_SEND, (rank + 1 + k) % peers };
	return (struct tw_move){ TW_MOVE_ADD, k + 1 - peers };
}

static double gather_busiest(const struct tw_reduction_load *l)
{
	return l->bytes * (l->peers - 1);
}

static double gather_seconds(const struct tw_reduction_load *l)
{
	return l->peers == 1 ? 0 : gather_busiest(l) * l->per_byte + l->latency;
}

static const struct tw_reduction gather = {
	.chunks = gather_chunks,
	.moves = gather_moves,
	.move = gather_move,
	.busiest = gather_busiest,
	.seconds = gather_seconds,
	.own = true,
};

const struct tw_reduction tw_reduction_direct = {
	.name = "direct",
	.help = "each peer adds up one part of the vector for all; the same bits as with a server",
	.chunks = tw_owner_chunks,
	.moves = tw_owner_moves,
	.move = tw_owner_move,
	.busiest = tw_owner_busiest,
	.seconds = tw_owner_seconds,
	.gather = &gather,
};
