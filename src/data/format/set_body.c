/* SPDX-License-Identifier: Apache-2.0 */
/* set_body.c - a set that lies in memory as a file: its arrays are used where they are, and checked
 * if that is asked for. */
#include "data/format/set_inner.h"
#include "data/data_memory.h"
#include "data/names_pack.h"
#include "data/split.h"

#include <math.h>
#include <string.h>
#include <xxhash.h>

/* One array of the body, as a range of it. */
struct part {
	const void *at;
	uint64_t bytes;
};

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

static struct part whole_part(const struct tw_data *d, int k)
{
	const struct tw_samples *s =
		tw_set_samples((struct tw_data *)d, k == TW_SET_WEIGHTS ? 0 : k / 2);
	const void *at = tw_set_part(d, k);

	return (struct part){ at, at ? s->count * tw_set_width(d, k) : 0 };
}

static enum tw_status fail_labels(const char *name, struct tw_error *why)
{
	return tw_fail(why, TW_BAD_BYTES, "%.300s: has a label that is not one of its classes",
		       name);
}

static enum tw_status check_values(const char *name, const struct tw_data *d, struct tw_error *why)
{
	for (int k = 0; k < TW_SET_PARTS; k++) {
		const struct part p = whole_part(d, k);
		const bool floats = k == TW_SET_WEIGHTS ? true
				    : k % 2             ? d->targets > 0
							: d->kind == TW_VALUE_F32;

		if (floats && !all_finite(&p))
			return tw_fail(why, TW_BAD_BYTES,
				       "%.300s: has a value that is not a finite number", name);
		if (d->tokens && k != TW_SET_WEIGHTS && k % 2 == 0 &&
		    !all_tokens(&p, d->kind, d->classes))
			return tw_fail(why, TW_BAD_BYTES,
				       "%.300s: has a token that is not below its classes", name);
		if (k == TW_SET_WEIGHTS && !none_negative(&p))
			return tw_fail(why, TW_BAD_BYTES, "%.300s: has a weight below 0", name);
		if (k % 2 && !d->targets && !all_below(&p, d->classes))
			return fail_labels(name, why);
	}
	return TW_OK;
}

enum tw_status tw_set_check_body(const char *name, const struct tw_data *d,
				 const struct tw_sha *fingerprint, struct tw_error *why)
{
	char its[TW_SHA_SHORT], wanted[TW_SHA_SHORT];
	struct tw_sha found;

	if (tw_fingerprint(d, &found) != TW_OK)
		return tw_data_keep_no_memory(why, name, sizeof found);
	if (!tw_sha_same(&found, fingerprint))
		return tw_fail(why, TW_BAD_BYTES,
			       "%.300s: is damaged or forged: the fingerprint of its samples is "
			       "%s, not %s",
			       name, tw_sha_short(&found, its), tw_sha_short(fingerprint, wanted));
	return check_values(name, d, why);
}

/* --- out of memory ---------------------------------------------------------------------------- */

struct laid {
	const uint8_t *at;
	uint64_t bytes;
};

static enum tw_status read_laid(void *arg, uint64_t from, void *to, size_t bytes,
				struct tw_error *why)
{
	const struct laid *l = arg;

	(void)why;
	memcpy(to, l->at + from, bytes);
	return TW_OK;
}

/* Where each part of the statistics lies. */
static struct tw_statistics divide_statistics(const struct tw_data *d, const uint8_t *at)
{
	struct tw_statistics s = { 0 };
	const struct tw_column_facts *next = (const struct tw_column_facts *)(at + 8);

	s.feature = next;
	next += d->features;
	if (d->rank == 3) {
		s.channel = next;
		next += d->shape[0];
	}
	s.target = d->targets ? (const struct tw_target_facts *)next : NULL;
	return s;
}

static bool columns_are_finite(const struct tw_column_facts *c, size_t n)
{
	for (size_t k = 0; c && k < n; k++)
		if (!isfinite(c[k].mean) || !isfinite(c[k].square) || !isfinite(c[k].low) ||
		    !isfinite(c[k].high))
			return false;
	return true;
}

static bool statistics_are_finite(const struct tw_data *d)
{
	for (uint32_t k = 0; d->known.target && k < d->targets; k++)
		if (!isfinite(d->known.target[k].mean) || !isfinite(d->known.target[k].deviation))
			return false;
	return columns_are_finite(d->known.feature, d->features) &&
	       columns_are_finite(d->known.channel, d->shape[0]);
}

static enum tw_status lay_statistics(const struct tw_set_origin *from, const uint8_t *at,
				     uint64_t bytes, struct tw_data *d, struct tw_error *why)
{
	uint64_t hash;

	memcpy(&hash, at, sizeof hash);
	if (hash != XXH3_64bits(at + sizeof hash, (size_t)bytes - sizeof hash))
		return tw_fail(why, TW_BAD_BYTES,
			       "%.300s: is damaged: the hash of its statistics differs",
			       from->name);
	d->known = divide_statistics(d, at);
	if (!statistics_are_finite(d))
		return tw_fail(why, TW_BAD_BYTES,
			       "%.300s: has statistics that are not finite numbers", from->name);
	return TW_OK;
}

enum tw_status tw_set_lay(const char *name, const uint8_t *at, uint64_t bytes, struct tw_data *d,
			  struct tw_error *why)
{
	struct laid laid = { at, bytes };
	const struct tw_set_origin from = { name, read_laid, &laid, bytes, { { 0 } } };
	struct tw_set_head h;
	struct tw_set_layout lie;
	enum tw_status st = tw_set_take_head(&from, &h, d, &lie, why);

	if (st == TW_OK && bytes > lie.end)
		st = tw_fail(why, TW_BAD_BYTES, "%.300s: has bytes after its end", name);
	if (st != TW_OK)
		return st;
	d->packed = at + lie.names.from;
	d->packed_bytes = h.names;
	st = tw_set_take_names(&from, d, why);
	for (int k = 0; st == TW_OK && k < TW_SET_PARTS; k++)
		if (lie.part[k].bytes)
			tw_set_put_part(d, &h, k, at + lie.part[k].from);
	if (st == TW_OK && h.statistics)
		st = lay_statistics(&from, at + lie.statistics.from, lie.statistics.bytes, d, why);
	for (int k = 1; st == TW_OK && !d->targets && k < TW_SET_PARTS; k += 2) {
		const struct part p = whole_part(d, k);

		if (!all_below(&p, d->classes))
			st = fail_labels(name, why);
	}
	d->fingerprint = h.fingerprint;
	return st;
}

enum tw_status tw_set_measure(const struct tw_data *d, uint8_t *to, struct tw_error *why)
{
	const struct tw_statistics s = divide_statistics(d, to);
	const struct tw_columns_wanted cut[] = {
		{ d->features, 1, (struct tw_column_facts *)s.feature },
		{ d->shape[0], d->features / d->shape[0], (struct tw_column_facts *)s.channel },
	};
	const size_t bytes = (size_t)tw_set_statistics(d);
	enum tw_status st = tw_statistics_measure(d, cut, d->rank == 3 ? 2 : 1, why);
	uint64_t hash;

	if (st == TW_OK && d->targets)
		st = tw_statistics_targets(d, (struct tw_target_facts *)s.target, why);
	hash = XXH3_64bits(to + sizeof hash, bytes - sizeof hash);
	memcpy(to, &hash, sizeof hash);
	return st;
}

enum tw_status tw_set_check(const char *name, const struct tw_data *d, struct tw_error *why)
{
	const size_t bytes = (size_t)tw_set_statistics(d);
	enum tw_status st = tw_set_check_body(name, d, &d->fingerprint, why);
	uint8_t *room;

	if (st != TW_OK || !d->known.feature)
		return st;
	room = d->heap->get(d->heap, bytes);
	if (!room)
		return tw_data_keep_no_memory(why, name, bytes);
	st = tw_set_measure(d, room, why);
	if (st == TW_OK && memcmp(room + 8, d->known.feature, bytes - 8) != 0)
		st = tw_fail(why, TW_BAD_BYTES,
			     "%.300s: is damaged or forged: its statistics are not those of its "
			     "samples",
			     name);
	d->heap->put(d->heap, room);
	return st;
}
