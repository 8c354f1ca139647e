/* SPDX-License-Identifier: Apache-2.0 */
/* mpi_link.c - messages between ranks: outboxes, heads and pieces; invariants: mpi_inner.h. */
#include "world/mpi_inner.h"

#include <string.h>

#define SUM_SPIN (5 * MS) /* a sum that was asked for is about to begin */
#define SPARES   256      /* messages kept for the next ones */

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

/* --- sending ---------------------------------------------------------------------------------- */

static void trouble(struct tw_mpi *m, uint32_t rank, const char *why)
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

static void departed(struct tw_mpi *m, struct departure *d)
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
		trouble(m, d->rank, why);
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

static void sent(struct tw_mpi *m, struct departure *d)
{
	struct rank *r = &m->at[d->rank];

	d->left--;
	r->flying--;
	if (d->staged && !d->left)
		departed(m, d);
	stage(m, r);
}

/* --- receiving -------------------------------------------------------------------------------- */

static void post_slot(struct tw_mpi *m, struct ring_slot *s)
{
	char why[TW_MPI_WHY];

	s->arrived = false;
	if (!m->plugin->irecv(s->buffer, HEAD_ROOM, TW_MPI_ANY, TAG_HEAD, s, why))
		tw_mpi_give_up(m, "nothing can be received any more: %s", why);
}

enum tw_status tw_mpi_link_open(struct tw_mpi *m, struct tw_error *why)
{
	m->ring = tw_heap_zeros(m->heap, RING * sizeof *m->ring);
	if (!m->ring)
		return tw_fail(why, TW_NO_MEMORY, "no memory for messages of other ranks");
	m->blocks.heap = m->heap;
	tw_msg_pool_init(&m->messages, m->heap, tw_port_msg_bytes(), 0, SPARES);
	for (size_t k = 0; k < RING; k++) {
		m->ring[k].kind = FLIGHT_HEAD;
		post_slot(m, &m->ring[k]);
	}
	return TW_OK;
}

void tw_mpi_link_close(struct tw_mpi *m)
{
	m->heap->put(m->heap, m->ring);
	while (m->spare) {
		struct departure *d = m->spare;

		m->spare = d->next;
		m->heap->put(m->heap, d);
	}
	tw_payload_blocks_release(&m->blocks);
	tw_msg_pool_release(&m->messages);
}

/* Who says that it is somebody else, or says what it may not, is not one of ours. */
static void check_head(struct tw_mpi *m, uint32_t rank, const struct head *h, size_t bytes)
{
	const uint64_t rest = h->h.tail + (uint64_t)h->h.payload;
	struct tw_error why = { .status = TW_OK };
	struct tw_header plain = h->h;

	plain.major = TW_WIRE_MAJOR; /* words have none */
	if (tw_type_is_worlds(plain.type))
		plain.length = 0;
	else
		tw_header_check(&plain, &why);
	if (why.status == TW_OK &&
	    bytes != sizeof *h + tw_body_bytes(plain.type) + (h->whole ? rest : 0))
		tw_fail(&why, TW_BAD_BYTES, "%zu bytes where %s has others", bytes,
			tw_type_name(plain.type));
	if (why.status != TW_OK)
		tw_mpi_give_up(m,
			       "rank %u on %s sends nonsense: %s; do all ranks run the same "
			       "version of thalweg?",
			       rank, m->at[rank].host, why.text);
}

static struct tw_msg *make_room(struct tw_mpi *m, const struct tw_header *h)
{
	struct tw_msg *msg = tw_msg_pool_take(&m->messages);

	if (msg && h->tail)
		msg->tail = tw_block_new(m->heap, h->tail);
	if (msg && h->payload)
		msg->payload = tw_payload_block(&m->blocks, h->payload);
	if (!msg || (h->tail && !msg->tail) || (h->payload && !msg->payload))
		tw_mpi_give_up(m, "no memory for %s of %llu bytes", tw_type_name(h->type),
			       (unsigned long long)h->tail + h->payload);
	return msg;
}

static void post_pieces(struct tw_mpi *m, struct arrival *a, uint8_t *to, size_t bytes)
{
	char why[TW_MPI_WHY];

	for (size_t at = 0; at < bytes; at += PIECE) {
		const size_t n = bytes - at < PIECE ? bytes - at : PIECE;

		a->left++;
		if (!m->plugin->irecv(to + at, n, a->rank, TAG_PIECE, a, why))
			trouble(m, a->rank, why);
	}
}

/* (4): what becomes of the oldest message of actors that this rank has sent. */
enum fate { FATE_DELIVER, FATE_DROP, FATE_WAIT };
static enum fate fate_of(const struct tw_mpi *m, const struct arrival *a)
{
	if (a->left)
		return FATE_WAIT;
	if (a->part < m->part.number || a->part <= atomic_load(&m->part.over))
		return FATE_DROP;
	return a->part == m->part.number && m->port ? FATE_DELIVER : FATE_WAIT;
}

static bool deliver_of(struct tw_mpi *m, struct rank *r)
{
	bool any = false;

	for (struct arrival *a; (a = r->first) != NULL;) {
		const enum fate fate = fate_of(m, a);

		if (fate == FATE_WAIT)
			break;
		any = true;
		r->first = a->next;
		if (!r->first)
			r->end = &r->first;
		m->held--;
		if (fate == FATE_DROP || !tw_port_deliver(m->port, a->m))
			tw_msg_pool_give(&m->messages, a->m);
		m->heap->put(m->heap, a);
	}
	return any;
}

/* With the port held (5), so that what is delivered is also worked on. */
static void deliver(struct tw_mpi *m, struct rank *r, struct rank *end)
{
	bool any = false;

	pthread_mutex_lock(&m->port_lock);
	for (; r < end; r++)
		if (r->first)
			any = deliver_of(m, r) || any;
	if (any && m->port)
		tw_port_work(m->port);
	pthread_mutex_unlock(&m->port_lock);
}

void tw_mpi_deliver(struct tw_mpi *m)
{
	if (m->held)
		deliver(m, m->at, m->at + m->size);
}

/* All of it is here. */
static void complete(struct tw_mpi *m, struct arrival *a)
{
	if (!tw_type_is_worlds(a->m->h.type)) {
		deliver(m, &m->at[a->rank], &m->at[a->rank] + 1);
		return;
	}
	tw_mpi_hear(m, a->rank, a->m);
	tw_msg_pool_give(&m->messages, a->m);
	m->heap->put(m->heap, a);
}

static void look_at(struct tw_mpi *m, const struct ring_slot *s)
{
	struct arrival *a = tw_heap_zeros(m->heap, sizeof *a);
	struct rank *r = &m->at[s->source];
	const uint8_t *at = s->buffer;
	struct head head;
	struct tw_msg *msg;

	if (!a)
		tw_mpi_give_up(m, "no memory for a message of another rank");
	if (s->bytes < sizeof head)
		tw_mpi_give_up(m, "rank %u on %s sends %zu bytes that are no message", s->source,
			       r->host, s->bytes);
	memcpy(&head, at, sizeof head);
	at += sizeof head;
	check_head(m, s->source, &head, s->bytes);
	msg = make_room(m, &head.h);
	msg->h = head.h;
	msg->to = head.to;
	msg->from = head.from;
	memcpy(&msg->b, at, tw_body_bytes(head.h.type));
	at += tw_body_bytes(head.h.type);
	*a = (struct arrival){
		.kind = FLIGHT_PIECE, .m = msg, .rank = s->source, .part = head.part
	};
	if (!tw_type_is_worlds(head.h.type)) { /* (3) */
		*r->end = a;
		r->end = &a->next;
		m->held++;
	}
	r->heard = m->now;
	if (head.whole && head.h.tail)
		memcpy(msg->tail->data, at, head.h.tail);
	if (head.whole && head.h.payload)
		memcpy(msg->payload->data, at + head.h.tail, head.h.payload);
	if (!head.whole && head.h.tail)
		post_pieces(m, a, msg->tail->data, head.h.tail);
	if (!head.whole && head.h.payload)
		post_pieces(m, a, msg->payload->data, head.h.payload);
	m->receiving += a->left > 0;
	if (!a->left)
		complete(m, a);
}

static void piece_came(struct tw_mpi *m, struct arrival *a)
{
	m->at[a->rank].heard = m->now;
	if (--a->left)
		return;
	m->receiving--;
	complete(m, a);
}

/* --- what is over ----------------------------------------------------------------------------- */

static void over(struct tw_mpi *m, const struct tw_mpi_done *d)
{
	const enum flight kind = *(const enum flight *)d->cookie;
	struct ring_slot *s = d->cookie;

	if (d->failed && kind == FLIGHT_SEND)
		trouble(m, ((struct departure *)d->cookie)->rank, "MPI reports an error");
	if (d->failed && kind == FLIGHT_PIECE)
		trouble(m, ((struct arrival *)d->cookie)->rank, "MPI reports an error");
	if (d->failed)
		tw_mpi_give_up(m, "MPI reports an error in a message of another rank");
	switch (kind) {
	case FLIGHT_HEAD:
		s->arrived = true;
		s->source = d->source;
		s->bytes = d->bytes;
		break;
	case FLIGHT_PIECE:
		piece_came(m, d->cookie);
		break;
	case FLIGHT_SEND:
		sent(m, d->cookie);
		break;
	case FLIGHT_BARRIER:
		m->barrier.passing = false;
		break;
	case FLIGHT_SUM:
		tw_mpi_sum_over(m, d->cookie);
		break;
	}
	if (kind == FLIGHT_HEAD || kind == FLIGHT_PIECE)
		atomic_fetch_add_explicit(&m->received, d->bytes, memory_order_relaxed);
}

bool tw_mpi_progress(struct tw_mpi *m)
{
	const struct tw_mpi_done *done;
	const size_t count = m->plugin->testsome(&done);

	for (size_t k = 0; k < count; k++)
		over(m, &done[k]);
	while (m->ring[m->ring_first].arrived) { /* (2) */
		struct ring_slot *s = &m->ring[m->ring_first];

		look_at(m, s);
		post_slot(m, s);
		m->ring_first = (m->ring_first + 1) % RING;
	}
	return count > 0;
}

bool tw_mpi_active(const struct tw_mpi *m)
{
	return m->sending || m->receiving || m->sums.flying || m->barrier.passing ||
	       (m->sums.list && m->now - m->sums.since < SUM_SPIN);
}
