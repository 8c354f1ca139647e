/* SPDX-License-Identifier: Apache-2.0 */
/* raw_socket.c - what a careful programmer would write in a page to send gradients to a process and
 * get parameters back: large reads and writes, both directions at the same time, no frames, no
 * hashes, nobody else. */
#include "bench/baseline/raw_socket.h"
#include "wire/address.h"

#include "bench/bench.h"
#include "bench/harness/children.h"
#include "metrics/progress.h"
#include "vec/vec.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TIMES_MOST 64
#define WARM       3 /* exchanges left out: buffers are touched for the first time */
#define PATIENCE   120.0
#define AHEAD      (64u << 10) /* bytes that OpenSSL reads at once: without, a few percent slower */

struct raw {
	enum tw_raw_kind kind;
	size_t n, block;
	unsigned times;
	int fd[2];       /* the server's, the worker's */
	double *seconds; /* shared */
	/* each side's own */
	SSL_CTX *context;
	SSL *ssl;
	float *w, *g;
};

/* --- bytes --- */

/* As read(), for whatever is on the socket; -1 with EAGAIN: not now. */
static ssize_t get(struct raw *r, int fd, void *to, size_t room)
{
	size_t n;
	int rc;

	if (!r->ssl)
		return read(fd, to, room);
	rc = SSL_read_ex(r->ssl, to, room, &n);
	if (rc == 1)
		return (ssize_t)n;
	rc = SSL_get_error(r->ssl, rc);
	errno = rc == SSL_ERROR_WANT_READ || rc == SSL_ERROR_WANT_WRITE ? EAGAIN : EPROTO;
	return -1;
}

static ssize_t put(struct raw *r, int fd, const void *from, size_t len)
{
	size_t n;
	int rc;

	if (!r->ssl)
		return send(fd, from, len, MSG_NOSIGNAL);
	rc = SSL_write_ex(r->ssl, from, len, &n);
	if (rc == 1)
		return (ssize_t)n;
	rc = SSL_get_error(r->ssl, rc);
	errno = rc == SSL_ERROR_WANT_READ || rc == SSL_ERROR_WANT_WRITE ? EAGAIN : EPROTO;
	return -1;
}

static enum tw_status broke(const char *what, ssize_t n, struct tw_error *why)
{
	return tw_fail(why, TW_IO, "the raw exchange broke %s: %s", what,
		       n == 0 ? "it was closed" : strerror(errno));
}

/* --- TLS --- */

static const unsigned char key[32] = "the floor keeps no secrets";

static unsigned client_key(SSL *ssl, const char *hint, char *identity, unsigned room,
			   unsigned char *out, unsigned most)
{
	memcpy(identity, "bench", 6);
	memcpy(out, key, sizeof key);
	return sizeof key;
}

static unsigned server_key(SSL *ssl, const char *identity, unsigned char *out, unsigned most)
{
	memcpy(out, key, sizeof key);
	return sizeof key;
}

/* The handshake, blocking. */
static enum tw_status secure(struct raw *r, int fd, bool dials, struct tw_error *why)
{
	r->context = SSL_CTX_new(TLS_method());
	if (!r->context || !SSL_CTX_set_min_proto_version(r->context, TLS1_3_VERSION) ||
	    !SSL_CTX_set_ciphersuites(r->context, "TLS_AES_128_GCM_SHA256"))
		return tw_fail(why, TW_IO, "OpenSSL has no TLS_AES_128_GCM_SHA256");
	SSL_CTX_set_psk_client_callback(r->context, client_key);
	SSL_CTX_set_psk_server_callback(r->context, server_key);
	SSL_CTX_set_mode(r->context,
			 SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
	SSL_CTX_set_num_tickets(r->context, 0);
	SSL_CTX_set_read_ahead(r->context, 1);
	SSL_CTX_set_default_read_buffer_len(r->context, AHEAD);
	r->ssl = SSL_new(r->context);
	if (!r->ssl || !SSL_set_fd(r->ssl, fd))
		return tw_fail(why, TW_NO_MEMORY, "no memory for the floor");
	if ((dials ? SSL_connect(r->ssl) : SSL_accept(r->ssl)) != 1)
		return tw_fail(why, TW_IO, "the floor's TLS handshake failed");
	return TW_OK;
}

static enum tw_status begin(struct raw *r, int fd, bool dials, struct tw_error *why)
{
	r->w = tw_heap_system.get(&tw_heap_system, r->n * sizeof(float));
	r->g = tw_heap_system.get(&tw_heap_system, r->n * sizeof(float));
	if (!r->w || !r->g)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the floor");
	tw_vec_fill(r->w, 0.5f, r->n);
	tw_vec_fill(r->g, 1e-3f, r->n);
	return r->kind == TW_RAW_TLS ? secure(r, fd, dials, why) : TW_OK;
}

/* --- the two processes --- */

/* Block by block: take gradients, pass over them, give parameters.  It may wait in a write, for the
 * worker always reads. */
static enum tw_status serve_once(struct raw *r, struct tw_error *why)
{
	for (size_t at = 0, len; at < r->n; at += len) {
		uint8_t *g = (uint8_t *)(r->g + at);
		const uint8_t *w = (const uint8_t *)(r->w + at);
		ssize_t n;

		len = r->n - at < r->block ? r->n - at : r->block;
		for (size_t got = 0; got < len * sizeof(float); got += (size_t)n)
			if ((n = get(r, r->fd[0], g + got, len * sizeof(float) - got)) <= 0)
				return broke("while the server read", n, why);
		tw_vec_sgd(r->w + at, r->w + at, r->g + at, 0.01f, len, false);
		for (size_t sent = 0; sent < len * sizeof(float); sent += (size_t)n)
			if ((n = put(r, r->fd[0], w + sent, len * sizeof(float) - sent)) <= 0)
				return broke("while the server wrote", n, why);
	}
	return TW_OK;
}

static enum tw_status serve(void *arg, size_t number, struct tw_error *why)
{
	struct raw *r = arg;
	enum tw_status status;

	close(r->fd[1]);
	status = begin(r, r->fd[0], false, why);
	for (unsigned k = 0; k < r->times + WARM && status == TW_OK; k++)
		status = serve_once(r, why);
	return status;
}

/* Whatever goes, both ways, until all has gone and come. */
static enum tw_status work_once(struct raw *r, struct tw_error *why)
{
	const size_t all = r->n * sizeof(float);
	size_t sent = 0, got = 0;

	while (got < all) {
		struct pollfd p = { .fd = r->fd[1], .events = POLLIN };
		ssize_t in = get(r, r->fd[1], (uint8_t *)r->w + got, all - got), out = -1;

		if (in == 0 || (in < 0 && errno != EAGAIN))
			return broke("while the worker read", in, why);
		got += in > 0 ? (size_t)in : 0;
		if (sent < all) {
			out = put(r, r->fd[1], (const uint8_t *)r->g + sent, all - sent);
			if (out < 0 && errno != EAGAIN)
				return broke("while the worker wrote", out, why);
			sent += out > 0 ? (size_t)out : 0;
		}
		if (in > 0 || out > 0)
			continue;
		if (sent < all)
			p.events |= POLLOUT;
		if (poll(&p, 1, -1) < 0 && errno != EINTR)
			return broke("while the worker waited", -1, why);
	}
	return TW_OK;
}

static enum tw_status work(void *arg, size_t number, struct tw_error *why)
{
	struct raw *r = arg;
	enum tw_status status;

	close(r->fd[0]);
	status = begin(r, r->fd[1], true, why);
	if (status == TW_OK && fcntl(r->fd[1], F_SETFL, O_NONBLOCK) < 0)
		status = tw_fail(why, TW_IO, "the floor's socket must block: %s", strerror(errno));
	for (unsigned k = 0; k < r->times + WARM && status == TW_OK; k++) {
		const int64_t began = tw_clock();

		status = work_once(r, why);
		if (k >= WARM)
			r->seconds[k - WARM] = (double)(tw_clock() - began) / (double)TW_SECOND;
	}
	return status;
}

/* --- sockets --- */

static bool connect_loopback(int fd[2])
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
	socklen_t len = sizeof a;
	bool good;

	fd[0] = -1;
	fd[1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	tw_address_unpace(listener); /* as ours */
	tw_address_unpace(fd[1]);
	good = listener >= 0 && fd[1] >= 0 && bind(listener, (struct sockaddr *)&a, len) == 0 &&
	       listen(listener, 1) == 0 &&
	       getsockname(listener, (struct sockaddr *)&a, &len) == 0 &&
	       connect(fd[1], (struct sockaddr *)&a, len) == 0 &&
	       (fd[0] = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0;
	for (int k = 0; good && k < 2; k++)
		setsockopt(fd[k], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	if (listener >= 0)
		close(listener);
	return good;
}

enum tw_status tw_raw_connect(enum tw_raw_kind kind, int fd[2], struct tw_error *why)
{
	const bool good = kind == TW_RAW_PAIR
				  ? socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) == 0
				  : connect_loopback(fd);

	return good ? TW_OK : tw_fail(why, TW_IO, "no sockets for the floor: %s", strerror(errno));
}

static enum tw_status run(struct raw *r, double *out, struct tw_error *why)
{
	struct tw_children c = { .child = NULL };
	enum tw_status status = tw_raw_connect(r->kind, r->fd, why);

	if (status == TW_OK)
		status = tw_children_init(&c, 2, why);
	if (status == TW_OK)
		status = tw_children_add(&c, serve, r, why);
	if (status == TW_OK)
		status = tw_children_add(&c, work, r, why);
	for (int k = 0; k < 2; k++)
		if (r->fd[k] >= 0)
			close(r->fd[k]);
	if (status == TW_OK)
		status = tw_children_wait(&c, PATIENCE, why);
	tw_children_release(&c);
	if (status == TW_OK)
		*out = tw_median(r->seconds, r->times);
	return status;
}

enum tw_status tw_raw_exchange(enum tw_raw_kind kind, size_t n, size_t block, unsigned times,
			       double *out, struct tw_error *why)
{
	struct raw r = { .kind = kind,
			 .n = n,
			 .block = block && block < n ? block : n,
			 .times = times < TIMES_MOST ? times : TIMES_MOST,
			 .fd = { -1, -1 } };
	enum tw_status status;

	r.seconds = tw_shared_new(TIMES_MOST * sizeof *r.seconds);
	if (!r.seconds)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the floor");
	status = run(&r, out, why);
	tw_shared_free(r.seconds, TIMES_MOST * sizeof *r.seconds);
	return status;
}
