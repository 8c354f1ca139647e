/* SPDX-License-Identifier: Apache-2.0 */
/* library.c - the MPI library adds up (MPI_Iallreduce), in whatever way it finds best.
 *
 * Which additions it makes in which order is not known, so it promises no bits.  The moves below say
 * what it costs at least: none of them is made. */
#include "strategy/reduction_owner.h"

const struct tw_reduction tw_reduction_library = {
	.name = "library",
	.help = "the MPI library adds up (MPI_Iallreduce); only on MPI ranks, and promises no bits",
	.traits = TW_REDUCTION_LIBRARY,
	.chunks = tw_owner_chunks,
	.moves = tw_owner_moves,
	.move = tw_owner_move,
	.busiest = tw_owner_busiest,
	.seconds = tw_owner_seconds,
};
