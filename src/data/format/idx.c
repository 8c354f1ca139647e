/* SPDX-License-Identifier: Apache-2.0 */
/* idx.c - IDX files: the header is checked against the file before memory is asked for. */
#include "data/format/idx.h"
#include "data/data_memory.h"
#include "data/labels.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define RANK_MOST 4

enum { TYPE_U8 = 0x08, TYPE_I16 = 0x0B, TYPE_I32 = 0x0C, TYPE_F32 = 0x0D };

struct header {
	uint32_t type, rank;
	uint64_t size[RANK_MOST];
	uint64_t each; /* values of one sample: the product of all sizes but the first */
};

static uint32_t big32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static uint32_t width_of(uint32_t type)
{
	return type == TYPE_U8 ? 1 : type == TYPE_I16 ? 2 : 4;
}

static enum tw_status bad_magic(struct tw_input *in, const uint8_t *m, const char *accepted,
				struct tw_error *why)
{
	return tw_fail(why, TW_BAD_INPUT,
		       "%s: begins with bytes %02x %02x %02x %02x; an IDX file of %s is needed",
		       tw_input_name(in), m[0], m[1], m[2], m[3], accepted);
}

/* What the header announces must be what the file holds, or could hold. */
static enum tw_status check_size(struct tw_input *in, struct header *h, struct tw_error *why)
{
	const uint64_t start = tw_input_at(in);
	uint64_t bytes = width_of(h->type);
	bool large = false;

	h->each = 1;
	for (uint32_t k = 0; k < h->rank; k++) {
		large |= __builtin_mul_overflow(bytes, h->size[k], &bytes);
		if (k > 0)
			large |= __builtin_mul_overflow(h->each, h->size[k], &h->each);
	}
	large |= __builtin_add_overflow(bytes, start, &bytes);
	if (large || bytes > tw_input_most(in))
		return tw_fail(why, TW_BAD_INPUT,
			       "%s: ends before byte %" PRIu64 ": its header says %" PRIu64
			       " samples, and the file is too short for that many",
			       tw_input_name(in), large ? UINT64_MAX : bytes, h->size[0]);
	if (tw_input_exact(in) && bytes < tw_input_most(in))
		return tw_fail(why, TW_BAD_INPUT,
			       "%s: continues after byte %" PRIu64 ", where its header says it "
			       "ends",
			       tw_input_name(in), bytes);
	return TW_OK;
}

static enum tw_status read_header(struct tw_input *in, struct header *h, struct tw_error *why)
{
	uint8_t bytes[4 * RANK_MOST];
	enum tw_status st = tw_input_read(in, bytes, 4, "the beginning of an IDX file", why);

	if (st != TW_OK)
		return st;
	h->type = bytes[2];
	h->rank = bytes[3];
	if (bytes[0] || bytes[1] || h->rank < 1 || h->rank > RANK_MOST ||
	    (h->type != TYPE_U8 && h->type != TYPE_I16 && h->type != TYPE_I32 &&
	     h->type != TYPE_F32))
		return bad_magic(in, bytes, "1 to 4 dimensions of bytes, integers or floats", why);
	st = tw_input_read(in, bytes, (size_t)4 * h->rank, "the sizes of an IDX file", why);
	if (st != TW_OK)
		return st;
	for (uint32_t k = 0; k < h->rank; k++)
		h->size[k] = big32(bytes + (size_t)4 * k);
	return check_size(in, h, why);
}

/* Floats arrive big endian; what is not finite is nobody's pixel. */
static enum tw_status turn_floats(const char *name, float *v, uint64_t n, struct tw_error *why)
{
	for (uint64_t i = 0; i < n; i++) {
		uint8_t b[4];
		uint32_t bits;

		memcpy(b, &v[i], 4);
		bits = big32(b);
		memcpy(&v[i], &bits, 4);
		if (!isfinite(v[i]))
			return tw_fail(why, TW_BAD_INPUT,
				       "%s: value %" PRIu64 " (from 1) is not a finite number",
				       name, i + 1);
	}
	return TW_OK;
}

/* The shape of a sample: features; or channels, height, width. */
static enum tw_status take_shape(struct tw_data *d, struct tw_input *in, const struct header *h,
				 struct tw_error *why)
{
	uint64_t image[TW_DATA_RANK] = { 1 };

	if (h->rank <= 2)
		return tw_data_keep_shape(d, tw_input_name(in), 1, &h->each, why);
	if (h->rank == 4)
		image[0] = h->size[1];
	image[1] = h->size[h->rank - 2];
	image[2] = h->size[h->rank - 1];
	return tw_data_keep_shape(d, tw_input_name(in), TW_DATA_RANK, image, why);
}

/* The test set must look like the training set. */
static enum tw_status same_shape(struct tw_data *d, struct tw_input *in, const struct header *h,
				 struct tw_error *why)
{
	struct tw_data other = { 0 };
	const enum tw_value kind = h->type == TYPE_U8 ? TW_VALUE_U8 : TW_VALUE_F32;
	enum tw_status st = take_shape(&other, in, h, why);

	if (st != TW_OK)
		return st;
	if (other.rank == d->rank && kind == d->kind &&
	    memcmp(other.shape, d->shape, sizeof d->shape) == 0)
		return TW_OK;
	return tw_fail(why, TW_BAD_INPUT,
		       "%s: its samples (%zu values) do not have the shape and type of the "
		       "training images (%zu values)",
		       tw_input_name(in), other.features, d->features);
}

enum tw_status tw_idx_samples(struct tw_input *in, bool first, struct tw_data *d,
			      struct tw_samples *s, struct tw_error *why)
{
	struct header h = { 0 };
	void *room = NULL;
	enum tw_status st = read_header(in, &h, why);

	if (st == TW_OK && h.type != TYPE_U8 && h.type != TYPE_F32)
		st = tw_fail(why, TW_BAD_INPUT,
			     "%s: has values of type 0x%02x; images are bytes (0x08) or floats "
			     "(0x0d)",
			     tw_input_name(in), h.type);
	if (st == TW_OK && h.size[0] == 0)
		st = tw_fail(why, TW_BAD_INPUT, "%s: has no samples; at least one is needed",
			     tw_input_name(in));
	if (st == TW_OK && first) {
		d->kind = h.type == TYPE_U8 ? TW_VALUE_U8 : TW_VALUE_F32;
		st = take_shape(d, in, &h, why);
	} else if (st == TW_OK) {
		st = same_shape(d, in, &h, why);
	}
	if (st == TW_OK)
		st = tw_data_keep_room(d, h.size[0] * h.each, width_of(h.type), &room, why);
	if (st == TW_OK)
		st = tw_input_read(in, room, h.size[0] * h.each * width_of(h.type), "its values",
				   why);
	if (st == TW_OK)
		st = tw_input_end(in, why);
	if (st == TW_OK && h.type == TYPE_F32)
		st = turn_floats(tw_input_name(in), room, h.size[0] * h.each, why);
	s->count = h.size[0];
	s->value = room;
	return st;
}

/* One label to four bytes; the last first, since both share their memory. */
static enum tw_status widen(const char *name, uint32_t type, void *room, uint64_t n,
			    struct tw_error *why)
{
	const uint8_t *raw = room;
	uint32_t *label = room;

	for (uint64_t i = n; i-- > 0;) {
		const uint8_t *p = raw + i * width_of(type);
		const int64_t v = type == TYPE_U8    ? p[0]
				  : type == TYPE_I16 ? (int16_t)(p[0] << 8 | p[1])
						     : (int32_t)big32(p);
		if (v < 0)
			return tw_fail(why, TW_BAD_INPUT,
				       "%s: label %" PRIu64 " (from 1) is %" PRId64
				       "; labels are 0 or more",
				       name, i + 1, v);
		label[i] = (uint32_t)v;
	}
	return TW_OK;
}

enum tw_status tw_idx_labels(struct tw_input *in, const char *images, struct tw_data *d,
			     struct tw_samples *s, struct tw_error *why)
{
	struct header h = { 0 };
	void *room = NULL;
	enum tw_status st = read_header(in, &h, why);

	if (st == TW_OK && (h.rank != 1 || h.type == TYPE_F32))
		st = tw_fail(why, TW_BAD_INPUT,
			     "%s: has %u dimensions of type 0x%02x; labels are one dimension of "
			     "bytes (0x08) or integers (0x0b, 0x0c)",
			     tw_input_name(in), h.rank, h.type);
	if (st == TW_OK)
		st = tw_labels_count(images, s->count, tw_input_name(in), h.size[0], why);
	if (st == TW_OK)
		st = tw_data_keep_room(d, s->count, sizeof *s->label, &room, why);
	if (st == TW_OK)
		st = tw_input_read(in, room, s->count * width_of(h.type), "its labels", why);
	if (st == TW_OK)
		st = tw_input_end(in, why);
	if (st == TW_OK)
		st = widen(tw_input_name(in), h.type, room, s->count, why);
	s->label = room;
	return st;
}

static enum tw_status read_pair(const struct tw_idx_files *f, const char *images,
				const char *labels, bool first, struct tw_data *d,
				struct tw_samples *s, struct tw_error *why)
{
	struct tw_input *in = NULL;
	enum tw_status st = tw_input_open(d->heap, f->base, images, &in, why);

	if (st != TW_OK)
		return st;
	tw_input_listen(in, f->listener);
	st = tw_idx_samples(in, first, d, s, why);
	tw_input_close(in);
	if (st != TW_OK)
		return st;
	st = tw_input_open(d->heap, f->base, labels, &in, why);
	if (st != TW_OK)
		return st;
	st = tw_idx_labels(in, images, d, s, why);
	tw_input_close(in);
	return st;
}

enum tw_status tw_idx_open(const struct tw_idx_files *f, struct tw_data *out, struct tw_error *why)
{
	enum tw_status st = read_pair(f, f->images, f->labels, true, out, &out->train, why);

	if (st == TW_OK && f->test_images)
		st = read_pair(f, f->test_images, f->test_labels, false, out, &out->test, why);
	if (st == TW_OK)
		st = tw_labels_check(out, f->classes, f->labels,
				     f->test_images ? f->test_labels : "", why);
	return st;
}

bool tw_idx_find(const char *folder, const char *name, char *out, size_t room)
{
	const char *dash = strstr(name, "-idx");

	for (int variant = 0; dash && variant < 4; variant++) {
		const int n = snprintf(out, room, "%s/%.*s%c%s%s", folder, (int)(dash - name), name,
				       variant & 1 ? '.' : '-', dash + 1, variant & 2 ? ".gz" : "");

		if (n > 0 && (size_t)n < room && access(out, F_OK) == 0)
			return true;
	}
	return false;
}
