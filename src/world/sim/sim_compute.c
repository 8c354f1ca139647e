/* SPDX-License-Identifier: Apache-2.0 */
/* sim_compute.c - laws of computing time, and the pool that runs what the simulator times.
 *
 *  (1) a job's inputs belong to its actor, so nothing may run it once tw_job_drop or tw_job_finish
 *      has returned.
 *  (2) what a job computes does not depend on the thread; when it is asked for does not depend on
 *      when it was ready: the number of threads never shows in a result. */
#include "world/sim/sim_compute.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

/* Below this many operations handing a job to another thread costs more than doing it. */
#define SMALL_JOB 20000.0

/* Gamma of mean 1 by Marsaglia and Tsang (2000); each try k has counters of its own. */
static double gamma_draw(const struct tw_rng *r, double shape, uint64_t a, uint64_t b)
{
	const double k = shape < 1.0 ? shape + 1.0 : shape;
	const double d = k - 1.0 / 3.0, c = 1.0 / sqrt(9.0 * d);
	double boost = 1.0;

	if (shape < 1.0)
		boost = pow(tw_rng_uniform(r, a, tw_sim_mix(b, 1)), 1.0 / shape);
	for (uint64_t try = 1;; try++) {
		const double x = tw_rng_gauss(r, a, tw_sim_mix(b, 2 * try));
		const double u = tw_rng_uniform(r, a, tw_sim_mix(b, 2 * try + 1));
		const double t = 1.0 + c * x, v = t * t * t;

		if (t > 0.0 && log(u) < 0.5 * x * x + d - d * v + d * log(v))
			return boost * d * v / shape;
	}
}

double tw_law_draw(const struct tw_sim_options *o, const struct tw_rng *r, uint64_t a, uint64_t b)
{
	const double mean = (double)o->mean;

	switch (o->law) {
	case TW_LAW_UNIFORM:
		return mean * (1.0 + o->spread * (2.0 * tw_rng_uniform(r, a, b) - 1.0));
	case TW_LAW_LOG_NORMAL:
		return (double)o->median * exp(o->sigma * tw_rng_gauss(r, a, b));
	case TW_LAW_EXPONENTIAL:
		return -mean * log(tw_rng_uniform(r, a, b));
	case TW_LAW_GAMMA:
		return mean * gamma_draw(r, o->shape, a, b);
	case TW_LAW_PARETO:
		return mean * (o->shape - 1.0) / o->shape *
		       pow(tw_rng_uniform(r, a, b), -1.0 / o->shape);
	default:
		return mean;
	}
}

struct helper {
	pthread_t thread;
	struct pool *pool;
	struct scratch scratch;
};

static void run(const struct pool *p, struct scratch *scratch, struct job *j)
{
	j->status = p->desk ? tw_desk_run(p->desk, j->c)
			    : tw_scratch_run(scratch, p->heap, p->engine, &j->c->in, j->c);
}

/* The first job of the line, JOB_RUNNING now; the lock is held. */
static struct job *take(struct pool *p, struct job *j)
{
	*(j->line_before ? &j->line_before->line : &p->first) = j->line;
	*(j->line ? &j->line->line_before : &p->last) = j->line_before;
	j->state = JOB_RUNNING;
	return j;
}

/* Run a job that was taken, without the lock in between. */
static void run_taken(struct pool *p, struct scratch *scratch, struct job *j)
{
	pthread_mutex_unlock(&p->lock);
	run(p, scratch, j);
	pthread_mutex_lock(&p->lock);
	j->state = JOB_DONE;
	pthread_cond_signal(&p->done);
}

static void *help(void *arg)
{
	struct helper *h = arg;
	struct pool *p = h->pool;

	pthread_mutex_lock(&p->lock);
	while (!p->ending) {
		if (p->first)
			run_taken(p, &h->scratch, take(p, p->first));
		else
			pthread_cond_wait(&p->work, &p->lock);
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

static bool add_helper(struct pool *p)
{
	struct helper *h = &p->helper[p->helpers];

	*h = (struct helper){ .pool = p };
	if (pthread_create(&h->thread, NULL, help, h))
		return false;
	p->helpers++;
	return true;
}

enum tw_status tw_job_pool_start(struct pool *p, const struct tw_engine *engine,
				 struct tw_desk *desk, uint32_t threads, struct tw_heap *heap)
{
	const long cores = sysconf(_SC_NPROCESSORS_ONLN);
	const uint32_t all = threads ? threads : cores > 0 ? (uint32_t)cores : 1;

	*p = (struct pool){ .engine = engine, .desk = desk, .heap = heap, .open = true };
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->work, NULL);
	pthread_cond_init(&p->done, NULL);
	p->helper = heap->get(heap, all * sizeof *p->helper);
	if (!p->helper)
		goto out_stop;
	while (p->helpers + 1 < all)
		if (!add_helper(p))
			goto out_stop;
	return TW_OK;

out_stop:
	tw_job_pool_stop(p);
	return TW_NO_MEMORY;
}

void tw_job_pool_stop(struct pool *p)
{
	if (!p->open)
		return;
	pthread_mutex_lock(&p->lock);
	p->ending = true;
	pthread_cond_broadcast(&p->work);
	pthread_mutex_unlock(&p->lock);
	for (uint32_t i = 0; i < p->helpers; i++) {
		pthread_join(p->helper[i].thread, NULL);
		p->heap->put(p->heap, p->helper[i].scratch.at);
	}
	p->heap->put(p->heap, p->helper);
	p->heap->put(p->heap, p->scratch.at);
	pthread_cond_destroy(&p->done);
	pthread_cond_destroy(&p->work);
	pthread_mutex_destroy(&p->lock);
	p->open = false;
}

void tw_job_submit(struct pool *p, struct job *j)
{
	j->lazy = !p->helpers || p->engine->cost * j->c->in.count < SMALL_JOB;
	if (j->lazy)
		return;
	pthread_mutex_lock(&p->lock);
	j->state = JOB_QUEUED;
	j->line = NULL;
	j->line_before = p->last;
	*(p->last ? &p->last->line : &p->first) = j;
	p->last = j;
	pthread_cond_signal(&p->work);
	pthread_mutex_unlock(&p->lock);
}

void tw_job_finish(struct pool *p, struct job *j)
{
	if (j->lazy) {
		run(p, &p->scratch, j);
	} else {
		pthread_mutex_lock(&p->lock);
		while (j->state != JOB_DONE) {
			if (j->state == JOB_QUEUED)
				run_taken(p, &p->scratch, take(p, j));
			else if (p->first) /* somebody has ours: do another meanwhile */
				run_taken(p, &p->scratch, take(p, p->first));
			else
				pthread_cond_wait(&p->done, &p->lock);
		}
		pthread_mutex_unlock(&p->lock);
	}
	j->c->status = j->status;
}

void tw_job_drop(struct pool *p, struct job *j)
{
	atomic_store(&j->c->cancel, true);
	if (j->lazy)
		return;
	pthread_mutex_lock(&p->lock);
	if (j->state == JOB_QUEUED)
		take(p, j)->state = JOB_DONE;
	while (j->state != JOB_DONE)
		pthread_cond_wait(&p->done, &p->lock);
	pthread_mutex_unlock(&p->lock);
}
