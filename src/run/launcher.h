/* SPDX-License-Identifier: Apache-2.0 */
/* launcher.h - which launcher has started this process among others, from its environment.
 *
 * It must be known before MPI is: the wrong MPI under a launcher ends the process inside MPI_Init,
 * or starts as many separate runs as there are processes.  Everything here is a function of its
 * arguments.
 *
 *   OMPI_COMM_WORLD_SIZE         Open MPI's mpirun
 *   PMIX_RANK                    srun --mpi=pmix, which Open MPI understands
 *   PMI_FD with PMI_SIZE         MPICH's mpiexec, or srun --mpi=pmi2, which MPICH understands
 *   SLURM_STEP_NUM_TASKS above 1 with none of these: srun without MPI
 *
 * A batch script of Slurm has SLURM_NTASKS and no SLURM_STEP_NUM_TASKS: it is no rank. */
#ifndef TW_RUN_LAUNCHER_H
#define TW_RUN_LAUNCHER_H

#include "world/mpi/mpi_load.h"

struct tw_launcher {
	bool mpi;              /* it speaks to an MPI: */
	enum tw_mpi_kind kind; /* ... this one */
	bool slurm;            /* Slurm's srun has started this process */
	uint32_t tasks;        /* how many processes were started; 0: not known */
	uint32_t rank;         /* which of them this is; 0: or not known */
	const char *name;      /* "srun --mpi=pmix"; NULL: no launcher */
};

/* `environ_`: NULL-terminated "NAME=value" texts. */
void tw_launcher_find(const char *const *environ_, struct tw_launcher *out);
/* Open the plugin that fits.  TW_BAD_INPUT, with the reason and the launcher option to use: there
 * is none, or srun has started tasks that do not know of each other. */
enum tw_status tw_launcher_plugin(const struct tw_launcher *l, const struct tw_mpi_plugin **out,
				  struct tw_error *why);
/* For people: the version of this MPI and how to start ranks with it, or why it cannot be used.
 * False: it cannot. */
bool tw_launcher_describe(enum tw_mpi_kind kind, char *out, size_t room);

#endif
