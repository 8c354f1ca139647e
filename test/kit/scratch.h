/* SPDX-License-Identifier: Apache-2.0 */
/* scratch.h - a folder of its own for a test program, and the files in it. */
#ifndef TW_TEST_KIT_SCRATCH_H
#define TW_TEST_KIT_SCRATCH_H

#include <stdbool.h>
#include <stddef.h>

/* cmocka's set-up and tear-down: a fresh folder, removed with all that is in it. */
int scratch_make(void **state);
int scratch_remove(void **state);
const char *scratch(void);

/* Paths of it.  A path lives for 60 more calls of its thread. */
const char *path_of(const char *name);
bool exists(const char *name);
/* Write a file. */
void put(const char *name, const void *bytes, size_t n);
void put_text(const char *name, const char *text);

/* A folder beside it, in memory where there is such a place: a slow disk is not what is tested. */
void folder_make(char out[64]);
/* Remove a folder, here or elsewhere, with all that is in it; false: something stayed. */
bool folder_remove(const char *path);

#endif
