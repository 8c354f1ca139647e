/* SPDX-License-Identifier: Apache-2.0 */
/* oracle_tools.c - what the tests against closed forms share. */
#include "job/oracle_tools.h"

#include "run/placement.h"
#include "spec/job.h"
#include "world/memory_store.h"

#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "kit/near.h"
#include "run/open_engine.h"

const char *const oracle_laws[] = {
	"constant",    "uniform, spread: 0.9", "log-normal, median: 100ms, sigma: 0.7",
	"exponential", "gamma, shape: 100",    "pareto, shape: 3",
	NULL,
};

/* Nothing but the computations takes time. */
#define FREE_LINKS "latency: 0s, bandwidth: 0bit/s, threads: 1"
#define NO_CUTS    "checkpoint: {every: 0s}\n"

/* --- running ----------------------------------------------------------------------------- */

static bool keep(void *arg, const struct tw_note *note)
{
	struct oracle_run *r = arg;
	const bool steps = note->kind == TW_NOTE_STEP, applies = note->kind == TW_NOTE_APPLY;
	struct oracle_event *e;

	if (r->silent ||
	    (!steps && !applies && note->kind != TW_NOTE_UPDATE && note->kind != TW_NOTE_DROP))
		return true;
	if (r->events == r->room) {
		r->room = r->room ? 2 * r->room : 4096;
		r->event = realloc(r->event, r->room * sizeof *r->event);
		assert_non_null(r->event);
	}
	e = &r->event[r->events++];
	*e = (struct oracle_event){ .kind = note->kind,
				    .shard = note->shard,
				    .slot = note->slot,
				    .seq = steps ? note->step.clock : note->seq,
				    .tau = applies ? note->apply.tau : 0,
				    .version = note->version,
				    .round = note->round,
				    .from = note->from,
				    .count = note->count,
				    .at = note->at };
	if (!applies || !note->apply.before)
		return true;
	e->first = note->apply.before[0];
	for (size_t i = 0; i < note->apply.n; i++) {
		const double d = (double)note->apply.before[i] - (double)note->apply.sent[i];

		e->gap += d * d;
	}
	if (r->see)
		r->see(r->arg, note);
	return true;
}

static void run_plan(struct oracle_run *r, struct tw_job *job, const struct tw_engine *engine,
		     const char *text)
{
	const struct tw_log quiet = { .sink = NULL };
	struct tw_placement cast;
	struct tw_ran ran = { 0 };
	struct tw_store *store = tw_memory_store_new(&tw_heap_system);

	assert_non_null(store);
	assert_int_equal(tw_placement_init(&cast, &job->plan, false), TW_OK);
	const struct tw_cluster cluster = {
		.seat = cast.seat,
		.seats = cast.seats,
		.nodes = tw_placement_nodes(&job->plan),
		.seed = job->plan.seed,
		.engine = engine,
		.store = store,
		.heap = &tw_heap_system,
		.log = &quiet,
		.observer = r->silent ? NULL : keep,
		.observer_arg = r,
	};

	if (tw_sim_run(&cluster, &job->sim, job->fault, job->faults, NULL, 0, &ran) != TW_OK)
		fail_msg("%s\n%s", ran.error.text, text);
	assert_int_equal(ran.totals.status, TW_OK);
	r->ns = ran.virtual_ns;
	r->bytes = ran.bytes_sent;
	r->final = (double)tw_block_floats(ran.totals.vector[0])[0];
	r->n = ran.totals.vector[0]->bytes / sizeof(float);
	r->vector = realloc(r->vector, r->n * sizeof *r->vector);
	assert_non_null(r->vector);
	memcpy(r->vector, tw_block_floats(ran.totals.vector[0]), r->n * sizeof *r->vector);
	r->totals = ran.totals;
	tw_totals_release(&ran.totals);
	tw_memory_store_free(store);
	tw_placement_release(&cast);
}

void oracle_run(struct oracle_run *r, const char *format, ...)
{
	struct tw_error why = { 0 };
	struct tw_engine *engine = NULL;
	struct tw_job *job = NULL;
	char text[2000];
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(text, sizeof text, format, args);
	va_end(args);
	assert_in_range(n, 1, sizeof text - 1);
	r->events = 0;
	if (tw_job_read_text("oracle", text, (size_t)n, NULL, 0, NULL, TW_WORLD_SIM, &job, &why) !=
		    TW_OK ||
	    tw_job_open_engine(job, &tw_heap_system, &engine, &why) != TW_OK ||
	    tw_job_finish_plan(job, engine, &why) != TW_OK)
		fail_msg("%s\n%s", why.text, text);
	job->plan.gaps = r->gaps;
	run_plan(r, job, engine, text);
	engine->class->close(engine);
	tw_job_free(job);
}

void oracle_free(struct oracle_run *r)
{
	free(r->event);
	free(r->vector);
	r->event = NULL;
	r->vector = NULL;
	r->events = r->room = 0;
}

double oracle_staleness(const struct oracle_run *r)
{
	const struct tw_tally *t = &r->totals.tally;

	assert_true(t->staleness_count > 0);
	return (double)t->staleness_sum / (double)t->staleness_count;
}

double oracle_harmonic(uint32_t n)
{
	double sum = 0;

	for (uint32_t k = n; k >= 1; k--)
		sum += 1.0 / k;
	return sum;
}

/* --- staleness --------------------------------------------------------------------------- */

void oracle_check_identity(uint32_t workers, const char *law, uint64_t seed, uint64_t updates)
{
	struct oracle_run r = { .gaps = false };
	uint64_t *last = calloc(workers, sizeof *last), tau = 0, sum = 0, applies = 0;

	assert_non_null(last);
	oracle_run(&r,
		   "model: {quadratic: {dimension: 4, noise: 1}}\n"
		   "data: {samples: 100000}\n"
		   "train: {updates: %" PRIu64 ", seed: %" PRIu64 "}\n"
		   "update: {rate: 0.0001}\n"
		   "cluster: {workers: %u, shards: 1}\n"
		   "strategy: asgd\n" NO_CUTS "sim: {compute: {law: %s}, " FREE_LINKS "}\n",
		   updates, seed, workers, law);
	for (size_t k = 0; k < r.events; k++)
		if (r.event[k].kind == TW_NOTE_APPLY) {
			last[r.event[k].slot] = r.event[k].version + 1;
			tau += r.event[k].tau;
			assert_int_equal(r.event[k].version, applies);
			applies++;
		}
	for (uint32_t i = 0; i < workers; i++)
		sum += last[i];
	assert_int_equal(applies, updates);
	assert_int_equal(r.totals.tally.updates, updates);
	assert_int_equal(tau, r.totals.tally.staleness_sum);
	assert_int_equal(tau, sum - updates);
	free(last);
	oracle_free(&r);
}

void oracle_check_staleness(uint32_t workers, uint32_t collect, const char *law, uint64_t updates)
{
	struct oracle_run r = { .silent = true };
	char strategy[60], what[100];

	snprintf(strategy, sizeof strategy, "{gate: softsync, collect: %u}", collect);
	snprintf(what, sizeof what, "mean staleness of %u workers, collect %u, %s,", workers,
		 collect, law);
	oracle_run(&r,
		   "model: {quadratic: {dimension: 4}}\n"
		   "data: {samples: 100000}\n"
		   "train: {updates: %" PRIu64 "}\n"
		   "update: {rate: 0.0001}\n"
		   "cluster: {workers: %u, shards: 1}\n"
		   "strategy: %s\n" NO_CUTS "sim: {compute: {law: %s}, " FREE_LINKS "}\n",
		   updates, workers, collect ? strategy : "asgd", law);
	assert_int_equal(r.totals.tally.updates, updates);
	NEAR_SHARE(oracle_staleness(&r), (workers - 1.0) / (collect ? collect : 1), 0.005, what);
	oracle_free(&r);
}

/* --- bounded staleness ------------------------------------------------------------------- */

/* What one worker did on one shard: at[k] is the version that its contribution k + 1 made. */
struct history {
	uint64_t *made;
	size_t count, room;
};

static void append(struct history *h, uint64_t version)
{
	if (h->count == h->room) {
		h->room = h->room ? 2 * h->room : 64;
		h->made = realloc(h->made, h->room * sizeof *h->made);
		assert_non_null(h->made);
	}
	h->made[h->count++] = version;
}

/* How many of its contributions are in version `base`. */
static uint64_t within(const struct history *h, uint64_t base)
{
	size_t low = 0, high = h->count;

	while (low < high) {
		const size_t mid = low + (high - low) / 2;

		if (h->made[mid] <= base)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static struct history *histories(const struct oracle_run *r, uint32_t workers, uint32_t shards)
{
	struct history *h = calloc((size_t)workers * shards, sizeof *h);

	assert_non_null(h);
	for (size_t k = 0; k < r->events; k++) {
		const struct oracle_event *e = &r->event[k];

		if (e->kind == TW_NOTE_APPLY)
			append(&h[e->slot * shards + e->shard], e->version + 1);
	}
	return h;
}

/* The clock of each worker is what all shards have closed; a worker counts until its last one. */
static void check_clocks(const struct oracle_run *r, const struct history *h, uint32_t workers,
			 uint32_t lead, uint32_t shards)
{
	uint64_t *closed = calloc((size_t)workers * shards, sizeof *closed);
	bool held = false;

	assert_non_null(closed);
	for (size_t k = 0; k < r->events; k++) {
		const struct oracle_event *e = &r->event[k];

		if (e->kind == TW_NOTE_APPLY)
			closed[e->slot * shards + e->shard]++;
		if (e->kind != TW_NOTE_STEP && e->kind != TW_NOTE_APPLY)
			continue;
		for (uint32_t q = 0; q < workers; q++)
			for (uint32_t s = 0; s < shards; s++) {
				const uint64_t his = closed[q * shards + s];
				const uint64_t mine = e->kind == TW_NOTE_STEP
							      ? e->seq
							      : closed[e->slot * shards + s];

				if (his == h[q * shards + s].count)
					continue; /* he has no more to do */
				/* who starts a step is at most `lead` ahead, who has just ended
				 * one a step more */
				assert_true(mine <= his + lead + (e->kind == TW_NOTE_APPLY));
				held = held || mine == his + lead + 1;
			}
	}
	assert_true(held); /* or the run was no test */
	free(closed);
}

/* Every step at clock c computed on a version with all of its own contributions and the first
 * c - lead of everybody else's. */
static void check_reads(const struct oracle_run *r, const struct history *h, uint32_t workers,
			uint32_t lead, uint32_t shards)
{
	for (size_t k = 0; k < r->events; k++) {
		const struct oracle_event *e = &r->event[k];
		uint64_t base, clock;

		if (e->kind != TW_NOTE_APPLY)
			continue;
		base = e->version - e->tau;
		clock = e->seq - 1;
		assert_int_equal(within(&h[e->slot * shards + e->shard], base), clock);
		for (uint32_t q = 0; q < workers && clock > lead; q++) {
			const struct history *his = &h[q * shards + e->shard];
			const uint64_t due = clock - lead < his->count ? clock - lead : his->count;

			assert_true(within(his, base) >= due);
		}
	}
}

void oracle_check_ssp(uint32_t workers, uint32_t lead, uint32_t shards, const char *law,
		      uint64_t seed, uint64_t steps)
{
	struct oracle_run r = { .gaps = false };
	struct history *h;

	oracle_run(&r,
		   "model: {quadratic: {dimension: 16, noise: 1}}\n"
		   "data: {samples: 100000}\n"
		   "train: {steps: %" PRIu64 ", seed: %" PRIu64 "}\n"
		   "update: {rate: 0.0001}\n"
		   "cluster: {workers: %u, shards: %u}\n"
		   "strategy: {name: ssp, lead: %u}\n" NO_CUTS
		   "sim: {compute: {law: %s}, stragglers: {count: 1, slower: 3}, " FREE_LINKS "}\n",
		   steps, seed, workers, shards, lead, law);
	h = histories(&r, workers, shards);
	check_clocks(&r, h, workers, lead, shards);
	check_reads(&r, h, workers, lead, shards);
	for (uint32_t k = 0; k < workers * shards; k++)
		free(h[k].made);
	free(h);
	oracle_free(&r);
}

/* --- backup workers ---------------------------------------------------------------------- */

static double step_seconds(struct oracle_run *r, uint32_t counted, uint32_t extra, uint64_t steps,
			   bool abandon)
{
	oracle_run(r,
		   "model: {quadratic: {dimension: 4}}\n"
		   "data: {samples: 1000000000}\n"
		   "train: {updates: %" PRIu64 "}\n"
		   "update: {rate: 0.0001}\n"
		   "cluster: {workers: %u, shards: 1}\n"
		   "strategy: {name: backup, extra: %u, abandon: %s}\n" NO_CUTS
		   "sim: {compute: {law: exponential, mean: 1s}, " FREE_LINKS "}\n",
		   steps, counted + extra, extra, abandon ? "true" : "false");
	assert_int_equal(r->totals.tally.updates, steps);
	assert_int_equal(r->totals.tally.contributions, steps * counted);
	assert_int_equal(r->totals.tally.staleness_sum, 0);
	return (double)r->ns / (double)TW_SECOND / (double)steps;
}

/* The same without a cluster: who is late ends its computation, in vain, and then begins one for
 * the round that is open by then. */
static double lonely_step_seconds(uint32_t counted, uint32_t workers, uint64_t steps)
{
	unsigned short chance[3] = { 1, 2, 3 };
	double *end = calloc(workers, sizeof *end), now = 0;
	uint64_t *round = calloc(workers, sizeof *round);

	assert_true(end && round);
	for (uint32_t k = 0; k < workers; k++)
		end[k] = -log(1 - erand48(chance));
	for (uint64_t t = 0; t < steps; t++) {
		for (uint32_t complete = 0; complete < counted;) {
			uint32_t first = 0;

			for (uint32_t k = 1; k < workers; k++)
				if (end[k] < end[first])
					first = k;
			now = end[first];
			if (round[first] == t) {
				end[first] = INFINITY;
				complete++;
				continue;
			}
			round[first] = t;
			end[first] = now - log(1 - erand48(chance));
		}
		for (uint32_t k = 0; k < workers; k++)
			if (isinf(end[k])) {
				round[k] = t + 1;
				end[k] = now - log(1 - erand48(chance));
			}
	}
	free(end);
	free(round);
	return now / (double)steps;
}

void oracle_check_backup(uint32_t counted, uint32_t extra, uint64_t steps, double within_)
{
	struct oracle_run r = { .silent = true };
	const double closed = oracle_harmonic(counted + extra) - oracle_harmonic(extra);
	const double seconds = step_seconds(&r, counted, extra, steps, true);
	double patient;
	char what[80];

	/* all others gave up their computation for nothing, every time */
	assert_int_equal(r.totals.dropped, steps * extra);
	assert_int_equal(r.totals.samples, steps * counted);
	snprintf(what, sizeof what, "step time of %u + %u workers", counted, extra);
	NEAR_SHARE(seconds, closed, within_, what);
	patient = step_seconds(&r, counted, extra, steps, false);
	printf("%s: %.4f s; H(%u) - H(%u) = %.4f; when nobody abandons %.4f s\n", what, seconds,
	       counted + extra, extra, closed, patient);
	NEAR_SHARE(patient, lonely_step_seconds(counted, counted + extra, 5 * steps), within_,
		   what);
	oracle_free(&r);
}

/* --- delayed descent ---------------------------------------------------------------------- */

double oracle_bound(uint32_t tau)
{
	return 2 * sin(acos(-1.0) / (2 * (2.0 * tau + 1)));
}

size_t oracle_delayed(double *w, size_t most, uint32_t tau, double x)
{
	const size_t window = 4 * (2 * (size_t)tau + 1);
	size_t small = 0;

	w[0] = 1;
	for (size_t t = 0; t < most; t++) {
		w[t + 1] = w[t] - x * w[t < tau ? 0 : t - tau];
		small = fabs(w[t + 1]) <= 1e-3 ? small + 1 : 0;
		if (small == window || fabs(w[t + 1]) >= 1e3)
			return t + 1;
	}
	return most + 1;
}

/* The run's parameters at every version against the recursion, relative to the largest value of
 * the last few oscillations. */
static void same_path(const struct oracle_run *r, const double *w, size_t updates, uint32_t tau)
{
	const size_t window = 4 * (2 * (size_t)tau + 1);
	size_t seen = 0;

	for (size_t k = 0; k < r->events; k++) {
		const struct oracle_event *e = &r->event[k];
		double size = 0;

		if (e->kind != TW_NOTE_APPLY || e->version > updates)
			continue;
		assert_int_equal(e->version, seen++);
		if (e->version < updates) /* the last ones come as workers run out of work */
			assert_int_equal(e->tau, e->version < tau ? e->version : tau);
		for (size_t t = e->version > window ? e->version - window : 0; t <= e->version; t++)
			size = fmax(size, fabs(w[t]));
		if (!(fabs(e->first - w[e->version]) <= 1e-3 * size))
			fail_msg("tau %u, version %" PRIu64 ": %.9g, not %.9g", tau, e->version,
				 e->first, w[e->version]);
	}
	assert_int_equal(seen, updates + 1);
}

void oracle_check_delayed(uint32_t tau, double of_bound, bool by_workers)
{
	enum { MOST = 20000 };
	double *w = malloc((MOST + 1) * sizeof *w);
	const float rate = (float)(of_bound * oracle_bound(tau));
	struct oracle_run r = { .gaps = true };
	size_t updates;
	char delay[60];

	assert_non_null(w);
	updates = oracle_delayed(w, MOST, tau, (double)rate);
	assert_in_range(updates, 1, MOST);
	assert_true(of_bound < 1 ? fabs(w[updates]) <= 1e-3 : fabs(w[updates]) >= 1e3);
	snprintf(delay, sizeof delay, "delay: {steps: %u}, ", by_workers ? 0 : tau);
	/* when the work ends not all workers have the same number of steps left: go on for a while
	 * after the version that is looked at */
	oracle_run(&r,
		   "model: {quadratic: {dimension: 1, curvature: [1], noise: 0, start: 1}}\n"
		   "data: {samples: 1000000}\n"
		   "train: {updates: %zu}\n"
		   "update: {rate: %.9g}\n"
		   "cluster: {workers: %u, shards: 1}\n"
		   "strategy: asgd\n" NO_CUTS "sim: {%scompute: {law: constant}, " FREE_LINKS "}\n",
		   updates + 300 * (size_t)(tau + 1), (double)rate, by_workers ? tau + 1 : 1,
		   delay);
	same_path(&r, w, updates, tau);
	free(w);
	oracle_free(&r);
}

/* --- gaps ----------------------------------------------------------------------------------- */

double oracle_gap(const struct oracle_run *r, uint32_t dimension)
{
	uint64_t pushes = 0, seen = 0, counted = 0;
	double sum = 0;

	for (size_t k = 0; k < r->events; k++)
		pushes += r->event[k].kind == TW_NOTE_APPLY;
	for (size_t k = 0; k < r->events; k++)
		if (r->event[k].kind == TW_NOTE_APPLY && seen++ >= pushes / 4) {
			sum += r->event[k].gap;
			counted++;
		}
	assert_true(counted > 0);
	return sqrt(sum / (double)counted / dimension);
}

static double gap_of(const char *how, uint32_t workers, uint64_t seed)
{
	struct oracle_run r = { .gaps = true };
	double gap;

	oracle_run(&r,
		   "model: {quadratic: {dimension: 20, curvature: [0.1, 1], noise: 1, start: 0}}\n"
		   "data: {samples: 20000}\n"
		   "train: {updates: 20000, seed: %" PRIu64 "}\n"
		   "cluster: {workers: %u, shards: 1}\n"
		   "%s\n" NO_CUTS "sim: {compute: {law: constant}, " FREE_LINKS "}\n",
		   seed, workers, how);
	NEAR_SHARE(oracle_staleness(&r), workers - 1.0, 0.01, "round-robin staleness");
	gap = oracle_gap(&r, 20);
	oracle_free(&r);
	return gap;
}

void oracle_check_gaps(uint32_t workers, uint64_t seed, const double ratio[5])
{
	static const char *const how[] = {
		"update: {rule: momentum, momentum: 0.9, rate: 0.002}\nstrategy: {gate: async}",
		"update: {rate: 0.002}\nstrategy: nag-asgd",
		"update: {rate: 0.002, nesterov: false}\nstrategy: multi-asgd",
		"update: {rate: 0.002}\nstrategy: dana",
		"update: {rate: 0.002}\nstrategy: multi-asgd",
	};
	const double plain = gap_of("update: {rate: 0.002}\nstrategy: asgd", workers, seed);
	double is[5];

	for (int k = 0; k < 5; k++) {
		is[k] = gap_of(how[k], workers, seed) / plain;
		NEAR_SHARE(is[k], ratio[k], 0.15, how[k]);
	}
	printf("gap ratios, %u workers: heavy-ball %.2f, nag %.2f, multi %.2f, with nesterov %.2f, "
	       "dana %.2f\n",
	       workers, is[0], is[1], is[2], is[4], is[3]);
	assert_true(is[3] < is[2] && is[2] < is[4] && is[4] < is[1] && is[1] < is[0]);
}
