/* SPDX-License-Identifier: Apache-2.0 */
/* gauges.c - gathers what is known of a run while it runs. */
#include "metrics/gauges_inner.h"
#include "metrics/progress.h"

#include <math.h>
#include <string.h>

#define RATE_WINDOW (5 * TW_SECOND) /* the rate is that of the last one to two of these */
#define SMOOTH      16              /* training loss of a worker: a mean of about this many steps */

/* --- life ------------------------------------------------------------------------------------ */

static bool shows_tallies(void)
{
	for (const struct tw_figure *f = tw_result_figures; f->name; f++)
		if (f->metric || f->health)
			return true;
	return false;
}

enum tw_status tw_gauges_plan(struct tw_gauges *g, const struct tw_plan *plan)
{
	if (g->plan == plan) /* joined again */
		return TW_OK;

	struct gauge_slot *slot = tw_heap_zeros(g->heap, plan->crew.workers * sizeof *slot);
	struct gauge_shard *shard = tw_heap_zeros(g->heap, plan->problem.shards * sizeof *shard);
	struct tw_tally *tally =
		shows_tallies() ? tw_heap_zeros(g->heap, plan->problem.shards * sizeof *tally)
				: NULL;
	struct tw_stage_figures *stages =
		tw_plan_is_staged(plan) ? tw_stage_figures_new(g->heap, plan) : NULL;
	struct gauge_cell *cell =
		tw_heap_zeros(g->heap, plan->crew.workers * tw_plan_cells(plan) * sizeof *cell);

	if (!slot || !shard || (shows_tallies() && !tally) || !cell ||
	    (tw_plan_is_staged(plan) && !stages)) {
		tw_stage_figures_free(stages);
		g->heap->put(g->heap, cell);
		g->heap->put(g->heap, slot);
		g->heap->put(g->heap, shard);
		g->heap->put(g->heap, tally);
		return TW_NO_MEMORY;
	}
	pthread_mutex_lock(&g->lock);
	HOLDS(1, !g->plan);
	g->slot = slot;
	g->shard = shard;
	g->tally = tally;
	g->stages = stages;
	g->cell = cell;
	g->plan = plan;
	pthread_mutex_unlock(&g->lock);
	return TW_OK;
}

struct tw_gauges *tw_gauges_new(struct tw_heap *heap, const struct tw_plan *plan, const char *role,
				const char *host)
{
	struct tw_gauges *g = tw_heap_zeros(heap, sizeof *g);

	if (!g)
		return NULL;
	g->heap = heap;
	pthread_mutex_init(&g->lock, NULL);
	tw_gauges_name(g->role, sizeof g->role, role);
	tw_gauges_name(g->host, sizeof g->host, host);
	g->placing = strcmp(role, "master") == 0;
	g->f.made = tw_clock();
	if (plan && tw_gauges_plan(g, plan) != TW_OK) {
		tw_gauges_free(g);
		return NULL;
	}
	return g;
}

void tw_gauges_free(struct tw_gauges *g)
{
	if (!g)
		return;
	pthread_mutex_destroy(&g->lock);
	g->heap->put(g->heap, g->slot);
	g->heap->put(g->heap, g->shard);
	g->heap->put(g->heap, g->tally);
	tw_stage_figures_free(g->stages);
	g->heap->put(g->heap, g->cell);
	g->heap->put(g->heap, g->peer);
	g->heap->put(g->heap, g->wait);
	g->heap->put(g->heap, g);
}

/* --- notes ----------------------------------------------------------------------------------- */

static struct gauge_slot *slot_of(struct tw_gauges *g, const struct tw_note *n)
{
	struct gauge_slot *s = n->slot < g->plan->crew.workers ? &g->slot[n->slot] : NULL;

	if (s)
		s->seen = true;
	return s;
}

static struct gauge_shard *shard_of(struct tw_gauges *g, const struct tw_note *n)
{
	struct gauge_shard *s = n->shard < g->plan->problem.shards ? &g->shard[n->shard] : NULL;

	if (s)
		s->seen = true;
	return s;
}

static void raise(uint64_t *to, uint64_t value)
{
	if (value > *to)
		*to = value;
}

static void progressed(struct gauge_facts *f, int64_t clock)
{
	f->progressed = clock;
	if (!f->begun)
		f->old = f->mid = (struct gauge_mark){ clock, 0 };
	f->begun = true;
	if (clock - f->mid.at < RATE_WINDOW)
		return;
	f->old = f->mid;
	f->mid = (struct gauge_mark){ clock, gauge_samples(f) };
}

/* `steps` of a worker end now. */
static void tick(struct gauge_slot *s, int64_t at, uint64_t steps)
{
	if (s->timed) {
		const double took = gauge_seconds(at - s->at);

		s->last = took / (double)steps;
		s->sum += took;
		s->steps += steps;
	}
	s->timed = true;
	s->at = at;
}

static void step(struct tw_gauges *g, const struct tw_note *n)
{
	struct gauge_slot *s = slot_of(g, n);

	if (!s)
		return;
	if (!s->stepping)
		s->timed = false; /* what shards got of it before has another rhythm */
	s->stepping = true;
	tick(s, n->at, 1);
}

static void gradient(struct tw_gauges *g, const struct tw_note *n)
{
	struct gauge_facts *f = &g->f;
	const double mean = n->count ? n->step.loss / n->count : NAN;

	slot_of(g, n);
	f->computed_steps++;
	f->computed_samples += n->count;
	if (f->has_live) /* the master is here and knows the mean over all */
		return;
	f->train_loss = f->has_train_loss && isfinite(f->train_loss)
				? f->train_loss + (mean - f->train_loss) / SMOOTH
				: mean;
	f->has_train_loss = true;
}

/* Steps in so many samples of one lease, of which only the last may be shorter. */
static uint64_t steps_in(const struct tw_gauges *g, uint32_t count)
{
	const struct tw_plan *p = g->plan;
	const uint32_t live = g->f.live ? g->f.live : p->crew.workers;
	const uint64_t batch = p->dealing.global_batch ? (p->dealing.global_batch + live - 1) / live
						       : p->dealing.batch;

	return batch ? (count + batch - 1) / batch : 1;
}

/* Is this the first note of the contribution?  Those of one come one after the other, unless
 * several threads are in the shard: then those of one worker do. */
static bool first_of(const struct tw_gauges *g, struct gauge_shard *h, struct gauge_slot *s,
		     const struct tw_note *n)
{
	const bool lockfree = g->plan->gate->traits & TW_GATE_LOCKFREE;
	const uint32_t who = lockfree ? n->shard : n->slot;
	struct gauge_one *one = lockfree ? &s->one : &h->one;

	if (one->who == who && one->incarnation == n->incarnation && one->seq == n->seq)
		return false;
	*one = (struct gauge_one){ who, n->incarnation, n->seq };
	return true;
}

/* What a contribution tells of itself. */
static void told(struct gauge_facts *f, struct gauge_shard *h, const struct tw_body_push *push)
{
	if (!push)
		return;
	raise(&f->pushes, ++h->pushes);
	raise(&f->own_steps, h->own_steps += push->account.own_steps);
	raise(&f->skipped, h->skipped += push->account.skipped);
	raise(&f->cached, h->cached += push->own > 0);
	f->drift += (double)push->account.drift;
	f->told++;
	f->drift_most = fmax(f->drift_most, (double)push->account.drift);
	f->residual_most = fmax(f->residual_most, (double)push->account.residual);
}

static void apply(struct tw_gauges *g, const struct tw_note *n)
{
	struct gauge_facts *f = &g->f;
	struct gauge_shard *h = shard_of(g, n);
	struct gauge_slot *s = slot_of(g, n);

	if (!h || !s)
		return;
	h->samples += n->count;
	h->steps += steps_in(g, n->count);
	raise(&f->applied_samples, h->samples);
	raise(&f->applied_steps, h->steps);
	if (!first_of(g, h, s, n))
		return;
	f->staleness[n->apply.tau < TW_HISTOGRAM - 1 ? n->apply.tau : TW_HISTOGRAM - 1]++;
	f->staleness_sum += n->apply.tau;
	f->staleness_count++;
	f->values += n->apply.n;
	f->values_sent += n->apply.values_sent;
	told(f, h, n->apply.push);
	if (g->tally && n->apply.tally)
		g->tally[n->shard] = *n->apply.tally;
	if (g->plan->gate->traits & TW_GATE_LOCKFREE)
		h->updates++; /* every one is an update, and the shard says so only here */
	if (n->incarnation < s->incarnation ||
	    (n->incarnation == s->incarnation && n->seq <= s->seq))
		return; /* another shard was first */
	s->incarnation = n->incarnation;
	s->seq = n->seq;
	s->owes = n->apply.push ? n->apply.push->account.residual : 0.0f;
	if (!s->stepping)
		tick(s, n->at, (uint64_t)g->plan->traffic.push * g->plan->dealing.accumulate);
}

/* Under rounds the master says what was dropped; shards say so of slices that came too late. */
static void drop(struct tw_gauges *g, const struct tw_note *n)
{
	struct gauge_shard *h;

	if (n->shard == UINT32_MAX)
		g->f.dropped_rounds += n->count;
	else if (!(g->plan->gate->traits & TW_GATE_ROUNDS) && (h = shard_of(g, n)))
		raise(&g->f.dropped, h->dropped += n->count);
}

/* Positions are dealt in order, so that those below what was dealt before are dealt again. */
static void deal(struct gauge_facts *f, const struct tw_note *n)
{
	const uint64_t to = n->from + n->count;

	f->dealt = true;
	if (n->from < f->dealt_upto)
		f->redealt += (to < f->dealt_upto ? to : f->dealt_upto) - n->from;
	raise(&f->dealt_upto, to);
}

static void view(struct tw_gauges *g, const struct tw_note *n)
{
	struct gauge_slot *s = slot_of(g, n);

	g->f.live = n->view.live;
	g->f.has_live = true;
	if (!s)
		return;
	if (n->view.state == TW_GONE && s->owes > 0.0f) {
		g->f.residual_lost += (double)s->owes;
		g->f.residuals_lost++;
	}
	s->owes = 0.0f;
	s->viewed = true;
	s->state = n->view.state;
	s->timed = false; /* the time it was away is nobody's step */
}

static void placed(struct tw_gauges *g, const struct tw_note *n)
{
	const uint32_t cells = tw_plan_cells(g->plan);

	if (n->slot < g->plan->crew.workers && n->cell.number < cells)
		g->cell[n->slot * cells + n->cell.number] =
			(struct gauge_cell){ n->cell.taken, n->cell.node };
}

/* After a cut is taken up again contributions may have numbers that were used before. */
static void forget_numbers(struct tw_gauges *g)
{
	for (uint32_t k = 0; k < g->plan->crew.workers; k++) {
		struct gauge_slot *s = &g->slot[k];

		s->one = (struct gauge_one){ 0 };
		s->incarnation = 0;
		s->seq = 0;
	}
}

/* A shard that comes here begins level with the others: what it applied elsewhere is no news. */
static void hosted(struct tw_gauges *g, const struct tw_note *n)
{
	struct gauge_shard *h = shard_of(g, n);

	if (!h)
		return;
	h->one = (struct gauge_one){ 0 };
	h->samples = g->f.applied_samples;
	h->steps = g->f.applied_steps;
	h->refused = g->f.refused;
	h->dropped = g->f.dropped;
	if (n->hosted.cut)
		forget_numbers(g);
}

static uint64_t gained(double now, double before)
{
	return now > before ? (uint64_t)(now - before) : 0;
}

/* A process of a master without shards knows of them what their workers say.  What was in when a
 * run was taken up again is no news. */
static void hear(struct gauge_facts *f, const struct tw_point *in)
{
	if (f->resumed) {
		f->heard_first = *in;
		f->resumed = false;
	}
	raise(&f->heard_samples, gained(in->samples, f->heard_first.samples));
	raise(&f->heard_steps, gained(in->steps, f->heard_first.steps));
}

/* The master's own. */
static void said(struct tw_gauges *g, const struct tw_note *n, int64_t clock)
{
	struct gauge_facts *f = &g->f;

	switch (n->kind) {
	case TW_NOTE_DEAL:
		deal(f, n);
		return;
	case TW_NOTE_VIEW:
		view(g, n);
		return;
	case TW_NOTE_CELL:
		placed(g, n);
		return;
	case TW_NOTE_SENT:
		f->sent_samples += n->count;
		f->sent_bytes += n->sent.bytes;
		return;
	case TW_NOTE_EVAL:
		f->evaluated = true;
		f->loss = n->eval.loss;
		f->accuracy = n->eval.accuracy;
		f->in = n->eval.point.samples;
		f->has_in = true;
		progressed(f, clock);
		return;
	case TW_NOTE_SCORE:
		f->score = n->score;
		return;
	case TW_NOTE_CUT:
		f->checkpoints++;
		f->cut = n->cut.number;
		f->cut_at = clock;
		return;
	case TW_NOTE_ROLLBACK:
		if (f->dealt) /* else the run only resumes from there */
			f->rollbacks++;
		else
			f->resumed = true;
		f->cut = n->cut.number;
		forget_numbers(g);
		return;
	case TW_NOTE_PROGRESS:
		f->in = n->progress.point.samples;
		f->closed = n->progress.dealt;
		f->has_in = f->has_closed = true;
		f->live = n->progress.live;
		f->has_live = true;
		f->train_loss = n->progress.point.train_loss;
		f->has_train_loss = true;
		hear(f, &n->progress.point);
		progressed(f, clock);
		return;
	default:
		return;
	}
}

static void take(struct tw_gauges *g, const struct tw_note *n, int64_t clock)
{
	struct gauge_shard *h;

	switch (n->kind) {
	case TW_NOTE_STEP:
		step(g, n);
		break;
	case TW_NOTE_GRADIENT:
		gradient(g, n);
		break;
	case TW_NOTE_APPLY:
		apply(g, n);
		break;
	case TW_NOTE_UPDATE:
		h = shard_of(g, n);
		if (h)
			h->updates++;
		break;
	case TW_NOTE_COMMIT:
		break;
	case TW_NOTE_DROP:
		drop(g, n);
		return;
	case TW_NOTE_REFUSED:
		h = shard_of(g, n);
		if (h)
			raise(&g->f.refused, ++h->refused);
		return;
	case TW_NOTE_HOSTED:
		hosted(g, n);
		return;
	default:
		said(g, n, clock);
		return;
	}
	progressed(&g->f, clock);
}

void tw_gauges_note(struct tw_gauges *g, const struct tw_note *note)
{
	pthread_mutex_lock(&g->lock);
	if (g->plan)
		take(g, note, tw_clock());
	if (g->stages)
		tw_stage_figures_note(g->stages, note);
	pthread_mutex_unlock(&g->lock);
}
