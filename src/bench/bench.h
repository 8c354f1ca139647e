/* SPDX-License-Identifier: Apache-2.0 */
/* bench.h - how fast it is, against floors measured in the same run on the same machine. */
#ifndef TW_BENCH_BENCH_H
#define TW_BENCH_BENCH_H

#include "base/machine/log.h"
#include "base/median.h"
#include "base/status.h"
#include "spec/job.h"

#include <jansson.h>
#include <stddef.h>

/* What a bench is told, and where it puts results that are not cases. */
struct tw_bench_how {
	const struct tw_log *log;
	const char *python;       /* which has PyTorch; NULL: see torch.h */
	enum tw_world_kind world; /* of exchange: TW_WORLD_TCP, TW_WORLD_MPI; of pipeline:
				   * TW_WORLD_TCP; else threads */
	struct tw_ranks *ranks;   /* TW_WORLD_MPI: those that all run this bench; else NULL */
	size_t size;     /* exchange over tcp, allreduce, session: parameters, connections: workers,
			  * pipeline over tcp: width of hidden layers, growth: the largest
			  * of both; 0: as usual */
	unsigned rounds; /* of those that count them; 0: as many as they want */
	double block;    /* their seconds of one side in one round; 0: as they want */
	double quiet;    /* share of a core below which there are no ratios; 0: 0.95 */
	json_t *facts;   /* object: members besides "cases" */
	json_t *notes;   /* array of sentences that belong to the figures */
};

struct tw_bench {
	const char *name, *help;
	/* Append cases to the array.  Takes seconds; says on the log what it does. */
	enum tw_status (*run)(const struct tw_bench_how *how, json_t *cases, struct tw_error *why);
};

extern const struct tw_bench tw_bench_exchange, tw_bench_sim, tw_bench_codec, tw_bench_compute,
	tw_bench_scale, tw_bench_connections, tw_bench_allreduce, tw_bench_optimiser,
	tw_bench_pipeline, tw_bench_growth, tw_bench_session;
extern const struct tw_bench *const tw_bench_all[]; /* NULL at the end */

/* Run one bench, or all for NULL.  *result is {"version", "isa", "cases": [{name, value, unit,
 * floor, ratio}], "notes": [sentence], ...}, the caller's reference; `how` needs no facts and no
 * notes. */
enum tw_status tw_bench_run(const struct tw_bench *one, const struct tw_bench_how *how,
			    json_t **result, struct tw_error *why);

/* Add a case; ratio is value / floor. */
enum tw_status tw_bench_case(json_t *cases, const char *name, double value, const char *unit,
			     double floor, struct tw_error *why);
/* Add a case whose ratio is the median of ratios of rounds, not the ratio of medians.  Without a
 * positive floor, floor and ratio are null.  `more` (may be NULL) is merged into it; its reference
 * is taken. */
enum tw_status tw_bench_paired(json_t *cases, const char *name, double value, const char *unit,
			       double floor, double ratio, json_t *more, struct tw_error *why);
/* Add a sentence to the notes. */
enum tw_status tw_bench_note(const struct tw_bench_how *how, struct tw_error *why,
			     const char *format, ...) __attribute__((format(printf, 3, 4)));
/* How much of a core each thread got while it measured (CPU time / time): put it into the
 * facts as "<what>_cpu_share".  Where others had the machine too, the ratios of the cases
 * "<what>-..." become null, and a note says why. */
enum tw_status tw_bench_share(const struct tw_bench_how *how, json_t *cases, const char *what,
			      double share, struct tw_error *why);
/* The median of a[i] / b[i]: what disturbed both sides of a round alike does not count. */
double tw_paired(const double *a, const double *b, size_t n);

#define TW_BENCH_ROUNDS 64 /* at most */

#endif
