/* SPDX-License-Identifier: Apache-2.0 */
/* stream.h - bytes over a socket that never make anybody wait, in the clear or in TLS.
 *
 * One thread at a time.  The socket is non-blocking; the user of a stream waits with epoll. */
#ifndef TW_WIRE_STREAM_H
#define TW_WIRE_STREAM_H

#include "base/heap.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

struct tw_stream;
struct tw_tls; /* tls.h */

enum tw_flow {
	TW_FLOW_OK,     /* some bytes moved */
	TW_FLOW_WAIT,   /* none could, now; see tw_stream_wants */
	TW_FLOW_END,    /* the other side closed cleanly */
	TW_FLOW_BROKEN, /* reset, timed out, not TLS, wrong key: tw_stream_why says it */
};

/* Both take the socket, also when they fail (NULL: no memory), and make it non-blocking. */
struct tw_stream *tw_stream_plain(struct tw_heap *heap, int fd);
/* `dials`: we connected to `peer` ("host:port") and begin the handshake.  `tls` must outlive the
 * stream. */
struct tw_stream *tw_stream_tls(struct tw_heap *heap, int fd, struct tw_tls *tls, bool dials,
				const char *peer);
void tw_stream_close(struct tw_stream *s); /* closes the socket; NULL is allowed */
int tw_stream_fd(const struct tw_stream *s);

/* TLS: go on with the handshake until it is over (OK), plain: OK at once.  Reading and writing
 * before that is TW_FLOW_WAIT. */
enum tw_flow tw_stream_shake(struct tw_stream *s);
/* Up to `room` bytes, straight to where they belong: the parts of `to` in order. */
enum tw_flow tw_stream_read(struct tw_stream *s, const struct iovec *to, int parts, size_t *got);
/* As many of the bytes as go now.  After TW_FLOW_WAIT or a short write the caller comes again with
 * the bytes that are left, the same ones, from whatever address. */
enum tw_flow tw_stream_write(struct tw_stream *s, const struct iovec *from, int parts, size_t *put);
/* Bytes that can be read without the socket becoming readable again (TLS has them already). */
bool tw_stream_pending(const struct tw_stream *s);
/* What the last WAIT waits for: EPOLLIN, EPOLLOUT.  A TLS read may wait to write and the other way
 * round; both are named, and either call may then be tried when the socket is ready for it. */
unsigned tw_stream_wants(const struct tw_stream *s);
/* BROKEN because the other side, or the way to it, is gone: trying again may help.  False: it
 * spoke, and what it said will be the same next time. */
bool tw_stream_left(const struct tw_stream *s);
/* One sentence for BROKEN.  It calls the other side "it": its name and address are the caller's. */
const char *tw_stream_why(const struct tw_stream *s);

#endif
