#!/bin/bash
# Train on MPI ranks with Open MPI; when the time is nearly up, checkpoint and go on in a new run.
#
#	sbatch --ntasks=8 examples/slurm/mpi-openmpi.sh job.yaml
#
# Slurm sends USR1 to this script two minutes before the end (--signal); the script passes it on to
# the ranks, which checkpoint and stop: rank 0 returns 75, and the job goes back into the queue.
#SBATCH --job-name=thalweg
#SBATCH --cpus-per-task=2
#SBATCH --time=60
#SBATCH --signal=B:USR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
PATH=$PWD:$PATH

# -K1: a task that dies ends the others; --mpi=pmix: what Open MPI speaks.
srun -K1 --mpi=pmix thalweg train "$@" &
ranks=$!
trap 'scancel --signal=USR1 "$SLURM_JOB_ID.0"' USR1
wait $ranks
code=$?
if [ $code -gt 128 ]; then # the wait was interrupted by the signal
	wait $ranks
	code=$?
fi
[ $code -ne 75 ] || scontrol requeue "$SLURM_JOB_ID"
exit $code
