/* SPDX-License-Identifier: Apache-2.0 */
/* reduction_owner.c - chunk c belongs to peer c: all send it theirs, it adds them in the order of
 * ranks and gives the sum to all. */
#include "strategy/reduction_owner.h"

#include <math.h>

uint32_t tw_owner_chunks(uint32_t peers)
{
	return peers;
}

uint32_t tw_owner_moves(uint32_t peers, uint32_t rank, uint32_t chunk)
{
	return rank == chunk ? 2 * peers - 1 : 3;
}

/* The owner gives to those after it first, so that owners do not give to the same one at once. */
struct tw_move tw_owner_move(uint32_t peers, uint32_t rank, uint32_t chunk, uint32_t k)
{
	if (rank == chunk && k < peers)
		return (struct tw_move){ TW_MOVE_ADD, k };
	if (rank == chunk)
		return (struct tw_move){ TW_MOVE_GIVE, (rank + 1 + k - peers) % peers };
	if (k == 0)
		return (struct tw_move){ TW_MOVE_ADD, rank };
	return (struct tw_move){ k == 1 ? TW_MOVE_SEND : TW_MOVE_TAKE, chunk };
}

double tw_owner_busiest(const struct tw_reduction_load *l)
{
	return 2 * l->bytes * (l->peers - 1) / l->peers;
}

/* Everybody sends N - 1 chunks, then gives N - 1.  The first part of the last chunk to come lets
 * the giving begin. */
double tw_owner_seconds(const struct tw_reduction_load *l)
{
	const double chunk = l->bytes / l->peers;
	const double wait = l->latency + (fmin(chunk, l->part) - chunk) * l->per_byte;

	if (l->peers == 1)
		return 0;
	return 2 * (l->peers - 1) * chunk * l->per_byte + l->latency + fmax(0, wait);
}
