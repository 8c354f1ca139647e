/* SPDX-License-Identifier: Apache-2.0 */
/* set_file.c - an opened data set as bytes; the layout is in the header.
 *
 *  (1) before anything is allocated, the lengths in the head add up to its length of everything,
 *      and there are so many bytes. */
#include "data/format/set_file.h"
#include "data/data_memory.h"
#include "data/names_pack.h"
#include "data/split.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <xxhash.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "arrays go out as they are");

#define VERSION 2u
#define SETS    3
#define PARTS   (2 * SETS + 1)
#define WEIGHTS (2 * SETS) /* the part that has them */
#define WEIGHED 256u
#define TOKENS  512u

static const char magic[8] = "TWSET\r\n\x1a";

struct head {
	char magic[8];
	uint32_t version, rank, shape[TW_DATA_RANK], kind, classes, targets;
	uint64_t count[SETS];
	struct tw_sha fingerprint;
	uint64_t bytes, names, hash;
};
_Static_assert(sizeof(struct head) == TW_SET_HEAD, "the head has no gaps");
_Static_assert(offsetof(struct head, count) == 40 && offsetof(struct head, hash) == 112,
	       "the head is laid out as the header says");

/* One array of the body: part 2k are values of set k, 2k + 1 its labels or targets. */
struct part {
	void *at;
	uint64_t bytes;
};

static struct tw_samples *set_of(struct tw_data *d, int k)
{
	return k == 0 ? &d->train : k == 1 ? &d->test : &d->validation;
}

static size_t width_of(const struct tw_data *d, int part)
{
	if (part == WEIGHTS)
		return sizeof(float);
	if (part % 2)
		return (d->targets ? (size_t)d->targets : tw_data_labels(d)) * 4;
	return d->features * (d->kind == TW_VALUE_U8 ? 1 : sizeof(float));
}

static struct part part_of(const struct tw_data *d, int k)
{
	const struct tw_samples *s = set_of((struct tw_data *)d, k == WEIGHTS ? 0 : k / 2);
	const void *at = k % 2 == 0 ? s->value : d->targets ? (const void *)s->target : s->label;

	if (k == WEIGHTS)
		return (struct part){ (void *)s->weight, s->weight ? s->count * sizeof(float) : 0 };
	return (struct part){ (void *)at, s->count * width_of(d, k) };
}

/* --- giving ----------------------------------------------------------------------------------- */

uint64_t tw_set_bytes(const struct tw_data *d)
{
	uint64_t bytes = TW_SET_HEAD + d->packed_bytes;

	for (int k = 0; k < PARTS; k++)
		bytes += part_of(d, k).bytes;
	return bytes;
}

static void make_head(const struct tw_data *d, struct head *h)
{
	*h = (struct head){
		.version = VERSION,
		.rank = d->rank,
		.kind = (uint32_t)d->kind | (d->train.weight ? WEIGHED : 0) |
			(d->tokens ? TOKENS : 0),
		.classes = d->classes,
		.targets = d->targets,
		.count = { d->train.count, d->test.count, d->validation.count },
		.fingerprint = d->fingerprint,
		.bytes = tw_set_bytes(d),
		.names = d->packed_bytes,
	};
	memcpy(h->magic, magic, sizeof magic);
	memcpy(h->shape, d->shape, d->rank * sizeof *d->shape);
	h->hash = XXH3_64bits(h, offsetof(struct head, hash));
}

enum tw_status tw_set_copy(const struct tw_data *d, uint64_t from, void *to, size_t bytes)
{
	const uint64_t all = tw_set_bytes(d);
	uint8_t *out = to;
	struct head h;

	if (from > all || bytes > all - from)
		return TW_BAD_INPUT;
	make_head(d, &h);
	for (int k = -2; k < PARTS && bytes > 0; k++) {
		const struct part p = k == -2 ? (struct part){ &h, sizeof h }
				      : k < 0 ? (struct part){ (void *)d->packed, d->packed_bytes }
					      : part_of(d, k);
		const uint64_t left = from < p.bytes ? p.bytes - from : 0;
		const size_t n = left < bytes ? (size_t)left : bytes;

		if (n)
			memcpy(out, (const uint8_t *)p.at + from, n);
		out += n;
		bytes -= n;
		from = from < p.bytes ? 0 : from - p.bytes;
	}
	return TW_OK;
}

/* --- taking ----------------------------------------------------------------------------------- */

static enum tw_status refuse(const struct tw_set_origin *from, struct tw_error *why,
			     const char *what)
{
	return tw_fail(why, TW_BAD_BYTES, "%.300s: %s", from->name, what);
}

static enum tw_status check_head(const struct tw_set_origin *from, const struct head *h,
				 struct tw_error *why)
{
	char its[TW_SHA_SHORT], wanted[TW_SHA_SHORT];

	if (memcmp(h->magic, magic, sizeof magic) != 0)
		return refuse(from, why, "is not a data set of thalweg (its first bytes differ)");
	if (h->version != VERSION)
		return tw_fail(why, TW_BAD_BYTES,
			       "%.300s: is a data set of version %" PRIu32
			       ", and this program reads version %u",
			       from->name, h->version, VERSION);
	if (h->hash != XXH3_64bits(h, offsetof(struct head, hash)))
		return refuse(from, why, "is damaged: the hash of its head differs");
	if (!tw_sha_same(&h->fingerprint, &from->fingerprint))
		return tw_fail(why, TW_BAD_BYTES,
			       "%.300s: is another data set: its fingerprint is %s, and %s is "
			       "wanted",
			       from->name, tw_sha_short(&h->fingerprint, its),
			       tw_sha_short(&from->fingerprint, wanted));
	if ((h->kind & ~(WEIGHED | TOKENS)) > TW_VALUE_F32)
		return refuse(from, why, "has values of an unknown kind");
	if ((h->classes == 0) == (h->targets == 0) || h->classes > TW_CLASSES_MAX)
		return refuse(from, why,
			      "must have either labels, of at most 65536 classes, or targets");
	if ((h->kind & TOKENS) && (h->classes == 0 || h->rank != 1))
		return refuse(from, why, "has tokens without a vocabulary, or in images");
	if (h->count[0] == 0)
		return refuse(from, why, "has no samples to train on");
	return TW_OK;
}

static enum tw_status take_shape(const struct tw_set_origin *from, const struct head *h,
				 struct tw_data *d, struct tw_error *why)
{
	uint64_t shape[TW_DATA_RANK];
	struct tw_error said = { 0 };

	if (h->rank != 1 && h->rank != 3)
		return refuse(from, why, "has samples that are neither rows nor images");
	for (uint32_t k = 0; k < TW_DATA_RANK; k++) {
		if (k >= h->rank && h->shape[k] != 0)
			return refuse(from, why, "has rows with a height or width");
		shape[k] = h->shape[k];
	}
	if (tw_data_keep_shape(d, "its shape", h->rank, shape, &said) != TW_OK)
		return refuse(from, why, said.text);
	d->kind = (enum tw_value)(h->kind & ~(WEIGHED | TOKENS));
	d->tokens = h->kind & TOKENS;
	d->classes = h->classes;
	d->targets = h->targets;
	return TW_OK;
}

/* Samples, or weights, that a part has. */
static uint64_t count_of(const struct head *h, int part)
{
	return part == WEIGHTS ? h->kind & WEIGHED ? h->count[0] : 0 : h->count[part / 2];
}

/* Invariant (1). */
static enum tw_status check_lengths(const struct tw_set_origin *from, const struct head *h,
				    const struct tw_data *d, struct tw_error *why)
{
	uint64_t sum = TW_SET_HEAD + h->names, bytes;

	if (h->names > tw_names_most(d) || h->names > from->bytes)
		return refuse(from, why, "claims more names than there can be");
	for (int k = 0; k < PARTS; k++)
		if (__builtin_mul_overflow(count_of(h, k), (uint64_t)width_of(d, k), &bytes) ||
		    __builtin_add_overflow(sum, bytes, &sum))
			return refuse(from, why, "claims more samples than there can be");
	if (sum != h->bytes)
		return tw_fail(why, TW_BAD_BYTES,
			       "%.300s: contradicts itself: its samples are %" PRIu64
			       " bytes with the head, and it claims %" PRIu64,
			       from->name, sum, h->bytes);
	if (sum > from->bytes)
		return tw_fail(why, TW_BAD_BYTES,
			       "%.300s: is truncated: it has %" PRIu64 " bytes of %" PRIu64,
			       from->name, from->bytes, sum);
	return TW_OK;
}

static enum tw_status take_array(const struct tw_set_origin *from, uint64_t *at, void *to,
				 uint64_t bytes, struct tw_error *why)
{
	uint8_t *out = to;

	while (bytes > 0) {
		const size_t n = bytes < TW_SET_PIECE ? (size_t)bytes : TW_SET_PIECE;
		const enum tw_status st = from->read(from->arg, *at, out, n, why);

		if (st != TW_OK)
			return st;
		out += n;
		bytes -= n;
		*at += n;
	}
	return TW_OK;
}

static enum tw_status take_body(const struct tw_set_origin *from, const struct head *h,
				struct tw_data *d, struct tw_error *why)
{
	uint64_t at = TW_SET_HEAD;
	struct tw_error said = { 0 };
	void *names = NULL;
	enum tw_status taken = tw_data_keep_room(d, h->names, 1, &names, why);

	if (taken == TW_OK)
		taken = take_array(from, &at, names, h->names, why);
	if (taken != TW_OK)
		return taken;
	d->packed = names;
	d->packed_bytes = h->names;
	taken = tw_names_unpack(d, &said);
	if (taken == TW_BAD_BYTES)
		return refuse(from, why, said.text);
	if (taken != TW_OK)
		return tw_fail(why, taken, "%s", said.text);
	for (int k = 0; k < PARTS; k++) {
		struct tw_samples *s = set_of(d, k == WEIGHTS ? 0 : k / 2);
		const uint64_t count = count_of(h, k);
		void *room = NULL;
		enum tw_status st;

		if (count == 0)
			continue;
		st = tw_data_keep_room(d, count, width_of(d, k), &room, why);
		if (st == TW_OK)
			st = take_array(from, &at, room, count * width_of(d, k), why);
		if (st != TW_OK)
			return st;
		s->count = count;
		if (k == WEIGHTS)
			s->weight = room;
		else if (k % 2 == 0)
			s->value = room;
		else if (d->targets)
			s->target = room;
		else
			s->label = room;
	}
	return TW_OK;
}

static bool all_finite(const struct part *p)
{
	const float *v = p->at;

	for (uint64_t i = 0; i < p->bytes / sizeof *v; i++)
		if (!isfinite(v[i]))
			return false;
	return true;
}

static bool none_negative(const struct part *p)
{
	const float *v = p->at;

	for (uint64_t i = 0; i < p->bytes / sizeof *v; i++)
		if (v[i] < 0)
			return false;
	return true;
}

static bool all_below(const struct part *p, uint32_t classes)
{
	const uint32_t *label = p->at;

	for (uint64_t i = 0; i < p->bytes / sizeof *label; i++)
		if (label[i] >= classes)
			return false;
	return true;
}

/* Are the values whole numbers below it? */
static bool all_tokens(const struct part *p, enum tw_value kind, uint32_t classes)
{
	const uint8_t *byte = p->at;
	const float *v = p->at;

	for (uint64_t i = 0; kind == TW_VALUE_U8 && i < p->bytes; i++)
		if (byte[i] >= classes)
			return false;
	for (uint64_t i = 0; kind == TW_VALUE_F32 && i < p->bytes / sizeof *v; i++)
		if (!(v[i] >= 0 && v[i] < (float)classes) || v[i] != floorf(v[i]))
			return false;
	return true;
}

static enum tw_status check_body(const struct tw_set_origin *from, const struct tw_data *d,
				 struct tw_error *why)
{
	char its[TW_SHA_SHORT], wanted[TW_SHA_SHORT];
	struct tw_sha found;

	if (tw_fingerprint(d, &found) != TW_OK)
		return tw_data_keep_no_memory(why, from->name, sizeof found);
	if (!tw_sha_same(&found, &from->fingerprint))
		return tw_fail(why, TW_BAD_BYTES,
			       "%.300s: is damaged or forged: the fingerprint of its samples is "
			       "%s, not %s",
			       from->name, tw_sha_short(&found, its),
			       tw_sha_short(&from->fingerprint, wanted));
	for (int k = 0; k < PARTS; k++) {
		const struct part p = part_of(d, k);
		const bool floats = k == WEIGHTS ? true
				    : k % 2      ? d->targets > 0
						 : d->kind == TW_VALUE_F32;

		if (floats && !all_finite(&p))
			return refuse(from, why, "has a value that is not a finite number");
		if (d->tokens && k != WEIGHTS && k % 2 == 0 && !all_tokens(&p, d->kind, d->classes))
			return refuse(from, why, "has a token that is not below its classes");
		if (k == WEIGHTS && !none_negative(&p))
			return refuse(from, why, "has a weight below 0");
		if (k % 2 && !d->targets && !all_below(&p, d->classes))
			return refuse(from, why, "has a label that is not one of its classes");
	}
	return TW_OK;
}

static enum tw_status take(const struct tw_set_origin *from, struct tw_data *d,
			   struct tw_error *why)
{
	struct head h;
	enum tw_status st;

	if (from->bytes < sizeof h)
		return tw_fail(why, TW_BAD_BYTES,
			       "%.300s: is truncated: it has %" PRIu64 " bytes, and the head of "
			       "a data set alone has %zu",
			       from->name, from->bytes, sizeof h);
	st = from->read(from->arg, 0, &h, sizeof h, why);
	if (st == TW_OK)
		st = check_head(from, &h, why);
	if (st == TW_OK)
		st = take_shape(from, &h, d, why);
	if (st == TW_OK)
		st = check_lengths(from, &h, d, why);
	if (st == TW_OK)
		st = take_body(from, &h, d, why);
	return st == TW_OK ? check_body(from, d, why) : st;
}

enum tw_status tw_set_open(struct tw_heap *heap, const struct tw_set_origin *from,
			   const struct tw_data_options *o, struct tw_data **out,
			   struct tw_error *why)
{
	struct tw_data *d = tw_heap_zeros(heap, sizeof *d);
	enum tw_status st;

	if (!d)
		return tw_data_keep_no_memory(why, from->name, sizeof *d);
	d->heap = heap;
	st = take(from, d, why);
	if (st == TW_OK)
		st = tw_data_fits(from->name, d, o, why);
	if (st == TW_OK)
		st = tw_normalise(d, (enum tw_normalise)o->normalise, why);
	if (st == TW_OK && o->normalise_targets)
		st = tw_data_scale_targets(d, why);
	if (st == TW_OK)
		st = tw_data_weigh(d, (enum tw_class_weights)o->class_weights, NULL, why);
	if (st != TW_OK) {
		tw_data_close(d);
		return st;
	}
	d->fingerprint = from->fingerprint;
	*out = d;
	return TW_OK;
}
