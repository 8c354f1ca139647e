/* SPDX-License-Identifier: Apache-2.0 */
/* online_master.c - the master adds up the scores of predictions, and reports them.  The numbers in
 * brackets are those of README.md. */
#include "node/duty/online/online.h"
#include "base/grow.h"
#include "node/checkpoint_part.h"
#include "node/duty/online/online_state.h"
#include "node/kernel/duty.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

static void add(struct online_sum *to, const struct online_entry *e)
{
	to->samples += e->samples;
	to->loss += e->loss;
	to->correct += e->correct;
}

static double mean(const struct online_sum *s, double of)
{
	return s->samples ? of / (double)s->samples : (double)NAN;
}

/* --- the window (3) -------------------------------------------------------------------------- */

static void drop_first(struct online_master *o)
{
	o->windowed -= o->entry[o->first].samples;
	o->first = (o->first + 1) % o->room;
	o->entries--;
}

/* The ring is laid out from its beginning, with room for one more. */
static bool make_room(const struct master *m)
{
	struct online_master *o = m->online;
	const size_t room = o->room ? 2 * o->room : 64;
	struct online_entry *wider;

	if (o->entries < o->room)
		return true;
	wider = tw_heap_zeros(m->heap, room * sizeof *wider);
	if (!wider)
		return false;
	for (size_t k = 0; k < o->entries; k++)
		wider[k] = o->entry[(o->first + k) % o->room];
	m->heap->put(m->heap, o->entry);
	o->entry = wider;
	o->room = room;
	o->first = 0;
	return true;
}

static bool slide(const struct master *m, const struct online_entry *e)
{
	struct online_master *o = m->online;
	const uint64_t window = m->plan->online.window;

	while (o->entries && o->windowed + e->samples - o->entry[o->first].samples >= window)
		drop_first(o);
	if (!make_room(m))
		return false;
	o->entry[(o->first + o->entries++) % o->room] = *e;
	o->windowed += e->samples;
	return true;
}

/* --- reports (4) ----------------------------------------------------------------------------- */

static struct tw_progressive so_far(const struct online_master *o)
{
	const struct online_sum *since = o->since.samples ? &o->since : &o->last;
	struct online_sum w = { 0 };

	for (size_t k = 0; k < o->entries; k++)
		add(&w, &o->entry[(o->first + k) % o->room]);
	return (struct tw_progressive){
		.samples = o->all.samples,
		.unscored = tw_spans_total(&o->settled) - o->all.samples,
		.window = w.samples,
		.loss = mean(&o->all, o->all.loss),
		.loss_since = mean(since, since->loss),
		.loss_window = mean(&w, w.loss),
		.accuracy = o->judged ? mean(&o->all, o->all.correct) : -1,
		.accuracy_since = o->judged ? mean(since, since->correct) : -1,
		.accuracy_window = o->judged ? mean(&w, w.correct) : -1,
	};
}

static void report(struct master *m, struct tw_context *ctx)
{
	struct online_master *o = m->online;

	tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_SCORE, .score = so_far(o) });
	o->last = o->since;
	o->since = (struct online_sum){ 0 };
}

static uint64_t doubling_after(uint64_t samples)
{
	uint64_t next = 1;

	while (next <= samples && next < UINT64_C(1) << 62)
		next *= 2;
	return next;
}

static bool is_due(const struct master *m, uint64_t before)
{
	const struct online_master *o = m->online;
	const uint64_t window = m->plan->online.window;

	return o->all.samples >= o->next || o->all.samples / window > before / window;
}

/* --- scores ---------------------------------------------------------------------------------- */

static void give_up(struct tw_context *ctx)
{
	tw_give_up(ctx, TW_NO_MEMORY, "no memory for the scores of predictions");
}

/* (1) A prediction of samples of which some are settled is not of all of them: it does not count,
 * and the others never will. */
static void predicted(struct master *m, struct tw_context *ctx, const struct tw_body_result *b)
{
	struct online_master *o = m->online;
	const uint64_t before = o->all.samples;
	const bool fresh = !tw_spans_within(&o->settled, b->from, b->from + b->count);
	const struct online_entry e = { b->loss, b->correct < 0 ? 0 : b->correct, b->count };

	if (tw_spans_add(&o->settled, b->from, b->from + b->count, NULL) != TW_OK) {
		give_up(ctx);
		return;
	}
	if (!fresh || !isfinite(b->loss))
		return;
	o->judged = b->correct >= 0;
	add(&o->all, &e);
	add(&o->since, &e);
	if (!slide(m, &e))
		give_up(ctx);
	else if (is_due(m, before))
		report(m, ctx);
	o->next = doubling_after(o->all.samples);
}

void tw_online_master_spoilt(struct master *m, struct tw_context *ctx, uint64_t from, uint64_t to)
{
	if (m->plan->online.is && tw_spans_add(&m->online->settled, from, to, NULL) != TW_OK)
		give_up(ctx);
}

void tw_online_master_totals(const struct master *m, struct tw_totals *t)
{
	if (m->plan->online.is)
		t->progressive = so_far(m->online);
}

/* --- saved and restored (5) ------------------------------------------------------------------ */

#define PART "online" /* its array in the master's part of a checkpoint */

/* The spans and the entries of the window follow. */
struct saved {
	uint64_t spans, entries;
	struct online_sum all, since, last;
	uint64_t judged;
};

static size_t saved_bytes(uint64_t spans, uint64_t entries)
{
	return sizeof(struct saved) + spans * sizeof(struct tw_span) +
	       entries * sizeof(struct online_entry);
}

static enum tw_status pack(void *actor, struct tw_array *out)
{
	const struct master *m = actor;
	const struct online_master *o = m->online;
	const struct saved x = {
		o->settled.count, o->entries, o->all, o->since, o->last, o->judged
	};
	const size_t bytes = saved_bytes(x.spans, x.entries);
	uint8_t *at = m->heap->get(m->heap, bytes);
	struct online_entry *entry;

	if (!at)
		return TW_NO_MEMORY;
	memcpy(at, &x, sizeof x);
	tw_spans_write(&o->settled, (struct tw_span *)(void *)(at + sizeof x));
	entry = (void *)(at + sizeof x + x.spans * sizeof(struct tw_span));
	for (size_t k = 0; k < o->entries; k++)
		entry[k] = o->entry[(o->first + k) % o->room];
	*out = (struct tw_array){ .name = PART, .kind = TW_BYTES, .at = at, .n = bytes };
	return TW_OK;
}

static void restart(struct online_master *o)
{
	tw_spans_clear(&o->settled);
	o->all = o->since = o->last = (struct online_sum){ 0 };
	o->first = o->entries = 0;
	o->windowed = 0;
	o->next = 1;
}

static enum tw_status take_back(struct master *m, const struct tw_array *part)
{
	struct online_master *o = m->online;
	const uint8_t *at;
	struct saved x;
	enum tw_status st = TW_OK;

	restart(o);
	if (!part || part->kind != TW_BYTES || part->n < sizeof x)
		return TW_BAD_BYTES;
	memcpy(&x, part->at, sizeof x);
	if (x.spans > part->n || x.entries > part->n || part->n != saved_bytes(x.spans, x.entries))
		return TW_BAD_BYTES;
	at = (const uint8_t *)part->at + sizeof x;
	for (uint64_t k = 0; k < x.spans && st == TW_OK; k++, at += sizeof(struct tw_span)) {
		struct tw_span one;

		memcpy(&one, at, sizeof one);
		if (one.from >= one.to)
			return TW_BAD_BYTES;
		st = tw_spans_add(&o->settled, one.from, one.to, NULL);
	}
	for (uint64_t k = 0; k < x.entries && st == TW_OK; k++, at += sizeof(struct online_entry)) {
		struct online_entry one;

		memcpy(&one, at, sizeof one);
		if (!one.samples || one.samples > x.all.samples)
			return TW_BAD_BYTES;
		st = slide(m, &one) ? TW_OK : TW_NO_MEMORY;
	}
	o->all = x.all;
	o->since = x.since;
	o->last = x.last;
	o->judged = x.judged;
	o->next = doubling_after(x.all.samples);
	return st;
}

static enum tw_status restore(void *actor, const struct tw_master_part *head,
			      const struct tw_array *list, size_t count)
{
	struct master *m = actor;

	if (head)
		return take_back(m, tw_part_find(list, count, PART));
	restart(m->online);
	return TW_OK;
}

/* --- the duty -------------------------------------------------------------------------------- */

static bool wanted(const struct tw_plan *plan)
{
	return plan->online.is;
}

static enum tw_status open_online(void *actor)
{
	struct master *m = actor;

	tw_spans_init(&m->online->settled, m->heap);
	m->online->next = 1;
	return TW_OK;
}

static void close_online(void *actor)
{
	struct master *m = actor;

	tw_spans_release(&m->online->settled);
	m->heap->put(m->heap, m->online->entry);
}

/* (2) */
static void message(void *actor, struct tw_context *ctx, const struct tw_msg *msg)
{
	const struct master *m = actor;

	if (!msg->b.result.pin && msg->h.view == m->restart.current)
		predicted(actor, ctx, &msg->b.result);
}

const struct tw_duty tw_online_master = {
	.name = "online",
	.bytes = sizeof(struct online_master),
	.place = offsetof(struct master, online),
	.hears = TW_HEARS(TW_RESULT),
	.wanted = wanted,
	.open = open_online,
	.close = close_online,
	.message = message,
	.pack = pack,
	.restore = restore,
};
