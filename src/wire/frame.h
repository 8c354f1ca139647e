/* SPDX-License-Identifier: Apache-2.0 */
/* frame.h - messages on a stream: written in chunks, read straight into place.
 *
 * A message goes as one frame, or, when its payload is longer than TW_CHUNK, as several: the first
 * has body, tail and the first TW_CHUNK bytes of payload, the others (chunk 1, 2, ...) the header
 * and the next TW_CHUNK bytes (the last: the rest).  Every frame has its own hash, taken while its
 * bytes are in cache.  Frames of one message follow each other; only PING may stand between them.
 * Neither side ever waits: both move what they can and say what they wait for. */
#ifndef TW_WIRE_FRAME_H
#define TW_WIRE_FRAME_H

#include "actor/message.h"
#include "wire/lend.h"
#include "wire/stream.h"

/* --- writing --- */

/* Messages on their way out of one connection, in order.  Not for several threads. */
struct tw_writer;
struct tw_writer *tw_writer_new(struct tw_heap *heap);
/* Drops every message that is not out, by `drop`. */
void tw_writer_free(struct tw_writer *w, void (*drop)(void *arg, struct tw_msg *m), void *arg);
/* Take the message (chained by m->next) after those before it. */
void tw_writer_add(struct tw_writer *w, struct tw_msg *m);
/* The stream answers for its bytes (TLS, or a pair that never leaves the machine): hashes are of
 * headers, bodies and tails only.  Both sides must know it, and before the first frame. */
void tw_writer_trust(struct tw_writer *w);
/* From the next message on, long payloads are lent (lend.h).  The other side must know it. */
void tw_writer_lend(struct tw_writer *w);
/* What the other side must know to fetch; `token` is not 0. */
struct tw_lender tw_writer_lender(struct tw_writer *w, uint64_t token);
/* The other side has fetched so many of all that were ever lent; false: there were not so many. */
bool tw_writer_taken(struct tw_writer *w, uint64_t taken, void (*done)(void *arg, struct tw_msg *m),
		     void *arg);
/* Messages that are out and not fetched yet: they are not given to `done`. */
size_t tw_writer_lent(const struct tw_writer *w);
/* A PING with this number goes out before the next frame; asked again before that, with the later
 * one. */
void tw_writer_ping(struct tw_writer *w, uint64_t number);
/* Is anything left to write? */
bool tw_writer_busy(const struct tw_writer *w);
/* Bytes of all messages that are not out yet (lent ones are). */
size_t tw_writer_bytes(const struct tw_writer *w);
/* Write what goes, at most about `most` bytes (so that one connection does not hold up the others):
 * OK when there is nothing left or `most` was written, else what the stream said.  Messages
 * that are out whole are given to `done` in order, those that are lent when they are fetched.
 * *put: bytes written now, and those of payloads that are lent now. */
enum tw_flow tw_writer_run(struct tw_writer *w, struct tw_stream *s, size_t most,
			   void (*done)(void *arg, struct tw_msg *m), void *arg, size_t *put);

/* --- reading --- */

/* What a reader may ask its owner, who knows who is at the other side. */
struct tw_reader_owner {
	void *arg;
	/* A message to read into (zeroed but for what the owner keeps), NULL without memory. */
	struct tw_msg *(*msg_new)(void *arg);
	void (*msg_free)(void *arg, struct tw_msg *m); /* drops tail and payload, too */
	/* May this be read?  `h` has magic, major and lengths checked, nothing was allocated.
	 * False: the connection is BROKEN with *why (static text).  The owner checks type and roles
	 * and that h->payload is no more than such a message can have. */
	bool (*admit)(void *arg, const struct tw_header *h, const char **why);
	/* A block of at least h->payload bytes for the payload; NULL without memory. */
	struct tw_block *(*block)(void *arg, const struct tw_header *h);
	/* A message is there, whole and with a right hash; m->from and m->to have role and index
	 * (nodes are the owner's to fill).  Takes m.  False: stop reading for now. */
	bool (*message)(void *arg, struct tw_msg *m);
};

struct tw_reader;
struct tw_reader *tw_reader_new(struct tw_heap *heap, const struct tw_reader_owner *owner);
void tw_reader_free(struct tw_reader *r);
void tw_reader_trust(struct tw_reader *r); /* as tw_writer_trust */
/* Long payloads are fetched from there (lend.h); before, a frame with a loan is hostile. */
void tw_reader_borrow(struct tw_reader *r, const struct tw_lender *from);
/* Messages whose payload was fetched, ever. */
uint64_t tw_reader_fetched(const struct tw_reader *r);
/* Read what is there, at most about `most` bytes: OK when `most` was read or the owner said stop,
 * else what the stream said; hostile bytes give BROKEN and tw_reader_why.  *got: bytes read now. */
enum tw_flow tw_reader_run(struct tw_reader *r, struct tw_stream *s, size_t most, size_t *got);
/* After BROKEN: because the other side speaks another major version. */
bool tw_reader_other_version(const struct tw_reader *r);
/* One sentence for BROKEN: what was wrong with the bytes, or "" when it was the stream. */
const char *tw_reader_why(const struct tw_reader *r);
/* Bytes that a reader and a writer hold besides messages, for the bound that is printed. */
size_t tw_frame_memory(void);

#endif
