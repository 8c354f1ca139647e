/* SPDX-License-Identifier: Apache-2.0 */
/* frame_kit.c - for tests of frames: messages of noise, two ends of a socket, who owns a reader. */
#include "wire/frame_kit.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t kit_draw(uint64_t seed, uint64_t nth, uint64_t below)
{
	const struct tw_rng r = tw_rng_make(seed, TW_RNG_TEST);

	return tw_rng_u64(&r, 1, nth) % below;
}

void kit_noise(uint64_t seed, void *out, size_t bytes)
{
	uint64_t x = seed * 0x9e3779b97f4a7c15u + 1;
	uint8_t *p = out;

	for (size_t i = 0; i < bytes; i++) {
		x = x * 6364136223846793005u + 1442695040888963407u;
		p[i] = (uint8_t)(x >> 56);
	}
}

struct tw_msg *kit_make(struct tw_heap *heap, uint64_t seed, uint16_t type, uint32_t tail,
			uint32_t payload, size_t at)
{
	struct tw_msg *m = tw_heap_zeros(heap, sizeof *m);

	assert_non_null(m);
	kit_noise(seed, &m->h, sizeof m->h);
	kit_noise(seed + 1, &m->b, tw_body_bytes(type));
	m->h.magic = TW_WIRE_MAGIC;
	m->h.major = TW_WIRE_MAJOR;
	m->h.type = type;
	m->h.tail = tail;
	m->h.payload = payload;
	m->h.flags &= ~(uint32_t)TW_FLAG_LENT; /* the writer's to say */
	m->from.role = (uint16_t)(m->h.incarnation % TW_ROLES);
	m->to.role = (uint16_t)(m->h.from % TW_ROLES);
	m->h.shard %= UINT16_MAX;
	if (m->from.role == TW_SHARD)
		m->from.index = (uint16_t)m->h.shard;
	if (m->to.role == TW_SHARD)
		m->to.index = (uint16_t)m->h.shard;
	if (tail) {
		m->tail = tw_block_new(heap, tail);
		assert_non_null(m->tail);
		kit_noise(seed + 2, m->tail->data, tail);
	}
	if (payload) {
		m->payload = tw_block_new(heap, at + payload);
		assert_non_null(m->payload);
		m->payload_at = at;
		kit_noise(seed + 3, m->payload->data, at + payload);
	}
	return m;
}

struct tw_msg *kit_twin(struct tw_heap *heap, const struct tw_msg *m)
{
	struct tw_msg *twin = heap->get(heap, sizeof *twin);

	assert_non_null(twin);
	*twin = *m;
	twin->next = NULL;
	tw_block_keep(twin->tail);
	tw_block_keep(twin->payload);
	return twin;
}

void kit_free(struct tw_heap *heap, struct tw_msg *m)
{
	tw_block_drop(m->tail);
	tw_block_drop(m->payload);
	heap->put(heap, m);
}

void kit_same(const struct tw_msg *came, const struct tw_msg *sent)
{
	struct tw_header h = sent->h;

	h.length = came->h.length;
	h.hash = came->h.hash;
	h.chunk = 0;
	h.sender = (uint8_t)sent->from.role;
	h.receiver = (uint8_t)sent->to.role;
	assert_memory_equal(&came->h, &h, sizeof h);
	assert_memory_equal(&came->b, &sent->b, sizeof sent->b);
	assert_int_equal(came->from.role, sent->from.role);
	assert_int_equal(came->from.index, sent->from.index);
	assert_int_equal(came->to.role, sent->to.role);
	assert_int_equal(came->to.index, sent->to.index);
	assert_int_equal(!came->tail, !h.tail);
	assert_int_equal(!came->payload, !h.payload);
	if (h.tail)
		assert_memory_equal(came->tail->data, sent->tail->data, h.tail);
	if (h.payload)
		assert_memory_equal(tw_msg_payload(came), tw_msg_payload(sent), h.payload);
}

void kit_seal(uint8_t *bytes)
{
	const size_t at = offsetof(struct tw_header, hash);
	struct tw_header h;
	uint64_t hash;

	memcpy(&h, bytes, sizeof h);
	hash = XXH3_64bits_withSeed(bytes + sizeof h, h.length, XXH3_64bits(bytes, at));
	memcpy(bytes + at, &hash, sizeof hash);
}

/* --- the owner of a reader --- */

static struct tw_msg *msg_new(void *arg)
{
	const struct kit_end *e = arg;

	return tw_heap_zeros(&e->heap->heap, sizeof(struct tw_msg));
}

static void msg_free(void *arg, struct tw_msg *m)
{
	const struct kit_end *e = arg;

	kit_free(&e->heap->heap, m);
}

static bool admit(void *arg, const struct tw_header *h, const char **why)
{
	const struct kit_end *e = arg;

	assert_int_equal(h->chunk, 0);
	*why = "more than is admitted";
	return h->payload <= e->largest;
}

static struct tw_block *block(void *arg, const struct tw_header *h)
{
	const struct kit_end *e = arg;

	return tw_block_new(&e->heap->heap, h->payload);
}

static bool message(void *arg, struct tw_msg *m)
{
	struct kit_end *e = arg;

	if (m->h.type == TW_PING && !m->h.view && !m->h.seq) {
		assert_int_equal(m->b.ping.number, KIT_PING);
		e->pings++;
		msg_free(e, m);
		return true;
	}
	if (!e->any) {
		struct tw_msg *want = e->expected;

		assert_non_null(want);
		kit_same(m, want);
		e->expected = want->next;
		kit_free(&e->heap->heap, want);
	}
	msg_free(e, m);
	e->came++;
	return !e->stop_every || e->came % e->stop_every;
}

/* --- two ends --- */

void kit_pair(int fd[2], int buffer)
{
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd), 0);
	for (int k = 0; k < 2 && buffer; k++)
		assert_int_equal(setsockopt(fd[k], SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer),
				 0);
}

bool kit_open(struct kit_end *e, struct refusing *heap, int fd)
{
	*e = (struct kit_end){ .heap = heap, .largest = 16u << 20 };
	e->owner = (struct tw_reader_owner){ e, msg_new, msg_free, admit, block, message };
	e->stream = tw_stream_plain(&heap->heap, fd);
	e->reader = tw_reader_new(&heap->heap, &e->owner);
	e->writer = tw_writer_new(&heap->heap);
	if (e->stream && e->reader && e->writer)
		return true;
	kit_close(e);
	return false;
}

void kit_close(struct kit_end *e)
{
	tw_reader_free(e->reader);
	tw_writer_free(e->writer, kit_drop, e);
	tw_stream_close(e->stream);
	while (e->expected) {
		struct tw_msg *m = e->expected;

		e->expected = m->next;
		kit_free(&e->heap->heap, m);
	}
}

void kit_send(struct kit_end *from, struct kit_end *to, struct tw_msg *m)
{
	struct tw_msg *twin = kit_twin(&to->heap->heap, m);

	if (to->expected)
		to->last->next = twin;
	else
		to->expected = twin;
	to->last = twin;
	tw_writer_add(from->writer, m);
}

void kit_done(void *arg, struct tw_msg *m)
{
	struct kit_end *e = arg;

	assert_null(m->next);
	e->done++;
	e->sent += tw_msg_bytes(m);
	kit_free(&e->heap->heap, m);
}

void kit_drop(void *arg, struct tw_msg *m)
{
	struct kit_end *e = arg;

	kit_free(&e->heap->heap, m);
}

enum tw_flow kit_feed(struct kit_end *e, struct refusing *heap, const uint8_t *bytes, size_t len)
{
	enum tw_flow flow = TW_FLOW_WAIT;
	int fd[2];

	kit_pair(fd, 0);
	if (!kit_open(e, heap, fd[1])) {
		close(fd[0]);
		return TW_FLOW_BROKEN;
	}
	e->any = true;
	for (size_t at = 0; flow == TW_FLOW_OK || flow == TW_FLOW_WAIT;) {
		ssize_t n = 0;
		size_t got;

		if (at < len)
			n = send(fd[0], bytes + at, len - at, MSG_DONTWAIT | MSG_NOSIGNAL);
		at += n > 0 ? (size_t)n : 0;
		if (at == len)
			shutdown(fd[0], SHUT_WR);
		flow = tw_reader_run(e->reader, e->stream, SIZE_MAX, &got);
	}
	close(fd[0]);
	return flow;
}

uint8_t *kit_bytes(struct tw_msg **m, size_t count, bool pings, size_t *len)
{
	struct refusing heap = REFUSING(0);
	struct kit_end e;
	size_t room = 0, put;
	uint8_t *out;
	int fd[2];

	kit_pair(fd, 0);
	assert_true(kit_open(&e, &heap, fd[0]));
	for (size_t k = 0; k < count; k++) {
		room += tw_msg_bytes(m[k]) + 256 + m[k]->h.payload / 1024;
		kit_send(&e, &e, m[k]);
	}
	out = malloc(room);
	assert_non_null(out);
	for (*len = 0; tw_writer_busy(e.writer);) {
		ssize_t n;

		if (pings)
			tw_writer_ping(e.writer, KIT_PING);
		tw_writer_run(e.writer, e.stream, 1, kit_done, &e, &put);
		pings = pings && tw_writer_bytes(e.writer);
		while ((n = recv(fd[1], out + *len, room - *len, MSG_DONTWAIT)) > 0)
			*len += (size_t)n;
	}
	kit_close(&e);
	close(fd[1]);
	return out;
}
