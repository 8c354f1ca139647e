/* SPDX-License-Identifier: Apache-2.0 */
/* test_message_pool.c - messages are kept for the next ones, so many and no more, and come back
 * empty. */
#include "actor/message_pool.h"
#include "base/refusing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define COUNT 40

struct parcel { /* as a world may keep it */
	uint64_t before[3];
	struct tw_msg m;
	uint64_t after[5];
};

static struct parcel *parcel_of(struct tw_msg *m)
{
	return (struct parcel *)((char *)m - offsetof(struct parcel, m));
}

static bool is_blank(const struct parcel *p)
{
	static const struct parcel blank;

	return memcmp(p, &blank, sizeof blank) == 0;
}

/* Take some, soil them, give them back; the blocks of each are dropped. */
static void turn(struct tw_msg_pool *from, struct tw_msg_pool *to, size_t count)
{
	struct tw_msg *taken[COUNT];

	for (size_t k = 0; k < count; k++) {
		taken[k] = tw_msg_pool_take(from);
		assert_non_null(taken[k]);
		assert_true(is_blank(parcel_of(taken[k])));
	}
	for (size_t k = 0; k < count; k++) {
		memset(parcel_of(taken[k]), 0xa5, sizeof(struct parcel));
		taken[k]->tail = k % 2 ? tw_block_new(from->heap, 16) : NULL;
		taken[k]->payload = k % 3 ? tw_block_new(from->heap, 64) : NULL;
		tw_msg_pool_give(to, taken[k]);
	}
}

static void init(struct tw_msg_pool *p, struct refusing *heap, size_t most)
{
	tw_msg_pool_init(p, &heap->heap, sizeof(struct parcel), offsetof(struct parcel, m), most);
}

static void what_is_kept_is_taken_again(void **state)
{
	struct refusing heap = REFUSING(0);
	struct tw_msg_pool p;

	(void)state;
	init(&p, &heap, COUNT);
	turn(&p, &p, COUNT);
	assert_int_equal(heap.live, COUNT);
	for (int k = 0; k < 100; k++)
		turn(&p, &p, COUNT);
	assert_int_equal(heap.live, COUNT);
	assert_int_equal(p.spares, COUNT);
	tw_msg_pool_release(&p);
	assert_int_equal(heap.live, 0);
	turn(&p, &p, 1);
	tw_msg_pool_release(&p);
	assert_int_equal(heap.live, 0);
}

static void no_more_are_kept_than_allowed(void **state)
{
	struct refusing heap = REFUSING(0);
	struct tw_msg_pool p;

	(void)state;
	for (size_t most = 0; most < COUNT; most += 7) {
		init(&p, &heap, most);
		turn(&p, &p, COUNT);
		assert_int_equal(heap.live, most);
		tw_msg_pool_release(&p);
		assert_int_equal(heap.live, 0);
	}
}

static void a_message_may_go_to_another_pool(void **state)
{
	struct refusing heap = REFUSING(0);
	struct tw_msg_pool a, b;

	(void)state;
	init(&a, &heap, 10);
	init(&b, &heap, 10);
	for (int k = 0; k < 10; k++) {
		turn(&a, &b, 8);
		turn(&b, &a, 8);
	}
	assert_int_equal(heap.live, a.spares + b.spares);
	tw_msg_discard(&heap.heap, a.place, tw_msg_pool_take(&a));
	assert_int_equal(heap.live, a.spares + b.spares);
	tw_msg_pool_release(&a);
	tw_msg_pool_release(&b);
	assert_int_equal(heap.live, 0);
}

static void without_memory_there_is_none(void **state)
{
	struct refusing heap = REFUSING(1);
	struct tw_msg_pool p;

	(void)state;
	init(&p, &heap, COUNT);
	assert_null(tw_msg_pool_take(&p));
	turn(&p, &p, 2);
	tw_msg_pool_release(&p);
	assert_int_equal(heap.live, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_kept_is_taken_again),
		cmocka_unit_test(no_more_are_kept_than_allowed),
		cmocka_unit_test(a_message_may_go_to_another_pool),
		cmocka_unit_test(without_memory_there_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
