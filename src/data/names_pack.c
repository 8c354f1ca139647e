/* SPDX-License-Identifier: Apache-2.0 */
/* names_pack.c - the names of a data set as bytes, and back; the layout is in the header. */
#include "data/names_pack.h"
#include "data/data_memory.h"
#include "data/format/csv.h"

#include <stdlib.h>
#include <string.h>

struct head {
	uint32_t columns, answers, label, separator, place;
};
_Static_assert(sizeof(struct head) == TW_PACK_HEAD, "the head has no gaps");

static uint64_t answers_of(const struct tw_data *d)
{
	return d->targets ? d->targets : d->classes;
}

/* --- giving ----------------------------------------------------------------------------------- */

static uint64_t list_bytes(const char *const *list, uint64_t count)
{
	uint64_t bytes = 0;

	for (uint64_t k = 0; list && k < count; k++)
		bytes += strlen(list[k]) + 1;
	return bytes;
}

static uint8_t *put_list(uint8_t *to, const char *const *list, uint64_t count)
{
	for (uint64_t k = 0; list && k < count; k++) {
		const size_t n = strlen(list[k]) + 1;

		memcpy(to, list[k], n);
		to += n;
	}
	return to;
}

enum tw_status tw_names_pack(struct tw_data *d, struct tw_error *why)
{
	const struct tw_names *n = &d->names;
	const struct head h = {
		.columns = n->column ? (uint32_t)d->features : 0,
		.answers = n->answer ? (uint32_t)answers_of(d) : 0,
		.label = n->label != NULL,
		.separator = (unsigned char)n->separator,
		.place = n->place,
	};
	const uint64_t bytes =
		sizeof h + list_bytes(n->column, h.columns) + list_bytes(n->answer, h.answers) +
		list_bytes(n->label ? &n->label : NULL, h.label) + (d->as_is ? d->features : 0);
	void *room = NULL;
	enum tw_status st = tw_data_keep_room(d, bytes, 1, &room, why);
	uint8_t *to = room;

	if (st != TW_OK)
		return st;
	memcpy(to, &h, sizeof h);
	to = put_list(to + sizeof h, n->column, h.columns);
	to = put_list(to, n->answer, h.answers);
	to = put_list(to, n->label ? &n->label : NULL, h.label);
	if (d->as_is)
		memcpy(to, d->as_is, d->features);
	d->packed = room;
	d->packed_bytes = bytes;
	return TW_OK;
}

/* --- taking ----------------------------------------------------------------------------------- */

uint64_t tw_names_most(const struct tw_data *d)
{
	uint64_t names, bytes;

	if (__builtin_add_overflow((uint64_t)d->features, answers_of(d) + 1, &names) ||
	    __builtin_mul_overflow(names, (uint64_t)TW_NAME_MOST + 2, &bytes) ||
	    __builtin_add_overflow(bytes, (uint64_t)TW_PACK_HEAD, &bytes))
		return UINT64_MAX;
	return bytes;
}

static enum tw_status refuse(struct tw_error *why, const char *what)
{
	return tw_fail(why, TW_BAD_BYTES, "%s", what);
}

static enum tw_status check_head(const struct tw_data *d, const struct head *h,
				 struct tw_error *why)
{
	if ((h->columns && h->columns != d->features) || (h->columns && d->rank != 1))
		return refuse(why, "names other columns than it has");
	if (h->answers && h->answers != answers_of(d))
		return refuse(why, "names other classes or targets than it has");
	if (h->label > 1 || h->separator > 127 || (h->separator == 0) != (h->place == 0) ||
	    h->place > TW_WORDS_MOST)
		return refuse(why, "describes a table that cannot exist");
	return TW_OK;
}

/* The name at *at, which moves on. */
static enum tw_status take_name(const uint8_t **at, const uint8_t *end, const char **out,
				struct tw_error *why)
{
	const size_t left = (size_t)(end - *at);
	const uint8_t *stop = memchr(*at, 0, left < TW_NAME_MOST + 1 ? left : TW_NAME_MOST + 1);

	if (!stop)
		return refuse(why, "has a name that is truncated, or of more than 255 bytes");
	if (!tw_name_valid((const char *)*at, (size_t)(stop - *at)))
		return refuse(why, "has a name that is not printable UTF-8");
	*out = (const char *)*at;
	*at = stop + 1;
	return TW_OK;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static enum tw_status check_different(struct tw_data *d, const char *const *list, uint64_t count,
				      struct tw_error *why)
{
	const char **sorted = d->heap->get(d->heap, (size_t)count * sizeof *sorted);
	enum tw_status st = TW_OK;

	if (!sorted)
		return tw_data_keep_no_memory(why, "names", count * sizeof *sorted);
	memcpy(sorted, list, (size_t)count * sizeof *sorted);
	qsort(sorted, (size_t)count, sizeof *sorted, by_text);
	for (uint64_t k = 1; k < count && st == TW_OK; k++)
		if (strcmp(sorted[k - 1], sorted[k]) == 0)
			st = refuse(why, "has a name twice");
	d->heap->put(d->heap, sorted);
	return st;
}

static enum tw_status take_list(struct tw_data *d, const uint8_t **at, const uint8_t *end,
				uint64_t count, const char *const **out, struct tw_error *why)
{
	const char **list;
	void *room = NULL;
	enum tw_status st;

	if (count == 0)
		return TW_OK;
	if (count > (uint64_t)(end - *at)) /* each has a byte at least */
		return refuse(why, "has fewer names than it claims");
	st = tw_data_keep_room(d, count + 1, sizeof *list, &room, why);
	list = room;
	for (uint64_t k = 0; k < count && st == TW_OK; k++)
		st = take_name(at, end, &list[k], why);
	if (st == TW_OK)
		st = check_different(d, list, count, why);
	if (st != TW_OK)
		return st;
	list[count] = NULL;
	*out = list;
	return TW_OK;
}

/* What follows the names: nothing, or a byte for each feature. */
static enum tw_status take_as_is(struct tw_data *d, const uint8_t *at, const uint8_t *end,
				 struct tw_error *why)
{
	if (at == end)
		return TW_OK;
	if ((size_t)(end - at) != d->features || d->rank != 1)
		return refuse(why, "has bytes after its last name");
	for (const uint8_t *p = at; p < end; p++)
		if (*p > 1)
			return refuse(why, "has bytes after its last name");
	d->as_is = at;
	return TW_OK;
}

enum tw_status tw_names_unpack(struct tw_data *d, struct tw_error *why)
{
	const uint8_t *at = d->packed, *end = at + d->packed_bytes;
	struct tw_names n = { .column = NULL };
	enum tw_status st;
	struct head h;

	if (d->packed_bytes < sizeof h)
		return refuse(why, "has no room for its names");
	memcpy(&h, at, sizeof h);
	at += sizeof h;
	st = check_head(d, &h, why);
	if (st == TW_OK)
		st = take_list(d, &at, end, h.columns, &n.column, why);
	if (st == TW_OK)
		st = take_list(d, &at, end, h.answers, &n.answer, why);
	if (st == TW_OK && h.label)
		st = take_name(&at, end, &n.label, why);
	if (st != TW_OK)
		return st;
	st = take_as_is(d, at, end, why);
	if (st != TW_OK)
		return st;
	for (uint64_t k = 0; n.answer && k < h.answers; k++)
		if (d->classes && !*n.answer[k])
			return refuse(why, "has a class without a name");
	n.separator = (char)h.separator;
	n.place = h.place;
	d->names = n;
	return TW_OK;
}
