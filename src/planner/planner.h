/* SPDX-License-Identifier: Apache-2.0 */
/* planner.h - where to cut a model, which machines compute which part, and how many take turns.
 *
 * A model is a chain of parts.  A plan makes stages of it: runs of parts, each computed by one
 * machine or by several in turn (its lanes).  The parameters of a stage are with its first lane.
 * What a plan costs is found by carrying out its schedule (strategy/pipeline.h) with the times of
 * the parts, the speeds of the machines and the links between them.
 *
 *  (1) the same problem gives the same plans: no clock, no thread, and random starts from a seed.
 *  (2) a plan that is given fits the memory of its machines and the limits of the problem.
 *  (3) where there are few plans, all of them are tried; plans are given by their estimates, the
 *      best one first.
 *  (4) no plan that is given first is slower than one machine alone, all machines in turn on the
 *      whole model, or stages of equal work on one machine each, where these fit. */
#ifndef TW_PLANNER_PLANNER_H
#define TW_PLANNER_PLANNER_H

#include "strategy/pipeline.h"

#define TW_PLANNER_STAGES 64
#define TW_PLANNER_NODES  256

/* What nothing can be cut out of. */
struct tw_planner_part {
	double forward, backward; /* seconds for a micro-batch on a machine of speed 1 */
	double bytes;             /* of its parameters */
	double stash;             /* bytes between a forward and its backward */
	double scratch;
	bool counts; /* a stage has at least one part for which this is true */
};

/* Bytes of a micro-batch that cross from one part to the next. */
struct tw_planner_border {
	double forward, backward;
};

struct tw_planner_node {
	double speed;    /* what it computes takes the times of the parts divided by this */
	double memory;   /* bytes; 0: any */
	double per_byte; /* seconds for a byte through its network card, each direction */
	double latency;
	uint32_t group; /* machines of a group share a link; 0: it is in none */
};

struct tw_planner {
	const struct tw_planner_part *part;
	const struct tw_planner_border *border; /* after each part; of the last: not looked at */
	uint32_t parts;
	const struct tw_planner_node *node;
	uint32_t nodes;
	double group_per_byte, group_latency; /* of the link that a group shares to all others */
	const struct tw_pipeline *schedule;
	const void *options;
	uint32_t micros;      /* of a group: tw_pipe_shape */
	uint64_t stream;      /* micro-batches whose time is what a plan costs */
	uint32_t ranges;      /* micro-batches of an update of a lane, at most */
	uint32_t stages_most; /* 0: any number */
	bool lanes;           /* may a stage have several? */
	bool recompute;       /* backwards must compute their forward again; else they may */
	double kept;          /* bytes that the first lane keeps for each byte of parameters */
	double up, down;      /* bytes on the wire for each byte of a gradient, of parameters */
	uint64_t most;        /* plans that are all tried; 0: TW_PLANNER_MOST */
	double effort;        /* moves that may be played when they are more; 0: as is usual */
};
#define TW_PLANNER_MOST   20000
#define TW_PLANNER_EFFORT 1.2e8 /* some seconds */

struct tw_planner_plan {
	uint32_t stages, cells;
	uint16_t cut[TW_PLANNER_STAGES + 1]; /* stage k has parts cut[k] .. cut[k + 1] - 1 */
	uint16_t lanes[TW_PLANNER_STAGES];
	uint16_t node[TW_PLANNER_NODES]; /* by cell: stage by stage, lane by lane */
	bool recompute;
	double estimate; /* seconds for the stream, as a search takes them */
	double seconds;  /* ... carried out with every message */
};

/* How the plans were found. */
struct tw_planner_found {
	uint32_t count;  /* plans that are given; 0: there is none that fits */
	double possible; /* plans in all, about */
	uint64_t played; /* of them */
	bool all;        /* (3) */
};

/* The best plans, the best one first, `most` of them at most.  TW_NO_MEMORY. */
enum tw_status tw_planner_search(const struct tw_planner *p, struct tw_planner_plan *out,
				 uint32_t most, struct tw_planner_found *found);
/* What a plan costs; `recompute` is decided, too.  False: it does not fit. */
bool tw_planner_price(const struct tw_planner *p, struct tw_planner_plan *plan);
/* Cuts of about equal work, each stage with parts that count.  False: there are not so many. */
bool tw_planner_even(const struct tw_planner *p, uint32_t stages, uint16_t *cut);

#endif
