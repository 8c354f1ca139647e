/* SPDX-License-Identifier: Apache-2.0 */
/* test_sim.c - time in the simulator: links, NICs, laws, timers, computations, waits. */
#include "world/fakes.h"
#include "world/sim/sim_compute.h"
#include "base/arena.h"

#include <math.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>
#include <jansson.h>

static const struct tw_addr master_at = { 0, TW_MASTER, 0 };

/* What the actors of the running test have seen. */
static struct {
	int64_t at[4096];
	uint64_t seq[4096];
	size_t count, wanted;
	uint32_t payload, sends;
	bool good;
} seen;

static void forget(size_t wanted)
{
	memset(&seen, 0, sizeof seen);
	seen.wanted = wanted;
	seen.good = true;
}

static void see(struct tw_context *ctx, uint64_t seq)
{
	seen.at[seen.count % 4096] = tw_now(ctx);
	seen.seq[seen.count % 4096] = seq;
	if (++seen.count == seen.wanted)
		fake_finish(ctx);
}

static void master_sees(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	see(ctx, m->h.seq);
}

static void worker_sends(struct tw_actor *a, struct tw_context *ctx)
{
	for (uint32_t i = 0; i < (seen.sends ? seen.sends : 1); i++)
		fake_send(ctx, master_at, TW_DONE, i, seen.payload);
}

/* Links. */

#define WIRE(payload) ((double)(sizeof(struct tw_header) + sizeof(struct tw_body_done) + (payload)))

static void many_senders_share_the_receivers_nic(void **state)
{
	static const struct fake master = { .message = master_sees };
	static const struct fake worker = { .start = worker_sends };

	for (uint32_t n = 1; n <= 64; n *= 4) {
		const int64_t each = llround(WIRE(100000) * 8);
		struct stage st;

		forget(n);
		seen.payload = 100000;
		stage_init(&st, &tw_heap_system, 0, n, &master, NULL, &worker);
		st.o.bandwidth = 1e9;
		st.o.latency = 3 * MS;
		assert_int_equal(stage_run(&st), TW_OK);
		for (uint32_t i = 0; i < n; i++)
			assert_int_equal(seen.at[i], 3 * MS + (i + 1) * each);
		assert_int_equal(st.ran.bytes_sent, n * (uint64_t)WIRE(100000));
		assert_int_equal(st.ran.bytes_received, st.ran.bytes_sent);
		assert_int_equal(st.ran.peak_bytes, n * 100000);
		stage_release(&st);
	}
}

static void one_sender_shares_its_own_nic(void **state)
{
	static const struct fake master = { .message = master_sees };
	static const struct fake worker = { .start = worker_sends };
	const int64_t each = llround(WIRE(5000) * 8 * 10);
	struct stage st;

	forget(20);
	seen.payload = 5000;
	seen.sends = 20;
	stage_init(&st, &tw_heap_system, 0, 1, &master, NULL, &worker);
	st.o.bandwidth = 1e8;
	st.o.latency = 7 * MS;
	assert_int_equal(stage_run(&st), TW_OK);
	for (uint32_t i = 0; i < 20; i++)
		assert_int_equal(seen.at[i], 7 * MS + (i + 1) * each);
	stage_release(&st);
}

/* A long message on its way from elsewhere must not block who arrives before it. */
static void a_worker_of_two(struct tw_actor *a, struct tw_context *ctx)
{
	if (ctx->self.node == 1) {
		fake_send(ctx, fake_addr(2, TW_WORKER, 0), TW_DONE, 1, 10000000);
		fake_send(ctx, master_at, TW_DONE, 2, 0);
	} else {
		tw_timer(ctx, 3, 1 * MS);
	}
}

static void sends_small(struct tw_actor *a, struct tw_context *ctx, uint32_t timer)
{
	assert_int_equal(timer, 3);
	fake_send(ctx, master_at, TW_DONE, 3, 0);
}

static void nics_serve_in_order_of_arrival(void **state)
{
	static const struct fake master = { .message = master_sees };
	static const struct fake worker = { .start = a_worker_of_two, .timer = sends_small };
	const int64_t big = llround(WIRE(10000000) * 8), small = llround(WIRE(0) * 8);
	struct stage st;

	forget(2);
	stage_init(&st, &tw_heap_system, 0, 2, &master, NULL, &worker);
	st.o.bandwidth = 1e9;
	assert_int_equal(stage_run(&st), TW_OK);
	assert_int_equal(seen.seq[0], 3);
	assert_int_equal(seen.at[0], 1 * MS + small);
	assert_int_equal(seen.seq[1], 2);
	assert_int_equal(seen.at[1], big + small);
	stage_release(&st);
}

static void order_is_kept_under_jitter_and_loss(void **state)
{
	static const struct fake master = { .message = master_sees };
	static const struct fake worker = { .start = worker_sends };
	int64_t first = 0;

	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct stage st;
		size_t late = 0;

		forget(200);
		seen.sends = 200;
		stage_init(&st, &tw_heap_system, 0, 1, &master, NULL, &worker);
		st.cluster.seed = seed;
		st.o.latency = MS;
		st.o.jitter = 10 * MS;
		st.o.loss = 0.3;
		st.o.bandwidth = 1e6;
		assert_int_equal(stage_run(&st), TW_OK);
		for (size_t i = 0; i < 200; i++) {
			assert_int_equal(seen.seq[i], i);
			late += i && seen.at[i] - seen.at[i - 1] > 100 * MS;
		}
		if (seed == 1)
			first = seen.at[0];
		else if (first != seen.at[0])
			first = -1;
		stage_release(&st);
	}
	assert_int_equal(first, -1); /* the seed shows */
}

/* Mean delay under jitter and loss: latency + jitter / 2 + retransmit x loss / (1 - loss). */
static void delay_timer(struct tw_actor *a, struct tw_context *ctx, uint32_t timer)
{
	fake_send(ctx, master_at, TW_DONE, (uint64_t)tw_now(ctx), 0);
	if (++a->count < 4000)
		tw_timer(ctx, timer, 10 * TW_SECOND + (int64_t)(a->count % 97));
}

static void delay_start(struct tw_actor *a, struct tw_context *ctx)
{
	tw_timer(ctx, 0, 1);
}

static void jitter_and_loss_cost_their_mean(void **state)
{
	static const struct fake master = { .message = master_sees };
	static const struct fake worker = { .start = delay_start, .timer = delay_timer };
	struct stage st;
	double sum = 0;

	forget(4000);
	stage_init(&st, &tw_heap_system, 0, 1, &master, NULL, &worker);
	st.o.latency = MS;
	st.o.jitter = 10 * MS;
	st.o.loss = 0.2;
	assert_int_equal(stage_run(&st), TW_OK);
	for (size_t i = 0; i < 4000; i++)
		sum += (double)(seen.at[i] - (int64_t)seen.seq[i]);
	assert_true(fabs(sum / 4000 / 1e6 - (1 + 5 + 200 * 0.2 / 0.8)) < 4.0);
	stage_release(&st);
}

static void to_itself_then_free(struct tw_actor *a, struct tw_context *ctx)
{
	struct tw_msg *m = tw_msg_to(ctx, fake_addr(1, TW_WORKER, 0), TW_EVAL);

	fake_send(ctx, master_at, TW_DONE, 7, 1000000);
	m->h.flags = TW_FLAG_FREE;
	m->h.seq = 8;
	tw_send(ctx, m);
}

static void free_and_local_messages_take_no_time(void **state)
{
	static const struct fake both = { .start = to_itself_then_free, .message = master_sees };
	static const struct fake worker = { .message = master_sees };
	struct stage st;

	forget(2);
	stage_init(&st, &tw_heap_system, 0, 1, &both, NULL, &worker);
	seen.wanted = 0;
	st.o.latency = TW_SECOND;
	st.o.bandwidth = 1000;
	assert_int_equal(stage_run(&st), TW_REFUSED); /* nobody finishes */
	assert_int_equal(seen.count, 2);
	assert_int_equal(seen.at[0], 0);
	assert_int_equal(seen.at[1], 0);
	assert_int_equal(st.ran.bytes_sent, 0);
	stage_release(&st);
}

static void nowhere(struct tw_actor *a, struct tw_context *ctx)
{
	fake_send(ctx, fake_addr(1, TW_SHARD, 4), TW_PUSH, 1, 0);
}

static void a_message_to_nobody_is_an_error(void **state)
{
	static const struct fake master = { .start = nowhere };
	struct stage st;

	stage_init(&st, &tw_heap_system, 0, 1, &master, NULL, &master);
	assert_int_equal(stage_run(&st), TW_ABSENT);
	assert_non_null(strstr(st.ran.error.text, "PUSH"));
	stage_release(&st);
}

/* Shards. */

static void worker_pushes(struct tw_actor *a, struct tw_context *ctx)
{
	fake_send(ctx, fake_addr(1, TW_SHARD, 0), TW_PUSH, 1, 4000);
	fake_send(ctx, fake_addr(1, TW_SHARD, 0), TW_PULL, 2, 4000);
}

static void shard_tells(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	fake_send(ctx, master_at, TW_STATE, m->h.seq, 0);
}

static void a_shard_is_a_queue(void **state)
{
	static const struct fake master = { .message = master_sees };
	static const struct fake shard = { .message = shard_tells };
	static const struct fake worker = { .start = worker_pushes };
	struct stage st;

	forget(8);
	stage_init(&st, &tw_heap_system, 1, 4, &master, &shard, &worker);
	st.o.apply_rate = 1e6; /* 1000 parameters: 1 ms */
	assert_int_equal(stage_run(&st), TW_OK);
	for (size_t i = 0; i < 8; i++) {
		assert_int_equal(seen.seq[i], 1 + i % 2);
		assert_int_equal(seen.at[i], (int64_t)(1 + i / 2) * MS);
	}
	stage_release(&st);
}

/* Laws. */

static void laws_have_their_means(void **state)
{
	static const struct {
		uint32_t law;
		double shape, variance; /* of the time / mean; 0: infinite or not looked at */
	} cases[] = {
		{ TW_LAW_CONSTANT, 0, 0 },
		{ TW_LAW_UNIFORM, 0, 0.25 / 3 },
		{ TW_LAW_EXPONENTIAL, 0, 1 },
		{ TW_LAW_GAMMA, 0.3, 1 / 0.3 },
		{ TW_LAW_GAMMA, 1, 1 },
		{ TW_LAW_GAMMA, 7.5, 1 / 7.5 },
		{ TW_LAW_PARETO, 3.5, 1 / (3.5 * 1.5) },
		{ TW_LAW_PARETO, 2.2, 0 },
	};
	const struct tw_rng r = tw_rng_make(11, TW_RNG_SIM);
	const int n = 400000;

	for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
		const struct tw_sim_options o = { .law = cases[k].law,
						  .mean = 100 * MS,
						  .spread = 0.5,
						  .shape = cases[k].shape };
		double sum = 0, square = 0, mean;

		for (int i = 0; i < n; i++) {
			const double x = tw_law_draw(&o, &r, (uint64_t)(i % 8), (uint64_t)i) / 1e8;

			assert_true(x >= 0);
			sum += x;
			square += x * x;
		}
		mean = sum / n;
		assert_true(fabs(mean - 1) < 0.01);
		if (cases[k].variance > 0)
			assert_true(fabs((square / n - mean * mean) / cases[k].variance - 1) < 0.1);
	}
}

static void log_normal_has_its_median_and_spread(void **state)
{
	const struct tw_sim_options o = { .law = TW_LAW_LOG_NORMAL,
					  .median = 50 * MS,
					  .sigma = 0.3 };
	const struct tw_rng r = tw_rng_make(12, TW_RNG_SIM);
	const int n = 200000;
	int below = 0, one = 0;

	for (int i = 0; i < n; i++) {
		const double x = tw_law_draw(&o, &r, 3, (uint64_t)i);

		below += x < 50e6;
		one += x < 50e6 * exp(0.3);
	}
	assert_true(fabs((double)below / n - 0.5) < 0.005);
	assert_true(fabs((double)one / n - 0.8413) < 0.005);
}

/* The least of n exponential times has mean 1/n, the largest the n-th harmonic number: costs of
 * different workers are independent. */
static void computes_once(struct tw_actor *a, struct tw_context *ctx)
{
	fake_compute(a, ctx, 0, 1);
}

static void computes_on(struct tw_actor *a, struct tw_context *ctx, struct tw_compute *c)
{
	const uint64_t round = c->in.from;

	if (c->status != TW_OK || c->score.loss != (double)round)
		seen.good = false;
	fake_send(ctx, master_at, TW_DONE, round, 0);
}

/* A barrier: the next round begins when all have come. */
static void barrier(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	const uint32_t n = seen.sends;

	if (a->count++ % n == 0)
		seen.at[0] += tw_now(ctx) - a->since; /* the first */
	if (a->count % n)
		return;
	seen.at[1] += tw_now(ctx) - a->since; /* the last */
	a->since = tw_now(ctx);
	if (++a->last == seen.wanted)
		fake_finish(ctx);
	for (uint32_t i = 1; i <= n; i++)
		fake_send(ctx, fake_addr(i, TW_WORKER, 0), TW_LEASE, a->last, 0);
}

static void next_round(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	fake_compute(a, ctx, m->h.seq, 1);
}

static void order_statistics_of_exponential_times(void **state)
{
	static const struct fake master = { .message = barrier };
	static const struct fake worker = { .start = computes_once,
					    .message = next_round,
					    .computed = computes_on };
	struct stage st;

	forget(20000);
	seen.sends = 5;
	stage_init(&st, &tw_heap_system, 0, 5, &master, NULL, &worker);
	st.o.law = TW_LAW_EXPONENTIAL;
	assert_int_equal(stage_run(&st), TW_OK);
	assert_true(seen.good);
	assert_true(fabs((double)seen.at[0] / 20000 / 1e8 / (1.0 / 5) - 1) < 0.02);
	assert_true(fabs((double)seen.at[1] / 20000 / 1e8 / (137.0 / 60) - 1) < 0.02);
	stage_release(&st);
}

/* Speeds, stragglers. */

static void tells_when(struct tw_actor *a, struct tw_context *ctx, struct tw_compute *c)
{
	fake_send(ctx, master_at, TW_DONE, ctx->self.node, 0);
	if (++a->count < 4)
		fake_compute(a, ctx, a->count, 5);
}

static int64_t seen_of(uint64_t node, size_t nth)
{
	for (size_t i = 0; i < seen.count; i++)
		if (seen.seq[i] == node && nth-- == 0)
			return seen.at[i];
	return -1;
}

static void speeds_and_stragglers(void **state)
{
	static const struct fake master = { .message = master_sees };
	static const struct fake worker = { .start = computes_once, .computed = tells_when };
	static const double speeds[] = { 1, 2 };
	struct stage st;

	forget(16);
	stage_init(&st, &tw_heap_system, 0, 4, &master, NULL, &worker);
	st.o.speeds = (struct tw_f64s){ speeds, 2 };
	st.o.stragglers = 1;
	st.o.slower = 3;
	st.o.straggle_on = 200 * MS;
	st.o.straggle_off = 100 * MS;
	assert_int_equal(stage_run(&st), TW_OK);
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(seen_of(1, i), (int64_t)(i + 1) * 100 * MS);
		assert_int_equal(seen_of(2, i), (int64_t)(i + 1) * 50 * MS);
		assert_int_equal(seen_of(3, i), (int64_t)(i + 1) * 100 * MS);
	}
	/* slow from 0 to 200, well to 300, slow to 500 ms: begins at 0, 150, 300, 450 */
	assert_int_equal(seen_of(4, 0), 150 * MS);
	assert_int_equal(seen_of(4, 1), 300 * MS);
	assert_int_equal(seen_of(4, 2), 450 * MS);
	assert_int_equal(seen_of(4, 3), 600 * MS);
	st.o.straggle_off = 250 * MS; /* well from 200 to 450 ms: 0, 150, 300, 350 */
	forget(16);
	assert_int_equal(stage_run(&st), TW_OK);
	assert_int_equal(seen_of(4, 2), 350 * MS);
	assert_int_equal(seen_of(4, 3), 400 * MS);
	st.o.per_sample = true;
	st.o.stragglers = 0;
	forget(16);
	assert_int_equal(stage_run(&st), TW_OK);
	assert_int_equal(seen_of(1, 0), 100 * MS);
	assert_int_equal(seen_of(1, 3), 1600 * MS);
	stage_release(&st);
}

/* Timers. */

static void sets_timers(struct tw_actor *a, struct tw_context *ctx)
{
	tw_timer(ctx, 0, 10 * MS);
	tw_timer(ctx, 1, 20 * MS);
	tw_timer(ctx, 1, 50 * MS); /* later */
	tw_timer(ctx, 2, 60 * MS);
	tw_timer(ctx, 2, 5 * MS); /* earlier */
	tw_timer(ctx, 15, 40 * MS);
	tw_timer(ctx, 15, -1); /* not at all */
	tw_timer(ctx, 4, 30 * MS);
	tw_timer(ctx, 4, -1);
	tw_timer(ctx, 4, 35 * MS); /* and again */
}

static void sees_timer(struct tw_actor *a, struct tw_context *ctx, uint32_t timer)
{
	see(ctx, timer);
	if (timer == 0 && a->count++ == 0)
		tw_timer(ctx, 0, 0); /* from its own handler */
}

static void timers_fire_once_when_told(void **state)
{
	static const struct fake master = { .start = sets_timers, .timer = sees_timer };
	static const uint64_t timer[] = { 2, 0, 0, 4, 1 };
	static const int64_t at[] = { 5, 10, 10, 35, 50 };
	struct stage st;

	forget(0);
	stage_init(&st, &tw_heap_system, 0, 0, &master, NULL, NULL);
	assert_int_equal(stage_run(&st), TW_REFUSED); /* then nothing can happen any more */
	assert_int_equal(seen.count, 5);
	for (size_t i = 0; i < 5; i++) {
		assert_int_equal(seen.seq[i], timer[i]);
		assert_int_equal(seen.at[i], at[i] * MS);
	}
	assert_int_equal(st.ran.virtual_ns, 50 * MS);
	stage_release(&st);
}

/* Computations. */

static void cancels_soon(struct tw_actor *a, struct tw_context *ctx)
{
	fake_compute(a, ctx, 5, 4);
	tw_timer(ctx, 0, 30 * MS);
}

static void cancels(struct tw_actor *a, struct tw_context *ctx, uint32_t timer)
{
	ctx->world->cancel(ctx, &a->c);
	ctx->world->cancel(ctx, &a->c); /* twice is once */
}

static void sees_cancelled(struct tw_actor *a, struct tw_context *ctx, struct tw_compute *c)
{
	seen.good &= c->status == (a->count ? TW_OK : TW_CANCELLED) && c == &a->c;
	fake_send(ctx, master_at, TW_DONE, a->count, 0);
	if (a->count++ == 0)
		fake_compute(a, ctx, 6, 4);
}

static void cancelled_computations_end_at_once(void **state)
{
	static const struct fake master = { .message = master_sees };
	static const struct fake worker = { .start = cancels_soon,
					    .timer = cancels,
					    .computed = sees_cancelled };

	for (uint32_t threads = 1; threads <= 3; threads++) {
		struct stage st;

		forget(20);
		stage_init(&st, &tw_heap_system, 0, 10, &master, NULL, &worker);
		st.engine.cost = 1e9;
		st.o.threads = threads;
		atomic_store(&fake_spin, 100000);
		assert_int_equal(stage_run(&st), TW_OK);
		atomic_store(&fake_spin, 0);
		assert_true(seen.good);
		for (size_t i = 0; i < 20; i++)
			assert_int_equal(seen.at[i], i < 10 ? 30 * MS : 130 * MS);
		stage_release(&st);
	}
}

static void evaluates(struct tw_actor *a, struct tw_context *ctx)
{
	a->c.pass.kind = TW_PASS_EVALUATE;
	fake_compute(a, ctx, 9, 4);
}

static void sees_score(struct tw_actor *a, struct tw_context *ctx, struct tw_compute *c)
{
	seen.good &= c->status == TW_OK && c->score.loss == 9 && c->score.samples == 4;
	see(ctx, 0);
}

static void evaluations_cost_no_time(void **state)
{
	static const struct fake master = { .start = evaluates, .computed = sees_score };
	struct stage st;

	forget(1);
	stage_init(&st, &tw_heap_system, 0, 0, &master, NULL, NULL);
	assert_int_equal(stage_run(&st), TW_OK);
	assert_true(seen.good);
	assert_int_equal(seen.at[0], 0);
	stage_release(&st);
}

/* Each worker steps w by its gradient and tells; the master folds what it hears, in the order in
 * which it hears it. */
static uint64_t fold;

static void trains(struct tw_actor *a, struct tw_context *ctx, struct tw_compute *c)
{
	uint64_t bits = 0;

	for (int i = 0; i < FAKE_SIZE; i++) {
		uint32_t part;

		a->w[i] -= 0.1f * a->g[i];
		memcpy(&part, &a->w[i], sizeof part);
		bits = bits * 31 + part;
	}
	fake_send(ctx, master_at, TW_DONE, bits, 0);
	if (++a->count < 20)
		fake_compute(a, ctx, a->count * 100 + ctx->self.node, 4);
}

static void folds(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	fold = (fold ^ m->h.seq ^ (uint64_t)tw_now(ctx)) * UINT64_C(0x100000001B3);
	if (++a->count == 200)
		fake_finish(ctx);
}

static void threads_never_show(void **state)
{
	static const struct fake master = { .message = folds };
	static const struct fake worker = { .start = computes_once, .computed = trains };
	static const uint32_t threads[] = { 1, 2, 3, 8, 0 };
	uint64_t first = 0;

	for (size_t k = 0; k < 5; k++) {
		struct stage st;

		fold = 0;
		stage_init(&st, &tw_heap_system, 0, 10, &master, NULL, &worker);
		st.engine.cost = 1e6;
		st.o.law = TW_LAW_LOG_NORMAL;
		st.o.sigma = 0.5;
		st.o.jitter = MS;
		st.o.threads = threads[k];
		atomic_store(&fake_spin, 20000);
		assert_int_equal(stage_run(&st), TW_OK);
		atomic_store(&fake_spin, 0);
		if (k == 0)
			first = fold;
		assert_int_equal(fold, first);
		st.cluster.seed = 2;
		fold = 0;
		assert_int_equal(stage_run(&st), TW_OK);
		assert_int_not_equal(fold, first);
		stage_release(&st);
	}
}

/* Waits. */

static void waits_for_ever(struct tw_actor *a, struct tw_context *ctx)
{
	a->count = 1;
	a->since = tw_now(ctx) + 3 * TW_SECOND;
	tw_timer(ctx, 0, 23 * TW_SECOND);
}

static bool says_wait(const struct tw_actor *a, struct tw_wait *out)
{
	*out = (struct tw_wait){ .whom = { 1, TW_SHARD, 0 },
				 .why = "its answer to push",
				 .step = 41,
				 .since = a->since };
	return a->count != 0;
}

static void waits_are_named_once(void **state)
{
	static const struct fake quiet = { .start = NULL };
	static const struct fake worker = { .start = waits_for_ever, .waiting = says_wait };
	struct stage st;
	const char *line;

	stage_init(&st, &tw_heap_system, 1, 1, &quiet, &quiet, &worker);
	assert_int_equal(stage_run(&st), TW_REFUSED);
	assert_int_equal(st.ran.waits, 1);
	line = strstr(st.lines, "worker 0 has waited 7.0 s for shard 0 on server 0: "
				"its answer to push 41");
	assert_non_null(line);
	assert_null(strstr(line + 1, "has waited 12"));
	assert_null(strstr(st.lines, "has waited 2.0"));
	assert_non_null(strstr(st.ran.error.text,
			       "the simulation is stuck: no event is left: worker 0 has "
			       "waited 20.0 s for shard 0 on server 0"));
	assert_int_equal(st.ran.virtual_ns, 23 * TW_SECOND);
	stage_release(&st);
}

/* A resumed run waits for its own release, and for nobody, until then. */
static void waits_before_the_release_are_not_named(void **state)
{
	static const struct fake quiet = { .start = NULL };
	static const struct fake worker = { .start = waits_for_ever, .waiting = says_wait };
	struct stage st;

	stage_init(&st, &tw_heap_system, 1, 1, &quiet, &quiet, &worker);
	st.o.rest = 1000 * TW_SECOND;
	assert_int_equal(stage_run(&st), TW_REFUSED);
	assert_int_equal(st.ran.waits, 0);
	stage_release(&st);
	stage_init(&st, &tw_heap_system, 1, 1, &quiet, &quiet, &worker);
	st.o.rest = 5 * TW_SECOND; /* a wait from 3 s on counts from then */
	assert_int_equal(stage_run(&st), TW_REFUSED);
	assert_int_equal(st.ran.waits, 1);
	assert_null(strstr(st.lines, "has waited 7.0"));
	stage_release(&st);
}

static void goes_on(struct tw_actor *a, struct tw_context *ctx, uint32_t timer)
{
	tw_timer(ctx, timer, TW_SECOND);
}

static void time_limits_name_waits_too(void **state)
{
	static const struct fake quiet = { .start = NULL };
	static const struct fake worker = { .start = waits_for_ever,
					    .timer = goes_on,
					    .waiting = says_wait };
	struct stage st;

	stage_init(&st, &tw_heap_system, 1, 40, &quiet, &quiet, &worker);
	st.max = 100 * TW_SECOND;
	st.o.start = 10 * TW_SECOND;
	assert_int_equal(stage_run(&st), TW_REFUSED);
	assert_int_equal(st.ran.virtual_ns, 110 * TW_SECOND);
	assert_int_equal(st.ran.waits, 40);
	assert_non_null(strstr(st.ran.error.text, "worker 0 has waited 97.0 s"));
	assert_non_null(strstr(st.ran.error.text, "other actors wait"));
	stage_release(&st);
}

/* Interrupts. */

static bool stops_at_three(void *arg, const struct tw_note *note)
{
	int *notes = arg;

	assert_int_equal(note->at, *notes * TW_SECOND);
	return ++*notes != 3;
}

static void notes_on(struct tw_actor *a, struct tw_context *ctx, uint32_t timer)
{
	struct tw_note note = { .kind = TW_NOTE_APPLY };

	tw_note(ctx, &note);
	tw_timer(ctx, 0, TW_SECOND);
}

static void notes_start(struct tw_actor *a, struct tw_context *ctx)
{
	tw_timer(ctx, 0, 0);
}

static void stops(struct tw_actor *a, struct tw_context *ctx)
{
	tw_give_up(ctx, TW_INTERRUPTED, "as asked");
}

static void observers_and_signals_interrupt(void **state)
{
	static const struct fake master = { .start = notes_start,
					    .timer = notes_on,
					    .interrupt = stops };
	_Atomic int signals = 1;
	struct stage st;
	int notes = 0;

	stage_init(&st, &tw_heap_system, 0, 0, &master, NULL, NULL);
	st.cluster.observer = stops_at_three;
	st.cluster.observer_arg = &notes;
	assert_int_equal(stage_run(&st), TW_INTERRUPTED);
	assert_int_equal(notes, 3);
	assert_string_equal(st.ran.error.text, "master: as asked");
	st.cluster.observer = NULL;
	st.cluster.interrupted = &signals;
	assert_int_equal(stage_run(&st), TW_INTERRUPTED);
	assert_string_equal(st.ran.error.text, "master: as asked");
	signals = 2;
	assert_int_equal(stage_run(&st), TW_INTERRUPTED);
	assert_non_null(strstr(st.ran.error.text, "stopped immediately"));
	stage_release(&st);
}

/* Saving and loading. */

static void saves_two(struct tw_actor *a, struct tw_context *ctx)
{
	struct tw_part part = { .name = "master", .bytes = tw_block_new(ctx->heap, 8) };

	for (uint64_t cut = 1; cut <= 3; cut++) {
		part.bytes->data[0] = 42;
		ctx->world->save(ctx, cut, &part, 1);
	}
	tw_block_drop(part.bytes);
}

static void is_saved(struct tw_actor *a, struct tw_context *ctx, uint64_t cut,
		     enum tw_status status)
{
	seen.good &= status == TW_OK && tw_now(ctx) == 40 * MS;
	if (++a->count == 3)
		ctx->world->look(ctx, 0, UINT64_MAX);
}

static void is_loaded(struct tw_actor *a, struct tw_context *ctx, uint64_t cut,
		      const struct tw_part *parts, size_t count, enum tw_status status)
{
	seen.good &= status == TW_OK && cut == 3 && count == 1 && parts[0].bytes->data[0] == 42;
	see(ctx, cut);
}

static void cuts_are_kept(void **state)
{
	static const struct fake master = { .start = saves_two,
					    .saved = is_saved,
					    .loaded = is_loaded };
	struct stage st;

	forget(1);
	stage_init(&st, &tw_heap_system, 0, 0, &master, NULL, NULL);
	st.o.save_time = 40 * MS;
	assert_int_equal(stage_run(&st), TW_OK);
	assert_true(seen.good);
	assert_int_equal(seen.count, 1);
	stage_release(&st);
}

/* The trace. */

static void noted(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	struct tw_note note = { .kind = TW_NOTE_APPLY, .seq = m->h.seq };

	tw_note(ctx, &note);
	see(ctx, m->h.seq);
}

static size_t trace_count(const json_t *events, const char *ph, const char *cat)
{
	size_t n = 0, i;
	json_t *e;

	json_array_foreach(events, i, e)
	{
		const char *is = json_string_value(json_object_get(e, "cat"));

		assert_true(json_is_integer(json_object_get(e, "pid")));
		n += !strcmp(json_string_value(json_object_get(e, "ph")), ph) &&
		     (!cat || (is && !strcmp(is, cat)));
	}
	return n;
}

static void traces_are_json(void **state)
{
	static const struct fake master = { .message = noted };
	static const struct fake worker = { .start = computes_once, .computed = tells_when };

	for (int fails = 0; fails < 2; fails++) {
		char path[] = "/tmp/thalweg-trace-XXXXXX";
		const int fd = mkstemp(path);
		struct stage st;
		json_error_t why;
		json_t *root, *events;

		assert_true(fd >= 0);
		close(fd);
		forget(fails ? 0 : 8);
		stage_init(&st, &tw_heap_system, 0, 2, &master, NULL, &worker);
		st.trace = path;
		assert_int_equal(stage_run(&st), fails ? TW_REFUSED : TW_OK);
		root = json_load_file(path, 0, &why);
		assert_non_null(root);
		events = json_object_get(root, "traceEvents");
		assert_true(json_is_array(events));
		assert_int_equal(trace_count(events, "X", "compute"), 8);
		assert_int_equal(trace_count(events, "X", "message"), 16);
		assert_int_equal(trace_count(events, "i", "note"), 8);
		assert_int_equal(trace_count(events, "M", NULL), 1 + 3 + 3);
		json_decref(root);
		unlink(path);
		stage_release(&st);
	}
}

static void a_trace_that_cannot_be_written_is_an_error(void **state)
{
	static const struct fake quiet = { .start = NULL };
	struct stage st;
	char path[40];
	int full;

	stage_init(&st, &tw_heap_system, 0, 0, &quiet, NULL, NULL);
	st.trace = "/nonexistent/trace.json";
	assert_int_equal(stage_run(&st), TW_IO);
	assert_non_null(strstr(st.ran.error.text, "/nonexistent/trace.json"));
	st.trace = "/dev/full"; /* a device that was not opened for us */
	assert_int_equal(stage_run(&st), TW_IO);
	assert_non_null(strstr(st.ran.error.text, "it is a device"));
	full = open("/dev/full", O_WRONLY | O_CLOEXEC);
	assert_true(full >= 0);
	snprintf(path, sizeof path, "/dev/fd/%d", full);
	st.trace = path;
	assert_int_equal(stage_run(&st), TW_REFUSED); /* the stall came first */
	close(full);
	stage_release(&st);
}

/* Options. */

static void rows_have_good_defaults(void **state)
{
	struct tw_sim_options o = { 0 };
	struct tw_error why = { 0 };
	struct tw_arena keep;

	tw_arena_init(&keep, &tw_heap_system);
	assert_int_equal(tw_option_defaults(tw_sim_rows, &o, &keep, &why), TW_OK);
	assert_string_equal(why.text, "");
	assert_int_equal(o.mean, 100 * MS);
	assert_int_equal(o.law, TW_LAW_CONSTANT);
	assert_int_equal(o.speeds.count, 0);
	assert_int_equal(o.latency, 100000);
	assert_true(o.bandwidth == 1e10);
	assert_int_equal(o.silent_limit, 15 * TW_SECOND);
	assert_int_equal(tw_sim_check(&o, &why), TW_OK);
	assert_int_equal(tw_option_set(tw_option_find(tw_sim_rows, "compute.law"), &o, "pareto",
				       &keep, &why),
			 TW_OK);
	o.shape = 1;
	assert_int_equal(tw_sim_check(&o, &why), TW_BAD_INPUT);
	assert_non_null(strstr(why.text, "compute.shape"));
	tw_arena_release(&keep);
}

/* Speed. */

static void asks(struct tw_actor *a, struct tw_context *ctx)
{
	fake_compute(a, ctx, 0, 1);
}

static void pushes_on(struct tw_actor *a, struct tw_context *ctx, struct tw_compute *c)
{
	fake_send(ctx, fake_addr(1, TW_SHARD, 0), TW_PUSH, ++a->count, 0);
}

static void steps_on(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	fake_compute(a, ctx, a->count, 1);
}

static void answers(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	fake_send(ctx, m->from, TW_PARAMS, m->h.seq, 0);
	if (++a->count == seen.wanted)
		fake_send(ctx, master_at, TW_STATE, 0, 0);
}

static void ends(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	fake_finish(ctx);
}

static void how_fast(void **state)
{
	static const struct fake master = { .message = ends };
	static const struct fake shard = { .message = answers };
	static const struct fake worker = { .start = asks,
					    .message = steps_on,
					    .computed = pushes_on };

	for (uint32_t n = 1000; n <= 10000; n *= 10) {
		struct timespec t0, t1;
		struct stage st;
		double seconds;

		forget(500000);
		stage_init(&st, &tw_heap_system, 1, n, &master, &shard, &worker);
		st.o.law = TW_LAW_EXPONENTIAL;
		st.o.latency = 100000;
		st.o.bandwidth = 1e10;
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t0);
		assert_int_equal(stage_run(&st), TW_OK);
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t1);
		seconds = (double)(t1.tv_sec - t0.tv_sec) + (double)(t1.tv_nsec - t0.tv_nsec) / 1e9;
		assert_true(st.ran.events >= 3 * 500000 - 2 * n);
		print_message("%u workers: %.2f M handlers entered per second of CPU time\n", n,
			      (double)st.ran.events / seconds / 1e6);
		stage_release(&st);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(many_senders_share_the_receivers_nic),
		cmocka_unit_test(one_sender_shares_its_own_nic),
		cmocka_unit_test(nics_serve_in_order_of_arrival),
		cmocka_unit_test(order_is_kept_under_jitter_and_loss),
		cmocka_unit_test(jitter_and_loss_cost_their_mean),
		cmocka_unit_test(free_and_local_messages_take_no_time),
		cmocka_unit_test(a_message_to_nobody_is_an_error),
		cmocka_unit_test(a_shard_is_a_queue),
		cmocka_unit_test(laws_have_their_means),
		cmocka_unit_test(log_normal_has_its_median_and_spread),
		cmocka_unit_test(order_statistics_of_exponential_times),
		cmocka_unit_test(speeds_and_stragglers),
		cmocka_unit_test(timers_fire_once_when_told),
		cmocka_unit_test(cancelled_computations_end_at_once),
		cmocka_unit_test(evaluations_cost_no_time),
		cmocka_unit_test(threads_never_show),
		cmocka_unit_test(waits_are_named_once),
		cmocka_unit_test(waits_before_the_release_are_not_named),
		cmocka_unit_test(time_limits_name_waits_too),
		cmocka_unit_test(observers_and_signals_interrupt),
		cmocka_unit_test(cuts_are_kept),
		cmocka_unit_test(traces_are_json),
		cmocka_unit_test(a_trace_that_cannot_be_written_is_an_error),
		cmocka_unit_test(rows_have_good_defaults),
		cmocka_unit_test(how_fast),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
