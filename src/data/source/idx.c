/* SPDX-License-Identifier: Apache-2.0 */
/* idx.c - images and labels from IDX files that the user has, gzipped or not. */
#include "data/format/idx.h"
#include "data/data_memory.h"
#include "data/labels.h"

struct options {
	const char *images, *labels, *test_images, *test_labels;
	uint32_t classes;
};

static const struct tw_option rows[] = {
	TW_OPTION(struct options, images, TW_TEXT, NULL, NULL, 0, 0,
		  "IDX file of the training samples: bytes or floats, gzipped or not"),
	TW_OPTION(struct options, labels, TW_TEXT, NULL, NULL, 0, 0,
		  "IDX file of the training labels"),
	TW_OPTION(struct options, test_images, TW_TEXT, "", NULL, 0, 0,
		  "IDX file of the test samples; without it the share `test` of the training "
		  "samples is held out"),
	TW_OPTION(struct options, test_labels, TW_TEXT, "", NULL, 0, 0,
		  "IDX file of the test labels"),
	TW_CLASSES_ROW(struct options),
	TW_OPTION_END,
};

static bool given(const char *text)
{
	return text && text[0];
}

static enum tw_status open_files(const void *options, const struct tw_source_site *site,
				 struct tw_data *out, struct tw_error *why)
{
	const struct options *o = options;
	const struct tw_idx_files files = {
		.base = site->base,
		.listener = site->listener,
		.images = o->images,
		.labels = o->labels,
		.test_images = given(o->test_images) ? o->test_images : NULL,
		.test_labels = o->test_labels,
		.classes = o->classes,
	};
	enum tw_status st;

	if (!given(o->images) || !given(o->labels))
		return tw_fail(why, TW_BAD_INPUT,
			       "%s: must be given: an IDX file of the training set",
			       given(o->images) ? "labels" : "images");
	if (given(o->test_images) != given(o->test_labels))
		return tw_fail(why, TW_BAD_INPUT,
			       "%s: is missing; test_images and test_labels must be given "
			       "together",
			       given(o->test_images) ? "test_labels" : "test_images");
	st = tw_idx_open(&files, out, why);
	if (st != TW_OK)
		tw_data_keep_release(out);
	return st;
}

const struct tw_source tw_source_idx = {
	.name = "idx",
	.help = "your own IDX files, the format of MNIST",
	.options = rows,
	.options_bytes = sizeof(struct options),
	.files = (const struct tw_source_file[]){ { ".idx" }, { "-ubyte" }, { 0 } },
	.splits = true,
	.test_option = "test_images",
	.answers_option = "test_labels",
	.open = open_files,
};
