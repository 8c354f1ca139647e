/* SPDX-License-Identifier: Apache-2.0 */
/* floors.h - what benches compare with: the same bytes by plain calls of MPI. */
#ifndef TW_MPI_FLOORS_H
#define TW_MPI_FLOORS_H

#include "world/mpi/mpi_plugin.h"

bool tw_floor_exchange(size_t n, size_t block, unsigned times, tw_floor_pass pass, double *out);
bool tw_floor_reduce(size_t n, unsigned times, double *out);
double tw_floor_sum(double x);
void tw_floor_least(double *x, size_t n);

#endif
