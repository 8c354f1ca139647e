/* SPDX-License-Identifier: Apache-2.0 */
/* test_sim_queue.c - the simulator's queue against a plain list that is searched for its least. */
#include "base/rng.h"
#include "world/sim/sim_queue.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

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

/* --- a crowd: beyond QUEUE_CROWD entries the rest waits in bins ----------------------------- */

#define CROWD 20000

static int by_time(const void *a, const void *b)
{
	return earlier(a, b) ? -1 : 1;
}

/* Memory that ends after so many blocks. */
struct short_heap {
	struct tw_heap heap; /* must stay first */
	size_t left;
};

static void *short_get(struct tw_heap *heap, size_t bytes)
{
	struct short_heap *h = (struct short_heap *)heap;

	return h->left && h->left-- ? tw_heap_system.get(&tw_heap_system, bytes) : NULL;
}

static void short_put(struct tw_heap *heap, void *memory)
{
	(void)heap;
	tw_heap_system.put(&tw_heap_system, memory);
}

/* Push a crowd, then hold it: each entry that is popped is pushed again until all were, and
 * everything must come in the order that sorting gives.  `gather`: the bins are emptied by the way.
 * After `blocks` the memory ends: pushes may fail then, and what was pushed must come anyway. */
static bool crowd_agrees(uint64_t seed, uint64_t spread, bool gather, size_t blocks, bool *binned)
{
	static struct entry all[2 * CROWD], got[2 * CROWD];
	const struct tw_rng r = tw_rng_make(seed, TW_RNG_SIM);
	struct short_heap heap = { { short_get, short_put }, blocks };
	struct queue q;
	size_t n = 0, popped = 0;
	bool good = true;

	tw_queue_init(&q, &heap.heap);
	for (uint64_t i = 0; i < 2 * CROWD; i++) {
		int64_t now = 0;

		if (i >= CROWD && popped < n) {
			if (gather && i % 977 == 0) {
				tw_queue_gather(&q);
				good = good && q.sooner + q.count == tw_queue_count(&q);
			}
			got[popped] = tw_queue_pop(&q);
			now = got[popped++].at;
		}
		all[n] = (struct entry){ now + (int64_t)(tw_rng_u64(&r, i, 0) % (spread + 1)),
					 q.seq, (struct event *)(uintptr_t)(i + 1) };
		n += tw_queue_push(&q, all[n].at, all[n].event);
		*binned = *binned || q.bins.count;
	}
	while (tw_queue_count(&q))
		got[popped++] = tw_queue_pop(&q);
	qsort(all, n, sizeof *all, by_time);
	good = good && popped == n;
	for (size_t i = 0; i < n && good; i++)
		good = got[i].at == all[i].at && got[i].seq == all[i].seq &&
		       got[i].event == all[i].event;
	tw_queue_release(&q);
	return good;
}

static void crowd_comes_in_order(void **state)
{
	static const uint64_t spreads[] = { 0, 3, 1000, 100000000, UINT64_C(1) << 60 };

	for (uint64_t seed = 1; seed <= 6; seed++)
		for (size_t k = 0; k < sizeof spreads / sizeof spreads[0]; k++) {
			bool binned = false;

			if (!crowd_agrees(seed, spreads[k], seed % 2, SIZE_MAX, &binned))
				fail_msg("seed %llu, spread %llu: another order",
					 (unsigned long long)seed, (unsigned long long)spreads[k]);
			assert_true(binned || !spreads[k]); /* of one time: no bins */
			binned = false;
			if (!crowd_agrees(seed, spreads[k], seed % 2, 40 * seed, &binned))
				fail_msg("seed %llu, spread %llu: not all came when memory ended",
					 (unsigned long long)seed, (unsigned long long)spreads[k]);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(entries_come_in_order),
		cmocka_unit_test(crowd_comes_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
