/* SPDX-License-Identifier: Apache-2.0 */
/* eval_master.c - the master's side of an evaluation: when it is due, of which views, who scores
 * which chunk, and the result.  The numbers in brackets are those of README.md. */
#include "node/duty/eval/eval.h"
#include "node/kernel/duty.h"
#include "node/kernel/ledger.h"
#include "node/kernel/master_post.h"
#include "node/kernel/master_roster.h"

#include <math.h>
#include <stddef.h>

/* A chunk of the test samples. */
struct chunk {
	bool asked, done;
	uint32_t slot;
	int64_t since; /* when it was given to that member */
	double loss, correct;
	uint64_t samples;
};

#define NO_CHUNK UINT32_MAX

enum eval_state {
	EVAL_OFF,
	EVAL_AWAITED,  /* shards were told to keep a view */
	EVAL_HURRIED,  /* those who have not kept one were told not to wait any longer */
	EVAL_COMPLETE, /* all views are kept; the master looks at them when it drives */
	EVAL_VIEWING,  /* replicas take the mean of their views, which differ */
	EVAL_PINNED,   /* workers score: `label` and `at` are of these views */
};

/* What views have, added up. */
struct view_sums {
	double samples, steps, updates, contributions;
	uint32_t views;
};

/* The evaluation that is awaited or under way.  `start` resets it. */
struct evaluation {
	enum eval_state state;
	uint64_t pin;
	uint64_t number;         /* of the threshold, see (5); 0: at the end */
	uint64_t round, samples; /* shards keep their view when they have so many */
	struct view_sums has;    /* of all views that are kept so far, of all replicas */
	struct tw_point label;
	int64_t at;
	uint32_t lacks; /* that keeps no view */
};

/* Chunks of the evaluation under way, results of those before, and thresholds that shards were told
 * of ahead of time: see (6). */
struct scores {
	struct chunk *chunk;
	uint32_t chunks, done;
	uint64_t evaluated_at; /* thresholds up to this one have an evaluation */
	uint64_t told;         /* shards keep views for those up to this one ... */
	uint64_t *pin;         /* ... under these numbers: threshold k has pin[k % pins] */
	uint32_t pins;
	double loss, accuracy;
	struct tw_point seen; /* label of the last evaluation */
	struct tw_goal goal;
	uint64_t delivers; /* the views of this pin reached train.until: they are the result; 0:
			      what shards have at the end is */
};

/* What the speaker of a shard has told of its view. */
struct kept_view {
	bool kept;
	struct tw_body_pin has;
};

/* chunk_of[k] is c exactly if chunk c is asked for, not done, and its slot is k. */
struct eval_master {
	struct evaluation now;
	struct scores scores;
	uint32_t *chunk_of;     /* by slot; NO_CHUNK: none */
	struct kept_view *view; /* by shard */
	bool final_made;
};

/* --- when ------------------------------------------------------------------------------------ */

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

void tw_eval_master_agreed(struct master *m, bool adopted)
{
	/* the master before us has evaluated what it could */
	if (adopted && m->plan->evaluate_every > 0 &&
	    reached(m, m->count.samples) > m->eval->scores.evaluated_at)
		m->eval->scores.evaluated_at = reached(m, m->count.samples);
	if (m->eval->now.state == EVAL_OFF)
		m->eval->scores.told = m->eval->scores.evaluated_at;
}

/* --- evaluation ------------------------------------------------------------------------------ */

static void send_pin(struct tw_context *ctx, struct tw_msg *msg, const struct tw_body_pin *what)
{
	if (!msg)
		return;
	msg->h.flags = TW_FLAG_FREE;
	msg->b.pin = *what;
	tw_send(ctx, msg);
}

void tw_eval_master_send_pin(struct master *m, struct tw_context *ctx, uint32_t shard,
			     const struct tw_body_pin *what)
{
	/* whoever evaluates reads from its own replica */
	for (uint32_t k = tw_replicas_next(m, 0); k != TW_NO_SLOT; k = tw_replicas_next(m, k + 1))
		if (m->member[k].node != m->shard[shard].node &&
		    !(what->what == TW_PIN_KEEP && what->pin == m->eval->now.pin &&
		      tw_replica_said(m, k, shard, REPLICA_PINNED)))
			send_pin(ctx, tw_replica_to_shard(m, ctx, k, shard, TW_PIN), what);
	send_pin(ctx, tw_master_to_shard(m, ctx, shard, TW_PIN), what);
}

static void pin_shard(struct master *m, struct tw_context *ctx, uint32_t shard)
{
	struct tw_body_pin what = { .pin = m->eval->now.pin,
				    .what = TW_PIN_KEEP,
				    .round = m->eval->now.round,
				    .samples = m->eval->now.samples };

	if (m->eval->now.state != EVAL_OFF &&
	    (!m->eval->view[shard].kept || !tw_replicas_all(m, REPLICA_PINNED)))
		tw_eval_master_send_pin(m, ctx, shard, &what);
	if (m->eval->now.state == EVAL_OFF || !m->eval->now.number || tw_master_rounds(m))
		return;
	for (uint64_t k = m->eval->now.number + 1; k <= m->eval->scores.told; k++) { /* (6) */
		what.pin = m->eval->scores.pin[k % m->eval->scores.pins];
		what.samples = threshold(m, k);
		tw_eval_master_send_pin(m, ctx, shard, &what);
	}
}

/* Nobody computes anything for an evaluation. */
static void forget_chunks(struct master *m)
{
	for (uint32_t c = 0; c < m->eval->scores.chunks; c++) {
		if (m->eval->scores.chunk[c].asked && !m->eval->scores.chunk[c].done)
			m->eval->chunk_of[m->eval->scores.chunk[c].slot] = NO_CHUNK;
		m->eval->scores.chunk[c] = (struct chunk){ 0 };
	}
	m->eval->scores.done = 0;
}

static uint64_t new_pin(struct master *m, struct tw_context *ctx)
{
	return ((uint64_t)ctx->boot << 32) | ++m->restart.counter;
}

/* The pin of a threshold that shards were told of, or are told of now. */
static uint64_t pin_of(struct master *m, struct tw_context *ctx, uint64_t k)
{
	struct scores *o = &m->eval->scores;

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
	m->eval->now = (struct evaluation){ .state = EVAL_AWAITED,
					    .pin = ahead ? pin_of(m, ctx, number) : new_pin(m, ctx),
					    .number = number,
					    .round = round,
					    .samples = samples };
	tw_replicas_ask_anew(m, REPLICA_PINNED);
	for (uint32_t s = 0; s < m->plan->problem.shards; s++) {
		m->eval->view[s].kept = false;
		pin_shard(m, ctx, s);
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
	const uint64_t k = m->eval->scores.evaluated_at + 1;

	if (m->eval->now.state == EVAL_OFF && !tw_master_rounds(m) && m->plan->evaluate_every > 0 &&
	    !m->wish.finish && has_threshold(m, k))
		start(m, ctx, k, 0, threshold(m, k));
}

static bool tells_ahead(const struct master *m)
{
	return m->eval->now.state != EVAL_OFF && m->eval->now.number && !tw_master_rounds(m) &&
	       !m->wish.finish;
}

void tw_eval_master_ahead(struct master *m, struct tw_context *ctx)
{
	const uint64_t most = m->count.samples + m->dealing.open_samples;
	struct scores *o = &m->eval->scores;

	if (!tells_ahead(m))
		return;
	for (uint64_t k = o->told + 1;
	     k < m->eval->now.number + o->pins && threshold(m, k) <= most && has_threshold(m, k);
	     k++) {
		const struct tw_body_pin what = { .pin = pin_of(m, ctx, k),
						  .what = TW_PIN_KEEP,
						  .samples = threshold(m, k) };

		for (uint32_t s = 0; s < m->plan->problem.shards; s++)
			tw_eval_master_send_pin(m, ctx, s, &what);
	}
}

uint64_t tw_eval_master_room(const struct master *m, uint64_t unit)
{
	const uint64_t most = m->count.samples + m->dealing.open_samples + 1;
	const uint64_t k = m->eval->now.number + m->eval->scores.pins;
	uint64_t room;

	if (!tells_ahead(m) || m->plan->instant_evaluations || !has_threshold(m, k))
		return UINT64_MAX;
	room = threshold(m, k) > most ? threshold(m, k) - most : 0;
	/* where the threshold awaited is not reached by what is out, more must be dealt */
	if (room < unit && !m->dealing.open_leases &&
	    (m->eval->now.state == EVAL_AWAITED || m->eval->now.state == EVAL_HURRIED))
		return unit;
	return room;
}

/* Views that are not kept yet are not waited for: what a shard says of them comes before it has the
 * next round, unless it was lost. */
bool tw_eval_master_holds(const struct master *m)
{
	return (m->eval->now.state == EVAL_PINNED || m->eval->now.state == EVAL_VIEWING) &&
	       m->eval->now.number && !m->wish.finish &&
	       reached(m, m->count.samples) > m->eval->now.number;
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

static enum tw_status open_memory(struct master *m)
{
	const struct tw_plan *p = m->plan;
	const double unit = tw_deal_unit(m);
	const double step = p->evaluate_every * (double)p->problem.samples;
	const double ahead = unit * p->crew.workers / (step > unit ? step : unit);
	struct eval_master *e = m->eval;
	struct scores *o = &e->scores;

	o->loss = NAN; /* nothing was evaluated yet */
	o->accuracy = -1;
	o->chunks =
		p->problem.tests < TW_SCORE_CHUNKS ? (uint32_t)p->problem.tests : TW_SCORE_CHUNKS;
	/* as many as all workers may pass with the next step of each, and a few */
	o->pins = p->instant_evaluations ? 256 : ahead > 2 ? 2 + (uint32_t)ceil(ahead) : 4;
	o->pin = tw_heap_zeros(m->heap, o->pins * sizeof *o->pin);
	o->chunk = tw_heap_zeros(m->heap, o->chunks * sizeof *o->chunk);
	e->chunk_of = tw_heap_zeros(m->heap, p->crew.workers * sizeof *e->chunk_of);
	e->view = tw_heap_zeros(m->heap, p->problem.shards * sizeof *e->view);
	for (uint32_t k = 0; e->chunk_of && k < p->crew.workers; k++)
		e->chunk_of[k] = NO_CHUNK;
	return o->pin && o->chunk && e->chunk_of && e->view ? TW_OK : TW_NO_MEMORY;
}

static void begin_generation(struct master *m, struct tw_context *ctx)
{
	if (m->eval->now.state == EVAL_VIEWING) /* who takes the mean went with the generation */
		tw_eval_master_again(m, ctx);
	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		pin_shard(m, ctx, s);
	await_next(m, ctx);
}

void tw_eval_master_committed(struct master *m, struct tw_context *ctx)
{
	uint64_t k;

	if (m->eval->now.state != EVAL_OFF || !(m->plan->evaluate_every > 0) || is_last_round(m))
		return;
	k = reached(m, m->count.samples);
	if (k > m->eval->scores.evaluated_at)
		start(m, ctx, k, m->rounds.number, 0);
}

/* Shards that have not kept a view keep what they have. */
static void hurry(struct master *m, struct tw_context *ctx)
{
	m->eval->now.state = EVAL_HURRIED;
	m->eval->now.samples = 0;
	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		pin_shard(m, ctx, s);
}

static void count_more(struct master *m, struct tw_context *ctx)
{
	await_next(m, ctx);
	/* a shard that lost updates may never have as many: a whole interval later it waits no
	 * more */
	if (m->eval->now.state == EVAL_AWAITED && m->eval->now.number &&
	    m->count.samples >= threshold(m, m->eval->now.number + 1))
		hurry(m, ctx);
}

bool tw_eval_master_is_even(struct master *m, struct tw_context *ctx)
{
	if (m->eval->now.state == EVAL_OFF || !m->eval->now.number || m->wish.finish)
		return true;
	if (m->eval->now.state == EVAL_AWAITED && !tw_master_rounds(m)) {
		if (m->count.samples < threshold(m, m->eval->now.number))
			return true;
		hurry(m, ctx); /* nobody will have more */
	}
	return m->eval->now.state == EVAL_OFF;
}

/* Shards keep no view up to this pin. */
static void unpin(struct master *m, struct tw_context *ctx, uint64_t pin)
{
	const struct tw_body_pin what = { .pin = pin, .what = TW_PIN_RELEASE };

	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		if (tw_shard_has_home(&m->shard[s]))
			tw_eval_master_send_pin(m, ctx, s, &what);
}

/* Shards keep no view, and are told of all thresholds again. */
static void unpin_all(struct master *m, struct tw_context *ctx)
{
	struct scores *o = &m->eval->scores;
	const uint64_t last = o->told > o->evaluated_at ? o->pin[o->told % o->pins] : 0;

	unpin(m, ctx, last > m->eval->now.pin ? last : m->eval->now.pin);
	o->told = o->evaluated_at;
}

void tw_eval_master_again(struct master *m, struct tw_context *ctx)
{
	unpin_all(m, ctx);
	start(m, ctx, m->eval->now.number, tw_master_rounds(m) ? m->rounds.number : 0, 0);
}

void tw_eval_master_abort(struct master *m, struct tw_context *ctx)
{
	if (m->eval->now.state == EVAL_OFF)
		return;
	m->eval->now.state = EVAL_OFF;
	forget_chunks(m);
	unpin_all(m, ctx);
}

void tw_eval_master_views_gone(struct master *m, struct tw_context *ctx)
{
	tw_eval_master_abort(m, ctx);
	if (!m->eval->scores.delivers)
		return;
	/* (7) cannot be kept: train on, and reach it again */
	m->eval->scores.delivers = 0;
	m->eval->scores.goal = (struct tw_goal){ .reached = false };
	m->wish.finish = false;
}

static void chunk_range(const struct master *m, uint32_t k, uint64_t *from, uint32_t *count)
{
	const uint64_t n = m->plan->problem.tests;

	*from = n * k / m->eval->scores.chunks;
	*count = (uint32_t)(n * (k + 1) / m->eval->scores.chunks - *from);
}

/* There is an evaluation for this threshold and for all others that its view has passed.  It is
 * let go. */
static void settle(struct master *m, struct tw_context *ctx)
{
	struct scores *o = &m->eval->scores;
	const double have = m->eval->now.label.samples;
	const uint64_t past = m->eval->now.number && have > 0 ? reached(m, (uint64_t)have) : 0;
	const uint64_t k = past > m->eval->now.number ? past : m->eval->now.number;

	m->eval->now.state = EVAL_OFF;
	o->seen = m->eval->now.label;
	if (m->eval->now.number && k > o->evaluated_at) /* (5) */
		o->evaluated_at = k;
	if (o->delivers) /* (7) */
		return;
	if (m->eval->now.number && !tw_master_rounds(m))
		unpin(m, ctx, o->pin[(k < o->told ? k : o->told) % o->pins]);
	else
		unpin(m, ctx, m->eval->now.pin);
	if (o->told < o->evaluated_at)
		o->told = o->evaluated_at;
}

/* What is next, when an evaluation is over. */
static void go_on(struct master *m, struct tw_context *ctx)
{
	m->dealing.again = true; /* (6): there may be room */
	if (tw_master_rounds(m))
		tw_eval_master_committed(m, ctx);
	else
		await_next(m, ctx);
}

/* Does the last evaluation reach what train.until asks for? */
static bool is_enough(const struct master *m)
{
	const struct scores *o = &m->eval->scores;

	return o->loss <= m->plan->ends.loss ||
	       (o->accuracy >= 0 && o->accuracy >= m->plan->ends.accuracy);
}

/* (7) */
static void reach_goal(struct master *m)
{
	struct scores *o = &m->eval->scores;

	m->wish.finish = true;
	if (m->phase != PHASE_SCORE)
		o->delivers = m->eval->now.pin;
	if (!o->goal.reached)
		o->goal = (struct tw_goal){ .reached = true,
					    .samples = m->eval->now.label.samples,
					    .updates = m->eval->now.label.updates,
					    .loss = o->loss,
					    .accuracy = o->accuracy,
					    .at = m->eval->now.at };
}

static void conclude(struct master *m, struct tw_context *ctx)
{
	const bool final = m->phase == PHASE_SCORE;
	double loss = 0, correct = 0, samples = 0;

	for (uint32_t k = 0; k < m->eval->scores.chunks; k++) {
		loss += m->eval->scores.chunk[k].loss;
		correct += m->eval->scores.chunk[k].correct;
		samples += (double)m->eval->scores.chunk[k].samples;
	}
	m->eval->scores.loss = loss / samples;
	m->eval->scores.accuracy = m->eval->scores.chunk[0].correct < 0 ? -1 : correct / samples;
	if (is_enough(m))
		reach_goal(m);
	settle(m, ctx);
	tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_EVAL,
					.eval = { .pin = m->eval->now.pin,
						  .loss = m->eval->scores.loss,
						  .accuracy = m->eval->scores.accuracy,
						  .point = m->eval->now.label,
						  .final = final } });
	if (final)
		m->eval->final_made = true;
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

/* (4) */
static struct tw_point label_of(const struct master *m)
{
	struct tw_point l = { .train_loss = m->count.loss_samples ? m->count.train_loss : NAN };
	struct view_sums speakers = { .views = 0 }, all;
	double late = 0, contributions;

	for (uint32_t s = 0; s < m->plan->problem.shards; s++) {
		const struct tw_body_pin *v = &m->eval->view[s].has;

		add_view(&speakers, v);
		l.rate += v->rate;
		late += (double)v->staleness_sum;
	}
	contributions = speakers.contributions;
	all = tw_plan_is_loose(m->plan) ? m->eval->now.has : speakers; /* else replicas are equal */
	l.samples = all.samples / all.views;
	l.steps = all.steps / all.views;
	l.updates = tw_master_updates(m, all.updates, all.contributions) / all.views;
	l.rate /= m->plan->problem.shards;
	l.staleness = contributions > 0 ? late / contributions : NAN;
	if (tw_plan_optimises(m->plan))
		l.updates = (double)m->count.optimised.iterations;
	return l;
}

static bool keeps_view(const struct master *m, uint32_t shard)
{
	return m->eval->view[shard].kept;
}

static bool all_pinned(struct master *m)
{
	return tw_replicas_all(m, REPLICA_PINNED) &&
	       tw_master_every_shard(m, &m->eval->now.lacks, keeps_view);
}

static bool one_round(const struct master *m)
{
	for (uint32_t s = 1; s < m->plan->problem.shards; s++)
		if (m->eval->view[s].has.round != m->eval->view[0].has.round)
			return false;
	return true;
}

/* Was this view evaluated before, or is it the one that is evaluated at the end? */
static bool is_known(const struct master *m)
{
	const struct tw_point *l = &m->eval->now.label;
	const bool ends = m->phase == PHASE_DRAIN && tw_deal_exhausted(m);

	if (!m->eval->now.number || tw_master_rounds(m))
		return false;
	if (m->eval->now.state == EVAL_HURRIED && /* it was not waited for */
	    ((l->updates == m->eval->scores.seen.updates &&
	      l->samples == m->eval->scores.seen.samples) ||
	     (ends && l->samples < (double)threshold(m, m->eval->now.number))))
		return true;
	return l->samples >= (double)(m->plan->dealing.positions + m->count.redealt);
}

/* All views are here, for the first time: what is due then is done when the master drives. */
static void views_kept(struct master *m, struct tw_context *ctx)
{
	struct evaluation *now = &m->eval->now;

	if (tw_master_rounds(m) && !one_round(m)) {
		/* some were told when they were further already: nobody is further than this */
		tw_eval_master_again(m, ctx);
		return;
	}
	now->label = label_of(m);
	if (is_known(m)) {
		settle(m, ctx);
		go_on(m, ctx);
		return;
	}
	now->state = EVAL_COMPLETE;
	now->at = m->since = tw_now(ctx);
}

/* Does it have the views, on its own node or on servers? */
static bool may_score(const struct master *m, uint32_t slot)
{
	const bool mean = tw_plan_is_loose(m->plan) && m->phase != PHASE_SCORE;
	const enum replica_word word = mean ? REPLICA_VIEWED : REPLICA_PINNED;

	return m->eval->chunk_of[slot] == NO_CHUNK &&
	       (!tw_master_has_replicas(m) ||
		m->member[slot].replica.heard[word] == m->plan->problem.shards);
}

/* The first live member at or after k that computes no chunk. */
static uint32_t next_free(const struct master *m, uint32_t k)
{
	const struct tw_slots *live = &m->members.live;

	for (k = tw_slots_next(live, k); k != TW_NO_SLOT && !may_score(m, k);)
		k = tw_slots_next(live, k + 1);
	return k;
}

/* Give chunks that nobody works on to workers that work on none. */
static void deal(struct master *m, struct tw_context *ctx)
{
	if (tw_eval_master_awaits(m) && all_pinned(m))
		views_kept(m, ctx);
	if (m->eval->now.state != EVAL_PINNED)
		return;
	if (m->eval->scores.done == m->eval->scores.chunks) {
		conclude(m, ctx);
		return;
	}
	for (uint32_t c = 0, k = 0; c < m->eval->scores.chunks; c++) {
		struct tw_msg *msg;

		if (m->eval->scores.chunk[c].asked)
			continue;
		k = next_free(m, k);
		if (k == TW_NO_SLOT)
			return;
		msg = tw_master_to_worker(m, ctx, k, TW_EVAL);
		if (!msg)
			return;
		msg->h.incarnation = m->member[k].incarnation;
		msg->h.flags = TW_FLAG_FREE;
		msg->b.eval.pin = m->eval->now.pin;
		chunk_range(m, c, &msg->b.eval.from, &msg->b.eval.count);
		m->eval->scores.chunk[c].asked = true;
		m->eval->scores.chunk[c].slot = k;
		m->eval->scores.chunk[c].since = tw_now(ctx);
		m->eval->chunk_of[k] = c;
		tw_master_may_be_due(m, tw_now(ctx));
		tw_send(ctx, msg);
	}
}

static void hear_view(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	const struct tw_body_pin *b = &msg->b.pin;
	const struct evaluation *now = &m->eval->now;
	struct kept_view *v = &m->eval->view[msg->h.shard];
	const uint32_t speaker = m->shard[msg->h.shard].node;

	if (msg->h.view != m->restart.generation || b->what != TW_PIN_KEEP ||
	    now->state == EVAL_OFF || b->pin != now->pin)
		return;
	if (tw_master_has_replicas(m)) {
		const uint32_t slot = tw_master_slot_at(m, msg->from.node);

		if (b->round != now->round) { /* as in views_kept */
			tw_eval_master_again(m, ctx);
			return;
		}
		if (tw_replica_says(m, msg->from.node, msg->h.shard, REPLICA_PINNED)) {
			m->member[slot].replica.digest ^= b->digest;
			add_view(&m->eval->now.has, b);
		}
		if (speaker != msg->from.node)
			deal(m, ctx);
	}
	if (speaker != msg->from.node || v->kept)
		return;
	v->kept = true;
	v->has = *b;
	deal(m, ctx);
}

static void hear_score(struct master *m, struct tw_context *ctx, const struct tw_msg *msg)
{
	const struct tw_body_result *r = &msg->b.result;
	struct eval_master *e = m->eval;
	uint32_t *of = &e->chunk_of[msg->h.from];
	struct chunk *c;
	uint64_t from;
	uint32_t count;

	if (e->now.state == EVAL_OFF || r->pin != e->now.pin || *of == NO_CHUNK)
		return;
	c = &e->scores.chunk[*of];
	chunk_range(m, *of, &from, &count);
	if (from != r->from || count != r->count || c->done)
		return;
	c->done = true;
	c->loss = r->loss;
	c->correct = r->correct;
	c->samples = r->count;
	tw_pace_add(&m->watch.score_pace, c->slot, tw_now(ctx) - c->since, c->samples);
	e->scores.done++;
	*of = NO_CHUNK;
	deal(m, ctx);
}

/* (2) */
static void take_chunk_from(struct master *m, struct tw_context *ctx, uint32_t slot)
{
	uint32_t *of = &m->eval->chunk_of[slot];

	if (*of != NO_CHUNK)
		m->eval->scores.chunk[*of].asked = false;
	*of = NO_CHUNK;
	deal(m, ctx); /* its replica's view may have been the last that was missing */
}

/* --- what others ask for --------------------------------------------------------------------- */

bool tw_eval_master_final(struct master *m, struct tw_context *ctx)
{
	m->phase = PHASE_SCORE;
	m->since = tw_now(ctx);
	if (m->eval->scores.delivers) /* (7): they were evaluated */
		return false;
	m->eval->final_made = false;
	start(m, ctx, 0, tw_master_rounds(m) ? m->rounds.number : 0, 0);
	return true;
}

bool tw_eval_master_is_final_made(const struct master *m)
{
	return m->eval->final_made;
}

void tw_eval_master_go(struct master *m, struct tw_context *ctx)
{
	deal(m, ctx);
}

void tw_eval_master_average(struct master *m)
{
	m->eval->now.state = EVAL_VIEWING;
}

void tw_eval_master_viewed(struct master *m, struct tw_context *ctx)
{
	if (m->eval->now.state != EVAL_COMPLETE && m->eval->now.state != EVAL_VIEWING)
		return;
	m->eval->now.state = EVAL_PINNED;
	tw_note(ctx, &(struct tw_note){ .kind = TW_NOTE_PINNED, .eval.pin = m->eval->now.pin });
	deal(m, ctx);
}

void tw_eval_master_pin_again(struct master *m, struct tw_context *ctx)
{
	for (uint32_t s = 0; s < m->plan->problem.shards && m->eval->now.state == EVAL_AWAITED; s++)
		pin_shard(m, ctx, s);
}

void tw_eval_master_speaker(struct master *m)
{
	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		m->eval->view[s].kept = false;
}

void tw_eval_master_totals(const struct master *m, struct tw_totals *t)
{
	t->goal = m->eval->scores.goal;
	t->loss = m->eval->scores.loss;
	t->accuracy = m->eval->scores.accuracy;
}

void tw_eval_master_restore(struct master *m, uint64_t evaluated)
{
	m->eval->scores.evaluated_at = evaluated;
}

/* --- questions ------------------------------------------------------------------------------- */

uint64_t tw_eval_master_evaluated(const struct master *m)
{
	return m->eval->scores.evaluated_at;
}

uint64_t tw_eval_master_delivers(const struct master *m)
{
	return m->eval->scores.delivers;
}

uint64_t tw_eval_master_pin(const struct master *m)
{
	return m->eval->now.pin;
}

uint32_t tw_eval_master_done(const struct master *m)
{
	return m->eval->scores.done;
}

bool tw_eval_master_awaits(const struct master *m)
{
	return m->eval->now.state == EVAL_AWAITED || m->eval->now.state == EVAL_HURRIED;
}

bool tw_eval_master_is_complete(const struct master *m)
{
	return m->eval->now.state == EVAL_COMPLETE;
}

bool tw_eval_master_averages(const struct master *m)
{
	return m->eval->now.state == EVAL_VIEWING;
}

bool tw_eval_master_scores(const struct master *m)
{
	return m->eval->now.state == EVAL_PINNED;
}

bool tw_eval_master_has_view(const struct master *m, uint32_t shard)
{
	return m->eval->view[shard].kept;
}

bool tw_eval_master_has_chunk(const struct master *m, uint32_t slot)
{
	return m->eval->chunk_of[slot] != NO_CHUNK;
}

int64_t tw_eval_master_since(const struct master *m, uint32_t slot)
{
	const uint32_t c = m->eval->chunk_of[slot];

	return c == NO_CHUNK ? INT64_MAX : m->eval->scores.chunk[c].since;
}

uint64_t tw_eval_master_from(const struct master *m, uint32_t slot)
{
	uint64_t from;
	uint32_t count;

	chunk_range(m, m->eval->chunk_of[slot], &from, &count);
	return from;
}

double tw_eval_master_usual(const struct master *m)
{
	return (double)m->plan->problem.tests / (m->eval->scores.chunks + 1) + 1;
}

/* --- the duty -------------------------------------------------------------------------------- */

static enum tw_status open_eval(void *actor)
{
	return open_memory(actor);
}

static void close_eval(void *actor)
{
	const struct master *m = actor;
	void *const all[] = { m->eval->scores.pin, m->eval->scores.chunk, m->eval->chunk_of,
			      m->eval->view };

	for (size_t k = 0; k < sizeof all / sizeof all[0]; k++)
		m->heap->put(m->heap, all[k]);
}

static void message(void *actor, struct tw_context *ctx, const struct tw_msg *msg)
{
	if (msg->h.type == TW_PIN)
		hear_view(actor, ctx, msg);
	else
		hear_score(actor, ctx, msg);
}

static void begin(void *actor, struct tw_context *ctx)
{
	begin_generation(actor, ctx);
}

/* Nobody may have been left for an evaluation. */
static void joined(void *actor, struct tw_context *ctx, uint32_t slot)
{
	(void)slot;
	deal(actor, ctx);
}

static void lost(void *actor, struct tw_context *ctx, uint32_t slot)
{
	take_chunk_from(actor, ctx, slot);
}

/* The request for its score may be lost. */
static void back(void *actor, struct tw_context *ctx, uint32_t slot)
{
	if (tw_eval_master_has_chunk(actor, slot))
		take_chunk_from(actor, ctx, slot);
}

static void home(void *actor, struct tw_context *ctx, uint32_t shard)
{
	pin_shard(actor, ctx, shard);
}

static void updated(void *actor, struct tw_context *ctx)
{
	count_more(actor, ctx);
}

const struct tw_duty tw_eval_master = {
	.name = "eval",
	.bytes = sizeof(struct eval_master),
	.place = offsetof(struct master, eval),
	.hears = TW_HEARS(TW_PIN) | TW_HEARS(TW_RESULT),
	.open = open_eval,
	.close = close_eval,
	.message = message,
	.begin = begin,
	.joined = joined,
	.lost = lost,
	.back = back,
	.home = home,
	.updated = updated,
};
