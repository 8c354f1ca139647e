/* SPDX-License-Identifier: Apache-2.0 */
/* npy.c - pairs of NumPy arrays: samples, and their labels or values. */
#include "data/data_memory.h"
#include "data/labels.h"
#include "data/format/npy_set.h"

struct options {
	const char *x, *y, *test_x, *test_y;
	uint32_t classes;
};

static const struct tw_option rows[] = {
	TW_OPTION(struct options, x, TW_TEXT, NULL, NULL, 0, 0,
		  "NPY file of the training samples: (n, features), (n, h, w) or (n, c, h, w)"),
	TW_OPTION(struct options, y, TW_TEXT, NULL, NULL, 0, 0,
		  "NPY file of the training labels (integers) or values (floats)"),
	TW_OPTION(struct options, test_x, TW_TEXT, "", NULL, 0, 0,
		  "NPY file of the test samples; without it the share `test` of the training "
		  "samples is held out"),
	TW_OPTION(struct options, test_y, TW_TEXT, "", NULL, 0, 0,
		  "NPY file of the test labels or values"),
	TW_CLASSES_ROW(struct options),
	TW_OPTION_END,
};

static enum tw_status read_pair(const struct tw_source_site *site, const char *x, const char *y,
				bool first, uint32_t classes, struct tw_data *d,
				struct tw_samples *s, struct tw_error *why)
{
	struct tw_input *in = NULL;
	enum tw_status st = tw_input_open(site->heap, site->base, x, &in, why);

	if (st != TW_OK)
		return st;
	tw_input_listen(in, site->listener);
	st = tw_npy_samples(in, first, d, s, why);
	tw_input_close(in);
	if (st != TW_OK)
		return st;
	st = tw_input_open(site->heap, site->base, y, &in, why);
	if (st != TW_OK)
		return st;
	st = tw_npy_answers(in, &(struct tw_npy_pair){ x, first, classes }, d, s, why);
	tw_input_close(in);
	return st;
}

static bool given(const char *text)
{
	return text && text[0];
}

static enum tw_status open_files(const void *options, const struct tw_source_site *site,
				 struct tw_data *out, struct tw_error *why)
{
	const struct options *o = options;
	enum tw_status st;

	if (!given(o->x) || !given(o->y))
		return tw_fail(why, TW_BAD_INPUT, "%s: must be given: an NPY file",
			       given(o->x) ? "y" : "x");
	if (given(o->test_x) != given(o->test_y))
		return tw_fail(why, TW_BAD_INPUT,
			       "%s: is missing; test_x and test_y must be "
			       "given together",
			       given(o->test_x) ? "test_y" : "test_x");
	st = read_pair(site, o->x, o->y, true, o->classes, out, &out->train, why);
	if (st == TW_OK && given(o->test_x))
		st = read_pair(site, o->test_x, o->test_y, false, o->classes, out, &out->test, why);
	if (st == TW_OK && out->targets == 0)
		st = tw_labels_check(out, o->classes, o->y, given(o->test_y) ? o->test_y : "", why);
	if (st != TW_OK)
		tw_data_keep_release(out);
	return st;
}

const struct tw_source tw_source_npy = {
	.name = "npy",
	.help = "your own NumPy arrays: samples in one file, labels or values in another",
	.options = rows,
	.options_bytes = sizeof(struct options),
	.files = (const struct tw_source_file[]){ { ".npy" }, { 0 } },
	.splits = true,
	.test_option = "test_x",
	.answers_option = "test_y",
	.open = open_files,
};
