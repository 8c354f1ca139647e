/* SPDX-License-Identifier: Apache-2.0 */
/* raw_activations.c - the floor of a pipeline in two processes: its activations and their
 * gradients over a bare socket, and nothing else. */
#include "bench/baseline/raw_activations.h"

#include "base/heap.h"
#include "bench/harness/children.h"
#include "bench/baseline/raw_socket.h"
#include "metrics/progress.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PATIENCE 120.0

struct floor {
	struct tw_raw_activations q;
	int fd[2];         /* the second stage's end first */
	uint8_t *out, *in; /* of the micro-batches on their way, one after the other */
	double *seconds;   /* shared */
};

static enum tw_status broke(const char *where, ssize_t n, struct tw_error *why)
{
	return tw_fail(why, TW_IO, "the floor of activations broke %s: %s", where,
		       n == 0 ? "the other process has gone" : strerror(errno));
}

/* In each process; the memory ends with it. */
static enum tw_status begin(struct floor *f, int own, struct tw_error *why)
{
	close(f->fd[!own]);
	f->out = tw_heap_zeros(&tw_heap_system, f->q.window * f->q.bytes);
	f->in = tw_heap_zeros(&tw_heap_system, f->q.window * f->q.bytes);
	if (!f->out || !f->in)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the floor of activations");
	memset(f->out, 0x3a, f->q.window * f->q.bytes);
	return TW_OK;
}

/* It may wait in a write, for the first stage always reads. */
static enum tw_status second_once(const struct floor *f, unsigned k, struct tw_error *why)
{
	const size_t at = k % f->q.window * f->q.bytes;
	ssize_t n;

	for (size_t got = 0; got < f->q.bytes; got += (size_t)n)
		if ((n = recv(f->fd[0], f->in + at + got, f->q.bytes - got, 0)) <= 0)
			return broke("while the second stage read", n, why);
	for (size_t sent = 0; sent < f->q.bytes; sent += (size_t)n)
		if ((n = send(f->fd[0], f->out + at + sent, f->q.bytes - sent, MSG_NOSIGNAL)) <= 0)
			return broke("while the second stage wrote", n, why);
	return TW_OK;
}

static enum tw_status second(void *arg, size_t number, struct tw_error *why)
{
	struct floor *f = arg;
	enum tw_status status = begin(f, 0, why);

	for (unsigned k = 0; k < f->q.count && status == TW_OK; k++)
		status = second_once(f, k, why);
	return status;
}

/* What can be read of the micro-batch that comes: bytes, 0 where there is nothing yet. */
static enum tw_status take(const struct floor *f, size_t *got, ssize_t *n, struct tw_error *why)
{
	const size_t at = *got % (f->q.window * f->q.bytes);

	*n = recv(f->fd[1], f->in + at, f->q.bytes - at % f->q.bytes, 0);
	if (*n == 0 || (*n < 0 && errno != EAGAIN && errno != EINTR))
		return broke("while the first stage read", *n, why);
	*n = *n > 0 ? *n : 0;
	*got += (size_t)*n;
	return TW_OK;
}

/* What can be sent, of micro-batches up to `most` bytes altogether. */
static enum tw_status give(const struct floor *f, size_t *sent, size_t most, ssize_t *n,
			   struct tw_error *why)
{
	const size_t at = *sent % (f->q.window * f->q.bytes);
	const size_t left = f->q.bytes - at % f->q.bytes;

	*n = 0;
	if (*sent >= most)
		return TW_OK;
	*n = send(f->fd[1], f->out + at, left, MSG_NOSIGNAL);
	if (*n < 0 && errno != EAGAIN && errno != EINTR)
		return broke("while the first stage wrote", *n, why);
	*n = *n > 0 ? *n : 0;
	*sent += (size_t)*n;
	return TW_OK;
}

/* Whatever goes, both ways, until so much has come back; *sent goes on from call to call. */
static enum tw_status move_until(const struct floor *f, size_t until, size_t *sent, size_t *got,
				 struct tw_error *why)
{
	const size_t all = f->q.bytes * f->q.count;
	enum tw_status status = TW_OK;

	while (*got < until && status == TW_OK) {
		struct pollfd p = { .fd = f->fd[1], .events = POLLIN };
		size_t most = (*got / f->q.bytes + f->q.window) * f->q.bytes;
		ssize_t in, out = 0;

		most = most < all ? most : all;
		status = take(f, got, &in, why);
		if (status == TW_OK)
			status = give(f, sent, most, &out, why);
		if (*sent < most)
			p.events |= POLLOUT;
		if (status == TW_OK && !in && !out && poll(&p, 1, -1) < 0 && errno != EINTR)
			status = broke("while the first stage waited", -1, why);
	}
	return status;
}

static enum tw_status first(void *arg, size_t number, struct tw_error *why)
{
	struct floor *f = arg;
	const unsigned counted = f->q.count - f->q.warm;
	enum tw_status status = begin(f, 1, why);
	size_t sent = 0, got = 0;
	int64_t began;

	if (status == TW_OK && fcntl(f->fd[1], F_SETFL, O_NONBLOCK) < 0)
		status = broke("before it began", -1, why);
	if (status == TW_OK)
		status = move_until(f, f->q.warm * f->q.bytes, &sent, &got, why);
	began = tw_clock();
	if (status == TW_OK)
		status = move_until(f, f->q.count * f->q.bytes, &sent, &got, why);
	*f->seconds = (double)(tw_clock() - began) / counted / (double)TW_SECOND;
	return status;
}

static enum tw_status run(struct floor *f, struct tw_error *why)
{
	struct tw_children c = { .child = NULL };
	enum tw_status status = tw_raw_connect(TW_RAW_TCP, f->fd, why);

	if (status == TW_OK)
		status = tw_children_init(&c, 2, why);
	if (status == TW_OK)
		status = tw_children_add(&c, second, f, why);
	if (status == TW_OK)
		status = tw_children_add(&c, first, f, why);
	for (int k = 0; k < 2; k++)
		if (f->fd[k] >= 0)
			close(f->fd[k]);
	if (status == TW_OK)
		status = tw_children_wait(&c, PATIENCE, why);
	tw_children_release(&c);
	return status;
}

enum tw_status tw_raw_activations(const struct tw_raw_activations *q, double *out,
				  struct tw_error *why)
{
	struct floor f = { .q = *q, .fd = { -1, -1 } };
	enum tw_status status;

	if (!q->bytes || !q->window || q->warm >= q->count)
		return tw_fail(why, TW_BAD_INPUT, "the floor of activations has nothing to move");
	f.seconds = tw_shared_new(sizeof *f.seconds);
	if (!f.seconds)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the floor of activations");
	status = run(&f, why);
	*out = *f.seconds;
	tw_shared_free(f.seconds, sizeof *f.seconds);
	return status;
}
