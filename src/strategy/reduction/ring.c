/* SPDX-License-Identifier: Apache-2.0 */
/* ring.c - every chunk goes round the ring: once to be added up, once more to be handed out.
 *
 * Chunk c begins at rank c.  Place p of its way is rank c + p: it adds its own input to what comes
 * from the one before, so the last place has the sum, which then goes on to places 0, 1, ... */
#include "strategy/reduction.h"

#include <math.h>

static uint32_t chunks(uint32_t peers)
{
	return peers;
}

static uint32_t place(uint32_t peers, uint32_t rank, uint32_t chunk)
{
	return (rank + peers - chunk) % peers;
}

/* Everybody adds its own input.  Then all but place 0 add, all but the last send, all but the last
 * take, all but the last but one give. */
static uint32_t moves(uint32_t peers, uint32_t rank, uint32_t chunk)
{
	const uint32_t p = place(peers, rank, chunk);

	if (peers == 1)
		return 1;
	return 1 + (p != 0) + 2 * (p != peers - 1) + (p != peers - 2);
}

static struct tw_move move(uint32_t peers, uint32_t rank, uint32_t chunk, uint32_t k)
{
	const uint32_t p = place(peers, rank, chunk);
	const uint32_t before = (rank + peers - 1) % peers, next = (rank + 1) % peers;

	if (p == 0)
		k++; /* nobody is before it */
	if (p == peers - 1 && k > 1)
		k += 2; /* it has the sum */
	switch (k) {
	case 0:
		return (struct tw_move){ TW_MOVE_ADD, before };
	case 1:
		return (struct tw_move){ TW_MOVE_ADD, rank };
	case 2:
		return (struct tw_move){ TW_MOVE_SEND, next };
	case 3:
		return (struct tw_move){ TW_MOVE_TAKE, before };
	default:
		return (struct tw_move){ TW_MOVE_GIVE, next };
	}
}

static double busiest(const struct tw_reduction_load *l)
{
	return 2 * l->bytes * (l->peers - 1) / l->peers;
}

/* 2 (N - 1) hops.  A part goes on as soon as it is there: where a chunk has several, a card sends
 * without a pause as long as the first part comes back before the last one has left. */
static double seconds(const struct tw_reduction_load *l)
{
	const double chunk = l->bytes / l->peers;
	const double hop =
		fmax(chunk * l->per_byte, l->latency + fmin(chunk, l->part) * l->per_byte);

	if (l->peers == 1)
		return 0;
	return (2 * l->peers - 3) * hop + chunk * l->per_byte + l->latency;
}

const struct tw_reduction tw_reduction_ring = {
	.name = "ring",
	.help = "each peer sends to the next one; the bytes do not grow with the number of peers",
	.chunks = chunks,
	.moves = moves,
	.move = move,
	.busiest = busiest,
	.seconds = seconds,
};
