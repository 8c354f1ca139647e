/* SPDX-License-Identifier: Apache-2.0 */
/* direct.c - chunk c belongs to peer c: all send it theirs, it adds them in the order of ranks and
 * gives the sum to all.
 *
 * The order is the one in which a server adds the contributions of a round, so the bits are the
 * same; the bytes are those of a ring.  Every peer talks to every other one. */
#include "strategy/reduction_owner.h"

const struct tw_reduction tw_reduction_direct = {
	.name = "direct",
	.help = "each peer adds up one part of the vector for all; the same bits as with a server",
	.chunks = tw_owner_chunks,
	.moves = tw_owner_moves,
	.move = tw_owner_move,
	.busiest = tw_owner_busiest,
	.seconds = tw_owner_seconds,
};
