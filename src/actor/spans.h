/* SPDX-License-Identifier: Apache-2.0 */
/* spans.h - sets of positions as sorted, disjoint, merged half-open ranges.
 *
 * The set of samples a shard has applied, the set a master has dealt: both are nearly one range,
 * but with as many holes as workers are at work.  So ranges lie in short runs, and a directory
 * finds the run: with n ranges a question costs log n steps, and a change moves one run.
 *
 * Who owns what: a set owns its runs; release gives all of them back, clear empties the set. */
#ifndef TW_BASE_SPANS_H
#define TW_BASE_SPANS_H

#include "base/heap.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct tw_span {
	uint64_t from, to; /* [from, to), never empty inside a set */
};

struct tw_run {
	struct tw_span *span;
	uint32_t count, room; /* count is never 0 */
	uint64_t end;         /* of its last range: a search for a run reads the directory alone */
};

struct tw_spans {
	struct tw_heap *heap;
	struct tw_run *run; /* in order: together they are the set */
	size_t runs, room;
	size_t spares;  /* empty runs, behind the others: what tw_spans_reserve has got */
	size_t count;   /* ranges in the set */
	uint64_t total; /* positions in the set */
};

void tw_spans_init(struct tw_spans *s, struct tw_heap *heap);
void tw_spans_release(struct tw_spans *s); /* of zero, too */
void tw_spans_clear(struct tw_spans *s);
/* Add [from, to).  *twice (may be NULL) grows by the positions that were in the set already.
 * TW_NO_MEMORY leaves the set as it was. */
enum tw_status tw_spans_add(struct tw_spans *s, uint64_t from, uint64_t to, uint64_t *twice);
/* Get the memory for so many adds: they cannot fail then. */
enum tw_status tw_spans_reserve(struct tw_spans *s, size_t adds);
/* TW_NO_MEMORY (one range becomes two) leaves the set as it was. */
enum tw_status tw_spans_remove(struct tw_spans *s, uint64_t from, uint64_t to);
/* These three walk both sets.  TW_NO_MEMORY leaves `to` or `s` as it was. */
enum tw_status tw_spans_copy(struct tw_spans *to, const struct tw_spans *from);
/* s := s ∩ other, s := s ∪ other, s := s \ other. */
enum tw_status tw_spans_intersect(struct tw_spans *s, const struct tw_spans *other);
enum tw_status tw_spans_unite(struct tw_spans *s, const struct tw_spans *other);
enum tw_status tw_spans_subtract(struct tw_spans *s, const struct tw_spans *other);
static inline uint64_t tw_spans_total(const struct tw_spans *s)
{
	return s->total;
}
/* The first range that ends after `at`; false: none.  To walk: at = 0, then out->to. */
bool tw_spans_next(const struct tw_spans *s, uint64_t at, struct tw_span *out);
/* All ranges, in order, into out[s->count]. */
void tw_spans_write(const struct tw_spans *s, struct tw_span *out);
/* The same in an array from the set's heap, for the caller to put; NULL without memory. */
struct tw_span *tw_spans_list(const struct tw_spans *s);
/* How many positions of [from, to) are in the set. */
uint64_t tw_spans_within(const struct tw_spans *s, uint64_t from, uint64_t to);
/* The first free range at or after `from` below `end`: at most `most` positions, in *out; false
 * when there is none. */
bool tw_spans_gap(const struct tw_spans *s, uint64_t from, uint64_t end, uint64_t most,
		  struct tw_span *out);

#endif
