/* SPDX-License-Identifier: Apache-2.0 */
/* elastic.c - how stale exchanges are that fetch first and push then, played over network cards.
 *
 * Such an exchange is late by the pushes of others that come between the parameters it fetched and
 * its own push.  How many these are depends on where in their cycles the others are:
 *
 *	Where computing takes always the same time, workers that began together stay together.  Of
 *	any two of them one comes first, so the mean is (N - 1) / 2, whatever the period is.
 *	Where it varies, they drift apart; in the end they are anywhere in their cycles, and the
 *	mean is (N - 1) times the time between fetch and push, over the period.
 *
 * A pull that arrives while a push does waits behind it and is not late by it.  So full cards keep
 * workers apart, and there is no formula: the messages of the first cycles are played.  A run that
 * is longer than that begins with workers that are anywhere, unless nothing moves them apart. */
#include "cost/schedule.h"

#include "base/rng.h"
#include "cost/events.h"

#include <math.h>
#include <stdlib.h>

#define MESSAGES 60000 /* that are played */
#define CYCLES   4     /* at least so many of each worker */
#define SHARDS   16    /* more of them are taken together */

enum kind { READY, PULL, PARAMS, PUSH }; /* READY: a worker has computed */

struct play {
	const struct tw_cost_case *c;
	struct tw_cost_law law; /* between two exchanges */
	struct tw_rng rng;
	uint64_t draws;
	uint32_t shards, servers;
	double up, down, pull, applying; /* seconds of a shard's message */
	double *egress, *ingress;        /* when a card is free again: workers, then servers */
	double busy[SHARDS];             /* until when a shard applies */
	uint64_t version[SHARDS];
	uint64_t *base;    /* by worker and shard: the version that it was shown */
	uint32_t *missing; /* by worker: answers */
	bool *began;
	struct tw_cost_events events;
	uint64_t left, done; /* exchanges */
	double late;
};

static double draw(struct play *p)
{
	return tw_rng_uniform(&p->rng, 0, p->draws++);
}

static double computes(struct play *p, uint32_t worker)
{
	const double t = p->law.constant ? p->law.mean
					 : tw_cost_law_above(&p->law, fmax(1 - draw(p), 1e-12));

	return t / tw_cost_speed(p->c, worker);
}

static uint32_t server_of(const struct play *p, uint32_t shard)
{
	return p->c->workers + shard % p->servers;
}

static void send(struct play *p, double at, uint32_t from, uint32_t to, enum kind kind,
		 uint32_t worker, uint32_t shard)
{
	const double lasts = kind == PULL ? p->pull : kind == PUSH ? p->up : p->down;
	const double jitter = 1e-9 * (double)p->c->sim->jitter;
	const double start = fmax(at, p->egress[from]);

	p->egress[from] = start + lasts;
	tw_cost_events_add(&p->events, (struct tw_cost_event){
					       .at = start + p->c->links.latency +
						     (jitter > 0 ? jitter * (draw(p) - 0.5) : 0),
					       .lasts = lasts,
					       .kind = kind,
					       .to = to,
					       .part = worker,
					       .move = shard });
}

/* To the servers, one shard after the other. */
static void to_all(struct play *p, double at, uint32_t worker, enum kind kind)
{
	for (uint32_t s = 0; s < p->shards; s++)
		send(p, at, worker, server_of(p, s), kind, worker, s);
}

/* All parameters are there: push, and compute on. */
static void exchanged(struct play *p, double at, uint32_t worker)
{
	if (p->began[worker])
		to_all(p, at, worker, PUSH);
	p->began[worker] = true;
	if (!p->left)
		return;
	p->left--;
	tw_cost_events_add(&p->events, (struct tw_cost_event){ .at = at + computes(p, worker),
							       .kind = READY,
							       .part = worker });
}

/* Messages to a card are received in the order in which their first bytes come: so they may be
 * taken as received then. */
static void happens(struct play *p, const struct tw_cost_event *e)
{
	const uint32_t worker = e->part, s = e->move;
	double at = e->at;

	if (e->kind == READY) {
		p->missing[worker] = p->shards;
		to_all(p, at, worker, PULL);
		return;
	}
	at = p->ingress[e->to] = fmax(at, p->ingress[e->to]) + e->lasts;
	if (e->kind == PARAMS) {
		if (!--p->missing[worker])
			exchanged(p, at, worker);
		return;
	}
	at = p->busy[s] = fmax(at, p->busy[s]) + (e->kind == PUSH ? p->applying : 0);
	if (e->kind == PULL) {
		p->base[(size_t)worker * p->shards + s] = p->version[s];
		send(p, at, e->to, worker, PARAMS, worker, s);
		return;
	}
	p->late += (double)(p->version[s]++ - p->base[(size_t)worker * p->shards + s]);
	p->done++;
}

/* The first worker fetches at 0, the others as they get their first samples, or anywhere in a
 * period. */
static double play(struct play *p, double period, bool anywhere)
{
	const double next = tw_cost_message(&p->c->links, TW_LEASE, 0);

	for (uint32_t k = 0; k < p->c->workers; k++)
		tw_cost_events_add(&p->events, (struct tw_cost_event){
						       .at = anywhere ? period * draw(p) : k * next,
						       .kind = READY,
						       .part = k });
	while (p->events.count && !p->events.full) {
		const struct tw_cost_event e = tw_cost_events_next(&p->events);

		happens(p, &e);
	}
	return p->events.full ? NAN : p->done ? p->late / (double)p->done : 0;
}

double tw_cost_elastic(const struct tw_cost_case *c, double period)
{
	const struct tw_plan *plan = c->plan;
	const uint32_t all = plan->problem.shards, cards = c->workers + plan->crew.servers;
	struct play p = { .c = c,
			  .rng = tw_rng_make(0, TW_RNG_SIM),
			  .shards = all < SHARDS ? all : SHARDS,
			  .servers = plan->crew.servers,
			  .pull = tw_cost_message(&c->links, TW_PULL, 0),
			  .applying = c->links.applying };
	const double steps = (double)c->push * plan->dealing.accumulate;
	const double run = floor((double)plan->dealing.positions / (c->batch * steps));
	const double most = fmax(CYCLES * (double)c->workers, floor(MESSAGES / (3.0 * p.shards)));
	double late = NAN;

	tw_cost_law_init(&p.law, c->sim, c->batch, steps);
	p.up = c->links.up / p.shards;
	p.down = c->links.down / p.shards;
	p.left = (uint64_t)fmin(run, most);
	p.egress = calloc(cards, sizeof *p.egress);
	p.ingress = calloc(cards, sizeof *p.ingress);
	p.base = calloc((size_t)c->workers * p.shards, sizeof *p.base);
	p.missing = calloc(c->workers, sizeof *p.missing);
	p.began = calloc(c->workers, sizeof *p.began);
	if (p.egress && p.ingress && p.base && p.missing && p.began)
		late = play(&p, period, run > most && !(p.law.constant && !c->sim->jitter));
	free(p.egress);
	free(p.ingress);
	free(p.base);
	free(p.missing);
	free(p.began);
	tw_cost_events_release(&p.events);
	return late;
}
