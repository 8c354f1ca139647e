/* SPDX-License-Identifier: Apache-2.0 */
/* test_sim_queue.c - the simulator's queue against a plain list that is searched for its least. */
#include "base/rng.h"
#include "world/sim_queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define ROUNDS 4000
#define MOST   2000

struct list {
	struct entry entry[MOST];
	size_t count;
};

static bool earlier(const struct entry *a, const struct entry *b)
{
	return a->at < b->at || (a->at == b->at && a->seq < b->seq);
}

static struct entry least(struct list *l)
{
	size_t best = 0;
	struct entry out;

	for (size_t i = 1; i < l->count; i++)
		if (earlier(&l->entry[i], &l->entry[best]))
			best = i;
	out = l->entry[best];
	l->entry[best] = l->entry[--l->count];
	return out;
}

/* Is the window ahead what will come, in order? */
static bool window_is_right(struct queue *q, const struct list *l)
{
	struct list copy = *l;

	for (uint32_t k = 0; k < q->sooner; k++)
		if (tw_queue_ahead(q, k) != least(&copy).event)
			return false;
	return q->sooner >= QUEUE_AHEAD || !q->count;
}

/* Times are drawn from [now, now + spread]: a small spread makes many equal ones, and pushes into
 * the window; a large one goes to the heap.  The queue grows and shrinks by turns. */
static bool agrees(uint64_t seed, uint64_t spread, bool *full)
{
	static struct list l;
	const struct tw_rng r = tw_rng_make(seed, TW_RNG_SIM);
	struct queue q;
	int64_t now = 0;
	bool good = true;

	l.count = 0;
	tw_queue_init(&q, &tw_heap_system);
	for (uint64_t i = 0; i < ROUNDS && good; i++) {
		const uint64_t draw = tw_rng_u64(&r, i, 0);

		if (l.count < MOST && (l.count == 0 || draw % 100 < (i / 200 % 2 ? 92 : 12))) {
			const struct entry e = { now + (int64_t)(tw_rng_u64(&r, i, 1) %
								 (spread + 1)),
						 q.seq, (struct event *)(uintptr_t)(i + 1) };

			l.entry[l.count++] = e;
			good = tw_queue_push(&q, e.at, e.event);
		} else {
			const struct entry want = least(&l), got = tw_queue_pop(&q);

			now = got.at;
			good = got.event == want.event && got.at == want.at &&
			       got.seq == want.seq && (i % 16 || window_is_right(&q, &l));
		}
		good = good && tw_queue_count(&q) == l.count;
		*full = *full || q.sooner == QUEUE_SOON;
	}
	tw_queue_release(&q);
	return good;
}

static void entries_come_in_order(void **state)
{
	static const uint64_t spreads[] = { 0, 3, 100, 1000000 };
	bool full = false;

	for (uint64_t seed = 1; seed <= 40; seed++)
		for (size_t k = 0; k < sizeof spreads / sizeof spreads[0]; k++)
			if (!agrees(seed, spreads[k], &full))
				fail_msg("seed %llu, spread %llu: another order",
					 (unsigned long long)seed, (unsigned long long)spreads[k]);
	assert_true(full); /* a push into a full window was among them */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(entries_come_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
