/* SPDX-License-Identifier: Apache-2.0 */
/* mpi_sums.c - sums over all ranks by MPI_Iallreduce; what must hold: struct sums of mpi_inner.h */
#include "world/mpi/mpi_inner.h"

void tw_mpi_sum(void *arg, struct tw_addr who, const struct tw_sum *sum)
{
	struct tw_mpi *m = arg;
	struct summing *s = tw_heap_zeros(m->heap, sizeof *s);

	if (!s)
		tw_mpi_give_up(m, "no memory for a sum");
	s->kind = FLIGHT_SUM;
	s->sum = *sum;
	s->who = who;
	s->part = m->part.number;
	s->since = tw_clock();
	pthread_mutex_lock(&m->lock);
	*m->sums.fresh_end = s;
	m->sums.fresh_end = &s->next;
	pthread_mutex_unlock(&m->lock);
	tw_mpi_ring(m);
}

bool tw_mpi_sums_collect(struct tw_mpi *m)
{
	struct summing *s, *next;

	pthread_mutex_lock(&m->lock);
	s = m->sums.fresh;
	m->sums.fresh = NULL;
	m->sums.fresh_end = &m->sums.fresh;
	pthread_mutex_unlock(&m->lock);
	if (!s)
		return false;
	m->sums.since = m->now;
	for (; s; s = next) {
		const struct tw_body_data word = { .what = WORD_SUM,
						   .pad = s->part,
						   .from = s->sum.key,
						   .bytes = s->sum.channel };

		next = s->next;
		s->next = m->sums.list;
		m->sums.list = s;
		if (!m->rank)
			tw_mpi_sum_asked(m, s->part, s->sum.channel, s->sum.key);
		else if (!tw_mpi_word(m, 0, &word, NULL))
			tw_mpi_give_up(m, "no memory for a sum");
	}
	return true;
}

static void drop(struct tw_mpi *m, struct summing **at)
{
	struct summing *s = *at;

	*at = s->next;
	tw_block_drop(s->sum.in);
	tw_block_drop(s->sum.out);
	tw_block_drop(s->sum.more);
	m->heap->put(m->heap, s);
}

void tw_mpi_sums_forget(struct tw_mpi *m)
{
	for (struct summing **at = &m->sums.list; *at;)
		if (!(*at)->left && (*at)->part < m->part.number)
			drop(m, at);
		else
			at = &(*at)->next;
	while (m->sums.asked && m->sums.asked->part < m->part.number) {
		struct asked *a = m->sums.asked;

		m->sums.asked = a->next;
		m->heap->put(m->heap, a);
	}
}

/* --- beginning -------------------------------------------------------------------------------- */

static void go_everywhere(struct tw_mpi *m, const struct asked *a)
{
	const struct tw_body_data word = {
		.what = WORD_GO, .pad = a->part, .from = a->key, .bytes = a->channel
	};

	for (uint32_t k = 1; k < m->size; k++)
		if (!tw_mpi_word(m, k, &word, NULL))
			tw_mpi_give_up(m, "no memory for a sum");
	tw_mpi_collect(m); /* beginning may take long: a copy of the vector */
	tw_mpi_sum_go(m, a->part, a->channel, a->key);
}

/* Earlier ones of the channel are not made any more. */
static void forget_earlier(struct tw_mpi *m, const struct asked *than)
{
	for (struct asked **at = &m->sums.asked; *at;) {
		struct asked *a = *at;

		if (a->part > than->part || (a->part == than->part &&
					     (a->channel != than->channel || a->key > than->key))) {
			at = &a->next;
			continue;
		}
		*at = a->next;
		if (a != than)
			m->heap->put(m->heap, a);
	}
}

void tw_mpi_sum_asked(struct tw_mpi *m, uint32_t part, uint32_t channel, uint64_t key)
{
	struct asked *a = m->sums.asked;

	while (a && (a->part != part || a->channel != channel || a->key != key))
		a = a->next;
	if (!a) {
		a = tw_heap_zeros(m->heap, sizeof *a);
		if (!a)
			tw_mpi_give_up(m, "no memory for a sum");
		*a = (struct asked){ m->sums.asked, key, channel, part, 0 };
		m->sums.asked = a;
	}
	if (++a->count < m->size)
		return;
	go_everywhere(m, a);
	forget_earlier(m, a);
	m->heap->put(m->heap, a);
}

static void begin(struct tw_mpi *m, struct summing *s, const float *in, float *out, size_t n)
{
	char why[TW_MPI_WHY];

	s->left++;
	if (!m->plugin->iallreduce(in, out, n, s, why))
		tw_mpi_give_up(m, "the MPI library cannot add up: %s", why);
}

static void begin_both(struct tw_mpi *m, struct summing *s)
{
	float *out = tw_block_floats(s->sum.out), *more = tw_block_floats(s->sum.more);
	const float *in = s->sum.in ? (const float *)(s->sum.in->data + s->sum.at) : out;
	const uint64_t bytes = s->sum.n * sizeof(float) + s->sum.more->bytes;

	m->sums.flying++;
	begin(m, s, in, out, s->sum.n);
	begin(m, s, more, more, s->sum.more->bytes / sizeof(float));
	/* what any way of adding up sends and receives at least */
	atomic_fetch_add_explicit(&m->sent, 2 * bytes * (m->size - 1) / m->size,
				  memory_order_relaxed);
	atomic_fetch_add_explicit(&m->received, 2 * bytes * (m->size - 1) / m->size,
				  memory_order_relaxed);
}

void tw_mpi_sum_go(struct tw_mpi *m, uint32_t part, uint32_t channel, uint64_t key)
{
	struct summing **at = &m->sums.list;
	struct summing *found = NULL;

	while (*at) {
		struct summing *s = *at;

		if (s->part == part && s->sum.channel == channel && s->sum.key == key && !s->left)
			found = s;
		if (s->part == part && s->sum.channel == channel && s->sum.key < key && !s->left)
			drop(m, at); /* some rank never asked for it */
		else
			at = &s->next;
	}
	if (!found)
		tw_mpi_give_up(m, "a sum is to begin that this rank has not asked for");
	begin_both(m, found);
}

/* --- the end ---------------------------------------------------------------------------------- */

void tw_mpi_sum_over(struct tw_mpi *m, struct summing *s)
{
	struct summing **at = &m->sums.list;
	bool told = false;

	if (--s->left)
		return;
	m->sums.flying--;
	m->sums.took[m->sums.count % SUMS_KEPT] = tw_clock() - s->since;
	m->sums.count++;
	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	pthread_mutex_lock(&m->port_lock);
	if (m->port && s->part == m->part.number) {
		if (!tw_port_summed(m->port, s->who, &s->sum))
			tw_mpi_give_up(m, "no memory for a sum");
		tw_port_work(m->port);
		told = true;
	}
	pthread_mutex_unlock(&m->port_lock);
	if (!told) {
		tw_block_drop(s->sum.in);
		tw_block_drop(s->sum.out);
		tw_block_drop(s->sum.more);
	}
	m->heap->put(m->heap, s);
}

size_t tw_mpi_sums_took(const struct tw_mpi *m, double *out, size_t most)
{
	size_t count = m->sums.count;

	count = count < SUMS_KEPT ? count : SUMS_KEPT;
	count = count < most ? count : most;
	for (size_t k = 0; k < count; k++)
		out[k] = (double)m->sums.took[(m->sums.count - 1 - k) % SUMS_KEPT] /
			 (double)TW_SECOND;
	return count;
}
