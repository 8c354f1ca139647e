/* SPDX-License-Identifier: Apache-2.0 */
/* test_shard.c - who is answered, and when, by a shard that keeps its minimum and its queue from
 * change to change, against loops over all workers; and what 100,000 workers take. */
#include "base/refusing.h"
#include "node/duty/round/round_books.h"
#include "node/lone_shard.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define SLOTS 9
#define LEAD  3 /* ssp's default */
#define MOST  64

/* Answers: to whom, and to which request. */
struct answers {
	uint32_t slot[MOST];
	uint64_t number[MOST];
	uint32_t count;
};

static void add_answer(struct answers *a, uint32_t slot, uint64_t number)
{
	assert_true(a->count < MOST);
	a->slot[a->count] = slot;
	a->number[a->count++] = number;
}

static void hear(struct lone_shard *l, const struct tw_msg *m)
{
	if (m->h.type == TW_PARAMS || m->h.type == TW_UNCHANGED)
		add_answer(l->arg, m->to.node - LONE_WORKER(0), m->b.params.number);
}

static void same_answers(const struct answers *a, const struct answers *b)
{
	assert_int_equal(a->count, b->count);
	for (uint32_t k = 0; k < a->count; k++) {
		assert_int_equal(a->slot[k], b->slot[k]);
		assert_int_equal(a->number[k], b->number[k]);
	}
}

/* --- ssp, plainly --------------------------------------------------------------------------- */

/* Workers of ssp, and a queue that is looked through after everything that happens. */
struct plain {
	struct {
		bool here, idle;
		uint32_t incarnation;
		uint64_t clock, seq, number;
	} worker[SLOTS];
	uint32_t queue[SLOTS], queued;
	struct answers out;
};

static bool is_active(const struct plain *p, uint32_t k)
{
	return p->worker[k].here && !p->worker[k].idle;
}

static bool least_clock(const struct plain *p, uint64_t *least)
{
	bool any = false;

	for (uint32_t k = 0; k < SLOTS; k++)
		if (is_active(p, k) && (!any || p->worker[k].clock < *least)) {
			*least = p->worker[k].clock;
			any = true;
		}
	return any;
}

static bool may_go(const struct plain *p, uint32_t k)
{
	uint64_t least;

	return !least_clock(p, &least) || p->worker[k].clock <= least + LEAD;
}

static void leave_queue(struct plain *p, uint32_t slot)
{
	uint32_t kept = 0;

	for (uint32_t k = 0; k < p->queued; k++)
		if (p->queue[k] != slot)
			p->queue[kept++] = p->queue[k];
	p->queued = kept;
}

static bool is_queued(const struct plain *p, uint32_t slot)
{
	for (uint32_t k = 0; k < p->queued; k++)
		if (p->queue[k] == slot)
			return true;
	return false;
}

static void release(struct plain *p)
{
	uint32_t kept = 0;

	for (uint32_t k = 0; k < p->queued; k++)
		if (may_go(p, p->queue[k]))
			add_answer(&p->out, p->queue[k], p->worker[p->queue[k]].number);
		else
			p->queue[kept++] = p->queue[k];
	p->queued = kept;
}

/* Whoever comes, or comes back, is not behind the slowest. */
static void catch_up(struct plain *p, uint32_t k)
{
	uint64_t least;

	if (least_clock(p, &least) && p->worker[k].clock < least)
		p->worker[k].clock = least;
}

/* --- the same said to both ------------------------------------------------------------------ */

static struct tw_member member_of(const struct plain *p, uint32_t k)
{
	return (struct tw_member){ k, p->worker[k].incarnation,
				   p->worker[k].here ? TW_LIVE : TW_GONE, LONE_WORKER(k) };
}

static void push(struct lone_shard *l, struct plain *p, uint32_t k, struct tw_block *payload)
{
	struct tw_msg m = lone_push(l, k, p->worker[k].incarnation, ++p->worker[k].seq, payload);

	p->worker[k].clock++;
	m.b.push.clock = p->worker[k].clock;
	m.b.push.number = ++p->worker[k].number;
	leave_queue(p, k);
	if (may_go(p, k))
		add_answer(&p->out, k, p->worker[k].number);
	else
		p->queue[p->queued++] = k;
	release(p);
	lone_say(l, &m);
}

static void pull(struct lone_shard *l, struct plain *p, uint32_t k)
{
	struct tw_msg m = lone_from_worker(l, TW_PULL, k, p->worker[k].incarnation);

	m.b.pull.clock = p->worker[k].clock;
	m.b.pull.number = ++p->worker[k].number;
	if (may_go(p, k)) {
		leave_queue(p, k);
		add_answer(&p->out, k, p->worker[k].number);
	} else if (!is_queued(p, k)) {
		p->queue[p->queued++] = k;
	}
	lone_say(l, &m);
}

static void idle(struct lone_shard *l, struct plain *p, uint32_t k, bool on)
{
	struct tw_msg m = lone_from_master(l, TW_IDLE);

	m.b.idle = (struct tw_body_idle){ k, p->worker[k].incarnation, on, 0 };
	if (p->worker[k].idle && !on)
		catch_up(p, k);
	p->worker[k].idle = on;
	release(p);
	lone_say(l, &m);
}

static void go(struct plain *p, uint32_t k)
{
	p->worker[k].here = p->worker[k].idle = false;
	leave_queue(p, k);
}

static void come(struct plain *p, uint32_t k)
{
	uint64_t least;

	p->worker[k].clock = least_clock(p, &least) ? least : 0;
	p->worker[k].here = true;
	p->worker[k].idle = false;
	p->worker[k].seq = p->worker[k].number = 0;
	p->worker[k].incarnation++;
}

/* A view of one worker. */
static void tell(struct lone_shard *l, struct plain *p, uint32_t k)
{
	const struct tw_member one = member_of(p, k);

	release(p);
	lone_view(l, &one, 1, false);
}

/* A view of everybody who is here, in any order.  Who is idle is said after it. */
static void tell_all(struct lone_shard *l, struct plain *p, uint32_t first)
{
	struct tw_member list[SLOTS];
	bool was_idle[SLOTS];
	uint32_t count = 0;

	for (uint32_t i = 0; i < SLOTS; i++) {
		const uint32_t k = (i + first) % SLOTS;

		was_idle[k] = p->worker[k].idle;
		if (!p->worker[k].here)
			continue;
		list[count++] = member_of(p, k);
		if (was_idle[k])
			catch_up(p, k);
		p->worker[k].idle = false;
	}
	release(p);
	lone_view(l, list, count, true);
	for (uint32_t k = 0; k < SLOTS; k++)
		if (was_idle[k])
			idle(l, p, k, true);
}

static void something_happens(struct lone_shard *l, struct plain *p, uint64_t n,
			      struct tw_block *payload)
{
	const uint64_t what = drawn(2 * n, 100);
	const uint32_t k = (uint32_t)drawn(2 * n + 1, SLOTS);

	if (!p->worker[k].here) {
		come(p, k);
		tell(l, p, k);
	} else if (what < 70) { /* one that waits, or is idle, does not push */
		if (!is_queued(p, k) && !p->worker[k].idle)
			push(l, p, k, payload);
	} else if (what < 80) {
		pull(l, p, k);
	} else if (what < 92) {
		idle(l, p, k, !p->worker[k].idle);
	} else if (what < 96) {
		go(p, k);
		tell(l, p, k);
	} else {
		if (what < 98)
			go(p, k);
		tell_all(l, p, k);
	}
}

static void ssp_answers_as_a_plain_queue_would(void **state)
{
	uint64_t answered = 0, waited = 0;
	struct refusing heap = REFUSING(0);

	(void)state;
	for (uint64_t run = 0; run < 20; run++) {
		struct tw_block *payload = tw_block_new(&tw_heap_system, 10 * sizeof(float));
		struct answers heard = { .count = 0 };
		struct plain p = { .queued = 0 };
		struct lone_shard l;

		memset(payload->data, 0, payload->bytes);
		lone_open(&l, &heap.heap, "ssp", SLOTS);
		l.sent = hear;
		l.arg = &heard;
		for (uint32_t k = 0; k < SLOTS; k++)
			p.worker[k].incarnation = LONE_INCARNATION(0);
		for (uint64_t n = 0; n < 3000; n++) {
			heard.count = p.out.count = 0;
			something_happens(&l, &p, run * 3000 + n, payload);
			same_answers(&heard, &p.out);
			answered += heard.count;
			waited += p.queued;
			assert_int_equal(l.shard->queue.first ? l.shard->queue.first - 1 : SLOTS,
					 p.queued ? p.queue[0] : SLOTS);
		}
		lone_close(&l);
		tw_block_drop(payload);
		assert_int_equal(heap.live, 0);
	}
	assert_true(answered > 10000 && waited > 10000);
}

/* --- rounds --------------------------------------------------------------------------------- */

static struct answers dropped;

static void note(struct tw_context *ctx, struct tw_note *n)
{
	(void)ctx;
	if (n->kind == TW_NOTE_DROP)
		add_answer(&dropped, n->slot, n->seq);
}

/* Everybody stages; a set is committed; whoever is not in it is told so, in the order of slots. */
static void a_round_is_its_set(void **state)
{
	struct refusing heap = REFUSING(0);
	struct tw_block *payload = tw_block_new(&tw_heap_system, 10 * sizeof(float));
	struct tw_member all[SLOTS];
	struct lone_shard l;

	(void)state;
	for (int k = 0; k < 10; k++)
		tw_block_floats(payload)[k] = 1.0f;
	lone_open(&l, &heap.heap, "bsp", SLOTS);
	l.ctx.noting = true;
	l.world.note = note;
	for (uint32_t k = 0; k < SLOTS; k++)
		all[k] = (struct tw_member){ k, LONE_INCARNATION(1), TW_LIVE, LONE_WORKER(k) };
	lone_view(&l, all, SLOTS, true);
	for (uint64_t round = 0; round < 200; round++) {
		struct answers heard = { .count = 0 };
		uint32_t in_set = 0, order[SLOTS];
		uint32_t late[SLOTS], left = 0;
		struct tw_msg m;

		l.arg = &heard;
		l.sent = hear;
		dropped.count = 0;
		for (uint32_t k = 0; k < SLOTS; k++)
			order[k] = (uint32_t)((k * 4 + round) % SLOTS);
		for (uint32_t k = 0; k < SLOTS; k++) {
			const uint64_t seq = tw_shard_worker(l.shard, order[k])->link + 1;

			m = lone_push(&l, order[k], LONE_INCARNATION(1), seq, payload);
			lone_say(&l, &m);
			lone_say(&l, &m); /* sent twice, staged once */
		}
		assert_int_equal(heard.count, 0);
		assert_int_equal(l.shard->round->count, SLOTS);
		m = lone_from_master(&l, TW_COMMIT);
		m.tail = tw_block_new(&tw_heap_system, sizeof all);
		for (uint32_t k = 0; k < SLOTS; k++)
			if (drawn(round * SLOTS + k, 3))
				memcpy(m.tail->data + in_set++ * sizeof all[k], &all[k],
				       sizeof all[k]);
			else
				late[left++] = k;
		m.h.tail = (uint32_t)(in_set * sizeof all[0]);
		m.b.commit = (struct tw_body_commit){ .round = round, .count = in_set };
		lone_say(&l, &m);
		assert_int_equal(l.shard->slice.round, round + 1);
		assert_int_equal(l.shard->round->count, 0);
		assert_int_equal(dropped.count, left);
		for (uint32_t k = 0; k < left; k++)
			assert_int_equal(dropped.slot[k], late[k]);
		assert_int_equal(heard.count, SLOTS); /* oldest first */
		for (uint32_t k = 0; k < SLOTS; k++)
			assert_int_equal(heard.slot[k], order[k]);
		tw_block_drop(m.tail);
	}
	lone_close(&l);
	tw_block_drop(payload);
	assert_int_equal(heap.live, 0);
}

/* --- parts of the parameters ------------------------------------------------------------------ */

static struct {
	uint32_t params, unchanged, have, refused;
} part;

static void hear_part(struct lone_shard *l, const struct tw_msg *m)
{
	(void)l;
	part.params += m->h.type == TW_PARAMS;
	part.unchanged += m->h.type == TW_UNCHANGED;
	part.have += m->h.type == TW_HAVE && !(m->h.flags & TW_FLAG_REFUSED);
	part.refused += m->h.type == TW_HAVE && (m->h.flags & TW_FLAG_REFUSED);
}

/* A round that is of other shards is counted here, and changes nothing; floats in it are refused,
 * and so is a round of this shard without them. */
static void a_round_of_other_shards_is_counted(void **state)
{
	struct refusing heap = REFUSING(0);
	struct tw_block *payload = tw_block_new(&tw_heap_system, 10 * sizeof(float));
	struct tw_member one = { 0, LONE_INCARNATION(1), TW_LIVE, LONE_WORKER(0) };
	uint64_t version = 0, samples = 0;
	struct lone_shard l;

	(void)state;
	for (int k = 0; k < 10; k++)
		tw_block_floats(payload)[k] = 1.0f;
	lone_open(&l, &heap.heap, "bsp", 1);
	l.plan.plan.traffic.fragments = 3;
	l.sent = hear_part;
	lone_view(&l, &one, 1, true);
	for (uint64_t round = 0; round < 30; round++) {
		const bool mine = round % 3 == 0, wrong = round % 5 == 4;
		struct tw_msg m = lone_push(&l, 0, LONE_INCARNATION(1), round + 1, payload);

		memset(&part, 0, sizeof part);
		if (mine == wrong) {
			m.payload = NULL;
			m.h.payload = 0;
		}
		lone_say(&l, &m);
		assert_int_equal(part.have, !wrong);
		assert_int_equal(part.refused, wrong);
		m = lone_from_master(&l, TW_COMMIT);
		m.b.commit = (struct tw_body_commit){ .round = round, .count = !wrong };
		if (!wrong) {
			m.tail = tw_block_new(&tw_heap_system, sizeof one);
			memcpy(m.tail->data, &one, sizeof one);
			m.h.tail = sizeof one;
		}
		lone_say(&l, &m);
		tw_block_drop(m.tail);
		version += mine && !wrong;
		samples += !wrong;
		assert_int_equal(l.shard->slice.version.n, version);
		assert_int_equal(l.shard->slice.tally.samples, samples);
		assert_int_equal(l.shard->slice.tally.updates, version);
		assert_int_equal(l.shard->slice.round, round + 1);
		assert_int_equal(part.params, mine);
		assert_int_equal(part.unchanged, !mine);
	}
	lone_close(&l);
	tw_block_drop(payload);
	assert_int_equal(heap.live, 0);
}

/* --- many ----------------------------------------------------------------------------------- */

static struct {
	struct tw_heap heap; /* must stay first */
	size_t bytes;
} counting;

static void *count_get(struct tw_heap *heap, size_t bytes)
{
	(void)heap;
	counting.bytes += bytes;
	return tw_heap_system.get(&tw_heap_system, bytes);
}

static void count_put(struct tw_heap *heap, void *memory)
{
	(void)heap;
	tw_heap_system.put(&tw_heap_system, memory);
}

/* What a shard gets for workers that have nothing staged. */
static void workers_are_small(void **state)
{
	static const char *const gates[] = { "async", "ssp", "softsync", "bsp" };

	(void)state;
	counting.heap = (struct tw_heap){ count_get, count_put };
	for (size_t g = 0; g < 4; g++) {
		size_t few, many;
		struct lone_shard l;

		counting.bytes = 0;
		lone_open(&l, &counting.heap, gates[g], 1000);
		few = counting.bytes;
		lone_close(&l);
		counting.bytes = 0;
		lone_open(&l, &counting.heap, gates[g], 101000);
		many = counting.bytes;
		lone_close(&l);
		assert_true((many - few) / 100000 <= 240);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ssp_answers_as_a_plain_queue_would),
		cmocka_unit_test(a_round_is_its_set),
		cmocka_unit_test(a_round_of_other_shards_is_counted),
		cmocka_unit_test(workers_are_small),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
