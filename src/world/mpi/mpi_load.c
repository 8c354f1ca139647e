/* SPDX-License-Identifier: Apache-2.0 */
/* mpi_load.c - finding and opening the plugin of an MPI. */
#include "world/mpi/mpi_load.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
	const char *name, *file;
} kinds[TW_MPI_KINDS] = {
	[TW_MPI_OPENMPI] = { "Open MPI", "thalweg-openmpi.so" },
	[TW_MPI_MPICH] = { "MPICH", "thalweg-mpich.so" },
};

const char *tw_mpi_kind_name(enum tw_mpi_kind kind)
{
	return kinds[kind].name;
}

/* The folder of this code, of the program or of libthalweg, without a slash at its end. */
static bool own_folder(char out[PATH_MAX])
{
	char named[PATH_MAX] = "";
	Dl_info me;
	char *slash;
	ssize_t n;

	if (dladdr((void *)(uintptr_t)tw_mpi_find, &me) && me.dli_fname &&
	    strstr(me.dli_fname, ".so") && realpath(me.dli_fname, named))
		n = snprintf(out, PATH_MAX, "%s", named);
	else
		n = readlink("/proc/self/exe", out, PATH_MAX - 1);
	if (n <= 0 || n >= PATH_MAX)
		return false;
	out[n] = '\0';
	slash = strrchr(out, '/');
	if (slash)
		*slash = '\0';
	return slash != NULL;
}

bool tw_mpi_find(enum tw_mpi_kind kind, char *path, size_t room)
{
	/* beside the program in a build, from bin/ and from the folder of the library */
	static const char *const below[] = { "", "/../lib/thalweg", "/thalweg" };
	char here[PATH_MAX];
	const bool known = own_folder(here);

	for (int k = 0; k < 4; k++) {
		if (k < 3 && !known)
			continue;
		if ((size_t)snprintf(path, room, "%s%s/%s", k == 3 ? TW_PLUGIN_FOLDER : here,
				     k == 3 ? "" : below[k], kinds[kind].file) < room &&
		    access(path, R_OK) == 0)
			return true;
	}
	return false;
}

enum tw_status tw_mpi_load(enum tw_mpi_kind kind, const struct tw_mpi_plugin **out,
			   struct tw_error *why)
{
	const struct tw_mpi_plugin *p;
	char path[PATH_MAX + 64];
	void *handle;

	if (!tw_mpi_find(kind, path, sizeof path))
		return tw_fail(why, TW_ABSENT, "this build has no plugin for %s (%s)",
			       kinds[kind].name, kinds[kind].file);
	handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		return tw_fail(why, TW_BAD_INPUT, "the plugin for %s cannot be opened: %.400s",
			       kinds[kind].name, dlerror());
	p = dlsym(handle, TW_MPI_SYMBOL);
	if (!p || p->abi != TW_MPI_ABI)
		return tw_fail(why, TW_BAD_INPUT,
			       "%s is not a plugin of this version of thalweg; install both from "
			       "one build",
			       path);
	*out = p;
	return TW_OK;
}
