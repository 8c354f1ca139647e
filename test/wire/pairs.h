/* SPDX-License-Identifier: Apache-2.0 */
/* pairs.h - two streams that talk with each other in one thread. */
#ifndef TW_TEST_WIRE_PAIRS_H
#define TW_TEST_WIRE_PAIRS_H

#include "wire/stream.h"

/* [0] dials, [1] was dialled. */
struct pair {
	struct tw_stream *side[2];
};

/* Connected sockets: a TCP connection on loopback, or a socket pair. */
void pair_sockets(bool tcp, int fd[2]);
/* Shake hands until both sides are done or broken. */
void pair_shake(struct pair *p, enum tw_flow flow[2]);
/* Send `n` bytes each way at the same time in parts of random sizes; what arrives is compared. */
void pair_exchange(struct pair *p, size_t n, unsigned seed);
/* Read into a few bytes until something else than WAIT. */
enum tw_flow pair_hear(struct tw_stream *s, size_t *got);
void pair_close(struct pair *p);

#endif
