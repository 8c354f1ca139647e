/* SPDX-License-Identifier: Apache-2.0 */
/* threads.c - the world of one process: its making, its threads, its end.
 *
 * What must hold inside is in threads_inner.h. */
#include "world/threads.h"
#include "world/threads_inner.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define SPARES   128                     /* messages a hand keeps for its next sends */
#define SPIN     4000                    /* ns a worker looks for work before it sleeps */
#define POLL     (20 * TW_SECOND / 1000) /* how often the housekeeper looks for an interrupt */
#define GUESTS   64                      /* callers of a desk that are inside at a time */
#define PATIENCE (5 * TW_SECOND)         /* a wait longer than this is said aloud */

static struct timespec moment(const struct threads *w, int64_t at)
{
	const int64_t ns = w->began + at;

	return (struct timespec){ .tv_sec = ns / TW_SECOND, .tv_nsec = ns % TW_SECOND };
}

/* A worker's own hand */

static bool stirs(const struct hand *me)
{
	const struct threads *w = me->world;

	return (me->own && atomic_load(&me->own->box)) || atomic_load(&me->called) ||
	       atomic_load(&w->ready_count) || atomic_load(&w->over);
}

/* When it must look again; a helper has no alarms. */
static int64_t due_of(const struct hand *me)
{
	return me->own ? atomic_load(&me->own->due) : INT64_MAX;
}

static void sleep_until_mail(struct hand *me)
{
	const int64_t due = due_of(me);

	pthread_mutex_lock(&me->lock);
	atomic_store(&me->until, due);
	atomic_store(&me->asleep, true);
	if (me->own)
		atomic_store(&me->own->away, true);
	/* an alarm that a visitor sets meanwhile is seen here, or `until` is seen there */
	if (!stirs(me) && due_of(me) >= due) {
		if (due == INT64_MAX) {
			pthread_cond_wait(&me->wake, &me->lock);
		} else {
			const struct timespec until = moment(me->world, due);

			pthread_cond_timedwait(&me->wake, &me->lock, &until);
		}
	}
	if (me->own)
		atomic_store(&me->own->away, false);
	atomic_store(&me->asleep, false);
	atomic_store(&me->until, INT64_MIN);
	pthread_mutex_unlock(&me->lock);
}

static void wait_for_work(struct hand *me)
{
	struct threads *w = me->world;
	const int64_t began = tw_threads_now(w), until = began + SPIN;
	int64_t now;

	atomic_fetch_add(&w->idle, 1);
	do {
		for (int k = 0; k < 16; k++) {
			if (stirs(me))
				goto out;
			tw_threads_rest();
		}
		now = tw_threads_now(w);
		if (due_of(me) <= now)
			goto out;
	} while (now < until);
	sleep_until_mail(me);
out:
	atomic_fetch_sub(&w->idle, 1);
	me->spent[TW_USE_WAITING] += tw_threads_now(w) - began;
}

/* Its mail and its alarms; visitors may be inside until then (4).  False: there were none. */
static bool look_inside(struct hand *me, struct cell *c, bool *wants)
{
	bool mail, alarm;

	atomic_store(&me->called, false);
	tw_threads_enter(me, c);
	mail = c->batch || atomic_load(&c->box);
	alarm = atomic_load(&c->due) != INT64_MAX &&
		atomic_load(&c->due) <= tw_threads_now(me->world);
	if (mail)
		tw_threads_handle(me, c);
	if (alarm)
		tw_threads_ring(me, c);
	*wants = c->wanted && !c->running;
	tw_threads_leave(c);
	return mail || alarm;
}

static void *worker(void *arg)
{
	struct hand *me = arg;
	struct cell *c = me->own;
	struct threads *w = me->world;

	pthread_setname_np(pthread_self(), c->name);
	me->began = tw_threads_now(w);
	while (!atomic_load(&w->over)) {
		bool wants;

		if (tw_threads_work(me) || look_inside(me, c, &wants))
			continue;
		if (!wants || !tw_threads_compute(me, c))
			wait_for_work(me);
	}
	/* what is neither computing nor waiting is work on messages */
	me->spent[TW_USE_TRANSFERRING] = tw_threads_now(w) - me->began -
					 me->spent[TW_USE_COMPUTING] - me->spent[TW_USE_WAITING];
	return NULL;
}

static void *helper(void *arg)
{
	struct hand *me = arg;

	pthread_setname_np(pthread_self(), "helper");
	while (!atomic_load(&me->world->over))
		if (!tw_threads_work(me))
			wait_for_work(me);
	return NULL;
}

void tw_threads_bytes(const struct threads *w, uint64_t *sent, uint64_t *received)
{
	*sent = *received = 0;
	if (w->options.gateway)
		w->options.gateway->bytes(w->options.gateway->arg, sent, received);
	for (size_t k = 0; k < w->hands; k++) {
		*sent += atomic_load_explicit(&w->hand[k].bytes_sent, memory_order_relaxed);
		*received += atomic_load_explicit(&w->hand[k].bytes_received, memory_order_relaxed);
	}
}

/* Bytes so far: kept with a cut, and said at the end. */
static void count_bytes(struct threads *w)
{
	tw_threads_bytes(w, &w->ran->bytes_sent, &w->ran->bytes_received);
}

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

/* The storekeeper */

static void *storekeeper(void *arg)
{
	struct hand *me = arg;
	struct threads *w = me->world;
	struct tw_store *store = w->cluster->store;

	pthread_setname_np(pthread_self(), "store");
	for (;;) {
		struct job *j;

		pthread_mutex_lock(&me->lock);
		while (!w->job && !atomic_load(&w->over))
			pthread_cond_wait(&me->wake, &me->lock);
		j = atomic_load(&w->over) ? NULL : w->job;
		if (j) {
			w->job = j->next;
			if (!w->job)
				w->job_end = &w->job;
		}
		pthread_mutex_unlock(&me->lock);
		if (!j)
			return NULL;
		switch (j->kind) {
		case JOB_SAVE:
			count_bytes(w);
			j->status = store->save(store, j->cut, j->parts, j->count);
			break;
		case JOB_PUT:
			j->status = store->put ? store->put(store, j->cut, j->parts) : TW_BAD_INPUT;
			break;
		case JOB_LOAD:
			j->status = store->look && j->to != UINT64_MAX
					    ? store->look(store, j->from, j->to, &j->cut, &j->parts,
							  &j->count)
					    : store->load(store, &j->cut, &j->parts, &j->count);
			if (j->status != TW_OK) {
				j->cut = 0;
				j->parts = NULL;
				j->count = 0;
			}
			break;
		case JOB_LOADED_FREE:
			tw_threads_job_free(w, j);
			continue;
		}
		tw_threads_post(me, j->cell, &j->mail);
		tw_threads_work(me);
	}
}

/* The housekeeper */

static bool same_wait(const struct tw_wait *a, const struct tw_wait *b)
{
	return a->whom.node == b->whom.node && a->whom.role == b->whom.role &&
	       a->whom.index == b->whom.index && a->slot == b->slot && a->since == b->since;
}

static void say_wait(struct threads *w, const char *who, const struct tw_wait *wait)
{
	const double seconds = (double)(tw_threads_now(w) - wait->since) / (double)TW_SECOND;
	const char *why = wait->why ? wait->why : "no reason given";
	const struct tw_gateway *g = w->options.gateway;
	char whom[112], step[24] = "";

	tw_threads_name(w, wait->whom, wait->slot, whom, sizeof whom);
	if (wait->step)
		snprintf(step, sizeof step, " %llu", (unsigned long long)wait->step);
	if (w->cluster->log)
		tw_log_line(w->cluster->log, TW_WARNING, g ? who : "threads",
			    "%s%shas waited %.1f s for %s: %s%s", g ? "" : who, g ? "" : " ",
			    seconds, whom, why, step);
	if (g && g->waits)
		g->waits(g->arg, who, whom, why, seconds);
}

/* Ask the cell for whom it waits, unless somebody is inside: then it does not wait. */
static void ask(struct hand *me, struct cell *c)
{
	struct threads *w = me->world;
	struct tw_wait wait = { 0 };
	bool say = false, ended = false;
	char who[sizeof c->name] = "";

	if (!c->seat->class->waiting || !tw_threads_try(me, c))
		return;
	if (c->seat->class->waiting(c->actor, &wait)) {
		const int64_t age = tw_threads_now(w) - wait.since;

		say = age > PATIENCE && !(c->told && same_wait(&wait, &c->last));
		if (say) {
			w->ran->waits++;
			ended = c->told;
			c->told = true;
			c->last = wait;
		}
	} else {
		ended = c->told;
		c->told = false;
	}
	memcpy(who, c->name, sizeof who);
	tw_threads_leave(c);
	tw_threads_list(me, c); /* (3): mail may have come while we were inside */
	/* a replica is called after its worker, which had no name at first */
	if ((say || ended) && w->options.gateway && c->seat->addr.role != TW_WORKER)
		tw_threads_name(w, c->seat->addr, UINT32_MAX, who, sizeof who);
	if (ended && w->options.gateway && w->options.gateway->waits)
		w->options.gateway->waits(w->options.gateway->arg, who, NULL, NULL, 0);
	if (say)
		say_wait(w, who, &wait);
}

/* Passive cells, and workers that compute: everybody else fires alarms himself. */
static bool rings_here(const struct cell *c)
{
	return !c->owner || atomic_load(&c->computing);
}

/* The master stops the run; where it is not here, we only leave it. */
static void interrupt(struct hand *me)
{
	struct threads *w = me->world;

	for (size_t k = 0; k < w->cells; k++) {
		struct cell *c = &w->cell[k];

		if (c == w->master || (!w->master && c->seat->class->interrupt))
			tw_threads_post(me, c, &c->interrupt);
	}
}

static void housekeep(struct hand *me)
{
	struct threads *w = me->world;
	int64_t next_ask = TW_SECOND;
	bool told = false;

	while (!atomic_load(&w->over)) {
		const int interrupts =
			w->cluster->interrupted ? atomic_load(w->cluster->interrupted) : 0;
		int64_t now = tw_threads_now(w), until;

		if (interrupts > 1) {
			struct tw_totals t = { .text = "interrupted twice: stopped immediately" };

			tw_threads_end(w, TW_INTERRUPTED, &t, NULL);
			break;
		}
		if (!told && (interrupts || atomic_load(&w->stopped_by_observer))) {
			told = true;
			interrupt(me);
		}
		for (size_t k = 0; k < w->cells; k++) {
			struct cell *c = &w->cell[k];

			if (atomic_load(&c->due) <= now && rings_here(c) &&
			    !atomic_exchange(&c->ticking, true))
				tw_threads_post(me, c, &c->tick);
		}
		if (now >= next_ask) {
			for (size_t k = 0; k < w->cells; k++)
				ask(me, &w->cell[k]);
			next_ask = now + TW_SECOND;
		}
		tw_threads_work(me);

		pthread_mutex_lock(&me->lock);
		atomic_store(&me->asleep, true);
		until = tw_threads_now(w) + POLL;
		atomic_store(&w->wake_at, until);
		for (size_t k = 0; k < w->cells; k++) {
			struct cell *c = &w->cell[k];
			const int64_t due = atomic_load(&c->due);

			if (due < until && rings_here(c) && !atomic_load(&c->ticking))
				until = due;
		}
		if (!atomic_load(&w->over) && (told || !atomic_load(&w->stopped_by_observer))) {
			const struct timespec at = moment(w, until);

			pthread_cond_timedwait(&me->wake, &me->lock, &at);
		}
		atomic_store(&me->asleep, false);
		pthread_mutex_unlock(&me->lock);
	}
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
		count_bytes(w);
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
		return storekeeper;
	return hand < WORKERS + w->workers ? worker : helper;
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
	housekeep(me);
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
