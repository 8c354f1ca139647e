/* SPDX-License-Identifier: Apache-2.0 */
/* tree.c - a binomial tree: sums go up to rank 0, and the sum of all comes down.
 *
 * The parent of a rank is the rank without its lowest bit; the children of r are r + 1, r + 2,
 * r + 4, ... below that bit, as far as there are peers.  A child's subtree is the ranks up to the
 * next child, so adding the own input and then the children by rank adds ranks in order, in
 * brackets.
 *
 * There is no formula for the time: while parts of the sum come down, others still go up through
 * the same cards.  In one part it is 2 log2 N vectors (FireCaffe). */
#include "strategy/reduction.h"

static uint32_t chunks(uint32_t peers)
{
	(void)peers;
	return 1;
}

static uint32_t children(uint32_t peers, uint32_t rank)
{
	uint32_t k = 0;

	while ((uint64_t)rank + (1ull << k) < peers && !(rank >> k & 1))
		k++;
	return k;
}

static uint32_t moves(uint32_t peers, uint32_t rank, uint32_t chunk)
{
	(void)chunk;
	return 1 + 2 * children(peers, rank) + 2 * (rank != 0);
}

/* The largest subtree is given the sum first: it has the longest way to go. */
static struct tw_move move(uint32_t peers, uint32_t rank, uint32_t chunk, uint32_t k)
{
	const uint32_t n = children(peers, rank), parent = rank & (rank - 1);

	(void)chunk;
	if (k == 0)
		return (struct tw_move){ TW_MOVE_ADD, rank };
	if (k <= n)
		return (struct tw_move){ TW_MOVE_ADD, rank + (1u << (k - 1)) };
	k -= n + 1;
	if (rank && k < 2)
		return (struct tw_move){ k == 0 ? TW_MOVE_SEND : TW_MOVE_TAKE, parent };
	if (rank)
		k -= 2;
	return (struct tw_move){ TW_MOVE_GIVE, rank + (1u << (n - 1 - k)) };
}

static double busiest(const struct tw_reduction_load *l)
{
	return l->bytes * children(l->peers, 0);
}

const struct tw_reduction tw_reduction_tree = {
	.name = "tree",
	.help = "sums go up a binomial tree and the result comes down; few messages",
	.chunks = chunks,
	.moves = moves,
	.move = move,
	.busiest = busiest,
};
