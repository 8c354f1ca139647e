/* SPDX-License-Identifier: Apache-2.0 */
/* launcher.c - which launcher has started this process among others, from its environment. */
#include "run/launcher.h"

#include "base/machine/environment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t number(const char *text)
{
	char *end;
	const unsigned long n = text ? strtoul(text, &end, 10) : 0;

	return text && *text >= '0' && *text <= '9' && !*end && n < UINT32_MAX ? (uint32_t)n : 0;
}

static void found(struct tw_launcher *l, enum tw_mpi_kind kind, const char *name, uint32_t tasks)
{
	l->mpi = true;
	l->kind = kind;
	l->name = name;
	l->tasks = tasks;
}

static uint32_t rank_of(const char *const *environ_)
{
	static const char *const names[] = { "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
					     "SLURM_PROCID", NULL };
	size_t k = 0;

	while (names[k] && !tw_environment_find(environ_, names[k]))
		k++;
	return names[k] ? number(tw_environment_find(environ_, names[k])) : 0;
}

void tw_launcher_find(const char *const *environ_, struct tw_launcher *out)
{
	const char *open_mpi = tw_environment_find(environ_, "OMPI_COMM_WORLD_SIZE");
	const char *size = tw_environment_find(environ_, "PMI_SIZE");
	const uint32_t step = number(tw_environment_find(environ_, "SLURM_STEP_NUM_TASKS"));

	*out = (struct tw_launcher){ .slurm = step && !open_mpi, .rank = rank_of(environ_) };
	if (open_mpi)
		found(out, TW_MPI_OPENMPI, "mpirun of Open MPI", number(open_mpi));
	else if (tw_environment_find(environ_, "PMIX_RANK"))
		found(out, TW_MPI_OPENMPI, out->slurm ? "srun --mpi=pmix" : "a launcher with PMIx",
		      step);
	else if (tw_environment_find(environ_, "PMI_FD") && size)
		found(out, TW_MPI_MPICH, out->slurm ? "srun --mpi=pmi2" : "mpiexec of MPICH",
		      number(size));
	else if (step > 1) {
		out->name = "srun";
		out->tasks = step;
	}
}

static const char *option_of(bool slurm, enum tw_mpi_kind kind)
{
	if (slurm)
		return kind == TW_MPI_OPENMPI ? "srun --mpi=pmix" : "srun --mpi=pmi2";
	return kind == TW_MPI_OPENMPI ? "mpirun.openmpi" : "mpiexec.hydra";
}

/* There is no plugin for this launcher: name the one that is there. */
static enum tw_status no_plugin(const struct tw_launcher *l, struct tw_error *why)
{
	char path[4200];
	const enum tw_mpi_kind other = l->kind == TW_MPI_OPENMPI ? TW_MPI_MPICH : TW_MPI_OPENMPI;

	if (tw_mpi_find(other, path, sizeof path))
		return tw_fail(
			why, TW_BAD_INPUT,
			"these ranks were started by %s, which only %s understands, and this "
			"build has the plugin for %s: each rank would be a run of its own; "
			"start them with %s, or install %s and build again",
			l->name, tw_mpi_kind_name(l->kind), tw_mpi_kind_name(other),
			option_of(l->slurm, other), tw_mpi_kind_name(l->kind));
	return tw_fail(why, TW_BAD_INPUT,
		       "these ranks were started by %s, and this build has no plugin for an MPI: "
		       "install %s and build again, or use --world threads in one process",
		       l->name, tw_mpi_kind_name(l->kind));
}

/* srun's tasks do not know of each other: each would be a run of its own. */
static enum tw_status no_mpi(const struct tw_launcher *l, struct tw_error *why)
{
	char path[4200];
	const bool open = tw_mpi_find(TW_MPI_OPENMPI, path, sizeof path);
	const bool mpich = tw_mpi_find(TW_MPI_MPICH, path, sizeof path);

	return tw_fail(why, TW_BAD_INPUT,
		       "srun started %u tasks without MPI, and each would be a run of its own; use "
		       "%s%s%ssrun --mpi=none with --world tcp (elastic: tasks may die), or "
		       "--world threads for separate runs",
		       l->tasks, open ? "srun --mpi=pmix (Open MPI), " : "",
		       mpich ? "srun --mpi=pmi2 (MPICH), " : "", open || mpich ? "or " : "");
}

enum tw_status tw_launcher_plugin(const struct tw_launcher *l, const struct tw_mpi_plugin **out,
				  struct tw_error *why)
{
	struct tw_error cause = { .status = TW_OK };
	enum tw_status status;

	if (!l->name)
		return tw_fail(
			why, TW_BAD_INPUT,
			"--world mpi: no launcher has started this process; use mpirun -n 4 "
			"thalweg train JOB, or srun --mpi=pmix or --mpi=pmi2 (thalweg doctor "
			"says which fit)");
	if (!l->mpi)
		return no_mpi(l, why);
	status = tw_mpi_load(l->kind, out, &cause);
	if (status == TW_ABSENT)
		return no_plugin(l, why);
	return status == TW_OK ? TW_OK : tw_fail(why, status, "%s", cause.text);
}

bool tw_launcher_describe(enum tw_mpi_kind kind, char *out, size_t room)
{
	const struct tw_mpi_plugin *plugin = NULL;
	struct tw_error why = { .status = TW_OK };
	char version[200] = "";

	if (tw_mpi_load(kind, &plugin, &why) != TW_OK) {
		snprintf(out, room, "%s", why.text);
		return false;
	}
	plugin->version(version, sizeof version);
	snprintf(out, room, "%.*s; start ranks with %s, under Slurm with %s",
		 (int)strcspn(version, ","), version, option_of(false, kind),
		 option_of(true, kind));
	return true;
}
