/* SPDX-License-Identifier: Apache-2.0 */
/* law.h - the distribution of computing times: of one step, and of several steps together. */
#ifndef TW_COST_LAW_H
#define TW_COST_LAW_H

#include "world/sim/sim.h"

/* The time of `steps` steps in a row of a worker of speed 1, in seconds.  One step has the law of
 * `sim.compute`; a sum of steps has its mean and its variance, and the shape of a log-normal. */
struct tw_cost_law {
	const struct tw_sim_options *of;
	double steps, samples; /* samples: what one step costs so many times; 1: `of` is per step */
	double mean, deviation; /* deviation: INFINITY where the law has none */
	double sigma, centre;   /* of the logarithm, where it is taken as log-normal */
	bool constant;
};

/* `batch`: samples of a step. */
void tw_cost_law_init(struct tw_cost_law *l, const struct tw_sim_options *of, double batch,
		      double steps);
/* The share of times that are at most t seconds. */
double tw_cost_law_below(const struct tw_cost_law *l, double t);
/* A time that only this share of times exceeds; the share is above 0. */
double tw_cost_law_above(const struct tw_cost_law *l, double share);

#endif
