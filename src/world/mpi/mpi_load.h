/* SPDX-License-Identifier: Apache-2.0 */
/* mpi_load.h - finding and opening the plugin of an MPI (world/mpi/mpi_plugin.h). */
#ifndef TW_WORLD_MPI_LOAD_H
#define TW_WORLD_MPI_LOAD_H

#include "base/status.h"
#include "world/mpi/mpi_plugin.h"

enum tw_mpi_kind { TW_MPI_OPENMPI, TW_MPI_MPICH, TW_MPI_KINDS };

/* "Open MPI", "MPICH". */
const char *tw_mpi_kind_name(enum tw_mpi_kind kind);
/* The file of the plugin: beside the program or libthalweg, in ../lib/thalweg or thalweg of that
 * folder, or where this build would be installed.  False: it is in none of them. */
bool tw_mpi_find(enum tw_mpi_kind kind, char *path, size_t room);
/* Open it; it stays open until the process ends.  TW_ABSENT: there is none; TW_BAD_INPUT: it cannot
 * be used, and *why says why. */
enum tw_status tw_mpi_load(enum tw_mpi_kind kind, const struct tw_mpi_plugin **out,
			   struct tw_error *why);

#endif
