/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c - what nodes hold of vectors: parameters and the version after them, arrays of rules and
 * policies, what was sent to workers, contributions that wait, copies of workers. */
#include "cost/memory.h"

static double vector(const struct tw_plan *p)
{
	return (double)(p->problem.trainable + p->problem.buffers) * sizeof(float);
}

/* Bytes of all shards that `workers` contribute to. */
static double shards(const struct tw_plan *p, const struct tw_cost_links *l, double workers)
{
	const struct tw_rule *far = p->far.rule;
	/* contributions wait for the master's word */
	const bool waits = (p->gate->traits & TW_GATE_ROUNDS) || tw_plan_judges(p);
	double vectors = 2 + far->arrays + p->staleness->arrays; /* parameters, and the next ones */

	if (far->traits & TW_RULE_PER_WORKER)
		vectors += workers;
	if (tw_rule_shows(far, p->far.options))
		vectors += far->traits & TW_RULE_VIEW_MINE ? workers : 1;
	if (p->staleness->traits & TW_STALENESS_SENT)
		vectors += workers;
	if (!(p->traffic.down->traits & TW_CODEC_IDENTITY))
		vectors += l->down_bytes / vector(p);
	return vectors * vector(p) + (waits ? workers : 1) * l->up_bytes;
}

double tw_cost_server_memory(const struct tw_plan *p, const struct tw_cost_links *l)
{
	return l->share * shards(p, l, p->crew.workers);
}

double tw_cost_replica_memory(const struct tw_plan *p, const struct tw_cost_links *l)
{
	return shards(p, l, 1) + vector(p); /* the sum */
}

double tw_cost_worker_memory(const struct tw_plan *p, const struct tw_cost_links *l,
			     const struct tw_engine *engine)
{
	const struct tw_half own = tw_plan_own_steps(p);
	double vectors = 2; /* what it was sent, and a gradient */
	double bytes = (double)engine->scratch_bytes;

	if (p->dealing.accumulate > 1)
		vectors++;
	if (p->traffic.push > 1)
		vectors++; /* the sum, or the delta */
	if (p->near.rule && !p->traffic.delta)
		vectors++; /* the momentum */
	if (own.rule)
		vectors += (p->traffic.cache ? 1 : 2) + own.rule->arrays +
			   tw_rule_shows(own.rule, own.options);
	if (!(p->traffic.up->traits & TW_CODEC_IDENTITY))
		bytes += l->up_bytes;
	if (p->traffic.up->state_bytes)
		bytes += (double)p->traffic.up->state_bytes(
			p->traffic.up_options, p->problem.trainable + p->problem.buffers);
	return vectors * vector(p) + bytes;
}
