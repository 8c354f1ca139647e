/* SPDX-License-Identifier: Apache-2.0 */
/* message.c - sizes and names of messages, and frames of bytes (docs/WIRE.md).
 *
 * Bodies are laid out little endian in memory; on a big-endian machine this file would have to
 * swap, and refuses to compile instead. */
#include "actor/message.h"

#include <stddef.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "frames are little endian");

struct kind {
	const char *name;
	size_t bytes;
	uint32_t record; /* bytes of a tail record; 0: any number of bytes */
	bool tail, payload;
};

static const struct kind kinds[TW_TYPES] = {
	[TW_HELLO] = { "HELLO", sizeof(struct tw_body_hello), sizeof(struct tw_range), true },
	[TW_WELCOME] = { "WELCOME", sizeof(struct tw_body_welcome), sizeof(struct tw_place), true,
			 true },
	[TW_REFUSE] = { "REFUSE", sizeof(struct tw_body_refuse) },
	[TW_VIEW] = { "VIEW", sizeof(struct tw_body_view), 16, true, true },
	[TW_BYE] = { "BYE", 0 },
	[TW_HOST] = { "HOST", sizeof(struct tw_body_host), 0, false, true },
	[TW_HOSTED] = { "HOSTED", sizeof(struct tw_body_host) },
	[TW_STATE] = { "STATE", sizeof(struct tw_body_state), 16, true, true },
	[TW_ASK] = { "ASK", sizeof(struct tw_body_ask) },
	[TW_LEASE] = { "LEASE", sizeof(struct tw_body_lease) },
	[TW_DONE] = { "DONE", sizeof(struct tw_body_done) },
	[TW_IDLE] = { "IDLE", sizeof(struct tw_body_idle) },
	[TW_PUSH] = { "PUSH", sizeof(struct tw_body_push), 0, false, true },
	[TW_ACK] = { "ACK", sizeof(struct tw_body_ack) },
	[TW_PULL] = { "PULL", sizeof(struct tw_body_pull) },
	[TW_PARAMS] = { "PARAMS", sizeof(struct tw_body_params), 0, false, true },
	[TW_UNCHANGED] = { "UNCHANGED", sizeof(struct tw_body_params) },
	[TW_HAVE] = { "HAVE", sizeof(struct tw_body_have) },
	[TW_COMMIT] = { "COMMIT", sizeof(struct tw_body_commit), sizeof(struct tw_member), true },
	[TW_PIN] = { "PIN", sizeof(struct tw_body_pin) },
	[TW_EVAL] = { "EVAL", sizeof(struct tw_body_eval) },
	[TW_RESULT] = { "RESULT", sizeof(struct tw_body_result), 0, false, true },
	[TW_SNAP] = { "SNAP", sizeof(struct tw_body_snap) },
	[TW_PART] = { "PART", sizeof(struct tw_body_part), 16, true, true },
};

_Static_assert(sizeof(struct tw_range) == 16 && sizeof(struct tw_member) == 16 &&
		       sizeof(struct tw_place) == 16,
	       "tail records");

size_t tw_body_bytes(uint16_t type)
{
	return type < TW_TYPES ? kinds[type].bytes : 0;
}

const char *tw_type_name(uint16_t type)
{
	return type < TW_TYPES && kinds[type].name ? kinds[type].name : "?";
}

/* Of everything but itself: what follows the header, seeded with what precedes the hash in it. */
static uint64_t hash_of(const struct tw_header *h, const uint8_t *after)
{
	return XXH3_64bits_withSeed(after, h->length,
				    XXH3_64bits(h, offsetof(struct tw_header, hash)));
}

enum tw_status tw_msg_write(const struct tw_msg *m, uint8_t *out, size_t room, size_t *len)
{
	const size_t body = tw_body_bytes(m->h.type), whole = tw_msg_bytes(m);
	struct tw_header h = m->h;
	uint8_t *p = out + sizeof h;

	if (room < whole)
		return TW_NO_ROOM;
	memcpy(p, &m->b, body);
	p += body;
	if (h.tail)
		memcpy(p, m->tail->data, h.tail);
	p += h.tail;
	if (h.payload)
		memcpy(p, tw_msg_payload(m), h.payload);
	h.length = (uint32_t)(whole - sizeof h);
	h.hash = hash_of(&h, out + sizeof h);
	memcpy(out, &h, sizeof h);
	*len = whole;
	return TW_OK;
}

static enum tw_status check(const struct tw_header *h, size_t len)
{
	const struct kind *k;

	if (h->magic != TW_WIRE_MAGIC || h->major != TW_WIRE_MAJOR || h->type >= TW_TYPES)
		return TW_BAD_BYTES;
	k = &kinds[h->type];
	if (!k->name || h->length != len - sizeof *h || h->length < k->bytes)
		return TW_BAD_BYTES;
	if ((uint64_t)k->bytes + h->tail + h->payload != h->length)
		return TW_BAD_BYTES;
	if ((h->tail && !k->tail) || (h->payload && !k->payload))
		return TW_BAD_BYTES;
	if (k->record && h->tail % k->record)
		return TW_BAD_BYTES;
	return TW_OK;
}

enum tw_status tw_msg_read(const uint8_t *bytes, size_t len, struct tw_heap *heap, struct tw_msg *m)
{
	struct tw_header h;
	struct tw_block *tail = NULL, *payload = NULL;
	const uint8_t *p;

	if (len < sizeof h)
		return TW_BAD_BYTES;
	memcpy(&h, bytes, sizeof h);
	if (check(&h, len) != TW_OK || h.hash != hash_of(&h, bytes + sizeof h))
		return TW_BAD_BYTES;
	p = bytes + sizeof h + kinds[h.type].bytes;
	if (h.tail) {
		tail = tw_block_new(heap, h.tail);
		if (!tail)
			return TW_NO_MEMORY;
		memcpy(tail->data, p, h.tail);
	}
	if (h.payload) {
		payload = tw_block_new(heap, h.payload);
		if (!payload) {
			tw_block_drop(tail);
			return TW_NO_MEMORY;
		}
		memcpy(payload->data, p + h.tail, h.payload);
	}
	memset(m, 0, sizeof *m);
	m->h = h;
	memcpy(&m->b, bytes + sizeof h, kinds[h.type].bytes);
	m->tail = tail;
	m->payload = payload;
	return TW_OK;
}
