/* SPDX-License-Identifier: Apache-2.0 */
/* peers.c - what a round without a server costs.
 *
 *	COMMIT, LEASE → computing → the sum, from peer to peer → HAVE
 *
 * The master tells every shard of every replica to commit, and hears from all of them when they
 * have the sum.  Parameters and contributions do not leave their node.  The sum is made when the
 * last worker has finished; some of it before, by those that were earlier.  Where replicas mix in
 * rounds, a sum of parameters takes the place of that of contributions, and is made while workers
 * compute. */
#include "cost/cards.h"
#include "cost/schedule.h"

#include <math.h>
#include <stdlib.h>

#define NS 1e-9

static bool takes(const struct tw_plan *plan)
{
	return tw_plan_has_peers(plan) && (plan->gate->traits & TW_GATE_ROUNDS);
}

/* Values of one message, at most, of a slice of n. */
static double longest(const struct tw_plan *p, size_t n)
{
	return tw_plan_gathers(p) ? (double)n : TW_REDUCE_FLOATS;
}

/* Messages that carry one vector from one peer to another, chunk by chunk. */
static double pieces_of(const struct tw_plan *p, size_t n, uint32_t chunks)
{
	double pieces = 0;

	for (uint32_t k = 0; k < chunks; k++) {
		const size_t length =
			tw_reduction_border(n, chunks, k + 1) - tw_reduction_border(n, chunks, k);

		pieces += ceil((double)length / longest(p, n));
	}
	return pieces;
}

/* Shards are added up side by side, so a chunk of all of them goes in as many messages. */
static struct tw_reduction_load load_of(const struct tw_cost_case *c)
{
	const struct tw_plan *p = c->plan;
	const struct tw_cost_links *l = &c->links;
	const double payload = l->up_bytes - p->problem.shards * tw_cost_head(TW_PUSH);
	const uint32_t peers = c->plan->crew.workers;
	const uint32_t chunks = tw_plan_round(p)->chunks(peers);
	struct tw_reduction_load load = { .peers = peers,
					  .latency = l->latency,
					  .per_byte = l->per_byte };
	double pieces = 0, largest = 0;

	for (uint32_t k = 0; k < p->problem.shards; k++) {
		const size_t n = p->problem.border[k + 1] - p->problem.border[k];

		pieces += pieces_of(p, n, chunks);
		largest = fmax(largest, fmin(ceil((double)n / chunks), longest(p, n)));
	}
	load.bytes = payload + pieces * tw_cost_head(TW_REDUCE);
	load.part = largest * payload / (double)p->problem.border[p->problem.shards] +
		    tw_cost_head(TW_REDUCE);
	return load;
}

/* A shard that applies slowly takes its time for every piece that comes, too, while others are on
 * their way. */
static struct tw_reduction_load slowed(const struct tw_cost_case *c, struct tw_reduction_load load)
{
	const double rate = c->sim->apply_rate * c->plan->problem.shards * sizeof(float);

	if (rate > 0) {
		load.latency += load.part / rate;
		load.per_byte = fmax(load.per_byte, 1 / rate);
	}
	return load;
}

/* The time of the sum that is left when the last worker has finished; *last: when that is. */
static double sum_left(const struct tw_cost_case *c, const struct tw_cost_law *law,
		       uint32_t workers, double *last)
{
	const struct tw_reduction *r = tw_plan_round(c->plan);
	const struct tw_reduction_load load = slowed(c, load_of(c));
	const struct tw_cost_start start = { .workers = workers };
	const uint32_t idle = load.peers - workers; /* they have nothing to compute */
	double *ready = calloc(load.peers, sizeof *ready), left = NAN;

	*last = NAN;
	if (!ready)
		return NAN;
	tw_cost_finished(c, law, &start, workers, ready + idle);
	*last = ready[load.peers - 1];
	left = tw_plan_is_loose(c->plan) ? fmax(0, tw_cost_reduction(r, &load) - *last)
					 : tw_cost_reduction_left(r, &load, ready);
	free(ready);
	return left;
}

static double round_of_peers(const struct tw_cost_case *c, uint32_t workers, double steps,
			     struct tw_cost_parts *parts)
{
	const struct tw_cost_links *l = &c->links;
	const double replicas = (double)c->plan->problem.shards * c->plan->crew.workers;
	const double commits = replicas * tw_cost_message(l, TW_COMMIT, sizeof(struct tw_span));
	const double leases = workers * tw_cost_message(l, TW_LEASE, 0);
	const double haves = replicas * tw_cost_message(l, TW_HAVE, 0);
	const double local = 3 * NS * (double)c->sim->local; /* pull, parameters, push */
	struct tw_reduction_load idle = load_of(c);
	struct tw_cost_law law;
	double last, sum, hops;

	tw_cost_law_init(&law, c->sim, c->batch, steps);
	sum = sum_left(c, &law, workers, &last);
	idle.per_byte = 0;
	hops = fmin(sum, tw_cost_reduction(tw_plan_round(c->plan), &idle));
	*parts = (struct tw_cost_parts){ .computing = tw_cost_mean(c, &law),
					 .latency = 2 * l->latency + hops + local,
					 .applying = l->applying };
	parts->slowest = fmax(0, last - parts->computing);
	parts->link = commits + leases + haves + fmax(0, sum - hops);
	return parts->computing + parts->slowest + parts->link + parts->latency + parts->applying;
}

static void rate(const struct tw_cost_case *c, struct tw_cost_rate *out)
{
	const struct tw_plan *p = c->plan;
	const double steps = p->dealing.accumulate * (p->traffic.delta ? (double)c->push : 1);
	const struct tw_reduction_load load = load_of(c);

	tw_cost_rate_of_rounds(c, round_of_peers, out);
	out->pushes = out->fetches = 0;
	out->peers = 2 * tw_plan_round(p)->busiest(&load) / steps; /* sent and received */
}

const struct tw_cost_schedule tw_cost_peers = { takes, NULL, rate };
