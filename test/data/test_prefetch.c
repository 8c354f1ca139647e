/* SPDX-License-Identifier: Apache-2.0 */
/* test_prefetch.c - batches made ahead are those that tw_data_fill makes, whoever asks for what. */
/* labels: threads */
#include "data/kit.h"
#include "base/refusing.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define COUNT   97
#define PIXELS  (2 * 5 * 6)
#define LARGEST 16

static uint8_t bytes[COUNT * PIXELS];
static uint32_t labels[COUNT];
static float targets[COUNT * 2], scale[PIXELS], shift[PIXELS];

static struct tw_data made(uint32_t answers)
{
	return (struct tw_data){
		.rank = 3,
		.shape = { 2, 5, 6 },
		.features = PIXELS,
		.classes = answers ? 0 : 7,
		.targets = answers,
		.scale = scale,
		.shift = shift,
		.train = { COUNT, bytes, labels, targets },
	};
}

static int setup(void **state)
{
	for (int i = 0; i < COUNT * PIXELS; i++)
		bytes[i] = (uint8_t)(i * 31 + i / 11);
	for (int i = 0; i < COUNT; i++)
		labels[i] = (uint32_t)i % 7;
	for (int i = 0; i < COUNT * 2; i++)
		targets[i] = (float)i;
	for (int i = 0; i < PIXELS; i++) {
		scale[i] = (float)(i + 1) / 16;
		shift[i] = (float)-i;
	}
	return 0;
}

static const struct tw_data_options options = { .shift = 2, .flip = true, .noise = 0.125 };

static struct tw_order order;

static struct tw_prefetch *start(const struct tw_data *d, uint32_t ahead)
{
	const struct tw_prefetch_facts facts = {
		.data = d,
		.options = &options,
		.order = &order,
		.seed = 3,
		.batch_max = LARGEST,
		.ahead = ahead,
	};
	struct tw_error why = { 0 };
	struct tw_prefetch *p = NULL;

	order = tw_order_make(3, d->train.count);
	assert_int_equal(tw_prefetch_start(&tw_heap_system, &facts, &p, &why), TW_OK);
	return p;
}

struct batch {
	float x[LARGEST * PIXELS], target[LARGEST * 2];
	uint32_t label[LARGEST];
};

static void fill(const struct tw_data *d, uint64_t from, uint32_t count, struct batch *out)
{
	const struct tw_rng shuffle = tw_rng_make(3, TW_RNG_SHUFFLE);
	uint64_t index[LARGEST];

	for (uint32_t k = 0; k < count; k++)
		index[k] = tw_rng_permute(&shuffle, (from + k) / COUNT, COUNT, (from + k) % COUNT);
	tw_data_fill(d, &(struct tw_batch){ &d->train, index, count, from }, &options, 3, out->x,
		     out->label, out->target);
}

/* Take; if it was there, it must be right.  No assertions here: threads call it. */
static bool take(struct tw_prefetch *p, const struct tw_data *d, uint64_t from, uint32_t count,
		 bool *hit)
{
	struct batch got, right;

	*hit = tw_prefetch_take(p, from, count, got.x, got.label, got.target);
	if (!*hit)
		return true;
	fill(d, from, count, &right);
	if (memcmp(got.x, right.x, count * PIXELS * sizeof(float)))
		return false;
	return d->targets ? !memcmp(got.target, right.target, count * 2 * sizeof(float))
			  : !memcmp(got.label, right.label, count * sizeof(uint32_t));
}

/* Give the helper time; on a busy machine it needs more, which a miss shows. */
static void breathe(bool hit, long *nanoseconds)
{
	if (!hit && *nanoseconds < 20000000)
		*nanoseconds *= 2;
	nanosleep(&(struct timespec){ .tv_nsec = *nanoseconds }, NULL);
}

static void steady_askers_are_served(void **state)
{
	for (uint32_t answers = 0; answers <= 2; answers += 2) {
		const struct tw_data d = made(answers);
		struct tw_prefetch *p = start(&d, 3);
		unsigned hits[2] = { 0 };
		long pause = 100000;

		for (uint64_t k = 0; k < 200; k++) {
			bool hit, right;

			/* plain steps, then stripes of another width */
			right = take(p, &d, k < 100 ? k * 8 : 800 + (k - 100) * 40, 8, &hit);
			assert_true(right);
			hits[k >= 100] += hit;
			breathe(hit, &pause);
		}
		assert_true(hits[0] > 60);
		assert_true(hits[1] > 60);
		tw_prefetch_stop(p);
	}
}

static void odd_requests_are_left_to_the_asker(void **state)
{
	const struct tw_data d = made(0);
	struct tw_prefetch *p = start(&d, 1);
	bool hit;

	assert_true(take(p, &d, 5, 0, &hit) && !hit);
	assert_false(tw_prefetch_take(p, 0, LARGEST + 1, NULL, NULL, NULL));
	assert_true(take(p, &d, UINT64_MAX - 8, 8, &hit) && !hit);
	assert_true(take(p, &d, UINT64_MAX - 20, 4, &hit) && !hit);
	tw_prefetch_stop(p);
	tw_prefetch_stop(start(&d, 4));
	tw_prefetch_stop(NULL);
}

struct thread {
	pthread_t id;
	struct tw_prefetch *p;
	const struct tw_data *d;
	uint64_t number;
	bool right;
};

/* Steps of its own, now and then a jump, back or forth, or another count. */
static void *ask(void *arg)
{
	struct thread *t = arg;
	const struct tw_rng r = tw_rng_make(11, TW_RNG_TEST);
	uint64_t from = t->number * 8, step = 8;
	uint32_t count = 8;

	t->right = true;
	for (uint64_t k = 0; k < 1500 && t->right; k++) {
		const uint64_t draw = tw_rng_u64(&r, t->number, k);
		bool hit;

		if (draw % 23 == 0)
			from = (draw >> 8) % 3000;
		if (draw % 31 == 0)
			step = 1 + (draw >> 20) % 64;
		if (draw % 37 == 0)
			count = 1 + (uint32_t)((draw >> 32) % LARGEST);
		t->right = take(t->p, t->d, from, count, &hit);
		from += step;
	}
	return NULL;
}

static void many_threads_get_what_is_right(void **state)
{
	const struct tw_data d = made(0);

	for (uint32_t ahead = 1; ahead <= 16; ahead *= 4) {
		struct tw_prefetch *p = start(&d, ahead);
		struct thread t[6];

		for (uint64_t k = 0; k < 6; k++) {
			t[k] = (struct thread){ .p = p, .d = &d, .number = k };
			assert_int_equal(pthread_create(&t[k].id, NULL, ask, &t[k]), 0);
		}
		for (int k = 0; k < 6; k++)
			pthread_join(t[k].id, NULL);
		for (int k = 0; k < 6; k++)
			assert_true(t[k].right);
		tw_prefetch_stop(p);
	}
}

static void starting_may_fail_anywhere(void **state)
{
	const struct tw_data d = made(0);
	struct tw_prefetch_facts facts = {
		.data = &d, .options = &options, .order = &order, .batch_max = LARGEST, .ahead = 2
	};

	order = tw_order_make(0, d.train.count);
	for (unsigned nth = 1;; nth++) {
		struct refusing r = REFUSING(nth);
		struct tw_error why = { 0 };
		struct tw_prefetch *p = NULL;
		const enum tw_status st = tw_prefetch_start(&r.heap, &facts, &p, &why);

		if (r.calls < nth) {
			bool hit;
			const unsigned before = r.calls;

			assert_int_equal(st, TW_OK);
			for (uint64_t k = 0; k < 50; k++)
				(void)take(p, &d, k * 4, 4, &hit);
			tw_prefetch_stop(p);
			assert_int_equal(r.calls, before);
			assert_int_equal(r.live, 0);
			break;
		}
		assert_int_equal(st, TW_NO_MEMORY);
		assert_null(p);
		assert_int_equal(r.live, 0);
	}
	facts.batch_max = UINT32_MAX;
	facts.ahead = UINT32_MAX;
	assert_int_equal(
		tw_prefetch_start(&tw_heap_system, &facts, &(struct tw_prefetch *){ NULL }, NULL),
		TW_NO_MEMORY);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(steady_askers_are_served),
		cmocka_unit_test(odd_requests_are_left_to_the_asker),
		cmocka_unit_test(many_threads_get_what_is_right),
		cmocka_unit_test(starting_may_fail_anywhere),
	};

	return cmocka_run_group_tests(tests, setup, NULL);
}
