/* SPDX-License-Identifier: Apache-2.0 */
/* prefetch.c - a helper thread that makes the batches which will probably be asked for.
 *
 *  (1) a slot's batch is written by the helper alone while MAKING and read by one taker alone
 *      while TAKING; both happen outside the lock, every change of state inside it.
 *  (2) nothing is allocated after the start.
 *
 * An asker is a thread.  Its next batches are guessed by going on from its last one by its usual
 * step, with the same count.  A guess never drives out one that may still be wanted (it is dropped
 * instead), so more askers than slots do not undo each other's work; one that nobody took for a
 * while (two rounds of all askers) gives way. */
#include "data/data.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>

#define ASKERS 64

enum state { FREE, WANTED, MAKING, READY, TAKING };

struct slot {
	enum state state;
	bool stale; /* MAKING: whoever wanted it has made it himself */
	uint64_t from, age;
	uint32_t count;
	float *x, *target;
	uint32_t *label;
};

struct asker {
	pthread_t who;
	bool known;
	uint64_t from, step, seen_step, seen;
};

struct tw_prefetch {
	struct tw_heap *heap;
	struct tw_prefetch_facts facts;
	pthread_mutex_t lock;
	pthread_cond_t work;
	pthread_t helper;
	bool stop;
	uint64_t now; /* requests so far */
	uint32_t slots;
	struct slot *slot;
	uint64_t *index; /* the helper's */
	void *memory;    /* of all slots */
	struct asker asker[ASKERS];
};

static struct slot *find(struct tw_prefetch *p, uint64_t from, uint32_t count)
{
	for (uint32_t k = 0; k < p->slots; k++)
		if (p->slot[k].state != FREE && p->slot[k].from == from &&
		    p->slot[k].count == count && !p->slot[k].stale)
			return &p->slot[k];
	return NULL;
}

/* The batch that was wanted first. */
static struct slot *next_wanted(struct tw_prefetch *p)
{
	struct slot *best = NULL;

	for (uint32_t k = 0; k < p->slots; k++)
		if (p->slot[k].state == WANTED && (!best || p->slot[k].age < best->age))
			best = &p->slot[k];
	return best;
}

static enum tw_status make(struct tw_prefetch *p, struct slot *s)
{
	const struct tw_data *d = p->facts.data;
	const struct tw_batch batch = {
		.set = &d->train,
		.index = p->index,
		.count = s->count,
		.position = s->from,
	};

	for (uint32_t k = 0; k < s->count; k++)
		p->index[k] = tw_order_sample(p->facts.order, s->from + k);
	return tw_data_fill(d, &batch, p->facts.options, p->facts.seed, s->x, s->label, s->target);
}

static void *help(void *arg)
{
	struct tw_prefetch *p = arg;

	pthread_mutex_lock(&p->lock);
	while (!p->stop) {
		struct slot *s = next_wanted(p);
		enum tw_status st;

		if (!s) {
			pthread_cond_wait(&p->work, &p->lock);
			continue;
		}
		s->state = MAKING;
		s->stale = false;
		pthread_mutex_unlock(&p->lock);
		st = make(p, s);
		pthread_mutex_lock(&p->lock);
		/* who asks for what could not be made finds out why */
		s->state = s->stale || st != TW_OK ? FREE : READY;
		s->stale = false;
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

/* The calling thread's entry: its own, or one that is empty or has been silent for longest. */
static struct asker *asker_of(struct tw_prefetch *p, uint32_t *askers)
{
	const pthread_t me = pthread_self();
	struct asker *spare = &p->asker[0];

	*askers = 0;
	for (uint32_t k = 0; k < ASKERS; k++)
		*askers += p->asker[k].known;
	for (uint32_t k = 0; k < ASKERS; k++) {
		struct asker *a = &p->asker[k];

		if (a->known && pthread_equal(a->who, me))
			return a;
		if (spare->known && (!a->known || a->seen < spare->seen))
			spare = a;
	}
	*askers += !spare->known;
	*spare = (struct asker){ .who = me };
	return spare;
}

/* A slot for a new guess, or NULL. */
static struct slot *room_for(struct tw_prefetch *p, uint32_t askers)
{
	const uint64_t patience = 2 * (uint64_t)(askers > p->slots ? askers : p->slots);
	struct slot *oldest = NULL;

	for (uint32_t k = 0; k < p->slots; k++) {
		struct slot *s = &p->slot[k];

		if (s->state == FREE)
			return s;
		if ((s->state == READY || s->state == WANTED) && (!oldest || s->age < oldest->age))
			oldest = s;
	}
	return oldest && p->now - oldest->age > patience ? oldest : NULL;
}

static void guess(struct tw_prefetch *p, uint64_t from, uint32_t count)
{
	uint32_t askers;
	struct asker *a = asker_of(p, &askers);
	const uint32_t depth = p->slots > askers ? p->slots / askers : 1;
	uint64_t next = from;

	/* a step counts once it was seen twice: a single one may be the way to a new lease */
	if (!a->known)
		a->step = count;
	else if (from > a->from && from - a->from == a->seen_step)
		a->step = a->seen_step;
	a->seen_step = a->known && from > a->from ? from - a->from : count;
	a->known = true;
	a->from = from;
	a->seen = p->now;
	for (uint32_t k = 0; k < depth; k++) {
		struct slot *s;

		if (__builtin_add_overflow(next, a->step, &next) || next > UINT64_MAX - count)
			return;
		if (find(p, next, count))
			continue;
		s = room_for(p, askers);
		if (!s)
			return;
		s->state = WANTED;
		s->stale = false;
		s->from = next;
		s->count = count;
		s->age = p->now;
		pthread_cond_signal(&p->work);
	}
}

static void hand_over(const struct tw_prefetch *p, const struct slot *s, float *x, uint32_t *label,
		      float *target)
{
	const struct tw_data *d = p->facts.data;

	memcpy(x, s->x, (size_t)s->count * d->features * sizeof *x);
	if (d->targets)
		memcpy(target, s->target, (size_t)s->count * d->targets * sizeof *target);
	else
		memcpy(label, s->label, s->count * tw_data_labels(d) * sizeof *label);
}

bool tw_prefetch_take(struct tw_prefetch *p, uint64_t from, uint32_t count, float *x,
		      uint32_t *label, float *target)
{
	struct slot *s;
	bool ready;

	if (count == 0 || count > p->facts.batch_max)
		return false;
	pthread_mutex_lock(&p->lock);
	p->now++;
	s = find(p, from, count);
	ready = s && s->state == READY;
	if (ready)
		s->state = TAKING;
	else if (s && s->state == WANTED)
		s->state = FREE;
	else if (s && s->state == MAKING)
		s->stale = true;
	guess(p, from, count);
	pthread_mutex_unlock(&p->lock);
	if (!ready)
		return false;
	hand_over(p, s, x, label, target);
	pthread_mutex_lock(&p->lock);
	s->state = FREE;
	pthread_mutex_unlock(&p->lock);
	return true;
}

/* All memory of the slots in one piece, each batch on a line of its own. */
static enum tw_status carve(struct tw_prefetch *p)
{
	const struct tw_data *d = p->facts.data;
	const uint64_t answer = d->targets ? d->targets : tw_data_labels(d);
	uint64_t values, answers, bytes;
	float *at;

	if (__builtin_mul_overflow((uint64_t)p->facts.batch_max, (uint64_t)d->features, &values) ||
	    values > SIZE_MAX / 64 ||
	    __builtin_mul_overflow((uint64_t)p->facts.batch_max, answer, &answers) ||
	    answers > SIZE_MAX / 64)
		return TW_NO_MEMORY;
	values = (values + 15) / 16 * 16;
	answers = (answers + 15) / 16 * 16;
	if (__builtin_mul_overflow((values + answers) * sizeof(float), (uint64_t)p->slots,
				   &bytes) ||
	    bytes > SIZE_MAX / 2)
		return TW_NO_MEMORY;
	p->memory = p->heap->get(p->heap, bytes);
	p->index = p->heap->get(p->heap, p->facts.batch_max * sizeof *p->index);
	p->slot = tw_heap_zeros(p->heap, p->slots * sizeof *p->slot);
	if (!p->memory || !p->index || !p->slot)
		return TW_NO_MEMORY;
	at = p->memory;
	for (uint32_t k = 0; k < p->slots; k++, at += values + answers) {
		p->slot[k].x = at;
		if (d->targets)
			p->slot[k].target = at + values;
		else
			p->slot[k].label = (uint32_t *)(at + values);
	}
	return TW_OK;
}

static void release(struct tw_prefetch *p)
{
	struct tw_heap *heap = p->heap;

	heap->put(heap, p->slot);
	heap->put(heap, p->index);
	heap->put(heap, p->memory);
	heap->put(heap, p);
}

/* Signals are for the threads that know of them. */
static int start_helper(struct tw_prefetch *p)
{
	sigset_t all, before;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&p->helper, NULL, help, p);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc;
}

enum tw_status tw_prefetch_start(struct tw_heap *heap, const struct tw_prefetch_facts *facts,
				 struct tw_prefetch **out, struct tw_error *why)
{
	struct tw_prefetch *p = tw_heap_zeros(heap, sizeof *p);
	int rc;

	if (!p)
		return tw_fail(why, TW_NO_MEMORY, "prefetch: no memory");
	p->heap = heap;
	p->facts = *facts;
	p->slots = facts->ahead ? facts->ahead : 1;
	if (carve(p) != TW_OK) {
		release(p);
		return tw_fail(why, TW_NO_MEMORY,
			       "prefetch: no memory for %u batches of %u samples", facts->ahead,
			       facts->batch_max);
	}
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->work, NULL);
	rc = start_helper(p);
	if (rc != 0) {
		pthread_cond_destroy(&p->work);
		pthread_mutex_destroy(&p->lock);
		release(p);
		return tw_fail(why, TW_NO_MEMORY, "prefetch: %s: %s", TW_NO_THREAD, strerror(rc));
	}
	*out = p;
	return TW_OK;
}

void tw_prefetch_stop(struct tw_prefetch *p)
{
	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->stop = true;
	pthread_cond_signal(&p->work);
	pthread_mutex_unlock(&p->lock);
	pthread_join(p->helper, NULL);
	pthread_cond_destroy(&p->work);
	pthread_mutex_destroy(&p->lock);
	release(p);
}
