/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_fetch_job.c - a joiner that knows nothing yet asks the master for the job and its data set.
 *
 * One connection, one question at a time; it waits for the answer, because there is nothing else
 * that this process could do.
 *
 *  (1) a question is asked again, over a new connection, until it is answered or has been open for
 *      the user's patience.
 *  (2) all answers are of one run, job and data set: if the master that comes back has others, the
 *      questions asked before it count for nothing (TW_CANCELLED). */
#include "world/tcp/tcp_inner.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>

#define ANSWER_TIME (20 * TW_SECOND)
#define PIECE       TW_CHUNK /* what one DATA gives at most */

struct tw_tcp_ask {
	const struct tw_tcp_options *o;
	struct tw_heap *heap;
	struct tw_stream *stream;
	struct tw_writer *writer;
	struct tw_reader *reader;
	struct tw_reader_owner owner;
	struct tw_msg_pool messages;
	struct tw_msg *answer;
	struct tw_tcp_facts facts; /* once greeted */
	char where[TW_ADDRESS_TEXT];
	int64_t began; /* since when the present question is open */
	unsigned attempt;
	bool greeted; /* by a master, now or before */
	bool over;    /* the run is: it asks for the model */
};

static struct tw_msg *new_msg(void *arg)
{
	struct tw_tcp_ask *a = arg;

	return tw_msg_pool_take(&a->messages);
}

static void free_msg(void *arg, struct tw_msg *m)
{
	struct tw_tcp_ask *a = arg;

	tw_msg_pool_give(&a->messages, m);
}

static bool admit(void *arg, const struct tw_header *h, const char **why)
{
	(void)arg;
	*why = "it answers a question that was not asked";
	return h->type == TW_TERMS || h->type == TW_DENY || h->type == TW_DATA ||
	       h->type == TW_PING;
}

static struct tw_block *block(void *arg, const struct tw_header *h)
{
	struct tw_tcp_ask *a = arg;

	return tw_block_new(a->heap, h->payload);
}

static bool message(void *arg, struct tw_msg *m)
{
	struct tw_tcp_ask *a = arg;

	if (m->h.type == TW_PING || a->answer)
		free_msg(a, m);
	else
		a->answer = m;
	return !a->answer;
}

static bool interrupted(const struct tw_tcp_ask *a)
{
	return a->o->interrupted && *a->o->interrupted;
}

/* Until when to wait for what begins now. */
static int64_t deadline(const struct tw_tcp_ask *a)
{
	const int64_t answer = tw_clock() + ANSWER_TIME, last = a->began + a->o->patience;

	return a->o->patience && last < answer ? last : answer;
}

/* Wait until the socket may be used; false: time is up or the user is. */
static bool wait_for(const struct tw_tcp_ask *a, short events, int64_t until)
{
	struct pollfd f = { .fd = tw_stream_fd(a->stream), .events = events };

	while (!interrupted(a) && tw_clock() < until)
		if (poll(&f, 1, 50) > 0)
			return true;
	return false;
}

static const char *broken(const struct tw_tcp_ask *a)
{
	const char *why = a->reader ? tw_reader_why(a->reader) : "";

	if (*why)
		return why;
	why = tw_stream_why(a->stream);
	if (*why)
		return why;
	return a->o->tls || a->facts.run ? "it closed the connection"
					 : "it closed the connection; does it need a key (--key)?";
}

/* Send m (taken) and wait for the answer, which is the caller's. */
static enum tw_status exchange(struct tw_tcp_ask *a, struct tw_msg *m, struct tw_msg **answer,
			       struct tw_error *why)
{
	const int64_t began = tw_clock(), until = deadline(a);

	tw_writer_add(a->writer, m);
	for (;;) {
		size_t moved;
		enum tw_flow w = TW_FLOW_OK, r;

		if (tw_writer_busy(a->writer))
			w = tw_writer_run(a->writer, a->stream, PIECE, free_msg, a, &moved);
		r = tw_reader_run(a->reader, a->stream, PIECE, &moved);
		if (a->answer)
			break;
		if (w > TW_FLOW_WAIT || r > TW_FLOW_WAIT)
			return tw_fail(why, TW_IO, "%s: %s", a->where, broken(a));
		if (r == TW_FLOW_WAIT &&
		    !wait_for(a, (short)(POLLIN | (tw_writer_busy(a->writer) ? POLLOUT : 0)),
			      until))
			return tw_fail(why, interrupted(a) ? TW_INTERRUPTED : TW_IO,
				       interrupted(a) ? "interrupted"
						      : "%s gave no answer in %.1f s",
				       a->where, (double)(tw_clock() - began) / (double)TW_SECOND);
	}
	*answer = a->answer;
	a->answer = NULL;
	if ((*answer)->h.type == TW_DENY) {
		const uint32_t n = (*answer)->h.payload;
		/* who is to wait may ask again */
		const enum tw_status st = (*answer)->b.deny.wait ? TW_IO : TW_REFUSED;

		tw_fail(why, st, "the master at %s refused: %.*s", a->where,
			(int)(n < 400 ? n : 400), n ? (const char *)tw_msg_payload(*answer) : "");
		free_msg(a, *answer);
		return st;
	}
	return TW_OK;
}

static struct tw_msg *question(struct tw_tcp_ask *a, enum tw_type type)
{
	struct tw_msg *m = new_msg(a);

	if (m) {
		m->h.magic = TW_WIRE_MAGIC;
		m->h.major = TW_WIRE_MAJOR;
		m->h.minor = TW_WIRE_MINOR;
		m->h.type = (uint16_t)type;
	}
	return m;
}

static enum tw_status connect_to(struct tw_tcp_ask *a, struct tw_error *why)
{
	const int64_t until = deadline(a);
	int fd, error = 0;
	socklen_t len = sizeof error;
	enum tw_status status = tw_address_dial(a->o->master, a->attempt++, &fd, why);

	if (status != TW_OK)
		return status;
	a->stream = a->o->tls ? tw_stream_tls(a->heap, fd, a->o->tls, true, a->where)
			      : tw_stream_plain(a->heap, fd);
	if (!a->stream)
		return tw_fail(why, TW_NO_MEMORY, "no memory for a connection");
	if (!wait_for(a, POLLOUT, until))
		return tw_fail(why, TW_IO, "%s: no answer", a->where);
	getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len);
	if (error)
		return tw_fail(why, TW_IO, "%s: %s", a->where, strerror(error));
	for (;;) {
		const enum tw_flow flow = tw_stream_shake(a->stream);

		if (flow == TW_FLOW_OK)
			return TW_OK;
		if (flow != TW_FLOW_WAIT) /* another key will not become ours by waiting */
			return tw_fail(why, tw_stream_left(a->stream) ? TW_IO : TW_REFUSED,
				       "%s: %s", a->where, broken(a));
		if (!wait_for(a, tw_stream_wants(a->stream) & EPOLLOUT ? POLLOUT : POLLIN, until))
			return tw_fail(why, TW_IO, "%s does not answer the TLS handshake",
				       a->where);
	}
}

static bool same_facts(const struct tw_tcp_facts *a, const struct tw_tcp_facts *b)
{
	return a->run == b->run && a->data_bytes == b->data_bytes && a->servers == b->servers &&
	       tw_sha_same(&a->job, &b->job) && tw_sha_same(&a->layout, &b->layout) &&
	       tw_sha_same(&a->data, &b->data);
}

static enum tw_status take_terms(struct tw_tcp_ask *a, const struct tw_body_terms *b,
				 struct tw_error *why)
{
	const struct tw_tcp_facts facts = { .run = b->run,
					    .job = b->job,
					    .layout = b->layout,
					    .data = b->data,
					    .data_bytes = b->data_bytes,
					    .servers = b->servers };

	if (a->greeted && !same_facts(&a->facts, &facts)) /* (2) */
		return tw_fail(why, TW_CANCELLED, "%s now has another run, job or data set",
			       a->where);
	a->facts = facts;
	a->greeted = true;
	return TW_OK;
}

static enum tw_status greet(struct tw_tcp_ask *a, struct tw_error *why)
{
	struct tw_msg *m = question(a, TW_GREET), *answer = NULL;
	enum tw_status status;

	if (!m)
		return tw_fail(why, TW_NO_MEMORY, "no memory for a request");
	m->b.greet = (struct tw_body_greet){
		.role = a->o->role == TW_TCP_WORKER ? TW_WORKER : TW_SERVER,
		.flags = TW_GREET_ASK | (a->over ? TW_GREET_MODEL : 0),
		.node = TW_NODE_NEW,
		.minor = TW_WIRE_MINOR,
	};
	status = exchange(a, m, &answer, why);
	/* a TLS server judges our certificate after our side of the handshake is done */
	if (status == TW_IO && a->o->tls && *tw_stream_why(a->stream) && !tw_stream_left(a->stream))
		return TW_REFUSED;
	if (status != TW_OK)
		return status;
	if (answer->h.type != TW_TERMS)
		status = tw_fail(why, TW_BAD_BYTES, "%s answers with %s", a->where,
				 tw_type_name(answer->h.type));
	else
		status = take_terms(a, &answer->b.terms, why);
	free_msg(a, answer);
	return status;
}

static void let_go(struct tw_tcp_ask *a)
{
	if (a->reader)
		tw_reader_free(a->reader);
	if (a->writer)
		tw_writer_free(a->writer, free_msg, a);
	if (a->answer)
		free_msg(a, a->answer);
	tw_stream_close(a->stream);
	a->reader = NULL;
	a->writer = NULL;
	a->answer = NULL;
	a->stream = NULL;
}

static enum tw_status open_connection(struct tw_tcp_ask *a, struct tw_error *why)
{
	enum tw_status status;

	a->writer = tw_writer_new(a->heap);
	a->owner = (struct tw_reader_owner){ .arg = a,
					     .msg_new = new_msg,
					     .msg_free = free_msg,
					     .admit = admit,
					     .block = block,
					     .message = message };
	a->reader = tw_reader_new(a->heap, &a->owner);
	if (!a->writer || !a->reader)
		return tw_fail(why, TW_NO_MEMORY, "no memory for a connection");
	if (a->o->tls) {
		tw_writer_trust(a->writer);
		tw_reader_trust(a->reader);
	}
	status = connect_to(a, why);
	return status == TW_OK ? greet(a, why) : status;
}

/* Connect if need be, and ask for `what`, unless it is NULL. */
static enum tw_status ask_once(struct tw_tcp_ask *a, const struct tw_body_data *what,
			       struct tw_msg **answer, struct tw_error *why)
{
	const enum tw_status status = a->stream ? TW_OK : open_connection(a, why);
	struct tw_msg *m;

	if (status != TW_OK || !what)
		return status;
	m = question(a, TW_DATA);
	if (!m)
		return tw_fail(why, TW_NO_MEMORY, "no memory for a request");
	m->b.data = *what;
	return exchange(a, m, answer, why);
}

static bool patience_is_over(const struct tw_tcp_ask *a)
{
	return a->o->patience && tw_clock() - a->began >= a->o->patience;
}

struct backoff {
	int64_t pause, said;
};

static void say_waiting(const struct tw_tcp_ask *a, const char *cause, struct backoff *b)
{
	const int64_t now = tw_clock();

	if (b->said && now - b->said <= 5 * TW_SECOND)
		return;
	b->said = now;
	tw_log_line(a->o->log, TW_WARNING, "join", "%s (%.0f s): %s; trying again",
		    a->greeted ? "waiting for the master to send the job and its data"
			       : "no master yet",
		    (double)(now - a->began) / (double)TW_SECOND, cause);
}

/* Wait before the next attempt.  False: there is no time for another. */
static bool wait_a_while(const struct tw_tcp_ask *a, const char *cause, struct backoff *b)
{
	const int64_t left = a->began + a->o->patience - tw_clock();
	const int64_t wait = a->o->patience && left < b->pause ? left : b->pause;

	if (patience_is_over(a))
		return false;
	say_waiting(a, cause, b);
	if (wait > 0)
		nanosleep(&(struct timespec){ .tv_nsec = wait < TW_SECOND ? wait : TW_SECOND - 1 },
			  NULL);
	b->pause = b->pause * 2 < TW_SECOND ? b->pause * 2 : TW_SECOND;
	return !patience_is_over(a);
}

/* (1) */
static enum tw_status keep_asking(struct tw_tcp_ask *a, const struct tw_body_data *what,
				  struct tw_msg **answer, struct tw_error *why)
{
	const bool once = a->over && what; /* no other master will have this model */
	struct backoff b = { .pause = BACKOFF_FIRST };

	a->began = tw_clock();
	for (;;) {
		struct tw_error now = { 0 };
		const enum tw_status status = ask_once(a, what, answer, &now);

		if (status == TW_OK)
			return TW_OK;
		if (status == TW_IO)
			let_go(a);
		if (interrupted(a))
			return tw_fail(
				why, TW_INTERRUPTED, "%s%s",
				now.status == TW_INTERRUPTED ? "" : "interrupted: ", now.text);
		if (status != TW_IO || once || !wait_a_while(a, now.text, &b))
			return tw_fail(why, status, "%s", now.text);
	}
}

static enum tw_status ask(const struct tw_tcp_options *o, bool over, struct tw_tcp_ask **out,
			  struct tw_tcp_facts *facts, struct tw_error *why)
{
	struct tw_tcp_ask *a = tw_heap_zeros(o->heap, sizeof *a);
	enum tw_status status;

	*out = NULL;
	if (!a)
		return tw_fail(why, TW_NO_MEMORY, "no memory for a connection");
	a->o = o;
	a->heap = o->heap;
	a->over = over;
	tw_msg_pool_init(&a->messages, o->heap, sizeof(struct tw_msg), 0, 2);
	tw_address_text(o->master, a->where);
	status = keep_asking(a, NULL, NULL, why);
	if (status != TW_OK) {
		tw_tcp_ask_close(a);
		return status;
	}
	*facts = a->facts;
	*out = a;
	return TW_OK;
}

enum tw_status tw_tcp_ask_open(const struct tw_tcp_options *o, struct tw_tcp_ask **out,
			       struct tw_tcp_facts *facts, struct tw_error *why)
{
	return ask(o, false, out, facts, why);
}

static enum tw_status fetch(struct tw_tcp_ask *a, enum tw_data_what what, uint64_t from, void *to,
			    size_t bytes, struct tw_error *why)
{
	uint8_t *at = to;

	while (bytes) {
		const size_t n = bytes < PIECE ? bytes : PIECE;
		const struct tw_body_data piece = { .what = what, .from = from, .bytes = n };
		struct tw_msg *answer = NULL;
		const enum tw_status status = keep_asking(a, &piece, &answer, why);

		if (status != TW_OK)
			return status;
		if (answer->h.type != TW_DATA || answer->h.payload != n ||
		    answer->b.data.from != from || answer->b.data.what != what) {
			free_msg(a, answer);
			return tw_fail(why, TW_BAD_BYTES,
				       "%s sent other bytes than those requested", a->where);
		}
		memcpy(at, tw_msg_payload(answer), n);
		free_msg(a, answer);
		at += n;
		from += n;
		bytes -= n;
	}
	return TW_OK;
}

enum tw_status tw_tcp_ask_job(struct tw_tcp_ask *a, char **text, size_t *bytes,
			      struct tw_error *why)
{
	/* its length is the first thing that is asked for: zero bytes of it say so */
	const struct tw_body_data length = { .what = TW_DATA_JOB };
	struct tw_msg *answer = NULL;
	enum tw_status status;
	size_t n;

	*text = NULL;
	status = keep_asking(a, &length, &answer, why);
	if (status != TW_OK)
		return status;
	n = answer->h.type == TW_DATA ? answer->b.data.bytes : 0;
	free_msg(a, answer);
	if (n == 0 || n > (1u << 20))
		return tw_fail(why, TW_BAD_BYTES, "%s sent no job", a->where);
	*text = a->heap->get(a->heap, n + 1);
	if (!*text)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the job");
	status = fetch(a, TW_DATA_JOB, 0, *text, n, why);
	if (status != TW_OK) {
		a->heap->put(a->heap, *text);
		*text = NULL;
		return status;
	}
	(*text)[n] = 0;
	*bytes = n;
	return TW_OK;
}

enum tw_status tw_tcp_ask_data(void *arg, uint64_t from, void *to, size_t bytes,
			       struct tw_error *why)
{
	return fetch(arg, TW_DATA_SET, from, to, bytes, why);
}

enum tw_status tw_tcp_ask_model(const struct tw_tcp_options *o, uint64_t bytes,
				const struct tw_sha *hash, struct tw_block **out,
				struct tw_error *why)
{
	struct tw_block *b = tw_block_new(o->heap, bytes);
	struct tw_tcp_ask *a = NULL;
	struct tw_tcp_facts facts;
	struct tw_sha found;
	enum tw_status status;

	if (!b)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the %llu bytes of the model",
			       (unsigned long long)bytes);
	status = ask(o, true, &a, &facts, why);
	if (status == TW_OK)
		status = fetch(a, TW_DATA_MODEL, 0, b->data, bytes, why);
	if (status == TW_OK && tw_sha_of(b->data, bytes, &found) != TW_OK)
		status = tw_fail(why, TW_NO_MEMORY, "no memory for the model's hash");
	if (status == TW_OK && !tw_sha_same(&found, hash))
		status = tw_fail(why, TW_BAD_BYTES,
				 "the model that was received is not the one that the master "
				 "announced: its hash differs");
	tw_tcp_ask_close(a);
	if (status == TW_OK)
		*out = b;
	else
		tw_block_drop(b);
	return status;
}

void tw_tcp_ask_close(struct tw_tcp_ask *a)
{
	if (!a)
		return;
	let_go(a);
	tw_msg_pool_release(&a->messages);
	a->heap->put(a->heap, a);
}
