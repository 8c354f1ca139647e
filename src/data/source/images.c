/* SPDX-License-Identifier: Apache-2.0 */
/* images.c - a folder of images, PNG and JPEG: each folder in it is a class.
 *
 * Classes are in the order of their names, and so are the files of each: the same folder gives the
 * same set on every machine. */
#include "data/data_memory.h"
#include "data/format/csv.h"
#include "data/format/picture/picture_set.h"
#include "data/input.h"

#include "base/grow.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct options {
	const char *path, *test_path;
	struct tw_picture_wishes pictures;
};

static const struct tw_option rows[] = {
	TW_OPTION(struct options, path, TW_TEXT, NULL, NULL, 0, 0,
		  "folder of the training images: a folder for each class, with files that end "
		  "with .png, .jpg or .jpeg"),
	TW_OPTION(struct options, test_path, TW_TEXT, "", NULL, 0, 0,
		  "folder of the test images, with the same classes; without it the share `test` "
		  "of the training images is held out"),
	TW_PICTURE_ROWS(struct options, pictures),
	TW_OPTION_END,
};

/* Names in a folder, sorted by their bytes. */
struct list {
	char **name;
	size_t count, room;
};

/* A folder of classes, while it is read. */
struct folder {
	const struct tw_source_site *site;
	const char *name, *option; /* as the job names it */
	char path[TW_REACH_PATH];
	enum tw_reach_how how; /* how far links in it reach */
	struct tw_arena arena;
	struct list class, *file; /* file: of each class */
	struct list lost;         /* links to nothing that should be classes or images */
	uint64_t bytes, done;     /* of all files; passed over so far */
	uint64_t others, deeper;  /* files that are no images; folders in folders of classes */
	char other[80], deep[80]; /* one of each */
	struct tw_error *why;
};

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static enum tw_status no_memory(const struct folder *f)
{
	return tw_fail(f->why, TW_NO_MEMORY, "%s: no memory for the names of files", f->name);
}

static enum tw_status add_name(struct folder *f, struct list *list, const char *name)
{
	char *copy = tw_arena_text(&f->arena, name);

	if (!copy || !TW_GROW_IN(&f->arena, list->name, list->room, list->count, list->count + 1))
		return no_memory(f);
	list->name[list->count++] = copy;
	return TW_OK;
}

static void sort(struct list *list)
{
	if (list->count)
		qsort(list->name, list->count, sizeof *list->name, by_name);
}

/* What one name in a folder is for; `s` NULL: it is a link to nothing. */
typedef enum tw_status (*see_name)(struct folder *f, struct list *list, const char *name,
				   const struct stat *s);

/* Look at a name in a folder.  One that is gone since it was listed is none. */
static enum tw_status see_one(struct folder *f, DIR *dir, const char *name, see_name see,
			      struct list *list)
{
	struct stat s;
	int cause;

	if (fstatat(dirfd(dir), name, &s, 0) == 0)
		return see(f, list, name, &s);
	cause = errno;
	if (fstatat(dirfd(dir), name, &s, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT)
		return TW_OK;
	if (cause == ENOENT || cause == ELOOP)
		return see(f, list, name, NULL);
	return tw_fail(f->why, TW_BAD_INPUT, "%s: %.200s: %.200s cannot be read: %s", f->option,
		       f->name, name, strerror(cause));
}

static enum tw_status list_folder(struct folder *f, const char *path, see_name see,
				  struct list *list)
{
	DIR *dir = opendir(path);
	enum tw_status st = TW_OK;
	struct dirent *e;

	if (!dir)
		return tw_fail(f->why, TW_BAD_INPUT, "%s: %.300s cannot be opened: %s", f->option,
			       path, strerror(errno));
	while (st == TW_OK && (errno = 0, e = readdir(dir)))
		if (e->d_name[0] != '.')
			st = see_one(f, dir, e->d_name, see, list);
	if (st == TW_OK && errno)
		st = tw_fail(f->why, TW_IO, "%s: %.300s cannot be read: %s", f->option, path,
			     strerror(errno));
	closedir(dir);
	sort(list);
	return st;
}

static enum tw_status see_class(struct folder *f, struct list *list, const char *name,
				const struct stat *s)
{
	if (!s)
		return add_name(f, &f->lost, name);
	if (S_ISDIR(s->st_mode))
		return add_name(f, list, name);
	if (f->others++ == 0)
		snprintf(f->other, sizeof f->other, "%.79s", name);
	return TW_OK;
}

static enum tw_status see_file(struct folder *f, struct list *list, const char *name,
			       const struct stat *s)
{
	char shown[TW_REACH_PATH];

	if (s && S_ISDIR(s->st_mode)) {
		if (f->deeper++ == 0)
			snprintf(f->deep, sizeof f->deep, "%.79s", name);
		return TW_OK;
	}
	if (!tw_picture_named(name)) {
		if (f->others++ == 0)
			snprintf(f->other, sizeof f->other, "%.79s", name);
		return TW_OK;
	}
	if (!s) {
		snprintf(shown, sizeof shown, "%.500s/%.500s", f->class.name[list - f->file], name);
		return add_name(f, &f->lost, shown);
	}
	f->bytes += (uint64_t)s->st_size;
	return add_name(f, list, name);
}

/* The folder of a class, which must lie in this one if that had to lie in another. */
static enum tw_status class_path(const struct folder *f, size_t k, char out[TW_REACH_PATH])
{
	const struct tw_reach inside = { .how = f->how, .folder = f->path };

	if (tw_reach_folder(&inside, f->class.name[k], out))
		return TW_OK;
	return tw_fail(f->why, TW_BAD_INPUT, "%s: %.200s/%.200s leads out of its folder", f->option,
		       f->name, f->class.name[k]);
}

static enum tw_status list_files(struct folder *f)
{
	char path[TW_REACH_PATH];
	enum tw_status st = TW_OK;

	f->file = tw_arena_get(&f->arena, (f->class.count + 1) * sizeof *f->file);
	if (!f->file)
		return no_memory(f);
	for (size_t k = 0; k < f->class.count && st == TW_OK; k++) {
		st = class_path(f, k, path);
		if (st == TW_OK)
			st = list_folder(f, path, see_file, &f->file[k]);
	}
	sort(&f->lost);
	return st;
}

static enum tw_status unreached(const struct folder *f)
{
	const struct tw_reach *base = f->site->base;

	if (base && base->how == TW_REACH_NONE)
		return tw_fail(f->why, TW_REFUSED,
			       "%s: %.200s is named by the master, and not opened here", f->option,
			       f->name);
	if (base && base->how == TW_REACH_WITHIN)
		return tw_fail(f->why, TW_BAD_INPUT, "%s: %.200s has no folder such as %.200s",
			       f->option, base->folder, f->name);
	return tw_fail(f->why, TW_BAD_INPUT, "%s: may have at most %d characters", f->option,
		       TW_REACH_PATH - 1);
}

static enum tw_status only_lost(const struct folder *f)
{
	return tw_fail(f->why, TW_BAD_INPUT,
		       "%s: %.200s has no images, only links to nothing such as %.100s; repair "
		       "them",
		       f->option, f->name, f->lost.name[0]);
}

/* Find all classes and files. */
static enum tw_status survey(struct folder *f)
{
	const struct tw_reach *base = f->site->base;
	enum tw_status st;

	f->how = base && base->how == TW_REACH_WITHIN ? TW_REACH_WITHIN : TW_REACH_ALL;
	if (!tw_reach_folder(base, f->name, f->path))
		return unreached(f);
	st = list_folder(f, f->path, see_class, &f->class);
	if (st == TW_OK && f->class.count == 0 && f->lost.count)
		return only_lost(f);
	if (st == TW_OK && f->class.count == 0)
		return tw_fail(f->why, TW_BAD_INPUT,
			       "%s: %.200s has no folders%s%s; each class needs one, with its "
			       "images",
			       f->option, f->name, f->others ? ", only files such as " : "",
			       f->others ? f->other : "");
	return st == TW_OK ? list_files(f) : st;
}

/* --- classes ---------------------------------------------------------------------------------- */

/* Folders without images are none. */
static void drop_empty(struct folder *f)
{
	size_t kept = 0, empty = 0;
	const char *one = "";

	for (size_t k = 0; k < f->class.count; k++) {
		if (!f->file[k].count) {
			one = empty++ ? one : f->class.name[k];
			continue;
		}
		f->class.name[kept] = f->class.name[k];
		f->file[kept++] = f->file[k];
	}
	f->class.count = kept;
	if (empty && kept)
		tw_warn(f->site->warnings,
			"%.100s: %zu of its folders %s no images, %s%.60s, and %s no class%s",
			f->name, empty, empty == 1 ? "has" : "have", empty == 1 ? "" : "such as ",
			one, empty == 1 ? "is" : "are", empty == 1 ? "" : "es");
}

static enum tw_status check_names(const struct folder *f)
{
	if (f->class.count == 0 && f->lost.count)
		return only_lost(f);
	if (f->class.count == 0 && f->deeper)
		return tw_fail(f->why, TW_BAD_INPUT,
			       "%s: the folders in %.200s have no images, but folders such as "
			       "%.60s; give the folder whose folders are the classes",
			       f->option, f->name, f->deep);
	if (f->class.count == 0)
		return tw_fail(f->why, TW_BAD_INPUT,
			       "%s: the folders in %.200s have no files that end with .png, .jpg "
			       "or .jpeg; these are the images of a class",
			       f->option, f->name);
	if (f->class.count > TW_CLASSES_MAX)
		return tw_fail(f->why, TW_BAD_INPUT,
			       "%s: %.200s has %zu folders; there may be at most %u classes",
			       f->option, f->name, f->class.count, TW_CLASSES_MAX);
	for (size_t k = 0; k < f->class.count; k++)
		if (!tw_name_valid(f->class.name[k], strlen(f->class.name[k])))
			return tw_fail(f->why, TW_BAD_INPUT,
				       "%s: the folder '%.100s' of %.200s is no name of a class: "
				       "%s",
				       f->option, f->class.name[k], f->name, tw_name_needed);
	return TW_OK;
}

static enum tw_status keep_classes(const struct folder *f, struct tw_data *d)
{
	struct tw_csv_field *name = d->heap->get(d->heap, f->class.count * sizeof *name);
	enum tw_status st;

	if (!name)
		return no_memory(f);
	for (size_t k = 0; k < f->class.count; k++)
		name[k] = (struct tw_csv_field){ .at = f->class.name[k],
						 .bytes = strlen(f->class.name[k]) };
	d->classes = (uint32_t)f->class.count;
	st = tw_names_keep(d, name, d->classes, &d->names.answer, f->why);
	d->heap->put(d->heap, name);
	return st;
}

/* Of a test set: the number that a class has in the training set. */
static enum tw_status class_of(const struct folder *f, const struct tw_data *d, size_t k,
			       uint32_t *out)
{
	const char *const *known = d->names.answer;

	for (*out = 0; *out < d->classes; ++*out)
		if (!strcmp(known[*out], f->class.name[k]))
			return TW_OK;
	return tw_fail(f->why, TW_BAD_INPUT,
		       "%s: %.200s has the folder %.60s, which is no class of the training set; "
		       "its %u classes are %.60s to %.60s",
		       f->option, f->name, f->class.name[k], d->classes, known[0],
		       known[d->classes - 1]);
}

/* --- reading ---------------------------------------------------------------------------------- */

static void tell(struct folder *f, size_t bytes, bool look)
{
	const struct tw_data_listener *l = f->site->listener;
	const uint64_t before = f->done / TW_HEARD_EVERY;

	f->done += bytes;
	if (l && l->heard && f->done / TW_HEARD_EVERY > before)
		l->heard(l->arg, f->name, look ? "reading" : "parsing",
			 f->done < f->bytes ? f->done : f->bytes, f->bytes);
}

/* One file: look at it, or take it as a sample of this class. */
static enum tw_status read_file(struct folder *f, struct tw_picture_set *p, size_t class,
				const char *name, const char *path, bool look, uint32_t label)
{
	const struct tw_reach inside = { .how = f->how, .folder = path };
	struct tw_heap *heap = f->site->heap;
	char shown[TW_REACH_PATH];
	struct tw_input *in = NULL;
	char *bytes = NULL;
	size_t n = 0;
	enum tw_status st = tw_input_open(heap, &inside, name, &in, f->why);

	if (st == TW_OK)
		st = tw_input_all(in, &bytes, &n, f->why);
	tw_input_close(in);
	if (st != TW_OK)
		return st;
	snprintf(shown, sizeof shown, "%.500s/%.500s", f->class.name[class], name);
	st = look ? tw_pictures_look(p, shown, bytes, n, f->why)
		  : tw_pictures_take(p, shown, bytes, n, label, f->why);
	heap->put(heap, bytes);
	tell(f, n, look);
	return st;
}

static enum tw_status read_files(struct folder *f, struct tw_picture_set *p, bool look)
{
	char path[TW_REACH_PATH];
	enum tw_status st = TW_OK;

	f->done = 0;
	for (size_t k = 0; k < f->lost.count; k++)
		tw_pictures_trouble(p, TW_SAMPLE_LOST, f->lost.name[k], "");
	for (size_t k = 0; k < f->class.count && st == TW_OK; k++) {
		uint32_t label = 0;

		st = class_path(f, k, path);
		if (st == TW_OK && !look)
			st = class_of(f, p->d, k, &label);
		for (size_t i = 0; i < f->file[k].count && st == TW_OK; i++)
			st = read_file(f, p, k, f->file[k].name[i], path, look, label);
	}
	return st;
}

static void say_what_was_passed_over(const struct folder *f)
{
	if (f->others)
		tw_warn(f->site->notes,
			"%.100s: files that are no images of a class are not read: %" PRIu64
			", such as %.60s",
			f->name, f->others, f->other);
	if (f->deeper)
		tw_warn(f->site->notes,
			"%.100s: folders in the folders of classes are not read: %" PRIu64
			", such as %.60s",
			f->name, f->deeper, f->deep);
}

/* All of a folder that is known. */
static enum tw_status read_all(struct folder *f, const struct tw_picture_wishes *wishes, bool first,
			       struct tw_data *d, struct tw_samples *out)
{
	struct tw_picture_set p;
	enum tw_status st;

	tw_pictures_init(&p, wishes, f->name, d, first);
	st = read_files(f, &p, true);
	if (st == TW_OK)
		st = tw_pictures_settle(&p, f->why);
	if (st == TW_OK)
		st = read_files(f, &p, false);
	if (st == TW_OK)
		st = tw_pictures_done(&p, f->site, out, f->why);
	tw_pictures_release(&p);
	if (st == TW_OK)
		say_what_was_passed_over(f);
	return st;
}

static enum tw_status read_set(const struct options *o, const struct tw_source_site *site,
			       bool first, struct tw_data *d, struct tw_samples *out,
			       struct tw_error *why)
{
	struct folder f = {
		.site = site,
		.name = first ? o->path : o->test_path,
		.option = first ? "path" : "test_path",
		.why = why,
	};
	enum tw_status st;

	tw_arena_init(&f.arena, site->heap);
	st = survey(&f);
	if (st == TW_OK)
		drop_empty(&f);
	if (st == TW_OK)
		st = check_names(&f);
	if (st == TW_OK && first)
		st = keep_classes(&f, d);
	if (st == TW_OK)
		st = read_all(&f, &o->pictures, first, d, out);
	tw_arena_release(&f.arena);
	return st;
}

static enum tw_status open_folders(const void *options, const struct tw_source_site *site,
				   struct tw_data *out, struct tw_error *why)
{
	const struct options *o = options;
	enum tw_status st;

	if (!o->path || !o->path[0])
		return tw_fail(why, TW_BAD_INPUT,
			       "path: must be given: a folder with a folder for each class");
	st = read_set(o, site, true, out, &out->train, why);
	if (st == TW_OK && o->test_path && o->test_path[0])
		st = read_set(o, site, false, out, &out->test, why);
	if (st != TW_OK)
		tw_data_keep_release(out);
	return st;
}

const struct tw_source tw_source_images = {
	.name = "images",
	.help = "a folder of PNG and JPEG images, with a folder for each class",
	.options = rows,
	.options_bytes = sizeof(struct options),
	.splits = true,
	.test_option = "test_path",
	.open = open_folders,
};
