/* SPDX-License-Identifier: Apache-2.0 */
/* npy.c - pairs of NumPy arrays: samples, and their labels or values. */
#include "data/keep.h"
#include "data/labels.h"
#include "data/npy.h"

#include <inttypes.h>
#include <string.h>

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
		  "NPY file of the test samples; none: `test` of the others are held out"),
	TW_OPTION(struct options, test_y, TW_TEXT, "", NULL, 0, 0,
		  "NPY file of the test labels or values"),
	TW_CLASSES_ROW(struct options),
	TW_OPTION_END,
};

static enum tw_status take_shape(struct tw_data *d, const char *name, const struct tw_npy *n,
				 struct tw_error *why)
{
	const uint64_t features = n->rank == 2 ? n->size[1] : 1;
	uint64_t image[TW_DATA_RANK] = { 1 };

	if (n->rank <= 2)
		return tw_keep_shape(d, name, 1, &features, why);
	if (n->rank == 4)
		image[0] = n->size[1];
	image[1] = n->size[n->rank - 2];
	image[2] = n->size[n->rank - 1];
	return tw_keep_shape(d, name, TW_DATA_RANK, image, why);
}

static enum tw_value kind_of(const struct tw_npy *n)
{
	return n->kind == TW_NPY_UNSIGNED && n->width == 1 ? TW_VALUE_U8 : TW_VALUE_F32;
}

/* The shape of the training set, or the same again. */
static enum tw_status settle_shape(struct tw_data *d, bool first, const char *name,
				   const struct tw_npy *n, struct tw_error *why)
{
	struct tw_data other = { 0 };
	enum tw_status st;

	if (n->size[0] == 0)
		return tw_fail(why, TW_BAD_INPUT, "%s: has no samples; at least one is needed",
			       name);
	if (first) {
		d->kind = kind_of(n);
		return take_shape(d, name, n, why);
	}
	st = take_shape(&other, name, n, why);
	if (st != TW_OK)
		return st;
	if (other.rank == d->rank && kind_of(n) == d->kind &&
	    memcmp(other.shape, d->shape, sizeof d->shape) == 0)
		return TW_OK;
	return tw_fail(why, TW_BAD_INPUT,
		       "%s: its samples (%zu values) are not of the shape and type of the training "
		       "samples (%zu values)",
		       name, other.features, d->features);
}

static enum tw_status read_x(struct tw_input *in, bool first, struct tw_data *d,
			     struct tw_samples *s, struct tw_error *why)
{
	struct tw_npy n;
	void *room = NULL;
	enum tw_status st = tw_npy_header(in, &n, why);

	if (st == TW_OK)
		st = settle_shape(d, first, tw_input_name(in), &n, why);
	if (st == TW_OK)
		st = tw_keep_room(d, n.values, d->kind == TW_VALUE_U8 ? 1 : sizeof(float), &room,
				  why);
	if (st != TW_OK)
		return st;
	s->count = n.size[0];
	s->value = room;
	if (d->kind == TW_VALUE_F32)
		return tw_npy_floats(in, &n, room, why);
	st = tw_input_read(in, room, n.values, "its values", why);
	return st == TW_OK ? tw_input_end(in, why) : st;
}

/* Labels (n) or (n, 1); values (n) or (n, targets). */
static enum tw_status check_y(struct tw_data *d, bool first, const char *name,
			      const struct tw_npy *n, uint32_t classes, struct tw_error *why)
{
	const uint64_t each = n->rank > 1 ? n->size[1] : 1;
	const bool floats = n->kind == TW_NPY_FLOAT;

	if (n->rank > 2 || each < 1 || each > UINT32_MAX || (!floats && each != 1))
		return tw_fail(why, TW_BAD_INPUT,
			       "%s: has the wrong shape; labels are integers of shape (n), values "
			       "are floats of shape (n) or (n, k)",
			       name);
	if (floats && classes)
		return tw_fail(why, TW_BAD_INPUT,
			       "%s: has floats, but classes are asked for; labels are integers",
			       name);
	if (first)
		d->targets = floats ? (uint32_t)each : 0;
	if (d->targets == (floats ? each : 0))
		return TW_OK;
	return tw_fail(why, TW_BAD_INPUT,
		       "%s: is not of the type and shape of the training set's: labels (integers) "
		       "or %u values for each sample (floats)",
		       name, d->targets);
}

static enum tw_status read_y(struct tw_input *in, const char *x, bool first, uint32_t classes,
			     struct tw_data *d, struct tw_samples *s, struct tw_error *why)
{
	struct tw_npy n;
	void *room = NULL;
	enum tw_status st = tw_npy_header(in, &n, why);

	if (st == TW_OK)
		st = check_y(d, first, tw_input_name(in), &n, classes, why);
	if (st == TW_OK)
		st = tw_labels_count(x, s->count, tw_input_name(in), n.size[0], why);
	if (st == TW_OK)
		st = tw_keep_room(d, n.values, 4, &room, why);
	if (st != TW_OK)
		return st;
	if (d->targets) {
		s->target = room;
		return tw_npy_floats(in, &n, room, why);
	}
	s->label = room;
	return tw_npy_labels(in, &n, room, why);
}

static enum tw_status read_pair(const struct tw_source_site *site, const char *x, const char *y,
				bool first, uint32_t classes, struct tw_data *d,
				struct tw_samples *s, struct tw_error *why)
{
	struct tw_input *in = NULL;
	enum tw_status st = tw_input_open(site->heap, site->base, x, &in, why);

	if (st != TW_OK)
		return st;
	st = read_x(in, first, d, s, why);
	tw_input_close(in);
	if (st != TW_OK)
		return st;
	st = tw_input_open(site->heap, site->base, y, &in, why);
	if (st != TW_OK)
		return st;
	st = read_y(in, x, first, classes, d, s, why);
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
		return tw_fail(why, TW_BAD_INPUT, "%s: is missing; test_x and test_y go together",
			       given(o->test_x) ? "test_y" : "test_x");
	st = read_pair(site, o->x, o->y, true, o->classes, out, &out->train, why);
	if (st == TW_OK && given(o->test_x))
		st = read_pair(site, o->test_x, o->test_y, false, o->classes, out, &out->test, why);
	if (st == TW_OK && out->targets == 0)
		st = tw_labels_check(out, o->classes, o->y, given(o->test_y) ? o->test_y : "", why);
	if (st != TW_OK)
		tw_keep_release(out);
	return st;
}

const struct tw_source tw_source_npy = {
	.name = "npy",
	.help = "your own NumPy arrays: samples in one file, labels or values in another",
	.options = rows,
	.options_bytes = sizeof(struct options),
	.splits = true,
	.open = open_files,
};
