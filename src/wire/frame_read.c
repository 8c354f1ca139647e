/* SPDX-License-Identifier: Apache-2.0 */
/* frame_read.c - frames from a stream into messages, straight into place, trusting nothing.
 *
 *  (1) between frames the buffer has less than a header; inside a frame it is empty when the
 *      stream is read, so what belongs to the frame goes to its place and the rest to the buffer.
 *      The buffer is the thread's, so that it stays in the cache however many connections there
 *      are; what is left in it is kept with the reader until the next time, and that is less than
 *      a header unless the owner said stop.
 *  (2) `open` is the one message whose chunks are coming; `m` is the message of the frame: `open`,
 *      or a PING between its chunks.
 *  (3) nothing is allocated for a frame before its header was checked and the owner admitted it.
 *
 * Bytes are hashed as they come, while they are in the cache. */
#include "wire/frame.h"
#include "wire/frame_hash.h"
#include "wire/frame_sizes.h"

#include <string.h>

enum { BODY, TAIL, PAYLOAD, PLACES };

struct tw_reader {
	XXH3_state_t hash; /* first: it is aligned */
	struct tw_heap *heap;
	const struct tw_reader_owner *owner;
	const struct tw_frame_hash *hashing;
	struct tw_header h; /* of the frame */
	struct tw_msg *m, *open;
	struct iovec place[PLACES]; /* where the rest of the frame goes */
	bool inside;                /* a frame */
	bool trusts;                /* payloads are not hashed */
	struct tw_lender lender;    /* token 0: none */
	struct tw_loan loan;        /* of the frame */
	uint64_t fetched;           /* messages, ever */
	size_t borrowed;            /* bytes fetched in this run */
	uint8_t *buffer;            /* while tw_reader_run runs */
	size_t from, to;            /* bytes of the buffer that are not used yet */
	bool drained;               /* the stream had less than there was room for */
	struct tw_error why;
	size_t kept;
	uint8_t *more;                          /* where `keep` is too short; from the heap */
	uint8_t keep[sizeof(struct tw_header)]; /* what the last run left */
};

static _Thread_local uint8_t buffer[TW_READER_BUFFER];
static _Thread_local bool buffer_used; /* by a reader whose owner now runs another */

struct tw_reader *tw_reader_new(struct tw_heap *heap, const struct tw_reader_owner *owner)
{
	struct tw_reader *r = heap->get(heap, sizeof *r);

	if (!r)
		return NULL;
	memset(r, 0, sizeof *r);
	r->heap = heap;
	r->owner = owner;
	r->hashing = tw_frame_hash();
	return r;
}

void tw_reader_free(struct tw_reader *r)
{
	if (!r)
		return;
	if (r->m && r->m != r->open)
		r->owner->msg_free(r->owner->arg, r->m);
	if (r->open)
		r->owner->msg_free(r->owner->arg, r->open);
	r->heap->put(r->heap, r->more);
	r->heap->put(r->heap, r);
}

void tw_reader_trust(struct tw_reader *r)
{
	r->trusts = true;
}

void tw_reader_borrow(struct tw_reader *r, const struct tw_lender *from)
{
	r->lender = *from;
}

uint64_t tw_reader_fetched(const struct tw_reader *r)
{
	return r->fetched;
}

const char *tw_reader_why(const struct tw_reader *r)
{
	return r->why.text;
}

bool tw_reader_other_version(const struct tw_reader *r)
{
	return r->why.status != TW_OK && r->h.magic == TW_WIRE_MAGIC && r->h.major != TW_WIRE_MAJOR;
}

size_t tw_reader_memory(void)
{
	return sizeof(struct tw_reader);
}

size_t tw_frame_memory(void)
{
	return tw_reader_memory() + tw_writer_memory();
}

/* --- the beginning of a frame --- */

/* A chunk goes on with the message that is open: its header is the first one's but for what is the
 * frame's own. */
static bool goes_on(const struct tw_header *first, const struct tw_header *h)
{
	struct tw_header like = *first;

	like.chunk = h->chunk;
	like.length = h->length;
	like.hash = h->hash;
	return memcmp(&like, h, sizeof like) == 0;
}

static enum tw_status check_turn(struct tw_reader *r)
{
	const struct tw_header *h = &r->h;
	const char *name = tw_type_name(h->type);

	if (!r->open && h->chunk)
		return tw_fail(&r->why, TW_BAD_BYTES, "chunk %u of %s without its beginning",
			       h->chunk, name);
	if (!r->open || h->type == TW_PING)
		return TW_OK;
	if (h->chunk != r->open->h.chunk + 1)
		return tw_fail(&r->why, TW_BAD_BYTES,
			       "chunk %u of %s where chunk %u of %s must follow", h->chunk, name,
			       r->open->h.chunk + 1, tw_type_name(r->open->h.type));
	if (!goes_on(&r->open->h, h))
		return tw_fail(&r->why, TW_BAD_BYTES, "chunk %u of another %s than the one begun",
			       h->chunk, name);
	return TW_OK;
}

static enum tw_status no_memory(struct tw_reader *r)
{
	return tw_fail(&r->why, TW_NO_MEMORY, "no memory for %s of %zu bytes",
		       tw_type_name(r->h.type),
		       tw_body_bytes(r->h.type) + r->h.tail + (size_t)r->h.payload);
}

/* A new message with the room that its header asks for. */
static enum tw_status begin_message(struct tw_reader *r)
{
	const struct tw_reader_owner *o = r->owner;
	const struct tw_header *h = &r->h;
	const char *why = "it is not expected here";
	struct tw_msg *m;

	if ((h->flags & TW_FLAG_LENT) && (!r->lender.token || h->payload < TW_LEND_LEAST))
		return tw_fail(&r->why, TW_BAD_BYTES, "%s of %u bytes is lent without having asked",
			       tw_type_name(h->type), h->payload);
	if (!o->admit(o->arg, h, &why))
		return tw_fail(&r->why, TW_REFUSED, "%s of %u bytes: %s", tw_type_name(h->type),
			       h->payload, why);
	m = o->msg_new(o->arg);
	if (!m)
		return no_memory(r);
	m->h = *h;
	tw_msg_route(m);
	r->m = m; /* whoever frees the reader frees it */
	if (h->payload > TW_CHUNK)
		r->open = m;
	if (h->tail && !(m->tail = tw_block_new(r->heap, h->tail)))
		return no_memory(r);
	if (h->payload && !(m->payload = o->block(o->arg, h)))
		return no_memory(r);
	HOLDS(3, !h->payload || m->payload->room >= h->payload);
	m->fresh = h->payload;
	return TW_OK;
}

/* Where the chunk of the frame belongs. */
static struct iovec chunk_of(const struct tw_reader *r)
{
	return (struct iovec){ tw_msg_payload(r->m) + (size_t)r->h.chunk * TW_CHUNK,
			       tw_chunk_bytes(&r->h) };
}

/* Where the frame's bytes go. */
static void lay_out(struct tw_reader *r)
{
	const struct tw_header *h = &r->h;
	struct tw_msg *m = r->m;

	memset(r->place, 0, sizeof r->place);
	if (h->chunk == 0) {
		r->place[BODY] = (struct iovec){ &m->b, tw_body_bytes(h->type) };
		if (h->tail)
			r->place[TAIL] = (struct iovec){ m->tail->data, h->tail };
	}
	if (h->payload)
		r->place[PAYLOAD] = chunk_of(r);
	if (h->flags & TW_FLAG_LENT)
		r->place[PAYLOAD] = (struct iovec){ &r->loan, sizeof r->loan };
}

static enum tw_status begin_frame(struct tw_reader *r)
{
	enum tw_status st;

	memcpy(&r->h, r->buffer + r->from, sizeof r->h);
	r->from += sizeof r->h;
	st = tw_header_check(&r->h, &r->why);
	if (st == TW_OK)
		st = check_turn(r);
	if (st == TW_OK && r->h.chunk == 0)
		st = begin_message(r);
	if (st != TW_OK)
		return st;
	if (r->h.chunk)
		r->m = r->open;
	lay_out(r);
	XXH3_64bits_reset_withSeed(&r->hash, tw_header_seed(&r->h));
	r->inside = true;
	return TW_OK;
}

/* --- inside a frame --- */

/* `len` bytes are in their places: count and hash them. */
static void arrived(struct tw_reader *r, size_t len)
{
	for (int k = 0; k < PLACES && len; k++) {
		struct iovec *v = &r->place[k];
		const size_t some = len < v->iov_len ? len : v->iov_len;

		if (!some)
			continue;
		if (k != PAYLOAD || !r->trusts)
			r->hashing->update(&r->hash, v->iov_base, some);
		v->iov_base = (uint8_t *)v->iov_base + some;
		v->iov_len -= some;
		len -= some;
	}
}

static size_t missing(const struct tw_reader *r)
{
	return r->place[BODY].iov_len + r->place[TAIL].iov_len + r->place[PAYLOAD].iov_len;
}

/* What the buffer has of the frame, to its places. */
static void unpack(struct tw_reader *r)
{
	for (int k = 0; k < PLACES && r->from < r->to; k++) {
		const size_t have = r->to - r->from, want = r->place[k].iov_len;
		const size_t some = have < want ? have : want;

		if (!some)
			continue;
		memcpy(r->place[k].iov_base, r->buffer + r->from, some);
		r->from += some;
		arrived(r, some);
	}
}

static enum tw_status fetch(struct tw_reader *r)
{
	const struct iovec to = chunk_of(r);

	if (!tw_lend_fetch(&r->lender, r->loan, to.iov_base, to.iov_len))
		return tw_fail(&r->why, TW_IO, "its process no longer has the %s that it lent",
			       tw_type_name(r->h.type));
	r->borrowed += to.iov_len;
	return TW_OK;
}

/* The frame is there: check it, and hand over the message if that is there, too. */
static enum tw_status end_frame(struct tw_reader *r, bool *stop)
{
	struct tw_msg *m = r->m;

	if (XXH3_64bits_digest(&r->hash) != r->h.hash)
		return tw_fail(&r->why, TW_BAD_BYTES, "the hash of %s (chunk %u) does not agree",
			       tw_type_name(r->h.type), r->h.chunk);
	if ((r->h.flags & TW_FLAG_LENT) && fetch(r) != TW_OK)
		return r->why.status;
	r->inside = false;
	r->m = NULL;
	m->h.chunk = r->h.chunk;
	if ((r->h.chunk + 1ull) * TW_CHUNK < r->h.payload)
		return TW_OK;
	if (m == r->open)
		r->open = NULL;
	m->h.chunk = 0;
	if (m->h.flags & TW_FLAG_LENT) {
		m->h.flags &= ~(uint32_t)TW_FLAG_LENT;
		r->fetched++;
	}
	*stop = !r->owner->message(r->owner->arg, m);
	return TW_OK;
}

/* Use up the buffer, until the owner says stop. */
static enum tw_status use(struct tw_reader *r, bool *stop)
{
	enum tw_status st = TW_OK;

	while (st == TW_OK && !*stop) {
		if (!r->inside) {
			if (r->to - r->from < sizeof r->h)
				return TW_OK;
			st = begin_frame(r);
			continue;
		}
		unpack(r);
		if (missing(r))
			return TW_OK;
		st = end_frame(r, stop);
	}
	return st;
}

/* --- the stream --- */

/* Where the next bytes of the stream go, at most `most`; returns how many parts. */
static int targets(struct tw_reader *r, size_t most, struct iovec to[PLACES + 1])
{
	int parts = 0;

	if (r->from) { /* (1): this moves less than a header */
		memmove(r->buffer, r->buffer + r->from, r->to - r->from);
		r->to -= r->from;
		r->from = 0;
	}
	for (int k = 0; r->inside && k < PLACES; k++)
		if (r->place[k].iov_len)
			to[parts++] = r->place[k];
	to[parts++] = (struct iovec){ r->buffer + r->to, TW_READER_BUFFER - r->to };
	for (int k = 0; k < parts; k++) {
		if (to[k].iov_len >= most) {
			to[k].iov_len = most;
			return k + 1;
		}
		most -= to[k].iov_len;
	}
	return parts;
}

static enum tw_flow fill(struct tw_reader *r, struct tw_stream *s, size_t most, size_t *got)
{
	const size_t want = r->inside ? missing(r) : 0;
	struct iovec to[PLACES + 1];
	const int parts = targets(r, most, to);
	const enum tw_flow flow = tw_stream_read(s, to, parts, got);
	size_t asked = 0;

	if (flow != TW_FLOW_OK)
		return flow;
	for (int k = 0; k < parts; k++)
		asked += to[k].iov_len;
	r->drained = *got < asked && !tw_stream_pending(s);
	arrived(r, *got < want ? *got : want);
	if (*got > want)
		r->to += *got - want;
	return flow;
}

/* What was left goes into the buffer ... */
static void unkeep(struct tw_reader *r)
{
	r->from = 0;
	r->to = r->kept;
	if (r->kept)
		memcpy(r->buffer, r->more ? r->more : r->keep, r->kept);
	r->heap->put(r->heap, r->more);
	r->more = NULL;
	r->kept = 0;
}

/* ... and what is left now comes out of it. */
static enum tw_status keep(struct tw_reader *r)
{
	const size_t left = r->to - r->from;

	if (left > sizeof r->keep && !(r->more = r->heap->get(r->heap, left)))
		return tw_fail(&r->why, TW_NO_MEMORY, "no memory for %zu bytes that arrived early",
			       left);
	if (left)
		memcpy(r->more ? r->more : r->keep, r->buffer + r->from, left);
	r->kept = left;
	r->buffer = NULL;
	r->from = r->to = 0;
	return TW_OK;
}

static enum tw_flow run(struct tw_reader *r, struct tw_stream *s, size_t most, size_t *got)
{
	bool stop = false;

	r->drained = false;
	for (;;) {
		enum tw_flow flow;
		size_t some = 0;

		if (r->why.status != TW_OK || use(r, &stop) != TW_OK)
			return TW_FLOW_BROKEN;
		*got += r->borrowed;
		r->borrowed = 0;
		if (stop || *got >= most)
			return TW_FLOW_OK;
		if (r->drained) /* asking again would only be told so */
			return TW_FLOW_WAIT;
		flow = fill(r, s, most - *got, &some);
		if (flow != TW_FLOW_OK)
			return flow;
		*got += some;
	}
}

static enum tw_flow run_in(struct tw_reader *r, uint8_t *room, struct tw_stream *s, size_t most,
			   size_t *got)
{
	enum tw_flow flow;

	*got = 0;
	r->buffer = room;
	unkeep(r);
	flow = run(r, s, most, got);
	return keep(r) == TW_OK ? flow : TW_FLOW_BROKEN;
}

/* One inside another: a message made its owner look at another connection. */
static enum tw_flow run_inside(struct tw_reader *r, struct tw_stream *s, size_t most, size_t *got)
{
	uint8_t own[TW_READER_BUFFER];

	return run_in(r, own, s, most, got);
}

enum tw_flow tw_reader_run(struct tw_reader *r, struct tw_stream *s, size_t most, size_t *got)
{
	enum tw_flow flow;

	if (buffer_used)
		return run_inside(r, s, most, got);
	buffer_used = true;
	flow = run_in(r, buffer, s, most, got);
	buffer_used = false;
	return flow;
}
