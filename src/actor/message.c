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
	[TW_GREET] = { "GREET", sizeof(struct tw_body_greet) },
	[TW_TERMS] = { "TERMS", sizeof(struct tw_body_terms) },
	[TW_DENY] = { "DENY", sizeof(struct tw_body_deny), 0, false, true },
	[TW_PING] = { "PING", sizeof(struct tw_body_ping) },
	[TW_PEERS] = { "PEERS", sizeof(struct tw_body_peers), sizeof(struct tw_peer_place), true },
	[TW_DATA] = { "DATA", sizeof(struct tw_body_data), 0, false, true },
	[TW_OVER] = { "OVER", sizeof(struct tw_body_over), 0, false, true },
	[TW_TICKETS] = { "TICKETS", sizeof(struct tw_body_tickets), sizeof(struct tw_ticket),
			 true },
};

_Static_assert(sizeof(struct tw_range) == 16 && sizeof(struct tw_member) == 16 &&
		       sizeof(struct tw_place) == 16 && sizeof(struct tw_peer_place) == 144 &&
		       sizeof(struct tw_ticket) == 32,
	       "tail records");

size_t tw_body_bytes(uint16_t type)
{
	return type < TW_TYPES ? kinds[type].bytes : 0;
}

const char *tw_type_name(uint16_t type)
{
	return type < TW_TYPES && kinds[type].name ? kinds[type].name : "?";
}

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

/* What a type may carry. */
static enum tw_status check_parts(const struct tw_header *h, struct tw_error *why)
{
	const struct kind *k = &kinds[h->type];

	if (h->tail && !k->tail)
		return tw_fail(why, TW_BAD_BYTES, "%s has no tail, and this one has %u bytes",
			       k->name, h->tail);
	if (h->payload && !k->payload)
		return tw_fail(why, TW_BAD_BYTES, "%s has no payload, and this one has %u bytes",
			       k->name, h->payload);
	if (k->record && h->tail % k->record)
		return tw_fail(why, TW_BAD_BYTES, "a tail of %s has records of %u bytes, not %u",
			       k->name, k->record, h->tail);
	if (h->tail > TW_TAIL_MAX)
		return tw_fail(why, TW_BAD_BYTES, "a tail of %u bytes; at most %u are read",
			       h->tail, TW_TAIL_MAX);
	return TW_OK;
}

/* Does the length follow from the parts, and is there such a chunk? */
static enum tw_status check_length(const struct tw_header *h, struct tw_error *why)
{
	uint64_t length = tw_chunk_bytes(h);

	if (h->chunk && !length)
		return tw_fail(why, TW_BAD_BYTES, "chunk %u of a payload of %u bytes", h->chunk,
			       h->payload);
	if (!h->chunk)
		length += (uint64_t)kinds[h->type].bytes + h->tail;
	if (h->length != length)
		return tw_fail(why, TW_BAD_BYTES,
			       "a frame of %s says %u bytes where its parts make %llu",
			       kinds[h->type].name, h->length, (unsigned long long)length);
	return TW_OK;
}

enum tw_status tw_header_check(const struct tw_header *h, struct tw_error *why)
{
	enum tw_status st;

	if (h->magic != TW_WIRE_MAGIC)
		return tw_fail(why, TW_BAD_BYTES, "these are not Thalweg's bytes (%08x)", h->magic);
	if (h->major != TW_WIRE_MAJOR)
		return tw_fail(why, TW_BAD_BYTES,
			       "it speaks version %u.%u of the protocol, and this is %u.%u",
			       h->major, h->minor, TW_WIRE_MAJOR, TW_WIRE_MINOR);
	if (h->type >= TW_TYPES || !kinds[h->type].name)
		return tw_fail(why, TW_BAD_BYTES, "there is no message of type %u", h->type);
	if (h->sender >= TW_ROLES || h->receiver >= TW_ROLES)
		return tw_fail(why, TW_BAD_BYTES, "%s from role %u to role %u: roles are 0 to %u",
			       kinds[h->type].name, h->sender, h->receiver, TW_ROLES - 1);
	if ((h->sender == TW_SHARD || h->receiver == TW_SHARD) && h->shard > UINT16_MAX)
		return tw_fail(why, TW_BAD_BYTES, "there is no shard %u", h->shard);
	st = check_parts(h, why);
	return st == TW_OK ? check_length(h, why) : st;
}
