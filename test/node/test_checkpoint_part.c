/* SPDX-License-Identifier: Apache-2.0 */
/* test_checkpoint_part.c - parts: there and back bit for bit, and nothing from hostile bytes. */
#include "base/refusing.h"
#include "base/rng.h"
#include "node/checkpoint_part.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define HEAD  16 /* bytes: magic, count, zero */
#define ENTRY 72

static const float floats[7] = { 1.5f, -0.0f, 3e-45f, 1e38f, -2.0f, 0.1f, 7.0f };

static const struct tw_array sample[] = {
	{ .name = "w", .from = 40, .n = 7, .kind = TW_FLOATS, .at = floats },
	{ .name = "applied", .n = 13, .kind = TW_BYTES, .at = "thirteen byte" },
	{ .name = "nothing", .from = UINT64_MAX, .n = 0, .kind = TW_FLOATS },
	{ .name = "rule.sum", .from = 3, .n = 1, .kind = TW_FLOATS, .at = floats + 3 },
};
#define ARRAYS (sizeof sample / sizeof sample[0])

static size_t bytes_of(const struct tw_array *a)
{
	return a->n * (a->kind == TW_FLOATS ? sizeof(float) : 1);
}

/* Unpack bytes in a block of exactly their size; on TW_OK touch everything it lists. */
static enum tw_status take(const uint8_t *bytes, size_t len)
{
	struct refusing heap = REFUSING(0);
	struct tw_array *list = NULL;
	volatile uint8_t touched = 0;
	size_t count = 12345;
	enum tw_status st;
	uint8_t *exact = malloc(len ? len : 1);

	assert_non_null(exact);
	memcpy(exact, bytes, len);
	st = tw_part_unpack(exact, len, &heap.heap, &list, &count);
	if (st == TW_OK) {
		assert_true(count <= TW_PART_ARRAYS_MAX);
		assert_true(HEAD + count * ENTRY <= len);
		for (size_t k = 0; k < count; k++) {
			const struct tw_array *a = &list[k];

			assert_true(a->kind == TW_FLOATS || a->kind == TW_BYTES);
			assert_non_null(memchr(a->name, '\0', sizeof a->name));
			assert_true(a->from + a->n >= a->from);
			for (size_t i = 0; i < bytes_of(a); i++)
				touched ^= ((const uint8_t *)a->at)[i];
		}
		tw_part_find(list, count, "none of these");
		heap.heap.put(&heap.heap, list);
	} else {
		assert_int_equal(st, TW_BAD_BYTES);
		assert_null(list);
		assert_int_equal(count, 12345);
	}
	assert_int_equal(heap.live, 0);
	free(exact);
	return st;
}

static void arrays_come_back(void **state)
{
	struct refusing heap = REFUSING(0);
	struct tw_block *b = tw_part_pack(&heap.heap, sample, ARRAYS);
	struct tw_array *list;
	size_t count;

	assert_non_null(b);
	assert_memory_equal(b->data, "TWPART1", 8);
	assert_int_equal(b->bytes % TW_ALIGN, 0);
	assert_int_equal(tw_part_unpack(b->data, b->bytes, &heap.heap, &list, &count), TW_OK);
	assert_int_equal(count, ARRAYS);
	for (size_t k = 0; k < count; k++) {
		assert_string_equal(list[k].name, sample[k].name);
		assert_int_equal(list[k].from, sample[k].from);
		assert_int_equal(list[k].n, sample[k].n);
		assert_int_equal(list[k].kind, sample[k].kind);
		assert_int_equal((uintptr_t)list[k].at % TW_ALIGN, 0);
		if (sample[k].n)
			assert_memory_equal(list[k].at, sample[k].at, bytes_of(&sample[k]));
		assert_ptr_equal(tw_part_find(list, count, sample[k].name), &list[k]);
	}
	assert_null(tw_part_find(list, count, "rule"));
	heap.heap.put(&heap.heap, list);
	tw_block_drop(b);
	assert_int_equal(heap.live, 0);
}

static void the_same_arrays_give_the_same_bytes(void **state)
{
	struct tw_block *a = tw_part_pack(&tw_heap_system, sample, ARRAYS);
	struct tw_block *b = tw_part_pack(&tw_heap_system, sample, ARRAYS);

	assert_int_equal(a->bytes, b->bytes);
	assert_memory_equal(a->data, b->data, a->bytes);
	tw_block_drop(a);
	tw_block_drop(b);
}

static void nothing_is_a_part_too(void **state)
{
	struct tw_block *b = tw_part_pack(&tw_heap_system, NULL, 0);
	struct tw_array *list;
	size_t count;

	assert_non_null(b);
	assert_int_equal(tw_part_unpack(b->data, b->bytes, &tw_heap_system, &list, &count), TW_OK);
	assert_int_equal(count, 0);
	assert_null(tw_part_find(list, count, "w"));
	tw_heap_system.put(&tw_heap_system, list);
	tw_block_drop(b);
}

static void a_long_name_stays_text(void **state)
{
	struct tw_array a = { .n = 1, .kind = TW_BYTES, .at = "x" };
	struct tw_array *list;
	struct tw_block *b;
	size_t count;

	memset(a.name, 'n', sizeof a.name);
	b = tw_part_pack(&tw_heap_system, &a, 1);
	assert_int_equal(tw_part_unpack(b->data, b->bytes, &tw_heap_system, &list, &count), TW_OK);
	assert_int_equal(strlen(list[0].name), sizeof a.name - 1);
	tw_heap_system.put(&tw_heap_system, list);
	tw_block_drop(b);
}

static void every_truncation_is_refused(void **state)
{
	/* the last array reaches into the last block of 64, so its end is known */
	struct tw_block *b = tw_part_pack(&tw_heap_system, sample, ARRAYS);
	const size_t end = b->bytes - TW_ALIGN + sizeof(float);

	for (size_t len = 0; len < b->bytes; len++)
		assert_int_equal(take(b->data, len), len < end ? TW_BAD_BYTES : TW_OK);
	tw_block_drop(b);
}

static void every_flipped_bit_of_the_header_does_no_harm(void **state)
{
	struct tw_block *b = tw_part_pack(&tw_heap_system, sample, ARRAYS);

	for (size_t bit = 0; bit < 8 * (HEAD + ARRAYS * ENTRY); bit++) {
		enum tw_status st;

		b->data[bit / 8] ^= (uint8_t)(1u << bit % 8);
		st = take(b->data, b->bytes);
		if (bit / 8 < 8)
			assert_int_equal(st, TW_BAD_BYTES);
		b->data[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	assert_int_equal(take(b->data, b->bytes), TW_OK);
	tw_block_drop(b);
}

static void put(uint8_t *at, uint64_t value, size_t bytes)
{
	memcpy(at, &value, bytes);
}

static void absurd_numbers_are_refused(void **state)
{
	static const uint64_t counts[] = {
		5,          6,          1000,      TW_PART_ARRAYS_MAX, TW_PART_ARRAYS_MAX + 1,
		0x38e38e39, 0x80000000, 0xffffffff
	};
	static const uint64_t numbers[] = { 0x7fffffff,      0x80000000,       0xffffffff,
					    1ull << 62,      (1ull << 62) + 7, 1ull << 63,
					    UINT64_MAX - 63, UINT64_MAX };
	struct tw_block *b = tw_part_pack(&tw_heap_system, sample, 1);
	uint8_t *bytes = malloc(b->bytes);

	for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++) {
		memcpy(bytes, b->data, b->bytes);
		put(bytes + 8, counts[k], 4);
		assert_int_equal(take(bytes, b->bytes), TW_BAD_BYTES);
	}
	for (size_t k = 0; k < sizeof numbers / sizeof numbers[0]; k++) {
		memcpy(bytes, b->data, b->bytes);
		put(bytes + HEAD + 48, numbers[k], 8); /* n */
		assert_int_equal(take(bytes, b->bytes), TW_BAD_BYTES);
		memcpy(bytes, b->data, b->bytes);
		put(bytes + HEAD + 64, numbers[k], 8); /* offset */
		assert_int_equal(take(bytes, b->bytes), TW_BAD_BYTES);
		memcpy(bytes, b->data, b->bytes);
		put(bytes + HEAD + 40, numbers[k], 8); /* from: whatever does not wrap */
		assert_int_equal(take(bytes, b->bytes),
				 numbers[k] > UINT64_MAX - 7 ? TW_BAD_BYTES : TW_OK);
	}
	for (uint64_t kind = 0; kind < 6; kind++) {
		memcpy(bytes, b->data, b->bytes);
		put(bytes + HEAD + 56, kind, 4);
		assert_int_equal(take(bytes, b->bytes),
				 kind == TW_FLOATS || kind == TW_BYTES ? TW_OK : TW_BAD_BYTES);
	}
	memcpy(bytes, b->data, b->bytes);
	memset(bytes + HEAD, 'n', 40); /* a name that does not end */
	assert_int_equal(take(bytes, b->bytes), TW_BAD_BYTES);
	memcpy(bytes, b->data, b->bytes);
	put(bytes + HEAD + 64, 1, 8); /* floats at an odd place */
	assert_int_equal(take(bytes, b->bytes), TW_BAD_BYTES);
	free(bytes);
	tw_block_drop(b);
}

/* A few bytes of a good part overwritten, cut anywhere. */
static void damage(const struct tw_block *b, uint64_t seed)
{
	const struct tw_rng r = tw_rng_make(seed, TW_RNG_FAULT);
	const unsigned hits = 1 + (unsigned)(tw_rng_uniform(&r, 0, 0) * 8.0);
	const size_t len = tw_rng_uniform(&r, 0, 1) < 0.5
				   ? b->bytes
				   : (size_t)(tw_rng_uniform(&r, 0, 2) * (double)b->bytes);
	uint8_t *bytes = malloc(b->bytes);

	memcpy(bytes, b->data, b->bytes);
	for (unsigned k = 1; k <= hits; k++) {
		const size_t head = HEAD + ARRAYS * ENTRY;
		const size_t at = (size_t)(tw_rng_uniform(&r, k, 0) * (double)head);
		const double what = tw_rng_uniform(&r, k, 1);

		bytes[at] = what < 0.3   ? 0xff
			    : what < 0.5 ? 0
					 : (uint8_t)(tw_rng_uniform(&r, k, 2) * 256.0);
	}
	take(bytes, len);
	free(bytes);
}

static void random_damage_does_no_harm(void **state)
{
	struct tw_block *b = tw_part_pack(&tw_heap_system, sample, ARRAYS);

	for (uint64_t seed = 1; seed <= 20000; seed++)
		damage(b, seed);
	tw_block_drop(b);
}

static void random_bytes_do_no_harm(void **state)
{
	uint8_t bytes[300];

	for (uint64_t seed = 1; seed <= 3000; seed++) {
		const struct tw_rng r = tw_rng_make(seed, TW_RNG_SIM);
		const size_t len = (size_t)(tw_rng_uniform(&r, 0, 0) * sizeof bytes);

		for (size_t i = 0; i < len; i++)
			bytes[i] = (uint8_t)(tw_rng_uniform(&r, 1, i) * 256.0);
		assert_int_equal(take(bytes, len), TW_BAD_BYTES);
		if (len < HEAD)
			continue;
		memcpy(bytes, "TWPART1", 8);
		put(bytes + 8, seed % 5, 4);
		take(bytes, len);
	}
}

static void without_memory_nothing_is_kept(void **state)
{
	struct refusing none = REFUSING(1);
	struct tw_block *b;
	struct tw_array *list;
	size_t count;

	assert_null(tw_part_pack(&none.heap, sample, ARRAYS));
	assert_int_equal(none.live, 0);
	b = tw_part_pack(&tw_heap_system, sample, ARRAYS);
	none = (struct refusing)REFUSING(1);
	assert_int_equal(tw_part_unpack(b->data, b->bytes, &none.heap, &list, &count),
			 TW_NO_MEMORY);
	assert_int_equal(none.live, 0);
	tw_block_drop(b);
}

static void the_masters_part_is_found_or_refused(void **state)
{
	const struct tw_master_part want = { .cut = 3, .round = 7, .release = 12345, .slots = 4 };
	struct tw_array a = { .name = "master", .n = sizeof want, .kind = TW_BYTES, .at = &want };
	struct tw_part parts[2] = { { .name = "shard 0" }, { .name = "master" } };
	struct tw_master_part got;

	parts[0].bytes = tw_part_pack(&tw_heap_system, sample, ARRAYS);
	parts[1].bytes = tw_part_pack(&tw_heap_system, &a, 1);
	assert_int_equal(tw_master_part_read(parts, 2, &got), TW_OK);
	assert_memory_equal(&got, &want, sizeof want);
	assert_int_equal(tw_master_release_time(parts, 2), 12345);
	assert_int_equal(tw_master_part_read(parts, 1, &got), TW_ABSENT);
	assert_int_equal(tw_master_release_time(parts, 1), 0);
	parts[1].bytes->bytes -= TW_ALIGN;
	assert_int_equal(tw_master_part_read(parts, 2, &got), TW_BAD_BYTES);
	tw_block_drop(parts[1].bytes);
	a.n--; /* another length than this program's */
	parts[1].bytes = tw_part_pack(&tw_heap_system, &a, 1);
	assert_int_equal(tw_master_part_read(parts, 2, &got), TW_BAD_BYTES);
	tw_block_drop(parts[0].bytes);
	tw_block_drop(parts[1].bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arrays_come_back),
		cmocka_unit_test(the_same_arrays_give_the_same_bytes),
		cmocka_unit_test(nothing_is_a_part_too),
		cmocka_unit_test(a_long_name_stays_text),
		cmocka_unit_test(every_truncation_is_refused),
		cmocka_unit_test(every_flipped_bit_of_the_header_does_no_harm),
		cmocka_unit_test(absurd_numbers_are_refused),
		cmocka_unit_test(random_damage_does_no_harm),
		cmocka_unit_test(random_bytes_do_no_harm),
		cmocka_unit_test(without_memory_nothing_is_kept),
		cmocka_unit_test(the_masters_part_is_found_or_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
