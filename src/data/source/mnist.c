/* SPDX-License-Identifier: Apache-2.0 */
/* mnist.c - the 70,000 handwritten digits, fetched before or wherever the user keeps them. */
#include "data/idx.h"
#include "data/input.h"
#include "data/keep.h"

#include <stdio.h>
#include <string.h>

#define PATH_ROOM TW_REACH_PATH

struct options {
	const char *path;
};

static const struct tw_option rows[] = {
	TW_OPTION(struct options, path, TW_TEXT, "", NULL, 0, 0,
		  "folder with the four IDX files, gzipped or not; none: as fetched"),
	TW_OPTION_END,
};

static const char *const names[] = { "train-images-idx3-ubyte", "train-labels-idx1-ubyte",
				     "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte" };

static enum tw_status missing(const struct options *o, const char *folder, const char *file,
			      struct tw_error *why)
{
	if (o->path && o->path[0])
		return tw_fail(
			why, TW_BAD_INPUT,
			"path: %.200s has no %s (nor with '.' before idx, nor gzipped); it must "
			"be a folder with the four IDX files of MNIST",
			folder, file);
	return tw_fail(
		why, TW_BAD_INPUT,
		"mnist: %.200s has no %s; run `thalweg data fetch mnist`, or give path: a folder "
		"with the four IDX files",
		folder[0] ? folder : "(no cache folder known)", file);
}

/* The user's own cache unless the job names a folder, which may be out of reach. */
static bool folder_of(const struct options *o, const struct tw_source_site *site, char *out)
{
	int n;

	if (o->path && o->path[0])
		return tw_reach_folder(site->base, o->path, out);
	n = snprintf(out, PATH_ROOM, "%s/mnist", site->cache);
	return n > 0 && n < PATH_ROOM;
}

static enum tw_status unreached(const struct options *o, const struct tw_source_site *site,
				struct tw_error *why)
{
	if (site->base && site->base->how == TW_REACH_NONE)
		return tw_fail(why, TW_REFUSED,
			       "path: %.200s is named by the master, and not opened here", o->path);
	if (site->base && site->base->how == TW_REACH_WITHIN)
		return tw_fail(why, TW_BAD_INPUT, "path: %.200s has no folder such as %.200s",
			       site->base->folder, o->path);
	return tw_fail(why, TW_BAD_INPUT, "path: may have at most %d letters", PATH_ROOM - 1);
}

static enum tw_status open_files(const void *options, const struct tw_source_site *site,
				 struct tw_data *out, struct tw_error *why)
{
	const struct options *o = options;
	char folder[PATH_ROOM], file[4][PATH_ROOM];
	struct tw_reach inside = { .how = TW_REACH_WITHIN, .folder = folder };
	const struct tw_idx_files files = {
		/* links in a folder that was found within another must stay in it, too */
		.base = o->path && o->path[0] && site->base && site->base->how == TW_REACH_WITHIN
				? &inside
				: NULL,
		.images = file[0],
		.labels = file[1],
		.test_images = file[2],
		.test_labels = file[3],
		.classes = 10,
	};
	enum tw_status st;

	if (!(o->path && o->path[0]) && !(site->cache && site->cache[0]))
		return missing(o, "", names[0], why);
	if (!folder_of(o, site, folder))
		return unreached(o, site, why);
	for (int k = 0; k < 4; k++)
		if (!tw_idx_find(folder, names[k], file[k], sizeof file[k]))
			return missing(o, folder, names[k], why);
	st = tw_idx_open(&files, out, why);
	out->names.answer = tw_names_digits;
	if (st != TW_OK)
		tw_keep_release(out);
	return st;
}

const struct tw_source tw_source_mnist = {
	.name = "mnist",
	.help = "handwritten digits, 28x28; fetched with `thalweg data fetch mnist`",
	.options = rows,
	.options_bytes = sizeof(struct options),
	.open = open_files,
};
