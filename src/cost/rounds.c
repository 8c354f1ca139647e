/* SPDX-License-Identifier: Apache-2.0 */
/* rounds.c - what a round through servers costs (gates with TW_GATE_ROUNDS).
 *
 *	COMMIT → parameters to all, one after the other → computing → pushes of all → HAVE
 *
 * The servers send the parameters of one shard to all workers, then those of the next shard, so a
 * worker starts when the last message of its last shard is there.  Pushes queue at the server's
 * card.  The round ends when the gate's quorum is complete. */
#include "cost/schedule.h"

#include <math.h>
#include <stdlib.h>

static bool takes(const struct tw_plan *plan)
{
	return (plan->gate->traits & TW_GATE_ROUNDS) && !tw_plan_has_peers(plan);
}

static const char *unknown(const struct tw_plan *p)
{
	const uint32_t workers = p->crew.workers;

	if (workers > 1 && 2 * tw_gate_quorum(p->gate, p->gate_options, workers, 0) <= workers)
		return "rounds that do not wait for half of their workers are not modelled";
	return NULL;
}

/* How much later than the others the workers can start that the round before did not wait for.
 * They finish, push in vain, ask for work and pull, while the others hear of the commit and are
 * sent their parameters one after the other. */
static double come_back(const struct tw_cost_case *c, const struct tw_cost_law *law,
			const struct tw_cost_start *start, uint32_t quorum)
{
	const struct tw_cost_links *l = &c->links;
	const uint32_t typical = quorum + (start->workers - quorum + 1) / 2; /* of the late ones */
	const double after =
		tw_cost_last(c, law, start, typical) - tw_cost_last(c, law, start, quorum);

	return fmax(0, fmax(after, l->up) + 2 * l->latency + l->down - quorum * l->down * l->share);
}

static double round_of_servers(const struct tw_cost_case *c, uint32_t workers, double steps,
			       struct tw_cost_parts *parts)
{
	const struct tw_cost_links *l = &c->links;
	const struct tw_plan *p = c->plan;
	const uint32_t quorum = tw_gate_quorum(p->gate, p->gate_options, workers, 0);
	const double in = fmax(l->up * l->share, l->applying);
	const double shards = p->problem.shards;
	const double commit =
		shards * tw_cost_message(l, TW_COMMIT, quorum * sizeof(struct tw_member));
	const double leases = workers * tw_cost_message(l, TW_LEASE, 0);
	struct tw_cost_start start = { .workers = workers, .apart = l->down * l->last_share };
	const double spread = (quorum - 1) * start.apart;
	/* when the first worker has its parameters, if the last one has them `spread` later; late
	 * ones ask for theirs meanwhile */
	const double first = fmax(fmax(quorum * l->down * l->share, l->down), leases) - spread;
	double *time = malloc(quorum * sizeof *time), last, full;
	struct tw_cost_law law;

	tw_cost_law_init(&law, c->sim, c->batch, steps);
	if (!time)
		return NAN;
	if (quorum < workers)
		start.behind = come_back(c, &law, &start, quorum);
	start.late = workers - quorum;
	tw_cost_finished(c, &law, &start, quorum, time);
	last = time[quorum - 1];
	/* a push in vain may come before or after each message of the others */
	full = fmax(last + fmax(l->up, in),
		    time[0] + (quorum + start.late * (1 - 1.0 / (quorum * shards))) * in);
	for (uint32_t j = 1; j < quorum; j++)
		full = fmax(full, time[j] + (quorum - j) * in);
	free(time);
	full += first + l->applying + 4 * l->latency + commit + tw_cost_message(l, TW_HAVE, 0);
	*parts = (struct tw_cost_parts){ .computing = tw_cost_mean(c, &law),
					 .latency = 4 * l->latency,
					 .applying = l->applying };
	parts->slowest = fmax(0, last - spread - parts->computing);
	parts->link = full - parts->computing - parts->latency - parts->applying - parts->slowest;
	return full;
}

void tw_cost_rate_of_rounds(const struct tw_cost_case *c, tw_cost_round_fn *round_time,
			    struct tw_cost_rate *out)
{
	const struct tw_plan *p = c->plan;
	const double steps = p->dealing.accumulate * (p->traffic.delta ? (double)c->push : 1);
	const double stripe = c->batch * steps, samples = (double)p->problem.samples;
	const uint32_t quorum = tw_gate_quorum(p->gate, p->gate_options, c->workers, 0);
	struct tw_cost_parts parts;
	const double whole = round_time(c, c->workers, steps, &parts);
	double counted = quorum * steps, time = whole;

	/* the last round of an epoch has what is left */
	if (!tw_plan_crosses_epochs(p) && samples > 0) {
		const double full = floor(samples / (c->workers * stripe));
		const double left = ceil((samples - full * c->workers * stripe) / stripe - 1e-9);
		struct tw_cost_parts rest;

		if (full > 0 && full < 1e6 && left > 0) {
			const double share = (samples / stripe - full * c->workers) / left;
			const uint32_t few = (uint32_t)left;

			time = full * whole + round_time(c, few, steps, &rest);
			counted = full * counted +
				  share * steps * tw_gate_quorum(p->gate, p->gate_options, few, 0);
		}
	}
	*out = (struct tw_cost_rate){
		.steps = counted / time,
		.parts = { parts.computing / steps, parts.slowest / steps, parts.link / steps,
			   parts.latency / steps, parts.applying / steps },
		.pushes = c->workers / (quorum * steps), /* late ones are sent, too */
		.fetches = c->workers / (quorum * steps),
	};
}

static void rate(const struct tw_cost_case *c, struct tw_cost_rate *out)
{
	tw_cost_rate_of_rounds(c, round_of_servers, out);
}

const struct tw_cost_schedule tw_cost_rounds = { takes, unknown, rate };
