/* SPDX-License-Identifier: Apache-2.0 */
/* test_streaming.c - parts of the parameters that are exchanged in turn, while workers step on
 * (strategy.fragments, strategy.delay). */
#include "job/deltas.h"
#include "world/memory_store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

static const struct near_row {
	const char *update;
	struct delta_formula f;
} rules[] = {
	{ "rule: sgd, rate: 0.1", { .near = NEAR_SGD, .rate = 0.1 } },
	{ "rule: adamw, rate: 0.03, decay: 0.1, schedule: {kind: cosine}",
	  { .near = NEAR_ADAMW, .rate = 0.03, .decay = 0.1f, .cosine = true } },
	{ "rule: nag, momentum: 0.8, rate: 0.05",
	  { .near = NEAR_NAG, .momentum = 0.8f, .rate = 0.05 } },
};

static const struct outer_row {
	const char *outer;
	struct delta_formula f;
} outers[] = {
	{ "{rule: nesterov, rate: 0.7, momentum: 0.9}",
	  { .outer = OUTER_NESTEROV, .outer_rate = 0.7f, .outer_momentum = 0.9f } },
	{ "{rule: average}", { .outer = OUTER_AVERAGE, .outer_rate = 1 } },
	{ "{rule: add, scale: 0.3}", { .outer = OUTER_ADD, .outer_rate = 0.3f } },
	{ "{rule: bmuf, momentum: 0.6, rate: 0.9}",
	  { .outer = OUTER_BMUF, .outer_rate = 0.9f, .outer_momentum = 0.6f, .nesterov = true } },
};

static const char *const laws[] = {
	"{law: constant, mean: 100ms}",
	"{law: uniform, mean: 100ms, spread: 0.5}",
	"{law: exponential, mean: 100ms}",
};
static const char *const links[] = {
	"latency: 0s",
	"latency: 70ms, jitter: 50ms",
	"latency: 1ms, bandwidth: 100kbit/s, apply_rate: 2000",
	"latency: 600ms",
};
static const char *const models[] = {
	"quadratic: {dimension: 37, curvature: [0.1, 1], noise: 0.3, spread: 0.5, target: 0.5}",
	"quadratic: {dimension: 37, curvature: [0.1, 1], noise: 0.3, spread: 0.5, buffers: 5, "
	"tensors: 3}",
	"least-squares: {dimension: 23, noise: 0.1}",
};
static const char *const batches[] = { "batch: 3", "batch: 2, accumulate: 2", "global_batch: 17" };

struct shape {
	uint32_t workers, shards, push, fragments, delay;
	const char *merge; /* "", or of the mix */
	float alpha;
	uint64_t turn;
};

static struct delta_formula text_of(const struct shape *s, char *text, size_t room)
{
	const struct near_row *near = &rules[s->turn % COUNT(rules)];
	const struct outer_row *outer = &outers[s->turn / 2 % COUNT(outers)];
	struct delta_formula f = near->f;
	int len;

	f.outer = outer->f.outer;
	f.outer_rate = outer->f.outer_rate;
	f.outer_momentum = outer->f.outer_momentum;
	f.nesterov = outer->f.nesterov;
	f.push = s->push;
	f.fragments = s->fragments;
	f.delay = s->delay;
	f.merge = *s->merge ? MERGE_MIX : MERGE_REPLACE;
	f.alpha = s->alpha;
	len = snprintf(text, room,
		       "model: {%s}\ndata: {source: none, samples: 100, %s}\n"
		       "train: {epochs: 4.17, seed: %llu}\nupdate: {%s}\n"
		       "cluster: {workers: %u, shards: %u, servers: %u}\n"
		       "strategy: {gate: bsp, send: delta, push: %u, fragments: %u, delay: %u, "
		       "outer: %s%s}\ncheckpoint: {every: 0s}\n"
		       "sim: {compute: %s, %s, stragglers: {count: 1, slower: 3}, threads: 1}\n",
		       models[s->turn % COUNT(models)], batches[s->turn / 3 % COUNT(batches)],
		       (unsigned long long)s->turn + 1, near->update, s->workers, s->shards,
		       s->shards > 1 ? 2 : 1, s->push, s->fragments, s->delay, outer->outer,
		       s->merge, laws[s->turn / 5 % COUNT(laws)],
		       links[s->turn / 7 % COUNT(links)]);
	assert_true(len > 0 && (size_t)len < room);
	return f;
}

static const struct {
	uint32_t push, fragments, delay;
} periods[] = { { 4, 1, 0 },  { 4, 1, 2 }, { 4, 1, 3 },  { 2, 2, 0 },  { 4, 2, 0 }, { 4, 2, 1 },
		{ 10, 2, 3 }, { 4, 4, 0 }, { 12, 4, 0 }, { 12, 4, 1 }, { 12, 4, 2 } };

/* Every shape, calling `each`. */
static void try_shapes(void (*each)(const struct shape *s))
{
	static const uint32_t workers[] = { 1, 3, 8 }, shards[] = { 4, 7, 16 };
	static const struct {
		const char *merge;
		float alpha;
	} merges[] = { { "", 0 },
		       { ", merge: mix, alpha: 0.5", 0.5f },
		       { ", merge: mix, alpha: 0", 0 } };
	uint64_t turn = 0;

	for (size_t p = 0; p < COUNT(periods); p++)
		for (size_t w = 0; w < COUNT(workers); w++)
			for (size_t s = 0; s < COUNT(shards); s++)
				for (size_t m = 0; m < COUNT(merges); m++, turn++)
					each(&(struct shape){ workers[w], shards[s],
							      periods[p].push, periods[p].fragments,
							      periods[p].delay, merges[m].merge,
							      merges[m].alpha, turn });
}

/* With one fragment at once the mix is the older one, and `base` is another. */
static bool is_plain_mix(const struct shape *s)
{
	return *s->merge && s->alpha != 0 && s->fragments == 1 && s->delay == 0;
}

static void agrees(const struct shape *s)
{
	struct delta_formula f;
	char text[2000], label[160];

	if (is_plain_mix(s))
		return;
	f = text_of(s, text, sizeof text);
	snprintf(label, sizeof label, "%u workers, %u shards, push %u, %u fragments, delay %u%s",
		 s->workers, s->shards, s->push, s->fragments, s->delay, s->merge);
	deltas_agree(label, text, &f);
}

static void streaming_is_its_formula(void **state)
{
	(void)state;
	try_shapes(agrees);
}

/* The comparison can fail. */
static void notices(const struct shape *s)
{
	struct delta_formula right, wrong[4];
	char text[2000];

	if (s->turn % 9 || is_plain_mix(s))
		return;
	right = text_of(s, text, sizeof text);
	for (size_t k = 0; k < COUNT(wrong); k++)
		wrong[k] = right;
	wrong[0].delay = right.delay ? right.delay - 1 : 1;
	wrong[1].fragments = right.fragments == 1 ? 2 : 1;
	wrong[1].push = right.push / right.fragments * wrong[1].fragments;
	wrong[2].merge = MERGE_MIX;
	wrong[2].alpha = right.alpha + 0.01f;
	wrong[3].outer_rate *= 1.00001f;
	for (size_t k = 0; k < COUNT(wrong); k++) {
		/* a step of delay is one only where a stripe has two */
		if (k == 0 && right.push / right.fragments < 2)
			continue;
		if (!deltas_differ(text, &wrong[k], NULL))
			fail_msg("wrong formula %zu is not noticed\n%s", k, text);
	}
}

static void a_wrong_formula_is_noticed(void **state)
{
	(void)state;
	try_shapes(notices);
}

/* --- what is equal ------------------------------------------------------------------------ */

static void one_fragment_at_once_is_diloco(void **state)
{
	static const char *const text =
		"model: {quadratic: {dimension: 37, curvature: [0.1, 1], noise: 0.3}}\n"
		"data: {source: none, samples: 200, batch: 3}\ntrain: {epochs: 5, seed: 3}\n"
		"update: {rate: 0.03}\ncluster: {workers: %u, shards: %u}\n"
		"checkpoint: {every: 0s}\nsim: {compute: {law: exponential, mean: 100ms}, "
		"latency: 5ms, threads: 1}\nstrategy: {name: %s, push: 6%s}\n";

	(void)state;
	for (uint32_t workers = 1; workers <= 8; workers += 3) {
		struct outcome a, b;

		outcome_of(&a, TW_WORLD_SIM, text, workers, 3u, "diloco", "");
		outcome_of(&b, TW_WORLD_SIM, text, workers, 2u, "streaming-diloco",
			   ", fragments: 1, delay: 0, merge: replace");
		assert_memory_equal(a.vector, b.vector, a.n * sizeof(float));
		outcome_close(&a);
		outcome_close(&b);
	}
}

/* --- what happens when -------------------------------------------------------------------- */

#define SHARDS 8

struct syncs {
	uint32_t parts;
	uint64_t updates[SHARDS], last[SHARDS]; /* last: round of a shard's last update */
	uint64_t rounds[SHARDS];
	uint64_t in_flight; /* rounds with a commit on some shards only; one at most */
	bool wrong;
};

static bool watch_syncs(void *arg, const struct tw_note *n)
{
	struct syncs *s = arg;

	if (n->kind == TW_NOTE_UPDATE) {
		s->updates[n->shard]++;
		s->last[n->shard] = s->rounds[n->shard];
		if (s->rounds[n->shard] % s->parts != n->shard % s->parts)
			s->wrong = true;
	}
	if (n->kind == TW_NOTE_COMMIT)
		s->rounds[n->shard] = n->round + 1;
	if (n->kind == TW_NOTE_COMMIT)
		for (uint32_t k = 0; k < SHARDS; k++)
			if (s->rounds[k] + 1 < n->round + 1)
				s->wrong = true; /* two rounds at a time */
	return true;
}

static void each_fragment_is_synchronised_once_per_period(void **state)
{
	(void)state;
	for (uint32_t parts = 1; parts <= 8; parts *= 2)
		for (uint32_t delay = 0; delay < 2; delay++) {
			struct syncs s = { .parts = parts };
			struct outcome o;
			char text[1000];

			snprintf(
				text, sizeof text,
				"model: {quadratic: {dimension: 40}}\n"
				"data: {source: none, samples: 320, batch: 2}\ntrain: {epochs: 4}\n"
				"update: {rule: sgd, rate: 0.1}\ncluster: {workers: 4, shards: 8}\n"
				"strategy: {gate: bsp, send: delta, push: 16, fragments: %u, "
				"delay: "
				"%u, outer: {rule: average}}\ncheckpoint: {every: 0s}\n"
				"sim: {compute: {law: exponential, mean: 10ms}, latency: 4ms}\n",
				parts, delay);
			outcome_open(&o, text, NULL, TW_WORLD_SIM);
			outcome_run(&o,
				    &(const struct watch){ .observer = watch_syncs, .arg = &s });
			/* 1280 samples are 160 steps of 4 workers: 10 periods of 16 */
			for (uint32_t k = 0; k < SHARDS; k++) {
				assert_int_equal(s.updates[k], 10);
				assert_int_equal(s.rounds[k], 10 * parts);
			}
			assert_false(s.wrong);
			assert_int_equal(o.ran.totals.samples, 1280);
			assert_int_equal(o.ran.totals.repeated, 0);
			assert_int_equal(o.ran.totals.tally.staleness_max, 0);
			outcome_close(&o);
		}
}

/* Bytes of each round, as the master sees them pass. */
struct bytes {
	uint64_t round, before, most;
};

static bool watch_bytes(void *arg, const struct tw_note *n)
{
	struct bytes *b = arg;

	if (n->kind != TW_NOTE_PROGRESS || n->round == b->round)
		return true;
	if (n->bytes - b->before > b->most && b->round) /* not the first, which also begins */
		b->most = n->bytes - b->before;
	b->round = n->round;
	b->before = n->bytes;
	return true;
}

#define LINKS                                                                                      \
	"model: {quadratic: {dimension: %u}}\n"                                                    \
	"data: {source: none, samples: 1280, batch: 2}\ntrain: {epochs: 4, evaluate: 0}\n"         \
	"update: {rule: sgd, rate: 0.1}\ncluster: {workers: 4, shards: 8}\n"                       \
	"strategy: {gate: bsp, send: delta, push: 16, fragments: %u, delay: %u, outer: {rule: "    \
	"average}}\ncheckpoint: {every: 0s}\n"                                                     \
	"sim: {compute: {law: constant, mean: 100ms}, latency: %s, bandwidth: %s}\n"

static void a_round_sends_its_share(void **state)
{
	uint64_t most[2], all[2];

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct bytes b = { .round = 0 };
		struct outcome o;
		char text[1000];

		snprintf(text, sizeof text, LINKS, 100000u, i ? 4u : 1u, 0u, "1ms", "0bit/s");
		outcome_open(&o, text, NULL, TW_WORLD_SIM);
		outcome_run(&o, &(const struct watch){ .observer = watch_bytes, .arg = &b });
		most[i] = b.most;
		all[i] = o.ran.bytes_sent;
		outcome_close(&o);
	}
	/* 4 workers send and get 400 kB a period */
	assert_true(most[0] > 3200000 && most[0] < 3360000);
	assert_true((double)most[1] < (double)most[0] / 4 * 1.05);
	assert_true((double)all[1] < (double)all[0] * 1.05);
}

/* 640 steps of 4 workers at 0.1 s each take 64 s, if nobody waits for the links. */
static void delay_hides_the_links(void **state)
{
	static const struct {
		uint32_t fragments, delay;
		double least, most; /* seconds */
	} want[] = {
		{ 1, 0, 80, 1000 }, /* each round waits for two slow transfers */
		{ 4, 0, 80, 1000 }, /* so do four of a quarter */
		{ 4, 3, 64, 66.5 },
	};

	(void)state;
	for (size_t k = 0; k < COUNT(want); k++) {
		struct outcome o;
		double seconds;

		outcome_of(&o, TW_WORLD_SIM, LINKS, 20000u, want[k].fragments, want[k].delay,
			   "20ms", "10Mbit/s");
		seconds = (double)o.ran.virtual_ns / 1e9;
		if (!(seconds > want[k].least && seconds < want[k].most))
			fail_msg("%u fragments, delay %u: %g s", want[k].fragments, want[k].delay,
				 seconds);
		outcome_close(&o);
	}
}

/* --- stopping and dying ------------------------------------------------------------------- */

static void stopping_does_not_matter(void **state)
{
	const char *const set[] = { "train.epochs=12", "checkpoint.every=500ms", NULL };
	const char *const none[] = { "train.epochs=12", NULL };

	(void)state;
	for (size_t p = 0; p < COUNT(periods); p++)
		for (uint64_t stop = 1; stop <= 3; stop++) {
			const struct shape s = { 3,
						 4,
						 periods[p].push,
						 periods[p].fragments,
						 periods[p].delay,
						 p % 2 ? ", merge: mix, alpha: 0.4" : "",
						 p % 2 ? 0.4f : 0,
						 p + stop };
			struct tw_store *store = tw_memory_store_new(&tw_heap_system);
			struct outcome plain, whole, part, again;
			char text[2000];

			assert_non_null(store);
			text_of(&s, text, sizeof text);
			outcome_open(&plain, text, none, TW_WORLD_SIM);
			outcome_run(&plain, NULL);
			outcome_open(&whole, text, set, TW_WORLD_SIM);
			outcome_run(&whole, NULL);
			assert_true(whole.ran.totals.cut >= 4);
			outcome_open(&part, text, set, TW_WORLD_SIM);
			outcome_run(&part,
				    &(const struct watch){ .store = store, .stop_after = stop });
			outcome_close(&part);
			outcome_open(&again, text, set, TW_WORLD_SIM);
			outcome_run(&again,
				    &(const struct watch){ .store = store, .resume = true });
			if (memcmp(whole.vector, again.vector, whole.n * sizeof(float)) != 0)
				fail_msg("ends elsewhere if stopped after %llu cuts\n%s",
					 (unsigned long long)stop, text);
			/* nor do checkpoints */
			if (!is_plain_mix(&s) &&
			    memcmp(whole.vector, plain.vector, whole.n * sizeof(float)) != 0)
				fail_msg("checkpoints change the result\n%s", text);
			outcome_close(&again);
			outcome_close(&whole);
			outcome_close(&plain);
			tw_memory_store_free(store);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(streaming_is_its_formula),
		cmocka_unit_test(a_wrong_formula_is_noticed),
		cmocka_unit_test(one_fragment_at_once_is_diloco),
		cmocka_unit_test(each_fragment_is_synchronised_once_per_period),
		cmocka_unit_test(a_round_sends_its_share),
		cmocka_unit_test(delay_hides_the_links),
		cmocka_unit_test(stopping_does_not_matter),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
