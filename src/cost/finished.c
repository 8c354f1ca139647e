/* SPDX-License-Identifier: Apache-2.0 */
/* finished.c - when the first so many of several workers have finished.
 *
 * Of workers with different starts and speeds, the mean of the time at which `quorum` have finished
 * is the integral of the probability that fewer have: a sum over a grid, whose steps grow where the
 * law has a long tail.  For those before the last, the time at which so many have finished on
 * average is near enough: they only queue. */
#include "cost/schedule.h"

#include <math.h>
#include <stdlib.h>

#define GRID    600
#define TAIL    1e-6 /* the share of times that is left out */
#define MISSING 64   /* workers that a round may do without, at most */

static bool straggles(const struct tw_cost_case *c, uint32_t worker)
{
	return worker + c->sim->stragglers >= c->plan->crew.workers;
}

double tw_cost_speed(const struct tw_cost_case *c, uint32_t worker)
{
	const struct tw_f64s *speeds = &c->sim->speeds;
	const double speed = speeds->count ? speeds->at[worker % speeds->count] : 1;

	return straggles(c, worker) ? speed / c->sim->slower : speed;
}

double tw_cost_mean(const struct tw_cost_case *c, const struct tw_cost_law *law)
{
	double sum = 0;

	for (uint32_t k = 0; k < c->workers; k++)
		sum += law->mean / tw_cost_speed(c, k);
	return sum / c->workers;
}

static double start_of(const struct tw_cost_start *s, uint32_t worker)
{
	return worker * s->apart + (worker + s->late >= s->workers ? s->behind : 0);
}

static int ascending(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void of_constants(const struct tw_cost_case *c, const struct tw_cost_law *law,
			 const struct tw_cost_start *s, uint32_t quorum, double *time)
{
	double *all = malloc(s->workers * sizeof *all);

	for (uint32_t k = 0; all && k < s->workers; k++)
		all[k] = start_of(s, k) + law->mean / tw_cost_speed(c, k);
	if (all)
		qsort(all, s->workers, sizeof *all, ascending);
	for (uint32_t k = 0; k < quorum; k++)
		time[k] = all ? all[k] : NAN;
	free(all);
}

struct count {
	double mean; /* how many have finished */
	double full; /* the probability that at most `missing` have not */
};

static struct count count_at(const struct tw_cost_case *c, const struct tw_cost_law *law,
			     const struct tw_cost_start *s, uint32_t missing, double t)
{
	double chance[MISSING + 1] = { 1 }; /* that so many have not finished */
	struct count n = { 0, 0 };

	for (uint32_t k = 0; k < s->workers; k++) {
		const double f = tw_cost_law_below(law, (t - start_of(s, k)) * tw_cost_speed(c, k));

		n.mean += f;
		for (uint32_t i = missing; i > 0; i--)
			chance[i] = chance[i] * f + chance[i - 1] * (1 - f);
		chance[0] *= f;
	}
	for (uint32_t i = 0; i <= missing; i++)
		n.full += chance[i];
	return n;
}

void tw_cost_finished(const struct tw_cost_case *c, const struct tw_cost_law *law,
		      const struct tw_cost_start *s, uint32_t quorum, double *time)
{
	const uint32_t spare = s->workers - quorum;
	double slowest = 1, last = 0, before = 0, width, end, grow;
	uint32_t done = 0;

	if (law->constant) {
		of_constants(c, law, s, quorum, time);
		return;
	}
	for (uint32_t k = 0; k < s->workers; k++)
		slowest = fmin(slowest, tw_cost_speed(c, k));
	end = start_of(s, s->workers - 1) + tw_cost_law_above(law, TAIL / s->workers) / slowest;
	width = fmin(end, law->mean + start_of(s, s->workers - 1));
	grow = log1p(end / width) / GRID; /* even up to about `width`, then ever longer */
	for (int i = 1; i <= GRID; i++) {
		const double t = width * expm1(grow * i), middle = (before + t) / 2;
		const struct count n =
			count_at(c, law, s, spare < MISSING ? spare : MISSING, middle);

		while (done < quorum && done + 0.5 <= n.mean)
			time[done++] = middle;
		last += (1 - n.full) * (t - before);
		before = t;
	}
	while (done < quorum)
		time[done++] = end;
	time[quorum - 1] = last;
}

double tw_cost_last(const struct tw_cost_case *c, const struct tw_cost_law *law,
		    const struct tw_cost_start *start, uint32_t quorum)
{
	double *time = malloc(quorum * sizeof *time), last = NAN;

	if (time) {
		tw_cost_finished(c, law, start, quorum, time);
		last = time[quorum - 1];
	}
	free(time);
	return last;
}
