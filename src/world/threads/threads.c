/* SPDX-License-Identifier: Apache-2.0 */
/* threads.c - the world of one process: its making, its threads, its end.
 *
 * What must hold inside is in threads_inner.h. */
#include "world/threads/threads.h"
#include "world/threads/threads_inner.h"

#include <stdio.h>
#include <string.h>

#define SPARES 128 /* messages a hand keeps for its next sends */
#define GUESTS 64  /* callers of a desk that are inside at a time */

/* Where the workers' time went; where they are in several processes, nobody has all of it. */
static void count_worker(struct tw_usage *u, const int64_t *spent)
{
	for (size_t use = 0; use < TW_USES; use++) {
		const double seconds = (double)spent[use] / (double)TW_SECOND;

		u->all[use] += seconds;
		if (u->workers < TW_USE_WORKERS)
			u->worker[u->workers][use] = seconds;
	}
	u->workers++;
}

static void count_usage(struct threads *w)
{
	const int64_t now = tw_threads_now(w);

	if (w->options.gateway)
		return;
	for (size_t k = 0; k < w->workers; k++)
		count_worker(&w->ran->usage, w->hand[WORKERS + k].spent);
	/* a worker without a thread: whoever is inside works for others, too */
	for (size_t k = 0; w->cluster->desk && k < w->cells; k++)
		if (w->cell[k].computes)
			count_worker(
				&w->ran->usage,
				(int64_t[TW_USES]){ [TW_USE_COMPUTING] = w->cell[k].computed,
						    [TW_USE_WAITING] = now - w->cell[k].computed });
}

/* Making and unmaking */

static enum tw_status no_memory(struct threads *w, const char *what)
{
	return tw_fail(&w->ran->error, TW_NO_MEMORY, "no memory for %s", what);
}

/* Who may ask for a computation has a thread to run it. */
static bool computes(const struct tw_seat *seat)
{
	return seat->class->computed != NULL;
}

static void init_cell(struct threads *w, size_t k, uint32_t *workers)
{
	const struct tw_cluster *cluster = w->cluster;
	const struct tw_seat *seat = &cluster->seat[k];
	struct cell *c = &w->cell[k];
	const uint32_t cells = cluster->cells ? cluster->cells : 1;
	struct tw_addr called = seat->addr;
	uint32_t slot = 0;

	c->seat = seat;
	c->world = w;
	c->computes = computes(seat);
	c->number = (uint32_t)k;
	c->wanted_end = &c->wanted;
	c->due = INT64_MAX;
	c->open = w->options.lockfree && seat->class->shared;
	c->start.kind = MAIL_START;
	c->tick.kind = MAIL_TICK;
	c->interrupt.kind = MAIL_INTERRUPT;
	if (computes(seat)) {
		slot = (*workers)++;
	}
	if (computes(seat) && !cluster->desk) {
		c->owner = &w->hand[WORKERS + slot];
		c->owner->own = c;
	}
	if (seat->addr.role == TW_MASTER && !w->master)
		w->master = c;
	if (computes(seat) && cells > 1)
		called.index = (uint16_t)(slot % cells);
	tw_threads_name(w, called, w->options.gateway ? UINT32_MAX : slot / cells, c->name,
			sizeof c->name);
	c->door = (struct door){
		.ctx = {
			.world = &tw_threads_world,
			.self = seat->addr,
			.boot = cluster->boot ? cluster->boot : 1,
			.noting = cluster->observer || cluster->trace,
			.heap = cluster->heap,
			.engine = cluster->engine,
		},
		.cell = c,
	};
	c->errand.answered = tw_threads_answered;
}

static void init_locks(struct threads *w)
{
	pthread_condattr_t monotonic;

	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	for (size_t k = 0; k < w->hands; k++) {
		pthread_mutex_init(&w->hand[k].lock, NULL);
		pthread_cond_init(&w->hand[k].wake, &monotonic);
	}
	pthread_condattr_destroy(&monotonic);
	w->locks = w->hands;
}

static enum tw_status make(struct threads *w)
{
	const struct tw_cluster *cluster = w->cluster;
	struct tw_heap *heap = w->heap;
	uint32_t workers = 0, masters = 0;

	for (size_t k = 0; k < cluster->seats; k++) {
		const struct tw_addr a = cluster->seat[k].addr;

		if (a.node >= cluster->nodes)
			return tw_fail(&w->ran->error, TW_BAD_INPUT,
				       "seat %zu is on node %u of a cluster of %u", k, a.node,
				       cluster->nodes);
		workers += computes(&cluster->seat[k]);
		masters += a.role == TW_MASTER;
	}
	if (!masters && !w->options.gateway)
		return tw_fail(&w->ran->error, TW_BAD_INPUT, "the cluster has no master");
	w->cells = cluster->seats;
	w->workers = cluster->desk ? 0 : workers;
	w->guests = !cluster->desk ? 0 : workers < GUESTS ? workers : GUESTS;
	w->helpers = w->options.helpers;
	w->hands = WORKERS + w->workers + w->helpers + w->guests;
	for (w->places = 8; w->places < 2 * w->cells;)
		w->places *= 2;
	w->cell = tw_heap_zeros(heap, w->cells * sizeof *w->cell);
	w->hand = tw_heap_zeros(heap, w->hands * sizeof *w->hand);
	w->place = tw_heap_zeros(heap, w->places * sizeof *w->place);
	w->ready = tw_heap_zeros(heap, w->cells * sizeof(struct cell *));
	w->guest = tw_heap_zeros(heap, (w->guests + 1) * sizeof *w->guest);
	if (!w->cell || !w->hand || !w->place || !w->ready || !w->guest)
		return no_memory(w, "the cluster");
	init_locks(w);
	workers = 0;
	for (size_t k = 0; k < w->cells; k++)
		init_cell(w, k, &workers);
	if (!tw_threads_index(w))
		return tw_fail(&w->ran->error, TW_BAD_INPUT, "two actors have the same address");
	for (size_t k = 0; k < w->guests; k++)
		w->guest[w->guest_count++] = &w->hand[w->hands - 1 - k];
	for (size_t k = 0; k < w->hands; k++) {
		struct hand *h = &w->hand[k];

		h->world = w;
		h->out_end = &h->out;
		h->until = INT64_MIN;
		tw_msg_pool_init(&h->messages, heap, sizeof(struct mail), offsetof(struct mail, m),
				 SPARES);
		h->work = heap->get(heap, w->cells * sizeof(struct cell *));
		h->listed = tw_heap_zeros(heap, w->cells * sizeof *h->listed);
		if (!h->work || !h->listed)
			return no_memory(w, "a thread");
	}
	for (size_t k = 0; k < w->cells; k++) {
		struct cell *c = &w->cell[k];

		c->actor = c->seat->class->new (heap, c->seat->arg);
		if (!c->actor)
			return no_memory(w, c->name);
	}
	return TW_OK;
}

/* Where something is missing because `make` failed, it is NULL. */
static void unmake(struct threads *w)
{
	struct tw_heap *heap = w->heap;

	for (size_t k = 0; w->cell && k < w->cells; k++) {
		struct cell *c = &w->cell[k];

		if (!c->seat)
			break;
		if (w->hand)
			tw_threads_empty(&w->hand[HOUSEKEEPER], c);
		if (c->actor)
			c->seat->class->free(c->actor);
		heap->put(heap, c->alarm);
	}
	while (w->job) {
		struct job *j = w->job;

		w->job = j->next;
		tw_threads_job_free(w, j);
	}
	if (w->hand) {
		tw_threads_bytes(w, &w->ran->bytes_sent, &w->ran->bytes_received);
		count_usage(w);
	}
	for (size_t k = 0; w->hand && k < w->hands; k++) {
		struct hand *h = &w->hand[k];

		w->ran->events += h->events;
		tw_msg_pool_release(&h->messages);
		heap->put(heap, h->work);
		heap->put(heap, h->listed);
		heap->put(heap, h->scratch.at);
		if (k < w->locks) {
			pthread_mutex_destroy(&h->lock);
			pthread_cond_destroy(&h->wake);
		}
	}
	heap->put(heap, w->guest);
	heap->put(heap, w->ready);
	heap->put(heap, w->place);
	heap->put(heap, w->hand);
	heap->put(heap, w->cell);
	pthread_mutex_destroy(&w->ready_lock);
	pthread_mutex_destroy(&w->end_lock);
	pthread_mutex_destroy(&w->note_lock);
	pthread_mutex_destroy(&w->guest_lock);
	pthread_cond_destroy(&w->guest_free);
}

static void *(*program_of(const struct threads *w, size_t hand))(void *)
{
	if (hand == STOREKEEPER)
		return tw_threads_storekeeper;
	return hand < WORKERS + w->workers ? tw_threads_worker : tw_threads_helper;
}

static void run(struct threads *w)
{
	struct hand *me = &w->hand[HOUSEKEEPER];
	const struct tw_gateway *g = w->options.gateway;

	for (size_t k = 0; k < w->cells; k++)
		tw_threads_post(me, &w->cell[k], &w->cell[k].start);
	/* after `start` lies in every mailbox: it is what an actor hears first */
	if (g && g->opened(g->arg, (struct tw_port *)&w->hand[PORT], &w->ran->error) != TW_OK)
		return;
	for (size_t k = STOREKEEPER; k < w->hands - w->guests; k++) {
		struct hand *h = &w->hand[k];
		const int failed =
			k == PORT ? 0 : pthread_create(&h->thread, NULL, program_of(w, k), h);

		if (k == PORT)
			continue;
		if (failed) {
			struct tw_totals t = { 0 };

			snprintf(t.text, sizeof t.text, "%s: %s", TW_NO_THREAD, strerror(failed));
			tw_threads_end(w, TW_NO_MEMORY, &t, NULL);
			break;
		}
		h->started = true;
	}
	tw_threads_work(me);
	tw_threads_housekeep(me);
	if (w->cluster->desk)
		tw_threads_outside_end(me);
	for (size_t k = STOREKEEPER; k < w->hands; k++)
		if (w->hand[k].started)
			pthread_join(w->hand[k].thread, NULL);
	if (g)
		g->closing(g->arg);
}

enum tw_status tw_threads_run(const struct tw_cluster *cluster,
			      const struct tw_threads_options *options, struct tw_ran *ran)
{
	struct threads w = {
		.cluster = cluster,
		.ran = ran,
		.heap = cluster->heap,
		.ready_lock = PTHREAD_MUTEX_INITIALIZER,
		.end_lock = PTHREAD_MUTEX_INITIALIZER,
		.note_lock = PTHREAD_MUTEX_INITIALIZER,
		.guest_lock = PTHREAD_MUTEX_INITIALIZER,
		.guest_free = PTHREAD_COND_INITIALIZER,
	};

	*ran = (struct tw_ran){ 0 };
	if (options)
		w.options = *options;
	if (w.options.lockfree)
		w.options.hash =
			false; /* what is sent changes under the reader: that is its point */
	w.job_end = &w.job;
	w.passive.brief = UINT32_MAX; /* there may be none */
	w.began = tw_threads_now(&w);
	if (make(&w) == TW_OK && tw_trace_open(&w.trace, cluster->trace, &ran->error) == TW_OK) {
		run(&w);
		tw_threads_trace_close(&w);
	}
	unmake(&w);
	return ran->error.status;
}
