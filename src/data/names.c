/* SPDX-License-Identifier: Apache-2.0 */
/* names.c - names of columns and classes: checked, cleaned, kept. */
#include "data/names.h"

#include "base/printable.h"
#include "data/format/csv.h"
#include "data/data_memory.h"

#include <stdio.h>
#include <string.h>

const char *const tw_names_digits[] = { "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", NULL };

const char tw_name_needed[] = "a name is at most 255 bytes of UTF-8 without control characters";

bool tw_name_valid(const char *text, size_t bytes)
{
	if (bytes > TW_NAME_MOST)
		return false;
	for (size_t at = 0, n; at < bytes; at += n) {
		n = tw_harmless(text + at, bytes - at);
		if (n == 0)
			return false;
	}
	return true;
}

void tw_name_print(char *text, size_t bytes)
{
	for (size_t at = 0, n; at < bytes; at += n ? n : 1) {
		n = tw_harmless(text + at, bytes - at);
		if (n == 0)
			text[at] = '?';
	}
}

static bool blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

void tw_name_clean(struct tw_csv_field *f)
{
	char *text = (char *)f->at; /* a reader's own text, see tw_csv */

	while (f->bytes && blank(text[f->bytes - 1]))
		f->bytes--;
	while (f->bytes && blank(*text)) {
		text++;
		f->bytes--;
	}
	for (size_t k = 0; k < f->bytes; k++)
		if (blank(text[k]))
			text[k] = ' ';
	f->at = text;
}

static uint64_t room_of(const struct tw_csv_field *name, uint64_t count)
{
	uint64_t bytes = (count + 1) * sizeof(char *);

	for (uint64_t k = 0; k < count; k++)
		bytes += name[k].bytes + 1;
	return bytes;
}

static const char *const *list_names(void *room, const struct tw_csv_field *name, uint64_t count)
{
	const char **list = room;
	char *text = (char *)(list + count + 1);

	for (uint64_t k = 0; k < count; k++) {
		list[k] = memcpy(text, name[k].at, name[k].bytes);
		text[name[k].bytes] = 0;
		text += name[k].bytes + 1;
	}
	list[count] = NULL;
	return list;
}

enum tw_status tw_names_keep(struct tw_data *d, const struct tw_csv_field *name, uint64_t count,
			     const char *const **out, struct tw_error *why)
{
	void *room = NULL;
	const enum tw_status st = tw_data_keep_room(d, room_of(name, count), 1, &room, why);

	if (st == TW_OK)
		*out = list_names(room, name, count);
	return st;
}

enum tw_status tw_names_keep_small(struct tw_data *d, const struct tw_csv_field *name,
				   uint64_t count, const char *const **out, struct tw_error *why)
{
	const uint64_t bytes = room_of(name, count);
	void *room = tw_data_keep_small(d, bytes);

	if (!room)
		return tw_data_keep_no_memory(why, "names", bytes);
	*out = list_names(room, name, count);
	return TW_OK;
}

/* As tw_names_keep, for names that are texts. */
static enum tw_status copy_list(struct tw_data *d, const char *const *from, uint64_t count,
				const char *const **out, struct tw_error *why)
{
	struct tw_csv_field *name;
	enum tw_status st;

	*out = NULL;
	if (!from)
		return TW_OK;
	if (count > SIZE_MAX / sizeof *name ||
	    !(name = d->heap->get(d->heap, (size_t)count * sizeof *name)))
		return tw_data_keep_no_memory(why, "names", count);
	for (uint64_t k = 0; k < count; k++)
		name[k] = (struct tw_csv_field){ .at = from[k], .bytes = strlen(from[k]) };
	st = tw_names_keep(d, name, count, out, why);
	d->heap->put(d->heap, name);
	return st;
}

enum tw_status tw_names_copy(struct tw_data *d, const struct tw_names *from, uint64_t columns,
			     uint64_t answers, struct tw_error *why)
{
	const char *const *label = NULL;
	struct tw_names fresh = { .separator = from->separator, .place = from->place };
	enum tw_status st = copy_list(d, from->column, columns, &fresh.column, why);

	if (st == TW_OK)
		st = copy_list(d, from->answer, answers, &fresh.answer, why);
	if (st == TW_OK && from->label)
		st = copy_list(d, &from->label, 1, &label, why);
	fresh.label = label ? label[0] : NULL;
	d->names = fresh;
	return st;
}

const char *tw_name_answer(const struct tw_names *n, uint32_t k, char out[TW_NAME_NUMBER])
{
	if (n->answer)
		return n->answer[k];
	snprintf(out, TW_NAME_NUMBER, "%u", k);
	return out;
}
