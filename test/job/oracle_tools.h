/* SPDX-License-Identifier: Apache-2.0 */
/* oracle_tools.h - what the tests against closed forms share: run a job text in the simulator and
 * keep what its actors said. */
#ifndef TW_TEST_JOB_ORACLE_TOOLS_H
#define TW_TEST_JOB_ORACLE_TOOLS_H

#include "actor/cluster.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Steps, applies, updates and drops, in the order in which they happened. */
struct oracle_event {
	enum tw_note_kind kind;
	uint32_t shard, slot;
	uint64_t seq, tau, version, round;
	uint64_t from;  /* APPLY, DROP: positions ... */
	uint32_t count; /* ... so many */
	int64_t at;
	double first; /* APPLY with gaps: element 0 of the parameters before it */
	double gap;   /* APPLY with gaps: sum of squares of parameters now - vector sent */
};

struct oracle_run {
	bool gaps;   /* in: APPLY events carry first and gap */
	bool silent; /* in: keep no events */
	/* in, with gaps: sees `before` and `sent` of each APPLY while they are valid */
	void (*see)(void *arg, const struct tw_note *note);
	void *arg;

	struct oracle_event *event;
	size_t events, room;
	struct tw_totals totals; /* its vector is released already */
	double final;            /* element 0 of the evaluated vector */
	float *vector;           /* shard 0 of it, a copy ... */
	size_t n;                /* ... so long */
	int64_t ns;              /* virtual time at the end */
	uint64_t bytes;          /* sent by all nodes */
};

/* Run the job; any failure fails the test with its sentence.  `format` makes the whole YAML. */
void oracle_run(struct oracle_run *r, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Free the events and the vector; the numbers stay. */
void oracle_free(struct oracle_run *r);

/* Every law that a computation's time may follow, with finite variance: text after "law: ".  The
 * mean is 100ms or nearly so; virtual time does not matter to those who use this. */
extern const char *const oracle_laws[]; /* NULL at the end */

/* Mean staleness of all contributions. */
double oracle_staleness(const struct oracle_run *r);
double oracle_harmonic(uint32_t n);

/* w[t + 1] = w[t] - x w[max(0, t - tau)], w[0] = 1, until no |w| of the last 4 (2 tau + 1) is above
 * 1/1000, or until one is above 1000, or for `most` updates.  Returns how many updates that took; w
 * has room for most + 1. */
size_t oracle_delayed(double *w, size_t most, uint32_t tau, double x);

/* The bound of a delayed descent: stable below, unstable above. */
double oracle_bound(uint32_t tau);

/* The mean gap over the run's last three quarters: RMS over elements and pushes. */
double oracle_gap(const struct oracle_run *r, uint32_t dimension);

/* Whole checks that both the quick and the full tests run, over more or fewer cases. */
void oracle_check_identity(uint32_t workers, const char *law, uint64_t seed, uint64_t updates);
void oracle_check_staleness(uint32_t workers, uint32_t collect, const char *law, uint64_t updates);
void oracle_check_backup(uint32_t counted, uint32_t extra, uint64_t steps, double within);
void oracle_check_delayed(uint32_t tau, double of_bound, bool by_workers);
void oracle_check_ssp(uint32_t workers, uint32_t lead, uint32_t shards, const char *law,
		      uint64_t seed, uint64_t steps);
/* Of one heavy ball, nag, a heavy ball per worker, dana, and a Nesterov momentum per worker. */
void oracle_check_gaps(uint32_t workers, uint64_t seed, const double ratio[5]);

#endif
