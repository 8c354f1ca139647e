#!/bin/bash
# Train on tasks that may die: task 0 serves over TLS, the others join, and the run goes on without
# those that are lost.  Needs no MPI.
#
#	sbatch --ntasks=8 examples/slurm/elastic.sh job.yaml
#
# The key lets these tasks in and nobody else.  It is made once, beside the job.
#SBATCH --job-name=thalweg
#SBATCH --cpus-per-task=1
#SBATCH --time=60
#SBATCH --signal=TERM@120
#SBATCH --requeue
#SBATCH --open-mode=append
PATH=$PWD:$PATH

[ -e cluster.key ] || (umask 077 && thalweg key >cluster.key)

# -K0: a task that dies does not end the others; --mpi=none: tasks know of each other by sockets.
srun -K0 --mpi=none thalweg train --world tcp --key cluster.key "$@"
code=$?
[ $code -ne 75 ] || scontrol requeue "$SLURM_JOB_ID"
exit $code
