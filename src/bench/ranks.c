/* SPDX-License-Identifier: Apache-2.0 */
/* ranks.c - benches on the ranks of an MPI: all ranks run the same bench, and rank 0 reports. */
#include "bench/ranks.h"

enum tw_status tw_bench_ranks(const struct tw_bench_how *how, uint32_t wanted, struct tw_error *why)
{
	if (tw_ranks_count(how->ranks) == wanted)
		return TW_OK;
	return tw_fail(why, TW_BAD_INPUT,
		       "this bench is for %u ranks, and the launcher started %u; use mpirun -n %u",
		       wanted, tw_ranks_count(how->ranks), wanted);
}
