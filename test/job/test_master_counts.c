/* SPDX-License-Identifier: Apache-2.0 */
/* test_master_counts.c - every count and set that the master keeps as members change, compared with
 * a recount by plain loops after every event of simulated runs with faults. */
#include "job/trial.h"
#include "node/duty/checkpoint/checkpoint_state.h"
#include "node/duty/deal/deal_state.h"
#include "node/duty/eval/eval_state.h"
#include "node/duty/round/round_state.h"
#include "node/duty/watch/watch_state.h"
#include "node/master/master.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

/* What all runs together have shown; a test that never saw a thing shows nothing about it. */
static struct {
	uint64_t events, dry, early, behind, back, staging, complete, refused, parts, chunks,
		barred, bounds, served, removed, warm;
} seen;

static struct {
	uint32_t last, dealt; /* slot that was dealt to last; how many in this event */
	bool rounds, turned;  /* the warm start ended in this event: the order begins again */
	uint32_t live;
} event;

/* --- recounts --------------------------------------------------------------------------------- */

static void same_set(const struct master *m, const struct tw_slots *s,
		     bool (*in)(const struct member *))
{
	uint32_t members = 0;

	for (uint32_t k = 0; k < m->plan->crew.workers; k++) {
		assert_int_equal(tw_slots_has(s, k), in(&m->member[k]));
		assert_int_equal(tw_slots_rank(s, k), members);
		members += in(&m->member[k]);
	}
	assert_int_equal(s->members, members);
}

static bool is_live(const struct member *e)
{
	return e->live;
}
static bool is_hungry(const struct member *e)
{
	return e->appetite == APPETITE_HUNGRY;
}
static bool is_dry(const struct member *e)
{
	return e->appetite == APPETITE_DRY;
}
static bool is_early(const struct member *e)
{
	return e->appetite == APPETITE_EARLY;
}
static bool is_barred(const struct member *e)
{
	return e->barred_boot != 0;
}

static void check_members(const struct master *m)
{
	const uint32_t n = m->plan->crew.workers;

	same_set(m, &m->members.live, is_live);
	same_set(m, &m->members.barred, is_barred);
	for (uint32_t node = 0; node < m->plan->crew.servers + n + 3; node++) {
		uint32_t slot = 0;

		while (slot < n && !(m->member[slot].live && m->member[slot].node == node))
			slot++;
		assert_int_equal(tw_master_slot_at(m, node), slot < n ? slot : TW_NO_SLOT);
	}
	for (uint32_t k = 0, rank = 0; k < n; k++) {
		const struct member *e = &m->member[k];
		const uint64_t g = m->plan->dealing.global_batch, live = tw_master_live(m);

		if (!e->live) { /* one who is gone wants nothing; a stripe that is complete stays */
			assert_int_equal(e->appetite, APPETITE_NONE);
			assert_int_equal(e->held.count, 0);
			assert_true(!m->round || m->round->stripe[k].state == STRIPE_NONE ||
				    m->round->stripe[k].state == STRIPE_COMPLETE);
			continue;
		}
		if (g)
			assert_int_equal(tw_deal_batch(m, k),
					 g * (rank + 1) / live - g * rank / live);
		rank++;
	}
	seen.barred += m->members.barred.members;
}

/* In a warm start, these many workers. */
static uint64_t may_work(const struct master *m)
{
	const struct tw_dealing *d = &m->plan->dealing;
	const uint64_t others = m->plan->crew.workers - d->warm_workers;
	const uint64_t done = d->warm_gradual ? m->count.samples : m->dealing.frontier;

	if (done >= d->warm_until)
		return m->plan->crew.workers;
	return d->warm_workers + (d->warm_gradual ? others * done / d->warm_until : 0);
}

/* With data.deal: is there a free position of this worker's subset, or of one without a worker? */
static bool has_something(const struct master *m, uint32_t slot)
{
	const struct tw_subsets *s = &m->plan->dealing.subsets;
	const uint64_t end = m->plan->dealing.positions;
	struct tw_span gap = { 0, 0 };

	while (tw_spans_gap(&m->dealing.taken, gap.to, end, 1, &gap)) {
		const uint32_t owner = tw_subsets_cell(s, gap.from).subset;

		if (owner == slot || !m->member[owner].live)
			return true;
	}
	return false;
}

static void check_shards(const struct master *m)
{
	uint32_t places[SHARD_PLACES] = { 0 };

	for (uint32_t s = 0; s < m->plan->problem.shards; s++)
		places[m->shard[s].place]++;
	assert_memory_equal(places, m->places, sizeof places);
}

static void check_orphans(const struct master *m)
{
	const struct tw_subsets *s = &m->plan->dealing.subsets;
	const struct orphans *o = &m->deal->orphans;
	struct tw_span gap = { 0, 0 };

	if (!s->count)
		return;
	assert_int_equal(o->count + tw_master_live(m), m->plan->crew.workers);
	for (uint32_t k = 0; k < m->plan->crew.workers; k++) {
		const uint32_t at = o->place[k];

		assert_int_equal(at == 0, m->member[k].live);
		if (!at)
			continue;
		assert_int_equal(o->heap[at], k);
		assert_true(at == 1 || o->next[o->heap[at / 2]] < o->next[k] ||
			    (o->next[o->heap[at / 2]] == o->next[k] && o->heap[at / 2] < k));
	}
	while (tw_spans_gap(&m->dealing.taken, gap.to, m->plan->dealing.positions, 1, &gap))
		assert_true(o->next[tw_subsets_cell(s, gap.from).subset] <= gap.from);
}

/* Would the loop over everybody, which tw_deal was once, have given this one something? */
static bool would_be_served(const struct master *m, uint32_t slot)
{
	struct tw_span gap;
	uint32_t rank = 0;

	if (tw_wishes(m, TW_WISH_TIME | TW_WISH_GOAL) ||
	    !tw_spans_gap(&m->dealing.taken, 0, m->plan->dealing.positions, 1, &gap))
		return false;
	if (m->plan->dealing.subsets.count && !has_something(m, slot))
		return false;
	for (uint32_t k = 0; k < slot; k++)
		rank += m->member[k].live;
	return rank < may_work(m);
}

static void check_dealing(const struct master *m)
{
	const bool serves = m->phase == PHASE_RUN && !m->waits.paused && !tw_master_rounds(m);
	const struct dealing *d = &m->dealing;
	uint64_t leases = 0;

	same_set(m, &d->hungry, is_hungry);
	same_set(m, &d->dry, is_dry);
	same_set(m, &d->early, is_early);
	check_orphans(m);
	for (uint32_t k = 0; k < m->plan->crew.workers; k++) {
		const struct member *e = &m->member[k];

		leases += e->held.count;
		for (uint32_t i = 0; i < e->held.count; i++)
			assert_true(tw_spans_within(&d->taken, e->held.lease[i].from,
						    e->held.lease[i].to) ==
				    e->held.lease[i].to - e->held.lease[i].from);
		if (!serves || e->appetite == APPETITE_NONE)
			continue;
		assert_int_not_equal(e->appetite, APPETITE_HUNGRY); /* nobody was forgotten ... */
		assert_false(would_be_served(m, k));                /* ... or told what is not so */
	}
	assert_true(leases == d->open_leases);
	seen.dry += d->dry.members;
	seen.early += d->early.members;
}

static bool is_planned(const struct master *m, uint32_t slot)
{
	const enum stripe_state state = m->round->stripe[slot].state;

	return state == STRIPE_STAGING || state == STRIPE_COMPLETE || state == STRIPE_REFUSED;
}

static void check_round(const struct master *m)
{
	const struct round_master *r = m->round;
	uint32_t stripes[STRIPE_STATES] = { 0 }, back = 0;

	if (!r)
		return;
	for (uint32_t k = 0; k < m->plan->crew.workers; k++) {
		const struct stripe *x = &r->stripe[k];
		const bool is_back =
			x->state == STRIPE_BEHIND && m->member[k].appetite != APPETITE_NONE;
		uint32_t have = 0;

		assert_int_equal(tw_slots_has(&r->back, k), is_back);
		back += is_back;
		stripes[x->state]++;
		assert_true(tw_round_works_on(m, k) == (is_planned(m, k) ? x->count : 0));
		if (!is_planned(m, k))
			continue;
		assert_true(m->rounds.open);
		assert_true(tw_plan_crosses_epochs(m->plan) ||
			    (x->from / m->plan->problem.samples + 1) * m->plan->problem.samples ==
				    r->border ||
			    (m->plan->dealing.subsets.count && x->from < r->border));
		for (uint32_t s = 0; s < m->plan->problem.shards; s++)
			have += r->have[k * r->words + s / 64] >> s % 64 & 1;
		assert_int_equal(x->have, have);
		assert_true((have == m->plan->problem.shards) == (x->state == STRIPE_COMPLETE));
	}
	assert_int_equal(r->back.members, back);
	assert_memory_equal(stripes, r->stripes, sizeof stripes);
	seen.staging += stripes[STRIPE_STAGING];
	seen.complete += stripes[STRIPE_COMPLETE];
	seen.refused += stripes[STRIPE_REFUSED];
	seen.behind += stripes[STRIPE_BEHIND];
	seen.back += back;
}

static void check_checkpoint(const struct master *m)
{
	const struct checkpoint_making *c = &m->checkpoint->now;
	const uint32_t cells = tw_plan_cells(m->plan);
	uint32_t whole = 0, owed = 0;

	for (uint32_t k = 0; c->cell && k < m->plan->crew.workers; k++) {
		uint32_t here = 0;

		for (uint32_t i = 0; i < cells; i++)
			here += c->cell[tw_checkpoint_place(m, k, i)] != NULL;
		assert_true(!here || c->number);
		whole += m->member[k].live && here == cells;
	}
	for (uint32_t s = 0; c->number && s < m->plan->problem.shards; s++)
		owed += !c->shard[s] && s >= c->written + c->writing;
	assert_int_equal(whole, c->whole);
	assert_int_equal(owed, m->cuts.owed);
	seen.parts += whole;
}

static void check_evaluation(const struct master *m)
{
	const struct scores *o = &m->eval->scores;
	uint32_t computing = 0, asked = 0, done = 0;

	for (uint32_t k = 0; k < m->plan->crew.workers; k++) {
		const struct member *e = &m->member[k];

		if (!tw_eval_master_has_chunk(m, k))
			continue;
		computing++;
		assert_true(e->live && m->eval->chunk_of[k] < o->chunks);
		assert_int_equal(o->chunk[m->eval->chunk_of[k]].slot, k);
		assert_true(tw_eval_master_from(m, k) < m->plan->problem.tests);
		assert_true(tw_eval_master_since(m, k) == o->chunk[m->eval->chunk_of[k]].since);
	}
	for (uint32_t c = 0; c < o->chunks; c++) {
		asked += o->chunk[c].asked && !o->chunk[c].done;
		done += o->chunk[c].done;
	}
	assert_int_equal(computing, asked);
	assert_int_equal(tw_eval_master_done(m), done);
	seen.chunks += computing;
}

/* Nobody that the master waits for may be due before the time at which it looks next. */
static void check_stuck(const struct master *m)
{
	if (!m->plan->crew.stuck || (m->plan->gate->traits & TW_GATE_HOLDS) ||
	    m->watch->phase != m->phase)
		return;
	for (uint32_t k = 0; k < m->plan->crew.workers; k++) {
		const struct member *e = &m->member[k];
		const int64_t most = tw_watch_patience(m, k);
		int64_t since = e->asked;

		if (!tw_watch_waits_for(m, k) || most == INT64_MAX)
			continue;
		if (m->phase == PHASE_SCORE)
			since = tw_eval_master_since(m, k);
		else if (m->phase == PHASE_RUN &&
			 (m->round ? !is_planned(m, k) || m->round->stripe[k].have
				   : !e->held.count))
			continue;
		else if (m->phase != PHASE_RUN && m->since > since)
			since = m->since;
		if (m->watch->awake_since > since)
			since = m->watch->awake_since;
		assert_true(m->pace.earliest <= since + most);
		seen.bounds++;
	}
}

static void recount(const struct tw_actor *a)
{
	const struct master *m = (const struct master *)a;

	seen.events++;
	check_members(m);
	check_shards(m);
	check_dealing(m);
	check_round(m);
	check_checkpoint(m);
	check_evaluation(m);
	check_stuck(m);
	seen.removed += tw_master_live(m) < event.live;
	seen.served += event.dealt > 1;
	event.live = tw_master_live(m);
}

/* --- the master, and a look at it after every handler ----------------------------------------- */

static void enter(const struct tw_actor *a)
{
	const struct master *m = (const struct master *)a;

	event.dealt = 0;
	event.turned = false;
	event.rounds = tw_master_rounds(m);
	event.live = tw_master_live(m);
}

static void on_start(struct tw_actor *a, struct tw_context *ctx)
{
	enter(a);
	tw_master_class.start(a, ctx);
	recount(a);
}
static void on_message(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *msg)
{
	enter(a);
	tw_master_class.message(a, ctx, msg);
	recount(a);
}
static void on_timer(struct tw_actor *a, struct tw_context *ctx, uint32_t timer)
{
	enter(a);
	tw_master_class.timer(a, ctx, timer);
	recount(a);
}
static void on_saved(struct tw_actor *a, struct tw_context *ctx, uint64_t cut, enum tw_status st)
{
	enter(a);
	tw_master_class.saved(a, ctx, cut, st);
	recount(a);
}
static void on_loaded(struct tw_actor *a, struct tw_context *ctx, uint64_t cut,
		      const struct tw_part *parts, size_t count, enum tw_status st)
{
	enter(a);
	tw_master_class.loaded(a, ctx, cut, parts, count, st);
	recount(a);
}
static void on_down(struct tw_actor *a, struct tw_context *ctx, uint32_t node)
{
	enter(a);
	tw_master_class.down(a, ctx, node);
	recount(a);
}
static void on_up(struct tw_actor *a, struct tw_context *ctx, uint32_t node, uint32_t boot)
{
	enter(a);
	tw_master_class.up(a, ctx, node, boot);
	recount(a);
}

/* Within one event workers are served in ascending order; the end of a warm start begins anew. */
static bool observe(void *arg, const struct tw_note *note)
{
	const struct tw_dealing *d = arg;

	if (note->kind != TW_NOTE_DEAL || event.rounds)
		return true;
	if (event.dealt && note->slot == event.last && d->subsets.count)
		return true; /* one worker gets several cells */
	if (event.dealt && note->slot <= event.last) {
		assert_true(d->warm_until && (!event.turned || d->warm_gradual));
		event.turned = true;
	}
	event.last = note->slot;
	event.dealt++;
	seen.warm += d->warm_until && event.dealt == 3; /* the first two were not alone any more */
	return true;
}

static void run(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void run(const char *format, ...)
{
	struct tw_actor_class class = tw_master_class;
	char text[3000];
	struct trial t;
	struct tw_ran ran;
	va_list args;

	va_start(args, format);
	assert_true(vsnprintf(text, sizeof text, format, args) < (int)sizeof text);
	va_end(args);
	trial_open(&t, TW_WORLD_SIM, "%s", text);
	class.start = on_start;
	class.message = on_message;
	class.timer = on_timer;
	class.saved = on_saved;
	class.loaded = on_loaded;
	class.down = on_down;
	class.up = on_up;
	for (size_t k = 0; k < t.cast.seats; k++)
		if (t.cast.seat[k].addr.role == TW_MASTER)
			t.cast.seat[k].class = &class;
	t.observer = observe;
	t.observer_arg = &t.job->plan.dealing;
	trial_run(&t, &tw_heap_system, NULL, &ran);
	if (ran.error.status != TW_OK && ran.error.status != TW_INTERRUPTED)
		fail_msg("%s: %s", text, ran.error.text);
	tw_totals_release(&ran.totals);
	trial_close(&t);
}

/* --- the runs --------------------------------------------------------------------------------- */

#define MODEL  "model: {quadratic: {dimension: 9, noise: 0.1}}\nupdate: {rate: 0.002}\n"
#define FAULTS "  random: {crashes: %u, partitions: 1, resets: 2, slow: 1, span: 3s, seed: %u}\n"

static void every_preset_with_faults(void **state)
{
	const char *preset;

	for (size_t p = 0; (preset = trial_preset(TW_WORLD_SIM, p)); p++)
		for (uint32_t seed = 1; seed <= 2; seed++)
			run(MODEL "data: {source: none, samples: 150, batch: 2, deal: %s}\n"
				  "train: {epochs: 2, seed: %u, evaluate: 0.4}\n"
				  "cluster: {workers: 9, shards: %u, servers: 2, stuck: %us}\n"
				  "strategy: %s\ncheckpoint: {every: 400ms, cut: %s}\n"
				  "sim:\n  compute: {law: exponential, mean: 100ms}\n"
				  "  latency: 2ms\n  jitter: 5ms\n  loss: 0.02\n" FAULTS,
			    seed == 1 ? "shuffled" : "partition", seed, seed == 1 ? 2 : 3,
			    seed == 1 ? 1 : 0, preset, seed == 1 ? "drain" : "running", 3, seed);
}

/* So many workers that sets have several words, and more die than a checkpoint can wait for. */
static void many_workers(void **state)
{
	static const char *const strategies[] = { "asgd",
						  "{name: backup, extra: 20}",
						  "{name: backup, extra: 9, abandon: true}",
						  "{name: ssp, lead: 1}",
						  "softsync",
						  "ssgd" };

	for (size_t s = 0; s < sizeof strategies / sizeof strategies[0]; s++)
		run(MODEL "data: {source: none, samples: 1500, %s}\n"
			  "train: {epochs: 1, seed: 3, evaluate: 0.5}\n"
			  "cluster: {workers: 150, shards: 3, stuck: 1s}\n"
			  "strategy: %s\ncheckpoint: {every: 500ms}\n"
			  "sim:\n  compute: {law: exponential, mean: 100ms}\n"
			  "  latency: 2ms\n  silent_limit: 1s\n  closed_limit: 100ms\n" FAULTS,
		    s % 2 ? "global_batch: 400" : "batch: 2", strategies[s], 40, (unsigned)s);
	for (size_t s = 0; s < sizeof strategies / sizeof strategies[0]; s++)
		run(MODEL "data: {source: none, samples: 1500, batch: 2, deal: partition}\n"
			  "train: {epochs: 2, seed: 3}\n"
			  "cluster: {workers: 150, shards: 3}\n"
			  "strategy: %s\ncheckpoint: {every: 500ms}\n"
			  "sim:\n  compute: {law: exponential, mean: 100ms}\n"
			  "  latency: 2ms\n  silent_limit: 1s\n  closed_limit: 100ms\n" FAULTS,
		    strategies[s], 40, (unsigned)s);
}

/* A worker is alone at first; then everybody's turn comes in one event. */
static void a_warm_start(void **state)
{
	static const char *const strategies[] = { "asgd", "downpour", "{name: ssp, lead: 2}" };

	for (size_t s = 0; s < sizeof strategies / sizeof strategies[0]; s++)
		run(MODEL "data: {source: none, samples: 300, batch: 2}\n"
			  "train: {epochs: 2, evaluate: 0, warm: {workers: 2, for: 0.3 epochs}}\n"
			  "cluster: {workers: 12, shards: 2}\nstrategy: %s\n"
			  "sim:\n  compute: {law: exponential, mean: 100ms}\n  latency: 2ms\n"
			  "  faults: [{crash: worker 0, at: 0.3s}, {crash: worker 5, at: 0.4s}]\n",
		    strategies[s]);
	for (size_t s = 0; s < sizeof strategies / sizeof strategies[0]; s++)
		run(MODEL "data: {source: none, samples: 300, batch: 2, deal: %s}\n"
			  "train: {epochs: 2, evaluate: 0, warm: {workers: 2, for: 0.3 epochs, "
			  "release: gradual}}\n"
			  "cluster: {workers: 12, shards: 2}\nstrategy: %s\n"
			  "sim:\n  compute: {law: exponential, mean: 100ms}\n  latency: 2ms\n"
			  "  faults: [{crash: worker 0, at: 0.3s}, {crash: worker 5, at: 0.4s}]\n",
		    s % 2 ? "partition" : "shuffled", strategies[s]);
}

/* Momentum is kept by workers: their parts are in cuts. */
static void workers_that_keep_state(void **state)
{
	for (uint32_t seed = 0; seed < 4; seed++)
		run(MODEL
		    "data: {source: none, samples: 200, batch: 2}\n"
		    "train: {epochs: 2, evaluate: 0.5}\n"
		    "cluster: {workers: 8, shards: 2, stuck: 1s}\nstrategy: dana-slim\n"
		    "checkpoint: {every: 300ms, cut: %s}\n"
		    "sim:\n  compute: {law: exponential, mean: 100ms}\n  latency: 9ms\n" FAULTS,
		    seed % 2 ? "drain" : "running", 4, seed);
}

/* The master looks for stuck ones many times a step, in every phase. */
static void a_short_patience(void **state)
{
	static const char *const strategies[] = { "ssgd", "asgd", "dana-slim",
						  "{name: backup, extra: 3}" };

	for (size_t s = 0; s < 4; s++)
		for (uint32_t seed = 0; seed < 5; seed++)
			run(MODEL "data: {source: none, samples: 300, batch: 2}\n"
				  "train: {epochs: 3, evaluate: 0.5}\n"
				  "cluster: {workers: 20, shards: 2, stuck: 20ms}\n"
				  "strategy: %s\ncheckpoint: {every: 300ms}\n"
				  "sim:\n  compute: {law: exponential, mean: 10ms}\n"
				  "  latency: 9ms\n  closed_limit: 50ms\n  silent_limit: 200ms\n"
				  "  faults: [{slow: worker 3, factor: 300, at: %ums, lasts: "
				  "2s}]\n" FAULTS,
			    strategies[s], 300 + 100 * seed, 8, seed);
}

/* What the runs above must have met. */
static void everything_was_met(void **state)
{
	printf("%llu events; members seen: dry %llu, early %llu, staging %llu, complete %llu, "
	       "behind %llu, back %llu, with a part %llu, with a chunk %llu, barred %llu; "
	       "deadlines "
	       "%llu; several served at once %llu; removed %llu; warm starts ended %llu\n",
	       (unsigned long long)seen.events, (unsigned long long)seen.dry,
	       (unsigned long long)seen.early, (unsigned long long)seen.staging,
	       (unsigned long long)seen.complete, (unsigned long long)seen.behind,
	       (unsigned long long)seen.back, (unsigned long long)seen.parts,
	       (unsigned long long)seen.chunks, (unsigned long long)seen.barred,
	       (unsigned long long)seen.bounds, (unsigned long long)seen.served,
	       (unsigned long long)seen.removed, (unsigned long long)seen.warm);
	assert_true(seen.events > 10000 && seen.dry && seen.early && seen.staging &&
		    seen.complete && seen.behind && seen.back && seen.parts && seen.chunks &&
		    seen.bounds && seen.served && seen.removed && seen.warm);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_preset_with_faults),
		cmocka_unit_test(many_workers),
		cmocka_unit_test(a_warm_start),
		cmocka_unit_test(workers_that_keep_state),
		cmocka_unit_test(a_short_patience),
		cmocka_unit_test(everything_was_met),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
