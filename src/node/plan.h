/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h - everything the actors are told: a job with every preset and default spelled out.
 *
 * Made once by job/, the same on every node, never changed.  Actors get a pointer to it as the
 * `arg` of their seat (struct tw_role_arg). */
#ifndef TW_NODE_PLAN_H
#define TW_NODE_PLAN_H

#include "actor/actor.h"
#include "base/sha.h"
#include "strategy/codec.h"
#include "strategy/gate.h"
#include "strategy/rule.h"
#include "strategy/staleness.h"

enum tw_sends { TW_SEND_GRADIENT, TW_SEND_MOMENTUM };
enum tw_merges { TW_MERGE_REPLACE, TW_MERGE_KEEP };
enum tw_delay_law { TW_DELAY_CONSTANT, TW_DELAY_UNIFORM, TW_DELAY_GEOMETRIC };

/* A worker whose contributions are not finite so often in a row, while others' are, is let go. */
#define TW_STRIKES 8

struct tw_plan {
	/* the problem */
	uint64_t seed;
	size_t trainable, buffers;
	uint32_t shards;
	const size_t *border; /* shards + 1, over trainable + buffers; border[0] = 0 */
	uint64_t samples, tests;

	/* dealing, in global positions (epoch * samples + place) */
	uint32_t batch;        /* per worker and step, unless global_batch */
	uint32_t global_batch; /* 0: none; else slot k of N gets floor(G(k+1)/N) - floor(Gk/N) */
	uint32_t accumulate;   /* batches per step's gradient, summed in order */
	uint64_t positions;    /* deal [0, positions) */
	uint64_t updates;      /* round gates: stop after so many rounds; 0: no limit */
	int64_t time_limit;    /* ns of the world's clock; 0: none */
	double until_loss;     /* stop when an evaluation is at or below; NAN: never */
	double until_accuracy; /* ... at or above; NAN: never */
	uint32_t warm_workers; /* so many workers alone ... */
	uint64_t warm_until;   /* ... until this position is dealt; 0: no warm start */
	double evaluate_every; /* epochs between evaluations; 0: only at the end */

	/* members; node 0 is the master, 1..servers the servers, then the workers */
	uint32_t workers, min, servers;
	int64_t wait;  /* see cluster.wait */
	int64_t limit; /* heartbeat limit: what one may wait for somebody silent */
	int64_t stuck; /* ... for somebody who answers and does not work, at least; 0: for ever */

	/* the line */
	const struct tw_gate *gate;
	const void *gate_options;
	const struct tw_staleness *staleness;
	const void *staleness_options;
	const struct tw_rule *rule;
	const void *rule_options;
	const struct tw_codec *up, *down;
	const void *up_options, *down_options;
	enum tw_sends send;
	uint32_t push, fetch; /* steps between pushes, between fetches */
	enum tw_merges merge; /* at a fetch: replace, or keep own steps that were not pushed yet */
	const struct tw_rule *local; /* steps between fetches; NULL: none.  No per-worker rules */
	const void *local_options;
	float local_rate;
	double skip_push, skip_fetch; /* B-FASGD's c; NAN: never skips */
	float clip;                   /* longest gradient norm; 0: any */
	float decay;                  /* weight decay; 0 none */
	struct tw_schedule schedule;

	/* the staleness experiment (sim.delay): gradients computed d versions back */
	uint32_t delay; /* 0: none */
	enum tw_delay_law delay_law;
	double delay_ramp; /* epochs over which the delay grows from 0 */

	/* checkpoints */
	int64_t checkpoint_every; /* ns; 0: only when asked to stop */
	bool checkpoint_final;    /* also at the end */
	bool drain;               /* cut: drain; else running */
	uint64_t stop_after_cuts; /* end as interrupted after so many; 0: never */
	int64_t save_time;        /* what saving takes on the world's clock (sim); 0: not known */
	struct tw_sha job_hash;   /* of what must be the same to resume */

	bool gaps; /* APPLY notes carry before/sent for the gap metric */
};

struct tw_role_arg {
	const struct tw_plan *plan;
	uint32_t index; /* shard number; worker's wanted slot */
	bool resume; /* master: the world's clock goes on from the cut's (sim): release on time */
};

extern const struct tw_actor_class tw_master_class, tw_server_class, tw_shard_class,
	tw_worker_class;

/* Snapshots of what a worker was sent that may still be computed on. */
static inline uint32_t tw_plan_memory(const struct tw_plan *p)
{
	switch (p->delay ? p->delay_law : TW_DELAY_CONSTANT) {
	case TW_DELAY_UNIFORM:
		return 2 * p->delay + 2;
	case TW_DELAY_GEOMETRIC:
		return 8 * p->delay + 2;
	default:
		return p->delay + 2;
	}
}

/* Node numbers. */
static inline uint32_t tw_plan_worker_node(const struct tw_plan *p, uint32_t slot)
{
	return 1 + p->servers + slot;
}
static inline struct tw_addr tw_master_addr(void)
{
	return (struct tw_addr){ 0, TW_MASTER, 0 };
}
static inline bool tw_plan_is_server(const struct tw_plan *p, uint32_t node)
{
	return node && node <= p->servers;
}

#endif
