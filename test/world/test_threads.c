/* SPDX-License-Identifier: Apache-2.0 */
/* test_threads.c - the threads world with small actors: order, exclusion, help. */
#include "base/skipping.h"
#include "world/scene.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>
#include <cmocka.h>

/* One worker and one shard talk to each other: every message arrives, is counted, and costs no
 * wait for another thread. */

static long waits(void)
{
	struct rusage u;

	getrusage(RUSAGE_THREAD, &u);
	return u.ru_nvcsw;
}

static void ping_start(struct tw_actor *a, struct tw_context *ctx)
{
	a->switches = waits();
	scene_say(ctx, scene_shard(0), TW_PUSH, 0, 1);
}

static void ping_message(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	struct scene *s = a->scene;

	if (m->h.seq != a->count + 1 || m->h.type != TW_ACK || m->from.role != TW_SHARD)
		atomic_fetch_add(&s->wrong, 1);
	if (++a->count < s->rounds) {
		scene_say(ctx, scene_shard(0), TW_PUSH, 0, a->count + 1);
		return;
	}
	atomic_store(&s->switches, waits() - a->switches);
	scene_say(ctx, scene_master(), TW_DONE, 0, 0);
}

static void pong_message(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	scene_say(ctx, m->from, TW_ACK, a->number, m->h.seq);
}

static void ping_pong_costs_no_wait(void **state)
{
	struct scene s = {
		.master = { .message = scene_master_counts },
		.shard = { .message = pong_message },
		.worker = { .start = ping_start, .message = ping_message },
		.workers = 1,
		.shards = 1,
		.rounds = 200000,
	};
	const int64_t before = scene_clock();
	uint64_t bytes;

	assert_int_equal(scene_run(&s), TW_OK);
	print_message("%.0f ns per message\n",
		      (double)(scene_clock() - before) / (2.0 * (double)s.rounds));
	assert_int_equal(s.wrong, 0);
	assert_int_equal(s.ran.totals.steps, 77);
	/* the worker's start, a push and an ack per round, one DONE */
	assert_int_equal(s.ran.events, 1 + 2 * s.rounds + 1);
	bytes = s.rounds * (2 * sizeof(struct tw_header) + tw_body_bytes(TW_PUSH) +
			    tw_body_bytes(TW_ACK)) +
		sizeof(struct tw_header) + tw_body_bytes(TW_DONE);
	assert_int_equal(s.ran.bytes_sent, bytes);
	assert_int_equal(s.ran.bytes_received, bytes);
	assert_true(s.switches < 20); /* the housekeeper's rare visits */
}

/* Every worker sends bursts to every shard, which passes them on to the next shard, which answers:
 * whatever threads run them, each pair keeps its order and nothing is lost. */

static void burst(struct tw_actor *a, struct tw_context *ctx)
{
	struct scene *s = a->scene;

	for (int k = 0; k < 5; k++) {
		for (uint32_t j = 0; j < s->shards; j++)
			scene_say(ctx, scene_shard((j + a->number) % s->shards), TW_PUSH, a->number,
				  a->sum);
		a->sum++;
	}
}

static void burst_message(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	struct scene *s = a->scene;

	if (m->h.seq != a->next[m->h.from]++)
		atomic_fetch_add(&s->wrong, 1);
	if (++a->count % (5 * s->shards))
		return;
	if (a->sum < s->rounds)
		burst(a, ctx);
	else
		scene_say(ctx, scene_master(), TW_DONE, a->number, 0);
}

static void relay_message(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	struct scene *s = a->scene;
	const bool relayed = m->h.type == TW_HAVE;
	uint64_t *next = &a->next[relayed ? s->workers + m->h.from : m->h.from];

	if (m->h.seq != *next)
		atomic_fetch_add(&s->wrong, 1);
	++*next;
	if (relayed)
		return;
	/* an answer to the worker, and one more message from shard to shard */
	scene_say(ctx, m->from, TW_ACK, a->number, m->h.seq);
	scene_say(ctx, scene_shard((a->number + 1) % s->shards), TW_HAVE, a->number, a->count++);
	atomic_fetch_add(&s->total, 1);
}

static void pairs_keep_their_order(void **state)
{
	static const uint32_t sizes[][2] = { { 1, 1 }, { 1, 7 }, { 2, 2 },
					     { 4, 1 }, { 8, 3 }, { 3, 16 } };

	for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
		struct scene s = {
			.master = { .message = scene_master_counts },
			.shard = { .message = relay_message },
			.worker = { .start = burst, .message = burst_message },
			.workers = sizes[k][0],
			.shards = sizes[k][1],
			.rounds = 2000,
			.options = { .hash = k % 2 },
		};
		assert_int_equal(scene_run(&s), TW_OK);
		assert_int_equal(s.wrong, 0);
		assert_int_equal(s.total, s.rounds * s.workers * s.shards);
	}
}

/* Plain counters behind the lock: sums are exact. */

static void adder_message(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	a->sum += m->h.seq;
	a->count++;
	if (a->count == a->scene->rounds * a->scene->workers)
		atomic_fetch_add(&a->scene->total, a->sum);
	scene_say(ctx, m->from, TW_ACK, a->number, m->h.seq);
}

static void adding_start(struct tw_actor *a, struct tw_context *ctx)
{
	for (uint32_t j = 0; j < a->scene->shards; j++)
		scene_say(ctx, scene_shard(j), TW_PUSH, a->number, 1);
}

static void adding_message(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	if (m->h.seq < a->scene->rounds)
		scene_say(ctx, m->from, TW_PUSH, a->number, m->h.seq + 1);
	else if (++a->count == a->scene->shards)
		scene_say(ctx, scene_master(), TW_DONE, a->number, 0);
}

static void sums_are_exact(void **state)
{
	struct scene s = {
		.master = { .message = scene_master_counts },
		.shard = { .message = adder_message },
		.worker = { .start = adding_start, .message = adding_message },
		.workers = 6,
		.shards = 5,
		.rounds = 4000,
	};

	assert_int_equal(scene_run(&s), TW_OK);
	assert_int_equal(s.total, s.workers * s.shards * (s.rounds * (s.rounds + 1) / 2));
}

/* A barrier: every message counts, so that one left lying would stop everything. */

static void patience_start(struct tw_actor *a, struct tw_context *ctx)
{
	tw_timer(ctx, 0, 100 * TW_SECOND);
}

static void patience_timer(struct tw_actor *a, struct tw_context *ctx, uint32_t timer)
{
	tw_give_up(ctx, TW_ABSENT, "a message was left lying");
}

static void barrier_start(struct tw_actor *a, struct tw_context *ctx)
{
	scene_say(ctx, scene_shard(0), TW_PUSH, a->number, 0);
}

static void barrier_message(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	if (++a->count < a->scene->rounds)
		scene_say(ctx, scene_shard(0), TW_PUSH, a->number, 0);
	else
		scene_say(ctx, scene_master(), TW_DONE, a->number, 0);
}

static void barrier_shard(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	if (++a->count % a->scene->workers)
		return;
	for (uint32_t k = 0; k < a->scene->workers; k++)
		scene_say(ctx, scene_worker(k), TW_ACK, 0, 0);
}

static void no_message_is_left_lying(void **state)
{
	for (uint32_t workers = 2; workers <= 3; workers++) {
		struct scene s = {
			.master = { .start = patience_start,
				    .timer = patience_timer,
				    .message = scene_master_counts },
			.shard = { .message = barrier_shard },
			.worker = { .start = barrier_start, .message = barrier_message },
			.workers = workers,
			.shards = 1,
			.rounds = 100000,
		};

		assert_int_equal(scene_run(&s), TW_OK);
	}
}

/* Two workers are in two shards at the same time: each shard's handler waits for the other's. */

static bool meet(struct scene *s, uint32_t me, uint32_t other)
{
	const int64_t until = scene_clock() + 10 * TW_SECOND;

	atomic_store(&s->here[me], 1);
	while (scene_clock() < until)
		if (atomic_load(&s->here[other]))
			return true;
	return false;
}

static void meeting_start(struct tw_actor *a, struct tw_context *ctx)
{
	scene_say(ctx, scene_shard(a->scene->shards > 1 ? a->number : 0), TW_PUSH, a->number, 0);
}

static void meeting_message(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	atomic_fetch_add(&a->scene->meetings, meet(a->scene, m->h.from, 1 - m->h.from));
	scene_say(ctx, m->from, TW_ACK, 0, 0);
}

static void done_when_answered(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	scene_say(ctx, scene_master(), TW_DONE, a->number, 0);
}

static void two_shards_at_a_time(void **state)
{
	struct scene s = {
		.master = { .message = scene_master_counts },
		.shard = { .message = meeting_message },
		.worker = { .start = meeting_start, .message = done_when_answered },
		.workers = 2,
		.shards = 2,
	};

	assert_int_equal(scene_run(&s), TW_OK);
	assert_int_equal(s.meetings, 2);
}

/* Lock-free: two workers are inside the same shard; other messages still take the lock. */

static void shared_message(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	struct scene *s = a->scene;

	if (m->h.seq == 0)
		atomic_fetch_add(&s->meetings, meet(s, m->h.from, 1 - m->h.from));
	atomic_fetch_add(&s->total, m->h.seq);
	scene_say(ctx, m->from, TW_ACK, 0, m->h.seq);
}

static void locked_message(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	if (m->h.type != TW_IDLE)
		atomic_fetch_add(&a->scene->wrong, 1);
	a->count++;
	atomic_store(&a->scene->seen, a->count);
}

static void open_worker_message(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	if (m->h.seq != a->count++)
		atomic_fetch_add(&a->scene->wrong, 1);
	if (a->count <= a->scene->rounds) {
		scene_say(ctx, scene_shard(0), TW_IDLE, a->number, 0);
		scene_say(ctx, scene_shard(0), a->count % 2 ? TW_PUSH : TW_PULL, a->number,
			  a->count);
	} else {
		scene_say(ctx, scene_master(), TW_DONE, a->number, 0);
	}
}

static void lockfree_shards_are_shared(void **state)
{
	struct scene s = {
		.master = { .message = scene_master_counts },
		.shard = { .message = locked_message, .shared = shared_message },
		.worker = { .start = meeting_start, .message = open_worker_message },
		.workers = 2,
		.shards = 1,
		.rounds = 5000,
		.options = { .lockfree = true },
	};

	assert_int_equal(scene_run(&s), TW_OK);
	assert_int_equal(s.meetings, 2);
	assert_int_equal(s.wrong, 0);
	assert_int_equal(s.total, 2 * (s.rounds * (s.rounds + 1) / 2));
	assert_int_equal(s.seen, 2 * s.rounds);
	assert_int_equal(s.ran.events, 2 + 2 * (s.rounds + 1) * 2 + 2 * s.rounds + 2);
}

/* Rounds: the master hears from all workers, then has all shards work.  Those who wait help. */

static _Atomic uint32_t thread_numbers;
static _Thread_local uint32_t thread_number;

static void round_start(struct tw_actor *a, struct tw_context *ctx)
{
	scene_say(ctx, scene_master(), TW_HAVE, a->number, 0);
}

static void round_master(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	struct scene *s = a->scene;

	if (++a->count < s->workers)
		return;
	a->count = 0;
	if (a->round == s->rounds) {
		scene_finish(ctx);
		return;
	}
	for (uint32_t j = 0; j < s->shards; j++)
		scene_say(ctx, scene_shard(j), TW_COMMIT, 0, a->round);
	a->round++;
}

static void round_shard(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	struct scene *s = a->scene;

	if (!thread_number)
		thread_number = 1 + atomic_fetch_add(&thread_numbers, 1) % 60;
	atomic_fetch_or(&s->threads_of_round[m->h.seq], UINT64_C(1) << thread_number);
	scene_busy(100000);
	for (uint32_t j = 0; j < s->workers; j++)
		scene_say(ctx, scene_worker(j), TW_PARAMS, a->number, m->h.seq);
}

static void round_worker(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	if (++a->count % a->scene->shards == 0)
		scene_say(ctx, scene_master(), TW_HAVE, a->number, 0);
}

static void who_waits_helps(void **state)
{
	struct scene s = {
		.master = { .message = round_master },
		.shard = { .message = round_shard },
		.worker = { .start = round_start, .message = round_worker },
		.workers = 2,
		.shards = 8,
		.rounds = 300,
	};
	uint32_t helped = 0;
	cpu_set_t cpus;

	sched_getaffinity(0, sizeof cpus, &cpus);
	if (CPU_COUNT(&cpus) < 2)
		SKIP("one core: nobody could help");
	assert_int_equal(scene_run(&s), TW_OK);
	for (uint32_t r = 0; r < s.rounds; r++)
		helped += __builtin_popcountll(s.threads_of_round[r]) > 1;
	print_message("%u of %u rounds by more than one thread\n", helped, (unsigned)s.rounds);
	assert_true(helped >= 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ping_pong_costs_no_wait),
		cmocka_unit_test(pairs_keep_their_order),
		cmocka_unit_test(sums_are_exact),
		cmocka_unit_test(no_message_is_left_lying),
		cmocka_unit_test(two_shards_at_a_time),
		cmocka_unit_test(lockfree_shards_are_shared),
		cmocka_unit_test(who_waits_helps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
