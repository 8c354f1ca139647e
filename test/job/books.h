/* SPDX-License-Identifier: Apache-2.0 */
/* books.h - runs of a codec that owes, with books that the test keeps by itself: what each shard
 * must have, what each worker must owe, and what was lost with whom.
 *
 * Gradients are integers that depend on positions alone, rates and shares are 1 and sums are
 * totals, so all arithmetic is exact, but for codecs that send other values than they are given.
 * The books come from the notes and from what the codec was given. */
#ifndef TW_TEST_JOB_BOOKS_H
#define TW_TEST_JOB_BOOKS_H

#include "job/trial.h"

#define DIMENSION 13
#define SLOTS     3
#define DEATHS    8

/* Codecs: of the first of them all arithmetic is exact (the very first is of the test tree), then
 * one that rounds, then those whose residual is not the sum of what was not sent. */
#define CODECS_EXACT  5
#define CODECS_ADD_UP 6
#define CODECS        8
extern size_t books_codec; /* the one in use */

extern uint32_t
	books_poison; /* one of so many positions has a gradient that is not finite, the first
				 time that it is computed; 0: none */

/* Strategies that carry all of these but the last, which pushes deltas; the last of gradients
 * drops what is late.  One has no server: every worker holds the parameters. */
#define STRATEGIES 6
#define SERVERLESS 4
extern const char *const books_strategies[STRATEGIES];
extern const char books_deltas[];
#define PACE "compute: {law: exponential, mean: 20ms}, latency: 1ms, jitter: 2ms"

struct books {
	float taken[DIMENSION];        /* what was subtracted from each parameter */
	float owed[SLOTS][DIMENSION];  /* by whom */
	double given[DIMENSION];       /* in all contributions that count */
	double with_server[DIMENSION]; /* of what was subtracted: lost with a shard */
	struct death {
		uint32_t slot, incarnation;
		uint64_t cut; /* the last one before it */
		float owed[DIMENSION];
	} death[DEATHS];
	unsigned deaths;
};

/* What the last run did. */
struct books_seen {
	const struct tw_plan *plan;
	struct books now, cut;
	unsigned applied, plain, fenced, left, died, rolled, rehosted;
	unsigned lost, unusable; /* lines of the log */
};
extern struct books_seen seen;

struct ran {
	uint32_t shards;
	struct tw_tally tally;
	uint64_t events;
	float w[DIMENSION];           /* what was subtracted, at the end */
	float owed[SLOTS][DIMENSION]; /* as the last checkpoint has it */
	bool has[SLOTS];
};

/* The gradient of one position. */
float books_value(uint64_t position, size_t i);
/* The job with the codec and the engine of this test.  `store` NULL: one of its own; it is resumed
 * if `stop` is 0.  `more`: further sections of the job. */
enum tw_status books_run(const char *strategy, uint32_t shards, const char *more, uint64_t stop,
			 struct tw_store *store, struct ran *out);
/* What the run says against the books; `what` is for the one who reads a failure. */
void books_compare(const char *what, const struct ran *r);
/* Kill worker 1 at every `stride`-th event of a run of this codec in turn, and compare.  Returns
 * how many deaths there were. */
unsigned books_kill_everywhere(uint64_t stride);
/* The same with one of two servers, where contributions are closed as they come. */
unsigned books_lose_everywhere(uint64_t stride);
/* The same with the master and the only server, if there is one: all that outlives them are
 * workers. */
unsigned books_restart_everywhere(uint64_t stride);

#endif
