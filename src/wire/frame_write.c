/* SPDX-License-Identifier: Apache-2.0 */
/* frame_write.c - messages into frames, and frames out, from where their bytes lie.
 *
 *  (1) the list is [first: not out] ... [at: staged next, from `chunk` on] ... [last].
 *  (2) what is staged is fixed: after a short write the same bytes are left, and more may only come
 *      behind them.
 *  (3) messages end in the order in which they were added, and `ends` has the place in the stream
 *      where each staged one does.
 *  (4) a message that is lent leaves the list when it is out, and is kept in `lent` until it was
 *      fetched.
 *
 * A batch of frames is staged and written with one call.  Headers, bodies and whatever is short are
 * copied together, since many small pieces cost more than their bytes (in TLS each would be a
 * record); a piece of LONG bytes or more is written from its block.  A long chunk ends the batch,
 * so that it is hashed right before the system copies it, while it is in the cache; where chunks
 * are not hashed, several go out at once. */
#include "wire/frame.h"
#include "wire/frame_hash.h"
#include "wire/frame_sizes.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#define LONG   1024        /* pieces below are copied */
#define PARTS  64          /* pieces of a batch */
#define ENDS   64          /* messages that end in a batch */
#define ENOUGH (64u << 10) /* bytes after which a batch goes out ... */
#define TRUSTS (1u << 20)  /* ... and where chunks are not hashed */

/* Room that any frame may need for its copied pieces. */
#define FRAME_ROOM (sizeof(struct tw_header) + sizeof(union tw_body) + 2 * LONG)

struct tw_writer {
	struct tw_heap *heap;
	const struct tw_frame_hash *hashing;
	struct tw_msg *first, *at, *last;
	size_t bytes;    /* of the messages in the list */
	uint64_t number; /* of the PING */
	uint16_t chunk;
	bool ping;
	bool trusts; /* payloads are not hashed */
	bool lends;
	_Atomic uint64_t token;       /* lend.h, (2) */
	struct tw_msg *lent, *lately; /* (4): the first and the last one */
	uint64_t fetched;
	size_t lents;

	struct iovec part[PARTS]; /* the batch: [sent, parts) is not out */
	int sent, parts;
	size_t copied;        /* bytes of `copy` in use */
	uint64_t staged, out; /* places in the stream */
	uint64_t ends[ENDS];
	unsigned ended; /* messages that end in the batch ... */
	unsigned done;  /* ... and how many of them are out */
	uint8_t copy[TW_WRITER_COPY];
};

struct tw_writer *tw_writer_new(struct tw_heap *heap)
{
	struct tw_writer *w = heap->get(heap, sizeof *w);

	if (!w)
		return NULL;
	memset(w, 0, offsetof(struct tw_writer, copy));
	w->heap = heap;
	w->hashing = tw_frame_hash();
	return w;
}

static void drop_all(struct tw_msg **list, void (*drop)(void *arg, struct tw_msg *m), void *arg)
{
	while (*list) {
		struct tw_msg *m = *list;

		*list = m->next;
		m->next = NULL;
		drop(arg, m);
	}
}

void tw_writer_free(struct tw_writer *w, void (*drop)(void *arg, struct tw_msg *m), void *arg)
{
	if (!w)
		return;
	atomic_store(&w->token, 0); /* before anything lent is let go */
	drop_all(&w->lent, drop, arg);
	drop_all(&w->first, drop, arg);
	w->heap->put(w->heap, w);
}

void tw_writer_add(struct tw_writer *w, struct tw_msg *m)
{
	m->next = NULL;
	if (w->first)
		w->last->next = m;
	else
		w->first = m;
	w->last = m;
	if (!w->at)
		w->at = m;
	w->bytes += tw_msg_bytes(m);
}

void tw_writer_trust(struct tw_writer *w)
{
	w->trusts = true;
}

void tw_writer_lend(struct tw_writer *w)
{
	w->lends = true;
}

struct tw_lender tw_writer_lender(struct tw_writer *w, uint64_t token)
{
	atomic_store(&w->token, token);
	return (struct tw_lender){ .process = (uint64_t)getpid(),
				   .cell = (uintptr_t)&w->token,
				   .token = token };
}

bool tw_writer_taken(struct tw_writer *w, uint64_t taken, void (*done)(void *arg, struct tw_msg *m),
		     void *arg)
{
	while (w->lent && w->fetched < taken) {
		struct tw_msg *m = w->lent;

		w->lent = m->next;
		w->lents--;
		w->fetched++;
		m->next = NULL;
		done(arg, m);
	}
	return w->fetched >= taken;
}

size_t tw_writer_lent(const struct tw_writer *w)
{
	return w->lents;
}

void tw_writer_ping(struct tw_writer *w, uint64_t number)
{
	w->ping = true;
	w->number = number;
}

bool tw_writer_busy(const struct tw_writer *w)
{
	return w->first || w->ping || w->sent < w->parts;
}

size_t tw_writer_bytes(const struct tw_writer *w)
{
	return w->bytes;
}

size_t tw_writer_memory(void)
{
	return sizeof(struct tw_writer);
}

/* --- the batch --- */

/* The next `len` bytes to copy into; they go out after what is staged. */
static uint8_t *room(struct tw_writer *w, size_t len)
{
	uint8_t *at = w->copy + w->copied;
	struct iovec *v = w->parts ? &w->part[w->parts - 1] : NULL;

	if (!v || (uint8_t *)v->iov_base + v->iov_len != at) {
		v = &w->part[w->parts++];
		*v = (struct iovec){ at, 0 };
	}
	v->iov_len += len;
	w->copied += len;
	w->staged += len;
	return at;
}

static void piece(struct tw_writer *w, const void *bytes, size_t len)
{
	if (!len)
		return;
	if (len < LONG) {
		memcpy(room(w, len), bytes, len);
		return;
	}
	w->part[w->parts++] = (struct iovec){ (void *)bytes, len };
	w->staged += len;
}

/* A frame: the header, whose hash is taken here, and what follows it. */
static void frame(struct tw_writer *w, struct tw_header *h, const struct iovec rest[3])
{
	const uint64_t seed = tw_header_seed(h);
	uint8_t *head = room(w, sizeof *h);

	for (int i = 0; i < 3; i++)
		piece(w, rest[i].iov_base, rest[i].iov_len);
	if (w->trusts) {
		h->hash = tw_frame_hash_trusting(rest, seed);
	} else if (w->copy + w->copied == head + sizeof *h + h->length) {
		h->hash = w->hashing->whole(head + sizeof *h, h->length, seed);
	} else if (rest[2].iov_len == h->length) {
		h->hash = w->hashing->whole(rest[2].iov_base, h->length, seed);
	} else {
		XXH3_state_t state;

		XXH3_64bits_reset_withSeed(&state, seed);
		for (int i = 0; i < 3; i++)
			w->hashing->update(&state, rest[i].iov_base, rest[i].iov_len);
		h->hash = XXH3_64bits_digest(&state);
	}
	memcpy(head, h, sizeof *h);
}

static void stage_ping(struct tw_writer *w)
{
	const struct tw_body_ping body = { .number = w->number };
	struct tw_header h = { .magic = TW_WIRE_MAGIC,
			       .major = TW_WIRE_MAJOR,
			       .minor = TW_WIRE_MINOR,
			       .type = TW_PING,
			       .length = sizeof body };

	frame(w, &h, (struct iovec[3]){ { (void *)&body, sizeof body } });
	w->ping = false;
}

static bool is_lent(const struct tw_msg *m)
{
	return m->h.flags & TW_FLAG_LENT;
}

/* The next frame of the message whose turn it is. */
static void stage_frame(struct tw_writer *w)
{
	struct tw_msg *m = w->at;
	struct iovec rest[3] = { { NULL, 0 } };
	struct tw_loan loan;
	struct tw_header h;

	if (w->chunk == 0 && w->lends && m->h.payload >= TW_LEND_LEAST)
		m->h.flags |= TW_FLAG_LENT;
	h = tw_msg_header(m, w->chunk);

	if (w->chunk == 0) {
		rest[0] = (struct iovec){ (void *)&m->b, tw_body_bytes(h.type) };
		if (h.tail)
			rest[1] = (struct iovec){ m->tail->data, h.tail };
	}
	if (h.payload)
		rest[2] = (struct iovec){ tw_msg_payload(m) + (size_t)w->chunk * TW_CHUNK,
					  tw_chunk_bytes(&h) };
	if (is_lent(m)) {
		loan.address = (uintptr_t)rest[2].iov_base;
		rest[2] = (struct iovec){ &loan, sizeof loan };
	}
	frame(w, &h, rest);
	if ((uint64_t)(w->chunk + 1u) * TW_CHUNK < h.payload) {
		w->chunk++;
		return;
	}
	w->ends[w->ended++] = w->staged;
	w->at = m->next;
	w->chunk = 0;
}

/* Forget what is out, so that there is room for more. */
static void tidy(struct tw_writer *w)
{
	w->parts -= w->sent;
	memmove(w->part, w->part + w->sent, (size_t)w->parts * sizeof w->part[0]);
	w->sent = 0;
	w->ended -= w->done;
	memmove(w->ends, w->ends + w->done, w->ended * sizeof w->ends[0]);
	w->done = 0;
	if (w->parts == 0)
		w->copied = 0;
}

/* More frames behind what is left of the batch, until it has about `most` bytes. */
static void stage(struct tw_writer *w, size_t most)
{
	const size_t batch = w->trusts ? TRUSTS : ENOUGH;
	uint64_t enough = w->out + (most < batch ? most : batch);

	tidy(w);
	while ((w->ping || w->at) && w->staged < enough && w->ended < ENDS &&
	       w->parts <= PARTS - 4 && w->copied + FRAME_ROOM <= sizeof w->copy)
		if (w->ping) {
			const uint64_t before = w->staged;

			stage_ping(w);
			enough += w->staged - before; /* it never takes a message's turn */
		} else {
			stage_frame(w);
		}
}

/* `put` bytes of the batch are out. */
static void sent(struct tw_writer *w, size_t put)
{
	w->out += put;
	while (put) {
		struct iovec *v = &w->part[w->sent];
		const size_t some = put < v->iov_len ? put : v->iov_len;

		v->iov_base = (uint8_t *)v->iov_base + some;
		v->iov_len -= some;
		put -= some;
		w->sent += v->iov_len == 0;
	}
}

/* (4) */
static void keep_lent(struct tw_writer *w, struct tw_msg *m)
{
	if (w->lent)
		w->lately->next = m;
	else
		w->lent = m;
	w->lately = m;
	w->lents++;
}

/* Messages that are out; returns how many bytes were lent. */
static size_t give_back(struct tw_writer *w, void (*done)(void *arg, struct tw_msg *m), void *arg)
{
	size_t lent = 0;

	while (w->done < w->ended && w->ends[w->done] <= w->out) {
		struct tw_msg *m = w->first;

		HOLDS(3, m && m != w->at);
		w->done++;
		w->first = m->next;
		w->bytes -= tw_msg_bytes(m);
		m->next = NULL;
		if (is_lent(m)) {
			lent += m->h.payload;
			keep_lent(w, m);
		} else {
			done(arg, m);
		}
	}
	return lent;
}

enum tw_flow tw_writer_run(struct tw_writer *w, struct tw_stream *s, size_t most,
			   void (*done)(void *arg, struct tw_msg *m), void *arg, size_t *put)
{
	*put = 0;
	while (tw_writer_busy(w) && *put < most) {
		enum tw_flow flow;
		size_t some = 0;

		if (w->staged - w->out < ENOUGH)
			stage(w, most - *put);
		flow = tw_stream_write(s, w->part + w->sent, w->parts - w->sent, &some);
		if (flow != TW_FLOW_OK)
			return flow;
		*put += some;
		sent(w, some);
		*put += give_back(w, done, arg);
	}
	return TW_FLOW_OK;
}
