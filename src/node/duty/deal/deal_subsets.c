/* SPDX-License-Identifier: Apache-2.0 */
/* deal_subsets.c - what is next for a worker, where the samples are divided among the slots
 * (data.deal).
 *
 *  (1) a worker is dealt its own slot's subset, and subsets of slots without a worker: whichever
 *      position is lower.  So what a worker that went had left is trained by the others in the
 *      order of the epoch, and one that takes its slot gets the rest.
 *  (2) next[k]: all positions of subset k below it are taken.
 *  (3) `heap` has the slots without a worker, the least (next, slot) first; place[k] is where slot
 *      k is in it, from 1; 0: it has a worker.
 *  (4) a position is passed over once, so what an event costs does not grow with the number of
 *      workers, but for the logarithm of the heap.
 *  (5) where samples are own (data.placement), nobody else can compute them.  Places of slots
 *      without a worker, and those behind a worker's last sample, are passed over as soon as
 *      nothing before them is left to deal: they are *unreachable* in the epochs that the slot's
 *      last worker had begun when it went (below `lost`), and *vacant* otherwise.  So all places of
 *      an epoch are dealt or passed over, and one that joins begins where the others are. */
#include "node/duty/deal/deal_state.h"

#include <string.h>

static bool divided(const struct master *m)
{
	return m->plan->dealing.subsets.count;
}

static bool own(const struct master *m)
{
	return m->plan->dealing.subsets.own;
}

/* --- the heap --------------------------------------------------------------------------------- */

static bool before(const struct orphans *o, uint32_t a, uint32_t b)
{
	return o->next[a] != o->next[b] ? o->next[a] < o->next[b] : a < b;
}

static void put_at(struct orphans *o, uint32_t at, uint32_t slot)
{
	o->heap[at] = slot;
	o->place[slot] = at;
}

/* Slot `slot` belongs at or above place `at`, or at or below it. */
static void sift(struct orphans *o, uint32_t at, uint32_t slot)
{
	while (at > 1 && before(o, slot, o->heap[at / 2])) {
		put_at(o, at, o->heap[at / 2]);
		at /= 2;
	}
	for (;;) {
		uint32_t child = 2 * at;

		if (child > o->count)
			break;
		if (child < o->count && before(o, o->heap[child + 1], o->heap[child]))
			child++;
		if (before(o, slot, o->heap[child]))
			break;
		put_at(o, at, o->heap[child]);
		at = child;
	}
	put_at(o, at, slot);
}

enum tw_status tw_orphans_open(struct master *m)
{
	struct orphans *o = &m->deal->orphans;
	const size_t slots = m->plan->crew.workers;

	if (!divided(m))
		return TW_OK;
	o->next = tw_heap_zeros(m->heap, slots * sizeof *o->next);
	o->heap = tw_heap_zeros(m->heap, (slots + 1) * sizeof *o->heap);
	o->place = tw_heap_zeros(m->heap, slots * sizeof *o->place);
	if (own(m))
		o->lost = tw_heap_zeros(m->heap, slots * sizeof *o->lost);
	if (!o->next || !o->heap || !o->place || (own(m) && !o->lost))
		return TW_NO_MEMORY;
	for (uint32_t k = 0; k < slots; k++)
		put_at(o, ++o->count, k);
	return TW_OK;
}

void tw_orphans_close(struct master *m)
{
	struct orphans *o = &m->deal->orphans;

	m->heap->put(m->heap, o->next);
	m->heap->put(m->heap, o->heap);
	m->heap->put(m->heap, o->place);
	m->heap->put(m->heap, o->lost);
}

void tw_orphans_seat(struct master *m, uint32_t slot, bool live)
{
	struct orphans *o = &m->deal->orphans;

	if (!divided(m))
		return;
	if (!live) {
		sift(o, ++o->count, slot);
		m->dealing.again = true;
		if (own(m))
			o->lost[slot] = o->next[slot] / m->plan->problem.samples + 1;
	} else {
		const uint32_t at = o->place[slot], last = o->heap[o->count--];

		o->place[slot] = 0;
		if (last != slot)
			sift(o, at, last);
	}
}

/* --- positions -------------------------------------------------------------------------------- */

/* next[k] goes back to this position, or on to it. */
static void move_to(struct orphans *o, uint32_t k, uint64_t position)
{
	o->next[k] = position;
	if (o->place[k])
		sift(o, o->place[k], k);
}

void tw_orphans_came_back(struct master *m, uint64_t from, uint64_t to)
{
	struct orphans *o = &m->deal->orphans;

	while (divided(m) && from < to) {
		const struct tw_cell c = tw_subsets_cell(&m->plan->dealing.subsets, from);

		if (from < o->next[c.subset])
			move_to(o, c.subset, from);
		if (m->member[c.subset].appetite == APPETITE_DRY)
			tw_deal_appetite(m, c.subset, APPETITE_HUNGRY);
		from = c.to;
	}
}

void tw_orphans_restart(struct master *m)
{
	m->deal->orphans.passed = (struct passed){ 0 };
	for (uint32_t k = 0; divided(m) && k < m->plan->crew.workers; k++)
		move_to(&m->deal->orphans, k, 0);
}

/* Where the places of a cell end that are samples of the slot's worker. */
static uint64_t samples_end(const struct master *m, const struct tw_cell *c)
{
	uint64_t has;

	if (!own(m))
		return c->to;
	has = tw_subsets_own(&m->plan->dealing.subsets, c->subset, m->member[c->subset].own);
	if (has <= c->first)
		return c->from;
	return has - c->first < c->to - c->from ? c->from + (has - c->first) : c->to;
}

/* The first free range of subset k below `end`, at most `most` long. */
static bool next_of(struct master *m, uint32_t k, uint64_t end, uint64_t most, struct tw_span *out)
{
	struct orphans *o = &m->deal->orphans;
	uint64_t at = o->next[k];
	bool found = tw_spans_gap(&m->dealing.taken, at, end, 1, out);

	at = found ? out->from : end > at ? end : at; /* all below it is taken, whosever it is */
	for (; found && at < end;) {
		const struct tw_cell c = tw_subsets_next(&m->plan->dealing.subsets, k, at);
		const uint64_t to = samples_end(m, &c);

		at = at > c.from ? at : c.from;
		if (at >= end)
			found = false;
		else if (tw_spans_gap(&m->dealing.taken, at, to < end ? to : end, most, out))
			break;
		else
			at = c.to < end ? c.to : end;
	}
	found = found && at < end;
	at = found ? out->from : at;
	if (at != o->next[k])
		move_to(o, k, at);
	return found;
}

/* The same of all slots without a worker. */
static bool next_orphan(struct master *m, uint64_t end, uint64_t most, struct tw_span *out)
{
	struct orphans *o = &m->deal->orphans;

	while (o->count && o->next[o->heap[1]] < end) {
		const uint32_t k = o->heap[1];

		if (next_of(m, k, end, most, out) && o->heap[1] == k)
			return true;
	}
	return false;
}

bool tw_orphans_next_range(struct master *m, uint32_t slot, uint64_t end, uint64_t most,
			   struct tw_span *out)
{
	struct tw_span other;
	const bool mine = next_of(m, slot, end, most, out);

	if (own(m) || !next_orphan(m, mine ? out->from : end, most, &other))
		return mine;
	*out = other;
	return true;
}

bool tw_orphans_may_help(struct master *m)
{
	struct tw_span r;

	if (own(m))
		return false;
	return !divided(m) || next_orphan(m, m->plan->dealing.positions, 1, &r);
}

/* --- what nobody can compute ------------------------------------------------------------------ */

/* (5) The first free range, if it is of nobody: *out is it, within its cell. */
static bool next_of_nobody(struct master *m, struct tw_span *out)
{
	const uint64_t end = m->plan->dealing.positions;
	struct tw_cell c;

	if (!tw_spans_gap(&m->dealing.taken, 0, end, 1, out))
		return false;
	c = tw_subsets_cell(&m->plan->dealing.subsets, out->from);
	if (!m->deal->orphans.place[c.subset] && out->from < samples_end(m, &c))
		return false;
	return tw_spans_gap(&m->dealing.taken, out->from, c.to < end ? c.to : end, UINT64_MAX, out);
}

void tw_orphans_pass(struct master *m, struct tw_context *ctx)
{
	struct orphans *o = &m->deal->orphans;
	struct tw_span r;

	if (!own(m) || m->phase != PHASE_RUN || m->waits.paused)
		return;
	while (tw_master_live(m) && next_of_nobody(m, &r)) {
		const uint32_t k = tw_subsets_cell(&m->plan->dealing.subsets, r.from).subset;
		const bool begun = o->place[k] && r.from / m->plan->problem.samples < o->lost[k];

		if (tw_deal_take(m, r.from, r.to) != TW_OK) {
			tw_give_up(ctx, TW_NO_MEMORY, "no memory for samples that nobody has");
			return;
		}
		*(begun ? &o->passed.unreachable : &o->passed.vacant) += r.to - r.from;
	}
}

uint64_t tw_orphans_end(const struct master *m, uint64_t end)
{
	const uint64_t samples = m->plan->problem.samples;
	struct tw_span r;

	if (!own(m) || !tw_spans_gap(&m->dealing.taken, 0, end, 1, &r))
		return end;
	return (r.from / samples + 1) * samples < end ? (r.from / samples + 1) * samples : end;
}

/* --- cuts ------------------------------------------------------------------------------------- */

struct tw_array tw_orphans_pack(const struct master *m, const struct passed *passed)
{
	return (struct tw_array){ .name = TW_PASSED_PART,
				  .n = own(m) ? sizeof *passed : 0,
				  .kind = TW_BYTES,
				  .at = passed };
}

void tw_orphans_restore(struct master *m, const struct tw_array *a)
{
	struct orphans *o = &m->deal->orphans;

	if (own(m) && a && a->n == sizeof o->passed)
		memcpy(&o->passed, a->at, sizeof o->passed);
}

struct passed tw_deal_passed(const struct master *m)
{
	return m->deal->orphans.passed;
}
