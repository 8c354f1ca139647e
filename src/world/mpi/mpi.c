/* SPDX-License-Identifier: Apache-2.0 */
/* mpi.c - the world of MPI ranks: opening, the program's side, the gateway; invariants:
 * mpi_inner.h. */
#include "world/mpi/mpi_inner.h"

#include <stdio.h>
#include <string.h>

#define FINALIZING 10  /* seconds that MPI has to end */
#define STARTING   300 /* ... and to start: many ranks on slow file systems take minutes */

/* --- opening ---------------------------------------------------------------------------------- */

static enum tw_status check_size(const struct tw_mpi *m, struct tw_error *why)
{
	if (!m->o.ranks || m->o.ranks == m->size)
		return TW_OK;
	return tw_fail(why, TW_BAD_INPUT,
		       "the launcher started %u processes, and %s counts %u: they would be "
		       "separate runs; start them with the launcher of this MPI (thalweg doctor)",
		       m->o.ranks, m->plugin->name, m->size);
}

static enum tw_status meet(struct tw_mpi *m, struct tw_error *why)
{
	char said[TW_MPI_WHY] = "";
	char *hosts;
	bool met;

	if (!m->plugin->init(&m->rank, &m->size, said))
		return tw_fail(why, TW_IO, "%s did not start: %s", m->plugin->name, said);
	if (check_size(m, why) != TW_OK) {
		m->plugin->finalize();
		return TW_BAD_INPUT;
	}
	m->at = tw_heap_zeros(m->heap, m->size * sizeof *m->at);
	hosts = tw_heap_zeros(m->heap, (size_t)m->size * HOST_ROOM);
	met = m->at && hosts && m->plugin->hosts(hosts, HOST_ROOM, said);
	for (uint32_t k = 0; met && k < m->size; k++) {
		struct rank *r = &m->at[k];

		memcpy(r->host, hosts + (size_t)k * HOST_ROOM, HOST_ROOM - 1);
		r->heard = r->spoke = m->now;
		r->out_end = &r->out;
		r->end = &r->first;
	}
	m->heap->put(m->heap, hosts);
	if (!met)
		return tw_fail(why, TW_IO, "the ranks did not meet: %s",
			       *said ? said : "no memory");
	snprintf(m->who, sizeof m->who, "rank %u on %s", m->rank, m->at[m->rank].host);
	return TW_OK;
}

enum tw_status tw_mpi_open(const struct tw_mpi_options *o, struct tw_mpi **out,
			   struct tw_error *why)
{
	struct tw_mpi *m = tw_heap_zeros(o->heap, sizeof *m);
	pthread_condattr_t monotonic;
	enum tw_status status;

	if (!m)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the ranks");
	m->o = *o;
	m->plugin = o->plugin;
	m->heap = o->heap;
	m->loop = pthread_self();
	m->barrier.kind = FLIGHT_BARRIER;
	m->sums.fresh_end = &m->sums.fresh;
	m->beat = (struct tw_mpi_beat){ TW_SECOND, 5 * TW_SECOND, 15 * TW_SECOND };
	pthread_mutex_init(&m->lock, NULL);
	pthread_mutex_init(&m->port_lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&m->sides.bell, &monotonic);
	pthread_cond_init(&m->sides.program, &monotonic);
	pthread_condattr_destroy(&monotonic);
	m->now = m->turned = tw_clock();
	tw_mpi_watchdog(STARTING, 1, o->log,
			"MPI has not started for five minutes: is a rank stuck, or did one not "
			"start?");
	status = meet(m, why);
	tw_mpi_watchdog(0, 0, NULL, NULL);
	m->now = m->turned = tw_clock();
	for (uint32_t k = 0; status == TW_OK && k < m->size; k++)
		m->at[k].heard = m->at[k].spoke = m->now;
	if (status == TW_OK)
		status = tw_mpi_receive_open(m, why);
	if (status == TW_OK)
		*out = m;
	else
		m->heap->put(m->heap, m);
	return status;
}

uint32_t tw_mpi_rank(const struct tw_mpi *m)
{
	return m->rank;
}

uint32_t tw_mpi_size(const struct tw_mpi *m)
{
	return m->size;
}

uint32_t tw_mpi_neighbours(const struct tw_mpi *m)
{
	uint32_t count = 0;

	for (uint32_t k = 0; k < m->size; k++)
		count += strcmp(m->at[k].host, m->at[m->rank].host) == 0;
	return count;
}

const _Atomic int *tw_mpi_interrupts(const struct tw_mpi *m)
{
	return &m->stopping.passed;
}

void tw_mpi_call(struct tw_mpi *m, void (*call)(const struct tw_mpi_plugin *p, void *arg),
		 void *arg)
{
	pthread_mutex_lock(&m->lock);
	m->sides.call = call;
	m->sides.call_arg = arg;
	pthread_mutex_unlock(&m->lock);
	tw_mpi_ring(m);
	pthread_mutex_lock(&m->lock);
	while (m->sides.call)
		pthread_cond_wait(&m->sides.program, &m->lock);
	pthread_mutex_unlock(&m->lock);
}

/* --- the two sides ---------------------------------------------------------------------------- */

struct program {
	struct tw_mpi *m;
	int (*run)(void *arg);
	void *arg;
};

static void *program(void *arg)
{
	struct program *p = arg;
	struct tw_mpi *m = p->m;
	const int code = p->run(p->arg);

	pthread_mutex_lock(&m->lock);
	m->sides.code = code;
	m->sides.returned = true;
	pthread_mutex_unlock(&m->lock);
	tw_mpi_ring(m);
	return NULL;
}

static bool has_returned(struct tw_mpi *m)
{
	bool returned;

	pthread_mutex_lock(&m->lock);
	returned = m->sides.returned;
	pthread_mutex_unlock(&m->lock);
	return returned;
}

static void say_to_all(struct tw_mpi *m, enum word word, uint64_t number)
{
	for (uint32_t k = 1; k < m->size; k++)
		if (!tw_mpi_say(m, k, word, TW_OK, number, NULL))
			tw_mpi_give_up(m, "no memory for a message to another rank");
}

static void pass_barrier(struct tw_mpi *m)
{
	char why[TW_MPI_WHY];

	tw_mpi_collect(m);
	while (m->sending)
		tw_mpi_turn(m);
	m->barrier.passing = true;
	if (!m->plugin->ibarrier(&m->barrier, why))
		tw_mpi_give_up(m, "the ranks cannot end together: %s", why);
	while (m->barrier.passing)
		tw_mpi_turn(m);
}

/* Nobody leaves before all have heard the end; then nobody says anything any more, and what was
 * said reaches a rank before MPI ends there: MPICH would tell of it on standard output. */
static void end_together(struct tw_mpi *m)
{
	pass_barrier(m);
	m->silent = true;
	tw_mpi_watchdog(FINALIZING, m->sides.code ? m->sides.code : 1, NULL, NULL);
	pass_barrier(m);
}

static void drop_arrivals(struct tw_mpi *m)
{
	for (uint32_t k = 0; k < m->size; k++)
		while (m->at[k].first) {
			struct arrival *a = m->at[k].first;

			m->at[k].first = a->next;
			tw_msg_pool_give(&m->messages, a->m);
			m->heap->put(m->heap, a);
		}
}

int tw_mpi_main(struct tw_mpi *m, int (*run)(void *arg), void *arg)
{
	struct program p = { m, run, arg };
	pthread_t thread;
	int code;

	if (pthread_create(&thread, NULL, program, &p) != 0)
		tw_mpi_give_up(m, "%s", TW_NO_THREAD);
	while (!has_returned(m))
		tw_mpi_turn(m);
	pthread_join(thread, NULL);
	if (m->rank == 0)
		say_to_all(m, WORD_END, 0);
	end_together(m);
	code = m->sides.code;
	m->plugin->finalize();
	m->part.number++; /* nothing belongs to a part any more */
	tw_mpi_sums_forget(m);
	drop_arrivals(m);
	tw_mpi_receive_close(m);
	tw_block_drop(m->sides.order);
	tw_block_drop(m->sides.given);
	m->heap->put(m->heap, m->at);
	m->heap->put(m->heap, m);
	return code;
}

/* --- rank 0 ----------------------------------------------------------------------------------- */

static enum tw_status send_order(struct tw_mpi *m, const struct tw_mpi_order *o,
				 struct tw_error *why)
{
	for (uint32_t k = 1; k < m->size; k++) {
		struct tw_block *b = tw_block_new(m->heap, sizeof o->beat + o->count);

		if (!b)
			return tw_fail(why, TW_NO_MEMORY, "no memory for the job");
		memcpy(b->data, &o->beat, sizeof o->beat);
		memcpy(b->data + sizeof o->beat, o->bytes, o->count);
		if (!tw_mpi_say(m, k, WORD_ORDER, TW_OK, m->part.number, b))
			return tw_fail(why, TW_NO_MEMORY, "no memory for the job");
	}
	return TW_OK;
}

enum tw_status tw_mpi_begin(struct tw_mpi *m, const struct tw_mpi_order *o, struct tw_error *why)
{
	enum tw_status status;

	pthread_mutex_lock(&m->lock);
	m->part.number++;
	m->part.read = o->read;
	m->part.read_arg = o->arg;
	m->sides.beat = o->beat;
	m->sides.beats = true;
	m->sides.unready = m->size - 1;
	for (uint32_t k = 1; k < m->size; k++)
		m->at[k].ready = false;
	pthread_mutex_unlock(&m->lock);
	status = send_order(m, o, why);
	if (status != TW_OK)
		return status;
	pthread_mutex_lock(&m->lock);
	while (m->sides.unready && m->sides.failed.status == TW_OK)
		pthread_cond_wait(&m->sides.program, &m->lock);
	if (m->sides.failed.status != TW_OK)
		status = tw_fail(why, m->sides.failed.status, "%s", m->sides.failed.text);
	pthread_mutex_unlock(&m->lock);
	return status;
}

void tw_mpi_over(struct tw_mpi *m)
{
	pthread_mutex_lock(&m->lock);
	m->part.read = NULL;
	m->sides.unready = 0;
	pthread_mutex_unlock(&m->lock);
	atomic_store(&m->part.over, m->part.number);
	say_to_all(m, WORD_OVER, m->part.number);
}

/* --- other ranks ------------------------------------------------------------------------------ */

struct tw_block *tw_mpi_next(struct tw_mpi *m)
{
	struct tw_block *order;

	pthread_mutex_lock(&m->lock);
	while (!m->sides.order && !m->sides.ended)
		pthread_cond_wait(&m->sides.program, &m->lock);
	order = m->sides.ended ? NULL : m->sides.order;
	if (order) {
		m->sides.order = NULL;
		m->part.number = m->sides.number;
	}
	pthread_mutex_unlock(&m->lock);
	return order;
}

enum tw_status tw_mpi_ask(void *arg, uint64_t from, void *to, size_t bytes, struct tw_error *why)
{
	struct tw_mpi *m = arg;
	const struct tw_body_data asks = { .what = WORD_ASK, .from = from, .bytes = bytes };
	enum tw_status status;

	if (!tw_mpi_word(m, 0, &asks, NULL))
		return tw_fail(why, TW_NO_MEMORY, "no memory to ask rank 0 for data");
	pthread_mutex_lock(&m->lock);
	while (!m->sides.answered && !m->sides.ended)
		pthread_cond_wait(&m->sides.program, &m->lock);
	status = m->sides.answered ? m->sides.answer : TW_CANCELLED;
	if (status == TW_OK && bytes) {
		if (m->sides.given && m->sides.given->bytes >= bytes)
			memcpy(to, m->sides.given->data, bytes);
		else
			status = TW_BAD_BYTES;
	}
	m->sides.answered = false;
	tw_block_drop(m->sides.given);
	m->sides.given = NULL;
	pthread_mutex_unlock(&m->lock);
	return status == TW_OK ? TW_OK
			       : tw_fail(why, status, "rank 0 does not give %zu bytes of data: %s",
					 bytes, tw_status_name(status));
}

static void say_sentence(struct tw_mpi *m, enum word word, const struct tw_error *why)
{
	const size_t n = strlen(why->text);
	struct tw_block *text = n ? tw_block_new(m->heap, n) : NULL;

	if (text)
		memcpy(text->data, why->text, n);
	if (!tw_mpi_say(m, 0, word, why->status, 0, text))
		tw_mpi_give_up(m, "no memory for a message to rank 0");
}

void tw_mpi_ready(struct tw_mpi *m, const struct tw_error *why)
{
	say_sentence(m, WORD_READY, why);
}

void tw_mpi_fail(struct tw_mpi *m, const struct tw_error *why)
{
	say_sentence(m, WORD_FAIL, why);
}

/* --- the gateway ------------------------------------------------------------------------------ */

static enum tw_status gateway_opened(void *arg, struct tw_port *port, struct tw_error *why)
{
	struct tw_mpi *m = arg;

	(void)why;
	pthread_mutex_lock(&m->port_lock);
	m->port = port;
	pthread_mutex_unlock(&m->port_lock);
	tw_mpi_ring(m);
	return TW_OK;
}

static void gateway_send(void *arg, struct tw_msg *msg)
{
	struct tw_mpi *m = arg;

	if (msg->to.node < m->part.nodes && m->part.rank_of[msg->to.node] != m->rank)
		tw_mpi_post(m, m->part.rank_of[msg->to.node], msg);
	else /* nobody is there */
		tw_msg_discard(m->heap, 0, msg);
}

static void gateway_sent(void *arg)
{
	tw_mpi_ring(arg);
}

/* Ranks stay, whatever becomes of their actors; who is who never changes. */
static void gateway_gone(void *arg, struct tw_addr who)
{
	(void)arg;
	(void)who;
}

static void gateway_named(void *arg, uint32_t slot, uint32_t incarnation)
{
	(void)arg;
	(void)slot;
	(void)incarnation;
}

static void gateway_members(void *arg, struct tw_addr who, const struct tw_member *list,
			    size_t count)
{
	(void)arg;
	(void)who;
	(void)list;
	(void)count;
}

static void gateway_bytes(void *arg, uint64_t *sent, uint64_t *received)
{
	struct tw_mpi *m = arg;

	*sent = atomic_load_explicit(&m->sent, memory_order_relaxed);
	*received = atomic_load_explicit(&m->received, memory_order_relaxed);
}

static void gateway_name(void *arg, struct tw_addr who, uint32_t slot, char *out, size_t room)
{
	const struct tw_mpi *m = arg;
	char where[HOST_ROOM + 32] = "";

	if (who.node < m->part.nodes) {
		const uint32_t rank = m->part.rank_of[who.node];

		snprintf(where, sizeof where, " on rank %u (%s)", rank, m->at[rank].host);
	}
	switch (who.role) {
	case TW_MASTER:
		snprintf(out, room, "master%s", where);
		break;
	case TW_SERVER:
		snprintf(out, room, "server %u%s", tw_server_number(who.node), where);
		break;
	case TW_SHARD:
		snprintf(out, room, "shard %u%s", who.index, where);
		break;
	default:
		if (slot == UINT32_MAX)
			snprintf(out, room, "worker%s", where);
		else if (m->part.cells > 1)
			snprintf(out, room, "worker %u.%u%s", slot, who.index, where);
		else
			snprintf(out, room, "worker %u%s", slot, where);
	}
}

static void gateway_closing(void *arg)
{
	struct tw_mpi *m = arg;

	pthread_mutex_lock(&m->port_lock);
	m->port = NULL;
	pthread_mutex_unlock(&m->port_lock);
}

enum tw_status tw_mpi_run(struct tw_mpi *m, const struct tw_cluster *cluster,
			  const uint32_t *rank_of, uint32_t helpers, struct tw_ran *ran)
{
	const struct tw_gateway gateway = {
		.arg = m,
		.opened = gateway_opened,
		.send = gateway_send,
		.sent = gateway_sent,
		.gone = gateway_gone,
		.named = gateway_named,
		.members = gateway_members,
		.bytes = gateway_bytes,
		.name = gateway_name,
		.closing = gateway_closing,
		.sum = tw_mpi_sum,
	};
	const struct tw_threads_options options = { .gateway = &gateway, .helpers = helpers };

	m->part.rank_of = rank_of;
	m->part.nodes = cluster->nodes;
	m->part.cells = cluster->cells;
	return tw_threads_run(cluster, &options, ran);
}
