/* SPDX-License-Identifier: Apache-2.0 */
/* mpi_receive.c - what other ranks send: heads, their pieces, messages in order; and what MPI says
 * is over.  Invariants: mpi_inner.h. */
#include "world/mpi/mpi_inner.h"

#include <string.h>

#define SUM_SPIN (5 * MS) /* a sum that was asked for is about to begin */
#define SPARES   256      /* messages kept for the next ones */

/* --- receiving -------------------------------------------------------------------------------- */

static void post_slot(struct tw_mpi *m, struct ring_slot *s)
{
	char why[TW_MPI_WHY];

	s->arrived = false;
	if (!m->plugin->irecv(s->buffer, HEAD_ROOM, TW_MPI_ANY, TAG_HEAD, s, why))
		tw_mpi_give_up(m, "nothing can be received any more: %s", why);
}

enum tw_status tw_mpi_receive_open(struct tw_mpi *m, struct tw_error *why)
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

void tw_mpi_receive_close(struct tw_mpi *m)
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
			tw_mpi_trouble(m, a->rank, why);
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
		tw_mpi_trouble(m, ((struct departure *)d->cookie)->rank, "MPI reports an error");
	if (d->failed && kind == FLIGHT_PIECE)
		tw_mpi_trouble(m, ((struct arrival *)d->cookie)->rank, "MPI reports an error");
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
		tw_mpi_departed(m, d->cookie);
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
