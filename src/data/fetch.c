/* SPDX-License-Identifier: Apache-2.0 */
/* fetch.c - data sets from elsewhere, put into the cache whole or not at all.
 *
 * Everything happens in a fresh folder inside the cache; what passes the check is moved to its
 * place by one rename, and the fresh folder is removed whatever happened. */
#include "data/data.h"

#include "base/machine/regular_file.h"
#include "data/subprocess.h"
#include "data/format/idx.h"
#include "data/input.h"
#include "data/source.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_ROOM 4096
#define SECONDS   300

/* The names of what can be fetched, after each other. */
static const char *fetchable(char *out, size_t room)
{
	size_t at = 0;

	*out = '\0';
	for (size_t k = 0; tw_source_all[k] && at < room; k++)
		if (tw_source_all[k]->recipe)
			at += (size_t)snprintf(out + at, room - at, "%s%s", at ? ", " : "",
					       tw_source_all[k]->name);
	return out;
}

static const struct tw_recipe *find(const char *name, struct tw_error *why)
{
	const struct tw_source *source = tw_source_find(name);
	char names[200];

	if (source && source->recipe)
		return source->recipe;
	tw_fail(why, TW_BAD_INPUT, "'%.60s' cannot be fetched; %s can", name,
		fetchable(names, sizeof names));
	return NULL;
}

bool tw_data_cache(char *out, size_t room)
{
	const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	int n = -1;

	/* the standard wants relative ones ignored */
	if (cache && cache[0] == '/')
		n = snprintf(out, room, "%s/thalweg", cache);
	else if (home && home[0] == '/')
		n = snprintf(out, room, "%s/.cache/thalweg", home);
	return n > 0 && (size_t)n < room;
}

static bool join(char out[PATH_ROOM], const char *folder, const char *name)
{
	const int n = snprintf(out, PATH_ROOM, "%s/%s", folder, name);

	return n > 0 && n < PATH_ROOM;
}

static enum tw_status trouble(const char *path, const char *what, struct tw_error *why)
{
	return tw_fail(why, TW_IO, "%.300s: %s: %s", path, what, tw_cause(errno));
}

static enum tw_status hash_of(int fd, const char *path, uint64_t *bytes, struct tw_sha *hash,
			      struct tw_error *why)
{
	uint8_t buffer[1u << 15];
	struct tw_sha_run h;
	enum tw_status st = TW_OK;
	ssize_t n;

	tw_sha_init(&h);
	*bytes = 0;
	while ((n = read(fd, buffer, sizeof buffer)) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			st = trouble(path, "cannot be read", why);
			break;
		}
		tw_sha_update(&h, buffer, (size_t)n);
		*bytes += (uint64_t)n;
	}
	if (tw_sha_final(&h, hash) != TW_OK && st == TW_OK)
		st = tw_fail(why, TW_NO_MEMORY, "%.300s: no memory for its hash", path);
	return st;
}

/* Is the file what it must be?  With `sync`, it is also on the disk afterwards. */
static enum tw_status check_piece(const char *folder, const struct tw_fetched_file *p, bool sync,
				  struct tw_error *why)
{
	char path[PATH_ROOM];
	struct tw_sha hash;
	char text[TW_SHA_TEXT];
	uint64_t bytes;
	enum tw_status st;
	int fd;

	if (!join(path, folder, p->name))
		return tw_fail(why, TW_IO, "%.300s: its path is too long", folder);
	fd = tw_regular_open(AT_FDCWD, path, O_RDONLY, 0);
	if (fd < 0 && errno == ENOENT)
		return tw_fail(why, TW_BAD_BYTES, "%.300s: is missing", path);
	if (fd < 0)
		return trouble(path, "cannot be opened", why);
	st = hash_of(fd, path, &bytes, &hash, why);
	if (st == TW_OK && sync && fsync(fd) != 0)
		st = trouble(path, "cannot be written", why);
	close(fd);
	if (st != TW_OK)
		return st;
	if (bytes != p->bytes || strcmp(tw_sha_text(&hash, text), p->hash) != 0)
		return tw_fail(
			why, TW_BAD_BYTES,
			"%.300s: is damaged: its %llu bytes are not the %llu of the original", path,
			(unsigned long long)bytes, (unsigned long long)p->bytes);
	return TW_OK;
}

static enum tw_status check_folder(const struct tw_recipe *r, const char *folder, bool sync,
				   struct tw_error *why)
{
	for (const struct tw_fetched_file *p = r->pieces; p->name; p++) {
		const enum tw_status st = check_piece(folder, p, sync, why);

		if (st != TW_OK)
			return st;
	}
	return TW_OK;
}

enum tw_status tw_data_verify(const char *name, const char *cache, struct tw_error *why)
{
	const struct tw_recipe *r = find(name, why);
	char folder[PATH_ROOM];
	struct stat s;

	if (!r)
		return TW_BAD_INPUT;
	if (!join(folder, cache, name))
		return tw_fail(why, TW_IO, "%.300s: its path is too long", cache);
	if (stat(folder, &s) != 0 && (errno == ENOENT || errno == ENOTDIR))
		return tw_fail(why, TW_ABSENT, "%.300s: is missing; run `thalweg data fetch %s`",
			       folder, name);
	return check_folder(r, folder, false, why);
}

/* Remove what is at `name`, a few levels deep at most; links are removed, not followed. */
static void remove_tree(int at, const char *name, int depth)
{
	int fd;
	DIR *dir;
	struct dirent *e;

	if (unlinkat(at, name, 0) == 0 || depth == 0)
		return;
	fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		if (fd >= 0)
			close(fd);
		return;
	}
	while ((e = readdir(dir)))
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, ".."))
			remove_tree(fd, e->d_name, depth - 1);
	closedir(dir);
	unlinkat(at, name, AT_REMOVEDIR);
}

static enum tw_status make_folders(const char *path, struct tw_error *why)
{
	char part[PATH_ROOM];
	const size_t n = strlen(path);

	if (n == 0 || n >= PATH_ROOM)
		return tw_fail(why, TW_IO, "the cache folder's path must have 1 to %d characters",
			       PATH_ROOM - 1);
	memcpy(part, path, n + 1);
	for (size_t i = 1; i <= n; i++) {
		const char was = part[i];

		if (was != '/' && was != 0)
			continue;
		part[i] = 0;
		if (mkdir(part, 0777) != 0 && errno != EEXIST)
			return trouble(part, "cannot be made", why);
		part[i] = was;
	}
	return TW_OK;
}

/* Move the checked files to their place.  What was there goes to the fresh folder first, and with
 * it away.  Somebody else may have been faster: whole is whole. */
static enum tw_status put_in_place(const struct tw_recipe *r, const char *fresh, const char *target,
				   struct tw_error *why)
{
	char from[PATH_ROOM], old[PATH_ROOM];
	struct tw_error other = { 0 };

	if (!join(from, fresh, r->leaves) || !join(old, fresh, "old"))
		return tw_fail(why, TW_IO, "%.300s: its path is too long", fresh);
	if (rename(from, target) == 0)
		return TW_OK;
	if (check_folder(r, target, false, &other) == TW_OK)
		return TW_OK;
	if (rename(target, old) != 0 && errno != ENOENT)
		return trouble(target, "cannot be replaced", why);
	return rename(from, target) == 0 ? TW_OK : trouble(target, "cannot be made", why);
}

static enum tw_status follow(const struct tw_recipe *r, const char *fresh, struct tw_error *why)
{
	for (size_t k = 0; r->commands[k]; k++) {
		const enum tw_status st = tw_child_run(fresh, r->commands[k], SECONDS, why);

		if (st != TW_OK)
			return st;
	}
	return TW_OK;
}

static enum tw_status write_piece(const char *path, const char *bytes, size_t n,
				  struct tw_error *why)
{
	FILE *f = fopen(path, "wbe");
	bool good;

	if (!f)
		return trouble(path, "cannot be made", why);
	good = fwrite(bytes, 1, n, f) == n;
	return fclose(f) == 0 && good ? TW_OK : trouble(path, "cannot be written", why);
}

/* Where a piece is in a folder: under its name, or gzipped. */
static bool find_piece(const char *folder, const char *name, char *out, size_t room)
{
	for (int zipped = 0; zipped < 2; zipped++) {
		const int n = snprintf(out, room, "%s/%s%s", folder, name, zipped ? ".gz" : "");

		if (n > 0 && (size_t)n < room && access(out, F_OK) == 0)
			return true;
	}
	return tw_idx_find(folder, name, out, room);
}

/* One file, inflated, of exactly the length that it must have. */
static enum tw_status copy_piece(const char *from, const struct tw_fetched_file *p, const char *to,
				 struct tw_error *why)
{
	char path[PATH_ROOM], target[PATH_ROOM];
	struct tw_input *in = NULL;
	enum tw_status st;
	char *bytes;

	if (!find_piece(from, p->name, path, sizeof path))
		return tw_fail(why, TW_BAD_INPUT, "%.300s has no %s (nor %sgzipped)", from, p->name,
			       strstr(p->name, "-idx") ? "with '.' before idx, nor " : "");
	if (!join(target, to, p->name))
		return tw_fail(why, TW_IO, "%.300s: its path is too long", to);
	bytes = tw_heap_system.get(&tw_heap_system, p->bytes);
	if (!bytes)
		return tw_fail(why, TW_NO_MEMORY, "no memory for %s", p->name);
	st = tw_input_open(&tw_heap_system, NULL, path, &in, why);
	if (st == TW_OK)
		st = tw_input_read(in, bytes, p->bytes, "the rest of the file", why);
	if (st == TW_OK)
		st = tw_input_end(in, why);
	tw_input_close(in);
	if (st == TW_OK)
		st = write_piece(target, bytes, p->bytes, why);
	tw_heap_system.put(&tw_heap_system, bytes);
	return st;
}

static enum tw_status gather(const struct tw_recipe *r, const char *from, const char *leaves,
			     struct tw_error *why)
{
	enum tw_status st = make_folders(leaves, why);

	for (const struct tw_fetched_file *p = r->pieces; p->name && st == TW_OK; p++)
		st = copy_piece(from, p, leaves, why);
	return st;
}

static enum tw_status cook(const struct tw_recipe *r, const char *from, const char *fresh,
			   const char *target, struct tw_error *why)
{
	char leaves[PATH_ROOM];
	enum tw_status st;

	if (!join(leaves, fresh, r->leaves))
		return tw_fail(why, TW_IO, "%.300s: its path is too long", fresh);
	st = from ? gather(r, from, leaves, why) : follow(r, fresh, why);
	if (st != TW_OK)
		return st;
	/* what came is not what it should be: the world's trouble, or the user's files', not the
	 * cache's */
	if (check_folder(r, leaves, true, why) != TW_OK)
		return from ? TW_BAD_INPUT : TW_IO;
	return put_in_place(r, fresh, target, why);
}

static uint64_t bytes_of(const struct tw_recipe *r)
{
	uint64_t bytes = 0;

	for (const struct tw_fetched_file *p = r->pieces; p->name; p++)
		bytes += p->bytes;
	return bytes;
}

enum tw_status tw_data_fetch(const char *name, const char *from, const char *cache, uint64_t *bytes,
			     struct tw_error *why)
{
	const struct tw_recipe *r = find(name, why);
	char target[PATH_ROOM], fresh[PATH_ROOM];
	enum tw_status st;

	if (!r)
		return TW_BAD_INPUT;
	st = make_folders(cache, why);
	if (st != TW_OK)
		return st;
	if (!join(target, cache, name) || !join(fresh, cache, ".fetching-XXXXXX"))
		return tw_fail(why, TW_IO, "%.300s: its path is too long", cache);
	if (check_folder(r, target, false, &(struct tw_error){ 0 }) != TW_OK) {
		if (!mkdtemp(fresh))
			return trouble(fresh, "cannot be made", why);
		st = cook(r, from, fresh, target, why);
		remove_tree(AT_FDCWD, fresh, 6);
	}
	if (st == TW_OK)
		*bytes = bytes_of(r);
	else if (why && why->status != TW_OK)
		why->status = st;
	return st;
}
