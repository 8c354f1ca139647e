/* SPDX-License-Identifier: Apache-2.0 */
/* test_shard_clocks.c - the least clock that is kept from change to change, against a plain loop
 * over all workers. */
#include "actor/message.h"
#include "base/refusing.h"
#include "node/shard/shard_clocks.h"
#include "node/small_plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define SLOTS 23
#define HELD  3 /* a request this far above the least is held */

/* The same, kept plainly. */
struct plain {
	uint64_t at[SLOTS];
	enum clock_from from[SLOTS];
	bool here[SLOTS], idle[SLOTS], active[SLOTS];
};

static uint32_t active_of(const struct plain *p)
{
	uint32_t count = 0;

	for (uint32_t k = 0; k < SLOTS; k++)
		count += p->active[k];
	return count;
}

/* The lowest slot that stands at the least clock; SLOTS: nobody is active. */
static uint32_t least_of(const struct plain *p)
{
	uint32_t least = SLOTS;

	for (uint32_t k = 0; k < SLOTS; k++)
		if (p->active[k] && (least == SLOTS || p->at[k] < p->at[least]))
			least = k;
	return least;
}

static void see(struct plain *p, uint32_t k)
{
	const bool on = p->here[k] && !p->idle[k] && p->from[k] != CLOCK_UNKNOWN;
	const uint32_t least = least_of(p);

	if (on && !p->active[k] && least < SLOTS && p->at[k] < p->at[least]) {
		p->at[k] = p->at[least];
		p->from[k] = CLOCK_GUESSED;
	}
	p->active[k] = on;
}

static void guess(struct plain *p, uint32_t k)
{
	const uint32_t least = least_of(p);

	if (p->from[k] != CLOCK_UNKNOWN)
		return;
	p->at[k] = least < SLOTS ? p->at[least] : 0;
	p->from[k] = CLOCK_GUESSED;
}

static void say(struct plain *p, uint32_t k, uint64_t at)
{
	if (at >= TW_CLOCK_MOST) {
		guess(p, k);
	} else if (p->from[k] != CLOCK_SAID || at > p->at[k]) {
		p->from[k] = CLOCK_SAID;
		p->at[k] = at;
	}
	see(p, k);
}

static void compare(const struct shard_clocks *c, const struct plain *p)
{
	const uint32_t least = least_of(p);

	assert_int_equal(c->seen.active_count, active_of(p));
	if (least < SLOTS) {
		assert_int_equal(c->seen.least, p->at[least]);
		assert_int_equal(c->seen.least_slot, least);
	}
	for (uint32_t k = 0; k < SLOTS; k++) {
		assert_int_equal(c->of[k].at, p->at[k]);
		assert_int_equal(c->of[k].from, p->from[k]);
		assert_int_equal(c->of[k].place != 0, p->active[k]);
	}
}

/* One change of both, named by n. */
static void change(struct shard_clocks *c, struct plain *p, uint64_t n, uint32_t k)
{
	static const uint64_t odd[] = { 0, TW_CLOCK_UNKNOWN, TW_CLOCK_MOST, TW_CLOCK_MOST - 1,
					(uint64_t)1 << 40 };
	const uint64_t what = drawn(3 * n + 1, 100), value = drawn(3 * n + 2, 1 << 20);
	uint64_t at;

	if (what < 60) { /* what workers mostly do: one step on */
		at = p->at[k] + 1;
		at = at < TW_CLOCK_MOST ? at : 0;
		p->here[k] = true;
		tw_clocks_say(c, k, at, true);
		say(p, k, at);
	} else if (what < 70) {
		at = value % 4 ? value % 40 : odd[value / 4 % 5];
		tw_clocks_say(c, k, at, p->here[k]);
		say(p, k, at);
	} else if (what < 80) { /* it comes, or goes */
		p->here[k] = value % 3;
		tw_clocks_see(c, k, p->here[k]);
		see(p, k);
	} else if (what < 88) {
		p->idle[k] = c->of[k].idle = value % 2;
		tw_clocks_see(c, k, p->here[k]);
		see(p, k);
	} else if (what < 94) { /* somebody else has the slot */
		tw_clocks_forget(c, k);
		p->from[k] = CLOCK_UNKNOWN;
		p->idle[k] = false;
		if (value % 2) {
			tw_clocks_guess(c, k);
			guess(p, k);
		}
		tw_clocks_see(c, k, p->here[k]);
		see(p, k);
	} else if (what < 98) {
		tw_clocks_guess(c, k);
		guess(p, k);
		tw_clocks_see(c, k, p->here[k]);
		see(p, k);
	} else if (what < 99) {
		tw_clocks_all_busy(c);
		for (uint32_t i = 0; i < SLOTS; i++) {
			p->idle[i] = false;
			tw_clocks_see(c, i, p->here[i]);
			see(p, i);
		}
	} else if (value % 20 == 0) {
		tw_clocks_reset(c);
		for (uint32_t i = 0; i < SLOTS; i++) {
			p->from[i] = CLOCK_UNKNOWN;
			p->active[i] = false;
		}
	}
}

static bool is_held(const struct plain *p, uint64_t clock)
{
	const uint32_t least = least_of(p);

	return least < SLOTS && clock > p->at[least] && clock - p->at[least] > HELD;
}

static void the_least_is_the_least(void **state)
{
	struct refusing heap = REFUSING(0);
	uint64_t quiet = 0, told = 0, moves = 0;
	struct shard_clocks c;
	struct plain p = { .at = { 0 } };

	(void)state;
	assert_int_equal(tw_clocks_init(&c, &heap.heap, SLOTS), TW_OK);
	for (uint64_t n = 0; n < 200000; n++) {
		const uint32_t least = least_of(&p);
		const uint64_t was = least < SLOTS ? p.at[least] : 0;
		const uint64_t held = was + HELD + 1; /* the first that would be let go */

		c.rose = false;
		change(&c, &p, n, (uint32_t)drawn(3 * n, SLOTS));
		compare(&c, &p);
		moves += least < SLOTS && least_of(&p) < SLOTS && p.at[least_of(&p)] != was;
		/* nobody has to be told only if nobody may go who had to wait */
		if (least < SLOTS && !is_held(&p, held))
			assert_true(c.rose);
		quiet += !c.rose;
		told += c.rose;
	}
	assert_true(moves > 1000 && told > 1000 && quiet > 100000);
	tw_clocks_release(&c, &heap.heap);
	assert_int_equal(heap.live, 0);
}

/* Many at one clock, and one after the other moves on: the order of leaving is by slot. */
static void equals_are_by_slot(void **state)
{
	struct shard_clocks c;

	(void)state;
	assert_int_equal(tw_clocks_init(&c, &tw_heap_system, 1000), TW_OK);
	for (uint32_t k = 1000; k-- > 0;)
		tw_clocks_say(&c, k, 5, true);
	for (uint32_t k = 0; k < 1000; k++) {
		assert_int_equal(c.seen.least, 5);
		assert_int_equal(c.seen.least_slot, k);
		assert_int_equal(c.seen.active_count, 1000);
		c.rose = false;
		tw_clocks_say(&c, k, 6, true);
		assert_int_equal(c.rose, k == 999);
	}
	assert_int_equal(c.seen.least, 6);
	tw_clocks_release(&c, &tw_heap_system);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_least_is_the_least),
		cmocka_unit_test(equals_are_by_slot),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
