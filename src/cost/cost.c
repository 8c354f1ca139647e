/* SPDX-License-Identifier: Apache-2.0 */
/* cost.c - what a plan costs: its schedule of messages, its bytes, its memory. */
#include "cost/cost.h"

#include "cost/memory.h"
#include "cost/schedule.h"

#include <math.h>
#include <stdio.h>

const char *const tw_cost_limit_names[TW_LIMITS] = {
	[TW_LIMIT_COMPUTING] = "computing", [TW_LIMIT_SLOWEST] = "slowest worker",
	[TW_LIMIT_LINK] = "network card",   [TW_LIMIT_LATENCY] = "latency",
	[TW_LIMIT_APPLYING] = "applying",
};

static const struct tw_cost_schedule *const schedules[] = { &tw_cost_rounds, &tw_cost_peers,
							    &tw_cost_mixing, &tw_cost_queue };

static const struct tw_cost_schedule *schedule_of(const struct tw_plan *plan)
{
	for (size_t k = 0; k < sizeof schedules / sizeof schedules[0]; k++)
		if (schedules[k]->takes(plan))
			return schedules[k];
	return NULL;
}

/* What no cost function knows. */
static const char *not_modelled(const struct tw_plan *p, const struct tw_sim_options *s)
{
	const struct tw_cost_schedule *schedule = schedule_of(p);

	if (tw_plan_optimises(p))
		return "how many evaluations an optimiser needs is not known beforehand";
	if (tw_plan_is_staged(p))
		return "thalweg plan --schedule predicts stages";
	if (!isnan(p->traffic.skip_push) || !isnan(p->traffic.skip_fetch))
		return "what is skipped depends on the gradients";
	if (p->traffic.adaptive && (s->speeds.count > 1 || s->stragglers))
		return "adaptive periods of workers of different speed are not modelled";
	if (tw_gate_drops(p->gate, p->gate_options))
		return "how many gradients come too late is not modelled";
	if ((p->gate->traits & TW_GATE_HOLDS) && !p->gate->lead)
		return "how far workers may run ahead of each other is not always the same";
	if (tw_plan_streams(p))
		return "parts of the parameters in turn, and delayed answers, are not modelled";
	if (p->traffic.overlap)
		return "computing on while parameters are fetched is not modelled";
	if (p->traffic.cache)
		return "how often a worker's parameters are too old is not modelled";
	if (s->by_label.count || s->by_sample.count)
		return "samples that take longer than others are not modelled";
	if (p->traffic.average_state)
		return "the bytes of an averaged state are not modelled";
	if (s->stragglers && s->straggle_on && s->straggle_off)
		return "stragglers that come and go are not modelled";
	if (s->random_crashes || s->random_partitions || s->random_resets || s->random_slow)
		return "faults are not modelled";
	if (!schedule)
		return "this gate exchanges nothing that could be counted";
	return schedule->unknown ? schedule->unknown(p) : NULL;
}

static double batch_of(const struct tw_plan *p, uint32_t workers)
{
	return p->dealing.global_batch ? (double)p->dealing.global_batch / workers
				       : p->dealing.batch;
}

static double alone(const struct tw_plan *p, const struct tw_sim_options *s)
{
	const double batch = batch_of(p, 1);
	struct tw_cost_law law;

	tw_cost_law_init(&law, s, batch, 1);
	return batch / law.mean;
}

static enum tw_cost_limit limit_of(const struct tw_cost_parts *t)
{
	const double by[TW_LIMITS] = { [TW_LIMIT_COMPUTING] = t->computing,
				       [TW_LIMIT_SLOWEST] = t->slowest,
				       [TW_LIMIT_LINK] = t->link,
				       [TW_LIMIT_LATENCY] = t->latency,
				       [TW_LIMIT_APPLYING] = t->applying };
	enum tw_cost_limit most = TW_LIMIT_COMPUTING;

	for (int k = 0; k < TW_LIMITS; k++)
		if (by[k] > by[most])
			most = (enum tw_cost_limit)k;
	return most;
}

/* a, of which `share` is b instead. */
static void mix(struct tw_cost_rate *a, const struct tw_cost_rate *b, double share)
{
	const double rest = 1 - share;

	a->steps = 1 / (rest / a->steps + share / b->steps);
	a->parts.computing = rest * a->parts.computing + share * b->parts.computing;
	a->parts.slowest = rest * a->parts.slowest + share * b->parts.slowest;
	a->parts.link = rest * a->parts.link + share * b->parts.link;
	a->parts.latency = rest * a->parts.latency + share * b->parts.latency;
	a->parts.applying = rest * a->parts.applying + share * b->parts.applying;
	a->pushes = rest * a->pushes + share * b->pushes;
	a->fetches = rest * a->fetches + share * b->fetches;
	a->peers = rest * a->peers + share * b->peers;
	a->staleness = rest * a->staleness + share * b->staleness;
}

/* Steps before `push_from` are pushed one by one. */
static void rate_of(const struct tw_cost_case *c, struct tw_cost_rate *out)
{
	const struct tw_plan *p = c->plan;
	const struct tw_cost_schedule *s = schedule_of(p);
	const double single = (double)p->traffic.push_from / (double)p->dealing.positions;
	struct tw_cost_case before = *c;
	struct tw_cost_rate first;

	s->rate(c, out);
	if (!p->traffic.push_from)
		return;
	before.push = 1;
	s->rate(&before, &first);
	mix(out, &first, fmin(single, 1));
}

/* Samples come while their worker computes.  All of them go through the card of the master, which
 * sends nothing else to speak of, and those of a worker through its card, as its parameters do. */
static void add_samples(const struct tw_cost_case *c, const struct tw_engine *e,
			const struct tw_cost_rate *rate, struct tw_cost *out)
{
	const struct tw_plan *p = c->plan;
	const uint32_t batch = (uint32_t)(c->batch < 1 ? 1 : c->batch);
	const double own = (double)e->class->given_bytes(e, batch) / batch * c->batch;
	const double bytes = own + tw_cost_head(TW_SAMPLES);
	const double card =
		(rate->fetches * c->links.down_bytes + rate->peers + bytes) * c->links.per_byte;
	const double least = fmax(c->workers * bytes * c->links.per_byte, card);
	const double before = out->step;

	out->step_samples = bytes;
	out->run_samples = own / c->batch * (double)p->dealing.positions;
	out->copies = own / c->batch * (double)p->problem.samples * c->workers;
	if (least > out->step) {
		out->parts.link += least - out->step;
		out->step = least;
		out->samples_per_second = c->workers * c->batch / least;
		out->limit = limit_of(&out->parts);
	}
	out->slower = out->step / before;
	out->ratio += bytes * c->links.per_byte / rate->parts.computing;
	out->busiest_bytes = fmax(out->busiest_bytes, c->workers * bytes);
}

void tw_cost_predict(const struct tw_plan *p, const struct tw_sim_options *sim,
		     const struct tw_engine *engine, double up_per_value, struct tw_cost *out)
{
	struct tw_cost_case c = { .plan = p,
				  .sim = sim,
				  .workers = p->crew.workers,
				  .push = p->traffic.push,
				  .batch = batch_of(p, p->crew.workers) };
	const struct tw_codec *codec = NULL;
	struct tw_cost_rate rate;
	double through;

	*out = (struct tw_cost){ .unknown = not_modelled(p, sim) };
	if (!tw_cost_links_init(&c.links, p, sim, up_per_value, &codec)) {
		snprintf(out->unknown_room, sizeof out->unknown_room,
			 "what the codec %s sends depends on the gradients", codec->name);
		out->unknown = out->unknown_room;
	}
	if (out->unknown)
		return;
	rate_of(&c, &rate);
	out->unknown = rate.unknown;
	if (out->unknown)
		return;
	out->step = c.workers / rate.steps;
	out->samples_per_second = rate.steps * c.batch;
	out->alone = alone(p, sim);
	out->parts = rate.parts;
	out->limit = limit_of(&rate.parts);
	through = rate.pushes * c.links.up_bytes + rate.fetches * c.links.down_bytes + rate.peers;
	out->ratio = through * c.links.per_byte / rate.parts.computing;
	out->busiest_bytes = through * fmax(1, c.workers * c.links.share);
	if (tw_plan_sends_samples(p))
		add_samples(&c, engine, &rate, out);
	out->worker_memory = tw_cost_worker_memory(p, &c.links, engine);
	if (tw_plan_has_peers(p))
		out->worker_memory += tw_cost_replica_memory(p, &c.links);
	else
		out->server_memory = tw_cost_server_memory(p, &c.links);
	out->staleness = rate.staleness;
}

static bool is_faster(const struct tw_plan *plan, const struct tw_sim_options *sim,
		      const struct tw_engine *engine, double up_per_value, double bandwidth)
{
	struct tw_sim_options with = *sim;
	struct tw_cost cost;

	with.bandwidth = bandwidth;
	tw_cost_predict(plan, &with, engine, up_per_value, &cost);
	return !cost.unknown && cost.samples_per_second > cost.alone;
}

double tw_cost_crossover(const struct tw_plan *plan, const struct tw_sim_options *sim,
			 const struct tw_engine *engine, double up_per_value)
{
	double low = 0, high = 15; /* powers of ten */

	if (!is_faster(plan, sim, engine, up_per_value, 0)) /* no limit */
		return INFINITY;
	if (is_faster(plan, sim, engine, up_per_value, 1))
		return 0;
	while (high - low > 1e-4) {
		const double middle = (low + high) / 2;

		*(is_faster(plan, sim, engine, up_per_value, pow(10, middle)) ? &high : &low) =
			middle;
	}
	return pow(10, high);
}
