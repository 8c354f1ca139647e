/* SPDX-License-Identifier: Apache-2.0 */
/* deal_arrivals.c - a stream of samples: how far it has come, and what of it is done with.
 *
 *  (1) nothing is dealt that has not arrived.  While the stream goes on, whole pushes are: what is
 *      short of one for each member waits for more.  A lease is one push: how much more is here
 *      does not decide who gets what.
 *  (2) the stream keeps a number of samples.  It is told what is done with when it is full, or when
 *      a good part of that number has come since: so members are looked at once for many samples.
 *  (3) in the simulator the world's clock stands still until samples come, and not more of them are
 *      seen than were waited for: so a run does not depend on when they come. */
#include "node/duty/deal/deal_state.h"

#define PATIENCE   (TW_SECOND / 100)
#define STANDSTILL (TW_SECOND / 10) /* of the wall clock, at once (3) */
#define WAITS      50               /* ... and so often before others have their turn */
#define AHEAD      4                /* pushes of each member */

/* Samples of a push of each member. */
static uint64_t need(const struct master *m)
{
	return (uint64_t)tw_deal_unit(m) * (tw_master_live(m) ? tw_master_live(m) : 1);
}

/* Samples that are here and not dealt. */
static uint64_t fresh(const struct master *m)
{
	const struct arrivals *a = &m->dealing.arrivals;

	return a->upto - tw_spans_within(&m->dealing.taken, 0, a->upto);
}

bool tw_deal_enough(const struct master *m)
{
	const struct arrivals *a = &m->dealing.arrivals;

	return !m->plan->online.keeps || a->ended || fresh(m) >= need(m);
}

uint64_t tw_deal_end(const struct master *m)
{
	const struct arrivals *a = &m->dealing.arrivals;

	return m->plan->online.keeps && a->upto < m->dealing.end ? a->upto : m->dealing.end;
}

bool tw_deal_whole(const struct master *m, uint64_t unit, struct tw_span *r)
{
	const struct arrivals *a = &m->dealing.arrivals;

	if (m->plan->online.keeps && !a->ended && r->to == a->upto)
		r->to -= (r->to - r->from) % unit;
	return r->from < r->to;
}

/* The first position that is not done with.  Of rounds none is open when this is asked; somebody
 * who is late for one may still read a little before. */
static uint64_t floor_of(const struct master *m)
{
	struct tw_span gap;
	uint64_t first = m->dealing.end;

	if (tw_spans_gap(&m->dealing.taken, 0, m->dealing.end, 1, &gap))
		first = gap.from;
	for (uint32_t k = 0; k < m->plan->crew.workers; k++) {
		const struct member *e = &m->member[k];

		for (uint32_t i = 0; i < e->held.count; i++)
			if (e->held.lease[i].from < first)
				first = e->held.lease[i].from;
	}
	return first;
}

/* (2) */
static void settle(struct master *m, struct tw_context *ctx)
{
	struct arrivals *a = &m->dealing.arrivals;
	const uint64_t first = floor_of(m), slack = m->plan->online.keeps / 4;

	a->settled_at = a->upto;
	a->settled = true;
	ctx->engine->class->forget(ctx->engine, first > slack ? first - slack : 0);
}

/* The run went back behind what the stream has kept. */
static void pass_over(struct master *m, struct tw_context *ctx, uint64_t from)
{
	uint64_t lost = 0;
	struct tw_span gap;

	while (tw_spans_gap(&m->dealing.taken, 0, from, UINT64_MAX, &gap)) {
		lost += gap.to - gap.from;
		tw_online_master_spoilt(m, ctx, gap.from, gap.to);
		if (tw_deal_take(m, gap.from, gap.to) != TW_OK) {
			tw_give_up(ctx, TW_NO_MEMORY, "no memory for samples that are gone");
			return;
		}
	}
	if (!lost)
		return;
	m->deal->orphans.passed.unreachable += lost;
	tw_say(ctx, TW_WARNING,
	       "%llu samples of the stream are needed again, and it does not keep them any more: "
	       "they are passed over (data.keep)",
	       (unsigned long long)lost);
}

static void say_broken(struct master *m, struct tw_context *ctx, const struct tw_arrived *now)
{
	struct arrivals *a = &m->dealing.arrivals;

	if (now->broken <= a->broken || (now->broken < 2 * a->broken && !now->ended))
		return;
	a->broken = now->broken;
	tw_say(ctx, TW_WARNING, "%s; it is left out (%llu broken line%s so far)", now->said,
	       (unsigned long long)now->broken, now->broken == 1 ? "" : "s");
}

static void take_news(struct master *m, struct tw_context *ctx, const struct tw_arrived *now,
		      uint64_t want)
{
	struct arrivals *a = &m->dealing.arrivals;
	const bool exact = m->plan->instant_evaluations; /* (3) */
	const uint64_t upto = exact && now->upto > want ? want : now->upto;

	if (upto > a->upto) {
		a->upto = upto;
		m->dealing.again = true;
	}
	if (now->failed)
		tw_give_up(ctx, TW_IO, "%s", now->said);
	say_broken(m, ctx, now);
	if (!now->ended || upto < now->upto)
		return;
	a->ended = true;
	m->dealing.again = true;
	if (upto < m->dealing.end)
		m->dealing.end = upto;
}

/* A run that was resumed begins somewhere in the stream. */
static uint64_t first_wanted(const struct master *m)
{
	const uint64_t upto = m->dealing.arrivals.upto;
	struct tw_span gap;

	return tw_spans_gap(&m->dealing.taken, 0, m->dealing.end, 1, &gap) && gap.from > upto
		       ? gap.from
		       : upto;
}

void tw_deal_look(struct master *m, struct tw_context *ctx)
{
	struct arrivals *a = &m->dealing.arrivals;
	const int64_t wait = m->plan->instant_evaluations ? STANDSTILL : 0;
	struct tw_arrived now = { 0 };
	bool was_full = false;

	if (tw_deal_enough(m) || m->phase != PHASE_RUN)
		return;
	if (!a->settled || a->upto - a->settled_at >= m->plan->online.keeps / 4)
		settle(m, ctx);
	for (int k = 0; k < (wait ? WAITS : 2); k++) {
		const uint64_t want = first_wanted(m) + AHEAD * need(m) - fresh(m);

		ctx->engine->class->arrived(ctx->engine, want, wait, &now);
		pass_over(m, ctx, now.from);
		take_news(m, ctx, &now, want);
		if (tw_deal_enough(m) || (now.full ? was_full : !wait))
			break;
		if (now.full)
			settle(m, ctx);
		was_full = now.full;
	}
	if (!tw_deal_enough(m) && !now.full)
		tw_timer(ctx, TIMER_STREAM, wait ? 0 : PATIENCE);
}
