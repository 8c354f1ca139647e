/* SPDX-License-Identifier: Apache-2.0 */
/* test_leaving.c - servers that leave, workers without a place, and workers that are let go: in the
 * simulator with the real actors, by the watcher of faultrun.h. */
#include "faultrun.h"

#include "job/trial.h"
#include "node/checkpoint_part.h"
#include "world/memory_store.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define MS INT64_C(1000000)

static const char *const gates[] = { "ssgd", "backup", "asgd",      "softsync",
				     "ssp",  "dana",   "dana-slim", NULL };

static void must(const struct faultrun *r, struct faultend *end, enum tw_status want)
{
	const char *wrong = faultrun(r, end);

	if (wrong || end->status != want)
		fail_msg("%s as %s: %s\n  %s", r->preset, tw_status_name(end->status),
			 wrong ? wrong : "another end", faultrun_replay(r));
}

/* --- the log --- */

static unsigned lines_with[3];
static const char *wanted[3];

static void hear(const char *who, const char *line)
{
	(void)who;
	for (int k = 0; k < 3; k++)
		lines_with[k] += wanted[k] && strstr(line, wanted[k]);
}

static void want_lines(const char *a, const char *b, const char *c)
{
	wanted[0] = a;
	wanted[1] = b;
	wanted[2] = c;
	memset(lines_with, 0, sizeof lines_with);
}

/* --- servers --- */

/* Whenever a server leaves, nothing is lost; under full rounds not even a bit of the result. */
static void a_server_leaves(void **state)
{
	(void)state;
	for (size_t k = 0; gates[k]; k++) {
		struct faultrun r = { .preset = gates[k],
				      .workers = 3,
				      .servers = 2,
				      .shards = 3,
				      .seed = 5,
				      .clean = true };
		struct faultend alone, end;
		unsigned left = 0;

		must(&r, &alone, TW_OK);
		r.leavers = 1;
		for (int at = 0; at < 60; at++) {
			r.leaver[0] = (struct leaver){ 1 + at % 2, at * 30 * MS + 1 };
			r.running = at / 2 % 2;
			must(&r, &end, TW_OK);
			left += end.gone >> r.leaver[0].node & 1;
			if (end.gone & ~(1u << r.leaver[0].node))
				fail_msg("%s: somebody else left: %x", gates[k], end.gone);
			if (strcmp(gates[k], "ssgd") == 0)
				assert_true(memcmp(&end.totals.loss, &alone.totals.loss,
						   sizeof end.totals.loss) == 0);
		}
		assert_true(left > 30);
	}
}

/* Two of three: the last one takes everything. */
static void two_servers_leave(void **state)
{
	(void)state;
	for (size_t k = 0; gates[k]; k++)
		for (int at = 0; at < 10; at++) {
			const struct faultrun r = { .preset = gates[k],
						    .workers = 3,
						    .servers = 3,
						    .shards = 4,
						    .seed = 6,
						    .leaver = { { 1, 150 * MS },
								{ 3, at * 60 * MS } },
						    .leavers = 2,
						    .clean = true };
			struct faultend end;

			must(&r, &end, TW_OK);
			assert_int_equal(end.gone, 1u << 1 | 1u << 3);
		}
}

/* The only one takes the run with it, at a checkpoint. */
static void the_only_server_leaves(void **state)
{
	(void)state;
	for (size_t k = 0; gates[k]; k++) {
		const struct faultrun r = { .preset = gates[k],
					    .workers = 3,
					    .servers = 1,
					    .shards = 2,
					    .seed = 7,
					    .leaver = { { 1, 400 * MS } },
					    .leavers = 1,
					    .forever = true,
					    .heard = hear };
		struct faultend end;

		want_lines("no other server can take its shards: stopping at a checkpoint", NULL,
			   NULL);
		must(&r, &end, TW_INTERRUPTED);
		assert_true(end.totals.cut > 0);
		assert_true(end.totals.samples > 0);
		assert_int_equal(end.gone, 0); /* the end of the run ends it */
		assert_int_equal(lines_with[0], 1);
	}
}

/* The goodbye, or the answer to it, is lost with the connection. */
static void a_server_says_again_that_it_leaves(void **state)
{
	unsigned left = 0;

	(void)state;
	for (int at = 0; at < 200; at++) {
		const struct faultrun r = { .preset = gates[at % 6],
					    .workers = 3,
					    .servers = 2,
					    .shards = 3,
					    .seed = 8,
					    .leaver = { { 2, 300 * MS } },
					    .leavers = 1,
					    .fault = { { .kind = TW_FAULT_RESET,
							 .a = 2,
							 .b = 0,
							 .at = 300 * MS + at * 2 * MS } },
					    .faults = 1 };
		struct faultend end;

		must(&r, &end, TW_OK);
		left += end.gone >> 2 & 1;
	}
	assert_int_equal(left, 200);
}

/* --- places --- */

static void who_finds_no_place_gets_one_later(void **state)
{
	(void)state;
	for (size_t k = 0; gates[k]; k++) {
		struct faultrun r = { .preset = gates[k],
				      .workers = 3,
				      .servers = 1,
				      .shards = 2,
				      .spare = 2,
				      .seed = 9,
				      .more = "sim: {compute: {mean: 400ms}}\n",
				      .clean = true,
				      .heard = hear };
		struct faultend end;

		want_lines("the cluster has all its 3 workers: waiting for a place",
			   "waits for the master", "a free place");
		must(&r, &end, TW_OK); /* nobody leaves */
		assert_int_equal(end.stepped, 7u << 2);
		assert_int_equal(lines_with[0], 2);
		assert_true(lines_with[2] >= 2); /* a wait of more than 5 s is named */

		r.leaver[0] = (struct leaver){ 2, 900 * MS };
		r.leavers = 1;
		must(&r, &end, TW_OK);
		assert_int_equal(end.gone, 1u << 2);
		/* one of the two has its place */
		assert_true((end.stepped >> 5 & 3) == 1 || (end.stepped >> 5 & 3) == 2);

		r.leavers = 0; /* dead, for ever */
		r.clean = false;
		r.fault[0] = (struct tw_fault){
			.kind = TW_FAULT_CRASH, .a = 3, .at = 500 * MS, .lasts = -1
		};
		r.faults = 1;
		must(&r, &end, TW_OK);
		assert_true((end.stepped >> 5 & 3) == 1 || (end.stepped >> 5 & 3) == 2);
	}
}

/* One who is not in yet leaves at once, wherever its welcome is. */
static void who_is_not_in_leaves_at_once(void **state)
{
	(void)state;
	for (int at = 0; at < 30; at++) {
		const struct faultrun r = { .preset = "asgd",
					    .workers = 3,
					    .servers = 1,
					    .shards = 2,
					    .spare = 1,
					    .seed = 10,
					    .leaver = { { 5, 700 * MS }, { 4, at * MS } },
					    .leavers = 2,
					    .clean = true };
		struct faultend end;

		must(&r, &end, TW_OK);
		assert_int_equal(end.gone & (1u << 4), 1u << 4);
		assert_int_equal(end.gone & (1u << 5), 1u << 5);
	}
}

/* --- numbers --- */

/* Now and then: refused, counted, told; and nobody goes. */
static void some_bad_numbers(void **state)
{
	(void)state;
	for (size_t k = 0; gates[k]; k++)
		for (uint32_t doses = 1; doses < 8; doses += 3) {
			const struct faultrun r = { .preset = gates[k],
						    .workers = 3,
						    .servers = 2,
						    .shards = 3,
						    .seed = 11,
						    .poisoned = 1u << 4,
						    .doses = doses,
						    .heard = hear };
			struct faultend end;

			want_lines("it is not finite (1 refused so far)", "is removed: ", NULL);
			must(&r, &end, TW_OK);
			if (end.totals.refused > doses ||
			    (strcmp(gates[k], "backup") != 0 && end.totals.refused != doses))
				fail_msg("%s: %llu refused of %u", gates[k],
					 (unsigned long long)end.totals.refused, doses);
			assert_int_equal(lines_with[0], 1);
			assert_int_equal(lines_with[1], 0);
		}
}

/* Who leaves owes what its codec left out.  It says so with its last stripe; if that is refused, it
 * needs another one, which may have come already. */
static void who_leaves_is_refused_what_it_owes(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 40; seed++) {
		const struct faultrun r = {
			.preset = "{gate: bsp, codec: {up: onebit, up_tile: 8}}",
			.workers = 5,
			.servers = 2,
			.shards = 2,
			.seed = seed,
			.leaver = { { 3, 519 * TW_SECOND / 1000 }, { 4, 260 * TW_SECOND / 1000 } },
			.leavers = 2,
			.poisoned = 1u << 3,
			.doses = 6,
			.spot = 2,
			.running = true,
			.forever = true
		};
		struct faultend end;

		must(&r, &end, TW_OK);
		assert_int_equal(end.gone & (3u << 3), 3u << 3);
	}
}

/* A refused slice is a step of its worker's clock like any other, or those who wait for that clock
 * here and those who wait for theirs elsewhere wait for each other. */
static void a_clock_goes_on_over_bad_numbers(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 20; seed++) {
		const struct faultrun r = { .preset = "{name: ssp, lead: 1}",
					    .workers = 3,
					    .servers = 2,
					    .shards = 3,
					    .seed = seed,
					    .running = true, /* no drain sets clocks back */
					    .poisoned = 1u << 4,
					    .doses = 7 };
		struct faultend end;

		must(&r, &end, TW_OK);
		assert_int_equal(end.totals.refused, 7);
	}
}

/* Again and again: it is let go, and the others finish. */
static void one_with_bad_numbers_is_let_go(void **state)
{
	unsigned gone = 0;

	(void)state;
	for (size_t k = 0; gates[k]; k++) {
		const struct faultrun r = { .preset = gates[k],
					    .workers = 3,
					    .servers = 2,
					    .shards = 3,
					    .seed = 12,
					    .poisoned = 1u << 4,
					    .doses = UINT32_MAX,
					    .heard = hear };
		struct faultend end;

		want_lines("is removed: 8 of its contributions in a row were not finite",
			   "check the memory, the processor", NULL);
		must(&r, &end, TW_OK);
		/* under backup most of them come too late to be refused */
		if ((lines_with[0] != 1 || lines_with[1] != 1) && end.totals.refused >= 8)
			fail_msg("%s: let go %u times, said %u times; %llu refused", gates[k],
				 lines_with[0], lines_with[1],
				 (unsigned long long)end.totals.refused);
		assert_true(end.totals.refused <= 8);
		gone += lines_with[0];
	}
	assert_true(gone >= 5);
}

/* Everybody's: that is the training, and nobody goes. */
static void nobody_is_let_go_when_all_diverge(void **state)
{
	(void)state;
	for (size_t k = 0; gates[k]; k++) {
		const struct faultrun r = { .preset = gates[k],
					    .workers = 3,
					    .servers = 1,
					    .shards = 1,
					    .seed = 13,
					    .poisoned = UINT32_MAX,
					    .doses = UINT32_MAX,
					    .heard = hear };
		struct faultend end;

		want_lines("is removed: ", NULL, NULL);
		must(&r, &end, TW_OK);
		assert_int_equal(lines_with[0], 0);
		assert_int_equal(end.totals.tally.contributions, 0);
	}
}

/* That a slice was refused may be lost on its way to the master: a round must not wait for it. */
static void a_refusal_is_said_again(void **state)
{
	(void)state;
	for (int at = 0; at < 400; at++) {
		const struct faultrun r = {
			.preset = at % 2 ? "ssgd" : "backup",
			.workers = 3,
			.servers = 1,
			.shards = 2,
			.seed = 14,
			.poisoned = 1u << 3,
			.doses = 6,
			.fault = { { .kind = TW_FAULT_RESET, .a = 0, .b = 1, .at = at * 2 * MS } },
			.faults = 1
		};
		struct faultend end;

		must(&r, &end, TW_OK);
	}
}

/* --- the same in threads --- */

static _Atomic unsigned poured;

static void pour(struct tw_actor *a, struct tw_context *ctx, struct tw_compute *c)
{
	if (c->pass.kind != TW_PASS_EVALUATE && c->status == TW_OK) {
		atomic_fetch_add(&poured, 1);
		c->gradient[0] = NAN;
	}
	tw_worker_class.computed(a, ctx, c);
}

struct gone_worker {
	unsigned died;
};

static bool see_gone(void *arg, const struct tw_note *n)
{
	struct gone_worker *g = arg;

	if (n->kind == TW_NOTE_VIEW && n->view.state == TW_GONE)
		g->died++;
	return true;
}

static void threads_let_one_go(void **state)
{
	struct tw_actor_class poisoner = tw_worker_class;
	unsigned gone = 0;

	(void)state;
	poisoner.computed = pour;
	for (size_t k = 0; gates[k]; k++) {
		struct gone_worker seen = { 0 };
		struct tw_ran ran;
		struct trial t;

		trial_open(&t, TW_WORLD_THREADS,
			   "data: {source: none, samples: 256, batch: 2}\n"
			   "model: {quadratic: {dimension: 50000, noise: 0.1}}\n"
			   "train: {epochs: 8}\nupdate: {rate: 0.01}\n"
			   "cluster: {workers: 3, shards: 2}\nstrategy: %s\n",
			   gates[k]);
		t.cast.seat[t.cast.seats - 1].class = &poisoner;
		t.observer = see_gone;
		t.observer_arg = &seen;
		atomic_store(&poured, 0);
		if (trial_run(&t, &tw_heap_system, NULL, &ran) != TW_OK)
			fail_msg("%s: %s", gates[k], ran.error.text);
		assert_true(isfinite(ran.totals.loss));
		assert_true(ran.totals.refused > 0);
		assert_true(seen.died <= 1);
		/* it was let go, unless the others were done before */
		if (atomic_load(&poured) > 64 && seen.died != 1)
			fail_msg("%s: %u bad ones, and it is still there", gates[k],
				 atomic_load(&poured));
		gone += seen.died;
		tw_totals_release(&ran.totals);
		trial_close(&t);
	}
	assert_true(gone >= 3);
}

/* --- damage --- */

/* A store whose shards' parts lack what only a shard looks for. */
struct damaged {
	struct tw_store store; /* must stay first */
	struct tw_store *inner;
	unsigned spoiled;
};

static enum tw_status damaged_save(struct tw_store *s, uint64_t cut, const struct tw_part *parts,
				   size_t count)
{
	struct damaged *d = (struct damaged *)s;

	return d->inner->save(d->inner, cut, parts, count);
}

static enum tw_status damaged_put(struct tw_store *s, uint64_t cut, const struct tw_part *part)
{
	struct damaged *d = (struct damaged *)s;

	return d->inner->put(d->inner, cut, part);
}

static enum tw_status damaged_load(struct tw_store *s, uint64_t *cut, struct tw_part **parts,
				   size_t *count)
{
	struct damaged *d = (struct damaged *)s;
	const enum tw_status st = d->inner->load(d->inner, cut, parts, count);

	for (size_t k = 0; st == TW_OK && k < *count; k++) {
		struct tw_array *list;
		size_t arrays, kept = 0;

		if (strncmp((*parts)[k].name, "shard ", 6) != 0)
			continue;
		assert_int_equal(tw_part_unpack((*parts)[k].bytes->data, (*parts)[k].bytes->bytes,
						&tw_heap_system, &list, &arrays),
				 TW_OK);
		for (size_t i = 0; i < arrays; i++)
			if (strcmp(list[i].name, "twice") != 0)
				list[kept++] = list[i];
		assert_int_equal(kept + 1, arrays);
		struct tw_block *b = tw_part_pack(&tw_heap_system, list, kept);

		assert_non_null(b);
		tw_block_drop((*parts)[k].bytes);
		(*parts)[k].bytes = b;
		tw_heap_system.put(&tw_heap_system, list);
	}
	return st;
}

static void damaged_free(struct tw_store *s, struct tw_part *parts, size_t count)
{
	struct damaged *d = (struct damaged *)s;

	d->inner->loaded_free(d->inner, parts, count);
}

/* A checkpoint that no shard can be taken from ends the run, and is named. */
static void a_damaged_part_is_named(void **state)
{
	static const char *const presets[] = { "asgd", "ssgd" };

	(void)state;
	for (size_t k = 0; k < 2; k++) {
		struct damaged d = { .store = { damaged_save, damaged_load, damaged_free,
						damaged_put } };
		struct tw_ran ran;
		struct trial t;

		d.inner = tw_memory_store_new(&tw_heap_system);
		trial_open(&t, TW_WORLD_SIM,
			   "data: {source: none, samples: 64, batch: 2}\n"
			   "model: {quadratic: {dimension: 12, noise: 0.1}}\n"
			   "train: {epochs: 4}\nupdate: {rate: 0.01}\n"
			   "cluster: {workers: 3, servers: 2, shards: 2}\nstrategy: %s\n"
			   "checkpoint: {every: 500ms}\n"
			   "sim: {compute: {mean: 100ms}, faults: [{crash: server 1, at: 2s}]}\n",
			   presets[k]);
		assert_int_equal(trial_run(&t, &tw_heap_system, &d.store, &ran), TW_BAD_BYTES);
		if (!strstr(ran.error.text, "from checkpoint ") ||
		    !strstr(ran.error.text, "cannot be restored from"))
			fail_msg("%s", ran.error.text);
		tw_totals_release(&ran.totals);
		trial_close(&t);
		tw_memory_store_free(d.inner);
	}
}

/* A worker whose own part is damaged begins without it: a run is stopped, one worker's part is
 * spoiled, and the run goes on to its end. */
static enum tw_status spoil_load(struct tw_store *s, uint64_t *cut, struct tw_part **parts,
				 size_t *count)
{
	struct damaged *d = (struct damaged *)s;
	const enum tw_status st = d->inner->load(d->inner, cut, parts, count);

	for (size_t k = 0; st == TW_OK && k < *count; k++)
		if (strcmp((*parts)[k].name, "worker 1") == 0) {
			struct tw_block *b = tw_block_new(&tw_heap_system, 100);

			d->spoiled++;
			memset(b->data, 0x5a, b->bytes);
			tw_block_drop((*parts)[k].bytes);
			(*parts)[k].bytes = b;
		}
	return st;
}

static bool stop_at_cut(void *arg, const struct tw_note *n)
{
	(void)arg;
	return n->kind != TW_NOTE_CUT;
}

static void a_workers_damaged_part_is_done_without(void **state)
{
	struct damaged d = { .store = { damaged_save, spoil_load, damaged_free, damaged_put } };
	struct tw_ran ran;
	struct trial t;

	(void)state;
	d.inner = tw_memory_store_new(&tw_heap_system);
	trial_open(&t, TW_WORLD_SIM,
		   "data: {source: none, samples: 64, batch: 2}\n"
		   "model: {quadratic: {dimension: 12, noise: 0.1}}\n"
		   "train: {epochs: 4}\nupdate: {rate: 0.01}\n"
		   "cluster: {workers: 3, servers: 1, shards: 2}\nstrategy: dana-slim\n"
		   "checkpoint: {every: 500ms}\nsim: {compute: {mean: 100ms}}\n");
	t.observer = stop_at_cut;
	assert_int_equal(trial_run(&t, &tw_heap_system, &d.store, &ran), TW_INTERRUPTED);
	tw_totals_release(&ran.totals);
	t.observer = NULL;
	t.resume = true;
	if (trial_run(&t, &tw_heap_system, &d.store, &ran) != TW_OK)
		fail_msg("%s", ran.error.text);
	assert_true(isfinite(ran.totals.loss));
	assert_int_equal(ran.totals.dealt, 4 * 64);
	assert_true(d.spoiled > 0);
	tw_totals_release(&ran.totals);
	trial_close(&t);
	tw_memory_store_free(d.inner);
}

/* --- the start --- */

static bool see_first_step(void *arg, const struct tw_note *n)
{
	int64_t *first = arg;

	if (n->kind == TW_NOTE_STEP && *first < 0)
		*first = n->at;
	return true;
}

static int64_t first_step(const char *cluster, const char *faults, struct tw_store *store,
			  bool stop)
{
	int64_t first = -1;
	struct tw_ran ran;
	struct trial t;

	trial_open(&t, TW_WORLD_SIM,
		   "data: {source: none, samples: 64, batch: 2}\n"
		   "model: {quadratic: {dimension: 12, noise: 0.1}}\n"
		   "train: {epochs: 4}\nupdate: {rate: 0.01}\n"
		   "cluster: {workers: 2, servers: 2, shards: 2%s}\nstrategy: asgd\n"
		   "checkpoint: {every: 500ms}\nsim: {compute: {mean: 100ms}%s}\n",
		   cluster, faults);
	t.observer = stop ? stop_at_cut : see_first_step;
	t.observer_arg = &first;
	assert_int_equal(trial_run(&t, &tw_heap_system, store, &ran),
			 stop ? TW_INTERRUPTED : TW_OK);
	tw_totals_release(&ran.totals);
	trial_close(&t);
	return first;
}

/* A server that is started by hand has cluster.wait to come; where there is a checkpoint to go on
 * from, nobody waits longer than for somebody silent. */
static void servers_have_time_to_come(void **state)
{
	static const char late[] = ", faults: [{crash: server 1, at: 0s, restart: 25s}]";
	struct tw_store *store = tw_memory_store_new(&tw_heap_system);
	int64_t at;

	(void)state;
	at = first_step(", wait: 60s", late, NULL, false);
	assert_true(at >= 25 * TW_SECOND && at < 26 * TW_SECOND);
	at = first_step(", wait: 20s", late, NULL, false);
	assert_true(at >= 20 * TW_SECOND && at < 21 * TW_SECOND);
	first_step(", wait: 60s", "", store, true);
	at = first_step(", wait: 60s", late, store, false);
	assert_true(at >= 15 * TW_SECOND && at < 16 * TW_SECOND);
	tw_memory_store_free(store);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_server_leaves),
		cmocka_unit_test(two_servers_leave),
		cmocka_unit_test(the_only_server_leaves),
		cmocka_unit_test(a_server_says_again_that_it_leaves),
		cmocka_unit_test(who_finds_no_place_gets_one_later),
		cmocka_unit_test(who_is_not_in_leaves_at_once),
		cmocka_unit_test(some_bad_numbers),
		cmocka_unit_test(who_leaves_is_refused_what_it_owes),
		cmocka_unit_test(a_clock_goes_on_over_bad_numbers),
		cmocka_unit_test(one_with_bad_numbers_is_let_go),
		cmocka_unit_test(nobody_is_let_go_when_all_diverge),
		cmocka_unit_test(a_refusal_is_said_again),
		cmocka_unit_test(threads_let_one_go),
		cmocka_unit_test(a_damaged_part_is_named),
		cmocka_unit_test(a_workers_damaged_part_is_done_without),
		cmocka_unit_test(servers_have_time_to_come),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
