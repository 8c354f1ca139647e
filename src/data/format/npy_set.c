/* SPDX-License-Identifier: Apache-2.0 */
/* npy_set.c - samples and their labels or values out of NumPy arrays. */
#include "data/format/npy_set.h"
#include "data/data_memory.h"
#include "data/labels.h"

#include <string.h>

static enum tw_status take_shape(struct tw_data *d, const char *name, const struct tw_npy *n,
				 struct tw_error *why)
{
	const uint64_t features = n->rank == 2 ? n->size[1] : 1;
	uint64_t image[TW_DATA_RANK] = { 1 };

	if (n->rank <= 2)
		return tw_data_keep_shape(d, name, 1, &features, why);
	if (n->rank == 4)
		image[0] = n->size[1];
	image[1] = n->size[n->rank - 2];
	image[2] = n->size[n->rank - 1];
	return tw_data_keep_shape(d, name, TW_DATA_RANK, image, why);
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
		       "%s: its samples (%zu values) do not have the shape and type of the "
		       "training samples (%zu values)",
		       name, other.features, d->features);
}

enum tw_status tw_npy_samples(struct tw_input *in, bool first, struct tw_data *d,
			      struct tw_samples *s, struct tw_error *why)
{
	struct tw_npy n;
	void *room = NULL;
	enum tw_status st = tw_npy_header(in, &n, why);

	if (st == TW_OK)
		st = settle_shape(d, first, tw_input_name(in), &n, why);
	if (st == TW_OK)
		st = tw_data_keep_room(d, n.values, d->kind == TW_VALUE_U8 ? 1 : sizeof(float),
				       &room, why);
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
			       "%s: has floats, but the task needs classes; labels are integers",
			       name);
	if (first)
		d->targets = floats ? (uint32_t)each : 0;
	if (d->targets == (floats ? each : 0))
		return TW_OK;
	return tw_fail(why, TW_BAD_INPUT,
		       "%s: does not have the type and shape of the training set's: labels "
		       "(integers) or %u values for each sample (floats)",
		       name, d->targets);
}

enum tw_status tw_npy_answers(struct tw_input *in, const struct tw_npy_pair *pair,
			      struct tw_data *d, struct tw_samples *s, struct tw_error *why)
{
	struct tw_npy n;
	void *room = NULL;
	enum tw_status st = tw_npy_header(in, &n, why);

	if (st == TW_OK)
		st = check_y(d, pair->first, tw_input_name(in), &n, pair->classes, why);
	if (st == TW_OK)
		st = tw_labels_count(pair->x, s->count, tw_input_name(in), n.size[0], why);
	if (st == TW_OK)
		st = tw_data_keep_room(d, n.values, 4, &room, why);
	if (st != TW_OK)
		return st;
	if (d->targets) {
		s->target = room;
		return tw_npy_floats(in, &n, room, why);
	}
	s->label = room;
	return tw_npy_labels(in, &n, room, why);
}
