/* SPDX-License-Identifier: Apache-2.0 */
/* stream.c - bytes over a socket that never make anybody wait, in the clear or in TLS. */
#include "wire/stream.h"

#include "wire/address.h"
#include "wire/tls_inner.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/err.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define RECORD SSL3_RT_MAX_PLAIN_LENGTH

struct tw_stream {
	struct tw_heap *heap;
	struct tw_tls *tls; /* NULL: plain */
	SSL *ssl;
	struct tw_tls_socket socket;
	unsigned wants;
	unsigned records; /* written under the present key */
	size_t owed;      /* bytes of a record that is made but not out */
	bool starved;     /* what TLS has is not a whole record */
	bool ended;       /* nothing more comes */
	bool broken;      /* `why` says it */
	bool deaf;        /* the other side takes nothing more; what it said before can be read */
	char why[500];
};

/* --- both --- */

static enum tw_flow wait_for(struct tw_stream *s, unsigned events)
{
	s->wants = events;
	return TW_FLOW_WAIT;
}

static enum tw_flow broken_by(struct tw_stream *s, int error)
{
	s->broken = true;
	snprintf(s->why, sizeof s->why, "the connection broke: %s", strerror(error));
	return TW_FLOW_BROKEN;
}

static enum tw_flow deafened(struct tw_stream *s, int error)
{
	broken_by(s, error);
	s->broken = false;
	s->deaf = true;
	return TW_FLOW_BROKEN;
}

static bool would_wait(int error)
{
	return error == EAGAIN || error == EWOULDBLOCK;
}

static struct tw_stream *stream_new(struct tw_heap *heap, int fd)
{
	struct tw_stream *s = tw_heap_zeros(heap, sizeof *s);
	int flags;

	if (!s)
		return NULL;
	s->heap = heap;
	s->socket.fd = fd;
	s->wants = EPOLLIN;
	flags = fcntl(fd, F_GETFL);
	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		broken_by(s, errno);
	return s;
}

static size_t bytes_of(const struct iovec *part, int parts)
{
	size_t n = 0;

	for (int i = 0; i < parts; i++)
		n += part[i].iov_len;
	return n;
}

/* --- plain --- */

static enum tw_flow plain_read(struct tw_stream *s, const struct iovec *to, int parts, size_t *got)
{
	ssize_t n;

	do
		n = readv(s->socket.fd, to, parts < IOV_MAX ? parts : IOV_MAX);
	while (n < 0 && errno == EINTR);
	if (n > 0) {
		*got = (size_t)n;
		return TW_FLOW_OK;
	}
	if (n < 0)
		return would_wait(errno) ? wait_for(s, EPOLLIN) : broken_by(s, errno);
	s->ended = true;
	return TW_FLOW_END;
}

static enum tw_flow plain_write(struct tw_stream *s, const struct iovec *from, int parts,
				size_t *put)
{
	const struct msghdr message = {
		.msg_iov = (struct iovec *)from, /* sendmsg only reads it */
		.msg_iovlen = (size_t)(parts < IOV_MAX ? parts : IOV_MAX),
	};
	ssize_t n;

	do
		n = sendmsg(s->socket.fd, &message, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n >= 0) {
		*put = (size_t)n;
		return TW_FLOW_OK;
	}
	return would_wait(errno) ? wait_for(s, EPOLLOUT) : deafened(s, errno);
}

/* --- TLS --- */

/* What a call of OpenSSL that moved nothing means. */
static enum tw_flow tls_stopped(struct tw_stream *s)
{
	const int error = SSL_get_error(s->ssl, 0);

	if (error == SSL_ERROR_WANT_READ)
		return wait_for(s, EPOLLIN);
	if (error == SSL_ERROR_WANT_WRITE)
		return wait_for(s, EPOLLOUT);
	if (error == SSL_ERROR_ZERO_RETURN) {
		s->ended = true;
		return TW_FLOW_END;
	}
	s->broken = true;
	tw_tls_why(s->tls, s->ssl, &s->socket, s->why, sizeof s->why);
	return TW_FLOW_BROKEN;
}

/* As tls_stopped, for a write.  A peer that refuses us says so before it leaves; a write comes
 * upon the leaving first, and what was said is still there to be read. */
static enum tw_flow tls_write_stopped(struct tw_stream *s)
{
	const int error = SSL_get_error(s->ssl, 0);
	char byte;
	size_t n;

	if (error != SSL_ERROR_SYSCALL && error != SSL_ERROR_ZERO_RETURN)
		return tls_stopped(s);
	deafened(s, s->socket.error ? s->socket.error : EPIPE);
	ERR_clear_error();
	if (!s->ended && SSL_peek_ex(s->ssl, &byte, 1, &n) != 1 &&
	    SSL_get_error(s->ssl, 0) == SSL_ERROR_SSL)
		tls_stopped(s);
	return TW_FLOW_BROKEN;
}

static enum tw_flow tls_shake(struct tw_stream *s)
{
	ERR_clear_error();
	if (SSL_do_handshake(s->ssl) != 1)
		return tls_stopped(s);
	if (!tw_tls_proved(s->tls, s->ssl)) {
		s->broken = true;
		snprintf(s->why, sizeof s->why, "it has %s",
			 s->tls->keyed ? "another key, or none" : "shown no certificate");
		return TW_FLOW_BROKEN;
	}
	s->socket.shaken = true;
	return TW_FLOW_OK;
}

static enum tw_flow tls_read(struct tw_stream *s, const struct iovec *to, int parts, size_t *got)
{
	for (int i = 0; i < parts; i++) {
		uint8_t *at = to[i].iov_base;

		for (size_t left = to[i].iov_len, n; left; left -= n, at += n) {
			ERR_clear_error();
			if (SSL_read_ex(s->ssl, at, left, &n) != 1) {
				const enum tw_flow flow = tls_stopped(s);

				s->starved = true;
				return *got ? TW_FLOW_OK : flow;
			}
			s->starved = false;
			*got += n;
		}
	}
	return TW_FLOW_OK;
}

/* The bytes that are not written yet. */
struct rest {
	const struct iovec *part;
	int parts;
	size_t skip; /* of the first part */
};

static void advance(struct rest *r, size_t n)
{
	r->skip += n;
	while (r->parts && r->skip >= r->part->iov_len) {
		r->skip -= r->part->iov_len;
		r->part++;
		r->parts--;
	}
}

/* The next bytes to write, straight from where they are when they fill a record or are the last,
 * else gathered: a header shares its record with the payload that follows it. */
static size_t next(const struct rest *r, uint8_t gather[RECORD], const uint8_t **span)
{
	struct rest ahead = *r;
	size_t n = 0;

	*span = gather;
	if (!r->parts)
		return 0;
	if (r->parts == 1 || r->part->iov_len - r->skip >= RECORD) {
		*span = (const uint8_t *)r->part->iov_base + r->skip;
		return r->part->iov_len - r->skip;
	}
	while (ahead.parts && n < RECORD) {
		const size_t here = ahead.part->iov_len - ahead.skip;
		const size_t some = here < RECORD - n ? here : RECORD - n;

		memcpy(gather + n, (const uint8_t *)ahead.part->iov_base + ahead.skip, some);
		n += some;
		advance(&ahead, some);
	}
	return n;
}

/* Is there anything behind the record that the next `n` bytes begin with? */
static bool goes_on(const struct rest *r, size_t n)
{
	struct rest after = *r;

	advance(&after, n < RECORD ? n : RECORD);
	return after.parts > 0;
}

static void rekey(struct tw_stream *s)
{
	if (s->records < s->tls->records || s->owed)
		return;
	if (SSL_key_update(s->ssl, SSL_KEY_UPDATE_NOT_REQUESTED) == 1)
		s->records = 0;
	ERR_clear_error();
}

static enum tw_flow tls_write(struct tw_stream *s, const struct iovec *from, int parts, size_t *put)
{
	struct rest rest = { from, parts, 0 };
	uint8_t gather[RECORD];
	const uint8_t *span;
	size_t n, moved;

	for (advance(&rest, 0); (n = next(&rest, gather, &span)) > 0; advance(&rest, moved)) {
		HOLDS(1, n >= s->owed); /* the same bytes come again after WAIT */
		rekey(s);
		ERR_clear_error();
		s->socket.more = goes_on(&rest, n);
		if (SSL_write_ex(s->ssl, span, n, &moved) != 1) {
			const enum tw_flow flow = tls_write_stopped(s);

			s->socket.more = false;
			s->owed = n < RECORD ? n : RECORD;
			return *put ? TW_FLOW_OK : flow;
		}
		s->owed = 0;
		s->records++;
		*put += moved;
	}
	return TW_FLOW_OK;
}

/* --- streams --- */

struct tw_stream *tw_stream_plain(struct tw_heap *heap, int fd)
{
	struct tw_stream *s = stream_new(heap, fd);

	if (s)
		s->socket.shaken = true;
	else
		close(fd);
	return s;
}

struct tw_stream *tw_stream_tls(struct tw_heap *heap, int fd, struct tw_tls *tls, bool dials,
				const char *peer)
{
	struct tw_stream *s = stream_new(heap, fd);

	if (!s)
		goto out;
	s->tls = tls;
	s->wants = dials ? EPOLLOUT : EPOLLIN;
	s->ssl = tw_tls_connection(tls, &s->socket, dials);
	if (s->ssl && dials && !tw_tls_expect(tls, s->ssl, peer)) {
		s->broken = true;
		snprintf(s->why, sizeof s->why, "no certificate can be for its name");
	}
	if (s->ssl)
		return s;
	heap->put(heap, s);
out:
	close(fd);
	return NULL;
}

/* A socket that is closed with bytes unread resets the connection, and the reset overtakes the
 * last words that we wrote.  So take what is there, though not for ever. */
static void drain(int fd)
{
	char nothing[4096];

	shutdown(fd, SHUT_WR);
	for (int i = 0; i < 64 && recv(fd, nothing, sizeof nothing, MSG_DONTWAIT) > 0; i++)
		;
}

void tw_stream_close(struct tw_stream *s)
{
	if (!s)
		return;
	if (s->ssl && s->socket.shaken && !s->broken && !s->deaf)
		SSL_shutdown(s->ssl);
	SSL_free(s->ssl);
	ERR_clear_error();
	drain(s->socket.fd);
	close(s->socket.fd);
	s->heap->put(s->heap, s);
}

int tw_stream_fd(const struct tw_stream *s)
{
	return s->socket.fd;
}

enum tw_flow tw_stream_shake(struct tw_stream *s)
{
	if (s->broken)
		return TW_FLOW_BROKEN;
	return s->socket.shaken ? TW_FLOW_OK : tls_shake(s);
}

enum tw_flow tw_stream_read(struct tw_stream *s, const struct iovec *to, int parts, size_t *got)
{
	*got = 0;
	if (s->broken)
		return TW_FLOW_BROKEN;
	if (s->ended)
		return TW_FLOW_END;
	if (!s->socket.shaken)
		return TW_FLOW_WAIT;
	if (bytes_of(to, parts) == 0)
		return TW_FLOW_OK;
	return s->ssl ? tls_read(s, to, parts, got) : plain_read(s, to, parts, got);
}

enum tw_flow tw_stream_write(struct tw_stream *s, const struct iovec *from, int parts, size_t *put)
{
	*put = 0;
	if (s->broken || s->deaf)
		return TW_FLOW_BROKEN;
	if (!s->socket.shaken)
		return TW_FLOW_WAIT;
	if (bytes_of(from, parts) == 0)
		return TW_FLOW_OK;
	return s->ssl ? tls_write(s, from, parts, put) : plain_write(s, from, parts, put);
}

bool tw_stream_pending(const struct tw_stream *s)
{
	return s->ssl && s->socket.shaken && !s->broken && !s->ended && !s->starved &&
	       SSL_has_pending(s->ssl) == 1;
}

unsigned tw_stream_wants(const struct tw_stream *s)
{
	return s->wants;
}

const char *tw_stream_why(const struct tw_stream *s)
{
	return s->why;
}

bool tw_stream_left(const struct tw_stream *s)
{
	return s->socket.error || s->socket.eof;
}
