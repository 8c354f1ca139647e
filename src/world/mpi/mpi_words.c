/* SPDX-License-Identifier: Apache-2.0 */
/* mpi_words.c - what the loops of other ranks say to this one. */
#include "world/mpi/mpi_inner.h"

#include <string.h>
#include <unistd.h>

static void give(struct tw_mpi *m, uint32_t rank, const struct tw_body_data *asked)
{
	struct tw_block *b =
		asked->bytes < PIECE * 64u ? tw_block_new(m->heap, (size_t)asked->bytes) : NULL;
	enum tw_status st = b ? TW_OK : TW_NO_MEMORY;

	pthread_mutex_lock(&m->lock);
	if (b)
		st = m->part.read ? m->part.read(m->part.read_arg, asked->from, b->data,
						 (size_t)asked->bytes)
				  : TW_ABSENT;
	pthread_mutex_unlock(&m->lock);
	if (st != TW_OK) {
		tw_block_drop(b);
		b = NULL;
	}
	if (!tw_mpi_say(m, rank, WORD_GIVE, st, 0, b))
		tw_mpi_give_up(m, "no memory for data that rank %u asked for", rank);
}

static void sentence_of(struct tw_mpi *m, uint32_t rank, const struct tw_msg *msg,
			struct tw_error *out)
{
	tw_fail(out, msg->b.data.pad ? (enum tw_status)msg->b.data.pad : TW_IO,
		"rank %u on %s: %.*s", rank, m->at[rank].host, (int)msg->h.payload,
		msg->payload ? (const char *)tw_msg_payload(msg) : "");
}

/* A rank cannot go on: the part ends here, and so everywhere. */
static void failed(struct tw_mpi *m, uint32_t rank, const struct tw_msg *msg)
{
	struct tw_error why = { .status = TW_OK };

	sentence_of(m, rank, msg, &why);
	pthread_mutex_lock(&m->lock);
	if (m->sides.failed.status == TW_OK)
		m->sides.failed = why;
	pthread_cond_broadcast(&m->sides.program);
	pthread_mutex_unlock(&m->lock);
	pthread_mutex_lock(&m->port_lock);
	if (m->port)
		tw_port_end(m->port, why.status, why.text);
	pthread_mutex_unlock(&m->port_lock);
}

static void ready(struct tw_mpi *m, uint32_t rank, const struct tw_msg *msg)
{
	if (msg->b.data.pad != TW_OK) {
		failed(m, rank, msg);
		return;
	}
	pthread_mutex_lock(&m->lock);
	if (!m->at[rank].ready) {
		m->at[rank].ready = true;
		m->sides.unready--;
	}
	pthread_cond_broadcast(&m->sides.program);
	pthread_mutex_unlock(&m->lock);
}

static void ordered(struct tw_mpi *m, const struct tw_msg *msg)
{
	struct tw_block *order = tw_block_new(m->heap, msg->h.payload - sizeof m->beat);

	if (!order)
		tw_mpi_give_up(m, "no memory for the job");
	memcpy(&m->beat, tw_msg_payload(msg), sizeof m->beat);
	memcpy(order->data, tw_msg_payload(msg) + sizeof m->beat, order->bytes);
	pthread_mutex_lock(&m->lock);
	tw_block_drop(m->sides.order);
	m->sides.order = order;
	m->sides.number = (uint32_t)msg->b.data.from;
	pthread_cond_broadcast(&m->sides.program);
	pthread_mutex_unlock(&m->lock);
}

static void answered(struct tw_mpi *m, const struct tw_msg *msg)
{
	pthread_mutex_lock(&m->lock);
	tw_block_drop(m->sides.given);
	m->sides.given = tw_block_keep(msg->payload);
	m->sides.answer = (enum tw_status)msg->b.data.pad;
	m->sides.answered = true;
	pthread_cond_broadcast(&m->sides.program);
	pthread_mutex_unlock(&m->lock);
}

static void heard_here(struct tw_mpi *m, uint32_t rank, uint64_t call)
{
	struct rank *r = &m->at[rank];

	if (call != m->stopping.call || r->here || !m->stopping.missing)
		return;
	r->here = true;
	if (--m->stopping.missing == 0)
		atomic_store(&m->stopping.passed, m->stopping.called);
}

void tw_mpi_hear(struct tw_mpi *m, uint32_t rank, const struct tw_msg *msg)
{
	const struct tw_body_data *b = &msg->b.data;

	switch ((enum word)b->what) {
	case WORD_BEAT:
		break;
	case WORD_CALL:
		tw_mpi_say(m, rank, WORD_HERE, TW_OK, b->from, NULL);
		break;
	case WORD_HERE:
		heard_here(m, rank, b->from);
		break;
	case WORD_STOP:
		m->at[rank].signals = (int)b->from;
		break;
	case WORD_ORDER:
		ordered(m, msg);
		break;
	case WORD_READY:
		ready(m, rank, msg);
		break;
	case WORD_ASK:
		give(m, rank, b);
		break;
	case WORD_GIVE:
		answered(m, msg);
		break;
	case WORD_OVER:
		atomic_store(&m->part.over, (uint32_t)b->from);
		break;
	case WORD_FAIL:
		failed(m, rank, msg);
		break;
	case WORD_END:
		pthread_mutex_lock(&m->lock);
		m->sides.ended = true;
		pthread_cond_broadcast(&m->sides.program);
		pthread_mutex_unlock(&m->lock);
		break;
	case WORD_SUM:
		tw_mpi_sum_asked(m, b->pad, (uint32_t)b->bytes, b->from);
		break;
	case WORD_GO:
		tw_mpi_sum_go(m, b->pad, (uint32_t)b->bytes, b->from);
		break;
	case WORD_QUIT:
		_exit(1);
	}
}
