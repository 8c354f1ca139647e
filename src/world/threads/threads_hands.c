/* SPDX-License-Identifier: Apache-2.0 */
/* threads_hands.c - what each thread does: workers, helpers, the storekeeper, the housekeeper;
 * invariants: threads_inner.h. */
#include "world/threads/threads_inner.h"

#include <string.h>
#include <time.h>

#define SPIN     4000                    /* ns a worker looks for work before it sleeps */
#define POLL     (20 * TW_SECOND / 1000) /* how often the housekeeper looks for an interrupt */
#define PATIENCE (5 * TW_SECOND)         /* a wait longer than this is said aloud */

static struct timespec moment(const struct threads *w, int64_t at)
{
	const int64_t ns = w->began + at;

	return (struct timespec){ .tv_sec = ns / TW_SECOND, .tv_nsec = ns % TW_SECOND };
}

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

/* False: there is none that it may begin. */
static bool compute(struct hand *me, struct cell *c)
{
	struct tw_compute *job = tw_threads_begin(me, c);

	if (!job)
		return false;
	tw_threads_drain(me, c); /* what came before others could enter was left to us */
	tw_threads_work(me);
	tw_threads_compute(me, c, job);
	return true;
}

void *tw_threads_worker(void *arg)
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
		if (!wants || !compute(me, c))
			wait_for_work(me);
	}
	/* what is neither computing nor waiting is work on messages */
	me->spent[TW_USE_TRANSFERRING] = tw_threads_now(w) - me->began -
					 me->spent[TW_USE_COMPUTING] - me->spent[TW_USE_WAITING];
	return NULL;
}

void *tw_threads_helper(void *arg)
{
	struct hand *me = arg;

	pthread_setname_np(pthread_self(), "helper");
	while (!atomic_load(&me->world->over))
		if (!tw_threads_work(me))
			wait_for_work(me);
	return NULL;
}

/* The storekeeper */

void *tw_threads_storekeeper(void *arg)
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
			tw_threads_bytes(w, &w->ran->bytes_sent, &w->ran->bytes_received);
			j->status = store->save(store, j->cut, j->parts, j->count);
			break;
		case JOB_PUT:
			j->status = store->put(store, j->cut, j->parts);
			break;
		case JOB_LOAD:
			j->status = store->look ? store->look(store, j->from, j->to, &j->cut,
							      &j->parts, &j->count)
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

void tw_threads_housekeep(struct hand *me)
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
