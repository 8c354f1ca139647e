/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_remove.c - which files are a checkpoint's, and what becomes of others: they stay. */
#include "checkpoint/checkpoint_remove.h"

#include "checkpoint/part_format.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define KEPT_MOST 1000 /* names that are tried */

bool tw_cut_knows(const char *name, unsigned depth)
{
	return depth == 0 && (strcmp(name, "DONE") == 0 || strcmp(name, "manifest.json") == 0 ||
			      tw_part_file_known(name));
}

/* A name beside this one that nothing has. */
static bool free_name(int at, const char *name, char out[300])
{
	struct stat st;

	for (int k = 1; k <= KEPT_MOST; k++) {
		if (k == 1)
			snprintf(out, 300, "%.250s.kept", name);
		else
			snprintf(out, 300, "%.250s.kept-%d", name, k);
		if (fstatat(at, out, &st, AT_SYMLINK_NOFOLLOW))
			return errno == ENOENT;
	}
	errno = EEXIST;
	return false;
}

enum tw_status tw_make_way(int at, const char *name, tw_known_name known, const struct tw_log *log)
{
	char odd[TW_ODD] = "it cannot be removed", kept[300];

	if (tw_folder_remove(at, name, known, odd) == TW_OK)
		return TW_OK;
	if (!free_name(at, name, kept) || renameat(at, name, at, kept))
		return TW_IO;
	tw_log_line(log, TW_WARNING, "checkpoint", "%s is kept as %s: %s", name, kept, odd);
	return TW_OK;
}

enum tw_status tw_cut_make_way(int at, const char *name, const struct tw_log *log)
{
	return tw_make_way(at, name, tw_cut_knows, log);
}
