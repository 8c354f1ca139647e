/* SPDX-License-Identifier: Apache-2.0 */
/* test_frame.c - messages in frames: in order and bit for bit, however the stream stutters. */
#include "wire/frame_hash.h"
#include "wire/frame_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

/* Does the type carry one?  Asked of the check that readers use. */
static bool carries(uint16_t type, uint32_t tail, uint32_t payload)
{
	const struct tw_msg m = { .h = { .magic = TW_WIRE_MAGIC,
					 .major = TW_WIRE_MAJOR,
					 .type = type,
					 .tail = tail,
					 .payload = payload } };
	const struct tw_header h = tw_msg_header(&m, 0);

	return tw_header_check(&h, NULL) == TW_OK;
}

static struct tw_msg *any(struct tw_heap *heap, uint64_t seed)
{
	static const uint32_t sizes[] = { 0,
					  1,
					  3,
					  100,
					  1023,
					  1024,
					  1025,
					  8192,
					  65536,
					  TW_CHUNK - 1,
					  TW_CHUNK,
					  TW_CHUNK + 1,
					  TW_CHUNK + 8000,
					  2 * TW_CHUNK,
					  2 * TW_CHUNK + 1,
					  3 * TW_CHUNK - 1,
					  3000000 };
	const uint16_t type = (uint16_t)(1 + kit_draw(seed, 0, TW_TYPES - 1));
	/* mostly short ones, as in life */
	const uint64_t size =
		kit_draw(seed, 1, 3) ? kit_draw(seed, 2, 4) : kit_draw(seed, 2, sizeof sizes / 4);
	const uint32_t tail = 128 * (uint32_t)kit_draw(seed, 3, kit_draw(seed, 4, 8) ? 4 : 300);
	const bool has_tail = carries(type, 128, 0), has_payload = carries(type, 0, sizes[size]);

	return kit_make(heap, seed * 8, type, has_tail ? tail : 0, has_payload ? sizes[size] : 0,
			kit_draw(seed, 5, 3) * kit_draw(seed, 6, 5000));
}

/* One turn of one end: a few messages more, then as much writing and reading as chance allows. */
static void turn(struct kit_end *e, struct kit_end *other, uint64_t seed, bool more)
{
	const size_t most = (size_t)1 << kit_draw(seed, 10, 20);
	enum tw_flow flow;
	size_t moved;

	if (kit_draw(seed, 12, 4) == 0)
		tw_writer_ping(e->writer, KIT_PING);
	for (uint64_t k = more ? kit_draw(seed, 11, 6) : 0; k; k--)
		kit_send(e, other, any(&e->heap->heap, seed * 8 + k));
	flow = tw_writer_run(e->writer, e->stream, most, kit_done, e, &moved);
	assert_true(flow == TW_FLOW_OK || flow == TW_FLOW_WAIT);
	assert_true(flow != TW_FLOW_OK || moved >= most || !tw_writer_busy(e->writer));
	flow = tw_reader_run(e->reader, e->stream, (size_t)1 << kit_draw(seed, 13, 20), &moved);
	if (flow == TW_FLOW_BROKEN)
		fail_msg("%s", tw_reader_why(e->reader));
	assert_true(flow == TW_FLOW_OK || flow == TW_FLOW_WAIT);
}

static void trust(struct kit_end *e)
{
	tw_writer_trust(e->writer);
	tw_reader_trust(e->reader);
}

/* What the other side fetched is given back; now and then it is told late. */
static void tell_fetched(struct kit_end *e, struct kit_end *other, uint64_t seed)
{
	if (kit_draw(seed, 14, 3))
		assert_true(tw_writer_taken(other->writer, tw_reader_fetched(e->reader), kit_done,
					    other));
}

/* `from` lends to `to` from now on. */
static void lend(struct kit_end *from, struct kit_end *to)
{
	const struct tw_lender l = tw_writer_lender(from->writer, 12345);

	assert_true(tw_lend_works(&l));
	tw_reader_borrow(to->reader, &l);
	tw_writer_lend(from->writer);
}

enum { HASHED, TRUSTING, LENDING };

static void both_ways(uint64_t seed, int buffer, int how)
{
	struct refusing heap = REFUSING(0);
	struct kit_end a, b;
	unsigned rounds = 0;
	int fd[2];

	kit_pair(fd, buffer);
	assert_true(kit_open(&a, &heap, fd[0]) && kit_open(&b, &heap, fd[1]));
	a.stop_every = 3;
	if (how != HASHED) {
		trust(&a);
		trust(&b);
	}
	while (rounds < 60 || tw_writer_busy(a.writer) || tw_writer_busy(b.writer) || a.expected ||
	       b.expected || tw_writer_lent(a.writer) || tw_writer_lent(b.writer)) {
		if (how == LENDING && rounds == 10) /* in the middle of a message, perhaps */
			lend(&a, &b);
		if (how == LENDING && rounds == 20)
			lend(&b, &a);
		turn(&a, &b, seed * 1000000 + 2 * rounds, rounds < 60);
		turn(&b, &a, seed * 1000000 + 2 * rounds + 1, rounds < 60);
		tell_fetched(&a, &b, seed * 1000000 + rounds);
		tell_fetched(&b, &a, seed * 1000000 + rounds + 1);
		assert_true(++rounds < 100000);
	}
	assert_int_equal(how == LENDING, tw_reader_fetched(a.reader) > 0);
	assert_int_equal(how == LENDING, tw_reader_fetched(b.reader) > 0);
	assert_true(a.came > 60 && b.came > 60 && a.pings > 5 && b.pings > 5);
	assert_int_equal(a.came, b.done);
	assert_int_equal(b.came, a.done);
	assert_int_equal(tw_writer_bytes(a.writer), 0);
	kit_close(&a);
	kit_close(&b);
	assert_int_equal(heap.live, 0);
}

static void all_messages_come_through_both_ways(void **state)
{
	for (uint64_t seed = 1; seed <= 6; seed++)
		both_ways(seed, seed % 2 ? 4608 : 0, seed > 4 ? TRUSTING : HASHED);
	for (uint64_t seed = 7; seed <= 16; seed++)
		both_ways(seed, seed % 2 ? 4608 : 0, LENDING);
}

/* What is lent stays until it was fetched, and is void when its writer is gone. */
static void a_loan_ends_with_its_writer(void **state)
{
	for (int gone = 0; gone < 2; gone++) {
		struct refusing heap = REFUSING(0);
		struct kit_end a, b;
		size_t moved;
		int fd[2];

		kit_pair(fd, 0);
		assert_true(kit_open(&a, &heap, fd[0]) && kit_open(&b, &heap, fd[1]));
		trust(&a);
		trust(&b);
		lend(&a, &b);
		kit_send(&a, &b, kit_make(&heap.heap, 1, TW_PUSH, 0, TW_LEND_LEAST - 1, 0));
		kit_send(&a, &b, kit_make(&heap.heap, 2, TW_PUSH, 0, 3 * TW_CHUNK + 5, 40));
		assert_int_equal(tw_writer_run(a.writer, a.stream, SIZE_MAX, kit_done, &a, &moved),
				 TW_FLOW_OK);
		assert_true(moved > TW_LEND_LEAST + 3 * TW_CHUNK); /* counted as if it had gone */
		assert_int_equal(a.done, 1);
		assert_int_equal(tw_writer_lent(a.writer), 1);
		assert_int_equal(tw_writer_bytes(a.writer), 0);
		assert_false(tw_writer_busy(a.writer));
		if (gone) {
			tw_writer_free(a.writer, kit_drop, &a);
			a.writer = NULL;
		}
		assert_int_equal(tw_reader_run(b.reader, b.stream, SIZE_MAX, &moved),
				 gone ? TW_FLOW_BROKEN : TW_FLOW_WAIT);
		assert_int_equal(b.came, gone ? 1 : 2);
		assert_int_equal(tw_reader_fetched(b.reader), !gone);
		if (gone) {
			assert_non_null(strstr(tw_reader_why(b.reader), "no longer has"));
		} else {
			assert_true(tw_writer_taken(a.writer, 1, kit_done, &a));
			assert_int_equal(a.done, 2);
			assert_false(tw_writer_taken(a.writer, 2, kit_done, &a));
		}
		kit_close(&a);
		kit_close(&b);
		assert_int_equal(heap.live, 0);
	}
}

/* A reader that has not asked takes no loan, and nothing is fetched from nowhere. */
static void loans_must_be_asked_for(void **state)
{
	struct tw_lender nobody = { 0, 0, 1 };
	struct refusing heap = REFUSING(0);
	struct kit_end a, b;
	size_t moved;
	int fd[2];

	assert_false(tw_lend_works(&nobody));
	kit_pair(fd, 0);
	assert_true(kit_open(&a, &heap, fd[0]) && kit_open(&b, &heap, fd[1]));
	trust(&a);
	trust(&b);
	tw_writer_lend(a.writer);
	kit_send(&a, &b, kit_make(&heap.heap, 2, TW_PUSH, 0, TW_CHUNK, 0));
	tw_writer_run(a.writer, a.stream, SIZE_MAX, kit_done, &a, &moved);
	assert_int_equal(tw_reader_run(b.reader, b.stream, SIZE_MAX, &moved), TW_FLOW_BROKEN);
	assert_non_null(strstr(tw_reader_why(b.reader), "lent without having asked"));
	nobody = tw_writer_lender(a.writer, 77);
	nobody.token = 78; /* not what stands there */
	assert_false(tw_lend_works(&nobody));
	kit_close(&a);
	kit_close(&b);
	assert_int_equal(heap.live, 0);
}

/* Whether payloads are hashed is not the sender's to say. */
static void trust_must_be_mutual(void **state)
{
	for (int writer = 0; writer < 2; writer++) {
		struct refusing heap = REFUSING(0);
		struct kit_end a, b;
		size_t moved;
		int fd[2];

		kit_pair(fd, 0);
		assert_true(kit_open(&a, &heap, fd[0]) && kit_open(&b, &heap, fd[1]));
		if (writer)
			tw_writer_trust(a.writer);
		else
			tw_reader_trust(b.reader);
		kit_send(&a, &b, kit_make(&heap.heap, 7, TW_ACK, 0, 0, 0)); /* has none */
		kit_send(&a, &b, kit_make(&heap.heap, 8, TW_PUSH, 0, 5000, 0));
		tw_writer_run(a.writer, a.stream, SIZE_MAX, kit_done, &a, &moved);
		assert_int_equal(tw_reader_run(b.reader, b.stream, SIZE_MAX, &moved),
				 TW_FLOW_BROKEN);
		assert_int_equal(b.came, 1);
		assert_non_null(strstr(tw_reader_why(b.reader), "hash"));
		kit_close(&a);
		kit_close(&b);
		assert_int_equal(heap.live, 0);
	}
}

/* One byte at a time: every border of every part is a border of a read. */
static void one_byte_at_a_time(void **state)
{
	struct refusing heap = REFUSING(0);
	struct kit_end a, b;
	size_t moved;
	int fd[2];

	kit_pair(fd, 0);
	assert_true(kit_open(&a, &heap, fd[0]) && kit_open(&b, &heap, fd[1]));
	for (uint16_t type = 1; type < TW_TYPES; type++)
		kit_send(&a, &b,
			 kit_make(&heap.heap, type, type, carries(type, 128, 0) ? 256 : 0,
				  carries(type, 0, 4) ? 77 : 0, 5));
	kit_send(&a, &b, kit_make(&heap.heap, 900, TW_PUSH, 0, TW_CHUNK + 2, 12));
	while (b.expected) {
		const enum tw_flow wrote =
			tw_writer_run(a.writer, a.stream, 1, kit_done, &a, &moved);

		assert_true(wrote == TW_FLOW_OK || wrote == TW_FLOW_WAIT);
		assert_true(tw_reader_run(b.reader, b.stream, 1, &moved) != TW_FLOW_BROKEN);
		assert_true(moved <= 1);
	}
	assert_int_equal(a.done, TW_TYPES);
	kit_close(&a);
	kit_close(&b);
	assert_int_equal(heap.live, 0);
}

/* A PING does not wait for the end of a long message, and comes out before it. */
static void a_ping_goes_between_chunks(void **state)
{
	struct refusing heap = REFUSING(0);
	struct kit_end a, b;
	unsigned between = 0;
	size_t moved;
	int fd[2];

	kit_pair(fd, 0);
	assert_true(kit_open(&a, &heap, fd[0]) && kit_open(&b, &heap, fd[1]));
	kit_send(&a, &b, kit_make(&heap.heap, 1, TW_PARAMS, 0, 9 * TW_CHUNK, 0));
	for (unsigned k = 0; b.expected; k++) {
		if (k == 1) {
			tw_writer_ping(a.writer, 1);
			tw_writer_ping(a.writer, KIT_PING); /* asked twice, goes once */
		}
		tw_writer_run(a.writer, a.stream, 1000, kit_done, &a, &moved);
		assert_true(tw_reader_run(b.reader, b.stream, 1u << 20, &moved) != TW_FLOW_BROKEN);
		if (b.pings && !b.came)
			between++;
	}
	assert_int_equal(b.pings, 1);
	assert_true(between > 3);
	kit_close(&a);
	kit_close(&b);
	assert_int_equal(heap.live, 0);
}

static void a_stop_keeps_what_was_read(void **state)
{
	struct refusing heap = REFUSING(0);
	struct kit_end a, b;
	size_t moved;
	int fd[2];

	kit_pair(fd, 0);
	assert_true(kit_open(&a, &heap, fd[0]) && kit_open(&b, &heap, fd[1]));
	b.stop_every = 1;
	for (unsigned k = 0; k < 10; k++)
		kit_send(&a, &b, kit_make(&heap.heap, k, TW_ACK, 0, 0, 0));
	assert_int_equal(tw_writer_bytes(a.writer), 10 * (64 + tw_body_bytes(TW_ACK)));
	assert_int_equal(tw_writer_run(a.writer, a.stream, 1u << 20, kit_done, &a, &moved),
			 TW_FLOW_OK);
	assert_int_equal(moved, 10 * (64 + tw_body_bytes(TW_ACK)));
	for (unsigned k = 1; k <= 10; k++) {
		assert_int_equal(tw_reader_run(b.reader, b.stream, SIZE_MAX, &moved), TW_FLOW_OK);
		assert_int_equal(moved > 0, k == 1); /* all were in the first read */
		assert_int_equal(b.came, k);
	}
	assert_int_equal(tw_reader_run(b.reader, b.stream, SIZE_MAX, &moved), TW_FLOW_WAIT);
	kit_close(&a);
	assert_int_equal(tw_reader_run(b.reader, b.stream, SIZE_MAX, &moved), TW_FLOW_END);
	assert_string_equal(tw_reader_why(b.reader), "");
	kit_close(&b);
	assert_int_equal(heap.live, 0);
}

/* Whatever is under way when both ends go is given back. */
static void leaving_in_the_middle_leaks_nothing(void **state)
{
	for (uint64_t seed = 0; seed < 200; seed++) {
		struct refusing heap = REFUSING(0);
		struct kit_end a, b;
		size_t moved;
		int fd[2];

		kit_pair(fd, 4608);
		assert_true(kit_open(&a, &heap, fd[0]) && kit_open(&b, &heap, fd[1]));
		kit_send(&a, &b, kit_make(&heap.heap, seed, TW_PEERS, 1280, 0, 0));
		kit_send(&a, &b, kit_make(&heap.heap, seed, TW_STATE, 3200, TW_CHUNK + 9, 3));
		kit_send(&a, &b, kit_make(&heap.heap, seed, TW_ACK, 0, 0, 0));
		for (uint64_t k = kit_draw(seed, 0, 200); k; k--) {
			if (k % 8 == 0)
				tw_writer_ping(a.writer, KIT_PING);
			tw_writer_run(a.writer, a.stream, 1, kit_done, &a, &moved);
			tw_reader_run(b.reader, b.stream, 1 + kit_draw(seed, k, 3000), &moved);
		}
		kit_close(&a);
		kit_close(&b);
		assert_int_equal(heap.live, 0);
	}
}

/* Whatever vectors this machine has: the library's value, whole and in two pieces. */
static void hashes_are_the_same_by_all(void **state)
{
	const struct tw_frame_hash *all[3] = { tw_frame_hash() };
	static uint8_t bytes[3000];
	size_t count = 1;

#ifdef TW_FRAME_HASH_WIDE
	if (__builtin_cpu_supports("avx2"))
		all[count++] = &tw_frame_hash_avx2;
	if (__builtin_cpu_supports("avx512f"))
		all[count++] = &tw_frame_hash_avx512;
#endif
	kit_noise(1, bytes, sizeof bytes);
	for (size_t k = 0; k < count; k++)
		for (size_t len = 0; len <= sizeof bytes; len += 1 + len / 50) {
			const uint64_t want = XXH3_64bits_withSeed(bytes, len, len);
			XXH3_state_t pieces;

			assert_true(all[k]->whole(bytes, len, len) == want);
			XXH3_64bits_reset_withSeed(&pieces, len);
			all[k]->update(&pieces, bytes, len / 3);
			all[k]->update(&pieces, bytes + len / 3, len - len / 3);
			assert_true(XXH3_64bits_digest(&pieces) == want);
		}
}

static void memory_of_a_connection_is_bounded(void **state)
{
	assert_in_range(tw_frame_memory(), 1, 24u << 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_messages_come_through_both_ways),
		cmocka_unit_test(a_loan_ends_with_its_writer),
		cmocka_unit_test(loans_must_be_asked_for),
		cmocka_unit_test(trust_must_be_mutual),
		cmocka_unit_test(one_byte_at_a_time),
		cmocka_unit_test(a_ping_goes_between_chunks),
		cmocka_unit_test(a_stop_keeps_what_was_read),
		cmocka_unit_test(leaving_in_the_middle_leaks_nothing),
		cmocka_unit_test(hashes_are_the_same_by_all),
		cmocka_unit_test(memory_of_a_connection_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
