/* SPDX-License-Identifier: Apache-2.0 */
/* test_early.c - messages that come before what they belong to wait, in order, and in a room that
 * no peer can make larger. */
#include "node/duty/mix/mix_state.h"
#include "node/lone_shard.h"
#include "strategy/mixing.h"
#include "strategy/reduction.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

/* --- the queue -------------------------------------------------------------------------------- */

/* Allocations that are not given back. */
struct counting {
	struct tw_heap heap;
	uint64_t live, most;
	uint64_t refuse; /* the allocation of this number, from 1, is refused; 0: none */
	uint64_t calls;
};

static void *get(struct tw_heap *heap, size_t bytes)
{
	struct counting *c = (struct counting *)heap;

	if (++c->calls == c->refuse)
		return NULL;
	c->live++;
	c->most = c->live > c->most ? c->live : c->most;
	return tw_heap_system.get(&tw_heap_system, bytes);
}

static void put(struct tw_heap *heap, void *p)
{
	struct counting *c = (struct counting *)heap;

	c->live -= p != NULL;
	tw_heap_system.put(&tw_heap_system, p);
}

static struct counting counting_heap(void)
{
	return (struct counting){ .heap = { .get = get, .put = put } };
}

/* An actor that has come to generation `now`, and writes down what it hears. */
struct listener {
	uint64_t now, count;
	uint64_t heard[64];
};

static enum tw_door door(const void *actor, const struct tw_msg *m)
{
	const struct listener *l = actor;

	return m->h.view == l->now  ? TW_DOOR_NOW
	       : m->h.view > l->now ? TW_DOOR_EARLY
				    : TW_DOOR_VOID;
}

static void hear(void *actor, struct tw_context *ctx, const struct tw_msg *m)
{
	struct listener *l = actor;

	(void)ctx;
	assert_true(l->count < 64);
	l->heard[l->count++] = m->h.seq;
}

static struct tw_msg said(uint32_t node, uint64_t view, uint64_t seq)
{
	struct tw_msg m = { .from = { node, TW_SHARD, 0 } };

	m.h.view = view;
	m.h.seq = seq;
	return m;
}

static void what_waits_is_heard_in_order(void **state)
{
	static const uint64_t view[] = { 3, 2, 3, 4, 2, 3, 1 };
	struct counting c = counting_heap();
	struct listener l = { .now = 1 };
	struct tw_early q;

	tw_early_init(&q, 4, 8);
	for (uint64_t k = 0; k < 7; k++) {
		struct tw_msg m = said((uint32_t)k % 3, view[k], k);

		m.payload = tw_block_new(&c.heap, 8);
		assert_true(tw_early_keep(&q, &c.heap, &m));
		tw_block_drop(m.payload); /* the queue has a reference of its own */
	}
	assert_int_equal(q.count, 7);
	l.now = 2;
	tw_early_hear(&q, &c.heap, &l, NULL, door, hear);
	assert_int_equal(l.count, 2);
	assert_true(l.heard[0] == 1 && l.heard[1] == 4);
	assert_int_equal(q.count, 4); /* number 6 was void */
	l = (struct listener){ .now = 3 };
	tw_early_hear(&q, &c.heap, &l, NULL, door, hear);
	assert_int_equal(l.count, 3);
	assert_true(l.heard[0] == 0 && l.heard[1] == 2 && l.heard[2] == 5);
	tw_early_forget(&q, &c.heap);
	assert_int_equal(c.live, 0);
}

static void nobody_takes_the_room_of_others(void **state)
{
	struct counting c = counting_heap();
	struct listener l = { .now = 2 };
	struct tw_early q;
	struct tw_msg m;

	tw_early_init(&q, 5, 16);
	for (uint64_t k = 0; k < 100000; k++) {
		m = said(1, 2, k);
		assert_int_equal(tw_early_keep(&q, &c.heap, &m), k < 16);
		assert_true(q.lost == (k >= 16));
	}
	for (uint32_t node = 2; node < 5; node++) {
		m = said(node, 2, 0);
		assert_true(tw_early_keep(&q, &c.heap, &m));
	}
	for (uint32_t node = 0; node < 100000; node++) { /* who changes its number gains nothing */
		m = said(node, 2, 0);
		tw_early_keep(&q, &c.heap, &m);
	}
	assert_int_equal(q.count, 5 * 16);
	assert_int_equal(c.most, 5 * 16 + 1);
	tw_early_forget(&q, &c.heap);
	assert_int_equal(c.live, 0);
	/* and there is as much room as before */
	m = said(1, 2, 7);
	assert_true(tw_early_keep(&q, &c.heap, &m) && !q.lost);
	tw_early_hear(&q, &c.heap, &l, NULL, door, hear);
	assert_true(l.count == 1 && l.heard[0] == 7);
	tw_early_forget(&q, &c.heap);
}

static void without_memory_it_is_let_go(void **state)
{
	for (uint64_t nth = 1; nth <= 2; nth++) {
		struct counting c = counting_heap();
		const struct tw_msg m = said(1, 2, 0);
		struct tw_early q;

		c.refuse = nth;
		tw_early_init(&q, 4, 8);
		assert_false(tw_early_keep(&q, &c.heap, &m));
		assert_true(q.lost && !q.count);
		assert_true(tw_early_keep(&q, &c.heap, &m));
		tw_early_forget(&q, &c.heap);
		assert_int_equal(c.live, 0);
	}
}

/* --- a replica -------------------------------------------------------------------------------- */

#define PEERS 3

struct replica {
	struct lone_shard lone;
	struct tw_block *gradient;
	uint32_t again, heard; /* HEARD that it sent: those that ask for all once more; all */
};

static void look(struct lone_shard *l, const struct tw_msg *m)
{
	struct replica *r = l->arg;

	r->heard += m->h.type == TW_HEARD;
	r->again += m->h.type == TW_HEARD && m->b.heard.again;
}

/* The replica of worker 0, of a run in which contributions spread. */
static void open(struct replica *r)
{
	const struct tw_topology mesh = { tw_reduction_find("ring"), tw_mixing_find("mesh") };

	memset(r, 0, sizeof *r);
	lone_open_replica(&r->lone, &tw_heap_system, "async", PEERS, &mesh);
	r->lone.sent = look;
	r->lone.arg = r;
	r->gradient = tw_block_new(&tw_heap_system, 10 * sizeof(float));
	for (uint32_t k = 0; k < 10; k++)
		tw_block_floats(r->gradient)[k] = 1.0f;
}

static void close(struct replica *r)
{
	tw_block_drop(r->gradient);
	lone_close(&r->lone);
}

static uint32_t node_of(uint32_t slot)
{
	return slot ? LONE_WORKER(slot) : 1;
}

/* Contribution `number` of this worker, as its replica spreads it. */
static void spread(struct replica *r, uint32_t slot, uint64_t view, uint64_t number)
{
	struct tw_msg m =
		lone_push(&r->lone, slot, LONE_INCARNATION(slot + 1), number, r->gradient);

	m.from = (struct tw_addr){ node_of(slot), TW_SHARD, 0 };
	m.h.type = TW_SPREAD;
	m.h.flags = 0;
	m.h.view = view;
	m.b.push.number = 0; /* what it has of us */
	lone_say(&r->lone, &m);
}

static void form(struct replica *r, uint32_t attempt)
{
	struct tw_msg m = lone_from_master(&r->lone, TW_FORM);
	struct tw_member *list;

	m.b.form = (struct tw_body_form){ .attempt = LONE_INCARNATION(attempt),
					  .what = TW_FORM_SPREAD };
	m.h.tail = PEERS * sizeof *list;
	m.tail = tw_block_new(&tw_heap_system, m.h.tail);
	list = (void *)m.tail->data;
	for (uint32_t k = 0; k < PEERS; k++)
		list[k] = (struct tw_member){ k, LONE_INCARNATION(k + 1), TW_LIVE, node_of(k) };
	lone_say(&r->lone, &m);
	tw_block_drop(m.tail);
}

static void contributions_before_their_formation_are_applied(void **state)
{
	struct replica r;

	open(&r);
	for (uint64_t n = 1; n <= 5; n++)
		spread(&r, 1, 1, n);
	for (uint64_t n = 1; n <= 3; n++)
		spread(&r, 2, 1, n);
	assert_int_equal(r.lone.shard->early.count, 8);
	assert_int_equal(r.lone.shard->slice.version.n, 0);
	form(&r, 1);
	assert_int_equal(r.lone.shard->early.count, 0);
	assert_int_equal(r.lone.shard->slice.version.n, 8);
	assert_int_equal(r.lone.shard->mix->peer[1].heard, 5);
	assert_int_equal(r.lone.shard->mix->peer[2].heard, 3);
	assert_int_equal(r.again, 0); /* nobody has to say anything twice */
	spread(&r, 1, 1, 6);
	assert_int_equal(r.lone.shard->slice.version.n, 9);
	close(&r);
}

static void a_generation_may_be_late(void **state)
{
	struct replica r;
	struct tw_member own = { 0, LONE_INCARNATION(1), TW_LIVE, 1 };

	open(&r);
	form(&r, 1);
	spread(&r, 1, 2, 1); /* the others have begun the next one */
	assert_int_equal(r.lone.shard->early.count, 1);
	spread(&r, 1, 0, 1); /* one that is over */
	assert_int_equal(r.lone.shard->early.count, 1);
	assert_int_equal(r.lone.shard->slice.version.n, 0);
	{
		struct tw_msg m = lone_from_master(&r.lone, TW_VIEW);

		m.h.view = 2;
		m.h.flags = TW_FLAG_FULL;
		m.b.view = (struct tw_body_view){ .live = 1, .running = 1, .number = 9 };
		m.h.tail = sizeof own;
		m.tail = tw_block_new(&tw_heap_system, sizeof own);
		memcpy(m.tail->data, &own, sizeof own);
		lone_say(&r.lone, &m);
		tw_block_drop(m.tail);
	}
	assert_int_equal(r.lone.shard->fence.generation, 2);
	assert_int_equal(r.lone.shard->early.count, 1); /* its formation is yet to come */
	form(&r, 2);
	assert_int_equal(r.lone.shard->early.count, 0);
	assert_int_equal(r.lone.shard->slice.version.n, 1);
	close(&r);
}

/* A replica that talks and talks before the formation. */
static void a_flood_is_refused(void **state)
{
	struct replica r;
	uint64_t refused;

	open(&r);
	refused = r.lone.shard->slice.tally.refused;
	for (uint64_t n = 1; n <= 50000; n++)
		spread(&r, 1, n % 2 ? 1 : 7, n);
	assert_true(r.lone.shard->early.count <= 200);
	assert_int_equal(r.lone.shard->slice.tally.refused - refused,
			 50000 - r.lone.shard->early.count);
	spread(&r, 2, 1, 1); /* there is room for the others */
	form(&r, 1);
	assert_int_equal(r.lone.shard->mix->peer[2].heard, 1);
	assert_int_equal(r.again, 2); /* what did not fit is asked for */
	close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_waits_is_heard_in_order),
		cmocka_unit_test(nobody_takes_the_room_of_others),
		cmocka_unit_test(without_memory_it_is_let_go),
		cmocka_unit_test(contributions_before_their_formation_are_applied),
		cmocka_unit_test(a_generation_may_be_late),
		cmocka_unit_test(a_flood_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
