/* SPDX-License-Identifier: Apache-2.0 */
/* set_file.c - an opened data set as bytes; the layout is in the header.
 *
 *  (1) before anything is allocated, the lengths in the head add up to its length of everything,
 *      and there are so many bytes. */
#include "data/format/set_inner.h"
#include "data/data_memory.h"
#include "data/names_pack.h"
#include "data/split.h"

#include <inttypes.h>
#include <string.h>
#include <xxhash.h>

/* --- giving ----------------------------------------------------------------------------------- */

uint64_t tw_set_bytes(const struct tw_data *d)
{
	struct tw_set_head h;
	struct tw_set_layout lie;

	tw_set_make_head(d, false, &h, &lie);
	return lie.end;
}

/* What bytes from.. of everything have of a piece. */
static void copy_piece(const struct tw_set_piece *p, const void *at, uint64_t from, uint8_t *to,
		       size_t bytes)
{
	const uint64_t end = from + bytes, first = p->from > from ? p->from : from;
	const uint64_t last = p->from + p->bytes < end ? p->from + p->bytes : end;

	if (first < last)
		memcpy(to + (first - from), (const uint8_t *)at + (first - p->from),
		       (size_t)(last - first));
}

enum tw_status tw_set_copy(const struct tw_data *d, uint64_t from, void *to, size_t bytes)
{
	struct tw_set_head h;
	struct tw_set_layout lie;

	tw_set_make_head(d, false, &h, &lie);
	if (from > lie.end || bytes > lie.end - from)
		return TW_BAD_INPUT;
	memset(to, 0, bytes);
	copy_piece(&(struct tw_set_piece){ 0, sizeof h }, &h, from, to, bytes);
	copy_piece(&lie.names, d->packed, from, to, bytes);
	for (int k = 0; k < TW_SET_PARTS; k++)
		copy_piece(&lie.part[k], tw_set_part(d, k), from, to, bytes);
	return TW_OK;
}

/* --- taking ----------------------------------------------------------------------------------- */

static enum tw_status refuse(const struct tw_set_origin *from, struct tw_error *why,
			     const char *what)
{
	return tw_fail(why, TW_BAD_BYTES, "%.300s: %s", from->name, what);
}

static enum tw_status check_head(const struct tw_set_origin *from, const struct tw_set_head *h,
				 struct tw_error *why)
{
	char its[TW_SHA_SHORT], wanted[TW_SHA_SHORT];

	if (memcmp(h->magic, tw_set_magic, sizeof h->magic) != 0)
		return refuse(from, why, "is not a data set of thalweg (its first bytes differ)");
	if (h->version != TW_SET_VERSION)
		return tw_fail(why, TW_BAD_BYTES,
			       "%.300s: is a data set of version %" PRIu32
			       ", and this program reads version %u",
			       from->name, h->version, TW_SET_VERSION);
	if (h->hash != XXH3_64bits(h, offsetof(struct tw_set_head, hash)))
		return refuse(from, why, "is damaged: the hash of its head differs");
	if (!tw_sha_none(&from->fingerprint) && !tw_sha_same(&h->fingerprint, &from->fingerprint))
		return tw_fail(why, TW_BAD_BYTES,
			       "%.300s: is another data set: its fingerprint is %s, and %s is "
			       "wanted",
			       from->name, tw_sha_short(&h->fingerprint, its),
			       tw_sha_short(&from->fingerprint, wanted));
	if ((h->kind & ~(TW_SET_WEIGHED | TW_SET_TOKENS)) > TW_VALUE_F32)
		return refuse(from, why, "has values of an unknown kind");
	if ((h->classes == 0) == (h->targets == 0) || h->classes > TW_CLASSES_MAX)
		return refuse(from, why,
			      "must have either labels, of at most 65536 classes, or targets");
	if ((h->kind & TW_SET_TOKENS) && (h->classes == 0 || h->rank != 1))
		return refuse(from, why, "has tokens without a vocabulary, or in images");
	if (h->count[0] == 0)
		return refuse(from, why, "has no samples to train on");
	return TW_OK;
}

static enum tw_status take_shape(const struct tw_set_origin *from, const struct tw_set_head *h,
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
	d->kind = (enum tw_value)(h->kind & ~(TW_SET_WEIGHED | TW_SET_TOKENS));
	d->tokens = h->kind & TW_SET_TOKENS;
	d->classes = h->classes;
	d->targets = h->targets;
	return TW_OK;
}

/* Invariant (1). */
static enum tw_status check_lengths(const struct tw_set_origin *from, const struct tw_set_head *h,
				    const struct tw_data *d, struct tw_set_layout *lie,
				    struct tw_error *why)
{
	if (h->names > tw_names_most(d) || h->names > from->bytes)
		return refuse(from, why, "claims more names than there can be");
	if (!tw_set_lay_out(h, d, lie))
		return refuse(from, why, "claims more samples than there can be");
	if (lie->end != h->bytes)
		return tw_fail(why, TW_BAD_BYTES,
			       "%.300s: contradicts itself: its samples are %" PRIu64
			       " bytes with the head, and it claims %" PRIu64,
			       from->name, lie->end, h->bytes);
	if (h->statistics && (d->tokens || h->statistics != lie->statistics.from))
		return refuse(from, why, "has statistics at a wrong place");
	if (lie->end > from->bytes)
		return tw_fail(why, TW_BAD_BYTES,
			       "%.300s: is truncated: it has %" PRIu64 " bytes of %" PRIu64,
			       from->name, from->bytes, lie->end);
	return TW_OK;
}

/* All of the head, and where everything lies. */
enum tw_status tw_set_take_head(const struct tw_set_origin *from, struct tw_set_head *h,
				struct tw_data *d, struct tw_set_layout *lie, struct tw_error *why)
{
	enum tw_status st;

	if (from->bytes < sizeof *h)
		return tw_fail(why, TW_BAD_BYTES,
			       "%.300s: is truncated: it has %" PRIu64 " bytes, and the head of "
			       "a data set alone has %zu",
			       from->name, from->bytes, sizeof *h);
	st = from->read(from->arg, 0, h, sizeof *h, why);
	if (st == TW_OK)
		st = check_head(from, h, why);
	if (st == TW_OK)
		st = take_shape(from, h, d, why);
	return st == TW_OK ? check_lengths(from, h, d, lie, why) : st;
}

enum tw_status tw_set_take_names(const struct tw_set_origin *from, struct tw_data *d,
				 struct tw_error *why)
{
	struct tw_error said = { 0 };
	const enum tw_status st = tw_names_unpack(d, &said);

	if (st == TW_BAD_BYTES)
		return refuse(from, why, said.text);
	return st == TW_OK ? TW_OK : tw_fail(why, st, "%s", said.text);
}

/* --- out of a stream --- */

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

/* Zeros before a piece. */
static enum tw_status skip_to(const struct tw_set_origin *from, uint64_t to, uint64_t *at,
			      struct tw_error *why)
{
	static const uint8_t zeros[64];
	uint8_t gap[64];
	const size_t n = (size_t)(to - *at);
	enum tw_status st = n ? take_array(from, at, gap, n, why) : TW_OK;

	return st == TW_OK && memcmp(gap, zeros, n) != 0
		       ? refuse(from, why, "has something between its arrays")
		       : st;
}

static enum tw_status take_body(const struct tw_set_origin *from, const struct tw_set_head *h,
				const struct tw_set_layout *lie, struct tw_data *d,
				struct tw_error *why)
{
	uint64_t at = TW_SET_HEAD;
	void *names = NULL;
	enum tw_status st = tw_data_keep_room(d, h->names, 1, &names, why);

	if (st == TW_OK)
		st = take_array(from, &at, names, h->names, why);
	d->packed = names;
	d->packed_bytes = h->names;
	if (st == TW_OK)
		st = tw_set_take_names(from, d, why);
	for (int k = 0; st == TW_OK && k < TW_SET_PARTS; k++) {
		const struct tw_set_piece *p = &lie->part[k];
		void *room = NULL;

		if (p->bytes == 0)
			continue;
		st = tw_data_keep_room(d, p->bytes, 1, &room, why);
		if (st == TW_OK)
			st = skip_to(from, p->from, &at, why);
		if (st == TW_OK)
			st = take_array(from, &at, room, p->bytes, why);
		if (st == TW_OK)
			tw_set_put_part(d, h, k, room);
	}
	return st;
}

static enum tw_status take(const struct tw_set_origin *from, struct tw_data *d,
			   struct tw_error *why)
{
	struct tw_set_head h;
	struct tw_set_layout lie;
	enum tw_status st = tw_set_take_head(from, &h, d, &lie, why);

	if (st == TW_OK && h.statistics)
		st = refuse(from, why, "has statistics, and only files of one's own may");
	if (st == TW_OK)
		st = take_body(from, &h, &lie, d, why);
	return st == TW_OK ? tw_set_check_body(from->name, d, &from->fingerprint, why) : st;
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
		st = tw_data_prepare(d, o, NULL, why);
	if (st != TW_OK) {
		tw_data_close(d);
		return st;
	}
	d->fingerprint = from->fingerprint;
	*out = d;
	return TW_OK;
}
