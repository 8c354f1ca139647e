/* SPDX-License-Identifier: Apache-2.0 */
/* test_message.c - frames: there and back bit for bit, and nothing from hostile bytes. */
#include "actor/message.h"
#include "base/refusing.h"
#include "base/rng.h"
#include "kit/one_frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

/* What each type may carry, from docs/WIRE.md. */
static const struct {
	uint16_t type;
	bool tail, payload;
	uint32_t record; /* 0: 16 bytes */
} kinds[] = {
	{ TW_HELLO, true, false },       { TW_WELCOME, true, true },
	{ TW_REFUSE, false, false },     { TW_VIEW, true, false },
	{ TW_BYE, false, false },        { TW_HOST, false, true },
	{ TW_HOSTED, false, false },     { TW_STATE, true, true },
	{ TW_ASK, false, false },        { TW_LEASE, false, false },
	{ TW_DONE, true, false },        { TW_IDLE, false, false },
	{ TW_PUSH, false, true },        { TW_ACK, false, false },
	{ TW_PULL, false, false },       { TW_PARAMS, false, true },
	{ TW_UNCHANGED, false, false },  { TW_HAVE, false, false },
	{ TW_COMMIT, true, false },      { TW_PIN, false, false },
	{ TW_EVAL, false, false },       { TW_RESULT, false, false },
	{ TW_SNAP, false, false },       { TW_PART, true, true },
	{ TW_FORM, true, false },        { TW_REDUCE, false, true },
	{ TW_GIVE, false, false },       { TW_COPY, false, true },
	{ TW_SPREAD, false, true },      { TW_HEARD, false, false },
	{ TW_MIX, false, true },         { TW_VEC, true, false },
	{ TW_SCALAR, true, false, 8 },   { TW_ACT, false, true },
	{ TW_GRAD, false, true },        { TW_CLOSED, false, false },
	{ TW_FIGURES, false, false },    { TW_FETCH, false, false },
	{ TW_SAMPLES, false, true },     { TW_GREET, false, false },
	{ TW_TERMS, false, false },      { TW_DENY, false, true },
	{ TW_PING, false, false },       { TW_PEERS, true, false, 144 },
	{ TW_DATA, false, true },        { TW_OVER, false, true },
	{ TW_TICKETS, true, false, 32 }, { TW_LEAVING, false, false },
	{ TW_LEND, false, false },
};
#define KINDS (sizeof kinds / sizeof kinds[0])

static uint32_t record(size_t k)
{
	return kinds[k].record ? kinds[k].record : 16;
}

static void noise(uint64_t seed, void *out, size_t bytes)
{
	const struct tw_rng r = tw_rng_make(seed, TW_RNG_SIM);

	for (size_t i = 0; i < bytes; i++)
		((uint8_t *)out)[i] = (uint8_t)(tw_rng_uniform(&r, 1, i) * 256.0);
}

/* A message whose every byte is set; `at`: where in its block the payload starts. */
static struct tw_msg make(struct tw_heap *heap, uint16_t type, uint32_t tail, uint32_t payload,
			  size_t at)
{
	struct tw_msg m;

	memset(&m, 0, sizeof m);
	noise(type, &m.h, sizeof m.h);
	noise(type + 100u, &m.b, tw_body_bytes(type));
	m.h.magic = TW_WIRE_MAGIC;
	m.h.major = TW_WIRE_MAJOR;
	m.h.type = type;
	m.h.chunk = 0;
	m.h.tail = tail;
	m.h.payload = payload;
	m.h.shard = 77;
	m.h.sender = (uint8_t)(m.from.role = type % TW_ROLES);
	m.h.receiver = (uint8_t)(m.to.role = type / TW_ROLES % TW_ROLES);
	m.from.index = m.from.role == TW_SHARD ? 77 : 0;
	m.to.index = m.to.role == TW_SHARD ? 77 : 0;
	if (tail) {
		m.tail = tw_block_new(heap, tail);
		noise(type + 200u, m.tail->data, tail);
	}
	if (payload) {
		m.payload = tw_block_new(heap, at + payload);
		m.payload_at = at;
		noise(type + 300u, m.payload->data, at + payload);
	}
	return m;
}

static void let_go(struct tw_msg *m)
{
	tw_block_drop(m->tail);
	tw_block_drop(m->payload);
}

/* The frame in a block of exactly its size, so that a read past its end is seen. */
static uint8_t *frame(const struct tw_msg *m, size_t *len)
{
	uint8_t *out = malloc(tw_msg_bytes(m));

	assert_non_null(out);
	assert_int_equal(one_frame_write(m, out, tw_msg_bytes(m), len), TW_OK);
	assert_int_equal(*len, tw_msg_bytes(m));
	return out;
}

static void seal(uint8_t *bytes, size_t len)
{
	const size_t at = offsetof(struct tw_header, hash);
	const uint64_t hash =
		XXH3_64bits_withSeed(bytes + sizeof(struct tw_header),
				     len - sizeof(struct tw_header), XXH3_64bits(bytes, at));

	memcpy(bytes + at, &hash, sizeof hash);
}

/* Read bytes that lie exactly in a block of their own; on TW_OK also touch all that was read. */
static enum tw_status take(const uint8_t *bytes, size_t len)
{
	struct refusing heap = REFUSING(0);
	uint8_t *exact = malloc(len ? len : 1);
	volatile uint8_t touched = 0;
	enum tw_status st;
	struct tw_msg m;

	assert_non_null(exact);
	memcpy(exact, bytes, len);
	memset(&m, 0xee, sizeof m);
	st = one_frame_read(exact, len, &heap.heap, &m);
	free(exact);
	if (st == TW_OK) {
		assert_true(m.h.type < TW_TYPES);
		assert_int_equal(tw_msg_bytes(&m), len);
		assert_int_equal(!m.tail, !m.h.tail);
		assert_int_equal(!m.payload, !m.h.payload);
		for (uint32_t i = 0; i < m.h.tail; i++)
			touched ^= m.tail->data[i];
		for (uint32_t i = 0; i < m.h.payload; i++)
			touched ^= tw_msg_payload(&m)[i];
		let_go(&m);
	} else {
		assert_int_equal(st, TW_BAD_BYTES);
		assert_int_equal(heap.calls, 0);
	}
	assert_int_equal(heap.live, 0);
	return st;
}

static void every_type_has_a_name_and_a_row(void **state)
{
	assert_int_equal(KINDS, TW_TYPES - 1);
	for (uint16_t t = 1; t < TW_TYPES; t++) {
		assert_int_equal(kinds[t - 1].type, t);
		assert_string_not_equal(tw_type_name(t), "?");
		assert_true(tw_body_bytes(t) <= sizeof(union tw_body));
	}
	assert_string_equal(tw_type_name(0), "?");
	assert_string_equal(tw_type_name(TW_TYPES), "?");
	assert_string_equal(tw_type_name(UINT16_MAX), "?");
	assert_int_equal(tw_body_bytes(0), 0);
	assert_int_equal(tw_body_bytes(TW_TYPES), 0);
}

static void there_and_back(uint16_t type, uint32_t tail, uint32_t payload, size_t at)
{
	struct refusing heap = REFUSING(0);
	struct tw_msg m = make(&heap.heap, type, tail, payload, at), back;
	uint8_t *bytes, *again;
	size_t len, relen;

	bytes = frame(&m, &len);
	assert_int_equal(one_frame_write(&m, bytes, len - 1, &relen), TW_NO_ROOM);
	bytes = (free(bytes), frame(&m, &len));
	memset(&back, 0xee, sizeof back);
	assert_int_equal(one_frame_read(bytes, len, &heap.heap, &back), TW_OK);
	assert_memory_equal(&back.b, &m.b, sizeof m.b); /* and zeros beyond the body */
	m.h.length = back.h.length;
	m.h.hash = back.h.hash;
	assert_memory_equal(&back.h, &m.h, sizeof m.h);
	assert_memory_equal(&back.from, &m.from, sizeof m.from);
	assert_memory_equal(&back.to, &m.to, sizeof m.to);
	assert_int_equal(back.h.length, len - sizeof m.h);
	assert_null(back.next);
	assert_int_equal(back.payload_at, 0);
	if (tail)
		assert_memory_equal(back.tail->data, m.tail->data, tail);
	else
		assert_null(back.tail);
	if (payload)
		assert_memory_equal(back.payload->data, m.payload->data + at, payload);
	else
		assert_null(back.payload);
	again = frame(&back, &relen);
	assert_int_equal(relen, len);
	assert_memory_equal(again, bytes, len);
	let_go(&m);
	let_go(&back);
	assert_int_equal(heap.live, 0);
	free(bytes);
	free(again);
}

static void every_type_comes_back(void **state)
{
	for (size_t k = 0; k < KINDS; k++)
		for (uint32_t tail = 0; tail <= (kinds[k].tail ? 3 * record(k) : 0u);
		     tail += record(k))
			for (uint32_t payload = 0; payload <= (kinds[k].payload ? 9u : 0u);
			     payload += 3)
				for (size_t at = 0; at <= (payload ? 20u : 0u); at += 4)
					there_and_back(kinds[k].type, tail, payload, at);
	there_and_back(TW_PUSH, 0, 100001, 64);
	there_and_back(TW_PUSH, 0, TW_CHUNK, 64);
}

static void what_a_type_does_not_carry_is_refused(void **state)
{
	for (size_t k = 0; k < KINDS; k++)
		for (int which = 0; which < 2; which++) {
			const bool may = which ? kinds[k].payload : kinds[k].tail;
			struct tw_msg m = make(&tw_heap_system, kinds[k].type,
					       which ? 0 : record(k), which ? 16 : 0, 0);
			size_t len;
			uint8_t *bytes = frame(&m, &len);

			assert_int_equal(take(bytes, len), may ? TW_OK : TW_BAD_BYTES);
			free(bytes);
			let_go(&m);
		}
}

static void a_tail_is_whole_records(void **state)
{
	for (size_t k = 0; k < KINDS; k++)
		for (uint32_t tail = 1; kinds[k].tail && tail < 3 * record(k); tail++) {
			struct tw_msg m = make(&tw_heap_system, kinds[k].type, tail, 0, 0);
			size_t len;
			uint8_t *bytes = frame(&m, &len);

			assert_int_equal(take(bytes, len), tail % record(k) ? TW_BAD_BYTES : TW_OK);
			free(bytes);
			let_go(&m);
		}
}

/* One frame of each type, as full as it may be. */
static uint8_t *full(size_t k, size_t *len)
{
	struct tw_msg m = make(&tw_heap_system, kinds[k].type, kinds[k].tail ? 2 * record(k) : 0,
			       kinds[k].payload ? 21 : 0, kinds[k].payload ? 4 : 0);
	uint8_t *bytes = frame(&m, len);

	let_go(&m);
	return bytes;
}

static void every_truncation_is_refused(void **state)
{
	for (size_t k = 0; k < KINDS; k++) {
		size_t len;
		uint8_t *bytes = full(k, &len), *longer;

		for (size_t cut = 0; cut < len; cut++)
			assert_int_equal(take(bytes, cut), TW_BAD_BYTES);
		assert_int_equal(take(bytes, len), TW_OK);
		longer = calloc(1, len + 1);
		memcpy(longer, bytes, len);
		assert_int_equal(take(longer, len + 1), TW_BAD_BYTES);
		free(longer);
		/* a truncation that says so itself and has a good hash: the parts do not fit */
		for (size_t cut = sizeof(struct tw_header); cut < len; cut++) {
			uint8_t *shorter = malloc(cut);
			const uint32_t length = (uint32_t)(cut - sizeof(struct tw_header));

			memcpy(shorter, bytes, cut);
			memcpy(shorter + offsetof(struct tw_header, length), &length,
			       sizeof length);
			seal(shorter, cut);
			assert_int_equal(take(shorter, cut), TW_BAD_BYTES);
			free(shorter);
		}
		free(bytes);
	}
}

static void every_flipped_bit_is_refused(void **state)
{
	for (size_t k = 0; k < KINDS; k++) {
		size_t len;
		uint8_t *bytes = full(k, &len);

		for (size_t bit = 0; bit < 8 * len; bit++) {
			bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
			assert_int_equal(take(bytes, len), TW_BAD_BYTES);
			bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		}
		assert_int_equal(take(bytes, len), TW_OK);
		free(bytes);
	}
}

/* Whoever knows how to make a hash may say anything: it is refused or harmless. */
static void hostile_bytes_with_a_good_hash(void **state)
{
	for (size_t k = 0; k < KINDS; k++) {
		size_t len, taken = 0;
		uint8_t *bytes = full(k, &len), *bad = malloc(len);

		for (size_t i = 0; i < len; i++)
			for (unsigned v = 0; v < 256; v += 17) {
				memcpy(bad, bytes, len);
				bad[i] = (uint8_t)v;
				seal(bad, len);
				taken += take(bad, len) == TW_OK;
			}
		assert_true(taken > 0);
		free(bytes);
		free(bad);
	}
}

static void set(uint8_t *bytes, size_t len, size_t at, uint32_t value)
{
	memcpy(bytes + at, &value, sizeof value);
	seal(bytes, len);
}

static void absurd_lengths_are_refused(void **state)
{
	static const uint32_t absurd[] = {
		0, 1, 15, 0x7fffffff, 0x80000000, 0xfffffff0, 0xffffffff
	};
	static const size_t at[] = { offsetof(struct tw_header, length),
				     offsetof(struct tw_header, tail),
				     offsetof(struct tw_header, payload) };

	for (size_t k = 0; k < KINDS; k++)
		for (size_t f = 0; f < 3; f++)
			for (size_t v = 0; v < sizeof absurd / sizeof absurd[0]; v++) {
				size_t len;
				uint8_t *bytes = full(k, &len);
				uint32_t was;

				memcpy(&was, bytes + at[f], sizeof was);
				set(bytes, len, at[f], absurd[v]);
				assert_int_equal(take(bytes, len),
						 was == absurd[v] ? TW_OK : TW_BAD_BYTES);
				free(bytes);
			}
	/* two lengths whose sum wraps to what is there */
	for (size_t k = 0; k < KINDS; k++) {
		size_t len;
		uint8_t *bytes = full(k, &len);
		struct tw_header h;

		memcpy(&h, bytes, sizeof h);
		h.tail += 0x80000000u;
		h.payload += 0x80000000u;
		memcpy(bytes, &h, sizeof h);
		seal(bytes, len);
		assert_int_equal(take(bytes, len), TW_BAD_BYTES);
		free(bytes);
	}
}

static void another_protocol_is_refused(void **state)
{
	size_t len;
	uint8_t *bytes = full(0, &len);

	for (unsigned v = 0; v < 256; v++) {
		bytes[offsetof(struct tw_header, major)] = (uint8_t)v;
		seal(bytes, len);
		assert_int_equal(take(bytes, len), v == TW_WIRE_MAJOR ? TW_OK : TW_BAD_BYTES);
	}
	bytes[offsetof(struct tw_header, major)] = TW_WIRE_MAJOR;
	bytes[offsetof(struct tw_header, minor)] = 200; /* a newer minor is read */
	seal(bytes, len);
	assert_int_equal(take(bytes, len), TW_OK);
	set(bytes, len, 0, TW_WIRE_MAGIC + 1);
	assert_int_equal(take(bytes, len), TW_BAD_BYTES);
	set(bytes, len, 0, TW_WIRE_MAGIC);
	for (uint32_t type = 0; type <= UINT16_MAX; type++) {
		const uint16_t t = (uint16_t)type;

		if (type && type < TW_TYPES)
			continue;
		memcpy(bytes + offsetof(struct tw_header, type), &t, sizeof t);
		seal(bytes, len);
		assert_int_equal(take(bytes, len), TW_BAD_BYTES);
	}
	free(bytes);
}

/* What only a stream of frames carries, though its hash is good. */
static void part_of_a_message_is_refused(void **state)
{
	struct tw_msg m = make(&tw_heap_system, TW_PUSH, 0, TW_CHUNK + 10, 0);
	const size_t room = tw_msg_bytes(&m);
	uint8_t *bytes = calloc(1, room);
	struct tw_header h;
	size_t len;

	assert_non_null(bytes);
	assert_int_equal(one_frame_write(&m, bytes, room, &len), TW_BAD_INPUT);
	for (uint16_t chunk = 0; chunk < 2; chunk++) {
		h = tw_msg_header(&m, chunk);
		assert_int_equal(tw_header_check(&h, NULL), TW_OK);
		assert_int_equal(h.length, chunk ? 10 : tw_body_bytes(TW_PUSH) + TW_CHUNK);
		memcpy(bytes, &h, sizeof h);
		seal(bytes, sizeof h + h.length);
		assert_int_equal(take(bytes, sizeof h + h.length), TW_BAD_BYTES);
	}
	/* nor all of it as one frame */
	h.chunk = 0;
	h.length = (uint32_t)(room - sizeof h);
	memcpy(bytes, &h, sizeof h);
	seal(bytes, room);
	assert_int_equal(take(bytes, room), TW_BAD_BYTES);
	free(bytes);
	let_go(&m);
}

static void headers_are_refused_with_a_sentence(void **state)
{
	struct tw_msg m = make(&tw_heap_system, TW_COMMIT, 16, 0, 0);
	struct tw_header h = tw_msg_header(&m, 0);
	struct tw_error why = { 0 };

	assert_int_equal(tw_header_check(&h, &why), TW_OK);
	assert_string_equal(why.text, "");
	h.major = 9;
	h.minor = 4;
	assert_int_equal(tw_header_check(&h, &why), TW_BAD_BYTES);
	assert_string_equal(why.text,
			    "it uses version 9.4 of the protocol, and this process uses 4.0");
	let_go(&m);
}

static void random_bytes_do_no_harm(void **state)
{
	uint8_t bytes[400];

	for (uint64_t seed = 1; seed <= 3000; seed++) {
		const struct tw_rng r = tw_rng_make(seed, TW_RNG_FAULT);
		const size_t len = (size_t)(tw_rng_uniform(&r, 0, 0) * sizeof bytes);
		struct tw_header h;

		noise(seed, bytes, len);
		assert_int_equal(take(bytes, len), TW_BAD_BYTES);
		if (len < sizeof h)
			continue;
		/* and as if they came from one who knows the format */
		memcpy(&h, bytes, sizeof h);
		h.magic = TW_WIRE_MAGIC;
		h.major = TW_WIRE_MAJOR;
		h.type = (uint16_t)(1 + seed % (TW_TYPES - 1));
		h.chunk = seed % 5 == 0;
		h.sender %= TW_ROLES;
		h.receiver %= TW_ROLES;
		h.shard %= 100;
		h.length = (uint32_t)(len - sizeof h);
		h.tail = (uint32_t)(tw_rng_uniform(&r, 0, 1) * 20.0) * 16;
		h.payload = h.length - (uint32_t)tw_body_bytes(h.type) - h.tail;
		memcpy(bytes, &h, sizeof h);
		seal(bytes, len);
		take(bytes, len);
	}
}

static void without_memory_nothing_is_kept(void **state)
{
	struct tw_msg m = make(&tw_heap_system, TW_STATE, 32, 40, 8), back;
	size_t len;
	uint8_t *bytes = frame(&m, &len);

	for (unsigned nth = 1; nth <= 3; nth++) {
		struct refusing heap = REFUSING(nth);
		const enum tw_status st = one_frame_read(bytes, len, &heap.heap, &back);

		assert_int_equal(st, nth < 3 ? TW_NO_MEMORY : TW_OK);
		if (st == TW_OK)
			let_go(&back);
		assert_int_equal(heap.live, 0);
	}
	free(bytes);
	let_go(&m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_type_has_a_name_and_a_row),
		cmocka_unit_test(every_type_comes_back),
		cmocka_unit_test(what_a_type_does_not_carry_is_refused),
		cmocka_unit_test(a_tail_is_whole_records),
		cmocka_unit_test(every_truncation_is_refused),
		cmocka_unit_test(every_flipped_bit_is_refused),
		cmocka_unit_test(hostile_bytes_with_a_good_hash),
		cmocka_unit_test(absurd_lengths_are_refused),
		cmocka_unit_test(another_protocol_is_refused),
		cmocka_unit_test(part_of_a_message_is_refused),
		cmocka_unit_test(headers_are_refused_with_a_sentence),
		cmocka_unit_test(random_bytes_do_no_harm),
		cmocka_unit_test(without_memory_nothing_is_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
