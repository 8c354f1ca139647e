/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint_remove.h - which files are a checkpoint's, and what becomes of others: they stay. */
#ifndef TW_CHECKPOINT_CHECKPOINT_REMOVE_H
#define TW_CHECKPOINT_CHECKPOINT_REMOVE_H

#include "base/machine/log.h"
#include "checkpoint/files.h"

/* The names that a checkpoint's directory has: DONE, manifest.json and those of parts. */
bool tw_cut_knows(const char *name, unsigned depth);
/* Free this name in a directory of ours.  A directory that has known names alone is removed.
 * Anything else gets another name beside it, "<name>.kept", which a warning says.  TW_IO: see
 * errno. */
enum tw_status tw_make_way(int at, const char *name, tw_known_name known, const struct tw_log *log);
/* The same for the directory of a checkpoint. */
enum tw_status tw_cut_make_way(int at, const char *name, const struct tw_log *log);

#endif
