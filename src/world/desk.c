/* SPDX-License-Identifier: Apache-2.0 */
/* desk.c - where computations wait for somebody outside the library; invariants: desk.h. */
#include "world/desk.h"

#include "base/machine/clock.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

/* An open task, with the memory of its samples and, if they came in pieces, parameters. */
struct open_task {
	struct open_task *next;
	struct tw_errand *errand;
	uint64_t id, count;
	float *joined; /* NULL until it is needed */
	uint64_t sample[];
};

struct tw_desk {
	struct tw_heap *heap;
	const struct tw_engine *engine;
	uint64_t most;
	pthread_mutex_t lock;
	pthread_cond_t more, answered; /* answered: for tw_desk_run */
	/* guarded by lock */
	struct tw_errand *first, *last; /* the line */
	struct open_task *open, *spare;
	uint64_t ids;
	bool over, shut;
	_Atomic uint64_t joined, copied; /* parameters for callers, answers of theirs */
};

struct tw_desk *tw_desk_new(struct tw_heap *heap, const struct tw_engine *engine, uint64_t most,
			    uint64_t first)
{
	struct tw_desk *d = tw_heap_zeros(heap, sizeof *d);
	pthread_condattr_t monotonic;

	if (!d)
		return NULL;
	d->heap = heap;
	d->engine = engine;
	d->most = most;
	d->ids = first;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_mutex_init(&d->lock, NULL);
	pthread_cond_init(&d->more, &monotonic);
	pthread_cond_init(&d->answered, NULL);
	pthread_condattr_destroy(&monotonic);
	return d;
}

void tw_desk_free(struct tw_desk *d)
{
	if (!d)
		return;
	HOLDS(1, !d->first && !d->open);
	while (d->spare) {
		struct open_task *t = d->spare;

		d->spare = t->next;
		d->heap->put(d->heap, t->joined);
		d->heap->put(d->heap, t);
	}
	pthread_cond_destroy(&d->answered);
	pthread_cond_destroy(&d->more);
	pthread_mutex_destroy(&d->lock);
	d->heap->put(d->heap, d);
}

/* --- the line; the lock is held --- */

static void put_last(struct tw_desk *d, struct tw_errand *e)
{
	e->next = NULL;
	e->before = d->last;
	*(d->last ? &d->last->next : &d->first) = e;
	d->last = e;
}

static void put_first(struct tw_desk *d, struct tw_errand *e)
{
	e->before = NULL;
	e->next = d->first;
	*(d->first ? &d->first->before : &d->last) = e;
	d->first = e;
}

static void step_out(struct tw_desk *d, struct tw_errand *e)
{
	*(e->before ? &e->before->next : &d->first) = e->next;
	*(e->next ? &e->next->before : &d->last) = e->before;
	e->next = e->before = NULL;
}

static bool in_line(const struct tw_desk *d, const struct tw_errand *e)
{
	return e->before || d->first == e;
}

void tw_desk_offer(struct tw_desk *d, struct tw_errand *e)
{
	e->scored = 0;
	e->sum = (struct tw_score){ 0 };
	e->taken = 0;
	pthread_mutex_lock(&d->lock);
	put_last(d, e);
	pthread_mutex_unlock(&d->lock);
	pthread_cond_signal(&d->more); /* who wakes up needs the lock */
}

bool tw_desk_withdraw(struct tw_desk *d, struct tw_errand *e)
{
	bool found;

	pthread_mutex_lock(&d->lock);
	found = in_line(d, e);
	if (found)
		step_out(d, e);
	pthread_mutex_unlock(&d->lock);
	return found;
}

/* --- waiting for an answer --- */

struct waiting {
	struct tw_errand errand; /* must stay first */
	struct tw_desk *desk;
	bool done;
};

static void wake(struct tw_errand *e)
{
	struct waiting *w = (struct waiting *)e;

	pthread_mutex_lock(&w->desk->lock);
	w->done = true;
	pthread_cond_broadcast(&w->desk->answered);
	pthread_mutex_unlock(&w->desk->lock);
}

enum tw_status tw_desk_run(struct tw_desk *d, struct tw_compute *c)
{
	struct waiting w = { .errand = { .c = c, .answered = wake }, .desk = d };

	tw_desk_offer(d, &w.errand);
	pthread_mutex_lock(&d->lock);
	while (!w.done && !(d->shut && in_line(d, &w.errand)))
		pthread_cond_wait(&d->answered, &d->lock);
	if (!w.done) {
		step_out(d, &w.errand);
		c->status = TW_CANCELLED;
	}
	pthread_mutex_unlock(&d->lock);
	return c->status;
}

/* --- taking --- */

static size_t elements(const struct tw_desk *d)
{
	return d->engine->trainable + d->engine->buffers;
}

/* A spare one, or a new one; the lock is held. */
static struct open_task *open_new(struct tw_desk *d)
{
	struct open_task *t = d->spare;

	if (t) {
		d->spare = t->next;
		return t;
	}
	t = d->heap->get(d->heap, sizeof *t + d->most * sizeof t->sample[0]);
	if (t)
		*t = (struct open_task){ .joined = NULL };
	return t;
}

static bool is_score(const struct tw_errand *e)
{
	return e->c->pass.kind == TW_PASS_EVALUATE;
}

static void fill_samples(const struct tw_desk *d, struct open_task *t)
{
	const struct tw_errand *e = t->errand;
	const struct tw_inputs *in = &e->c->in;

	for (uint64_t k = 0; k < t->count; k++)
		t->sample[k] = is_score(e) ? in->from + e->scored + k
					   : tw_order_sample(&d->engine->order, in->from + k);
}

/* The parameters in one piece: as they are, or copied together.  NULL without memory. */
static const float *join(struct tw_desk *d, struct open_task *t, float *into)
{
	const struct tw_inputs *in = &t->errand->c->in;
	float *room = into;

	if (in->pieces == 1 && !into)
		return in->piece[0].at;
	if (!room && !t->joined)
		t->joined = d->heap->get(d->heap, elements(d) * sizeof(float));
	if (!room)
		room = t->joined;
	atomic_fetch_add_explicit(&d->joined, 1, memory_order_relaxed);
	for (size_t k = 0; room && k < in->pieces; k++)
		memcpy(room + in->piece[k].from, in->piece[k].at, in->piece[k].n * sizeof *room);
	return room;
}

/* Take `t` out of the open ones; the lock is held. */
static void close_task(struct tw_desk *d, struct open_task *t)
{
	struct open_task **at = &d->open;

	while (*at != t)
		at = &(*at)->next;
	*at = t->next;
	t->next = d->spare;
	d->spare = t;
}

static enum tw_desk_got give(struct tw_desk *d, struct open_task *t, float *into,
			     struct tw_task *out)
{
	struct tw_errand *e = t->errand;
	const struct tw_inputs *in = &e->c->in;
	const float *parameters = join(d, t, into);

	if (!parameters) {
		pthread_mutex_lock(&d->lock);
		close_task(d, t);
		put_first(d, e);
		pthread_mutex_unlock(&d->lock);
		return TW_DESK_NO_MEMORY;
	}
	fill_samples(d, t);
	*out = (struct tw_task){
		.id = t->id,
		.score = is_score(e),
		.sample = t->sample,
		.count = t->count,
		.epoch = is_score(e) ? 0 : in->from / d->engine->samples,
		.parameters = parameters,
		.vector = is_score(e) ? NULL : e->c->gradient,
		.about = in->about,
	};
	return TW_DESK_TASK;
}

/* The first of the line is with a caller now; the lock is held.  NULL without memory. */
static struct open_task *take_first(struct tw_desk *d)
{
	struct open_task *t = open_new(d);
	struct tw_errand *e = d->first;
	const struct tw_inputs *in = &e->c->in;
	const uint64_t left = is_score(e) ? in->count - e->scored : in->count;

	if (!t)
		return NULL;
	step_out(d, e);
	t->errand = e;
	t->id = ++d->ids;
	t->count = left < d->most ? left : d->most; /* (4) */
	t->next = d->open;
	d->open = t;
	if (!e->taken)
		e->taken = tw_clock();
	return t;
}

enum tw_desk_got tw_desk_take(struct tw_desk *d, int64_t ns, float *into, struct tw_task *out)
{
	const int64_t until = ns > 0 ? tw_clock() + ns : 0;
	const struct timespec at = { .tv_sec = until / TW_SECOND, .tv_nsec = until % TW_SECOND };
	struct open_task *t = NULL;
	bool waited = ns <= 0, lacking;

	pthread_mutex_lock(&d->lock);
	while (!d->first && !d->over && !d->shut && !waited)
		waited = pthread_cond_timedwait(&d->more, &d->lock, &at) != 0;
	if (d->over || d->shut || !d->first) {
		const bool ended = d->over || d->shut;

		pthread_mutex_unlock(&d->lock);
		return ended ? TW_DESK_OVER : TW_DESK_NOTHING;
	}
	t = take_first(d);
	lacking = !t;
	pthread_mutex_unlock(&d->lock);
	return lacking ? TW_DESK_NO_MEMORY : give(d, t, into, out);
}

/* --- answering --- */

static struct open_task *find(const struct tw_desk *d, uint64_t id)
{
	struct open_task *t = d->open;

	while (t && t->id != id)
		t = t->next;
	return t;
}

bool tw_desk_knows(struct tw_desk *d, uint64_t id, bool *score, uint64_t *count)
{
	const struct open_task *t;

	pthread_mutex_lock(&d->lock);
	t = find(d, id);
	if (t) {
		*score = is_score(t->errand);
		*count = t->count;
	}
	pthread_mutex_unlock(&d->lock);
	return t;
}

static void add_score(struct tw_errand *e, const struct tw_desk_answer *a, uint64_t count)
{
	struct tw_score *s = &e->sum;

	s->loss += a->loss * (double)count;
	s->correct = a->correct < 0 || s->correct < 0 ? -1 : s->correct + a->correct;
	s->samples += count;
	e->scored += count;
}

static void take_vector(struct tw_desk *d, struct tw_compute *c, const struct tw_desk_answer *a)
{
	if (a->lent) {
		c->lent = tw_block_keep(a->lent);
	} else if (a->vector && a->vector != c->gradient) {
		atomic_fetch_add_explicit(&d->copied, 1, memory_order_relaxed);
		memcpy(c->gradient, a->vector, elements(d) * sizeof(float));
	}
}

enum tw_status tw_desk_answer(struct tw_desk *d, uint64_t id, const struct tw_desk_answer *a)
{
	struct tw_errand *e;
	struct open_task *t;
	uint64_t count;
	bool wanted, again;

	pthread_mutex_lock(&d->lock);
	t = find(d, id);
	if (!t) {
		pthread_mutex_unlock(&d->lock);
		return TW_BAD_INPUT;
	}
	e = t->errand;
	count = t->count;
	close_task(d, t);
	wanted = !atomic_load(&e->c->cancel);
	if (a->status == TW_OK && wanted)
		add_score(e, a, count);
	again = a->status == TW_OK && wanted && is_score(e) && e->scored < e->c->in.count;
	if (again) { /* (4) */
		put_first(d, e);
		pthread_cond_signal(&d->more);
	}
	pthread_mutex_unlock(&d->lock);
	if (again)
		return TW_OK;
	if (a->status == TW_OK && wanted && !is_score(e))
		take_vector(d, e->c, a);
	e->c->score = e->sum;
	if (!is_score(e))
		e->c->score.correct = -1;
	e->c->status = wanted ? a->status : TW_CANCELLED;
	e->answered(e);
	return wanted ? TW_OK : TW_CANCELLED;
}

void tw_desk_copied(struct tw_desk *d, uint64_t *parameters, uint64_t *vectors)
{
	*parameters = atomic_load(&d->joined);
	*vectors = atomic_load(&d->copied);
}

/* --- the end --- */

void tw_desk_over(struct tw_desk *d)
{
	pthread_mutex_lock(&d->lock);
	d->over = true;
	pthread_cond_broadcast(&d->more);
	pthread_mutex_unlock(&d->lock);
}

void tw_desk_shut(struct tw_desk *d)
{
	pthread_mutex_lock(&d->lock);
	d->shut = true;
	pthread_cond_broadcast(&d->more);
	pthread_cond_broadcast(&d->answered);
	pthread_mutex_unlock(&d->lock);
}

void tw_desk_void(struct tw_desk *d)
{
	const struct tw_desk_answer none = { .status = TW_CANCELLED };
	uint64_t id = 0;

	do {
		pthread_mutex_lock(&d->lock);
		id = d->open ? d->open->id : 0;
		pthread_mutex_unlock(&d->lock);
		if (id)
			tw_desk_answer(d, id, &none);
	} while (id);
}
