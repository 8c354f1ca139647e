/* SPDX-License-Identifier: Apache-2.0 */
/* bed.h - what the parts of a search share: sums over the problem, room to play schedules, and the
 * best plans so far. */
#ifndef TW_PLANNER_BED_H
#define TW_PLANNER_BED_H

#include "planner/planner.h"

#define TW_PLANNER_KEEP 40 /* plans that a search goes on from */

/* Sums over the parts before each border. */
struct bed_sums {
	double *forward, *backward, *bytes, *stash;
	uint32_t *counts;
};

/* Room for lists and for playing them. */
struct bed_room {
	struct tw_pipe_move *moves;
	const struct tw_pipe_move **move;
	size_t *count;
	struct tw_pipe_times *times;
	struct tw_pipe_cell *cell;
	double *done, *speed, *latency, *per_byte, *push, *answer;
	uint32_t *by;
	/* whose lists are in `moves` */
	uint32_t stages;
	uint32_t lanes[TW_PLANNER_STAGES];
};

struct bed {
	const struct tw_planner *p;
	struct bed_sums sum;
	struct bed_room room;
	uint16_t *rank;  /* nodes in the order of lanes: who holds parameters best comes first */
	uint16_t *class; /* by node: nodes of one class are alike */
	uint32_t classes;
	bool limited; /* some node has a memory */
	bool steady; /* forwards read the newest version, so what a cell keeps depends on itself and
			 on the cells behind it alone */
	struct tw_pipe_keeps *keeps; /* by [own][ahead] (tw_bed_keeps); depth 0: not known yet */
	double *card, *group;        /* by node and by group: seconds in and out */
	uint32_t groups;
	uint64_t played;
	double work, work_most; /* moves played */
	struct tw_planner_plan *best;
	uint32_t count;
};

enum tw_status tw_bed_init(struct bed *b, const struct tw_planner *p);
void tw_bed_release(struct bed *b);

/* Puts the lanes of each stage in the order of `rank`. */
void tw_bed_order(const struct bed *b, struct tw_planner_plan *plan);
/* What a plan costs; INFINITY: it does not fit, or costs `limit` at least.  Decides `recompute`. */
double tw_bed_price(struct bed *b, struct tw_planner_plan *plan, double limit);
/* What a cell of a stage with so many lanes and cells behind it keeps. */
struct tw_pipe_keeps tw_bed_keeps(const struct bed *b, uint32_t lanes, uint32_t behind);
/* Is it within the limits of the problem and of the schedule, but for memory? */
bool tw_bed_allows(const struct bed *b, const struct tw_planner_plan *plan);
/* How much more memory than they have the machines need, as a sum of shares; 0: it fits. */
double tw_bed_excess(struct bed *b, const struct tw_planner_plan *plan, bool recompute);
/* Lists and times of a plan, in `room`. */
void tw_bed_prepare(struct bed *b, const struct tw_planner_plan *plan);
/* flow.c: seconds of the stream, with cards and links that carry one message at a time. */
double tw_bed_flow(struct bed *b, const struct tw_planner_plan *plan);

/* tw_planner_even. */
bool tw_bed_even(const struct bed *b, uint32_t stages, uint16_t *cut);

/* The best plans: a plan that is priced comes in if it is better than the last of them. */
void tw_bed_offer(struct bed *b, const struct tw_planner_plan *plan);

/* enumerate.c */
double tw_bed_possible(const struct bed *b);
void tw_bed_enumerate(struct bed *b);
/* partition.c: dynamic programming over rows of nodes. */
enum tw_status tw_bed_partition(struct bed *b);
/* improve.c: simple plans, random ones, and what their neighbours are. */
void tw_bed_simple(struct bed *b);
enum tw_status tw_bed_improve(struct bed *b);

#endif
