/* SPDX-License-Identifier: Apache-2.0 */
/* set_rest.c - a data set without its training samples; the layout is in the header.
 *
 *  (1) the head says how long the scales are, which is no more than there are bytes; that it is
 *      what the set behind them needs is checked when that is read. */
#include "data/format/set_rest.h"
#include "data/data_memory.h"
#include "data/split.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <string.h>
#include <xxhash.h>

#define WEIGHED 1u
#define SCALED  2u

struct head {
	char magic[8];
	uint64_t samples, before;
	uint32_t flags, pad;
	struct tw_sha set, whole;
	uint64_t scales, hash;
};
_Static_assert(sizeof(struct head) == 112 && offsetof(struct head, hash) == 104,
	       "the head is laid out as the header says");

static const char magic[8] = "TWREST\r\n";

struct tw_set_rest {
	struct tw_heap *heap;
	struct tw_data few; /* the set that follows; its arrays are those of the whole one */
	uint8_t *before;
	uint64_t length; /* of what comes before it */
};

static uint64_t scales_of(const struct tw_data *d, uint32_t flags)
{
	return 2 * ((uint64_t)d->features + (flags & SCALED ? d->targets : 0)) * sizeof(float);
}

static uint64_t before_of(const struct tw_data *d, uint32_t flags)
{
	return (sizeof(struct head) + scales_of(d, flags) + 63) / 64 * 64;
}

/* --- giving ----------------------------------------------------------------------------------- */

static void put_scales(const struct tw_data *d, uint8_t *to)
{
	const size_t n = d->features * sizeof(float), t = d->targets * sizeof(float);

	memcpy(to, d->scale, n);
	memcpy(to + n, d->shift, n);
	if (!d->target_scale)
		return;
	memcpy(to + 2 * n, d->target_scale, t);
	memcpy(to + 2 * n + t, d->target_shift, t);
}

static void put_head(struct tw_set_rest *r, const struct tw_data *d, uint32_t flags)
{
	struct head h = { .samples = d->train.count,
			  .before = r->length,
			  .flags = flags,
			  .set = r->few.fingerprint,
			  .whole = d->fingerprint };
	uint8_t *scales = r->before + sizeof h;

	memcpy(h.magic, magic, sizeof h.magic);
	put_scales(d, scales);
	h.scales = XXH3_64bits(scales, (size_t)scales_of(d, flags));
	h.hash = XXH3_64bits(&h, offsetof(struct head, hash));
	memcpy(r->before, &h, sizeof h);
}

enum tw_status tw_set_rest_make(const struct tw_data *d, struct tw_set_rest **out,
				struct tw_error *why)
{
	const uint32_t flags = (d->weighs ? WEIGHED : 0) | (d->target_scale ? SCALED : 0);
	struct tw_set_rest *r = tw_heap_zeros(d->heap, sizeof *r);

	if (!r)
		return tw_data_keep_no_memory(why, "data", sizeof *r);
	r->heap = d->heap;
	r->few = *d;
	r->few.train.count = 1;
	r->few.train.weight = NULL;
	r->length = before_of(d, flags);
	r->before = tw_heap_zeros(d->heap, (size_t)r->length);
	if (!r->before || tw_fingerprint(&r->few, &r->few.fingerprint) != TW_OK) {
		tw_set_rest_free(r);
		return tw_data_keep_no_memory(why, "data", r->length);
	}
	put_head(r, d, flags);
	*out = r;
	return TW_OK;
}

void tw_set_rest_free(struct tw_set_rest *r)
{
	struct tw_heap *heap;

	if (!r)
		return;
	heap = r->heap;
	heap->put(heap, r->before);
	heap->put(heap, r);
}

uint64_t tw_set_rest_bytes(const struct tw_set_rest *r)
{
	return r->length + tw_set_bytes(&r->few);
}

enum tw_status tw_set_rest_copy(const struct tw_set_rest *r, uint64_t from, void *to, size_t bytes)
{
	const uint64_t left = from < r->length ? r->length - from : 0;
	const size_t n = left < bytes ? (size_t)left : bytes;

	if (n)
		memcpy(to, r->before + from, n);
	if (n == bytes)
		return TW_OK;
	return tw_set_copy(&r->few, from + n - r->length, (uint8_t *)to + n, bytes - n);
}

/* --- taking ----------------------------------------------------------------------------------- */

/* The set, behind what comes before it. */
struct behind {
	const struct tw_set_origin *from;
	uint64_t length;
};

static enum tw_status read_behind(void *arg, uint64_t from, void *to, size_t bytes,
				  struct tw_error *why)
{
	const struct behind *b = arg;

	return b->from->read(b->from->arg, b->length + from, to, bytes, why);
}

static enum tw_status refuse(const struct tw_set_origin *from, struct tw_error *why,
			     const char *what)
{
	return tw_fail(why, TW_BAD_BYTES, "%.300s: %s", from->name, what);
}

static enum tw_status check_head(const struct tw_set_origin *from, const struct head *h,
				 struct tw_error *why)
{
	if (memcmp(h->magic, magic, sizeof magic) != 0)
		return refuse(from, why, "is not what a worker without samples needs");
	if (h->hash != XXH3_64bits(h, offsetof(struct head, hash)))
		return refuse(from, why, "is damaged: the hash of its head differs");
	if (!tw_sha_same(&h->whole, &from->fingerprint))
		return refuse(from, why, "is of another data set than that of the run");
	if (h->flags & ~(WEIGHED | SCALED) || h->pad || !h->samples || h->samples == TW_ENDLESS)
		return refuse(from, why, "says of its training samples what cannot be");
	if (h->before < sizeof *h || h->before % 64 || h->before > from->bytes)
		return refuse(from, why, "says that the set begins where it cannot");
	return TW_OK;
}

static bool are_finite(const float *x, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!isfinite(x[i]))
			return false;
	return true;
}

/* (1) `d` is the set behind it; what it measured on one sample is replaced. */
static enum tw_status take_scales(const struct tw_set_origin *from, const struct head *h,
				  const uint8_t *scales, struct tw_data *d, struct tw_error *why)
{
	const uint64_t bytes = scales_of(d, h->flags);
	void *room = NULL;
	float *at;
	enum tw_status st;

	if ((h->flags & SCALED && !d->targets) || before_of(d, h->flags) != h->before)
		return refuse(from, why, "has scales of another shape than its samples");
	if (h->scales != XXH3_64bits(scales, (size_t)bytes))
		return refuse(from, why, "is damaged: the hash of its scales differs");
	st = tw_data_keep_room(d, bytes, 1, &room, why);
	if (st != TW_OK)
		return st;
	memcpy(room, scales, (size_t)bytes);
	at = room;
	if (!are_finite(at, (size_t)bytes / sizeof *at))
		return refuse(from, why, "has scales that are not finite numbers");
	d->scale = at;
	d->shift = at + d->features;
	d->target_scale = h->flags & SCALED ? at + 2 * d->features : NULL;
	d->target_shift = h->flags & SCALED ? d->target_scale + d->targets : NULL;
	d->train = (struct tw_samples){ .count = h->samples };
	d->weight = NULL;
	d->weighs = h->flags & WEIGHED;
	d->fingerprint = h->whole;
	return TW_OK;
}

static enum tw_status take_set(struct tw_heap *heap, const struct tw_set_origin *from,
			       const struct head *h, const struct tw_data_options *o,
			       struct tw_data **out, struct tw_error *why)
{
	struct behind behind = { from, h->before };
	const struct tw_set_origin set = {
		.name = from->name,
		.read = read_behind,
		.arg = &behind,
		.bytes = from->bytes - h->before,
		.fingerprint = h->set,
	};

	return tw_set_open(heap, &set, o, out, why);
}

enum tw_status tw_set_rest_open(struct tw_heap *heap, const struct tw_set_origin *from,
				const struct tw_data_options *o, struct tw_data **out,
				uint64_t *bytes, struct tw_error *why)
{
	struct tw_data *d = NULL;
	struct head h;
	uint8_t *scales;
	enum tw_status st;

	if (from->bytes < sizeof h)
		return refuse(from, why, "is truncated");
	st = from->read(from->arg, 0, &h, sizeof h, why);
	if (st == TW_OK)
		st = check_head(from, &h, why);
	if (st != TW_OK)
		return st;
	scales = heap->get(heap, (size_t)(h.before - sizeof h));
	if (!scales)
		return tw_data_keep_no_memory(why, from->name, h.before);
	for (uint64_t at = 0, all = h.before - sizeof h; st == TW_OK && at < all;) {
		const size_t n = all - at < TW_SET_PIECE ? (size_t)(all - at) : TW_SET_PIECE;

		st = from->read(from->arg, sizeof h + at, scales + at, n, why);
		at += n;
	}
	if (st == TW_OK)
		st = take_set(heap, from, &h, o, &d, why);
	if (st == TW_OK)
		*bytes = h.before + tw_set_bytes(d);
	if (st == TW_OK)
		st = take_scales(from, &h, scales, d, why);
	heap->put(heap, scales);
	if (st != TW_OK) {
		tw_data_close(d);
		return st;
	}
	*out = d;
	return TW_OK;
}
