/* SPDX-License-Identifier: Apache-2.0 */
/* test_frame_hostile.c - readers of frames against bytes that are cut, flipped, or meant badly. */
#include "wire/frame_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define HEAD sizeof(struct tw_header)

/* Five short messages: with nothing, with a body, with a tail, with a payload, with all. */
static uint8_t *few(size_t *len, size_t end[5])
{
	struct tw_heap *heap = &tw_heap_system;
	struct tw_msg *m[5] = { kit_make(heap, 1, TW_BYE, 0, 0, 0),
				kit_make(heap, 2, TW_PULL, 0, 0, 0),
				kit_make(heap, 3, TW_COMMIT, 32, 0, 0),
				kit_make(heap, 4, TW_DENY, 0, 21, 4),
				kit_make(heap, 5, TW_STATE, 16, 19, 0) };
	size_t at = 0;

	for (int k = 0; k < 5; k++)
		end[k] = at += tw_msg_bytes(m[k]);
	return kit_bytes(m, 5, false, len);
}

/* Two chunks, the second short. */
static uint8_t *long_one(size_t *len, uint32_t more, bool pings)
{
	struct tw_msg *m = kit_make(&tw_heap_system, 9, TW_PUSH, 0, TW_CHUNK + more, 8);

	return kit_bytes(&m, 1, pings, len);
}

/* Where the second frame of long_one starts. */
static size_t second(void)
{
	return HEAD + tw_body_bytes(TW_PUSH) + TW_CHUNK;
}

/* Reads the bytes; returns how many messages came, *flow what was said, *why if it is asked for. */
static unsigned feed(const uint8_t *bytes, size_t len, enum tw_flow *flow, char why[600])
{
	struct refusing heap = REFUSING(0);
	struct kit_end e;
	unsigned came;

	*flow = kit_feed(&e, &heap, bytes, len);
	came = e.came;
	assert_int_equal(*flow == TW_FLOW_BROKEN, tw_reader_why(e.reader)[0] != 0);
	if (why)
		snprintf(why, 600, "%s", tw_reader_why(e.reader));
	if (*flow == TW_FLOW_BROKEN) { /* and stays so */
		size_t got;

		assert_int_equal(tw_reader_run(e.reader, e.stream, 1000, &got), TW_FLOW_BROKEN);
	}
	kit_close(&e);
	assert_int_equal(heap.live, 0);
	return came;
}

static void every_truncation_is_seen(void **state)
{
	enum tw_flow flow;
	size_t len, end[5];
	uint8_t *bytes = few(&len, end);

	for (size_t cut = 0; cut <= len; cut++) {
		unsigned whole = 0;

		while (whole < 5 && end[whole] <= cut)
			whole++;
		assert_int_equal(feed(bytes, cut, &flow, NULL), whole);
		assert_int_equal(flow, TW_FLOW_END);
	}
	free(bytes);
	bytes = long_one(&len, 40, false);
	for (size_t cut = second() - 10; cut <= len; cut++) {
		assert_int_equal(feed(bytes, cut, &flow, NULL), cut == len);
		assert_int_equal(flow, TW_FLOW_END);
	}
	free(bytes);
}

/* The flipped frame is refused; those before it came. */
static void every_flipped_bit_is_refused(void **state)
{
	enum tw_flow flow;
	size_t len, end[5];
	uint8_t *bytes = few(&len, end);

	for (size_t bit = 0; bit < 8 * len; bit++) {
		unsigned before = 0;

		while (end[before] <= bit / 8)
			before++;
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_int_equal(feed(bytes, len, &flow, NULL), before);
		assert_int_equal(flow, TW_FLOW_BROKEN);
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	assert_int_equal(feed(bytes, len, &flow, NULL), 5);
	free(bytes);
}

/* Every bit of both headers, of the body and of the last bytes, and some of what is between. */
static void every_flipped_bit_of_chunks_is_refused(void **state)
{
	const size_t body = HEAD + tw_body_bytes(TW_PUSH);
	size_t len, step = 1;
	enum tw_flow flow;
	uint8_t *bytes = long_one(&len, 24, false);

	for (size_t bit = 0; bit < 8 * len; bit += step) {
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_int_equal(feed(bytes, len, &flow, NULL), 0);
		assert_int_equal(flow, TW_FLOW_BROKEN);
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		step = bit >= 8 * body && bit + 8011 < 8 * second() ? 8011 : 1;
	}
	assert_int_equal(feed(bytes, len, &flow, NULL), 1);
	assert_int_equal(flow, TW_FLOW_END);
	free(bytes);
}

/* --- good hashes, bad intentions --- */

/* Frame `at` of the bytes, with `change` made to its header and its hash right. */
static void refused(uint8_t *bytes, size_t len, size_t at, struct tw_header h, const char *sentence)
{
	uint8_t *bad = malloc(len);
	enum tw_flow flow;
	char why[600];
	struct tw_header was;

	assert_non_null(bad);
	memcpy(bad, bytes, len);
	memcpy(&was, bytes + at, sizeof was);
	memcpy(bad + at, &h, sizeof h);
	if (h.length == was.length)
		kit_seal(bad + at);
	assert_int_equal(feed(bad, len, &flow, why), 0);
	assert_int_equal(flow, TW_FLOW_BROKEN);
	if (!strstr(why, sentence))
		fail_msg("'%s' does not say '%s'", why, sentence);
	free(bad);
}

#define REFUSED(at, field, value, sentence)                                                        \
	do {                                                                                       \
		struct tw_header changed;                                                          \
		memcpy(&changed, bytes + (at), sizeof changed);                                    \
		changed.field = (value);                                                           \
		refused(bytes, len, (at), changed, (sentence));                                    \
	} while (0)

static void headers_that_do_not_fit_are_refused(void **state)
{
	struct tw_msg *m = kit_make(&tw_heap_system, 3, TW_COMMIT, 32, 0, 0);
	size_t len;
	uint8_t *bytes = kit_bytes(&m, 1, false, &len);

	REFUSED(0, magic, TW_WIRE_MAGIC ^ 1, "not a message of Thalweg");
	REFUSED(0, major, 7, "version 7.");
	REFUSED(0, major, 7, "this process uses 4.0");
	REFUSED(0, type, 0, "no message of type 0");
	REFUSED(0, type, TW_TYPES, "no message of type");
	REFUSED(0, type, 60000, "no message of type 60000");
	REFUSED(0, sender, TW_ROLES, "roles are 0 to 3");
	REFUSED(0, receiver, 255, "roles are 0 to 3");
	REFUSED(0, length, 0, "but its parts have");
	REFUSED(0, length, UINT32_MAX, "but its parts have");
	REFUSED(0, tail, 48, "but its parts have");
	REFUSED(0, tail, 33, "records of 16 bytes");
	REFUSED(0, tail, (16u << 20) + 16, "at most");
	REFUSED(0, tail, UINT32_MAX - 15, "at most");
	REFUSED(0, payload, 1, "must have no payload");
	REFUSED(0, type, TW_ACK, "must have no tail");
	REFUSED(0, chunk, 1, "chunk 1");
	free(bytes);
	m = kit_make(&tw_heap_system, 3, TW_ACK, 0, 0, 0);
	m->from.role = TW_SHARD;
	m->to.role = TW_WORKER;
	bytes = kit_bytes(&m, 1, false, &len);
	REFUSED(0, shard, 65536, "no shard 65536");
	free(bytes);
}

static void chunks_out_of_turn_are_refused(void **state)
{
	size_t len;
	uint8_t *bytes = long_one(&len, 2 * TW_CHUNK, false);
	enum tw_flow flow;
	char why[600];

	REFUSED(0, chunk, 1, "but its parts have");
	REFUSED(second(), chunk, 2, "where chunk 1 of PUSH must follow");
	REFUSED(second(), chunk, 3, "chunk 3 of a payload");
	REFUSED(second(), seq, 1, "another PUSH");
	REFUSED(second(), from, 1, "another PUSH");
	REFUSED(second(), incarnation, 1, "another PUSH");
	REFUSED(second(), view, 1, "another PUSH");
	REFUSED(second(), flags, 1, "another PUSH");
	REFUSED(second(), type, TW_PARAMS, "another PARAMS");
	REFUSED(second(), payload, 3 * TW_CHUNK - 1, "another PUSH");
	/* the end of a message without its beginning */
	assert_int_equal(feed(bytes + second(), len - second(), &flow, why), 0);
	assert_int_equal(flow, TW_FLOW_BROKEN);
	assert_non_null(strstr(why, "without its beginning"));
	/* its beginning twice: another message between the chunks */
	memmove(bytes + second(), bytes, len - second());
	assert_int_equal(feed(bytes, len, &flow, why), 0);
	assert_int_equal(flow, TW_FLOW_BROKEN);
	assert_non_null(strstr(why, "chunk 0 of PUSH where chunk 1 of PUSH must follow"));
	free(bytes);
}

static void pings_between_chunks_are_read(void **state)
{
	struct refusing heap = REFUSING(0);
	struct kit_end e;
	size_t len;
	uint8_t *bytes = long_one(&len, 2 * TW_CHUNK, true);

	assert_int_equal(kit_feed(&e, &heap, bytes, len), TW_FLOW_END);
	assert_int_equal(e.came, 1);
	assert_true(e.pings >= 3);
	kit_close(&e);
	assert_int_equal(heap.live, 0);
	free(bytes);
}

/* Who is not admitted costs nothing: the header is all that was looked at. */
static void what_is_not_admitted_is_not_allocated(void **state)
{
	struct refusing heap = REFUSING(0);
	struct tw_header h = { .magic = TW_WIRE_MAGIC,
			       .major = TW_WIRE_MAJOR,
			       .type = TW_PUSH,
			       .length = sizeof(struct tw_body_push) + TW_CHUNK,
			       .payload = UINT32_MAX };
	struct kit_end e;

	assert_int_equal(kit_feed(&e, &heap, (uint8_t *)&h, sizeof h), TW_FLOW_BROKEN);
	assert_non_null(strstr(tw_reader_why(e.reader), "more than is admitted"));
	assert_int_equal(heap.calls, 3); /* of kit_open */
	kit_close(&e);
	assert_int_equal(heap.live, 0);
}

static void every_allocation_may_fail(void **state)
{
	size_t len, long_len, end[5];
	uint8_t *bytes = few(&len, end), *chunks = long_one(&long_len, 5, false);
	unsigned nth = 1;

	bytes = realloc(bytes, len + long_len);
	assert_non_null(bytes);
	memcpy(bytes + len, chunks, long_len);
	for (;; nth++) {
		struct refusing heap = REFUSING(nth);
		struct kit_end e;
		const enum tw_flow flow = kit_feed(&e, &heap, bytes, len + long_len);
		const bool opened = nth > 3;

		if (heap.calls < nth) {
			assert_int_equal(flow, TW_FLOW_END);
			assert_int_equal(e.came, 6);
			kit_close(&e);
			assert_int_equal(heap.live, 0);
			break;
		}
		assert_int_equal(flow, TW_FLOW_BROKEN);
		if (opened) {
			assert_non_null(strstr(tw_reader_why(e.reader), "no memory for "));
			kit_close(&e);
		}
		assert_int_equal(heap.live, 0);
	}
	assert_int_equal(nth, 3 + 6 + 2 + 3 + 1); /* ends, messages, tails, payloads */
	free(bytes);
	free(chunks);
}

static void noise_is_refused(void **state)
{
	static uint8_t bytes[20000];
	enum tw_flow flow;

	for (uint64_t seed = 1; seed < 300; seed++) {
		struct tw_header h;

		kit_noise(seed, bytes, sizeof bytes);
		assert_int_equal(feed(bytes, sizeof bytes, &flow, NULL), 0);
		assert_int_equal(flow, TW_FLOW_BROKEN);
		/* and from one who knows how a frame begins */
		memcpy(&h, bytes, sizeof h);
		h.magic = TW_WIRE_MAGIC;
		h.major = TW_WIRE_MAJOR;
		h.type = (uint16_t)(1 + seed % (TW_TYPES - 1));
		h.sender %= TW_ROLES;
		h.receiver %= TW_ROLES;
		h.shard %= 100;
		h.chunk = 0;
		h.tail = seed % 3 ? 0 : 16 * (h.tail % 100);
		h.payload %= 1000;
		h.length = (uint32_t)tw_body_bytes(h.type) + h.tail + h.payload;
		memcpy(bytes, &h, sizeof h);
		if (seed % 2)
			kit_seal(bytes);
		assert_true(feed(bytes, sizeof bytes, &flow, NULL) <= 1);
		assert_int_equal(flow, TW_FLOW_BROKEN);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_truncation_is_seen),
		cmocka_unit_test(every_flipped_bit_is_refused),
		cmocka_unit_test(every_flipped_bit_of_chunks_is_refused),
		cmocka_unit_test(headers_that_do_not_fit_are_refused),
		cmocka_unit_test(chunks_out_of_turn_are_refused),
		cmocka_unit_test(pings_between_chunks_are_read),
		cmocka_unit_test(what_is_not_admitted_is_not_allocated),
		cmocka_unit_test(every_allocation_may_fail),
		cmocka_unit_test(noise_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
