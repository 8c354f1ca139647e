/* SPDX-License-Identifier: Apache-2.0 */
/* watch.h - what this process has open, and what happens to files, as the kernel sees it. */
#ifndef TW_TEST_KIT_WATCH_H
#define TW_TEST_KIT_WATCH_H

#include <stdbool.h>

/* Descriptors that are open now; the same number before and after: none was left. */
int open_files(void);

/* Watch a file, or the files of a folder: a descriptor for the test to close.  READING sees what is
 * opened and read; ANYTHING also what is written, made and removed. */
enum watching { READING, ANYTHING };
int watch_on(const char *path, enum watching what);
/* Has anything of it happened since the last time? */
bool was_touched(int watch);

#endif
