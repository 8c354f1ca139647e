/* SPDX-License-Identifier: Apache-2.0 */
/* test_elastic.c - workers and servers that come, leave and die, in the simulator with the real
 * actors; and checkpoints that another cluster goes on from. */
#include "job/trial.h"
#include "job/reading.h"
#include "node/checkpoint_part.h"
#include "world/memory_store.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define SLOTS     8
#define SHARDS    8
#define SAMPLES   64
#define EPOCHS    2
#define POSITIONS (SAMPLES * EPOCHS)
#define MS        INT64_C(1000000)

/* What a run was seen to do. */
struct watch {
	struct {
		uint32_t incarnation[8], joins; /* in the order of joining */
		unsigned left, died;
		unsigned steps, last_steps; /* all, and by the newest incarnation */
		int64_t first_step, last_step, gone;
	} slot[SLOTS];
	unsigned applied[SHARDS][POSITIONS], dropped[POSITIONS];
	unsigned cuts, rollbacks;
	int64_t first_step, last_step;
	/* of the warm start */
	uint64_t warm_until;
	uint32_t warm_slots;   /* a bit for each slot that was applied below it */
	uint64_t cold_version; /* the least version that another slot's update made */
	uint32_t cold_slots;
};

static void saw_view(struct watch *w, const struct tw_note *n)
{
	if (n->view.state == TW_LIVE) {
		w->slot[n->slot].incarnation[w->slot[n->slot].joins++ % 8] = n->incarnation;
		w->slot[n->slot].last_steps = 0;
		return;
	}
	w->slot[n->slot].left += n->view.state == TW_LEFT;
	w->slot[n->slot].died += n->view.state == TW_GONE;
	w->slot[n->slot].gone = n->at;
}

static void saw_step(struct watch *w, const struct tw_note *n)
{
	if (w->first_step < 0)
		w->first_step = n->at;
	w->last_step = n->at;
	if (!w->slot[n->slot].steps++)
		w->slot[n->slot].first_step = n->at;
	w->slot[n->slot].last_step = n->at;
	if (w->slot[n->slot].joins &&
	    n->incarnation == w->slot[n->slot].incarnation[(w->slot[n->slot].joins - 1) % 8])
		w->slot[n->slot].last_steps++;
}

static void saw_apply(struct watch *w, const struct tw_note *n)
{
	for (uint64_t i = n->from; i < n->from + n->count; i++) {
		assert_true(i < POSITIONS && n->shard < SHARDS);
		w->applied[n->shard][i]++;
	}
	if (!n->count)
		return;
	if (n->from < w->warm_until) {
		w->warm_slots |= 1u << n->slot;
		return;
	}
	if (w->warm_slots & 1u << n->slot)
		return;
	w->cold_slots |= 1u << n->slot;
	if (n->version < w->cold_version)
		w->cold_version = n->version;
}

static bool see(void *arg, const struct tw_note *n)
{
	struct watch *w = arg;

	switch (n->kind) {
	case TW_NOTE_VIEW:
		saw_view(w, n);
		break;
	case TW_NOTE_STEP:
		saw_step(w, n);
		break;
	case TW_NOTE_APPLY:
		saw_apply(w, n);
		break;
	case TW_NOTE_DROP:
		for (uint64_t i = n->from; i < n->from + n->count && i < POSITIONS; i++)
			w->dropped[i]++;
		break;
	case TW_NOTE_CUT:
		w->cuts++;
		break;
	case TW_NOTE_ROLLBACK:
		w->rollbacks++;
		break;
	default:
		break;
	}
	return true;
}

struct shape {
	const char *preset;
	const char *strategy, *train, *cluster, *checkpoint, *sim; /* further fields */
	uint32_t workers, servers, shards;
};

static const char *text(const char *may)
{
	return may ? may : "";
}

static void open_shape(struct trial *t, const struct shape *s, struct watch *w)
{
	trial_open(t, TW_WORLD_SIM,
		   "data: {source: none, samples: %d, batch: 2}\n"
		   "model: {quadratic: {dimension: 12, noise: 0.1}}\n"
		   "train: {epochs: %d%s}\n"
		   "update: {rate: 0.01}\n"
		   "cluster: {workers: %u, servers: %u, shards: %u%s}\n"
		   "checkpoint: {keep: 2%s}\n"
		   "strategy: %s\n"
		   "sim: {compute: {mean: 100ms}%s}\n",
		   SAMPLES, EPOCHS, text(s->train), s->workers, s->servers, s->shards,
		   text(s->cluster), text(s->checkpoint), with_fields(s->preset, s->strategy),
		   text(s->sim));
	*w = (struct watch){ .first_step = -1, .cold_version = UINT64_MAX };
	w->warm_until = t->job->plan.dealing.warm_until;
	t->observer = see;
	t->observer_arg = w;
}

/* Run it to the status it must have; its vectors are let go unless `ran` is asked for. */
static void run_shape(const struct shape *s, struct tw_store *store, bool resume, struct watch *w,
		      enum tw_status want, struct tw_ran *ran)
{
	struct tw_ran own;
	struct trial t;

	open_shape(&t, s, w);
	t.resume = resume;
	t.loud = getenv("TW_TEST_LOUD") != NULL;
	t.job->plan.checkpoint.final = ran != NULL && store;
	if (trial_run(&t, &tw_heap_system, store, &own) != want)
		fail_msg("%s: %s, not %s: %s", s->preset, tw_status_name(own.error.status),
			 tw_status_name(want), own.error.text);
	if (ran)
		*ran = own;
	else
		tw_totals_release(&own.totals);
	trial_close(&t);
}

/* --- joining --- */

static void one_who_comes_back_is_somebody_new(void **state)
{
	const char *preset;

	for (size_t k = 0; (preset = trial_preset(TW_WORLD_SIM, k)); k++) {
		const struct shape s = { .preset = preset,
					 .workers = 3,
					 .servers = 1,
					 .shards = 2,
					 .sim = ", closed_limit: 200ms, faults: [{crash: worker 1, "
						"at: 250ms, restart: 500ms}]" };
		struct watch w;

		run_shape(&s, NULL, false, &w, TW_OK, NULL);
		if (w.slot[1].joins != 2 || w.slot[1].died != 1 || w.slot[1].left)
			fail_msg("%s: joined %u times", preset, w.slot[1].joins);
		assert_true(w.slot[1].incarnation[1] > w.slot[1].incarnation[0]);
		assert_true(w.slot[1].last_steps > 3);
		assert_true(w.slot[1].last_step > 750 * MS);
		for (uint32_t other = 0; other < 3; other += 2)
			assert_int_equal(w.slot[other].joins, 1);
	}
}

/* Back before anybody has noticed: still somebody new. */
static void a_quick_restart_is_noticed(void **state)
{
	const char *preset;

	for (size_t k = 0; (preset = trial_preset(TW_WORLD_SIM, k)); k++) {
		const struct shape s = { .preset = preset,
					 .workers = 2,
					 .servers = 1,
					 .shards = 1,
					 .sim = ", faults: [{crash: worker 0, at: 250ms, restart: "
						"1ms}]" };
		struct watch w;

		run_shape(&s, NULL, false, &w, TW_OK, NULL);
		assert_int_equal(w.slot[0].joins, 2);
		assert_true(w.slot[0].incarnation[1] > w.slot[0].incarnation[0]);
		assert_true(w.slot[0].last_steps > 3);
	}
}

static void training_starts_with_those_who_came_in_time(void **state)
{
	struct shape s = { .preset = "asgd",
			   .workers = 3,
			   .servers = 1,
			   .shards = 1,
			   .cluster = ", min: 2, wait: 700ms",
			   .sim = ", faults: [{crash: worker 2, at: 0s, restart: 1500ms}]" };
	struct watch w;

	run_shape(&s, NULL, false, &w, TW_OK, NULL); /* two after `wait`, the third later */
	assert_true(w.first_step >= 700 * MS && w.first_step < 720 * MS);
	assert_true(w.slot[2].first_step >= 1500 * MS && w.slot[2].first_step < 1800 * MS);
	assert_true(w.slot[2].steps > 3);

	s.cluster = ", min: 3, wait: 1s"; /* too few until the third comes */
	run_shape(&s, NULL, false, &w, TW_OK, NULL);
	assert_true(w.first_step >= 1500 * MS && w.first_step < 1600 * MS);

	s.sim = NULL; /* all are there: nobody waits */
	run_shape(&s, NULL, false, &w, TW_OK, NULL);
	assert_true(w.first_step < 20 * MS);

	s.preset = "ssgd";
	s.cluster = ", min: 2, wait: 700ms";
	s.sim = ", faults: [{crash: worker 2, at: 0s, restart: 1500ms}]";
	run_shape(&s, NULL, false, &w, TW_OK, NULL);
	assert_true(w.first_step >= 700 * MS && w.first_step < 720 * MS);
	assert_true(w.slot[2].first_step >= 1500 * MS && w.slot[2].steps > 3);
	for (int i = 0; i < POSITIONS; i++)
		assert_int_equal(w.applied[0][i], 1);
}

/* All workers are cut off, a server dies, and they are back long before its shards are: by the end
 * of cluster.wait nobody trains, but not for want of workers. */
static void who_came_while_shards_were_read_is_not_missing(void **state)
{
	const char *preset;

	for (size_t k = 0; (preset = trial_preset(TW_WORLD_SIM, k)); k++) {
		const struct shape s = {
			.preset = preset,
			.workers = 2,
			.servers = 2,
			.shards = 2,
			.cluster = ", wait: 1s",
			.sim = ", silent_limit: 300ms, closed_limit: 10ms, load_time: 1500ms, "
			       "faults: [{partition: worker 0, from: everybody, at: 4s, lasts: "
			       "400ms}, {partition: worker 1, from: everybody, at: 4s, lasts: "
			       "400ms}, {crash: server 1, at: 4310ms, restart: 50ms}]",
		};
		struct watch w;

		run_shape(&s, NULL, false, &w, TW_OK, NULL);
		for (uint32_t slot = 0; slot < 2; slot++) {
			assert_int_equal(w.slot[slot].died, 1);
			assert_true(w.slot[slot].last_step > 5800 * MS);
		}
	}
}

/* --- leaving --- */

/* Every position is in every shard once, or was dropped; what backup drops is not dealt again. */
static void all_once(const struct shape *s, const struct watch *w)
{
	for (uint32_t k = 0; k < s->shards; k++)
		for (int i = 0; i < POSITIONS; i++)
			if (w->applied[k][i] > 1 || (!w->applied[k][i] && !w->dropped[i]) ||
			    (w->applied[k][i] && w->dropped[i] && strcmp(s->preset, "backup") == 0))
				fail_msg("%s: shard %u has position %d %u times, dropped %u times",
					 s->preset, k, i, w->applied[k][i], w->dropped[i]);
}

static void who_leaves_leaves_nothing_behind(void **state)
{
	const char *preset;

	for (size_t k = 0; (preset = trial_preset(TW_WORLD_SIM, k)); k++)
		for (int at = 0; at < 1000; at += 130) {
			char sim[100];
			const struct shape s = { .preset = preset,
						 .workers = 3,
						 .servers = 1,
						 .shards = 2,
						 .sim = sim };
			struct tw_ran ran;
			struct watch w;

			snprintf(sim, sizeof sim, ", faults: [{leave: worker 1, at: %dms}]", at);
			run_shape(&s, NULL, false, &w, TW_OK, &ran);
			if (w.slot[1].left != 1 || w.slot[1].died)
				fail_msg("%s: a worker left %u times", preset, w.slot[1].left);
			assert_true(w.slot[1].last_step <= w.slot[1].gone);
			assert_true(w.slot[1].gone < (at + 400) * MS);
			assert_int_equal(ran.totals.lost_updates, 0);
			assert_int_equal(ran.totals.repeated, 0);
			all_once(&s, &w);
			tw_totals_release(&ran.totals);
		}
}

/* The goodbye is lost with its connection: it is said again. */
static void a_lost_goodbye_is_said_again(void **state)
{
	static const char *const presets[] = { "asgd", "ssgd", "dana-slim", "ssp" };

	for (size_t k = 0; k < sizeof presets / sizeof presets[0]; k++)
		for (int at = 0; at < 120; at++) {
			char sim[200];
			const struct shape s = { .preset = presets[k],
						 .workers = 2,
						 .servers = 1,
						 .shards = 1,
						 .sim = sim };
			struct tw_ran ran;
			struct watch w;

			snprintf(sim, sizeof sim,
				 ", latency: 500us, faults: [{leave: worker 1, at: 450ms}, "
				 "{reset: worker 1, to: master, at: %dus}]",
				 500000 + at * 100);
			run_shape(&s, NULL, false, &w, TW_OK, &ran);
			assert_int_equal(w.slot[1].left, 1);
			for (int i = 0; i < POSITIONS; i++)
				assert_true(w.applied[0][i] > 0);
			assert_int_equal(ran.totals.lost_updates, 0);
			assert_true(ran.totals.repeated <= ran.totals.redealt);
			tw_totals_release(&ran.totals);
		}
}

/* Somebody leaves while the master, a server or another worker is away. */
static void one_may_leave_whatever_else_happens(void **state)
{
	static const char *const others[] = { "crash: master", "crash: server 0", "crash: worker 0",
					      "crash: worker 1" };
	const char *preset;

	for (size_t k = 0; (preset = trial_preset(TW_WORLD_SIM, k)); k++)
		for (int run = 0; run < 4 * 12; run++) {
			char sim[300];
			const struct shape s = { .preset = preset,
						 .workers = 3,
						 .servers = 2,
						 .shards = 2,
						 .cluster = ", wait: 20s, limit: 2s",
						 .checkpoint = ", every: 300ms",
						 .sim = sim };
			const bool rounds =
				strcmp(preset, "ssgd") == 0 || strcmp(preset, "dc-ssgd") == 0;
			struct tw_ran ran;
			struct watch w;

			snprintf(sim, sizeof sim,
				 ", closed_limit: 300ms, faults: [{leave: worker 1, at: 640ms}, "
				 "{%s, at: %dms, restart: %dms}]",
				 others[run % 4], 450 + run / 4 * 25, run % 3 ? 500 : 10);
			run_shape(&s, NULL, false, &w, TW_OK, &ran);
			assert_true(ran.totals.repeated <= ran.totals.redealt);
			if (rounds)
				assert_int_equal(ran.totals.repeated, 0);
			assert_true(ran.totals.epochs == EPOCHS);
			tw_totals_release(&ran.totals);
		}
}

static void the_last_one_may_leave(void **state)
{
	static const char *const every[] = { NULL, ", every: 170ms",
					     ", every: 170ms, cut: running" };
	const char *preset;

	for (size_t k = 0; (preset = trial_preset(TW_WORLD_SIM, k / 12)); k++) {
		char sim[200];
		struct shape s = { .preset = preset,
				   .workers = 2,
				   .servers = 1,
				   .shards = 2,
				   .cluster = ", wait: 3s",
				   .checkpoint = every[k % 3],
				   .sim = sim };
		struct tw_store *store = tw_memory_store_new(&tw_heap_system);
		struct watch w, rest;

		snprintf(sim, sizeof sim,
			 ", faults: [{leave: worker 0, at: 300ms}, {leave: worker 1, at: %dms}]",
			 600 + (int)(k / 3 % 4) * 31);
		run_shape(&s, store, false, &w, TW_INTERRUPTED, NULL);
		assert_int_equal(w.slot[0].left + w.slot[1].left, 2);
		assert_true(w.cuts > 0);
		s.sim = NULL;
		run_shape(&s, store, true, &rest, TW_OK,
			  NULL); /* and somebody goes on from there */
		for (uint32_t i = 0; i < POSITIONS; i++) {
			w.applied[0][i] += rest.applied[0][i];
			w.applied[1][i] += rest.applied[1][i];
			w.dropped[i] += rest.dropped[i];
		}
		all_once(&s, &w);
		tw_memory_store_free(store);
	}
}

/* --- what a worker had --- */

struct cut {
	struct tw_part *parts;
	size_t count;
	uint64_t number;
};

static struct cut newest(struct tw_store *store)
{
	struct cut c;

	assert_int_equal(store->load(store, &c.number, &c.parts, &c.count), TW_OK);
	assert_true(c.number > 0);
	return c;
}

/* Put the array of the cut's parts into out, by parameter; false if no part has it. */
static bool array_of(const struct cut *c, const char *prefix, const char *name, float *out)
{
	bool found = false;

	for (size_t k = 0; k < c->count; k++) {
		const struct tw_array *a;
		struct tw_array *list;
		size_t count;

		if (strncmp(c->parts[k].name, prefix, strlen(prefix)) != 0)
			continue;
		assert_int_equal(tw_part_unpack(c->parts[k].bytes->data, c->parts[k].bytes->bytes,
						&tw_heap_system, &list, &count),
				 TW_OK);
		a = tw_part_find(list, count, name);
		if (a) {
			assert_int_equal(a->kind, TW_FLOATS);
			assert_true(a->from + a->n <= 12);
			memcpy(out + a->from, a->at, a->n * sizeof *out);
			found = true;
		}
		tw_heap_system.put(&tw_heap_system, list);
	}
	return found;
}

static void sum_is_of_those_who_remain(const struct cut *c, uint32_t workers, uint32_t gone)
{
	float sum[12], mine[12];
	double want[12] = { 0 }, largest = 0;

	assert_true(array_of(c, "shard ", "rule.sum", sum));
	for (uint32_t k = 0; k < workers; k++) {
		char name[40];
		bool there;

		snprintf(name, sizeof name, "worker.%u", k);
		there = array_of(c, "shard ", name, mine);
		assert_int_equal(there, k != gone);
		for (int i = 0; there && i < 12; i++) {
			want[i] += mine[i];
			largest = fmax(largest, fabs((double)mine[i]));
		}
	}
	assert_true(largest > 0);
	for (int i = 0; i < 12; i++)
		if (fabs(sum[i] - want[i]) > 1e-6 * largest)
			fail_msg("S[%d] is %g, the velocities add up to %g", i, (double)sum[i],
				 want[i]);
}

static void danas_sum_forgets_who_goes(void **state)
{
	static const char *const how[] = { "{leave: worker 1, at: 500ms}",
					   "{crash: worker 1, at: 500ms}",
					   "{partition: worker 1, from: everybody, at: 500ms, "
					   "lasts: 1h}" };
	static const char *const presets[] = { "dana", "dana-dc" };
	static const char *const cuts[] = { ", every: 1500ms, cut: drain",
					    ", every: 1500ms, cut: running" };

	for (size_t k = 0; k < 12; k++) {
		char sim[200];
		const struct shape s = { .preset = presets[k % 2],
					 .workers = 4,
					 .servers = 1,
					 .shards = 2,
					 .checkpoint = cuts[k / 2 % 2],
					 .sim = sim };
		struct tw_store *store = tw_memory_store_new(&tw_heap_system);
		struct watch w;
		struct cut c;

		snprintf(sim, sizeof sim,
			 ", closed_limit: 200ms, silent_limit: 300ms, faults: [%s]", how[k / 4]);
		run_shape(&s, store, false, &w, TW_OK, NULL);
		assert_true(w.cuts > 0);
		assert_int_equal(w.slot[1].left + w.slot[1].died, 1);
		c = newest(store);
		sum_is_of_those_who_remain(&c, 4, 1);
		store->loaded_free(store, c.parts, c.count);
		tw_memory_store_free(store);
	}
}

/* One who dies and comes back starts with a velocity of its own, from zero. */
static void danas_sum_knows_who_comes_back(void **state)
{
	const struct shape s = { .preset = "dana",
				 .workers = 3,
				 .servers = 1,
				 .shards = 2,
				 .checkpoint = ", every: 1500ms",
				 .sim = ", closed_limit: 200ms, faults: [{crash: worker 1, at: "
					"500ms, restart: 400ms}]" };
	struct tw_store *store = tw_memory_store_new(&tw_heap_system);
	struct watch w;
	struct cut c;

	run_shape(&s, store, false, &w, TW_OK, NULL);
	assert_int_equal(w.slot[1].joins, 2);
	c = newest(store);
	sum_is_of_those_who_remain(&c, 3, UINT32_MAX);
	store->loaded_free(store, c.parts, c.count);
	tw_memory_store_free(store);
}

/* What workers see under dana is what dana-slim's shards keep: also after somebody has left, which
 * it is only if the last push took back what was his. */
static void danas_slims_last_push(void **state)
{
	float theta[12], sum[12], slim[12], mine[12], all[12] = { 0 };
	struct shape s = { .preset = "dana",
			   .workers = 3,
			   .servers = 1,
			   .shards = 2,
			   .checkpoint = ", every: 2s, cut: drain",
			   .sim = ", speeds: [1, 0.9, 0.83], faults: [{leave: worker 1, at: "
				  "650ms}]" };
	struct tw_store *store[2];
	struct watch w;
	struct cut c[2];
	double largest = 0, velocity = 0;

	for (int k = 0; k < 2; k++) {
		s.preset = k ? "dana-slim" : "dana";
		store[k] = tw_memory_store_new(&tw_heap_system);
		run_shape(&s, store[k], false, &w, TW_OK, NULL);
		assert_int_equal(w.slot[1].left, 1);
		assert_int_equal(w.cuts, 1);
		c[k] = newest(store[k]);
	}
	assert_true(array_of(&c[0], "shard ", "parameters", theta));
	assert_true(array_of(&c[0], "shard ", "rule.sum", sum));
	assert_true(array_of(&c[1], "shard ", "parameters", slim));
	assert_false(array_of(&c[1], "worker 1", "momentum", mine));
	for (uint32_t k = 0; k < 3; k += 2) {
		char name[40];

		snprintf(name, sizeof name, "worker %u", k);
		assert_true(array_of(&c[1], name, "momentum", mine));
		for (int i = 0; i < 12; i++)
			all[i] += mine[i];
	}
	for (int i = 0; i < 12; i++) {
		largest = fmax(largest, fabs((double)theta[i]));
		velocity = fmax(velocity, fabs((double)sum[i]));
	}
	assert_true(velocity > 1e-3 * largest);
	for (int i = 0; i < 12; i++) {
		assert_true(fabs((double)all[i] - sum[i]) < 1e-5 * largest);
		if (fabs(theta[i] - 0.9 * sum[i] - slim[i]) > 1e-5 * largest)
			fail_msg("parameter %d: dana shows %.9g, dana-slim %.9g", i,
				 theta[i] - 0.9 * sum[i], (double)slim[i]);
	}
	for (int k = 0; k < 2; k++) {
		store[k]->loaded_free(store[k], c[k].parts, c[k].count);
		tw_memory_store_free(store[k]);
	}
}

/* --- too few --- */

static void too_few_workers_pause(void **state)
{
	const char *preset;

	for (size_t k = 0; (preset = trial_preset(TW_WORLD_SIM, k)); k++) {
		struct shape s = { .preset = preset,
				   .workers = 3,
				   .servers = 1,
				   .shards = 2,
				   .cluster = ", min: 2, wait: 3s",
				   .sim = ", closed_limit: 500ms, faults: [{crash: worker 1, at: "
					  "500ms}, {crash: worker 2, at: 500ms}]" };
		struct tw_store *store = tw_memory_store_new(&tw_heap_system);
		struct tw_ran ran;
		struct watch w;

		run_shape(&s, store, false, &w, TW_INTERRUPTED, &ran);
		assert_int_equal(w.cuts, 1);
		assert_int_equal(ran.totals.cut, 1);
		assert_true(ran.virtual_ns >= 4000 * MS && ran.virtual_ns < 4500 * MS);
		if (w.last_step >= 2000 * MS)
			fail_msg("%s: a step at %g s although there are too few", preset,
				 (double)w.last_step / 1e9);
		tw_totals_release(&ran.totals);
		s.sim = NULL; /* enough of them: it goes on and ends */
		run_shape(&s, store, true, &w, TW_OK, NULL);
		tw_memory_store_free(store);

		s.sim = ", closed_limit: 500ms, faults: [{crash: worker 1, at: 500ms, restart: "
			"2500ms}, {crash: worker 2, at: 500ms}]";
		run_shape(&s, NULL, false, &w, TW_OK, &ran); /* one comes back in time */
		assert_true(w.slot[1].last_steps > 3);
		assert_int_equal(w.cuts, 0);
		tw_totals_release(&ran.totals);
	}
}

static void all_servers_lost_for_ever(void **state)
{
	const char *preset;

	for (size_t k = 0; (preset = trial_preset(TW_WORLD_SIM, k)); k++)
		for (uint32_t servers = 1; servers <= 2; servers++) {
			struct shape s = { .preset = preset,
					   .workers = 2,
					   .servers = servers,
					   .shards = 2,
					   .cluster = ", wait: 3s, limit: 1s",
					   .checkpoint = ", every: 400ms",
					   .sim = servers == 1
							  ? ", faults: [{crash: server 0, at: 1s}]"
							  : ", faults: [{crash: server 0, at: 1s}, "
							    "{crash: server 1, at: 1200ms}]" };
			struct tw_store *store = tw_memory_store_new(&tw_heap_system);
			struct tw_ran ran;
			struct watch w;

			run_shape(&s, store, false, &w, TW_INTERRUPTED, &ran);
			assert_true(w.cuts > 0);
			assert_int_equal(ran.totals.cut, w.cuts);
			assert_true(ran.virtual_ns < 10 * TW_SECOND);
			tw_totals_release(&ran.totals);
			s.sim = NULL;
			run_shape(&s, store, true, &w, TW_OK, NULL);
			tw_memory_store_free(store);
		}
}

/* --- cuts that cannot be kept --- */

static enum tw_status never_saves(struct tw_store *s, uint64_t cut, const struct tw_part *parts,
				  size_t count)
{
	return TW_IO;
}

static enum tw_status never_puts(struct tw_store *s, uint64_t cut, const struct tw_part *part)
{
	return TW_IO;
}

static enum tw_status has_nothing(struct tw_store *s, uint64_t *cut, struct tw_part **parts,
				  size_t *count)
{
	*cut = 0;
	*parts = NULL;
	*count = 0;
	return TW_OK;
}

static void frees_nothing(struct tw_store *s, struct tw_part *parts, size_t count) {}

/* Training goes on without them; but who stops for a cut says that there is none. */
static void a_full_disk(void **state)
{
	struct tw_store full = { never_saves, has_nothing, frees_nothing, never_puts };
	const char *preset;

	for (size_t k = 0; (preset = trial_preset(TW_WORLD_SIM, k)); k++) {
		struct shape s = { .preset = preset,
				   .workers = 2,
				   .servers = 1,
				   .shards = 2,
				   .cluster = ", wait: 1s",
				   .checkpoint = ", every: 400ms" };
		struct watch w;

		run_shape(&s, &full, false, &w, TW_OK, NULL);
		assert_int_equal(w.cuts, 0);
		all_once(&s, &w);
		s.sim = ", faults: [{leave: worker 0, at: 300ms}, {leave: worker 1, at: 500ms}]";
		run_shape(&s, &full, false, &w, TW_IO, NULL);
	}
}

/* --- the warm start --- */

static void a_warm_start_is_one_workers_alone(void **state)
{
	static const char *const presets[] = { "asgd", "downpour", "ssp",
					       "dana", "fasgd",    "softsync" };

	for (size_t k = 0; k < sizeof presets / sizeof presets[0]; k++)
		for (uint32_t shards = 1; shards <= 3; shards += 2) {
			const struct shape s = { .preset = presets[k],
						 .train = ", warm: {workers: 1, for: 0.25 epochs}",
						 .workers = 4,
						 .servers = 1,
						 .shards = shards };
			struct watch w;

			run_shape(&s, NULL, false, &w, TW_OK, NULL);
			assert_int_equal(w.warm_until, SAMPLES / 4);
			if (__builtin_popcount(w.warm_slots) != 1)
				fail_msg("%s: slots %x pushed in the warm start", presets[k],
					 w.warm_slots);
			assert_int_equal(__builtin_popcount(w.cold_slots), 3);
			if (w.cold_version == 0)
				fail_msg("%s: another worker's update is the first", presets[k]);
			all_once(&s, &w);
		}
}

/* --- other clusters --- */

static void floats_of(const struct tw_ran *ran, float *out)
{
	size_t at = 0;

	assert_non_null(ran->totals.vector);
	for (uint32_t k = 0; k < ran->totals.shards; k++) {
		const struct tw_block *b = ran->totals.vector[k];

		memcpy(out + at, b->data, b->bytes);
		at += b->bytes / sizeof *out;
	}
	assert_int_equal(at, 12);
}

static const struct {
	uint32_t workers, servers, shards;
} others[] = { { 3, 1, 2 }, { 3, 2, 2 }, { 3, 1, 5 }, { 3, 3, 4 },
	       { 2, 1, 2 }, { 5, 2, 3 }, { 1, 1, 1 } };
#define OTHERS (sizeof others / sizeof others[0])

/* A run that is finished, opened by another cluster: the same parameters, bit for bit. */
static void any_cluster_loads_the_parameters(void **state)
{
	const char *preset;

	for (size_t k = 0; (preset = trial_preset(TW_WORLD_SIM, k)); k++) {
		struct shape s = { .preset = preset, .workers = 3, .servers = 1, .shards = 2 };
		struct tw_store *store = tw_memory_store_new(&tw_heap_system);
		float want[12], got[12];
		struct tw_ran ran;
		struct watch w;

		run_shape(&s, store, false, &w, TW_OK, &ran);
		floats_of(&ran, want);
		tw_totals_release(&ran.totals);
		for (size_t i = 0; i < OTHERS; i++) {
			if (strcmp(preset, "backup") == 0 && others[i].workers < 2)
				continue;
			s.workers = others[i].workers;
			s.servers = others[i].servers;
			s.shards = others[i].shards;
			run_shape(&s, store, true, &w, TW_OK, &ran);
			floats_of(&ran, got);
			tw_totals_release(&ran.totals);
			assert_memory_equal(got, want, sizeof want);
			assert_int_equal(w.slot[0].steps, 0);
		}
		tw_memory_store_free(store);
	}
}

/* One cluster begins, another goes on: every sample once. */
static void any_cluster_goes_on(void **state)
{
	const char *preset;

	for (size_t k = 0; (preset = trial_preset(TW_WORLD_SIM, k)); k++)
		for (size_t i = 0; i < OTHERS; i++) {
			struct shape s = { .preset = preset,
					   .workers = 3,
					   .servers = 1,
					   .shards = 1,
					   .checkpoint = ", every: 700ms, cut: drain" };
			struct tw_store *store = tw_memory_store_new(&tw_heap_system);
			struct watch first, rest;
			struct tw_ran ran;
			struct trial t;

			open_shape(&t, &s, &first);
			t.job->plan.checkpoint.stop_after = 1;
			assert_int_equal(trial_run(&t, &tw_heap_system, store, &ran),
					 TW_INTERRUPTED);
			trial_close(&t);
			tw_totals_release(&ran.totals);
			s.workers = others[i].workers;
			s.servers = others[i].servers;
			s.shards = others[i].shards;
			if (strcmp(preset, "backup") != 0 || s.workers > 1) {
				run_shape(&s, store, true, &rest, TW_OK, NULL);
				for (int p = 0; p < POSITIONS; p++) {
					for (uint32_t h = 0; h < s.shards; h++)
						rest.applied[h][p] += first.applied[0][p];
					rest.dropped[p] += first.dropped[p];
				}
				all_once(&s, &rest);
			}
			tw_memory_store_free(store);
		}
}

/* Velocities of workers that are not the same any more start at 0, and so does their sum. */
static void other_workers_start_without_velocities(void **state)
{
	struct shape s = { .preset = "dana",
			   .workers = 3,
			   .servers = 1,
			   .shards = 2,
			   .checkpoint = ", every: 700ms, cut: drain" };

	for (uint32_t workers = 2; workers <= 4; workers++) {
		struct tw_store *store = tw_memory_store_new(&tw_heap_system);
		struct tw_ran ran;
		struct watch w;
		struct trial t;
		struct cut c;

		s.workers = 3;
		open_shape(&t, &s, &w);
		t.job->plan.checkpoint.stop_after = 1;
		assert_int_equal(trial_run(&t, &tw_heap_system, store, &ran), TW_INTERRUPTED);
		tw_totals_release(&ran.totals);
		trial_close(&t);
		s.workers = workers;
		run_shape(&s, store, true, &w, TW_OK, NULL);
		c = newest(store);
		assert_true(c.number > 1);
		sum_is_of_those_who_remain(&c, workers, UINT32_MAX);
		store->loaded_free(store, c.parts, c.count);
		tw_memory_store_free(store);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_who_comes_back_is_somebody_new),
		cmocka_unit_test(a_quick_restart_is_noticed),
		cmocka_unit_test(training_starts_with_those_who_came_in_time),
		cmocka_unit_test(who_came_while_shards_were_read_is_not_missing),
		cmocka_unit_test(who_leaves_leaves_nothing_behind),
		cmocka_unit_test(a_lost_goodbye_is_said_again),
		cmocka_unit_test(one_may_leave_whatever_else_happens),
		cmocka_unit_test(the_last_one_may_leave),
		cmocka_unit_test(danas_sum_forgets_who_goes),
		cmocka_unit_test(danas_sum_knows_who_comes_back),
		cmocka_unit_test(danas_slims_last_push),
		cmocka_unit_test(too_few_workers_pause),
		cmocka_unit_test(all_servers_lost_for_ever),
		cmocka_unit_test(a_full_disk),
		cmocka_unit_test(a_warm_start_is_one_workers_alone),
		cmocka_unit_test(any_cluster_loads_the_parameters),
		cmocka_unit_test(any_cluster_goes_on),
		cmocka_unit_test(other_workers_start_without_velocities),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
