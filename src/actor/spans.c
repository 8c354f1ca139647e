/* SPDX-License-Identifier: Apache-2.0 */
/* spans.c - sorted ranges in short runs.
 *
 *  (1) from < to in every range, and a range ends before the next one begins: touching ranges are
 *      merged, also across runs.
 *  (2) a run has 1 to RUN ranges, and `end` is the end of the last one; two neighbours that fit
 *      into half a run are one.  One that is alone may have room for less: most sets are a few
 *      ranges.
 *  (3) memory is got before anything is changed, so a refusal leaves the set as it was.
 *  (4) run[runs] to run[runs + spares - 1] are empty; room >= runs + spares. */
#include "actor/spans.h"
#include "base/grow.h"

#include <string.h>

#define RUN 64 /* ranges: 1 KB to move at most; 1,600 runs are 100,000 ranges */

/* A place in a set: range i of run r; r == runs is the end. */
struct place {
	size_t r, i;
};

void tw_spans_init(struct tw_spans *s, struct tw_heap *heap)
{
	*s = (struct tw_spans){ .heap = heap };
}

void tw_spans_clear(struct tw_spans *s)
{
	for (size_t r = 0; r < s->runs + s->spares; r++)
		s->heap->put(s->heap, s->run[r].span);
	s->runs = s->spares = s->count = 0;
	s->total = 0;
}

void tw_spans_release(struct tw_spans *s)
{
	if (!s->heap) /* zero: it was never begun */
		return;
	tw_spans_clear(s);
	s->heap->put(s->heap, s->run);
	*s = (struct tw_spans){ .heap = s->heap };
}

/* --- places ----------------------------------------------------------------------------------- */

static struct tw_span *at(const struct tw_spans *s, struct place p)
{
	return &s->run[p.r].span[p.i];
}

/* Of `count` ranges, the first that ends after `pos`; count if none does. */
static size_t first_in(const struct tw_span *span, size_t count, uint64_t pos)
{
	size_t low = 0, high = count;

	while (low < high) {
		const size_t mid = low + (high - low) / 2;

		if (span[mid].to > pos)
			high = mid;
		else
			low = mid + 1;
	}
	return low;
}

/* The first range that ends after `pos`. */
static struct place first_beyond(const struct tw_spans *s, uint64_t pos)
{
	size_t low = 0, high = s->runs;

	while (low < high) {
		const size_t mid = low + (high - low) / 2;

		if (s->run[mid].end > pos)
			high = mid;
		else
			low = mid + 1;
	}
	if (low == s->runs)
		return (struct place){ low, 0 };
	return (struct place){ low, first_in(s->run[low].span, s->run[low].count, pos) };
}

static bool ends(const struct tw_spans *s, struct place p)
{
	return p.r == s->runs;
}

static struct place after(const struct tw_spans *s, struct place p)
{
	if (++p.i == s->run[p.r].count)
		p = (struct place){ p.r + 1, 0 };
	return p;
}

/* --- changes ---------------------------------------------------------------------------------- */

/* (2) after its last range changed. */
static void seal(struct tw_run *run)
{
	run->end = run->span[run->count - 1].to;
}

static enum tw_status widen(struct tw_spans *s, size_t runs)
{
	return TW_GROW(s->heap, s->run, s->room, s->runs + s->spares, runs) ? TW_OK : TW_NO_MEMORY;
}

/* Have so many spare runs at least; of RUN ranges, unless they are for an empty set. */
static enum tw_status lay_by(struct tw_spans *s, size_t spares, uint32_t room)
{
	if (widen(s, s->runs + spares) != TW_OK)
		return TW_NO_MEMORY;
	while (s->spares < spares) {
		struct tw_span *span = s->heap->get(s->heap, room * sizeof *span);

		if (!span)
			return TW_NO_MEMORY;
		s->run[s->runs + s->spares++] = (struct tw_run){ span, 0, room };
	}
	return TW_OK;
}

/* (2): the room of a run that is alone, for so many ranges. */
static uint32_t room_for(size_t ranges)
{
	uint32_t room = 4;

	while (room < ranges && room < RUN)
		room *= 2;
	return room;
}

/* Have room for so many ranges in a run, or for RUN. */
static enum tw_status stretch(struct tw_spans *s, struct tw_run *run, size_t ranges)
{
	const uint32_t room = room_for(ranges);
	struct tw_span *span;

	if (room <= run->room)
		return TW_OK;
	span = s->heap->get(s->heap, room * sizeof *span);
	if (!span)
		return TW_NO_MEMORY;
	memcpy(span, run->span, run->count * sizeof *span);
	s->heap->put(s->heap, run->span);
	run->span = span;
	run->room = room;
	return TW_OK;
}

/* An add opens a run where it meets a full one.  Each run there is now may become full; one that
 * comes of a split or of a join takes RUN / 2 more ranges first. */
enum tw_status tw_spans_reserve(struct tw_spans *s, size_t adds)
{
	const size_t most = s->runs + adds / (RUN / 2) + 1;

	if (s->runs == 0 && !s->spares && adds && adds <= RUN)
		return lay_by(s, 1, room_for(adds));
	if (s->runs == 0 && s->spares == 1 && s->run[0].room < adds &&
	    stretch(s, &s->run[0], adds) != TW_OK)
		return TW_NO_MEMORY;
	if (s->runs == 1 && stretch(s, &s->run[0], s->run[0].count + adds) != TW_OK)
		return TW_NO_MEMORY;
	if (s->runs == 1 && adds <= RUN - s->run[0].count)
		return TW_OK;
	return lay_by(s, adds < most ? adds : most, RUN);
}

/* A new, empty run at r: the caller fills it. */
static enum tw_status open_run(struct tw_spans *s, size_t r)
{
	struct tw_run one;

	if (!s->spares && lay_by(s, 1, s->runs ? RUN : room_for(1)) != TW_OK)
		return TW_NO_MEMORY;
	one = s->run[s->runs + --s->spares]; /* the last of them, so that the others can stay */
	memmove(s->run + r + 1, s->run + r, (s->runs++ + s->spares - r) * sizeof *s->run);
	s->run[r] = one;
	return TW_OK;
}

static void close_runs(struct tw_spans *s, size_t r, size_t count)
{
	for (size_t k = 0; k < count; k++)
		s->heap->put(s->heap, s->run[r + k].span);
	memmove(s->run + r, s->run + r + count, (s->runs + s->spares - r - count) * sizeof *s->run);
	s->runs -= count;
}

/* The upper half of a full run goes into a run of its own; *p stays the same place. */
static enum tw_status split(struct tw_spans *s, struct place *p)
{
	struct tw_run *low, *high;

	if (open_run(s, p->r + 1) != TW_OK)
		return TW_NO_MEMORY;
	low = &s->run[p->r];
	high = low + 1;
	high->count = low->count / 2;
	low->count -= high->count;
	memcpy(high->span, low->span + low->count, high->count * sizeof *high->span);
	seal(low);
	seal(high);
	if (p->i > low->count)
		*p = (struct place){ p->r + 1, p->i - low->count };
	return TW_OK;
}

/* A range of its own before p. */
static enum tw_status insert(struct tw_spans *s, struct place p, struct tw_span x)
{
	struct tw_run *run;

	if (s->runs == 0 && open_run(s, 0) != TW_OK)
		return TW_NO_MEMORY;
	if (p.r == s->runs || (p.r && p.i == 0)) /* at the end of the run before */
		p = (struct place){ p.r ? p.r - 1 : 0, p.r ? s->run[p.r - 1].count : 0 };
	if (stretch(s, &s->run[p.r], s->run[p.r].count + 1) != TW_OK)
		return TW_NO_MEMORY;
	if (s->run[p.r].count == RUN && split(s, &p) != TW_OK)
		return TW_NO_MEMORY;
	run = &s->run[p.r];
	memmove(run->span + p.i + 1, run->span + p.i, (run->count++ - p.i) * sizeof x);
	run->span[p.i] = x;
	seal(run);
	s->count++;
	return TW_OK;
}

/* (2) */
static void join_runs(struct tw_spans *s, size_t r)
{
	struct tw_run *low = &s->run[r];

	if (r + 1 >= s->runs || low->count + low[1].count > RUN / 2)
		return;
	memcpy(low->span + low->count, low[1].span, low[1].count * sizeof *low->span);
	low->count += low[1].count;
	seal(low);
	close_runs(s, r + 1, 1);
}

/* The ranges from p on, before `end`, go. */
static void erase(struct tw_spans *s, struct place p, struct place end)
{
	struct tw_run *first = ends(s, p) ? NULL : &s->run[p.r];
	size_t gone = 0, from = p.r;

	if (p.r == end.r) {
		if (p.i == end.i)
			return;
		gone = end.i - p.i;
		memmove(first->span + p.i, first->span + end.i,
			(first->count - end.i) * sizeof *first->span);
		first->count -= gone;
		seal(first);
	} else {
		if (p.i) { /* the tail of the first run, */
			gone += first->count - p.i;
			first->count = p.i;
			seal(first);
			from++;
		}
		for (size_t r = from; r < end.r; r++)
			gone += s->run[r].count;
		close_runs(s, from, end.r - from); /* whole runs, */
		if (from < s->runs && end.i) {     /* and the head of the last one */
			struct tw_run *last = &s->run[from];

			memmove(last->span, last->span + end.i,
				(last->count - end.i) * sizeof *last->span);
			last->count -= end.i;
			gone += end.i;
		}
	}
	s->count -= gone;
	join_runs(s, p.r);
	if (p.r)
		join_runs(s, p.r - 1);
}

enum tw_status tw_spans_add(struct tw_spans *s, uint64_t from, uint64_t to, uint64_t *twice)
{
	struct tw_span whole = { from, to };
	struct place low, high;
	uint64_t met = 0;

	if (from >= to)
		return TW_OK;
	low = first_beyond(s, from ? from - 1 : 0); /* the one before may touch */
	for (high = low; !ends(s, high) && at(s, high)->from <= to; high = after(s, high)) {
		const struct tw_span x = *at(s, high);
		const uint64_t a = x.from > from ? x.from : from;
		const uint64_t b = x.to < to ? x.to : to;

		met += b > a ? b - a : 0;
		if (x.from < whole.from)
			whole.from = x.from;
		if (x.to > whole.to)
			whole.to = x.to;
	}
	if (low.r == high.r && low.i == high.i) {
		if (insert(s, low, whole) != TW_OK)
			return TW_NO_MEMORY;
	} else {
		*at(s, low) = whole;
		seal(&s->run[low.r]);
		erase(s, after(s, low), high);
	}
	s->total += to - from - met;
	if (twice)
		*twice += met;
	return TW_OK;
}

enum tw_status tw_spans_remove(struct tw_spans *s, uint64_t from, uint64_t to)
{
	struct place low = first_beyond(s, from), high, last = low;
	uint64_t met = 0;

	if (from >= to)
		return TW_OK;
	for (high = low; !ends(s, high) && at(s, high)->from < to; high = after(s, high)) {
		const struct tw_span x = *at(s, high);

		met += (x.to < to ? x.to : to) - (x.from > from ? x.from : from);
		last = high;
	}
	if (met == 0)
		return TW_OK;
	if (low.r == last.r && low.i == last.i && at(s, low)->from < from && at(s, low)->to > to) {
		const struct tw_span rest = { to, at(s, low)->to };

		if (insert(s, high, rest) != TW_OK) /* one becomes two */
			return TW_NO_MEMORY;
		low = first_beyond(s, from);
		at(s, low)->to = from;
		seal(&s->run[low.r]);
	} else {
		if (at(s, last)->to > to) {
			at(s, last)->from = to;
			high = last;
		}
		if (at(s, low)->from < from) {
			at(s, low)->to = from;
			seal(&s->run[low.r]);
			low = after(s, low);
		}
		erase(s, low, high);
	}
	s->total -= met;
	return TW_OK;
}

/* --- whole sets ------------------------------------------------------------------------------- */

/* A range at or after the end of all others. */
static enum tw_status append(struct tw_spans *s, struct tw_span x)
{
	struct tw_run *last = s->runs ? &s->run[s->runs - 1] : NULL;
	struct tw_span *end = last ? &last->span[last->count - 1] : NULL;

	if (end && end->to >= x.from) {
		s->total += x.to > end->to ? x.to - end->to : 0;
		end->to = x.to > end->to ? x.to : end->to;
		seal(last);
		return TW_OK;
	}
	if (!last || last->count == RUN) {
		if (open_run(s, s->runs) != TW_OK)
			return TW_NO_MEMORY;
		last = &s->run[s->runs - 1];
	}
	if (stretch(s, last, last->count + 1) != TW_OK)
		return TW_NO_MEMORY;
	last->span[last->count++] = x;
	seal(last);
	s->total += x.to - x.from;
	s->count++;
	return TW_OK;
}

/* `made` becomes *s, if it was made whole. */
static enum tw_status take_over(struct tw_spans *s, struct tw_spans *made, enum tw_status st)
{
	struct tw_spans *drop = st == TW_OK ? s : made;
	const struct tw_spans keep = *made;

	tw_spans_release(drop);
	if (st == TW_OK)
		*s = keep;
	return st;
}

enum tw_status tw_spans_copy(struct tw_spans *to, const struct tw_spans *from)
{
	struct tw_spans out = { .heap = to->heap };
	enum tw_status st = TW_OK;

	if (to == from)
		return TW_OK;
	for (struct place p = { 0, 0 }; !ends(from, p) && st == TW_OK; p = after(from, p))
		st = append(&out, *at(from, p));
	return take_over(to, &out, st);
}

enum tw_status tw_spans_intersect(struct tw_spans *s, const struct tw_spans *other)
{
	struct tw_spans out = { .heap = s->heap };
	struct place i = { 0, 0 }, j = { 0, 0 };
	enum tw_status st = TW_OK;

	while (!ends(s, i) && !ends(other, j) && st == TW_OK) {
		const struct tw_span a = *at(s, i), b = *at(other, j);
		const uint64_t from = a.from > b.from ? a.from : b.from;
		const uint64_t to = a.to < b.to ? a.to : b.to;

		if (from < to)
			st = append(&out, (struct tw_span){ from, to });
		if (a.to < b.to)
			i = after(s, i);
		else
			j = after(other, j);
	}
	return take_over(s, &out, st);
}

enum tw_status tw_spans_unite(struct tw_spans *s, const struct tw_spans *other)
{
	struct tw_spans out = { .heap = s->heap };
	struct place i = { 0, 0 }, j = { 0, 0 };
	enum tw_status st = TW_OK;

	if (other->count == 0)
		return TW_OK;
	while ((!ends(s, i) || !ends(other, j)) && st == TW_OK) {
		const bool mine =
			ends(other, j) || (!ends(s, i) && at(s, i)->from <= at(other, j)->from);

		st = append(&out, mine ? *at(s, i) : *at(other, j));
		if (mine)
			i = after(s, i);
		else
			j = after(other, j);
	}
	return take_over(s, &out, st);
}

enum tw_status tw_spans_subtract(struct tw_spans *s, const struct tw_spans *other)
{
	struct tw_spans out = { .heap = s->heap };
	struct place j = { 0, 0 };
	enum tw_status st = TW_OK;

	if (s->count == 0 || other->count == 0)
		return TW_OK;
	for (struct place i = { 0, 0 }; !ends(s, i) && st == TW_OK; i = after(s, i)) {
		struct tw_span x = *at(s, i);

		while (!ends(other, j) && at(other, j)->to <= x.from)
			j = after(other, j);
		for (struct place k = j;
		     !ends(other, k) && at(other, k)->from < x.to && x.from < x.to && st == TW_OK;
		     k = after(other, k)) {
			if (at(other, k)->from > x.from)
				st = append(&out, (struct tw_span){ x.from, at(other, k)->from });
			x.from = at(other, k)->to;
		}
		if (x.from < x.to && st == TW_OK)
			st = append(&out, x);
	}
	return take_over(s, &out, st);
}

/* --- questions -------------------------------------------------------------------------------- */

bool tw_spans_next(const struct tw_spans *s, uint64_t pos, struct tw_span *out)
{
	const struct place p = first_beyond(s, pos);

	if (ends(s, p))
		return false;
	*out = *at(s, p);
	return true;
}

void tw_spans_write(const struct tw_spans *s, struct tw_span *out)
{
	for (size_t r = 0; r < s->runs; out += s->run[r++].count)
		memcpy(out, s->run[r].span, s->run[r].count * sizeof *out);
}

struct tw_span *tw_spans_list(const struct tw_spans *s)
{
	struct tw_span *out = s->heap->get(s->heap, (s->count + 1) * sizeof *out);

	if (out)
		tw_spans_write(s, out);
	return out;
}

uint64_t tw_spans_within(const struct tw_spans *s, uint64_t from, uint64_t to)
{
	uint64_t total = 0;

	for (struct place p = first_beyond(s, from); !ends(s, p) && at(s, p)->from < to;
	     p = after(s, p)) {
		const struct tw_span x = *at(s, p);

		total += (x.to < to ? x.to : to) - (x.from > from ? x.from : from);
	}
	return total;
}

bool tw_spans_gap(const struct tw_spans *s, uint64_t from, uint64_t end, uint64_t most,
		  struct tw_span *out)
{
	struct place p = first_beyond(s, from);

	if (!ends(s, p) && at(s, p)->from <= from) {
		from = at(s, p)->to;
		p = after(s, p);
	}
	if (from >= end || most == 0)
		return false;
	if (!ends(s, p) && at(s, p)->from < end)
		end = at(s, p)->from;
	if (end - from > most)
		end = from + most;
	*out = (struct tw_span){ from, end };
	return true;
}
