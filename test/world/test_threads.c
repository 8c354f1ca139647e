/* SPDX-License-Identifier: Apache-2.0 */
/* test_threads.c - the threads world with small actors: order, exclusion, help, time, ends. */
#include "base/skipping.h"
#include "world/threads.h"
#include "base/refusing.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <cmocka.h>

#define WORKERS_MAX 8
#define SHARDS_MAX  16
#define MS          (TW_SECOND / 1000)

/* All actors of a test share a scene: what it does is in its tables, what it saw is in it.
 * Nothing is asserted in a handler: other threads cannot leave a test. */
struct scene {
	struct tw_actor_class master, shard, worker;
	uint32_t workers, shards;
	uint64_t rounds;
	struct tw_threads_options options;
	tw_observer observer;
	const struct tw_log *log;
	const _Atomic int *interrupted;
	struct tw_store *store;
	struct tw_engine_class engine;
	size_t scratch;
	struct tw_heap *heap;

	_Atomic uint64_t wrong, seen, total; /* what handlers found */
	_Atomic uint32_t here[SHARDS_MAX];
	_Atomic uint32_t meetings;
	_Atomic bool flag;
	_Atomic uint64_t threads_of_round[1024]; /* a bit per thread */
	uint64_t notes, notes_by[WORKERS_MAX];   /* the observer's; it is called one at a time */
	int64_t last_note;
	_Atomic long switches;
	uint32_t order[64];
	size_t ordered;
	enum tw_status statuses[8];
	uint32_t lines;
	char line[300];
	struct tw_ran ran;
};

struct tw_actor {
	struct tw_heap *heap;
	struct scene *scene;
	uint32_t number;
	uint64_t count, sum, round;
	uint64_t next[SHARDS_MAX + WORKERS_MAX];
	struct tw_compute compute[3];
	struct tw_block *block;
	long switches;
};

struct part {
	struct scene *scene;
	uint32_t number;
};

static struct tw_actor *actor_new(struct tw_heap *heap, const void *arg)
{
	const struct part *p = arg;
	struct tw_actor *a = tw_heap_zeros(heap, sizeof *a);

	if (!a)
		return NULL;
	a->heap = heap;
	a->scene = p->scene;
	a->number = p->number;
	return a;
}

static void actor_free(struct tw_actor *a)
{
	tw_block_drop(a->block);
	a->heap->put(a->heap, a);
}

static struct tw_addr master(void)
{
	return (struct tw_addr){ 0, TW_MASTER, 0 };
}
static struct tw_addr shard(uint32_t k)
{
	return (struct tw_addr){ 1, TW_SHARD, (uint16_t)k };
}
static struct tw_addr worker(uint32_t k)
{
	return (struct tw_addr){ 2 + k, TW_WORKER, 0 };
}

static void say(struct tw_context *ctx, struct tw_addr to, enum tw_type type, uint32_t from,
		uint64_t seq)
{
	struct tw_msg *m = tw_msg_to(ctx, to, type);

	if (!m)
		return;
	m->h.from = from;
	m->h.seq = seq;
	tw_send(ctx, m);
}

static void ignore(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m) {}

static void finish(struct tw_context *ctx)
{
	struct tw_totals t = { .steps = 77 };

	ctx->world->finish(ctx, TW_OK, &t);
}

/* The master ends the run when every worker has said DONE. */
static void master_counts(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	if (m->h.type == TW_DONE && ++a->count == a->scene->workers)
		finish(ctx);
}

static int64_t clock_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * TW_SECOND + t.tv_nsec;
}

static void busy(int64_t ns)
{
	const int64_t until = clock_ns() + ns;

	while (clock_ns() < until)
		;
}

static enum tw_status no_save(struct tw_store *s, uint64_t cut, const struct tw_part *parts,
			      size_t count)
{
	return TW_IO;
}

static void computes_nothing(struct tw_actor *a, struct tw_context *ctx, struct tw_compute *c)
{
	(void)a, (void)ctx, (void)c;
}

static enum tw_status run(struct scene *s)
{
	static const size_t tensor[] = { 0, 4 };
	struct part part[1 + SHARDS_MAX + WORKERS_MAX];
	struct tw_seat seat[1 + SHARDS_MAX + WORKERS_MAX];
	struct tw_store nothing = { .save = no_save };
	struct tw_engine engine = { .class = &s->engine,
				    .trainable = 4,
				    .tensor = tensor,
				    .tensors = 1,
				    .samples = 10,
				    .tests = 1,
				    .scratch_bytes = s->scratch };
	struct tw_cluster cluster = {
		.seat = seat,
		.seats = 1 + s->shards + s->workers,
		.nodes = 2 + s->workers,
		.engine = &engine,
		.store = s->store ? s->store : &nothing,
		.heap = s->heap ? s->heap : &tw_heap_system,
		.log = s->log,
		.observer = s->observer,
		.observer_arg = s,
		.interrupted = s->interrupted,
	};
	struct tw_actor_class *class[] = { &s->master, &s->shard, &s->worker };
	size_t k = 0;

	for (int c = 0; c < 3; c++) {
		class[c]->new = actor_new;
		class[c]->free = actor_free;
		if (!class[c] -> message)
			class[c]->message = ignore;
	}
	if (!s->worker.computed) /* it has a thread of its own, whether it computes or not */
		s->worker.computed = computes_nothing;
	seat[k++] = (struct tw_seat){ master(), &s->master, NULL };
	for (uint32_t j = 0; j < s->shards; j++)
		seat[k++] = (struct tw_seat){ shard(j), &s->shard, NULL };
	for (uint32_t j = 0; j < s->workers; j++)
		seat[k++] = (struct tw_seat){ worker(j), &s->worker, NULL };
	for (k = 0; k < cluster.seats; k++) {
		part[k].scene = s;
		part[k].number = (uint32_t)(k <= s->shards ? k - 1 : k - 1 - s->shards);
		seat[k].arg = &part[k];
	}
	return tw_threads_run(&cluster, &s->options, &s->ran);
}

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
	say(ctx, shard(0), TW_PUSH, 0, 1);
}

static void ping_message(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	struct scene *s = a->scene;

	if (m->h.seq != a->count + 1 || m->h.type != TW_ACK || m->from.role != TW_SHARD)
		atomic_fetch_add(&s->wrong, 1);
	if (++a->count < s->rounds) {
		say(ctx, shard(0), TW_PUSH, 0, a->count + 1);
		return;
	}
	atomic_store(&s->switches, waits() - a->switches);
	say(ctx, master(), TW_DONE, 0, 0);
}

static void pong_message(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	say(ctx, m->from, TW_ACK, a->number, m->h.seq);
}

static void ping_pong_costs_no_wait(void **state)
{
	struct scene s = {
		.master = { .message = master_counts },
		.shard = { .message = pong_message },
		.worker = { .start = ping_start, .message = ping_message },
		.workers = 1,
		.shards = 1,
		.rounds = 200000,
	};
	const int64_t before = clock_ns();
	uint64_t bytes;

	assert_int_equal(run(&s), TW_OK);
	print_message("%.0f ns per message\n",
		      (double)(clock_ns() - before) / (2.0 * (double)s.rounds));
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
			say(ctx, shard((j + a->number) % s->shards), TW_PUSH, a->number, a->sum);
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
		say(ctx, master(), TW_DONE, a->number, 0);
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
	say(ctx, m->from, TW_ACK, a->number, m->h.seq);
	say(ctx, shard((a->number + 1) % s->shards), TW_HAVE, a->number, a->count++);
	atomic_fetch_add(&s->total, 1);
}

static void pairs_keep_their_order(void **state)
{
	static const uint32_t sizes[][2] = { { 1, 1 }, { 1, 7 }, { 2, 2 },
					     { 4, 1 }, { 8, 3 }, { 3, 16 } };

	for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
		struct scene s = {
			.master = { .message = master_counts },
			.shard = { .message = relay_message },
			.worker = { .start = burst, .message = burst_message },
			.workers = sizes[k][0],
			.shards = sizes[k][1],
			.rounds = 2000,
			.options = { .hash = k % 2 },
		};
		assert_int_equal(run(&s), TW_OK);
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
	say(ctx, m->from, TW_ACK, a->number, m->h.seq);
}

static void adding_start(struct tw_actor *a, struct tw_context *ctx)
{
	for (uint32_t j = 0; j < a->scene->shards; j++)
		say(ctx, shard(j), TW_PUSH, a->number, 1);
}

static void adding_message(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	if (m->h.seq < a->scene->rounds)
		say(ctx, m->from, TW_PUSH, a->number, m->h.seq + 1);
	else if (++a->count == a->scene->shards)
		say(ctx, master(), TW_DONE, a->number, 0);
}

static void sums_are_exact(void **state)
{
	struct scene s = {
		.master = { .message = master_counts },
		.shard = { .message = adder_message },
		.worker = { .start = adding_start, .message = adding_message },
		.workers = 6,
		.shards = 5,
		.rounds = 4000,
	};

	assert_int_equal(run(&s), TW_OK);
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
	say(ctx, shard(0), TW_PUSH, a->number, 0);
}

static void barrier_message(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	if (++a->count < a->scene->rounds)
		say(ctx, shard(0), TW_PUSH, a->number, 0);
	else
		say(ctx, master(), TW_DONE, a->number, 0);
}

static void barrier_shard(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	if (++a->count % a->scene->workers)
		return;
	for (uint32_t k = 0; k < a->scene->workers; k++)
		say(ctx, worker(k), TW_ACK, 0, 0);
}

static void no_message_is_left_lying(void **state)
{
	for (uint32_t workers = 2; workers <= 3; workers++) {
		struct scene s = {
			.master = { .start = patience_start,
				    .timer = patience_timer,
				    .message = master_counts },
			.shard = { .message = barrier_shard },
			.worker = { .start = barrier_start, .message = barrier_message },
			.workers = workers,
			.shards = 1,
			.rounds = 100000,
		};

		assert_int_equal(run(&s), TW_OK);
	}
}

/* Two workers are in two shards at the same time: each shard's handler waits for the other's. */

static bool meet(struct scene *s, uint32_t me, uint32_t other)
{
	const int64_t until = clock_ns() + 10 * TW_SECOND;

	atomic_store(&s->here[me], 1);
	while (clock_ns() < until)
		if (atomic_load(&s->here[other]))
			return true;
	return false;
}

static void meeting_start(struct tw_actor *a, struct tw_context *ctx)
{
	say(ctx, shard(a->scene->shards > 1 ? a->number : 0), TW_PUSH, a->number, 0);
}

static void meeting_message(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	atomic_fetch_add(&a->scene->meetings, meet(a->scene, m->h.from, 1 - m->h.from));
	say(ctx, m->from, TW_ACK, 0, 0);
}

static void done_when_answered(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	say(ctx, master(), TW_DONE, a->number, 0);
}

static void two_shards_at_a_time(void **state)
{
	struct scene s = {
		.master = { .message = master_counts },
		.shard = { .message = meeting_message },
		.worker = { .start = meeting_start, .message = done_when_answered },
		.workers = 2,
		.shards = 2,
	};

	assert_int_equal(run(&s), TW_OK);
	assert_int_equal(s.meetings, 2);
}

/* Lock-free: two workers are inside the same shard; other messages still take the lock. */

static void shared_message(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	struct scene *s = a->scene;

	if (m->h.seq == 0)
		atomic_fetch_add(&s->meetings, meet(s, m->h.from, 1 - m->h.from));
	atomic_fetch_add(&s->total, m->h.seq);
	say(ctx, m->from, TW_ACK, 0, m->h.seq);
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
		say(ctx, shard(0), TW_IDLE, a->number, 0);
		say(ctx, shard(0), a->count % 2 ? TW_PUSH : TW_PULL, a->number, a->count);
	} else {
		say(ctx, master(), TW_DONE, a->number, 0);
	}
}

static void lockfree_shards_are_shared(void **state)
{
	struct scene s = {
		.master = { .message = master_counts },
		.shard = { .message = locked_message, .shared = shared_message },
		.worker = { .start = meeting_start, .message = open_worker_message },
		.workers = 2,
		.shards = 1,
		.rounds = 5000,
		.options = { .lockfree = true },
	};

	assert_int_equal(run(&s), TW_OK);
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
	say(ctx, master(), TW_HAVE, a->number, 0);
}

static void round_master(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	struct scene *s = a->scene;

	if (++a->count < s->workers)
		return;
	a->count = 0;
	if (a->round == s->rounds) {
		finish(ctx);
		return;
	}
	for (uint32_t j = 0; j < s->shards; j++)
		say(ctx, shard(j), TW_COMMIT, 0, a->round);
	a->round++;
}

static void round_shard(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	struct scene *s = a->scene;

	if (!thread_number)
		thread_number = 1 + atomic_fetch_add(&thread_numbers, 1) % 60;
	atomic_fetch_or(&s->threads_of_round[m->h.seq], UINT64_C(1) << thread_number);
	busy(100000);
	for (uint32_t j = 0; j < s->workers; j++)
		say(ctx, worker(j), TW_PARAMS, a->number, m->h.seq);
}

static void round_worker(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	if (++a->count % a->scene->shards == 0)
		say(ctx, master(), TW_HAVE, a->number, 0);
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
	assert_int_equal(run(&s), TW_OK);
	for (uint32_t r = 0; r < s.rounds; r++)
		helped += __builtin_popcountll(s.threads_of_round[r]) > 1;
	print_message("%u of %u rounds by more than one thread\n", helped, (unsigned)s.rounds);
	assert_true(helped >= 3);
}

/* Timers: in order, never early, moved and cleared; of the idle, the passive, and those who
 * compute. */

/* When each was due, at the earliest and at the latest: setting it takes time, too. */
static struct {
	int64_t low, high;
} due[12];

static void set_alarm(struct tw_context *ctx, uint32_t timer, int64_t after)
{
	due[timer].low = tw_now(ctx) + after;
	tw_timer(ctx, timer, after);
	due[timer].high = tw_now(ctx) + after;
}

static void alarms_start(struct tw_actor *a, struct tw_context *ctx)
{
	(void)a;
	for (uint32_t k = 0; k < 12; k++)
		set_alarm(ctx, k, (12 - k) * 4 * MS);
	tw_timer(ctx, 3, -1);
	tw_timer(ctx, 99, -1);
	set_alarm(ctx, 11, 60 * MS); /* moved to the end */
}

static void alarms_timer(struct tw_actor *a, struct tw_context *ctx, uint32_t timer)
{
	struct scene *s = a->scene;

	if (timer > 11) {
		finish(ctx);
		return;
	}
	if (tw_now(ctx) < due[timer].low)
		atomic_fetch_add(&s->wrong, 1);
	s->order[s->ordered++] = timer;
	if (s->ordered == 11)
		tw_timer(ctx, 12, 0);
}

static void check_alarms(struct scene *s)
{
	assert_int_equal(run(s), TW_OK);
	assert_int_equal(s->wrong, 0);
	assert_int_equal(s->ordered, 11);
	for (uint32_t i = 0; i < s->ordered; i++) {
		assert_int_not_equal(s->order[i], 3);
		for (uint32_t j = i + 1; j < s->ordered; j++) {
			assert_int_not_equal(s->order[i], s->order[j]);
			/* none before one that was surely due earlier */
			assert_true(due[s->order[i]].low <= due[s->order[j]].high);
		}
	}
}

static enum tw_status compute_until_cancelled(const struct tw_engine *e, void *scratch,
					      const struct tw_inputs *in, float *gradient,
					      struct tw_score *score)
{
	const int64_t until = clock_ns() + 20 * TW_SECOND;

	while (clock_ns() < until) {
		if (atomic_load(in->cancel))
			return TW_CANCELLED;
		sched_yield();
	}
	return TW_OK;
}

static void alarms_computing(struct tw_actor *a, struct tw_context *ctx)
{
	alarms_start(a, ctx);
	ctx->world->compute(ctx, &a->compute[0]);
}

static void timers_fire(void **state)
{
	struct scene idle = { .worker = { .start = alarms_start, .timer = alarms_timer },
			      .workers = 1 };
	struct scene passive = { .shard = { .start = alarms_start, .timer = alarms_timer },
				 .workers = 1,
				 .shards = 1 };
	struct scene computing = { .worker = { .start = alarms_computing, .timer = alarms_timer },
				   .workers = 1,
				   .engine = { .gradient = compute_until_cancelled } };

	check_alarms(&idle);
	check_alarms(&passive);
	check_alarms(&computing);
}

/* Computations: in the order asked for, cancelled before and after they began. */

static enum tw_status counting_gradient(const struct tw_engine *e, void *scratch,
					const struct tw_inputs *in, float *gradient,
					struct tw_score *score)
{
	memset(scratch, 1, e->scratch_bytes);
	gradient[0] = (float)in->from;
	score->loss = 3.0;
	return TW_OK;
}

static enum tw_status counting_evaluate(const struct tw_engine *e, void *scratch,
					const struct tw_inputs *in, struct tw_score *score)
{
	memset(scratch, 2, e->scratch_bytes);
	score->loss = 5.0;
	return TW_OK;
}

static void computes_start(struct tw_actor *a, struct tw_context *ctx)
{
	static float gradient[4];

	for (int k = 0; k < 3; k++) {
		a->compute[k].id = (uint64_t)k;
		a->compute[k].gradient = gradient;
		a->compute[k].in.from = 40;
		ctx->world->compute(ctx, &a->compute[k]);
	}
	a->compute[1].pass.kind = TW_PASS_EVALUATE;
	ctx->world->cancel(ctx, &a->compute[2]);
}

static void computes_done(struct tw_actor *a, struct tw_context *ctx, struct tw_compute *c)
{
	struct scene *s = a->scene;

	s->statuses[s->ordered] = c->status;
	s->order[s->ordered++] = (uint32_t)c->id;
	if (c->id == 0 && (c->score.loss != 3.0 || c->gradient[0] != 40.0f))
		atomic_fetch_add(&s->wrong, 1);
	if (c->id == 1 && c->score.loss != 5.0)
		atomic_fetch_add(&s->wrong, 1);
	if (s->ordered == 2)
		ctx->world->compute(ctx, c); /* the same one again, from its own completion */
	if (s->ordered == 4)
		finish(ctx);
}

static void computations_run_in_order(void **state)
{
	static const uint32_t order[] = { 2, 0, 1, 0 };
	struct scene s = {
		.worker = { .start = computes_start, .computed = computes_done },
		.workers = 1,
		.scratch = 1000,
		.engine = { .gradient = counting_gradient, .evaluate = counting_evaluate },
	};

	assert_int_equal(run(&s), TW_OK);
	assert_int_equal(s.wrong, 0);
	assert_memory_equal(s.order, order, sizeof order);
	assert_int_equal(s.statuses[0], TW_CANCELLED);
	for (int k = 1; k < 4; k++)
		assert_int_equal(s.statuses[k], TW_OK);
}

/* A message reaches a worker that computes, and stops it. */

static void cancelled_start(struct tw_actor *a, struct tw_context *ctx)
{
	ctx->world->compute(ctx, &a->compute[0]);
	say(ctx, shard(0), TW_PUSH, 0, 0);
}

static void canceller_message(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	tw_timer(ctx, 1, 20 * MS);
}

static void canceller_timer(struct tw_actor *a, struct tw_context *ctx, uint32_t timer)
{
	say(ctx, worker(0), TW_ACK, 0, 0);
}

static void cancelled_message(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	ctx->world->cancel(ctx, &a->compute[0]);
}

static void cancelled_done(struct tw_actor *a, struct tw_context *ctx, struct tw_compute *c)
{
	a->scene->statuses[0] = c->status;
	say(ctx, master(), TW_DONE, 0, 0);
}

static void messages_cancel_computations(void **state)
{
	const int64_t before = clock_ns();
	struct scene s = {
		.master = { .message = master_counts },
		.shard = { .message = canceller_message, .timer = canceller_timer },
		.worker = { .start = cancelled_start,
			    .message = cancelled_message,
			    .computed = cancelled_done },
		.workers = 1,
		.shards = 1,
		.engine = { .gradient = compute_until_cancelled },
	};

	assert_int_equal(run(&s), TW_OK);
	assert_int_equal(s.statuses[0], TW_CANCELLED);
	assert_true(clock_ns() - before < 10 * TW_SECOND);
}

/* Workers that compute are entered by whoever sends to them: order, exclusion and the count of
 * completions hold there as well, with cancels at any moment. */

static enum tw_status short_gradient(const struct tw_engine *e, void *scratch,
				     const struct tw_inputs *in, float *gradient,
				     struct tw_score *score)
{
	static _Atomic unsigned calls;
	/* now and then long enough for messages to come in the middle of it, on any machine */
	const bool is_long = atomic_fetch_add(&calls, 1) % 16 == 0;
	const int64_t until = clock_ns() + (is_long ? MS : 20000);

	while (clock_ns() < until)
		if (atomic_load(in->cancel))
			return TW_CANCELLED;
	return TW_OK;
}

static void restless_step(struct tw_actor *a, struct tw_context *ctx)
{
	const uint32_t shards = a->scene->shards;

	for (uint32_t j = 0; j < shards; j++)
		say(ctx, shard((a->number + j) % shards), TW_PUSH, a->number, a->round);
	a->round++;
	ctx->world->compute(ctx, &a->compute[0]);
	ctx->world->compute(ctx, &a->compute[1]);
}

static void restless_maybe_done(struct tw_actor *a, struct tw_context *ctx)
{
	struct scene *s = a->scene;

	if (a->round == s->rounds && a->sum == 2 * s->rounds &&
	    a->count == 3 * s->rounds * s->shards)
		say(ctx, master(), TW_DONE, a->number, 0);
}

static void restless_message(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	if (m->h.seq != a->next[m->h.from]++)
		atomic_fetch_add(&a->scene->wrong, 1);
	/* while they are out: both have been asked for and not all have come back */
	if (++a->count % 7 == 0 && a->sum == 2 * a->round - 2)
		ctx->world->cancel(ctx, &a->compute[a->count % 2]);
	restless_maybe_done(a, ctx);
}

static void restless_done(struct tw_actor *a, struct tw_context *ctx, struct tw_compute *c)
{
	atomic_fetch_add(&a->scene->seen, c->status == TW_CANCELLED);
	if (++a->sum % 2 == 0 && a->round < a->scene->rounds)
		restless_step(a, ctx);
	restless_maybe_done(a, ctx);
}

/* The answer goes to the next worker, who is likely to compute. */
static void threefold_message(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	const uint32_t other = (m->h.from + 1) % a->scene->workers;

	for (int k = 0; k < 3; k++)
		say(ctx, worker(other), TW_ACK, a->number, a->next[other]++);
}

static void computing_workers_are_entered_in_order(void **state)
{
	struct scene s = {
		.master = { .message = master_counts },
		.shard = { .message = threefold_message },
		.worker = { .start = restless_step,
			    .message = restless_message,
			    .computed = restless_done },
		.workers = 4,
		.shards = 5,
		.rounds = 1500,
		.engine = { .gradient = short_gradient },
	};

	assert_int_equal(run(&s), TW_OK);
	assert_int_equal(s.wrong, 0);
	print_message("%u of %u computations cancelled\n", (unsigned)s.seen,
		      (unsigned)(2 * s.rounds * s.workers));
	assert_true(s.seen > 0); /* without one, none of this was tried */
}

/* The end: computations under way stop, totals arrive, the first cause is kept, nothing leaks. */

static void busy_start(struct tw_actor *a, struct tw_context *ctx)
{
	ctx->world->compute(ctx, &a->compute[0]);
	say(ctx, shard(0), TW_PUSH, a->number, 0);
}

static void ending_start(struct tw_actor *a, struct tw_context *ctx)
{
	tw_timer(ctx, 0, 30 * MS);
}

static void ending_timer(struct tw_actor *a, struct tw_context *ctx, uint32_t timer)
{
	struct tw_totals t = { .steps = 5, .shards = 1, .vector_heap = ctx->heap };

	for (uint32_t k = 0; k < a->scene->workers; k++)
		say(ctx, worker(k), TW_BYE, 0, 0); /* nobody may get it */
	t.vector = ctx->heap->get(ctx->heap, sizeof *t.vector);
	t.vector[0] = tw_block_new(ctx->heap, 64);
	ctx->world->finish(ctx, TW_OK, &t);
	/* a second end changes nothing, and what it brings is dropped */
	t.steps = 6;
	t.vector = ctx->heap->get(ctx->heap, sizeof *t.vector);
	t.vector[0] = tw_block_new(ctx->heap, 64);
	ctx->world->finish(ctx, TW_IO, &t);
}

static void late_done(struct tw_actor *a, struct tw_context *ctx, struct tw_compute *c)
{
	atomic_fetch_add(&a->scene->wrong, 1);
}

static void the_end_stops_computations(void **state)
{
	const int64_t before = clock_ns();
	struct refusing heap = REFUSING(0);
	struct scene s = {
		.master = { .start = ending_start, .timer = ending_timer },
		.worker = { .start = busy_start, .computed = late_done },
		.workers = 3,
		.shards = 1,
		.heap = &heap.heap,
		.engine = { .gradient = compute_until_cancelled },
	};

	assert_int_equal(run(&s), TW_OK);
	assert_true(clock_ns() - before < 10 * TW_SECOND);
	assert_int_equal(s.wrong, 0);
	assert_int_equal(s.ran.totals.steps, 5);
	assert_int_equal(s.ran.error.status, TW_OK);
	assert_string_equal(s.ran.error.text, "");
	assert_int_equal(heap.live, 2);
	tw_totals_release(&s.ran.totals);
	assert_int_equal(heap.live, 0);
}

static void failing_message(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	tw_give_up(ctx, TW_REFUSED, "worker %u was wrong", m->h.from);
	tw_give_up(ctx, TW_IO, "too late");
}

static void the_first_failure_is_kept(void **state)
{
	struct scene s = {
		.shard = { .message = failing_message },
		.worker = { .start = busy_start, .computed = late_done },
		.workers = 4,
		.shards = 1,
		.engine = { .gradient = compute_until_cancelled },
	};

	assert_int_equal(run(&s), TW_REFUSED);
	assert_int_equal(s.ran.totals.status, TW_REFUSED);
	assert_int_equal(strncmp(s.ran.error.text, "shard 0: worker ", 16), 0);
	assert_non_null(strstr(s.ran.error.text, " was wrong"));
}

/* The store: saving happens outside the actor, while messages go on; loading gives it back. */

struct fake_store {
	struct tw_store store;
	struct scene *scene;
	struct tw_heap *heap;
	struct tw_part part;
	uint64_t cut;
	int inside;
};

static enum tw_status fake_save(struct tw_store *store, uint64_t cut, const struct tw_part *parts,
				size_t count)
{
	struct fake_store *f = (struct fake_store *)store;
	const int64_t until = clock_ns() + 10 * TW_SECOND;
	const uint64_t from = atomic_load(&f->scene->total);

	f->inside++;
	/* the master is entered again and again meanwhile */
	while (atomic_load(&f->scene->total) < from + 100 && clock_ns() < until)
		sched_yield();
	if (atomic_load(&f->scene->total) < from + 100)
		return TW_IO;
	tw_block_drop(f->part.bytes);
	f->part = parts[0];
	tw_block_keep(f->part.bytes);
	f->cut = cut;
	f->inside--;
	return count == 1 ? TW_OK : TW_IO;
}

static enum tw_status fake_load(struct tw_store *store, uint64_t *cut, struct tw_part **parts,
				size_t *count)
{
	struct fake_store *f = (struct fake_store *)store;

	*cut = f->cut;
	*count = f->cut ? 1 : 0;
	*parts = f->cut ? f->heap->get(f->heap, sizeof **parts) : NULL;
	if (f->cut && !*parts)
		return TW_NO_MEMORY;
	if (f->cut) {
		**parts = f->part;
		tw_block_keep(f->part.bytes);
	}
	return TW_OK;
}

static void fake_loaded_free(struct tw_store *store, struct tw_part *parts, size_t count)
{
	struct fake_store *f = (struct fake_store *)store;

	f->inside++;
	for (size_t k = 0; k < count; k++)
		tw_block_drop(parts[k].bytes);
	f->heap->put(f->heap, parts);
	f->inside--;
}

static void saver_start(struct tw_actor *a, struct tw_context *ctx)
{
	ctx->world->load(ctx);
}

static void saver_message(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	a->count++;
	atomic_store(&a->scene->total, a->count);
	if (!a->scene->flag)
		say(ctx, m->from, TW_ACK, 0, 0);
}

static void saver_saves(struct tw_actor *a, struct tw_context *ctx, uint64_t cut)
{
	struct tw_part part = { .name = "master", .bytes = tw_block_new(ctx->heap, 8) };

	if (!part.bytes) {
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for a part");
		return;
	}
	memset(part.bytes->data, (int)cut, 8);
	ctx->world->save(ctx, cut, &part, 1);
	tw_block_drop(part.bytes);
}

static void saver_loaded(struct tw_actor *a, struct tw_context *ctx, uint64_t cut,
			 const struct tw_part *parts, size_t count, enum tw_status status)
{
	struct scene *s = a->scene;

	s->statuses[s->ordered] = status;
	s->order[s->ordered++] = (uint32_t)cut;
	if (cut == 0) {
		if (count)
			atomic_fetch_add(&s->wrong, 1);
		saver_saves(a, ctx, 7);
	} else {
		if (count != 1 || strcmp(parts[0].name, "master") || parts[0].bytes->data[7] != cut)
			atomic_fetch_add(&s->wrong, 1);
		if (cut == 7)
			saver_saves(a, ctx, 8);
		else
			finish(ctx);
	}
}

static void saver_saved(struct tw_actor *a, struct tw_context *ctx, uint64_t cut,
			enum tw_status status)
{
	struct scene *s = a->scene;

	s->statuses[s->ordered] = status;
	s->order[s->ordered++] = 100 + (uint32_t)cut;
	ctx->world->load(ctx);
}

static void chatter_start(struct tw_actor *a, struct tw_context *ctx)
{
	say(ctx, master(), TW_HAVE, a->number, 0);
}

static void chatter_message(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	say(ctx, master(), TW_HAVE, a->number, 0);
}

static void saving_stops_nobody(void **state)
{
	static const uint32_t order[] = { 0, 107, 7, 108, 8 };
	struct refusing heap = REFUSING(0);
	struct fake_store store = { .store = { fake_save, fake_load, fake_loaded_free },
				    .heap = &heap.heap };
	struct scene s = {
		.master = { .start = saver_start,
			    .message = saver_message,
			    .saved = saver_saved,
			    .loaded = saver_loaded },
		.worker = { .start = chatter_start, .message = chatter_message },
		.workers = 2,
		.heap = &heap.heap,
		.store = &store.store,
	};

	store.scene = &s;
	assert_int_equal(run(&s), TW_OK);
	assert_int_equal(s.wrong, 0);
	assert_int_equal(s.ordered, 5);
	assert_memory_equal(s.order, order, sizeof order);
	for (int k = 0; k < 5; k++)
		assert_int_equal(s.statuses[k], TW_OK);
	tw_block_drop(store.part.bytes);
	assert_int_equal(heap.live, 0);
}

/* Every allocation refused in turn: a clean end each time, and nothing left behind. */

static void thrifty_start(struct tw_actor *a, struct tw_context *ctx)
{
	for (uint32_t k = 0; k < 10; k++)
		tw_timer(ctx, k, TW_SECOND);
	for (uint64_t k = 0; k < 40; k++) {
		struct tw_msg *m = tw_msg_to(ctx, shard((uint32_t)k % a->scene->shards), TW_PUSH);

		if (!m || !tw_msg_tail(ctx, m, 16))
			return;
		memset(m->tail->data, 1, 16);
		m->payload = tw_block_new(ctx->heap, 32);
		if (!m->payload) {
			ctx->world->msg_free(ctx, m);
			tw_give_up(ctx, TW_NO_MEMORY, "no memory for a payload");
			return;
		}
		m->h.payload = 32;
		memset(m->payload->data, 2, 32);
		tw_send(ctx, m);
	}
}

static void thrifty_shard(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	tw_block_drop(a->block);
	a->block = tw_block_keep(m->payload);
	say(ctx, m->from, TW_ACK, a->number, 0);
}

static void thrifty_worker(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	if (++a->count == 40)
		ctx->world->compute(ctx, &a->compute[0]);
}

static void thrifty_done(struct tw_actor *a, struct tw_context *ctx, struct tw_compute *c)
{
	if (c->status == TW_NO_MEMORY)
		tw_give_up(ctx, c->status, "no memory for scratch");
	say(ctx, master(), TW_DONE, a->number, 0);
}

static void thrifty_master(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	saver_saves(a, ctx, 3);
}

static void thrifty_saved(struct tw_actor *a, struct tw_context *ctx, uint64_t cut,
			  enum tw_status status)
{
	if (status == TW_OK)
		finish(ctx);
	else
		tw_give_up(ctx, status, "could not save");
}

static enum tw_status save_nothing(struct tw_store *s, uint64_t cut, const struct tw_part *parts,
				   size_t count)
{
	return TW_OK;
}

static enum tw_status ready_gradient(const struct tw_engine *e, void *scratch,
				     const struct tw_inputs *in, float *gradient,
				     struct tw_score *score)
{
	return TW_OK;
}

static void every_allocation_may_fail(void **state)
{
	struct tw_store store = { .save = save_nothing };

	for (unsigned nth = 1;; nth++) {
		struct refusing heap = REFUSING(nth);
		struct scene s = {
			.master = { .message = thrifty_master, .saved = thrifty_saved },
			.shard = { .message = thrifty_shard },
			.worker = { .start = thrifty_start,
				    .message = thrifty_worker,
				    .timer = alarms_timer,
				    .computed = thrifty_done },
			.workers = 1,
			.shards = 3,
			.scratch = 10,
			.heap = &heap.heap,
			.store = &store,
			.options = { .hash = true },
			.engine = { .gradient = ready_gradient },
		};
		const enum tw_status status = run(&s);

		assert_int_equal(heap.live, 0);
		if (heap.calls < nth) {
			assert_int_equal(status, TW_OK);
			assert_true(nth > 100);
			return;
		}
		assert_int_equal(status, TW_NO_MEMORY);
		assert_non_null(strstr(s.ran.error.text, "no memory for"));
	}
}

/* Interrupts and observers. */

static void interrupted(struct tw_actor *a, struct tw_context *ctx)
{
	atomic_fetch_add(&a->scene->seen, 1);
	if (a->scene->rounds)
		tw_give_up(ctx, TW_INTERRUPTED, "stopped");
}

static void an_interrupt_reaches_the_master(void **state)
{
	_Atomic int signals = 1;
	struct scene s = { .master = { .interrupt = interrupted },
			   .workers = 2,
			   .rounds = 1,
			   .interrupted = &signals };

	assert_int_equal(run(&s), TW_INTERRUPTED);
	assert_int_equal(s.seen, 1);
	assert_string_equal(s.ran.error.text, "stopped");
}

static void *interrupt_again(void *arg)
{
	struct scene *s = arg;

	while (!atomic_load(&s->seen))
		sched_yield();
	atomic_store((_Atomic int *)s->interrupted, 2);
	return NULL;
}

static void a_second_interrupt_ends_at_once(void **state)
{
	_Atomic int signals = 1;
	pthread_t other;
	struct scene s = { .master = { .interrupt = interrupted },
			   .interrupted = &signals,
			   .worker = { .start = busy_start },
			   .workers = 2,
			   .shards = 1,
			   .engine = { .gradient = compute_until_cancelled } };

	assert_int_equal(pthread_create(&other, NULL, interrupt_again, &s), 0);
	assert_int_equal(run(&s), TW_INTERRUPTED);
	pthread_join(other, NULL);
	assert_int_equal(s.seen, 1);
}

static bool watch(void *arg, const struct tw_note *note)
{
	struct scene *s = arg;

	s->notes++;
	if (note->at < s->last_note || note->seq != s->notes_by[note->slot]++)
		atomic_fetch_add(&s->wrong, 1);
	s->last_note = note->at;
	return s->notes < s->rounds * s->workers;
}

static void noting_start(struct tw_actor *a, struct tw_context *ctx)
{
	for (uint64_t k = 0; k < a->scene->rounds; k++)
		tw_note(ctx, &(struct tw_note){ .slot = a->number, .seq = k });
}

static void observers_see_all_and_may_stop(void **state)
{
	struct scene s = { .master = { .interrupt = interrupted },
			   .worker = { .start = noting_start },
			   .workers = 4,
			   .rounds = 3000,
			   .observer = watch };

	assert_int_equal(run(&s), TW_INTERRUPTED);
	assert_int_equal(s.notes, s.rounds * s.workers);
	assert_int_equal(s.wrong, 0);
	assert_int_equal(s.seen, 1);
}

/* Waiting: a sentence, once. */

static bool waits_long(const struct tw_actor *a, struct tw_wait *out)
{
	*out = (struct tw_wait){
		.whom = shard(1), .why = "its answer to push", .step = 41, .since = -7 * TW_SECOND
	};
	return true;
}

static void hear(void *arg, enum tw_level level, const char *who, const char *line)
{
	struct scene *s = arg;

	s->lines++;
	snprintf(s->line, sizeof s->line, "%s", line);
}

static void slow_start(struct tw_actor *a, struct tw_context *ctx)
{
	tw_timer(ctx, 0, 2300 * MS);
}

static void slow_timer(struct tw_actor *a, struct tw_context *ctx, uint32_t timer)
{
	finish(ctx);
}

static void long_waits_are_said_once(void **state)
{
	struct scene s = { .master = { .start = slow_start, .timer = slow_timer },
			   .worker = { .waiting = waits_long },
			   .workers = 1 };
	struct tw_log log = { hear, &s, TW_INFO };
	double seconds = 0.0;

	s.log = &log;
	assert_int_equal(run(&s), TW_OK);
	assert_int_equal(s.lines, 1);
	assert_int_equal(s.ran.waits, 1);
	assert_int_equal(sscanf(s.line,
				"worker 0 has waited %lf s for shard 1: its answer to push 41",
				&seconds),
			 1);
	assert_true(seconds >= 8.0 && seconds < 10.0);
	assert_non_null(strstr(s.line, " for shard 1: its answer to push 41"));
}

/* With `hash`, a payload that changes on its way is noticed. */

static void twice_start(struct tw_actor *a, struct tw_context *ctx)
{
	a->block = tw_block_new(ctx->heap, 16);
	memset(a->block->data, 0, 16);
	for (int k = 0; k < 2; k++) { /* to itself: both are on their way before one arrives */
		struct tw_msg *m = tw_msg_to(ctx, ctx->self, TW_PUSH);

		m->payload = tw_block_keep(a->block);
		m->h.payload = 16;
		tw_send(ctx, m);
	}
}

static void scribbling_message(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	m->payload->data[3]++;
	if (++a->count == 2)
		finish(ctx);
}

static void changed_payloads_are_noticed(void **state)
{
	struct scene s = {
		.shard = { .start = twice_start, .message = scribbling_message },
		.workers = 1,
		.shards = 1,
	};

	assert_int_equal(run(&s), TW_OK);
	s.options.hash = true;
	assert_int_equal(run(&s), TW_BAD_BYTES);
}

static void impossible_seats_are_refused(void **state)
{
	struct scene s = { .workers = 1 };
	struct tw_actor_class class = { .new = actor_new, .free = actor_free };
	struct part part = { &s, 0 };
	struct tw_seat seat[] = { { master(), &class, &part }, { master(), &class, &part } };
	struct tw_cluster cluster = {
		.seat = seat, .seats = 2, .nodes = 1, .heap = &tw_heap_system
	};

	assert_int_equal(tw_threads_run(&cluster, NULL, &s.ran), TW_BAD_INPUT);
	assert_non_null(strstr(s.ran.error.text, "same address"));
	seat[1].addr = shard(0);
	assert_int_equal(tw_threads_run(&cluster, NULL, &s.ran), TW_BAD_INPUT);
	assert_non_null(strstr(s.ran.error.text, "node 1"));
	cluster.seat = &seat[1];
	cluster.seats = 1;
	cluster.nodes = 2;
	assert_int_equal(tw_threads_run(&cluster, NULL, &s.ran), TW_BAD_INPUT);
	assert_non_null(strstr(s.ran.error.text, "no master"));
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
		cmocka_unit_test(timers_fire),
		cmocka_unit_test(computations_run_in_order),
		cmocka_unit_test(messages_cancel_computations),
		cmocka_unit_test(computing_workers_are_entered_in_order),
		cmocka_unit_test(the_end_stops_computations),
		cmocka_unit_test(the_first_failure_is_kept),
		cmocka_unit_test(saving_stops_nobody),
		cmocka_unit_test(every_allocation_may_fail),
		cmocka_unit_test(an_interrupt_reaches_the_master),
		cmocka_unit_test(a_second_interrupt_ends_at_once),
		cmocka_unit_test(observers_see_all_and_may_stop),
		cmocka_unit_test(long_waits_are_said_once),
		cmocka_unit_test(changed_payloads_are_noticed),
		cmocka_unit_test(impossible_seats_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
