/* SPDX-License-Identifier: Apache-2.0 */
/* mixing.c - what replicas cost that differ and have no rounds.
 *
 * A worker reads its own replica and waits for nobody: a step takes its computing.  What passes
 * between replicas meanwhile only has to get through the cards: a worker cannot make more steps
 * than its card can send, or receive, contributions and parameters for. */
#include "cost/schedule.h"

#include <math.h>

#define NS 1e-9

static bool takes(const struct tw_plan *plan)
{
	return tw_plan_is_loose(plan) && !(plan->gate->traits & TW_GATE_ROUNDS);
}

/* Bytes that a worker sends for one contribution; it receives as many. */
static double bytes_of(const struct tw_cost_case *c)
{
	const struct tw_plan *p = c->plan;
	const double head = p->problem.shards * tw_cost_head(TW_SPREAD);
	const double vector = (double)p->problem.border[p->problem.shards] * sizeof(float) +
			      p->problem.shards * tw_cost_head(TW_MIX);

	return p->topology.mixing->bytes(p->crew.workers, vector,
					 tw_plan_spreads(p) ? c->links.up_bytes : head);
}

static void rate(const struct tw_cost_case *c, struct tw_cost_rate *out)
{
	const struct tw_plan *p = c->plan;
	const double steps = (double)c->push * p->dealing.accumulate;
	const double own = bytes_of(c) * c->links.per_byte / steps;
	const double local = 3 * NS * (double)c->sim->local; /* pull, parameters, push */
	struct tw_cost_law law;
	double mean = 0;

	tw_cost_law_init(&law, c->sim, c->batch, 1);
	*out = (struct tw_cost_rate){ .peers = 2 * bytes_of(c) / steps };
	for (uint32_t k = 0; k < c->workers; k++) {
		const double busy = law.mean / tw_cost_speed(c, k) + local / steps;

		out->steps += 1 / fmax(busy, own);
		mean += busy / c->workers;
	}
	out->parts = (struct tw_cost_parts){ .computing = mean - local / steps,
					     .latency = local / steps,
					     .link = fmax(0, c->workers / out->steps - mean) };
	if (tw_plan_spreads(p)) /* those of all others since it began, and those on their way */
		out->staleness = (c->workers - 1) + out->steps / steps *
							    (c->links.latency + c->links.up) *
							    (c->workers - 1.0) / c->workers;
}

const struct tw_cost_schedule tw_cost_mixing = { takes, NULL, rate };
