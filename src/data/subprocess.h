/* SPDX-License-Identifier: Apache-2.0 */
/* subprocess.h - another program, run to its end. */
#ifndef TW_DATA_SUBPROCESS_H
#define TW_DATA_SUBPROCESS_H

#include "base/status.h"

/* Run argv[0], found in PATH, in `folder`, without a shell and with nothing to read; it and what
 * it started are ended after `seconds`.  TW_ABSENT where there is no such program; TW_IO where it
 * failed, with the end of its output. */
enum tw_status tw_child_run(const char *folder, const char *const *argv, int seconds,
			    struct tw_error *why);

#endif
