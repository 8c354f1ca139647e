/* SPDX-License-Identifier: Apache-2.0 */
/* schedule.h - who sends what to whom, as a cost; for the files of this folder. */
#ifndef TW_COST_SCHEDULE_H
#define TW_COST_SCHEDULE_H

#include "cost/cost.h"
#include "cost/law.h"
#include "cost/links.h"

/* A cluster whose period between pushes is `push`: a plan may have two of them, one after the
 * other. */
struct tw_cost_case {
	const struct tw_plan *plan;
	const struct tw_sim_options *sim;
	struct tw_cost_links links;
	uint32_t workers, push;
	double batch; /* samples of a step of a worker */
};

struct tw_cost_rate {
	double steps;               /* per second, of all workers together */
	struct tw_cost_parts parts; /* of the time in which each worker takes one step */
	double pushes, fetches;     /* to and from servers, per step */
	double peers;               /* bytes into and out of the busiest peer, per step; 0: none */
	double staleness;
	const char *unknown; /* not NULL: why these prices allow no prediction */
};

struct tw_cost_schedule {
	bool (*takes)(const struct tw_plan *plan);
	/* What it cannot predict of a plan that it takes, as a reason; NULL: nothing. */
	const char *(*unknown)(const struct tw_plan *plan);
	void (*rate)(const struct tw_cost_case *c, struct tw_cost_rate *out);
};
extern const struct tw_cost_schedule tw_cost_rounds, tw_cost_peers, tw_cost_mixing, tw_cost_queue;

/* The seconds of a round in which the first so many workers have a stripe of `steps` steps, and
 * where they go; NAN without memory. */
typedef double tw_cost_round_fn(const struct tw_cost_case *c, uint32_t workers, double steps,
				struct tw_cost_parts *parts);
/* Rounds of that time, one after the other; the last one of an epoch has what is left. */
void tw_cost_rate_of_rounds(const struct tw_cost_case *c, tw_cost_round_fn *round_time,
			    struct tw_cost_rate *out);

/* How fast a worker is: 1 over what its times are multiplied with. */
double tw_cost_speed(const struct tw_cost_case *c, uint32_t worker);
/* The mean, over all workers, of a time of `law`. */
double tw_cost_mean(const struct tw_cost_case *c, const struct tw_cost_law *law);
/* Who computes from when on: worker k from k * apart, and the last `late` ones later by
 * `behind`. */
struct tw_cost_start {
	uint32_t workers, late;
	double apart, behind;
};
/* When so many of them have finished, on average, if each computes for a time of `law`: time[j - 1]
 * is when j have, j = 1..quorum. */
void tw_cost_finished(const struct tw_cost_case *c, const struct tw_cost_law *law,
		      const struct tw_cost_start *start, uint32_t quorum, double *time);
/* When `quorum` have; NAN without memory. */
double tw_cost_last(const struct tw_cost_case *c, const struct tw_cost_law *law,
		    const struct tw_cost_start *start, uint32_t quorum);

/* The mean staleness of exchanges that fetch first and push then, where a worker makes one in every
 * `period` seconds; NAN without memory. */
double tw_cost_elastic(const struct tw_cost_case *c, double period);

#endif
