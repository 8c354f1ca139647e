/* SPDX-License-Identifier: Apache-2.0 */
/* master_eval.c - evaluation at a pinned version.
 *
 *  (1) an evaluation's chunks are the same whoever computes them, and are summed in order.
 *  (2) a chunk whose worker goes is given to another.
 *  (3) nothing here costs virtual time.
 *  (4) an evaluation is of the views that shards keep, and its label is what these have: the master
 *      says when a view is to be kept, the shard keeps it at that very version, and says what is in
 *      it.  Under rounds all views are of one round; elsewhere each is the first that has as many
 *      samples as were asked for.  Where replicas differ, the mean of all their views is evaluated,
 *      and the label is the mean of what they have.
 *  (5) evaluations are due when ceil(k * train.evaluate * samples of an epoch) samples are applied,
 *      k = 1, 2, ..., and at the end.  One that is due is made, unless the same update passed the
 *      threshold after it, too.
 *  (6) an evaluation takes time, and training continues meanwhile.  Outside rounds shards are told
 *      of every threshold before the samples are dealt that may pass it, and keep the views until
 *      their turn comes.  At most scores.pins views wait: then nothing is dealt that may pass
 *      another threshold.  Under rounds one view is kept at a time: a round that follows a
 *      threshold is committed when the evaluation before that one is made.
 *  (7) a run that ends because an evaluation reached train.until ends with the views that it was
 *      of, whatever was applied meanwhile: shards keep these, and take them for their parameters
 *      before the last cut and the final vectors. */
#include "node/master/master.h"

#include <math.h>
#include <string.h>

/* --- when ------------------------------------------------------------------------------------- */

/* (5); 0.55 of 100 samples are 55, although a double makes a little more of it. */
static uint64_t threshold(const struct master *m, uint64_t k)
{
	const double x = (double)k * (m->plan->evaluate_every * (double)m->plan->problem.samples);

	return (uint64_t)ceil(x * (1 - 1e-12));
}

/* The last threshold that so many samples reach. */
static uint64_t reached(const struct master *m, uint64_t samples)
{
	const double step = m->plan->evaluate_every * (double)m->plan->problem.samples;
	uint64_t k;

	if (samples > (uint64_t)1 << 53) /* a shard said so: no run has as many */
		samples = (uint64_t)1 << 53;
	k = (uint64_t)((double)samples / step);
	while (k && threshold(m, k) > samples) /* doubles round */
		k--;
	while (threshold(m, k + 1) <= samples)
		k++;
	return k;
}

void tw_score_agreed(struct master *m, bool adopted)
{
	tw_score_steady_from(m);
	/* the master before us has evaluated what it could */
	if (adopted && m->plan->evaluate_every > 0 &&
	    reached(m, m->count.samples) > m->scores.evaluated_at)
		m->scores.evaluated_at = reached(m, m->count.samples);
	if (m->eval.state == EVAL_OFF)
		m->scores.told = m->scores.evaluated_at;
}

/* --- evaluation ------------------------------------------------------------------------------- */

static void send_pin(struct tw_context *ctx, struct tw_msg *msg, const struct tw_body_pin *what)
{
	if (!msg)
		return;
	msg->h.flags = TW_FLAG_FREE;
	msg->b.pin = *what;
	tw_send(ctx, msg);
}

void tw_score_send_pin(struct master *m, struct tw_context *ctx, uint32_t shard,
		       const struct tw_body_pin *what)
{
	/* whoever evaluates reads from its own replica */
	for (uint32_t k = tw_replicas_next(m, 0); k != TW_NO_SLOT; k = tw_replicas_next(m, k + 1))
		if (m->member[k].node != m->shard[shard].node &&
		    !(what->what == TW_PIN_KEEP && what->pin == m->eval.pin &&
		      tw_replica_said(m, k, shard, REPLICA_PINNED)))
			send_pin(ctx, tw_replica_to_shard(m, ctx, k, shard, TW_PIN), what);
	send_pin(ctx, tw_master_to_shard(m, ctx, shard, TW_PIN), what);
}

void tw_score_pin_shard(struct master *m, struct tw_context *ctx, uint32_t shard)
{
	struct tw_body_pin what = { .pin = m->eval.pin,
				    .what = TW_PIN_KEEP,
				    .round = m->eval.round,
				    .samples = m->eval.samples };

	if (m->eval.state != EVAL_OFF &&
	    (!m->shard[shard].pinned || !tw_replicas_all(m, REPLICA_PINNED)))
		tw_score_send_pin(m, ctx, shard, &what);
	if (m->eval.state == EVAL_OFF || !m->eval.number || tw_master_rounds(m))
		return;
	for (uint64_t k = m->eval.number + 1; k <= m->scores.told; k++) { /* (6) */
		what.pin = m->scores.pin[k % m->scores.pins];
		what.samples = threshold(m, k);
		tw_score_send_pin(m, ctx, shard, &what);
	}
}

/* Nobody computes anything for an evaluation. */
static void forget_chunks(struct master *m)
{
	for (uint32_t c = 0; c < m->scores.chunks; c++) {
		if (m->scores.chunk[c].asked && !m->scores.chunk[c].done)
			m->member[m->scores.chunk[c].slot].chunk = NO_CHUNK;
		m->scores.chunk[c] = (struct chunk){ 0 };
	}
	m->scores.done = 0;
}

static uint64_t new_pin(struct master *m, struct tw_context *ctx)
{
	return ((uint64_t)ctx->boot << 32) | ++m->restart.counter;
}

/* The pin of a threshold that shards were told of, or are told of now. */
static uint64_t pin_of(struct master *m, struct tw_context *ctx, uint64_t k)
{
	struct scores *o = &m->scores;

	if (k > o->told) {
		o->told = k;
		o->pin[k % o->pins] = new_pin(m, ctx);
	}
	return o->pin[k % o->pins];
}

/* Ask every shard to keep its view when it has so much. */
static void start(struct master *m, struct tw_context *ctx, uint64_t number, uint64_t round,
		  uint64_t samples)
{
	const bool ahead = number && !tw_master_rounds(m); /* (6) */

	forget_chunks(m);
	m->eval = (struct evaluation){ .state = EVAL_AWAITED,
				       .pin = ahead ? pin_of(m, ctx, number) : new_pin(m, ctx),
				       .number = number,
				       .round = round,
				       .samples = samples };
	tw_replicas_ask_anew(m, REPLICA_PINNED);
	for (uint32_t s = 0; s < m->plan->problem.shards; s++) {
		m->shard[s].pinned = false;
		tw_score_pin_shard(m, ctx, s);
	}
}

/* Is there a threshold number k before the end?  What was dealt again may be applied again. */
static bool has_threshold(const struct master *m, uint64_t k)
{
	return threshold(m, k) < m->plan->dealing.positions + m->count.redealt;
}

/* Outside rounds shards are told ahead of time. */
static void await_next(struct master *m, struct tw_context *ctx)
{
	const uint64_t k = m->scores.evaluated_at + 1;

	if (m->eval.state == EVAL_OFF && !tw_master_rounds(m) && m->plan->evaluate_every > 0 &&
	    !m->wish.finish && has_threshold(m, k))
		start(m, ctx, k, 0, threshold(m, k));
}

static bool tells_ahead(const struct master *m)
{
	return m->eval.state != EVAL_OFF && m->eval.number && !tw_master_rounds(m) &&
	       !m->wish.finish;
}

void tw_score_ahead(struct master *m, struct tw_context *ctx)
{
	const uint64_t most = m->count.samples + m->dealing.open_samples;
	struct scores *o = &m->scores;

	if (!tells_ahead(m))
		return;
	for (uint64_t k = o->told + 1;
	     k < m->eval.number + o->pins && threshold(m, k) <= most && has_threshold(m, k); k++) {
		const struct tw_body_pin what = { .pin = pin_of(m, ctx, k),
						  .what = TW_PIN_KEEP,
						  .samples = threshold(m, k) };

		for (uint32_t s = 0; s < m->plan->problem.shards; s++)
			tw_score_send_pin(m, ctx, s, &what);
	}
}

uint64_t tw_score_room(const struct master *m, uint64_t unit)
{
	const uint64_t most = m->count.samples + m->dealing.open_samples + 1;
	const uint64_t k = m->eval.number + m->scores.pins;
	uint64_t room;

	if (!tells_ahead(m) || m->plan->instant_evaluations || !has_threshold(m, k))
		return UINT64_MAX;
	room = threshold(m, k) > most ? threshold(m, k) - most : 0;
	/* where the threshold awaited is not reached by what is out, more must be dealt */
	if (room < unit && !m->dealing.open_leases &&
	    (m->eval.state == EVAL_AWAITED || m->eval.state == EVAL_HURRIED))
		return unit;
	return room;
}

/* Views that are not kept yet are not waited for: what a shard says of them comes before it has the
 * next round, unless it was lost. */
bool tw_score_holds(const struct master *m)
{
	return (m->eval.state == EVAL_PINNED || m->eval.state == EVAL_VIEWING) && m->eval.number &&
	       !m->wish.finish && reached(m, m->count.samples) > m->eval.number;
}

/* Does no round follow the one that was committed?  It is evaluated at the end. */
static bool is_last_round(const struct master *m)
{
	bool ahead = m->rounds.open;

	if (!tw_deal_exhausted(m))
		return false;
	for (uint32_t k = 0; m->plan->traffic.delay && k < m->plan->crew.workers && !ahead; k++)
		ahead = m->member[k].ahead.count;
	return !ahead || m->wish.finish;
}

enum tw_status tw_score_init(struct master *m)
{
	const struct tw_plan *p = m->plan;
	const double unit = tw_deal_unit(m);
	const double step = p->evaluate_every * (double)p->problem.samples;
	const double ahead = unit * p->crew.workers / (step > unit ? step : unit);
	struct scores *o = &m->scores;

	/* as many as all workers may pass with the next step of each, and a few */
	o->pins = p->instant_evaluations ? 256 : ahead > 2 ? 2 + (uint32_t)ceil(ahead) : 4;
	o->pin = tw_heap_zeros(m->heap, o->pins * sizeof *o->pin);
	return o->pin ? TW_OK : TW_NO_MEMORY;
}

void tw_score_begin(struct master *m, struct tw_context *ctx)
{
	if (m->eval.state == EVAL_VIEWING) /* who takes the mean went with the generation */
		tw_score_again(m, ctx);
	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		tw_score_pin_shard(m, ctx, s);
	await_next(m, ctx);
}

void tw_score_committed(struct master *m, struct tw_context *ctx)
{
	uint64_t k;

	if (m->eval.state != EVAL_OFF || !(m->plan->evaluate_every > 0) || is_last_round(m))
		return;
	k = reached(m, m->count.samples);
	if (k > m->scores.evaluated_at)
		start(m, ctx, k, m->rounds.number, 0);
}

/* Shards that have not kept a view keep what they have. */
static void hurry(struct master *m, struct tw_context *ctx)
{
	m->eval.state = EVAL_HURRIED;
	m->eval.samples = 0;
	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		tw_score_pin_shard(m, ctx, s);
}

void tw_score_more(struct master *m, struct tw_context *ctx, uint64_t samples, uint64_t steps)
{
	m->count.samples += samples;
	m->count.steps += steps;
	await_next(m, ctx);
	/* a shard that lost updates may never have as many: a whole interval later it waits no
	 * more */
	if (m->eval.state == EVAL_AWAITED && m->eval.number &&
	    m->count.samples >= threshold(m, m->eval.number + 1))
		hurry(m, ctx);
}

bool tw_score_is_even(struct master *m, struct tw_context *ctx)
{
	if (m->eval.state == EVAL_OFF || !m->eval.number || m->wish.finish)
		return true;
	if (m->eval.state == EVAL_AWAITED && !tw_master_rounds(m)) {
		if (m->count.samples < threshold(m, m->eval.number))
			return true;
		hurry(m, ctx); /* nobody will have more */
	}
	return m->eval.state == EVAL_OFF;
}

/* Shards keep no view up to this pin. */
static void unpin(struct master *m, struct tw_context *ctx, uint64_t pin)
{
	const struct tw_body_pin what = { .pin = pin, .what = TW_PIN_RELEASE };

	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		if (tw_shard_has_home(&m->shard[s]))
			tw_score_send_pin(m, ctx, s, &what);
}

/* Shards keep no view, and are told of all thresholds again. */
static void unpin_all(struct master *m, struct tw_context *ctx)
{
	struct scores *o = &m->scores;
	const uint64_t last = o->told > o->evaluated_at ? o->pin[o->told % o->pins] : 0;

	unpin(m, ctx, last > m->eval.pin ? last : m->eval.pin);
	o->told = o->evaluated_at;
}

void tw_score_again(struct master *m, struct tw_context *ctx)
{
	unpin_all(m, ctx);
	start(m, ctx, m->eval.number, tw_master_rounds(m) ? m->rounds.number : 0, 0);
}

void tw_score_viewed(struct master *m, struct tw_context *ctx)
{
	m->eval.state = EVAL_PINNED;
	tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_PINNED, .eval.pin = m->eval.pin });
	tw_score_deal(m, ctx);
}

void tw_score_abort(struct master *m, struct tw_context *ctx)
{
	if (m->eval.state == EVAL_OFF)
		return;
	m->eval.state = EVAL_OFF;
	forget_chunks(m);
	unpin_all(m, ctx);
}

void tw_score_views_gone(struct master *m, struct tw_context *ctx)
{
	tw_score_abort(m, ctx);
	if (!m->scores.delivers)
		return;
	/* (7) cannot be kept: train on, and reach it again */
	m->scores.delivers = 0;
	m->scores.goal = (struct tw_goal){ .reached = false };
	m->wish.finish = false;
}

static void chunk_range(const struct master *m, uint32_t k, uint64_t *from, uint32_t *count)
{
	const uint64_t n = m->plan->problem.tests;

	*from = n * k / m->scores.chunks;
	*count = (uint32_t)(n * (k + 1) / m->scores.chunks - *from);
}

uint64_t tw_score_chunk_from(const struct master *m, uint32_t chunk)
{
	uint64_t from;
	uint32_t count;

	chunk_range(m, chunk, &from, &count);
	return from;
}

/* There is an evaluation for this threshold and for all others that its view has passed.  It is
 * let go. */
static void settle(struct master *m, struct tw_context *ctx)
{
	struct scores *o = &m->scores;
	const double have = m->eval.label.samples;
	const uint64_t past = m->eval.number && have > 0 ? reached(m, (uint64_t)have) : 0;
	const uint64_t k = past > m->eval.number ? past : m->eval.number;

	m->eval.state = EVAL_OFF;
	o->seen = m->eval.label;
	if (m->eval.number && k > o->evaluated_at) /* (5) */
		o->evaluated_at = k;
	if (o->delivers) /* (7) */
		return;
	if (m->eval.number && !tw_master_rounds(m))
		unpin(m, ctx, o->pin[(k < o->told ? k : o->told) % o->pins]);
	else
		unpin(m, ctx, m->eval.pin);
	if (o->told < o->evaluated_at)
		o->told = o->evaluated_at;
}

/* What is next, when an evaluation is over. */
static void go_on(struct master *m, struct tw_context *ctx)
{
	m->dealing.again = true; /* (6): there may be room */
	if (tw_master_rounds(m))
		tw_score_committed(m, ctx);
	else
		await_next(m, ctx);
}

/* Does the last evaluation reach what train.until asks for? */
static bool is_enough(const struct master *m)
{
	const struct scores *o = &m->scores;

	return o->loss <= m->plan->ends.loss ||
	       (o->accuracy >= 0 && o->accuracy >= m->plan->ends.accuracy);
}

/* (7) */
static void reach_goal(struct master *m)
{
	struct scores *o = &m->scores;

	m->wish.finish = true;
	if (m->phase != PHASE_SCORE)
		o->delivers = m->eval.pin;
	if (!o->goal.reached)
		o->goal = (struct tw_goal){ .reached = true,
					    .samples = m->eval.label.samples,
					    .updates = m->eval.label.updates,
					    .loss = o->loss,
					    .accuracy = o->accuracy,
					    .at = m->eval.at };
}

static void conclude(struct master *m, struct tw_context *ctx)
{
	const bool final = m->phase == PHASE_SCORE;
	double loss = 0, correct = 0, samples = 0;

	for (uint32_t k = 0; k < m->scores.chunks; k++) {
		loss += m->scores.chunk[k].loss;
		correct += m->scores.chunk[k].correct;
		samples += (double)m->scores.chunk[k].samples;
	}
	m->scores.loss = loss / samples;
	m->scores.accuracy = m->scores.chunk[0].correct < 0 ? -1 : correct / samples;
	if (is_enough(m))
		reach_goal(m);
	settle(m, ctx);
	tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_EVAL,
					.eval = { .pin = m->eval.pin,
						  .loss = m->scores.loss,
						  .accuracy = m->scores.accuracy,
						  .point = m->eval.label,
						  .final = final } });
	if (final)
		tw_score_finish(m, ctx, TW_OK);
	else
		go_on(m, ctx);
}

static void add_view(struct view_sums *sum, const struct tw_body_pin *v)
{
	sum->samples += (double)v->samples;
	sum->steps += (double)v->steps;
	sum->updates += (double)v->updates;
	sum->contributions += (double)v->staleness_count;
	sum->views++;
}

double tw_score_updates(const struct master *m, double updates, double contributions)
{
	return tw_plan_counts_others(m->plan) ? contributions / m->plan->crew.workers : updates;
}

/* (4) */
static struct tw_point label_of(const struct master *m)
{
	struct tw_point l = { .train_loss = m->count.loss_samples ? m->count.train_loss : NAN };
	struct view_sums speakers = { .views = 0 }, all;
	double late = 0, contributions;

	for (uint32_t s = 0; s < m->plan->problem.shards; s++) {
		const struct tw_body_pin *v = &m->shard[s].view;

		add_view(&speakers, v);
		l.rate += v->rate;
		late += (double)v->staleness_sum;
	}
	contributions = speakers.contributions;
	all = tw_plan_is_loose(m->plan) ? m->eval.has : speakers; /* else replicas are equal */
	l.samples = all.samples / all.views;
	l.steps = all.steps / all.views;
	l.updates = tw_score_updates(m, all.updates, all.contributions) / all.views;
	l.rate /= m->plan->problem.shards;
	l.staleness = contributions > 0 ? late / contributions : NAN;
	if (m->optimise)
		l.updates = (double)m->optimise->descent.iterations;
	return l;
}

static bool keeps_view(const struct master *m, uint32_t shard)
{
	return m->shard[shard].pinned;
}

static bool all_pinned(struct master *m)
{
	return tw_replicas_all(m, REPLICA_PINNED) &&
	       tw_master_every_shard(m, &m->eval.lacks, keeps_view);
}

static bool one_round(const struct master *m)
{
	for (uint32_t s = 1; s < m->plan->problem.shards; s++)
		if (m->shard[s].view.round != m->shard[0].view.round)
			return false;
	return true;
}

/* Was this view evaluated before, or is it the one that is evaluated at the end? */
static bool is_known(const struct master *m)
{
	const struct tw_point *l = &m->eval.label;
	const bool ends = m->phase == PHASE_DRAIN && tw_deal_exhausted(m);

	if (!m->eval.number || tw_master_rounds(m))
		return false;
	if (m->eval.state == EVAL_HURRIED && /* it was not waited for */
	    ((l->updates == m->scores.seen.updates && l->samples == m->scores.seen.samples) ||
	     (ends && l->samples < (double)threshold(m, m->eval.number))))
		return true;
	return l->samples >= (double)(m->plan->dealing.positions + m->count.redealt);
}

/* All views are kept, for the first time; false: they do not belong together. */
static bool views_kept(struct master *m, struct tw_context *ctx)
{
	if (tw_master_rounds(m) && !one_round(m)) {
		/* some were told when they were further already: nobody is further than this */
		tw_score_again(m, ctx);
		return false;
	}
	m->eval.label = label_of(m);
	if (is_known(m)) {
		settle(m, ctx);
		go_on(m, ctx);
		return false;
	}
	m->eval.state = EVAL_PINNED;
	m->eval.at = tw_now(ctx);
	m->since = m->eval.at;
	if (tw_plan_is_loose(m->plan) && m->phase != PHASE_SCORE) { /* else they are equal */
		m->eval.state = EVAL_VIEWING;
		tw_calm_view(m, ctx);
		return false;
	}
	tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_PINNED, .eval.pin = m->eval.pin });
	tw_replicas_compare(m, ctx);
	return true;
}

/* Does it have the views, on its own node or on servers? */
static bool may_score(const struct master *m, uint32_t slot)
{
	const bool mean = tw_plan_is_loose(m->plan) && m->phase != PHASE_SCORE;
	const enum replica_word word = mean ? REPLICA_VIEWED : REPLICA_PINNED;

	return m->member[slot].chunk == NO_CHUNK &&
	       (!tw_master_has_replicas(m) ||
		m->member[slot].replica.heard[word] == m->plan->problem.shards);
}

/* The first live member at or after k that computes no chunk.  At most m->scores.chunks do. */
static uint32_t next_free(const struct master *m, uint32_t k)
{
	const struct tw_slots *live = &m->members.live;

	for (k = tw_slots_next(live, k); k != TW_NO_SLOT && !may_score(m, k);)
		k = tw_slots_next(live, k + 1);
	return k;
}

/* Give chunks that nobody works on to workers that work on none. */
void tw_score_deal(struct master *m, struct tw_context *ctx)
{
	if (m->eval.state == EVAL_OFF || m->eval.state == EVAL_VIEWING ||
	    (m->eval.state != EVAL_PINNED && (!all_pinned(m) || !views_kept(m, ctx))))
		return;
	if (m->scores.done == m->scores.chunks) {
		conclude(m, ctx);
		return;
	}
	for (uint32_t c = 0, k = 0; c < m->scores.chunks; c++) {
		struct tw_msg *msg;

		if (m->scores.chunk[c].asked)
			continue;
		k = next_free(m, k);
		if (k == TW_NO_SLOT)
			return;
		msg = tw_master_to_worker(m, ctx, k, TW_EVAL);
		if (!msg)
			return;
		msg->h.incarnation = m->member[k].incarnation;
		msg->h.flags = TW_FLAG_FREE;
		msg->b.eval.pin = m->eval.pin;
		chunk_range(m, c, &msg->b.eval.from, &msg->b.eval.count);
		m->scores.chunk[c].asked = true;
		m->scores.chunk[c].slot = k;
		m->scores.chunk[c].since = tw_now(ctx);
		m->member[k].chunk = c;
		tw_stuck_given_chunk(m, ctx);
		tw_send(ctx, msg);
	}
}

void tw_score_pinned(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	struct shard_info *i;

	if (msg->h.view != m->restart.generation)
		return;
	i = &m->shard[msg->h.shard];
	if (tw_master_has_replicas(m) && msg->b.pin.what == TW_PIN_KEEP &&
	    m->eval.state != EVAL_OFF && msg->b.pin.pin == m->eval.pin) {
		const uint32_t slot = tw_master_slot_at(m, msg->from.node);

		if (msg->b.pin.round != m->eval.round) { /* as in views_kept */
			tw_score_again(m, ctx);
			return;
		}
		if (tw_replica_says(m, msg->from.node, msg->h.shard, REPLICA_PINNED)) {
			m->member[slot].replica.digest ^= msg->b.pin.digest;
			add_view(&m->eval.has, &msg->b.pin);
		}
		if (i->node != msg->from.node)
			tw_score_deal(m, ctx);
	}
	if (i->node != msg->from.node)
		return;
	if (msg->b.pin.what == TW_PIN_COUNT)
		tw_score_steady(m, i, &msg->b.pin);
	if (msg->b.pin.what != TW_PIN_KEEP || m->eval.state == EVAL_OFF ||
	    msg->b.pin.pin != m->eval.pin || i->pinned)
		return;
	i->pinned = true;
	i->view = msg->b.pin;
	tw_score_deal(m, ctx);
}

void tw_score_result(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	const struct tw_body_result *r = &msg->b.result;
	struct member *e = &m->member[msg->h.from];
	struct chunk *c;
	uint64_t from;
	uint32_t count;

	if (m->eval.state == EVAL_OFF || r->pin != m->eval.pin || e->chunk == NO_CHUNK)
		return;
	c = &m->scores.chunk[e->chunk];
	chunk_range(m, e->chunk, &from, &count);
	if (from != r->from || count != r->count || c->done)
		return;
	c->done = true;
	c->loss = r->loss;
	c->correct = r->correct;
	c->samples = r->count;
	tw_stuck_scored(m, ctx, c);
	m->scores.done++;
	e->chunk = NO_CHUNK;
	tw_score_deal(m, ctx);
}

void tw_score_lost(struct master *m, struct tw_context *ctx, uint32_t slot)
{
	struct member *e = &m->member[slot];

	if (e->chunk != NO_CHUNK)
		m->scores.chunk[e->chunk].asked = false;
	e->chunk = NO_CHUNK;
	tw_score_deal(m, ctx); /* its replica's view may have been the last that was missing */
}

void tw_score_final(struct master *m, struct tw_context *ctx)
{
	m->phase = PHASE_SCORE;
	m->since = tw_now(ctx);
	if (m->scores.delivers) /* (7): they were evaluated */
		tw_score_finish(m, ctx, TW_OK);
	else
		start(m, ctx, 0, tw_master_rounds(m) ? m->rounds.number : 0, 0);
}
