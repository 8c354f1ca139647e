/* SPDX-License-Identifier: Apache-2.0 */
/* mpi_plugin.h - what Thalweg asks of an MPI, as a table that a plugin offers.
 *
 * A plugin is a shared object that links one MPI (src/mpi/plugin.c, compiled once for each MPI that
 * is found).  Nothing else links MPI: the program opens the plugin of the launcher that started it
 * (world/mpi/mpi_load.h).
 *
 *  (1) All functions are called by the thread that called `init` (MPI_THREAD_FUNNELED), which is
 *      the main thread of the process.
 *  (2) No function but `init`, `hosts`, `finalize` and the floors waits for other
 *      ranks.
 *  (3) False means that MPI reported an error; `why` has its sentence.  Nothing is printed, and
 *      nothing ends the process but `abort`.
 *  (4) Buffers of what was begun belong to the plugin until `testsome` returns its cookie. */
#ifndef TW_WORLD_MPI_PLUGIN_H
#define TW_WORLD_MPI_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TW_MPI_ABI 2 /* grows when the table changes: a plugin of another build is refused */
#define TW_MPI_ANY UINT32_MAX
#define TW_MPI_WHY 400 /* room for a sentence */

/* Something that was begun is over. */
struct tw_mpi_done {
	void *cookie;
	uint32_t source; /* irecv: who sent it */
	size_t bytes;    /* irecv: how long it was */
	bool failed;     /* MPI reported an error */
};

/* One pass over parameters with what was pushed. */
typedef void (*tw_floor_pass)(float *parameters, const float *gradient, size_t n);

struct tw_mpi_plugin {
	uint32_t abi;
	const char *name; /* "Open MPI" */
	/* The library's own words about its version; may be called before init. */
	void (*version)(char *out, size_t room);
	/* Join the other ranks.  Called once.  From here on the process must not fork. */
	bool (*init)(uint32_t *rank, uint32_t *size, char why[TW_MPI_WHY]);
	/* Names of the hosts of all ranks, 0-terminated, `each` bytes apart.  All ranks call it. */
	bool (*hosts)(char *out, size_t each, char why[TW_MPI_WHY]);
	/* Begin to send or receive; at most `bytes`, below 2 GiB. */
	bool (*isend)(const void *from, size_t bytes, uint32_t to, uint32_t tag, void *cookie,
		      char why[TW_MPI_WHY]);
	bool (*irecv)(void *to, size_t bytes, uint32_t from, uint32_t tag, void *cookie,
		      char why[TW_MPI_WHY]);
	/* Make progress, and say what is over; *done is valid until the next call. */
	size_t (*testsome)(const struct tw_mpi_done **done);
	/* Begin to add up floats over all ranks, which begin all sums in the same order. */
	bool (*iallreduce)(const float *in, float *out, size_t n, void *cookie,
			   char why[TW_MPI_WHY]);
	bool (*ibarrier)(void *cookie, char why[TW_MPI_WHY]);
	/* End all ranks, as well as the launcher can. */
	void (*abort)(int code);
	/* Withdraw what is not over, and leave.  All ranks call it. */
	void (*finalize)(void);
	/* Floors of benches, which all ranks call: the median of seconds in which plain calls of
	 * MPI move n floats from rank 1 to rank 0 in blocks, make the pass over each and move them
	 * back; in which a bare MPI_Iallreduce, tested without rest, adds up n floats.  False
	 * without memory. */
	bool (*floor_exchange)(size_t n, size_t block, unsigned times, tw_floor_pass pass,
			       double *out);
	bool (*floor_reduce)(size_t n, unsigned times, double *out);
	/* Over all ranks, which call it together: the sum of a number; the least of each of n. */
	double (*floor_sum)(double x);
	void (*floor_least)(double *x, size_t n);
};

/* The name that each plugin has for its table. */
#define TW_MPI_SYMBOL "tw_mpi_plugin"

#endif
