/* SPDX-License-Identifier: Apache-2.0 */
/* scratch.c - a folder of its own for a test program, and the files in it. */
#include "kit/scratch.h"

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define PATHS     64
#define PATH_ROOM 600

static char dir[256];

int scratch_make(void **state)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(dir, sizeof dir, "%s/thalweg-test-XXXXXX", tmp && tmp[0] ? tmp : "/tmp");
	return mkdtemp(dir) ? 0 : -1;
}

int scratch_remove(void **state)
{
	return folder_remove(dir) ? 0 : -1;
}

const char *scratch(void)
{
	return dir;
}

const char *path_of(const char *name)
{
	static _Thread_local char path[PATHS][PATH_ROOM];
	static _Thread_local size_t turn;
	char *out = path[turn++ % PATHS];

	snprintf(out, PATH_ROOM, "%s/%s", dir, name);
	return out;
}

bool exists(const char *name)
{
	return access(path_of(name), F_OK) == 0;
}

void put(const char *name, const void *bytes, size_t n)
{
	FILE *f = fopen(path_of(name), "wb");

	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, n, f), n);
	assert_int_equal(fclose(f), 0);
}

void put_text(const char *name, const char *text)
{
	put(name, text, strlen(text));
}

void folder_make(char out[64])
{
	snprintf(out, 64, "%s/thalweg-test-XXXXXX",
		 access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : "/tmp");
	assert_non_null(mkdtemp(out));
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *f)
{
	return remove(path);
}

bool folder_remove(const char *path)
{
	return nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0;
}
