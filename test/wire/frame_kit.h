/* SPDX-License-Identifier: Apache-2.0 */
/* frame_kit.h - for tests of frames: messages of noise, two ends of a socket, who owns a reader. */
#ifndef TW_TEST_FRAME_KIT_H
#define TW_TEST_FRAME_KIT_H

#include "base/refusing.h"
#include "wire/frame.h"

/* A number below `below`, for (seed, nth). */
uint64_t kit_draw(uint64_t seed, uint64_t nth, uint64_t below);
void kit_noise(uint64_t seed, void *out, size_t bytes);

/* A message of noise, every field set; the payload begins `at` bytes into its block. */
struct tw_msg *kit_make(struct tw_heap *heap, uint64_t seed, uint16_t type, uint32_t tail,
			uint32_t payload, size_t at);
/* A copy that shares the blocks. */
struct tw_msg *kit_twin(struct tw_heap *heap, const struct tw_msg *m);
void kit_free(struct tw_heap *heap, struct tw_msg *m);
/* Fails the test where what came is not what was sent. */
void kit_same(const struct tw_msg *came, const struct tw_msg *sent);
/* Give the frame at `bytes` the hash that it should have. */
void kit_seal(uint8_t *bytes);

#define KIT_PING 7 /* number of every PING */

/* One side: what it reads must be `expected`, in order. */
struct kit_end {
	struct refusing *heap;
	struct tw_stream *stream;
	struct tw_reader *reader;
	struct tw_writer *writer;
	struct tw_reader_owner owner;
	struct tw_msg *expected, *last; /* NULL: take anything, count it */
	unsigned came, pings, done;
	uint64_t sent;       /* bytes of `done` */
	uint32_t largest;    /* payload that is admitted */
	unsigned stop_every; /* 0: never */
	bool any;
};

/* A socket pair with small buffers (`buffer` bytes, 0: as they are). */
void kit_pair(int fd[2], int buffer);
/* False: no memory; everything is undone then. */
bool kit_open(struct kit_end *e, struct refusing *heap, int fd);
void kit_close(struct kit_end *e);
/* Send m by `from`; `to` expects its like. */
void kit_send(struct kit_end *from, struct kit_end *to, struct tw_msg *m);
void kit_done(void *arg, struct tw_msg *m);
void kit_drop(void *arg, struct tw_msg *m);

/* Let a reader with memory from `heap` read these bytes and then the end of the stream.  Returns
 * what it said last; e (not NULL) is the end, still open. */
enum tw_flow kit_feed(struct kit_end *e, struct refusing *heap, const uint8_t *bytes, size_t len);
/* The bytes that a writer makes of the messages, which it takes; to be freed. */
uint8_t *kit_bytes(struct tw_msg **m, size_t count, bool pings, size_t *len);

#endif
