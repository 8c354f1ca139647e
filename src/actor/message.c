/* SPDX-License-Identifier: Apache-2.0 */
/* message.c - messages as frames of bytes (docs/WIRE.md).
 *
 * Bodies are laid out little endian in memory; on a big-endian machine this file would have to
 * swap, and refuses to compile instead. */
#include "actor/message.h"

#include <stddef.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "frames are little endian");

struct tw_header tw_msg_header(const struct tw_msg *m, uint16_t chunk)
{
	struct tw_header h = m->h;

	h.chunk = chunk;
	h.sender = (uint8_t)m->from.role;
	h.receiver = (uint8_t)m->to.role;
	if (m->to.role == TW_SHARD)
		h.shard = m->to.index;
	else if (m->from.role == TW_SHARD)
		h.shard = m->from.index;
	h.length = tw_chunk_bytes(&h);
	if (chunk == 0)
		h.length += (uint32_t)tw_body_bytes(h.type) + h.tail;
	h.hash = 0;
	return h;
}

void tw_msg_route(struct tw_msg *m)
{
	m->from.role = m->h.sender;
	m->from.index = m->h.sender == TW_SHARD ? (uint16_t)m->h.shard : 0;
	m->to.role = m->h.receiver;
	m->to.index = m->h.receiver == TW_SHARD ? (uint16_t)m->h.shard : 0;
}

uint64_t tw_header_seed(const struct tw_header *h)
{
	return XXH3_64bits(h, offsetof(struct tw_header, hash));
}

/* What a kind may carry.  How long a slice or a part may be, only its reader knows. */
static enum tw_status check_parts(const struct tw_header *h, const struct tw_kind *k,
				  struct tw_error *why)
{
	if (h->tail && !k->record)
		return tw_fail(why, TW_BAD_BYTES, "%s must have no tail, but this one has %u bytes",
			       k->name, h->tail);
	if (h->payload && k->payload == TW_PAYLOAD_NONE)
		return tw_fail(why, TW_BAD_BYTES,
			       "%s must have no payload, but this one has %u bytes", k->name,
			       h->payload);
	if (h->payload > tw_payload_most(h->type, UINT32_MAX, UINT32_MAX))
		return tw_fail(why, TW_BAD_BYTES, "a payload of %s has at most %u bytes, not %u",
			       k->name, k->most, h->payload);
	if (k->record && h->tail % k->record)
		return tw_fail(why, TW_BAD_BYTES, "a tail of %s has records of %u bytes, not %u",
			       k->name, k->record, h->tail);
	if (h->tail > TW_TAIL_MAX)
		return tw_fail(why, TW_BAD_BYTES, "a tail of %u bytes; at most %u are read",
			       h->tail, TW_TAIL_MAX);
	return TW_OK;
}

/* Does the length follow from the parts, and is there such a chunk? */
static enum tw_status check_length(const struct tw_header *h, const struct tw_kind *k,
				   struct tw_error *why)
{
	uint64_t length = tw_chunk_bytes(h);

	if (h->chunk && !length)
		return tw_fail(why, TW_BAD_BYTES, "chunk %u of a payload of %u bytes", h->chunk,
			       h->payload);
	if (!h->chunk)
		length += (uint64_t)k->body + h->tail;
	if (h->length != length)
		return tw_fail(why, TW_BAD_BYTES,
			       "a frame of %s says that it has %u bytes, but its parts have %llu",
			       k->name, h->length, (unsigned long long)length);
	return TW_OK;
}

enum tw_status tw_header_check(const struct tw_header *h, struct tw_error *why)
{
	const struct tw_kind *k = tw_kind_of(h->type);
	enum tw_status st;

	if (h->magic != TW_WIRE_MAGIC)
		return tw_fail(why, TW_BAD_BYTES, "these bytes are not a message of Thalweg (%08x)",
			       h->magic);
	if (h->major != TW_WIRE_MAJOR)
		return tw_fail(why, TW_BAD_BYTES,
			       "it uses version %u.%u of the protocol, and this process uses %u.%u",
			       h->major, h->minor, TW_WIRE_MAJOR, TW_WIRE_MINOR);
	if (!k)
		return tw_fail(why, TW_BAD_BYTES, "there is no message of type %u", h->type);
	if (h->sender >= TW_ROLES || h->receiver >= TW_ROLES)
		return tw_fail(why, TW_BAD_BYTES, "%s from role %u to role %u: roles are 0 to %u",
			       k->name, h->sender, h->receiver, TW_ROLES - 1);
	if ((h->sender == TW_SHARD || h->receiver == TW_SHARD) && h->shard > UINT16_MAX)
		return tw_fail(why, TW_BAD_BYTES, "there is no shard %u", h->shard);
	st = check_parts(h, k, why);
	return st == TW_OK ? check_length(h, k, why) : st;
}
