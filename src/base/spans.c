/* SPDX-License-Identifier: Apache-2.0 */
/* spans.c - sorted ranges in one array.
 *
 *  (1) span[k].from < span[k].to, and span[k].to < span[k + 1].from: touching ranges are merged.
 *  (2) memory is got before anything is changed, so a refusal leaves the set as it was. */
#include "base/spans.h"

#include <string.h>

void tw_spans_init(struct tw_spans *s, struct tw_heap *heap)
{
	*s = (struct tw_spans){ .heap = heap };
}

void tw_spans_release(struct tw_spans *s)
{
	s->heap->put(s->heap, s->span);
	*s = (struct tw_spans){ .heap = s->heap };
}

void tw_spans_clear(struct tw_spans *s)
{
	s->count = 0;
}

static struct tw_span *get_spans(struct tw_heap *heap, size_t count)
{
	if (count > SIZE_MAX / sizeof(struct tw_span))
		return NULL;
	return heap->get(heap, count * sizeof(struct tw_span));
}

static void take_over(struct tw_spans *s, struct tw_span *span, size_t count, size_t room)
{
	s->heap->put(s->heap, s->span);
	s->span = span;
	s->count = count;
	s->room = room;
}

static enum tw_status reserve(struct tw_spans *s, size_t count)
{
	size_t room = s->room < 4 ? 4 : s->room;
	struct tw_span *span;

	if (count <= s->room)
		return TW_OK;
	while (room < count)
		room += room / 2;
	span = get_spans(s->heap, room);
	if (!span)
		return TW_NO_MEMORY;
	if (s->count)
		memcpy(span, s->span, s->count * sizeof *span);
	take_over(s, span, s->count, room);
	return TW_OK;
}

/* Index of the first range that ends after `at`; count if none does. */
static size_t first_beyond(const struct tw_spans *s, uint64_t at)
{
	size_t low = 0, high = s->count;

	while (low < high) {
		const size_t mid = low + (high - low) / 2;

		if (s->span[mid].to > at)
			high = mid;
		else
			low = mid + 1;
	}
	return low;
}

/* Replace ranges low..high by the `n` at `with`; room was reserved. */
static void splice(struct tw_spans *s, size_t low, size_t high, const struct tw_span *with,
		   size_t n)
{
	if (high < s->count)
		memmove(s->span + low + n, s->span + high, (s->count - high) * sizeof *s->span);
	for (size_t k = 0; k < n; k++)
		s->span[low + k] = with[k];
	s->count = s->count - (high - low) + n;
}

enum tw_status tw_spans_add(struct tw_spans *s, uint64_t from, uint64_t to, uint64_t *twice)
{
	struct tw_span whole = { from, to };
	uint64_t met = 0;
	size_t low, high;

	if (from >= to)
		return TW_OK;
	low = first_beyond(s, from);
	if (low > 0 && s->span[low - 1].to == from)
		low--;
	for (high = low; high < s->count && s->span[high].from <= to; high++) {
		const struct tw_span x = s->span[high];
		const uint64_t a = x.from > from ? x.from : from;
		const uint64_t b = x.to < to ? x.to : to;

		met += b > a ? b - a : 0;
		if (x.from < whole.from)
			whole.from = x.from;
		if (x.to > whole.to)
			whole.to = x.to;
	}
	if (low == high && reserve(s, s->count + 1) != TW_OK)
		return TW_NO_MEMORY;
	splice(s, low, high, &whole, 1);
	if (twice)
		*twice += met;
	return TW_OK;
}

enum tw_status tw_spans_remove(struct tw_spans *s, uint64_t from, uint64_t to)
{
	struct tw_span rest[2];
	size_t low, high, n = 0;

	if (from >= to)
		return TW_OK;
	low = first_beyond(s, from);
	for (high = low; high < s->count && s->span[high].from < to; high++)
		;
	if (low == high)
		return TW_OK;
	if (s->span[low].from < from)
		rest[n++] = (struct tw_span){ s->span[low].from, from };
	if (s->span[high - 1].to > to)
		rest[n++] = (struct tw_span){ to, s->span[high - 1].to };
	if (n > high - low && reserve(s, s->count + 1) != TW_OK)
		return TW_NO_MEMORY;
	splice(s, low, high, rest, n);
	return TW_OK;
}

enum tw_status tw_spans_copy(struct tw_spans *to, const struct tw_spans *from)
{
	if (to == from)
		return TW_OK;
	if (reserve(to, from->count) != TW_OK)
		return TW_NO_MEMORY;
	if (from->count)
		memcpy(to->span, from->span, from->count * sizeof *to->span);
	to->count = from->count;
	return TW_OK;
}

enum tw_status tw_spans_intersect(struct tw_spans *s, const struct tw_spans *other)
{
	const size_t room = s->count + other->count;
	struct tw_span *out;
	size_t n = 0;

	if (s->count == 0 || other->count == 0) {
		s->count = 0;
		return TW_OK;
	}
	out = get_spans(s->heap, room);
	if (!out)
		return TW_NO_MEMORY;
	for (size_t i = 0, j = 0; i < s->count && j < other->count;) {
		const struct tw_span a = s->span[i], b = other->span[j];
		const uint64_t from = a.from > b.from ? a.from : b.from;
		const uint64_t to = a.to < b.to ? a.to : b.to;

		if (from < to)
			out[n++] = (struct tw_span){ from, to };
		if (a.to < b.to)
			i++;
		else
			j++;
	}
	take_over(s, out, n, room);
	return TW_OK;
}

enum tw_status tw_spans_unite(struct tw_spans *s, const struct tw_spans *other)
{
	const size_t room = s->count + other->count;
	struct tw_span *out;
	size_t n = 0, i = 0, j = 0;

	if (other->count == 0)
		return TW_OK;
	out = get_spans(s->heap, room);
	if (!out)
		return TW_NO_MEMORY;
	while (i < s->count || j < other->count) {
		const bool mine = j == other->count ||
				  (i < s->count && s->span[i].from <= other->span[j].from);
		const struct tw_span x = mine ? s->span[i++] : other->span[j++];

		if (n == 0 || out[n - 1].to < x.from)
			out[n++] = x;
		else if (out[n - 1].to < x.to)
			out[n - 1].to = x.to;
	}
	take_over(s, out, n, room);
	return TW_OK;
}

enum tw_status tw_spans_subtract(struct tw_spans *s, const struct tw_spans *other)
{
	const size_t room = s->count + other->count;
	struct tw_span *out;
	size_t n = 0, j = 0;

	if (s->count == 0 || other->count == 0)
		return TW_OK;
	out = get_spans(s->heap, room);
	if (!out)
		return TW_NO_MEMORY;
	for (size_t i = 0; i < s->count; i++) {
		struct tw_span x = s->span[i];

		while (j < other->count && other->span[j].to <= x.from)
			j++;
		for (size_t k = j; k < other->count && other->span[k].from < x.to; k++) {
			if (other->span[k].from > x.from)
				out[n++] = (struct tw_span){ x.from, other->span[k].from };
			x.from = other->span[k].to;
			if (x.from >= x.to)
				break;
		}
		if (x.from < x.to)
			out[n++] = x;
	}
	take_over(s, out, n, room);
	return TW_OK;
}

uint64_t tw_spans_total(const struct tw_spans *s)
{
	uint64_t total = 0;

	for (size_t k = 0; k < s->count; k++)
		total += s->span[k].to - s->span[k].from;
	return total;
}

uint64_t tw_spans_within(const struct tw_spans *s, uint64_t from, uint64_t to)
{
	uint64_t total = 0;

	for (size_t k = first_beyond(s, from); k < s->count && s->span[k].from < to; k++) {
		const struct tw_span x = s->span[k];

		total += (x.to < to ? x.to : to) - (x.from > from ? x.from : from);
	}
	return total;
}

bool tw_spans_gap(const struct tw_spans *s, uint64_t from, uint64_t end, uint64_t most,
		  struct tw_span *out)
{
	size_t k = first_beyond(s, from);

	if (k < s->count && s->span[k].from <= from)
		from = s->span[k++].to;
	if (from >= end || most == 0)
		return false;
	if (k < s->count && s->span[k].from < end)
		end = s->span[k].from;
	if (end - from > most)
		end = from + most;
	*out = (struct tw_span){ from, end };
	return true;
}
