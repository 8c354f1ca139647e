/* SPDX-License-Identifier: Apache-2.0 */
/* mixing.c - what replicas cost that differ and have no rounds.
 *
 * A worker reads its own replica and waits for nobody: a step takes its computing.  What passes
 * between replicas meanwhile only has to get through the cards: a worker cannot make more steps
 * than its card can send, or receive, contributions for.  Parameters are exchanged as often as
 * there is time for: they hold nobody up, as long as one takes no more than a few steps.  Beyond
 * that, contributions queue behind parameters in the cards, and workers wait until others have
 * confirmed theirs. */
#include "cost/schedule.h"

#include <math.h>

#define NS 1e-9

#define STEPS_MOST 3 /* of an exchange of parameters */

static bool takes(const struct tw_plan *plan)
{
	return tw_plan_is_loose(plan) && !(plan->gate->traits & TW_GATE_ROUNDS);
}

/* Bytes that a worker sends for one contribution, with the exchange of parameters or without; it
 * receives as many. */
static double bytes_of(const struct tw_cost_case *c, bool parameters)
{
	const struct tw_plan *p = c->plan;
	const double head = p->problem.shards * tw_cost_head(TW_SPREAD);
	const double vector = (double)p->problem.border[p->problem.shards] * sizeof(float) +
			      p->problem.shards * tw_cost_head(TW_MIX);

	return p->topology.mixing->bytes(p->crew.workers, parameters ? vector : 0,
					 tw_plan_spreads(p) ? c->links.up_bytes : head);
}

static void rate(const struct tw_cost_case *c, struct tw_cost_rate *out)
{
	const struct tw_plan *p = c->plan;
	const double steps = (double)c->push * p->dealing.accumulate;
	const double own = bytes_of(c, false) * c->links.per_byte / steps;
	const double local = 3 * NS * (double)c->sim->local; /* pull, parameters, push */
	const double way =
		tw_plan_spreads(p) ? c->links.up : tw_cost_message(&c->links, TW_SPREAD, 0);
	struct tw_cost_law law;
	double mean = 0;

	tw_cost_law_init(&law, c->sim, c->batch, 1);
	*out = (struct tw_cost_rate){ .steps = 0 };
	for (uint32_t k = 0; k < c->workers; k++) {
		const double busy = law.mean / tw_cost_speed(c, k) + local / steps;

		out->steps += 1 / fmax(busy, own);
		mean += busy / c->workers;
	}
	if (p->topology.mixing->partner &&
	    (bytes_of(c, true) - bytes_of(c, false)) * c->links.per_byte > STEPS_MOST * mean)
		out->unknown = "an exchange of parameters takes longer than about three steps, and "
			       "how long workers wait for each other then is not modelled";
	out->parts = (struct tw_cost_parts){ .computing = mean - local / steps,
					     .latency = local / steps,
					     .link = fmax(0, c->workers / out->steps - mean) };
	out->peers = bytes_of(c, true) / steps;
	if (c->links.per_byte > 0) /* no more than the card takes meanwhile */
		out->peers = fmin(out->peers, c->workers / out->steps / c->links.per_byte);
	out->peers *= 2; /* sent and received */
	/* those of all others since it began, and those on their way */
	out->staleness = (c->workers - 1) + out->steps / steps * (c->links.latency + way) *
						    (c->workers - 1.0) / c->workers;
}

const struct tw_cost_schedule tw_cost_mixing = { takes, NULL, rate };
