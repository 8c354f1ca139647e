/* SPDX-License-Identifier: Apache-2.0 */
/* test_sim_faults.c - crashes, restarts, partitions, resets, slow nodes, refused memory. */
#include "world/fakes.h"
#include "base/refusing.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const struct tw_addr master_at = { 0, TW_MASTER, 0 };
static const struct tw_addr shard_at = { 1, TW_SHARD, 0 };

/* What happened, as text: "time node what". */
static char story[65536];
static size_t told;

static void tell(struct tw_context *ctx, const char *format, ...)
{
	va_list args;

	told += (size_t)snprintf(story + told, sizeof story - told, "%lld:%u ",
				 (long long)(tw_now(ctx) / MS), ctx->self.node);
	va_start(args, format);
	told += (size_t)vsnprintf(story + told, sizeof story - told, format, args);
	va_end(args);
	told += (size_t)snprintf(story + told, sizeof story - told, "\n");
	assert_true(told < sizeof story - 200);
}

static void forget(void)
{
	told = 0;
	story[0] = 0;
}

static size_t times(const char *what)
{
	size_t n = 0;

	for (const char *at = story; (at = strstr(at, what)) != NULL; at += strlen(what))
		n++;
	return n;
}

static void tells_down(struct tw_actor *a, struct tw_context *ctx, uint32_t node)
{
	tell(ctx, "down %u", node);
}

static void tells_up(struct tw_actor *a, struct tw_context *ctx, uint32_t node, uint32_t boot)
{
	tell(ctx, "up %u boot %u", node, boot);
}

/* Workers that count aloud, every 100 ms, to the master; it ends after a while. */
static void counts(struct tw_actor *a, struct tw_context *ctx, uint32_t timer)
{
	fake_send(ctx, master_at, TW_DONE, ++a->count, 0);
	tw_timer(ctx, 0, 100 * MS);
}

static void counter_start(struct tw_actor *a, struct tw_context *ctx)
{
	tell(ctx, "start boot %u", ctx->boot);
	tw_timer(ctx, 0, 100 * MS);
}

static void hears(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	tell(ctx, "from %u: %llu", m->from.node, (unsigned long long)m->h.seq);
}

static int64_t length;

static void master_start(struct tw_actor *a, struct tw_context *ctx)
{
	tell(ctx, "start boot %u", ctx->boot);
	tw_timer(ctx, 9, length - tw_now(ctx));
}

static void master_end(struct tw_actor *a, struct tw_context *ctx, uint32_t timer)
{
	fake_finish(ctx);
}

static const struct fake hearer = { .start = master_start,
				    .message = hears,
				    .timer = master_end,
				    .up = tells_up,
				    .down = tells_down };
static const struct fake counter = {
	.start = counter_start, .timer = counts, .up = tells_up, .down = tells_down
};
static const struct fake bystander = { .up = tells_up, .down = tells_down };

static void run_story(struct tw_fault fault, int64_t lasts, uint32_t workers, int64_t latency)
{
	struct stage st;

	forget();
	length = lasts;
	stage_init(&st, &tw_heap_system, 1, workers, &hearer, &bystander, &counter);
	st.o.latency = latency;
	st.fault[st.faults++] = fault;
	assert_int_equal(stage_run(&st), TW_OK);
	assert_int_equal(st.ran.virtual_ns, length);
	stage_release(&st);
}

static void a_crash_is_noticed_at_the_limit(void **state)
{
	run_story((struct tw_fault){ TW_FAULT_CRASH, .a = 2, .at = 1050 * MS, .lasts = -1 },
		  5 * TW_SECOND, 2, 10 * MS);
	assert_int_equal(times("from 2:"), 10);
	assert_int_equal(times("from 3:"), 49);
	assert_non_null(strstr(story, "\n3050:0 down 2\n3050:1 down 2\n"));
	assert_int_equal(times("down"), 2); /* workers have no links to each other */
	assert_int_equal(times("up"), 0);
	assert_int_equal(times("start"), 3);
}

static void a_quick_restart_is_an_up_and_no_down(void **state)
{
	run_story((struct tw_fault){ TW_FAULT_CRASH, .a = 2, .at = 1050 * MS, .lasts = 500 * MS },
		  5 * TW_SECOND, 2, 10 * MS);
	assert_non_null(strstr(story, "1550:2 start boot 2\n1550:2 up 0 boot 1\n"
				      "1550:2 up 1 boot 1\n1550:0 up 2 boot 2\n"
				      "1550:1 up 2 boot 2\n"));
	assert_int_equal(times("down"), 0);
	assert_int_equal(times("from 2: 1\n"), 2); /* it has lost its memory */
	assert_non_null(strstr(story, "1660:0 from 2: 1\n"));
}

static void a_late_restart_is_down_then_up(void **state)
{
	run_story((struct tw_fault){ TW_FAULT_CRASH, .a = 1, .at = TW_SECOND,
				     .lasts = 3 * TW_SECOND },
		  5 * TW_SECOND, 2, 10 * MS);
	assert_int_equal(times("down 1"), 3);
	assert_non_null(strstr(story, "\n3000:0 down 1\n"));
	assert_non_null(strstr(story, "\n4000:0 up 1 boot 2\n"));
	assert_int_equal(times("up 1 boot 2"), 3);
	assert_int_equal(times("4000:1 up"), 3);
}

static void the_master_may_crash_too(void **state)
{
	run_story((struct tw_fault){ TW_FAULT_CRASH, .a = 0, .at = 1005 * MS,
				     .lasts = 4 * TW_SECOND },
		  10 * TW_SECOND, 1, 10 * MS);
	assert_int_equal(times("start boot 2"), 1);
	assert_int_equal(times("down 0"), 2);
	assert_int_equal(times("up 0 boot 2"), 2);
	/* what was said to nobody is lost, also what was on its way (sent at 1000) */
	assert_null(strstr(story, "from 2: 10\n"));
	assert_null(strstr(story, "from 2: 49\n"));
	assert_non_null(strstr(story, "from 2: 51\n"));
}

/* A message leaves a slow NIC byte by byte: what has not left when its sender dies never does,
 * what has left arrives after its death, unless the receiver was told before that the sender is
 * dead, or is back: that is a new connection. */
static void sends_three(struct tw_actor *a, struct tw_context *ctx)
{
	if (ctx->boot == 1)
		for (uint64_t i = 1; i <= 3; i++)
			fake_send(ctx, master_at, TW_DONE, i, 100000);
}

static void a_crash_loses_what_has_not_left(void **state)
{
	static const struct fake sender = { .start = sends_three };
	struct stage st;

	for (int back = 0; back < 3; back++) {
		const int arrive = back == 0;

		forget();
		length = 9 * TW_SECOND;
		stage_init(&st, &tw_heap_system, 0, 1, &hearer, NULL, &sender);
		st.o.bandwidth = 8e5; /* 1 s each */
		st.o.latency = 4 * TW_SECOND;
		st.o.closed_limit = back == 2 ? TW_SECOND : 8 * TW_SECOND;
		st.fault[st.faults++] = (struct tw_fault){ TW_FAULT_CRASH, .a = 1, .at = 2500 * MS,
							   .lasts = back == 1 ? 10 * MS : -1 };
		assert_int_equal(stage_run(&st), TW_OK);
		assert_int_equal(times("from 1: 1\n"), arrive);
		assert_int_equal(times("from 1: 2\n"), arrive);
		assert_int_equal(times("from 1: 3\n"), 0);
		stage_release(&st);
	}
}

static void short_partitions_are_delay(void **state)
{
	run_story((struct tw_fault){ TW_FAULT_PARTITION, .a = 2, .b = 0, .at = 1005 * MS,
				     .lasts = 5 * TW_SECOND },
		  10 * TW_SECOND, 1, 10 * MS);
	assert_int_equal(times("up"), 0);
	assert_int_equal(times("down"), 0);
	for (int i = 1; i < 99; i++) { /* all, and in order */
		char line[64];
		const int64_t sent = 100 * i;

		snprintf(line, sizeof line, "%lld:0 from 2: %d\n",
			 (long long)(sent + 10 > 1005 && sent + 10 < 6005 ? 6005 : sent + 10), i);
		assert_non_null(strstr(story, line));
	}
	assert_int_equal(times("from 2"), 99);
	assert_non_null(strstr(story, "6005:0 from 2: 10\n6005:0 from 2: 11\n"));
}

static void long_partitions_are_down_then_up(void **state)
{
	run_story((struct tw_fault){ TW_FAULT_PARTITION, .a = 2, .b = TW_EVERYBODY, .at = 1005 * MS,
				     .lasts = 20 * TW_SECOND },
		  25 * TW_SECOND, 2, 10 * MS);
	assert_int_equal(times("16005:0 down 2"), 1);
	assert_int_equal(times("16005:2 down 0"), 1);
	assert_int_equal(times("16005:1 down 2"), 1);
	assert_int_equal(times("16005:2 down 1"), 1);
	assert_int_equal(times("down"), 4);
	assert_int_equal(times("21005:0 up 2 boot 1"), 1);
	assert_int_equal(times("21005:2 up 0 boot 1"), 1);
	assert_int_equal(times("up"), 4);
	assert_non_null(strstr(story, "from 2: 9\n"));
	assert_null(strstr(story, "from 2: 10\n")); /* held, then given up */
	assert_null(strstr(story, "from 2: 210\n"));
	assert_non_null(strstr(story, "21110:0 from 2: 211\n"));
	assert_int_equal(times("from 3"), 249);
}

static void a_restart_behind_a_partition_shows_when_it_heals(void **state)
{
	struct stage st;

	forget();
	length = 12 * TW_SECOND;
	stage_init(&st, &tw_heap_system, 1, 1, &hearer, &bystander, &counter);
	st.fault[st.faults++] = (struct tw_fault){ TW_FAULT_PARTITION, .a = 2, .b = 0,
						   .at = TW_SECOND, .lasts = 8 * TW_SECOND };
	st.fault[st.faults++] = (struct tw_fault){ TW_FAULT_CRASH, .a = 2, .at = 2 * TW_SECOND,
						   .lasts = 3 * TW_SECOND };
	assert_int_equal(stage_run(&st), TW_OK);
	assert_int_equal(times("4000:1 down 2"), 1); /* the server sees the crash */
	assert_int_equal(times("down"), 1);          /* and only the server */
	assert_int_equal(times("5000:1 up 2 boot 2"), 1);
	assert_int_equal(times("9000:0 up 2 boot 2"), 1);
	assert_int_equal(times("9000:2 up 0 boot 1"), 1);
	assert_int_equal(times("up"), 4);
	stage_release(&st);
}

static void a_crash_behind_a_partition_shows_once(void **state)
{
	struct stage st;

	forget();
	length = 40 * TW_SECOND;
	stage_init(&st, &tw_heap_system, 1, 1, &hearer, &bystander, &counter);
	st.fault[st.faults++] = (struct tw_fault){ TW_FAULT_PARTITION, .a = 2, .b = 0,
						   .at = TW_SECOND, .lasts = 15500 * MS };
	st.fault[st.faults++] = (struct tw_fault){ TW_FAULT_CRASH, .a = 2, .at = 15500 * MS,
						   .lasts = 5 * TW_SECOND };
	assert_int_equal(stage_run(&st), TW_OK);
	assert_int_equal(times("16000:0 down 2"), 1);
	assert_int_equal(times("17500:1 down 2"), 1);
	assert_int_equal(times("down 2"), 2);
	assert_int_equal(times("20500:0 up 2 boot 2"), 1);
	stage_release(&st);
}

/* Over many resets the message on its way arrives at once, never, or late, and never twice. */
static void resets_deliver_lose_and_delay(void **state)
{
	size_t lost = 0, prompt = 0;

	for (int64_t k = 0; k < 60; k++) {
		struct stage st;
		bool got[51] = { false };

		forget();
		length = 6 * TW_SECOND;
		stage_init(&st, &tw_heap_system, 1, 1, &hearer, &bystander, &counter);
		st.cluster.seed = 1 + (uint64_t)k;
		st.o.latency = 90 * MS;
		st.fault[st.faults++] =
			(struct tw_fault){ TW_FAULT_RESET, .a = 0, .b = 2, .at = 2088 * MS };
		assert_int_equal(stage_run(&st), TW_OK);
		assert_int_equal(times("2088:0 up 2 boot 1"), 1);
		assert_int_equal(times("2088:2 up 0 boot 1"), 1);
		assert_int_equal(times("up"), 2);
		for (const char *at = story; (at = strstr(at, "from 2: ")) != NULL; at += 8) {
			const uint64_t seq = strtoull(at + 8, NULL, 10);

			if (seq > 50)
				continue;
			assert_false(got[seq]);
			got[seq] = true;
		}
		for (int i = 1; i <= 50; i++) {
			if (i != 20) /* the only one on its way at 2088 */
				assert_true(got[i]);
			else
				lost += !got[i];
		}
		prompt += times("2088:0 from 2: 20\n");
		stage_release(&st);
	}
	assert_true(lost > 8 && lost < 32);
	assert_true(prompt > 8 && prompt < 32);
}

/* Late means behind newer ones when those are quick. */
static void chatters(struct tw_actor *a, struct tw_context *ctx, uint32_t timer)
{
	fake_send(ctx, master_at, TW_DONE, ++a->count, 0);
	tw_timer(ctx, 0, 1 * MS);
}

static void resets_reorder(void **state)
{
	static const struct fake chatterer = { .start = counter_start, .timer = chatters };
	uint64_t newest = 0;
	size_t late = 0;
	struct stage st;

	forget();
	length = TW_SECOND;
	stage_init(&st, &tw_heap_system, 1, 1, &hearer, &bystander, &chatterer);
	st.o.latency = 20 * MS;
	st.fault[st.faults++] =
		(struct tw_fault){ TW_FAULT_RESET, .a = 2, .b = TW_EVERYBODY, .at = 500 * MS };
	assert_int_equal(stage_run(&st), TW_OK);
	for (const char *at = story; (at = strstr(at, "from 2: ")) != NULL; at += 8) {
		const uint64_t seq = strtoull(at + 8, NULL, 10);

		late += seq < newest;
		newest = seq > newest ? seq : newest;
	}
	assert_true(late > 0 && late < 20);
	stage_release(&st);
}

/* What is said in answer to a message that just made it is said on the connection that breaks. */
static void echoes(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	tell(ctx, "from %u: %llu", m->from.node, (unsigned long long)m->h.seq);
	if (m->from.node != ctx->self.node)
		fake_send(ctx, m->from, TW_ACK, m->h.seq, 0);
}

static void answers_on_a_broken_connection_are_lost(void **state)
{
	static const struct fake master = { .start = master_start,
					    .message = echoes,
					    .timer = master_end };
	static const struct fake worker = { .start = counter_start,
					    .timer = counts,
					    .message = hears };
	size_t prompt = 0;

	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct stage st;

		forget();
		length = TW_SECOND;
		stage_init(&st, &tw_heap_system, 0, 1, &master, NULL, &worker);
		st.cluster.seed = seed;
		st.o.latency = 10 * MS;
		st.fault[st.faults++] =
			(struct tw_fault){ TW_FAULT_RESET, .a = 0, .b = 1, .at = 505 * MS };
		assert_int_equal(stage_run(&st), TW_OK);
		if (strstr(story, "505:0 from 1: 5\n")) {
			prompt++;
			assert_null(strstr(story, ":1 from 0: 5\n"));
		}
		assert_non_null(strstr(story, ":1 from 0: 4\n"));
		assert_non_null(strstr(story, ":1 from 0: 6\n"));
		stage_release(&st);
	}
	assert_true(prompt > 0);
}

static void slow_start(struct tw_actor *a, struct tw_context *ctx)
{
	fake_compute(a, ctx, 0, 1);
}

static void slow_on(struct tw_actor *a, struct tw_context *ctx, struct tw_compute *c)
{
	tell(ctx, "computed");
	fake_compute(a, ctx, ++a->count, 1);
}

static void slow_nodes_are_slow_for_a_while(void **state)
{
	static const struct fake worker = { .start = slow_start, .computed = slow_on };
	struct stage st;

	forget();
	length = 2 * TW_SECOND;
	stage_init(&st, &tw_heap_system, 0, 2, &hearer, NULL, &worker);
	st.fault[st.faults++] = (struct tw_fault){ TW_FAULT_SLOW, .a = 1, .at = 150 * MS,
						   .lasts = 500 * MS, .factor = 4 };
	assert_int_equal(stage_run(&st), TW_OK);
	/* begins at 0, 100, 200 (slow), 600 (slow), 1000, 1100 ... */
	assert_int_equal(times(":1 computed"), 13);
	assert_int_equal(times("600:1 computed"), 2);
	assert_int_equal(times("1000:1 computed"), 1);
	assert_int_equal(times(":2 computed"), 19);
	stage_release(&st);
}

/* A small protocol that any fault may hit: workers ask the shard until it has answered ten times,
 * then tell the master, which ends when all have; everybody asks again when it may be needed. */
#define WORKERS 3
#define STEPS   10

static bool done[1 + 1 + WORKERS];
static uint64_t hash;

static void protocol_ask(struct tw_actor *a, struct tw_context *ctx)
{
	if (a->count < STEPS)
		fake_send(ctx, shard_at, TW_PUSH, a->count + 1, 64);
	else
		fake_send(ctx, master_at, TW_DONE, a->count, 0);
	tw_timer(ctx, 1, TW_SECOND);
}

static void protocol_start(struct tw_actor *a, struct tw_context *ctx)
{
	fake_compute(a, ctx, 0, 1);
}

static void protocol_computed(struct tw_actor *a, struct tw_context *ctx, struct tw_compute *c)
{
	if (c->status == TW_NO_MEMORY)
		tw_give_up(ctx, c->status, "no memory for scratch");
	protocol_ask(a, ctx);
}

static void protocol_again(struct tw_actor *a, struct tw_context *ctx, uint32_t timer)
{
	protocol_ask(a, ctx);
}

static void protocol_up(struct tw_actor *a, struct tw_context *ctx, uint32_t node, uint32_t boot)
{
	if (!a->c.world)
		protocol_ask(a, ctx);
}

static void protocol_answer(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	if (m->h.seq != a->count + 1 || a->c.world)
		return;
	tw_block_drop(a->kept);
	a->kept = tw_block_keep(m->payload);
	a->count++;
	fake_compute(a, ctx, a->count, 1);
}

static void protocol_serve(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	fake_send(ctx, m->from, TW_PARAMS, m->h.seq, 256);
}

static void protocol_save(struct tw_context *ctx, uint64_t cut)
{
	struct tw_part part = { .name = "master", .bytes = tw_block_new(ctx->heap, 8) };

	if (!part.bytes) {
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for a part");
		return;
	}
	ctx->world->save(ctx, cut, &part, 1);
	tw_block_drop(part.bytes);
}

static void protocol_saved(struct tw_actor *a, struct tw_context *ctx, uint64_t cut,
			   enum tw_status status)
{
	if (status != TW_OK)
		tw_give_up(ctx, status, "not saved");
	else
		ctx->world->look(ctx, 0, UINT64_MAX);
}

static void protocol_loaded(struct tw_actor *a, struct tw_context *ctx, uint64_t cut,
			    const struct tw_part *parts, size_t count, enum tw_status status)
{
	if (status != TW_OK)
		tw_give_up(ctx, status, "not loaded");
	else if (count != 1 || cut == 0)
		tw_give_up(ctx, TW_BAD_BYTES, "the cut that was saved is not there");
}

static void protocol_done(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	hash = (hash ^ m->from.node ^ (uint64_t)tw_now(ctx)) * UINT64_C(0x100000001B3);
	if (!done[m->from.node])
		protocol_save(ctx, m->from.node);
	done[m->from.node] = true;
	for (uint32_t i = 2; i < 2 + WORKERS; i++)
		if (!done[i])
			return;
	fake_finish(ctx);
}

static const struct fake protocol_master = { .message = protocol_done,
					     .saved = protocol_saved,
					     .loaded = protocol_loaded };
static const struct fake protocol_shard = { .message = protocol_serve };
static const struct fake protocol_worker = { .start = protocol_start,
					     .computed = protocol_computed,
					     .message = protocol_answer,
					     .timer = protocol_again,
					     .up = protocol_up };

static void protocol_stage(struct stage *st, struct tw_heap *heap)
{
	memset(done, 0, sizeof done);
	hash = 0;
	stage_init(st, heap, 1, WORKERS, &protocol_master, &protocol_shard, &protocol_worker);
	st->o.latency = MS;
	st->o.bandwidth = 1e6;
	st->o.jitter = MS;
	st->o.loss = 0.1;
	st->o.apply_rate = 1e5;
	st->o.save_time = 50 * MS;
	st->o.law = TW_LAW_GAMMA;
	st->o.shape = 2;
	st->max = 3600 * TW_SECOND;
}

static void any_node_may_die_at_any_event(void **state)
{
	for (uint32_t victim = 0; victim < 2 + WORKERS; victim++) {
		uint64_t event = 0;
		bool killed;

		do {
			struct stage st;

			event++;
			protocol_stage(&st, &tw_heap_system);
			st.fault[st.faults++] =
				(struct tw_fault){ TW_FAULT_KILL_AT, .a = victim, .event = event,
						   .lasts = 700 * MS };
			assert_int_equal(stage_run(&st), TW_OK);
			killed = st.ran.events > event;
			stage_release(&st);
		} while (killed);
		assert_true(event > 50);
	}
}

/* Who is killed by its own handler dies between any two of its sends. */
static void a_handler_may_be_cut_short(void **state)
{
	static const struct fake sender = { .start = sends_three };
	bool seen[4] = { false };

	for (uint64_t seed = 1; seed <= 40; seed++) {
		struct stage st;
		size_t n;

		forget();
		length = TW_SECOND;
		stage_init(&st, &tw_heap_system, 0, 1, &hearer, NULL, &sender);
		st.cluster.seed = seed;
		st.fault[st.faults++] =
			(struct tw_fault){ TW_FAULT_KILL_AT, .a = 1, .event = 2, .lasts = -1 };
		assert_int_equal(stage_run(&st), TW_OK);
		n = times("from 1: ");
		assert_true(n <= 3);
		for (size_t i = 1; i <= n; i++) { /* the first n */
			char line[32];

			snprintf(line, sizeof line, "from 1: %zu\n", i);
			assert_int_equal(times(line), 1);
		}
		seen[n] = true;
		stage_release(&st);
	}
	assert_true(seen[0] && seen[1] && seen[2] && seen[3]);
}

static void random_faults_are_the_same_again(void **state)
{
	uint64_t first = 0;

	for (uint64_t seed = 1; seed <= 400; seed++) {
		uint64_t hashes[2] = { 0, 0 };
		struct stage st;

		for (int again = 0; again < 2; again++) {
			protocol_stage(&st, &tw_heap_system);
			st.o.fault_seed = seed;
			st.o.fault_span = 2 * TW_SECOND;
			st.o.random_crashes = 2;
			st.o.random_partitions = 1;
			st.o.random_resets = 4;
			st.o.random_slow = 1;
			st.o.threads = 1 + (uint32_t)again;
			/* a worker that is gone for good leaves the others to end the run */
			if (stage_run(&st) != TW_OK)
				assert_non_null(strstr(st.ran.error.text, "limit of virtual time"));
			hashes[again] = hash ^ st.ran.events ^ (uint64_t)st.ran.virtual_ns;
			stage_release(&st);
		}
		assert_int_equal(hashes[0], hashes[1]);
		if (seed == 1)
			first = hashes[0];
		else if (seed == 2)
			assert_int_not_equal(first, hashes[0]);
	}
}

static void every_allocation_may_fail(void **state)
{
	for (unsigned nth = 1;; nth++) {
		struct refusing r = REFUSING(nth);
		struct stage st;
		enum tw_status status;

		protocol_stage(&st, &r.heap);
		st.fault[st.faults++] = (struct tw_fault){ TW_FAULT_CRASH, .a = 2, .at = 300 * MS,
							   .lasts = 10 * MS };
		st.fault[st.faults++] = (struct tw_fault){ TW_FAULT_PARTITION, .a = 0, .b = 3,
							   .at = 200 * MS, .lasts = 900 * MS };
		st.fault[st.faults++] = (struct tw_fault){ TW_FAULT_RESET, .a = 1,
							   .b = TW_EVERYBODY, .at = 500 * MS };
		st.o.threads = 2;
		status = stage_run(&st);
		assert_int_equal(r.live, 0);
		stage_release(&st);
		if (r.calls < nth) {
			assert_int_equal(status, TW_OK);
			assert_true(nth > 100);
			return;
		}
		assert_int_equal(status, TW_NO_MEMORY);
	}
}

/* Who crashes while it saves leaves a whole cut or none: over many cuts, both. */
static uint64_t found;

static void crash_saver_start(struct tw_actor *a, struct tw_context *ctx)
{
	if (ctx->boot == 1)
		protocol_save(ctx, 7);
	else
		ctx->world->look(ctx, 0, UINT64_MAX);
}

static void crash_saver_loaded(struct tw_actor *a, struct tw_context *ctx, uint64_t cut,
			       const struct tw_part *parts, size_t count, enum tw_status status)
{
	assert_int_equal(status, TW_OK);
	assert_true((cut == 7 && count == 1) || (cut == 0 && count == 0));
	found += cut == 7;
	fake_finish(ctx);
}

static void a_save_in_a_crash_is_whole_or_absent(void **state)
{
	static const struct fake saver = { .start = crash_saver_start,
					   .loaded = crash_saver_loaded };

	found = 0;
	for (uint64_t seed = 1; seed <= 40; seed++) {
		struct stage st;

		stage_init(&st, &tw_heap_system, 0, 0, &saver, NULL, NULL);
		st.cluster.seed = seed;
		st.o.save_time = TW_SECOND;
		st.fault[st.faults++] = (struct tw_fault){ TW_FAULT_CRASH, .a = 0, .at = 500 * MS,
							   .lasts = 10 * MS };
		assert_int_equal(stage_run(&st), TW_OK);
		stage_release(&st);
	}
	assert_true(found > 5 && found < 35);
}

/* Short partitions, jitter, loss and slow NICs: whatever happens, a link that lives keeps order. */
static uint64_t heard[8];
static bool in_order;

static void hears_in_order(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m)
{
	in_order &= m->h.seq == heard[m->from.node] + 1;
	heard[m->from.node] = m->h.seq;
	if (++a->count == 600)
		fake_finish(ctx);
}

static void chatters_with_weight(struct tw_actor *a, struct tw_context *ctx, uint32_t timer)
{
	a->count++;
	fake_send(ctx, master_at, TW_DONE, a->count, (uint32_t)(a->count * 37 % 500));
	tw_timer(ctx, 0, (int64_t)(a->count * 7919 % 13) * MS);
}

static void links_that_live_keep_order(void **state)
{
	static const struct fake listener = { .message = hears_in_order, .down = tells_down };
	static const struct fake chatterer = { .start = counter_start,
					       .timer = chatters_with_weight };

	for (uint64_t seed = 1; seed <= 200; seed++) {
		struct stage st;

		forget();
		memset(heard, 0, sizeof heard);
		in_order = true;
		stage_init(&st, &tw_heap_system, 0, 4, &listener, NULL, &chatterer);
		st.cluster.seed = seed;
		st.o.latency = seed % 3 * MS;
		st.o.jitter = seed % 2 * 9 * MS;
		st.o.loss = seed % 4 ? 0 : 0.2;
		st.o.bandwidth = seed % 5 ? 1e6 : 0;
		st.o.silent_limit = 100 * MS;
		for (int i = 0; i < 4; i++)
			st.fault[st.faults++] = (struct tw_fault){
				TW_FAULT_PARTITION,
				.a = (uint32_t)(seed + (uint64_t)i) % 5,
				.b = TW_EVERYBODY,
				.at = (50 + 211 * i + (int64_t)seed) * MS,
				.lasts = (20 + (int64_t)seed % 70) * MS,
			};
		assert_int_equal(stage_run(&st), TW_OK);
		assert_true(in_order);
		assert_int_equal(times("down"), 0);
		stage_release(&st);
	}
}

static void resumed_runs_meet_what_lasts(void **state)
{
	struct stage st;

	forget();
	length = 110 * TW_SECOND;
	stage_init(&st, &tw_heap_system, 1, 2, &hearer, &bystander, &counter);
	st.o.start = 100 * TW_SECOND;
	st.fault[st.faults++] = (struct tw_fault){ TW_FAULT_CRASH, .a = 3, .at = 99 * TW_SECOND,
						   .lasts = 30 * TW_SECOND };
	st.fault[st.faults++] = (struct tw_fault){ TW_FAULT_PARTITION, .a = 2, .b = 0,
						   .at = 99 * TW_SECOND, .lasts = 3 * TW_SECOND };
	assert_int_equal(stage_run(&st), TW_OK);
	assert_int_equal(times("down"), 0);
	assert_int_equal(times("102000:0 from 2:"), 20);
	assert_int_equal(times("from 3:"), 99);
	stage_release(&st);
}

/* 10,000 workers, and the one node that all of them talk to goes. */
static uint64_t ups, downs;

static void counts_up(struct tw_actor *a, struct tw_context *ctx, uint32_t node, uint32_t boot)
{
	ups++;
}

static void counts_down(struct tw_actor *a, struct tw_context *ctx, uint32_t node)
{
	downs++;
}

static void many_nodes_hear_of_the_master(void **state)
{
	static const struct fake master = { .start = master_start,
					    .timer = master_end,
					    .up = counts_up };
	static const struct fake worker = { .up = counts_up, .down = counts_down };
	struct stage st;

	forget();
	ups = downs = 0;
	length = 60 * TW_SECOND;
	stage_init(&st, &tw_heap_system, 0, 10000, &master, NULL, &worker);
	st.fault[st.faults++] = (struct tw_fault){ TW_FAULT_CRASH, .a = 0, .at = TW_SECOND,
						   .lasts = 5 * TW_SECOND };
	st.fault[st.faults++] = (struct tw_fault){ TW_FAULT_PARTITION, .a = 0, .b = TW_EVERYBODY,
						   .at = 10 * TW_SECOND, .lasts = 20 * TW_SECOND };
	assert_int_equal(stage_run(&st), TW_OK);
	assert_int_equal(downs, 2 * 10000);
	assert_int_equal(ups, 2 * 2 * 10000);
	stage_release(&st);
}

static void wrong_faults_are_refused(void **state)
{
	static const struct tw_fault wrong[] = {
		{ TW_FAULT_CRASH, .a = 3 },
		{ TW_FAULT_RESET, .a = 0, .b = 3 },
		{ TW_FAULT_SLOW, .a = 1, .factor = 0 },
		{ TW_FAULT_LEAVE, .a = 0 },
		{ TW_FAULT_LEAVE, .a = 3 },
	};

	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		struct stage st;

		stage_init(&st, &tw_heap_system, 1, 1, &hearer, &bystander, &counter);
		st.fault[st.faults++] = wrong[i];
		assert_int_equal(stage_run(&st), TW_BAD_INPUT);
		assert_non_null(strstr(st.ran.error.text, "fault 0"));
		stage_release(&st);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_crash_is_noticed_at_the_limit),
		cmocka_unit_test(a_quick_restart_is_an_up_and_no_down),
		cmocka_unit_test(a_late_restart_is_down_then_up),
		cmocka_unit_test(the_master_may_crash_too),
		cmocka_unit_test(a_crash_loses_what_has_not_left),
		cmocka_unit_test(short_partitions_are_delay),
		cmocka_unit_test(long_partitions_are_down_then_up),
		cmocka_unit_test(a_restart_behind_a_partition_shows_when_it_heals),
		cmocka_unit_test(a_crash_behind_a_partition_shows_once),
		cmocka_unit_test(resets_deliver_lose_and_delay),
		cmocka_unit_test(resets_reorder),
		cmocka_unit_test(answers_on_a_broken_connection_are_lost),
		cmocka_unit_test(slow_nodes_are_slow_for_a_while),
		cmocka_unit_test(any_node_may_die_at_any_event),
		cmocka_unit_test(a_handler_may_be_cut_short),
		cmocka_unit_test(random_faults_are_the_same_again),
		cmocka_unit_test(every_allocation_may_fail),
		cmocka_unit_test(a_save_in_a_crash_is_whole_or_absent),
		cmocka_unit_test(links_that_live_keep_order),
		cmocka_unit_test(resumed_runs_meet_what_lasts),
		cmocka_unit_test(many_nodes_hear_of_the_master),
		cmocka_unit_test(wrong_faults_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
