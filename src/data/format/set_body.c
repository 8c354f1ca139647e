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
	if (st == TW_OK)
		st = tw_set_check_labels(name, d, why);
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
