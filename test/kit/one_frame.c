/* SPDX-License-Identifier: Apache-2.0 */
/* one_frame.c - a message as one frame in memory: what src/wire/ is compared with. */
#include "kit/one_frame.h"

#include <string.h>
#include <xxhash.h>

static uint64_t hash_of(const struct tw_header *h, const uint8_t *after)
{
	return XXH3_64bits_withSeed(after, h->length, tw_header_seed(h));
}

enum tw_status one_frame_write(const struct tw_msg *m, uint8_t *out, size_t room, size_t *len)
{
	const size_t body = tw_body_bytes(m->h.type), whole = tw_msg_bytes(m);
	struct tw_header h = tw_msg_header(m, 0);
	uint8_t *p = out + sizeof h;

	if (h.payload > TW_CHUNK)
		return TW_BAD_INPUT;
	if (room < whole)
		return TW_NO_ROOM;
	memcpy(p, &m->b, body);
	p += body;
	if (h.tail)
		memcpy(p, m->tail->data, h.tail);
	p += h.tail;
	if (h.payload)
		memcpy(p, tw_msg_payload(m), h.payload);
	h.hash = hash_of(&h, out + sizeof h);
	memcpy(out, &h, sizeof h);
	*len = whole;
	return TW_OK;
}

/* A block with a copy of the bytes; *out stays NULL where there are none. */
static enum tw_status copy(struct tw_heap *heap, const uint8_t *bytes, size_t len,
			   struct tw_block **out)
{
	if (!len)
		return TW_OK;
	*out = tw_block_new(heap, len);
	if (!*out)
		return TW_NO_MEMORY;
	memcpy((*out)->data, bytes, len);
	return TW_OK;
}

enum tw_status one_frame_read(const uint8_t *bytes, size_t len, struct tw_heap *heap,
			      struct tw_msg *m)
{
	struct tw_block *tail = NULL, *payload = NULL;
	struct tw_header h;
	const uint8_t *p;

	if (len < sizeof h)
		return TW_BAD_BYTES;
	memcpy(&h, bytes, sizeof h);
	if (tw_header_check(&h, NULL) != TW_OK || h.chunk || h.payload > TW_CHUNK ||
	    h.length != len - sizeof h || h.hash != hash_of(&h, bytes + sizeof h))
		return TW_BAD_BYTES;
	p = bytes + sizeof h + tw_body_bytes(h.type);
	if (copy(heap, p, h.tail, &tail) != TW_OK)
		return TW_NO_MEMORY;
	if (copy(heap, p + h.tail, h.payload, &payload) != TW_OK) {
		tw_block_drop(tail);
		return TW_NO_MEMORY;
	}
	memset(m, 0, sizeof *m);
	m->h = h;
	memcpy(&m->b, bytes + sizeof h, tw_body_bytes(h.type));
	m->tail = tail;
	m->payload = payload;
	tw_msg_route(m);
	return TW_OK;
}
