/* SPDX-License-Identifier: Apache-2.0 */
/* class_names.c - distinct words and their sorted order: the classes of a table with names in it.
 * */
#include "data/format/csv.h"

#include <string.h>
#include <xxhash.h>

#define FIRST_ROOM 64

void tw_words_init(struct tw_words *w, struct tw_heap *heap, uint32_t most)
{
	*w = (struct tw_words){ .heap = heap, .most = most };
}

void tw_words_release(struct tw_words *w)
{
	w->heap->put(w->heap, w->word);
	w->heap->put(w->heap, w->slot);
	*w = (struct tw_words){ .heap = w->heap, .most = w->most };
}

static bool same(const struct tw_csv_field *a, const struct tw_csv_field *b)
{
	return a->bytes == b->bytes && memcmp(a->at, b->at, a->bytes) == 0;
}

/* The slot that has the word or where it would go; there are two slots to a word. */
static uint32_t place(const struct tw_words *w, const struct tw_csv_field *f)
{
	const uint32_t mask = 2 * w->room - 1;
	uint32_t k = (uint32_t)XXH3_64bits(f->at, f->bytes) & mask;

	while (w->slot[k] && !same(&w->word[w->slot[k] - 1], f))
		k = (k + 1) & mask;
	return k;
}

static enum tw_status enlarge(struct tw_words *w)
{
	const uint32_t room = w->room ? 2 * w->room : FIRST_ROOM;
	struct tw_words more = {
		.heap = w->heap,
		.count = w->count,
		.room = room,
		.most = w->most,
	};

	more.word = w->heap->get(w->heap, room * sizeof *more.word);
	more.slot = tw_heap_zeros(w->heap, 2 * (size_t)room * sizeof *more.slot);
	if (!more.word || !more.slot) {
		tw_words_release(&more);
		return TW_NO_MEMORY;
	}
	for (uint32_t i = 0; i < w->count; i++) {
		more.word[i] = w->word[i];
		more.slot[place(&more, &w->word[i])] = i + 1;
	}
	tw_words_release(w);
	*w = more;
	return TW_OK;
}

bool tw_words_find(const struct tw_words *w, const struct tw_csv_field *f, uint32_t *out)
{
	const uint32_t k = w->room ? place(w, f) : 0;

	if (!w->room || !w->slot[k])
		return false;
	*out = w->slot[k] - 1;
	return true;
}

enum tw_status tw_words_number(struct tw_words *w, const struct tw_csv_field *f, uint32_t *out)
{
	if (tw_words_find(w, f, out))
		return TW_OK;
	if (w->count == w->most)
		return TW_NO_ROOM;
	if (w->count == w->room) {
		const enum tw_status st = enlarge(w);

		if (st != TW_OK)
			return st;
	}
	w->word[w->count] = *f;
	w->slot[place(w, f)] = w->count + 1;
	*out = w->count++;
	return TW_OK;
}

enum tw_status tw_words_names(struct tw_words *w, const char *const *name)
{
	enum tw_status st = TW_OK;

	for (; *name && st == TW_OK; name++) {
		const struct tw_csv_field f = { .at = *name, .bytes = strlen(*name) };
		uint32_t number;

		st = tw_words_number(w, &f, &number);
	}
	return st;
}

bool tw_words_whole(const struct tw_words *w)
{
	int64_t v;

	for (uint32_t i = 0; i < w->count; i++)
		if (!tw_field_whole(&w->word[i], &v))
			return false;
	return true;
}

static int compare(const struct tw_csv_field *a, const struct tw_csv_field *b, bool whole)
{
	const size_t n = a->bytes < b->bytes ? a->bytes : b->bytes;
	int64_t x = 0, y = 0;
	int d;

	if (whole && tw_field_whole(a, &x) && tw_field_whole(b, &y))
		return (x > y) - (x < y);
	d = memcmp(a->at, b->at, n);
	return d ? d : (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

/* A heap sort: the words are hostile, so it must not have a bad case. */
static void sift(const struct tw_words *w, bool whole, uint32_t *order, uint32_t at, uint32_t n)
{
	for (uint32_t child = 2 * at + 1; child < n; child = 2 * at + 1) {
		uint32_t spare;

		if (child + 1 < n &&
		    compare(&w->word[order[child]], &w->word[order[child + 1]], whole) < 0)
			child++;
		if (compare(&w->word[order[at]], &w->word[order[child]], whole) >= 0)
			return;
		spare = order[at];
		order[at] = order[child];
		order[child] = spare;
		at = child;
	}
}

uint32_t tw_words_rank(const struct tw_words *w, uint32_t *order, uint32_t *rank)
{
	const bool whole = tw_words_whole(w);
	uint32_t classes = 0;

	for (uint32_t i = 0; i < w->count; i++)
		order[i] = i;
	for (uint32_t i = w->count / 2; i-- > 0;)
		sift(w, whole, order, i, w->count);
	for (uint32_t n = w->count; n-- > 1;) {
		const uint32_t largest = order[0];

		order[0] = order[n];
		order[n] = largest;
		sift(w, whole, order, 0, n);
	}
	for (uint32_t i = 0; i < w->count; i++) {
		if (i > 0 && compare(&w->word[order[i - 1]], &w->word[order[i]], whole) != 0)
			classes++;
		rank[order[i]] = classes;
	}
	return w->count ? classes + 1 : 0;
}
