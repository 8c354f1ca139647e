/* SPDX-License-Identifier: Apache-2.0 */
/* cost.h - what a plan costs: time, bytes and memory, without running it.
 *
 * Pure functions of a plan and of the prices of the simulator (struct tw_sim_options).  The parts
 * of a strategy say what they cost themselves: a gate its quorum, lead and collection, a codec its
 * bytes, rules and policies their arrays, a reduction its bytes and seconds.  What a schedule of
 * messages costs is one row of the schedules in cost.c: rounds through servers, rounds among peers,
 * or exchanges with servers without rounds.
 *
 * All times are in seconds, and those of a cluster that has been running for a while: no start, no
 * end, no checkpoints, no faults. */
#ifndef TW_COST_COST_H
#define TW_COST_COST_H

#include "actor/engine.h"
#include "node/plan.h"
#include "world/sim/sim.h"

/* What a step spends most of its time on, besides computing where it does not compute most. */
enum tw_cost_limit {
	TW_LIMIT_COMPUTING,
	TW_LIMIT_SLOWEST, /* waiting for the slowest worker */
	TW_LIMIT_LINK,    /* bytes through a network card */
	TW_LIMIT_LATENCY,
	TW_LIMIT_APPLYING, /* shards that update parameters */
	TW_LIMITS
};
extern const char *const tw_cost_limit_names[TW_LIMITS];

/* Where the time of a step goes. */
struct tw_cost_parts {
	double computing, slowest, link, latency, applying;
};

struct tw_cost {
	double step;                /* until every worker has computed one batch, on average */
	double samples_per_second;  /* of all workers */
	double alone;               /* samples per second of one machine that sends nothing */
	struct tw_cost_parts parts; /* of `step` */
	enum tw_cost_limit limit;
	double ratio;         /* bytes / bandwidth of one worker, over its computing time */
	double busiest_bytes; /* in and out of the busiest node, per step */
	double server_memory; /* bytes of the server that holds the most shards; 0: there is none */
	double worker_memory; /* ... of a worker, without its data set */
	double staleness;     /* mean, in updates */
	/* data.placement: on-demand (0: every worker has the samples): bytes that come to a worker
	 * with a step, all that leave the master, and all that would have if each worker had got
	 * the set once; and how many times longer a step takes than if samples were here. */
	double step_samples, run_samples, copies, slower;
	const char *unknown; /* not NULL: why there is no prediction; the rest is then void */
	char unknown_room[160];
};

/* `engine`: what workers compute with; the plan is finished with it.  `up_per_value`: bytes that
 * codec.up takes for each value, where that depends on the gradients; 0: not known. */
void tw_cost_predict(const struct tw_plan *plan, const struct tw_sim_options *sim,
		     const struct tw_engine *engine, double up_per_value, struct tw_cost *out);
/* The bandwidth, in bits per second, from which on the plan is faster than one machine: 0 at any
 * bandwidth, INFINITY at none. */
double tw_cost_crossover(const struct tw_plan *plan, const struct tw_sim_options *sim,
			 const struct tw_engine *engine, double up_per_value);

#endif
