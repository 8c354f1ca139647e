/* SPDX-License-Identifier: Apache-2.0 */
/* batch_portions.c - the master's side of one evaluation: its portions are dealt by load, and the
 * last ones twice.  The numbers in brackets are those of README.md. */
#include "node/duty/batch/batch_state.h"
#include "node/duty/figures/figures.h"

#define WINDOW  8
#define NOBODY  UINT32_MAX
#define NOTHING UINT32_MAX

enum tw_status tw_batch_portions_init(struct master *m)
{
	struct portions *p = &m->batch->portions;

	p->count = (uint32_t)tw_plan_portions(m->plan);
	p->at = tw_heap_zeros(m->heap, p->count * sizeof *p->at);
	return p->at ? TW_OK : TW_NO_MEMORY;
}

void tw_batch_portions_release(struct master *m)
{
	m->heap->put(m->heap, m->batch->portions.at);
}

void tw_batch_portions_forget(struct master *m)
{
	struct portions *p = &m->batch->portions;

	for (uint32_t k = 0; k < p->count; k++)
		p->at[k] = (struct portion){ .holder = { NOBODY, NOBODY },
					     .before = NOTHING,
					     .after = NOTHING };
	p->done = p->low = 0;
	p->first = p->last = NOTHING;
}

void tw_batch_portions_open(struct master *m)
{
	tw_batch_portions_forget(m);
	m->dealing.again = true;
}

bool tw_batch_portions_complete(const struct master *m)
{
	const struct portions *p = &m->batch->portions;

	return p->done == p->count;
}

/* --- the list (6) --------------------------------------------------------------------------- */

static void enlist(struct portions *p, uint32_t k)
{
	p->at[k].before = p->last;
	p->at[k].after = NOTHING;
	*(p->last == NOTHING ? &p->first : &p->at[p->last].after) = k;
	p->last = k;
	p->at[k].listed = true;
}

static void unlist(struct portions *p, uint32_t k)
{
	const struct portion *x = &p->at[k];

	if (!x->listed)
		return;
	*(x->before == NOTHING ? &p->first : &p->at[x->before].after) = x->after;
	*(x->after == NOTHING ? &p->last : &p->at[x->after].before) = x->before;
	p->at[k].listed = false;
}

/* --- dealing -------------------------------------------------------------------------------- */

/* The first position of the evaluation. */
static uint64_t base(const struct master *m)
{
	return (m->rounds.number - 1) * m->plan->optimising.batch;
}

static struct tw_span span_of(const struct master *m, uint32_t k)
{
	const struct tw_optimising *o = &m->plan->optimising;
	const uint64_t from = (uint64_t)k * o->portion, to = from + o->portion;

	return (struct tw_span){ base(m) + from, base(m) + (to < o->batch ? to : o->batch) };
}

/* The portion of a lease of this evaluation; NOTHING: it is of another. */
static uint32_t portion_at(const struct master *m, uint64_t from)
{
	const struct tw_optimising *o = &m->plan->optimising;

	if (m->batch->state != BATCH_EVALUATES || from < base(m) || from - base(m) >= o->batch)
		return NOTHING;
	return (uint32_t)((from - base(m)) / o->portion);
}

/* (3), (5) */
static uint32_t next_new(const struct master *m)
{
	const struct tw_optimising *o = &m->plan->optimising;
	const uint64_t window = (uint64_t)WINDOW * (tw_master_live(m) ? tw_master_live(m) : 1);
	struct tw_span gap;
	uint32_t k;

	if (!tw_spans_gap(&m->dealing.taken, base(m), base(m) + o->batch, o->portion, &gap))
		return NOTHING;
	k = (uint32_t)((gap.from - base(m)) / o->portion);
	return k < m->batch->portions.low + window ? k : NOTHING;
}

/* (4) */
static uint32_t next_backup(const struct master *m, uint32_t slot)
{
	const struct portions *p = &m->batch->portions;

	return m->plan->optimising.backup && !m->member[slot].held.count ? p->first : NOTHING;
}

static bool deal_to(struct master *m, struct tw_context *ctx, uint32_t slot)
{
	struct portions *p = &m->batch->portions;
	struct member *e = &m->member[slot];
	uint32_t k = next_new(m);
	const bool again = k == NOTHING;
	struct tw_span r;

	if (again)
		k = next_backup(m, slot);
	if (k == NOTHING)
		return false;
	r = span_of(m, k);
	e->held.next++;
	if (!tw_deal_open(m, ctx, slot, e->held.next, r.from, r.to))
		return true; /* the run is given up */
	p->at[k].holder[again] = slot;
	p->backups += again;
	if (again)
		unlist(p, k);
	else
		enlist(p, k);
	tw_deal_appetite(m, slot, APPETITE_NONE);
	tw_figures_steady_dealt(m, ctx);
	tw_deal_note(ctx, slot, r.from, r.to);
	tw_deal_send(m, ctx, slot, e->held.next, r.from, r.to);
	return true;
}

/* There is nothing for this worker now: it is told so once. */
static void leave_dry(struct master *m, struct tw_context *ctx, uint32_t slot)
{
	const bool told = tw_deal_was_told(&m->member[slot]);

	tw_deal_appetite(m, slot, APPETITE_DRY);
	if (!told)
		tw_deal_send(m, ctx, slot, 0, 0, 0);
}

void tw_batch_portions_serve(struct master *m, struct tw_context *ctx)
{
	struct dealing *d = &m->dealing;
	uint32_t k;

	if (m->waits.paused)
		return;
	while (d->again && (k = tw_slots_next(&d->dry, 0)) != TW_NO_SLOT && deal_to(m, ctx, k))
		;
	d->again = false;
	for (k = tw_slots_next(&d->hungry, 0); k != TW_NO_SLOT;
	     k = tw_slots_next(&d->hungry, k + 1))
		if (!deal_to(m, ctx, k))
			leave_dry(m, ctx, k);
}

/* --- what comes of it ----------------------------------------------------------------------- */

void tw_batch_portions_done(struct master *m, struct tw_context *ctx, uint32_t slot, uint64_t from)
{
	struct portions *p = &m->batch->portions;
	const uint32_t k = portion_at(m, from);

	if (k == NOTHING || p->at[k].done)
		return;
	p->at[k].done = true;
	p->done++;
	unlist(p, k);
	for (int i = 0; i < 2; i++) {
		const uint32_t other = p->at[k].holder[i];

		p->at[k].holder[i] = NOBODY;
		if (other == NOBODY || other == slot)
			continue;
		tw_deal_close(m, other, from); /* (4) */
		if (!m->member[other].held.count)
			tw_deal_asks(m, other);
	}
	if (p->low == k) {
		while (p->low < p->count && p->at[p->low].done)
			p->low++;
		m->dealing.again = true; /* (5) */
	}
	/* it asked before it was done, and there was nothing new: it may have a backup task now */
	if (!m->member[slot].held.count && tw_deal_was_told(&m->member[slot]))
		tw_deal_appetite(m, slot, APPETITE_HUNGRY);
	if (tw_deal_take(m, span_of(m, k).from, span_of(m, k).to) != TW_OK)
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for a portion");
}

void tw_batch_portions_left(struct master *m, struct tw_context *ctx, uint32_t slot)
{
	struct portions *p = &m->batch->portions;
	struct holding *h = &m->member[slot].held;

	(void)ctx;
	for (uint32_t i = h->count; i-- > 0;) {
		const uint64_t from = h->lease[i].from;
		const uint32_t k = portion_at(m, from);

		if (k == NOTHING || p->at[k].done)
			continue;
		if (p->at[k].holder[0] == slot)
			p->at[k].holder[0] = p->at[k].holder[1];
		p->at[k].holder[1] = NOBODY;
		unlist(p, k);
		if (p->at[k].holder[0] == NOBODY) /* it is given back with the lease */
			continue;
		enlist(p, k);
		m->dealing.again = true; /* it may have a backup again */
		tw_deal_close(m, slot, from);
	}
}
