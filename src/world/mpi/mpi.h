/* SPDX-License-Identifier: Apache-2.0 */
/* mpi.h - the world of MPI ranks: actors of one rank live in the threads world, and the main thread
 * carries their messages to the other ranks by an MPI that a plugin brings
 * (world/mpi/mpi_plugin.h).
 *
 * A rank has two sides.  The *loop* is the main thread: it alone calls MPI, from tw_mpi_open to the
 * end.  The *program* is a thread of its own and does everything else: on rank 0 it reads the job
 * and runs the master, elsewhere it follows what rank 0 orders.  So heartbeats go on while a rank
 * reads its data or writes a checkpoint.
 *
 * A run has parts, which begin with an order of rank 0 and end when it says so; most runs have one.
 *
 * Ranks are fixed.  Each of them tells rank 0 that it is alive, and rank 0 tells each.  When one is
 * silent for the limit, or MPI reports an error, the loop says so and ends all ranks by MPI_Abort:
 * it never returns.  Whatever the launcher does then, no rank outlives another by much more than
 * the limit.
 *
 * Signals ask for a checkpoint and for the end.  Whichever rank gets one tells rank 0, which first
 * asks all ranks whether they are there: after a death no checkpoint is begun. */
#ifndef TW_WORLD_MPI_H
#define TW_WORLD_MPI_H

#include "actor/cluster.h"
#include "world/mpi/mpi_plugin.h"

struct tw_mpi;

struct tw_mpi_options {
	const struct tw_mpi_plugin *plugin;
	struct tw_heap *heap;
	const struct tw_log *log;
	const _Atomic int *signals; /* so far, that ask this process to stop */
	uint32_t ranks;             /* that the launcher says it has started; 0: not known */
};

/* Join the other ranks.  The caller is the main thread.  TW_BAD_INPUT: there are not as many as the
 * launcher says. */
enum tw_status tw_mpi_open(const struct tw_mpi_options *o, struct tw_mpi **out,
			   struct tw_error *why);
/* Run the loop, and `program` in a thread beside it, until the programs of all ranks have returned
 * and MPI is left.  Returns what the program returned.  Frees m. */
int tw_mpi_main(struct tw_mpi *m, int (*program)(void *arg), void *arg);

/* What follows is for the program's thread. */

uint32_t tw_mpi_rank(const struct tw_mpi *m);
uint32_t tw_mpi_size(const struct tw_mpi *m);
/* How many ranks are on the host of this one. */
uint32_t tw_mpi_neighbours(const struct tw_mpi *m);
/* Signals so far that the master is to hear of: those after which all ranks were there. */
const _Atomic int *tw_mpi_interrupts(const struct tw_mpi *m);

/* Have the loop call this, and wait until it has: `arg`, and the plugin, whose thread the loop is.
 * Benches use it; no message passes meanwhile. */
void tw_mpi_call(struct tw_mpi *m, void (*call)(const struct tw_mpi_plugin *p, void *arg),
		 void *arg);

/* Seconds from asking for a sum to having it, of the last ones, the newest first; between parts.
 * Returns how many. */
size_t tw_mpi_sums_took(const struct tw_mpi *m, double *out, size_t most);

/* How long silence may last, ns. */
struct tw_mpi_beat {
	int64_t every, suspect, limit;
};

/* Rank 0: a part begins.  All others get the bytes of the order, and may ask for those that `read`
 * gives (any thread may call it; NULL: there are none) until the part is over.  Returns when all of
 * them have said that they are ready; when one cannot be, its status and sentence. */
struct tw_mpi_order {
	const void *bytes;
	size_t count;
	struct tw_mpi_beat beat;
	enum tw_status (*read)(void *arg, uint64_t from, void *to, size_t bytes);
	void *arg;
};
enum tw_status tw_mpi_begin(struct tw_mpi *m, const struct tw_mpi_order *o, struct tw_error *why);
/* Rank 0: the part is over. */
void tw_mpi_over(struct tw_mpi *m);

/* Other ranks: wait for the next order, whose bytes are the caller's block; NULL: rank 0 has ended,
 * and so should this rank. */
struct tw_block *tw_mpi_next(struct tw_mpi *m);
/* ... get what rank 0's `read` gives; arg is the struct tw_mpi (a tw_transfer_receive). */
enum tw_status tw_mpi_ask(void *arg, uint64_t from, void *to, size_t bytes, struct tw_error *why);
/* ... ready, or not: then rank 0 ends the part with this sentence. */
void tw_mpi_ready(struct tw_mpi *m, const struct tw_error *why);
/* ... this rank cannot go on: rank 0 ends the part with this sentence. */
void tw_mpi_fail(struct tw_mpi *m, const struct tw_error *why);

/* Run the seats of this rank until the part is over, here or on rank 0.  rank_of[node] says on
 * which rank each node is; it has cluster->nodes elements.  ran->totals are filled on rank 0.
 * `helpers` as in struct tw_threads_options. */
enum tw_status tw_mpi_run(struct tw_mpi *m, const struct tw_cluster *cluster,
			  const uint32_t *rank_of, uint32_t helpers, struct tw_ran *ran);

#endif
