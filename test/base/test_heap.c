/* SPDX-License-Identifier: Apache-2.0 */
/* test_heap.c - counted blocks and pools, alone and among threads. */
#include "base/heap.h"
#include "base/refusing.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <cmocka.h>

static void system_memory_is_aligned(void **state)
{
	for (size_t bytes = 0; bytes < 300; bytes++) {
		uint8_t *at = tw_heap_zeros(&tw_heap_system, bytes);

		assert_non_null(at);
		assert_int_equal((uintptr_t)at % TW_ALIGN, 0);
		for (size_t i = 0; i < bytes; i++)
			assert_int_equal(at[i], 0);
		tw_heap_system.put(&tw_heap_system, at);
	}
	tw_heap_system.put(&tw_heap_system, NULL);
	assert_null(tw_heap_system.get(&tw_heap_system, SIZE_MAX));
}

static void blocks_are_counted(void **state)
{
	struct refusing h = REFUSING(0);
	struct tw_block *b = tw_block_new(&h.heap, 100);

	assert_non_null(b);
	assert_int_equal(b->bytes, 100);
	assert_int_equal(b->room, 100);
	assert_int_equal((uintptr_t)b->data % TW_ALIGN, 0);
	memset(b->data, 1, 100);
	assert_ptr_equal(tw_block_keep(b), b);
	tw_block_drop(b);
	assert_int_equal(h.live, 1);
	tw_block_drop(b);
	assert_int_equal(h.live, 0);
	tw_block_drop(NULL);
	assert_null(tw_block_keep(NULL));
	assert_null(tw_block_new(&h.heap, SIZE_MAX - 10));
	assert_int_equal(h.live, 0);
}

static void a_warm_pool_asks_nobody(void **state)
{
	struct refusing h = REFUSING(0);
	struct tw_pool *pool = tw_pool_new(&h.heap, 1000);
	struct tw_block *b[3];

	for (int k = 0; k < 3; k++) {
		b[k] = tw_pool_take(pool);
		assert_non_null(b[k]);
	}
	assert_int_equal(h.calls, 4);
	b[0]->bytes = 7;
	for (int k = 0; k < 3; k++)
		tw_block_drop(b[k]);
	for (int k = 0; k < 3; k++) {
		b[k] = tw_pool_take(pool);
		assert_int_equal(b[k]->bytes, 1000); /* whole again, whatever its last user left */
		assert_int_equal(b[k]->refs, 1);
	}
	assert_int_equal(h.calls, 4);
	for (int k = 0; k < 3; k++)
		tw_block_drop(b[k]);
	tw_pool_free(pool);
	assert_int_equal(h.live, 0);
	tw_pool_free(NULL);
}

static void blocks_may_outlive_their_pool(void **state)
{
	struct refusing h = REFUSING(0);
	struct tw_pool *pool = tw_pool_new(&h.heap, 64);
	struct tw_block *b = tw_pool_take(pool), *c = tw_pool_take(pool);

	tw_block_drop(c);
	tw_pool_free(pool);
	assert_int_equal(h.live, 2); /* the block that is out, and the pool it counts in */
	memset(b->data, 3, b->room);
	tw_block_drop(b);
	assert_int_equal(h.live, 0);
}

static void a_refused_block_leaves_the_pool_whole(void **state)
{
	for (unsigned nth = 1; nth <= 4; nth++) {
		struct refusing h = REFUSING(nth);
		struct tw_pool *pool = tw_pool_new(&h.heap, 64);
		struct tw_block *b[3];

		if (nth == 1) {
			assert_null(pool);
			continue;
		}
		for (unsigned k = 0; k < 3; k++) {
			b[k] = tw_pool_take(pool);
			assert_int_equal(!b[k], k + 2 == nth);
		}
		for (unsigned k = 0; k < 3; k++)
			tw_block_drop(b[k]);
		tw_pool_free(pool); /* goes with its last block only: it has counted right */
		assert_int_equal(h.live, 0);
	}
}

#define THREADS 4
#define TURNS   20000

struct shared {
	struct tw_pool *pool;
	_Atomic(struct tw_block *) handed; /* a block on its way to another thread */
	_Atomic unsigned wrong;
};

/* Each holder writes its name while it is alone, hands the block on and drops what it finds. */
static void *user(void *arg)
{
	struct shared *s = arg;

	for (unsigned turn = 0; turn < TURNS; turn++) {
		struct tw_block *b = tw_pool_take(s->pool);
		uint64_t *word = (uint64_t *)b->data;

		if (b->refs != 1)
			atomic_fetch_add(&s->wrong, 1);
		for (size_t i = 0; i < b->room / sizeof *word; i++)
			word[i] = (uintptr_t)&turn + turn;
		tw_block_drop(atomic_exchange(&s->handed, tw_block_keep(b)));
		for (size_t i = 0; i < b->room / sizeof *word; i++)
			if (word[i] != (uintptr_t)&turn + turn)
				atomic_fetch_add(&s->wrong, 1);
		tw_block_drop(b);
	}
	return NULL;
}

static void pools_serve_threads(void **state)
{
	struct refusing h = REFUSING(0);
	struct shared s = { .pool = tw_pool_new(&h.heap, 256) };
	pthread_t thread[THREADS];

	for (int k = 0; k < THREADS; k++)
		assert_int_equal(pthread_create(&thread[k], NULL, user, &s), 0);
	for (int k = 0; k < THREADS; k++)
		pthread_join(thread[k], NULL);
	assert_int_equal(s.wrong, 0);
	tw_block_drop(s.handed);
	assert_true(h.live <= 2 * THREADS + 2); /* never more blocks than were held at once */
	tw_pool_free(s.pool);
	assert_int_equal(h.live, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(system_memory_is_aligned),
		cmocka_unit_test(blocks_are_counted),
		cmocka_unit_test(a_warm_pool_asks_nobody),
		cmocka_unit_test(blocks_may_outlive_their_pool),
		cmocka_unit_test(a_refused_block_leaves_the_pool_whole),
		cmocka_unit_test(pools_serve_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
