/* SPDX-License-Identifier: Apache-2.0 */
/* test_slice.c - slices keep their word (src/node/slice.h, src/node/slice_update.h), with every
 * rule and every staleness policy: parts there and back, updates whole or not at all, and a staged
 * version that is the version of a plain update, or nothing. */
#include "base/refusing.h"
#include "node/slice_update.h"
#include "node/small_plan.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define TRAINABLE 9000 /* more than one tile, and not a whole number of them */
#define BUFFERS   40
#define ALL       (TRAINABLE + BUFFERS)

static struct tw_context quiet; /* nobody reads notes */

/* --- slices and contributions --------------------------------------------------------------- */

static void open_slice(struct slice *s, const struct small_plan *p, struct tw_heap *heap)
{
	tw_slice_empty(s, &p->plan, heap, 0);
	assert_int_equal(tw_slice_init(s), TW_OK);
	assert_int_equal(s->n, ALL);
	assert_int_equal(s->trainable, TRAINABLE);
	draw_floats(tw_block_floats(s->w), ALL, 1);
	s->version.incarnation = 3;
}

/* The nth contribution, its slot's; positions [from, from + count). */
static struct contribution contribution(uint64_t nth, uint64_t from, uint32_t count)
{
	struct contribution c = { .slot = (uint32_t)(nth % 3),
				  .incarnation = 1,
				  .seq = nth + 1,
				  .tau = nth % 4,
				  .block = tw_block_new(&tw_heap_system, ALL * sizeof(float)) };

	assert_non_null(c.block);
	draw_floats(tw_block_floats(c.block), ALL, 100 + nth);
	c.g = tw_block_floats(c.block);
	c.push = (struct tw_body_push){
		.account = { .steps = 1, .samples = count, .weight = 1.0f, .divide = 1.0f },
		.ranges = 1,
		.rate = 0.05f,
		.range = { { .from = from, .count = count } }
	};
	return c;
}

static enum tw_status commit(struct slice *s, uint64_t nth, uint64_t from, uint32_t count)
{
	struct contribution c = contribution(nth, from, count);
	struct contribution *one = &c;
	enum tw_status st = tw_slice_update_commit(s, &quiet, &one, 1, 3);

	tw_block_drop(c.block);
	return st;
}

/* --- comparing ------------------------------------------------------------------------------ */

static void same_spans(const struct tw_spans *a, const struct tw_spans *b)
{
	struct tw_span *x = tw_spans_list(a), *y = tw_spans_list(b);

	assert_int_equal(a->count, b->count);
	assert_memory_equal(x, y, a->count * sizeof *x);
	a->heap->put(a->heap, x);
	b->heap->put(b->heap, y);
}

static void same_floats(const float *a, const float *b)
{
	assert_memory_equal(a, b, ALL * sizeof(float));
}

static void same_slices(const struct slice *a, const struct slice *b)
{
	const struct slice_history *x = &a->history, *y = &b->history;

	same_floats(tw_block_floats(a->w), tw_block_floats(b->w));
	for (uint32_t k = 0; k < a->plan->far.rule->arrays; k++)
		same_floats(a->array[k], b->array[k]);
	for (uint32_t k = 0; k < a->plan->staleness->arrays; k++)
		same_floats(a->policy[k], b->policy[k]);
	for (uint32_t k = 0; a->own && k < a->plan->crew.workers; k++) {
		assert_int_equal(!a->own[k].array, !b->own[k].array);
		if (!a->own[k].array)
			continue;
		assert_true(a->own[k].before == b->own[k].before);
		same_floats(tw_block_floats(a->own[k].array), tw_block_floats(b->own[k].array));
	}
	assert_int_equal(a->version.n, b->version.n);
	assert_int_equal(a->round, b->round);
	assert_int_equal(x->corrections, y->corrections);
	assert_int_equal(x->contributions, y->contributions);
	assert_true(x->statistic == y->statistic);
	assert_memory_equal(&a->tally, &b->tally, sizeof a->tally);
	same_spans(&x->applied, &y->applied);
	same_spans(&x->twice, &y->twice);
}

/* What a slice is, kept aside: its part. */
static struct tw_block *photo(struct slice *s)
{
	struct tw_block *b = tw_slice_pack(s);

	assert_non_null(b);
	return b;
}

static void same_photos(struct tw_block *a, struct tw_block *b)
{
	assert_int_equal(a->bytes, b->bytes);
	assert_memory_equal(a->data, b->data, a->bytes);
	tw_block_drop(a);
	tw_block_drop(b);
}

/* --- parts ---------------------------------------------------------------------------------- */

static void there_and_back(const struct small_plan *p)
{
	struct refusing heap = REFUSING(0);
	struct slice a, b;
	struct tw_block *part;

	open_slice(&a, p, &heap.heap);
	for (uint32_t slot = 0; slot < 3; slot++)
		assert_int_equal(tw_slice_welcome(&a, slot), TW_OK);
	for (uint64_t k = 0; k < 8; k++)
		assert_int_equal(commit(&a, k, k * 70, k % 2 ? 80 : 60), TW_OK);
	tw_slice_leave(&a, 1);
	a.round = 12;
	assert_true(a.history.twice.count > 0 && a.history.applied.count > 1);

	part = photo(&a);
	tw_slice_empty(&b, &p->plan, &heap.heap, 0);
	assert_int_equal(tw_slice_init(&b), TW_OK);
	assert_int_equal(tw_slice_restore(&b, part->data, part->bytes), TW_OK);
	same_slices(&a, &b);
	/* and both go on alike */
	assert_int_equal(tw_slice_welcome(&a, 1), TW_OK);
	assert_int_equal(tw_slice_welcome(&b, 1), TW_OK);
	for (uint64_t k = 8; k < 14; k++) {
		assert_int_equal(commit(&a, k, k * 70, 60), TW_OK);
		assert_int_equal(commit(&b, k, k * 70, 60), TW_OK);
	}
	same_slices(&a, &b);
	same_photos(photo(&a), photo(&b));
	tw_block_drop(part);
	tw_slice_release(&a);
	tw_slice_release(&b);
	assert_int_equal(heap.live, 0);
}

static void parts_come_back(void **state)
{
	(void)state;
	for (size_t r = 0; tw_rule_all[r]; r++)
		for (size_t k = 0; tw_staleness_all[k]; k++) {
			struct small_plan p;

			small_plan_open(&p, TRAINABLE, BUFFERS, "async", tw_staleness_all[k]->name,
					tw_rule_all[r]->name);
			there_and_back(&p);
			small_plan_close(&p);
		}
}

/* Whatever the bytes are, a restore ends, and a release gives everything back. */
static void hostile_parts_do_no_harm(void **state)
{
	struct refusing heap = REFUSING(0);
	struct small_plan p;
	struct slice s;
	struct tw_block *part, *bad;
	uint32_t refused = 0;

	(void)state;
	small_plan_open(&p, TRAINABLE, BUFFERS, "async", "none", "dana");
	open_slice(&s, &p, &tw_heap_system);
	assert_int_equal(tw_slice_welcome(&s, 2), TW_OK);
	assert_int_equal(commit(&s, 2, 5, 7), TW_OK);
	part = photo(&s);
	tw_slice_release(&s);
	bad = tw_block_new(&tw_heap_system, part->bytes);
	for (uint64_t k = 0; k < 600; k++) {
		/* the head and the entries are where harm could be done */
		const size_t room = k % 3 ? 16 + 72 * 8 : part->bytes;
		size_t len = part->bytes;

		memcpy(bad->data, part->data, part->bytes);
		for (uint64_t i = 0; i <= k % 4; i++)
			bad->data[drawn(k * 16 + i, room)] ^=
				(uint8_t)(1 + drawn(k * 16 + 8 + i, 255));
		if (k % 5 == 0)
			len = drawn(k, part->bytes);
		tw_slice_empty(&s, &p.plan, &heap.heap, 0);
		assert_int_equal(tw_slice_init(&s), TW_OK);
		refused += tw_slice_restore(&s, bad->data, len) != TW_OK;
		tw_slice_release(&s);
		assert_int_equal(heap.live, 0);
	}
	assert_true(refused > 300);
	tw_block_drop(bad);
	tw_block_drop(part);
	small_plan_close(&p);
}

/* --- memory --------------------------------------------------------------------------------- */

/* Positions far apart, so that the history grows; twice as many meet, so that `twice` does, too. */
static enum tw_status commit_many(struct slice *s, uint64_t first)
{
	struct contribution c[6], *list[6];
	enum tw_status st;

	for (uint64_t k = 0; k < 6; k++) {
		c[k] = contribution(first + k, (first + k / 2) * 1000 + k % 2, 3);
		list[k] = &c[k];
	}
	st = tw_slice_update_commit(s, &quiet, list, 6, 3);
	for (uint64_t k = 0; k < 6; k++)
		tw_block_drop(c[k].block);
	return st;
}

static void without_memory_nothing_changes(void **state)
{
	static const char *const rules[] = { "sgd", "adam", "nag" };
	unsigned refusals = 0;

	(void)state;
	for (size_t r = 0; r < 3; r++)
		for (unsigned nth = 1;; nth++) {
			struct refusing heap = REFUSING(0);
			struct small_plan p;
			struct slice s, twin;
			struct tw_block *before, *held;
			enum tw_status st;

			small_plan_open(&p, TRAINABLE, BUFFERS, "softsync", "mean", rules[r]);
			open_slice(&s, &p, &heap.heap);
			open_slice(&twin, &p, &tw_heap_system);
			held = tw_block_keep(s.w); /* somebody reads it */
			before = photo(&s);
			heap.refuse = heap.calls + nth;
			heap.onwards = true;
			st = commit_many(&s, 0);
			heap.refuse = 0;
			if (st == TW_OK) {
				tw_block_drop(before);
			} else {
				assert_int_equal(st, TW_NO_MEMORY);
				refusals++;
				same_photos(before, photo(&s));
				assert_int_equal(commit_many(&s, 0),
						 TW_OK); /* later it can be done */
			}
			assert_int_equal(commit_many(&twin, 0), TW_OK);
			same_slices(&s, &twin);
			tw_block_drop(held);
			tw_slice_release(&s);
			tw_slice_release(&twin);
			assert_int_equal(heap.live, 0);
			small_plan_close(&p);
			if (st == TW_OK)
				break;
		}
	assert_true(refusals >= 3 * 2); /* the next version, and the history */
}

static void every_allocation_of_a_slice_may_fail(void **state)
{
	struct small_plan p;

	(void)state;
	small_plan_open(&p, TRAINABLE, BUFFERS, "async", "fasgd", "dana");
	for (unsigned nth = 1;; nth++) {
		struct refusing heap = REFUSING(nth);
		struct slice s;
		enum tw_status st;

		tw_slice_empty(&s, &p.plan, &heap.heap, 0);
		st = tw_slice_init(&s);
		if (st == TW_OK)
			tw_slice_release(&s);
		assert_int_equal(heap.live, 0); /* empty as before */
		if (heap.calls < nth) {
			assert_int_equal(st, TW_OK);
			break;
		}
		assert_int_equal(st, TW_NO_MEMORY);
	}
	small_plan_close(&p);
}

/* --- verify and stage ----------------------------------------------------------------------- */

/* The pass that checks and stages gives what the line gives without it, bit for bit. */
static void what_is_staged_is_the_update(void **state)
{
	struct small_plan p;
	struct slice fused, plain;

	(void)state;
	small_plan_open(&p, TRAINABLE, BUFFERS, "async", "none", "sgd");
	open_slice(&fused, &p, &tw_heap_system);
	open_slice(&plain, &p, &tw_heap_system);
	for (uint64_t k = 0; k < 20; k++) {
		struct contribution c = contribution(k, k * 50, 50), *one = &c;

		assert_int_equal(tw_slice_update_verify_and_stage(&fused, &c.push, c.g), TW_OK);
		assert_non_null(fused.next.w);
		assert_int_equal(tw_slice_update_commit(&fused, &quiet, &one, 1, 3), TW_OK);
		assert_null(fused.next.w);
		assert_int_equal(tw_slice_update_commit(&plain, &quiet, &one, 1, 3), TW_OK);
		same_slices(&fused, &plain);
		tw_block_drop(c.block);
	}
	tw_slice_release(&fused);
	tw_slice_release(&plain);
	small_plan_close(&p);
}

/* A sum that went through the line part by part is the update, and needs none of the values that
 * were staged; one of which a part is missing is not made use of. */
static void staged_parts_are_the_update(void **state)
{
	static const char *const rules[] = { "sgd", "momentum" };
	enum { CUT = TRAINABLE / 3, REST = TRAINABLE + BUFFERS - CUT };

	(void)state;
	for (int rule = 0; rule < 2; rule++) {
		struct small_plan p;
		struct slice fused, plain;

		small_plan_open(&p, TRAINABLE, BUFFERS, "bsp", "none", rules[rule]);
		p.plan.decay = 0.01f;
		open_slice(&fused, &p, &tw_heap_system);
		open_slice(&plain, &p, &tw_heap_system);
		for (uint64_t k = 0; k < 12; k++) {
			struct contribution c = contribution(k, k * 50, 50), *one = &c;
			const struct slice_part part[2] = { { 0, CUT, c.g },
							    { CUT, REST, c.g + CUT } };
			const struct slice_part let_go[2] = { { 0, CUT, NULL }, part[1] };
			struct contribution of = { .parts = 1, .push = c.push };

			c.g = NULL;
			c.parts = 2;
			c.part = part;
			c.push.account.weight = c.push.account.divide = of.push.account.weight =
				of.push.account.divide = 3.0f;
			for (int i = 0; i < (k % 3 == 2 ? 1 : 2); i++) {
				of.part = &part[i];
				/* the buffers in the second one are left to the commit */
				assert_int_equal(tw_slice_update_stage_part(&fused, &of),
						 rule == 0 && i == 0);
			}
			assert_int_equal(fused.next.w != NULL, rule == 0);
			if (rule == 0 && k % 3 == 1) /* its caller has let go of it */
				c.part = let_go;
			assert_int_equal(tw_slice_update_commit(&fused, &quiet, &one, 1, 3), TW_OK);
			c.part = part;
			assert_null(fused.next.w);
			assert_int_equal(tw_slice_update_commit(&plain, &quiet, &one, 1, 3), TW_OK);
			same_slices(&fused, &plain);
			tw_block_drop(c.block);
		}
		tw_slice_release(&fused);
		tw_slice_release(&plain);
		small_plan_close(&p);
	}
}

/* What is staged and dropped was never there: nothing differs, and no block is kept. */
static void what_is_dropped_leaves_nothing(void **state)
{
	struct small_plan p;
	struct slice s, twin;

	(void)state;
	small_plan_open(&p, TRAINABLE, BUFFERS, "async", "none", "sgd");
	open_slice(&s, &p, &tw_heap_system);
	open_slice(&twin, &p, &tw_heap_system);
	for (uint64_t k = 0; k < 10; k++) {
		struct contribution c = contribution(k, k * 50, 50);
		struct tw_block *before = photo(&s);
		struct tw_block *staged, *back;

		assert_int_equal(tw_slice_update_verify_and_stage(&s, &c.push, c.g), TW_OK);
		if (k % 2) /* staging anew drops what was staged before */
			assert_int_equal(tw_slice_update_verify_and_stage(&s, &c.push, c.g), TW_OK);
		staged = s.next.w;
		assert_non_null(staged);
		tw_slice_update_unstage(&s);
		assert_null(s.next.w);
		back = tw_pool_take(s.pool); /* the pool gives what came back last */
		assert_ptr_equal(back, staged);
		tw_block_drop(back);
		same_photos(before, photo(&s));
		tw_block_drop(c.block);
		assert_int_equal(commit(&s, 50 + k, 5000 + k * 10, 5), TW_OK);
		assert_int_equal(commit(&twin, 50 + k, 5000 + k * 10, 5), TW_OK);
		same_slices(&s, &twin);
	}
	tw_slice_release(&s);
	tw_slice_release(&twin);
	small_plan_close(&p);
}

static void what_is_not_finite_is_not_staged(void **state)
{
	static const size_t places[] = { 0,         1,      TW_TILE - 1, TW_TILE, TRAINABLE - 1,
					 TRAINABLE, ALL - 1 };
	static const char *const rules[] = { "sgd", "momentum" }; /* fused, and not */

	(void)state;
	for (size_t r = 0; r < 2; r++) {
		struct small_plan p;
		struct slice s;

		small_plan_open(&p, TRAINABLE, BUFFERS, "async", "none", rules[r]);
		open_slice(&s, &p, &tw_heap_system);
		for (size_t k = 0; k < sizeof places / sizeof places[0]; k++) {
			struct contribution c = contribution(k, 0, 5);
			struct tw_block *before = photo(&s);
			float *g = tw_block_floats(c.block);

			assert_int_equal(tw_slice_update_verify_and_stage(&s, &c.push, g), TW_OK);
			tw_slice_update_unstage(&s);
			g[places[k]] = k % 2 ? NAN : -INFINITY;
			assert_int_equal(tw_slice_update_verify_and_stage(&s, &c.push, g),
					 TW_BAD_BYTES);
			assert_null(s.next.w);
			same_photos(before, photo(&s));
			tw_block_drop(c.block);
		}
		tw_slice_release(&s);
		small_plan_close(&p);
	}
}

/* --- history -------------------------------------------------------------------------------- */

#define POSITIONS 400

/* Positions against a plain count of each of them. */
static void history_counts_positions(void **state)
{
	struct small_plan p;

	(void)state;
	small_plan_open(&p, TRAINABLE, BUFFERS, "softsync", "none", "sgd");
	for (uint64_t run = 0; run < 60; run++) {
		uint32_t times[POSITIONS] = { 0 };
		struct slice s;

		open_slice(&s, &p, &tw_heap_system);
		for (uint64_t k = 0; k < 12; k++) {
			const uint32_t count = 1 + (uint32_t)drawn(run * 1000 + k, 5);
			struct contribution c[5], *list[5];

			for (uint32_t j = 0; j < count; j++) {
				const uint64_t from =
					drawn(run * 1000 + 100 + k * 5 + j, POSITIONS);
				const uint64_t most = POSITIONS - from < 30 ? POSITIONS - from : 30;
				const uint64_t n = 1 + drawn(run * 1000 + 500 + k * 5 + j, most);

				c[j] = contribution(k, from, (uint32_t)n);
				list[j] = &c[j];
				for (uint64_t i = from; i < from + n; i++)
					times[i]++;
			}
			assert_int_equal(tw_slice_update_commit(&s, &quiet, list, count, 1), TW_OK);
			for (uint32_t j = 0; j < count; j++)
				tw_block_drop(c[j].block);
		}
		for (uint64_t i = 0; i < POSITIONS; i++) {
			assert_int_equal(tw_spans_within(&s.history.applied, i, i + 1),
					 times[i] > 0);
			assert_int_equal(tw_spans_within(&s.history.twice, i, i + 1), times[i] > 1);
		}
		tw_slice_release(&s);
	}
	small_plan_close(&p);
}

/* --- vectors in parts ------------------------------------------------------------------------ */

/* The same values, cut at these places and scattered over memory. */
static void scatter(const struct contribution *c, const size_t *cut, uint32_t parts,
		    struct slice_part *part, struct contribution *out)
{
	*out = *c;
	out->g = NULL;
	out->part = part;
	out->parts = parts;
	for (uint32_t k = 0; k < parts; k++) {
		const size_t n = cut[k + 1] - cut[k];
		float *at = malloc(n * sizeof *at);

		assert_non_null(at);
		memcpy(at, c->g + cut[k], n * sizeof *at);
		part[k] = (struct slice_part){ cut[k], n, at };
	}
}

/* Borders of parts in the middle of a tile, on its border, and where the buffers begin or not: an
 * update has the bits that it has for a vector in one piece. */
static void a_vector_in_parts_gives_the_same_update(void **state)
{
	static const size_t cuts[][6] = { { 0, ALL },
					  { 0, 4500, ALL },
					  { 0, 1, TW_TILE, TW_TILE + 1, TRAINABLE, ALL },
					  { 0, 777, 8999, 9001, ALL - 1, ALL } };
	static const uint32_t parts[] = { 1, 2, 5, 5 };

	for (size_t k = 0; tw_rule_all[k]; k++) {
		struct small_plan p;
		struct slice a, b;

		if (tw_rule_all[k]->traits & TW_RULE_PER_WORKER)
			continue; /* a sum is of no single worker */
		small_plan_open(&p, TRAINABLE, BUFFERS, "bsp", "none", tw_rule_all[k]->name);
		open_slice(&a, &p, &tw_heap_system);
		open_slice(&b, &p, &tw_heap_system);
		for (uint64_t nth = 0; nth < 4; nth++) {
			struct contribution whole = contribution(nth, nth * 50, 50), scattered;
			struct contribution *one = &whole, *other = &scattered;
			struct slice_part part[5];

			whole.push.account.weight = whole.push.account.divide = 2.0f;
			scatter(&whole, cuts[nth], parts[nth], part, &scattered);
			assert_int_equal(tw_slice_update_commit(&a, &quiet, &one, 1, 3), TW_OK);
			assert_int_equal(tw_slice_update_commit(&b, &quiet, &other, 1, 3), TW_OK);
			same_slices(&a, &b);
			for (uint32_t i = 0; i < parts[nth]; i++)
				free((void *)(uintptr_t)part[i].at);
			tw_block_drop(whole.block);
		}
		assert_int_equal(a.version.n, 4);
		tw_slice_release(&a);
		tw_slice_release(&b);
		small_plan_close(&p);
	}
}

/* --- robust sums ----------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
	const float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

/* sum: median (2) or trimmed (3), by the rows of the gate. */
static void choose_sum(const struct small_plan *p, uint32_t sum, float trim)
{
	char *base = (char *)(uintptr_t)p->plan.gate_options;

	memcpy(base + tw_option_find(p->plan.gate->options, "sum")->offset, &sum, sizeof sum);
	memcpy(base + tw_option_find(p->plan.gate->options, "trim")->offset, &trim, sizeof trim);
}

/* One update with `count` contributions, of which the first sends nonsense, against a sort of each
 * parameter's values; `off` of them are left out at each end. */
static void robust_update(uint32_t sum, float trim, uint32_t count, uint32_t off)
{
	struct contribution all[40], *at[40];
	struct small_plan p;
	struct slice s;
	float *before = malloc(ALL * sizeof *before), values[40];

	small_plan_open(&p, TRAINABLE, BUFFERS, "bsp", "none", "sgd");
	p.plan.crew.workers = 40;
	choose_sum(&p, sum, trim);
	open_slice(&s, &p, &tw_heap_system);
	memcpy(before, tw_block_floats(s.w), ALL * sizeof *before);
	for (uint32_t j = 0; j < count; j++) {
		all[j] = contribution(j, 10 * j, 10);
		all[j].slot = j;
		at[j] = &all[j];
	}
	for (size_t i = 0; count > 2 && i < TRAINABLE; i++)
		tw_block_floats(all[0].block)[i] = i % 2 ? 1e30f : -1e30f;
	assert_int_equal(tw_slice_update_commit(&s, &quiet, at, count, count), TW_OK);
	for (size_t i = 0; i < TRAINABLE; i++) {
		double mean = 0.0;

		for (uint32_t j = 0; j < count; j++)
			values[j] = all[j].g[i];
		qsort(values, count, sizeof *values, ascending);
		for (uint32_t j = off; j < count - off; j++)
			mean += values[j];
		mean /= count - 2 * off;
		if (tw_block_floats(s.w)[i] !=
		    fmaf(-(float)p.plan.schedule.rate, (float)mean, before[i]))
			fail_msg("%u contributions, parameter %zu: %g after %g", count, i,
				 (double)tw_block_floats(s.w)[i], (double)before[i]);
	}
	for (uint32_t j = 0; j < count; j++)
		tw_block_drop(all[j].block);
	tw_slice_release(&s);
	small_plan_close(&p);
	free(before);
}

static void robust_sums_leave_out_the_extremes(void **state)
{
	for (uint32_t n = 2; n <= 9; n++)
		robust_update(2, 0.25f, n, (n - 1) / 2);
	robust_update(2, 0.25f, 40, 19);
	robust_update(3, 0.25f, 8, 2);
	robust_update(3, 0.2f, 40, 8);
	robust_update(3, 0.49f, 3, 1);
}

/* --- sparse contributions ------------------------------------------------------------------- */

/* A contribution as a sparse codec sends it, and decoded. */
static void sparse_pair(const struct small_plan *p, uint64_t nth, struct contribution *coded,
			struct contribution *dense)
{
	const struct tw_traffic *t = &p->plan.traffic;
	const struct tw_rng rng = tw_rng_make(1, TW_RNG_TEST);
	const struct tw_encoding of = { .rng = &rng, .draw = nth };
	const size_t tail = BUFFERS * sizeof(float);
	size_t len = t->up->bound(t->up_options, TRAINABLE);
	void *state = calloc(1, t->up->state_bytes(t->up_options, TRAINABLE));
	float *g;

	*dense = contribution(nth, nth * 50, 50);
	*coded = *dense;
	g = tw_block_floats(dense->block);
	coded->block = tw_block_new(&tw_heap_system, tail + len);
	assert_true(coded->block && state);
	memcpy(coded->block->data, g + TRAINABLE, tail);
	assert_int_equal(t->up->encode(t->up_options, state, &of, g, TRAINABLE,
				       coded->block->data + tail, &len),
			 TW_OK);
	coded->g = NULL;
	coded->coded = coded->block->data + tail;
	coded->coded_bytes = len;
	assert_int_equal(tw_codec_decode(t->up, t->up_options, coded->coded, len, g, TRAINABLE),
			 TW_OK);
	free(state);
}

/* Added value by value, or decoded and run through the line: the same bits; and a version that
 * somebody holds is not written. */
static void sparse_and_dense_agree(void **state)
{
	for (size_t k = 0; tw_codec_all[k]; k++) {
		struct contribution coded, dense, *one;
		struct small_plan p;
		struct slice a, b;

		if (!tw_codec_all[k]->add)
			continue;
		small_plan_open(&p, TRAINABLE, BUFFERS, "async", "none", "sgd");
		small_plan_codec(&p, tw_codec_all[k]);
		open_slice(&a, &p, &tw_heap_system);
		open_slice(&b, &p, &tw_heap_system);
		for (uint64_t nth = 0; nth < 6; nth++) {
			struct tw_block *held = nth % 2 ? tw_slice_snapshot(&a) : NULL;
			struct tw_block *before = a.w, *copy = photo(&a), *after;
			float *kept = malloc(ALL * sizeof *kept);

			sparse_pair(&p, nth, &coded, &dense);
			assert_true(tw_slice_update_takes_sparse(&a, &coded.push));
			memcpy(kept, tw_block_floats(a.w), ALL * sizeof *kept);
			one = &coded;
			assert_int_equal(tw_slice_update_commit(&a, &quiet, &one, 1, 3), TW_OK);
			one = &dense;
			assert_int_equal(tw_slice_update_commit(&b, &quiet, &one, 1, 3), TW_OK);
			same_slices(&a, &b);
			assert_int_equal(a.w == before, !held);
			if (held)
				same_floats(tw_block_floats(held), kept);
			after = photo(&a);
			assert_true(memcmp(after->data, copy->data, copy->bytes) != 0);
			tw_block_drop(after);
			tw_block_drop(copy);
			tw_block_drop(held);
			tw_block_drop(coded.block);
			tw_block_drop(dense.block);
			free(kept);
		}
		tw_slice_release(&a);
		tw_slice_release(&b);
		small_plan_close(&p);
	}
}

/* Where the line does more than w - rate * g, sparse contributions are decoded. */
static void only_a_plain_line_takes_sparse(void **state)
{
	static const struct {
		const char *gate, *staleness, *rule, *codec;
		float divide;
		double skip;
		bool takes;
	} cases[] = { { "async", "none", "sgd", "topk", 1, NAN, true },
		      { "ssp", "none", "sgd", "topk", 1, NAN, true },
		      { "async", "none", "sgd", "fp16", 1, NAN, false },
		      { "async", "none", "sgd", "topk", 2, NAN, false },
		      { "async", "none", "sgd", "topk", 1, 0.5, false },
		      { "async", "none", "momentum", "topk", 1, NAN, false },
		      { "async", "inverse", "sgd", "topk", 1, NAN, false },
		      { "softsync", "none", "sgd", "topk", 1, NAN, false },
		      { "bsp", "none", "sgd", "topk", 1, NAN, false } };

	for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
		struct tw_body_push push = { .account.divide = cases[k].divide };
		struct small_plan p;
		struct slice s;

		small_plan_open(&p, TRAINABLE, BUFFERS, cases[k].gate, cases[k].staleness,
				cases[k].rule);
		small_plan_codec(&p, tw_codec_find(cases[k].codec));
		p.plan.traffic.skip_push = cases[k].skip;
		open_slice(&s, &p, &tw_heap_system);
		assert_int_equal(tw_slice_update_takes_sparse(&s, &push), cases[k].takes);
		tw_slice_release(&s);
		small_plan_close(&p);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_vector_in_parts_gives_the_same_update),
		cmocka_unit_test(robust_sums_leave_out_the_extremes),
		cmocka_unit_test(parts_come_back),
		cmocka_unit_test(hostile_parts_do_no_harm),
		cmocka_unit_test(without_memory_nothing_changes),
		cmocka_unit_test(every_allocation_of_a_slice_may_fail),
		cmocka_unit_test(what_is_staged_is_the_update),
		cmocka_unit_test(what_is_dropped_leaves_nothing),
		cmocka_unit_test(staged_parts_are_the_update),
		cmocka_unit_test(what_is_not_finite_is_not_staged),
		cmocka_unit_test(history_counts_positions),
		cmocka_unit_test(sparse_and_dense_agree),
		cmocka_unit_test(only_a_plain_line_takes_sparse),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
