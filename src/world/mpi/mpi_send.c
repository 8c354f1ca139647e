/* SPDX-License-Identifier: Apache-2.0 */
/* mpi_send.c - what this rank says: outboxes, heads and pieces, its last word; invariants:
 * mpi_inner.h. */
#include "world/mpi/mpi_inner.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LAST_WORD (200 * MS) /* for QUIT to get away */
#define ABORTING  5          /* seconds until a rank ends without MPI's help */

/* --- outboxes --------------------------------------------------------------------------------- */

void tw_mpi_post(struct tw_mpi *m, uint32_t rank, struct tw_msg *msg)
{
	struct rank *r = &m->at[rank];

	msg->next = NULL;
	pthread_mutex_lock(&m->lock);
	*r->out_end = msg;
	r->out_end = &msg->next;
	if (!r->listed) {
		r->listed = true;
		r->work = m->work;
		m->work = r;
	}
	pthread_mutex_unlock(&m->lock);
}

void tw_mpi_ring(struct tw_mpi *m)
{
	if (pthread_equal(pthread_self(), m->loop))
		return; /* it looks before it sleeps */
	pthread_mutex_lock(&m->lock);
	m->sides.rung = true;
	if (m->sides.asleep)
		pthread_cond_signal(&m->sides.bell);
	pthread_mutex_unlock(&m->lock);
}

bool tw_mpi_word(struct tw_mpi *m, uint32_t rank, const struct tw_body_data *word,
		 struct tw_block *payload)
{
	struct tw_msg *msg = tw_heap_zeros(m->heap, tw_port_msg_bytes());

	if (!msg) {
		tw_block_drop(payload);
		return false;
	}
	msg->h.magic = TW_WIRE_MAGIC;
	msg->h.type = TW_DATA;
	msg->b.data = *word;
	if (payload) {
		msg->payload = payload;
		msg->h.payload = (uint32_t)payload->bytes;
	}
	tw_mpi_post(m, rank, msg);
	tw_mpi_ring(m);
	return true;
}

bool tw_mpi_say(struct tw_mpi *m, uint32_t rank, enum word word, enum tw_status status,
		uint64_t number, struct tw_block *payload)
{
	return tw_mpi_word(m, rank,
			   &(struct tw_body_data){ .what = word, .pad = status, .from = number },
			   payload);
}

/* --- the last word ---------------------------------------------------------------------------- */

void tw_mpi_quit(struct tw_mpi *m, int code)
{
	const int64_t until = tw_clock() + LAST_WORD;
	const struct tw_mpi_done *done;

	tw_mpi_watchdog(ABORTING, code, NULL, NULL);
	for (uint32_t k = 0; k < m->size; k++)
		if (k != m->rank)
			tw_mpi_say(m, k, WORD_QUIT, TW_IO, 0, NULL);
	tw_mpi_collect(m);
	while (tw_clock() < until) {
		m->plugin->testsome(&done);
		sched_yield();
	}
	m->plugin->abort(code);
	_exit(code);
}

void tw_mpi_give_up(struct tw_mpi *m, const char *format, ...)
{
	char text[600];
	va_list list;

	va_start(list, format);
	vsnprintf(text, sizeof text, format, list);
	va_end(list);
	tw_log_line(m->o.log, TW_ERROR, m->who,
		    "%s; all ranks end; run the same command again to resume from the last "
		    "checkpoint",
		    text);
	tw_mpi_quit(m, 1);
}

/* --- sending ---------------------------------------------------------------------------------- */

void tw_mpi_trouble(struct tw_mpi *m, uint32_t rank, const char *why)
{
	tw_mpi_give_up(m, "rank %u on %s cannot be reached: %s", rank, m->at[rank].host, why);
}

static struct departure *new_departure(struct tw_mpi *m)
{
	struct departure *d = m->spare;

	if (d)
		m->spare = d->next;
	else
		d = m->heap->get(m->heap, sizeof *d);
	if (!d)
		tw_mpi_give_up(m, "no memory for a message to another rank");
	memset(d, 0, offsetof(struct departure, head));
	d->kind = FLIGHT_SEND;
	return d;
}

static void free_departure(struct tw_mpi *m, struct departure *d)
{
	m->sending--;
	tw_msg_pool_give(&m->messages, d->m);
	d->next = m->spare;
	m->spare = d;
}

/* Put `bytes` at the end of the head. */
static uint8_t *put(uint8_t *at, const void *bytes, size_t n)
{
	if (n)
		memcpy(at, bytes, n);
	return at + n;
}

static void fly(struct tw_mpi *m, struct departure *d, const void *bytes, size_t n, uint32_t tag)
{
	char why[TW_MPI_WHY];

	d->left++;
	m->at[d->rank].flying++;
	if (!m->plugin->isend(bytes, n, d->rank, tag, d, why))
		tw_mpi_trouble(m, d->rank, why);
	atomic_fetch_add_explicit(&m->sent, n, memory_order_relaxed);
}

static struct departure *send_head(struct tw_mpi *m, uint32_t rank, struct tw_msg *msg)
{
	struct departure *d = new_departure(m);
	const size_t body = tw_body_bytes(msg->h.type), rest = msg->h.tail + (size_t)msg->h.payload;
	struct head head = { .part = m->part.number, .to = msg->to, .from = msg->from };
	uint8_t *at = d->head;

	head.h = tw_msg_header(msg, 0);
	head.whole = sizeof head + body + rest <= HEAD_ROOM;
	at = put(at, &head, sizeof head);
	at = put(at, &msg->b, body);
	if (head.whole) {
		at = put(at, msg->tail ? msg->tail->data : NULL, msg->h.tail);
		at = put(at, msg->payload ? tw_msg_payload(msg) : NULL, msg->h.payload);
	}
	d->m = msg;
	d->rank = rank;
	d->rest = head.whole ? 0 : rest;
	m->sending++;
	fly(m, d, d->head, (size_t)(at - d->head), TAG_HEAD);
	return d;
}

/* The next piece: of the tail, then of the payload; never of both. */
static void send_piece(struct tw_mpi *m, struct departure *d)
{
	const struct tw_msg *msg = d->m;
	const bool tail = d->at < msg->h.tail;
	const size_t end = tail ? msg->h.tail : d->rest;
	const size_t n = end - d->at < PIECE ? end - d->at : PIECE;
	const uint8_t *from =
		tail ? msg->tail->data + d->at : tw_msg_payload(msg) + (d->at - msg->h.tail);

	d->at += n;
	fly(m, d, from, n, TAG_PIECE);
}

/* As much as may fly to this rank now. */
static void stage(struct tw_mpi *m, struct rank *r)
{
	while (r->flying < FLYING) {
		if (!r->leaving) {
			struct tw_msg *msg;

			pthread_mutex_lock(&m->lock);
			msg = r->out;
			if (msg)
				r->out = msg->next;
			if (!r->out)
				r->out_end = &r->out;
			pthread_mutex_unlock(&m->lock);
			if (!msg)
				return;
			r->leaving = send_head(m, (uint32_t)(r - m->at), msg);
			r->spoke = m->now;
		}
		while (r->leaving->at < r->leaving->rest && r->flying < FLYING)
			send_piece(m, r->leaving);
		if (r->leaving->at < r->leaving->rest)
			return;
		r->leaving->staged = true;
		r->leaving = NULL;
	}
}

/* A rank whose outbox has something; NULL: none has. */
static struct rank *next_work(struct tw_mpi *m)
{
	struct rank *r;

	pthread_mutex_lock(&m->lock);
	r = m->work;
	if (r) {
		m->work = r->work;
		r->listed = false;
	}
	pthread_mutex_unlock(&m->lock);
	return r;
}

bool tw_mpi_collect(struct tw_mpi *m)
{
	struct rank *r;
	bool any = false;

	while ((r = next_work(m)) != NULL) {
		stage(m, r);
		any = true;
	}
	return any;
}

void tw_mpi_departed(struct tw_mpi *m, struct departure *d)
{
	struct rank *r = &m->at[d->rank];

	d->left--;
	r->flying--;
	if (d->staged && !d->left)
		free_departure(m, d);
	stage(m, r);
}
