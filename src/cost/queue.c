/* SPDX-License-Identifier: Apache-2.0 */
/* queue.c - what exchanges with servers cost where there are no rounds.
 *
 * A closed queue: each worker computes, exchanges and computes again, and exchanges queue at the
 * busiest server's card (or its shards, if they apply slowly).  With b seconds of that card per
 * cycle and a cycle of R_k seconds on idle links, the workers make
 *
 *	X = sum of 1 / (R_k + W),   X <= 1 / b,
 *
 * where W is the wait.  If nothing is random, W is just what keeps X at 1 / b: workers find a
 * pattern in which none meets another.  If computing times vary much, a worker that arrives finds
 * on average what the others have in the queue, of which the one being served is half done (mean
 * value analysis with constant service).  In between W is a share of that. */
#include "cost/schedule.h"

#include <math.h>

#define HALVINGS 80
#define ORDER    0.5 /* a deviation of so many services makes half of the disorder */

/* What a worker does between two times at which it is in the same state. */
struct cycle {
	double steps;           /* batches computed */
	double pushes, fetches; /* of them, so many exchanges */
	double blocked;         /* seconds that it waits for answers on idle links */
	double in, out;         /* seconds of the busiest server's card */
	double own;             /* seconds of its own card, the busier direction */
	double applying;
	double latency; /* of `blocked` */
};

static bool takes(const struct tw_plan *plan)
{
	return !(plan->gate->traits & (TW_GATE_ROUNDS | TW_GATE_LOCKFREE));
}

static uint32_t common_divisor(uint32_t a, uint32_t b)
{
	while (b) {
		const uint32_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

/* Does it ask for parameters before it pushes, and wait for these only? */
static bool pulls_first(const struct tw_plan *p)
{
	return p->traffic.delta && p->traffic.merge == TW_MERGE_ELASTIC;
}

static struct cycle cycle_of(const struct tw_cost_case *c)
{
	const struct tw_cost_links *l = &c->links;
	const struct tw_traffic *t = &c->plan->traffic;
	const uint32_t push = c->push;
	const uint32_t fetch = c->push == t->push ? t->fetch : push;
	const double steps = (double)push * fetch / common_divisor(push, fetch);
	struct cycle y = { .steps = steps * c->plan->dealing.accumulate,
			   .pushes = steps / push,
			   .fetches = steps / fetch };

	if (pulls_first(c->plan)) {
		y.fetches = y.pushes;
		y.blocked = y.pushes * l->pull;
	} else { /* one fetch of the cycle is the answer to a push */
		y.blocked = l->exchange + (y.fetches - 1) * l->pull;
	}
	y.latency = y.fetches * 2 * l->latency;
	y.in = y.pushes * l->up * l->share;
	y.out = y.fetches * l->down * l->share;
	y.own = fmax(y.pushes * l->up, y.fetches * l->down);
	y.applying = y.pushes * l->applying;
	return y;
}

/* Cycles per second of all workers if each waits so long in every cycle. */
static double cycles(const struct tw_cost_case *c, const struct cycle *y, double mean, double wait)
{
	double sum = 0;

	for (uint32_t k = 0; k < c->workers; k++)
		sum += 1 / fmax(mean / tw_cost_speed(c, k) + y->blocked + wait, y->own);
	return sum;
}

/* The wait with which arrivals find what the others left; `service`: seconds of the bottleneck. */
static double random_wait(const struct tw_cost_case *c, const struct cycle *y, double mean,
			  double service)
{
	double low = 0, high = c->workers * service;

	for (int k = 0; k < HALVINGS; k++) {
		const double wait = (low + high) / 2;
		const double others = cycles(c, y, mean, wait) * (c->workers - 1.0) / c->workers;
		const double found = others * (service + wait) - others * service / 2;

		*(service * found > wait ? &low : &high) = wait;
	}
	return low;
}

/* The wait with which the bottleneck is just busy all the time; 0: it is not. */
static double busy_wait(const struct tw_cost_case *c, const struct cycle *y, double mean,
			double service)
{
	double low = 0, high = c->workers * service;

	if (cycles(c, y, mean, 0) * service <= 1)
		return 0;
	for (int k = 0; k < HALVINGS; k++) {
		const double wait = (low + high) / 2;

		*(cycles(c, y, mean, wait) * service > 1 ? &low : &high) = wait;
	}
	return low;
}

/* How many updates are made between what a worker computes on and what it pushes. */
static double staleness(const struct tw_cost_case *c, const struct cycle *y, double rate)
{
	const struct tw_plan *p = c->plan;
	const double others = c->workers - 1.0, per_fetch = y->pushes / y->fetches;
	const bool own = tw_plan_own_steps(p).rule; /* its own updates are in what it computes on */
	double late = others;
	uint32_t collect = 1;

	if (pulls_first(p))
		late = tw_cost_elastic(c, c->workers / (rate * y->pushes));
	else if (per_fetch > 1)
		late = others * (per_fetch + 1) / 2 + (own ? 0 : (per_fetch - 1) / 2);
	while (p->gate->full && collect < c->workers &&
	       !p->gate->full(p->gate_options, &(struct tw_collected){ .count = collect }))
		collect++;
	return late / collect;
}

/* The mean time that the slowest worker takes to compute so many steps. */
static double slowest(const struct tw_cost_case *c, double steps)
{
	const struct tw_cost_start start = { .workers = c->workers };
	struct tw_cost_law law;

	tw_cost_law_init(&law, c->sim, c->batch, steps);
	return tw_cost_last(c, &law, &start, c->workers);
}

/* Cycles per second where no worker may be far ahead of the slowest: those of the slowest worker,
 * over as many contributions as it takes until workers have drifted apart as far as they may.
 * They drift with the square root of the number of contributions, in both directions.  Who is held
 * does not queue. */
static double held(const struct tw_cost_case *c, const struct cycle *y, double mean, double wait)
{
	const double lead = c->plan->gate->lead(c->plan->gate_options);
	const double drift = 2 * (slowest(c, y->steps) - mean) / (mean + y->blocked + wait);
	const double many = fmax(lead + 1, drift > 0 ? pow(lead / drift, 2) : INFINITY);

	if (many > 1e6)
		return INFINITY;
	return c->workers / (slowest(c, y->steps * many) / many + y->blocked);
}

static void rate(const struct tw_cost_case *c, struct tw_cost_rate *out)
{
	const struct cycle y = cycle_of(c);
	const double service = fmax(fmax(y.in, y.out), y.applying);
	struct tw_cost_law law;
	double wait, disorder, all, each;

	tw_cost_law_init(&law, c->sim, c->batch, y.steps);
	disorder = isfinite(law.deviation) ? law.deviation / (law.deviation + ORDER * service) : 1;
	wait = fmax(busy_wait(c, &y, law.mean, service),
		    disorder * random_wait(c, &y, law.mean, service));
	all = cycles(c, &y, law.mean, wait);
	if (c->plan->gate->lead)
		all = fmin(all, held(c, &y, law.mean, wait));
	each = c->workers / all / y.steps; /* seconds per step of every worker */
	*out = (struct tw_cost_rate){
		.steps = all * y.steps,
		.parts = { .computing = tw_cost_mean(c, &law) / y.steps,
			   .latency = y.latency / y.steps },
		.pushes = y.pushes / y.steps,
		.fetches = y.fetches / y.steps,
		.staleness = staleness(c, &y, all),
	};
	out->parts.computing = fmin(out->parts.computing, each); /* quick workers step more often */
	out->parts.latency = fmin(out->parts.latency, each - out->parts.computing);
	*(y.applying > fmax(y.in, y.out) ? &out->parts.applying : &out->parts.link) =
		fmin((y.blocked - y.latency + wait) / y.steps,
		     each - out->parts.computing - out->parts.latency);
	out->parts.slowest = each - out->parts.computing - out->parts.latency - out->parts.link -
			     out->parts.applying;
}

const struct tw_cost_schedule tw_cost_queue = { takes, NULL, rate };
