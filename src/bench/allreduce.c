/* SPDX-License-Identifier: Apache-2.0 */
/* allreduce.c - two peers add up vectors of 14.6 million values and apply the sum, against Gloo
 * through PyTorch and against floors: the bytes and the passes alone. */
#include "bench/allreduce.h"

#include "bench/harness/children.h"
#include "bench/harness/harness_peers.h"
#include "bench/harness/harness_threads.h"
#include "bench/harness/null_engine.h"
#include "bench/baseline/raw_reduce.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PARAMETERS 14600000u
#define ROUNDS     7
#define STEPS      24 /* of one round ... */
#define WARM       8  /* ... after these, in which buffers are touched for the first time */
#define TIMES      15 /* of a floor or of Gloo in one round */
#define PATIENCE   120.0
#define VECTOR     "sum" /* what PyTorch's processes call it */

#define TARGET_TCP     1.0 /* at most, of Gloo's time */
#define TARGET_PAIR    0.6
#define TARGET_THREADS 1.3 /* at most, of the floor's */

enum { PAIR, TCP, KINDS };

static const struct kind {
	const char *name, *raw_name;
	enum tw_raw_kind raw;
	double target;
} kinds[KINDS] = {
	[PAIR] = { "allreduce-pair", "allreduce-pair-raw", TW_RAW_PAIR, TARGET_PAIR },
	[TCP] = { "allreduce-tcp", "allreduce-tcp-raw", TW_RAW_TCP, TARGET_TCP },
};

/* Seconds, by round. */
struct rounds {
	double ours[KINDS][TW_BENCH_ROUNDS], raw[KINDS][TW_BENCH_ROUNDS];
	double threads[TW_BENCH_ROUNDS], memory[TW_BENCH_ROUNDS];
	double sum[TW_BENCH_ROUNDS], update[TW_BENCH_ROUNDS];
	double gloo[TW_BENCH_ROUNDS];
	double cpu, wall; /* of the floor in memory */
	unsigned count;
};

/* --- ours --- */

static enum tw_status read_job(enum tw_world_kind world, size_t parameters, struct tw_job **job,
			       struct tw_error *why)
{
	const struct tw_null_job q = { .parameters = parameters,
				       .workers = TW_PEERS,
				       .steps = STEPS + WARM,
				       .strategy = "{gate: bsp, topology: direct}" };

	return tw_null_job_read(&q, world, job, why);
}

/* The median of seconds from one gradient to the next, of every `each`-th call. */
static enum tw_status period(const struct tw_null_engine *idle, size_t each, double *out,
			     struct tw_error *why)
{
	*out = tw_null_engine_period(idle, each, WARM, WARM + STEPS);
	return *out > 0.0 ? TW_OK
			  : tw_fail(why, TW_BAD_BYTES, "only %zu of %zu gradients were made",
				    atomic_load(&idle->calls), (STEPS + WARM) * each);
}

static enum tw_status give_engine(void *arg, uint32_t worker, struct tw_engine **out,
				  struct tw_error *why)
{
	struct tw_null_engine *idle = arg;

	(void)why;
	*out = &idle[worker].engine;
	return TW_OK;
}

static enum tw_status between_processes(int kind, size_t parameters, const struct tw_log *log,
					double *out, struct tw_error *why)
{
	/* the workers', then the master's */
	const size_t bytes = (TW_PEERS + 1) * sizeof(struct tw_null_engine);
	struct tw_null_engine *idle = tw_shared_new(bytes);
	struct tw_harness_peers h = {
		.pair = kind == PAIR, .log = *log, .engine = give_engine, .arg = idle
	};
	struct tw_job *job = NULL;
	enum tw_status status;

	if (!idle)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the engines");
	for (int k = 0; k <= TW_PEERS; k++)
		tw_null_engine_init(&idle[k], parameters, (STEPS + WARM) * TW_PEERS);
	status = read_job(TW_WORLD_TCP, parameters, &job, why);
	h.job = job;
	if (status == TW_OK)
		status = tw_harness_peers_run(&h, PATIENCE, why);
	if (status == TW_OK)
		status = period(&idle[0], 1, out, why);
	tw_job_free(job);
	tw_shared_free(idle, bytes);
	return status;
}

static enum tw_status in_threads(size_t parameters, const struct tw_log *log, double *out,
				 struct tw_error *why)
{
	struct tw_null_engine *idle = malloc(sizeof *idle);
	struct tw_job *job = NULL;
	enum tw_status status;

	if (!idle)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the engine");
	tw_null_engine_init(idle, parameters, (STEPS + WARM) * TW_PEERS);
	status = read_job(TW_WORLD_THREADS, parameters, &job, why);
	if (status == TW_OK)
		status = tw_harness_threads_run(job, &idle->engine, &tw_heap_system, log, why);
	if (status == TW_OK) /* one engine for all: of each round, the first call */
		status = period(idle, TW_PEERS, out, why);
	tw_job_free(job);
	free(idle);
	return status;
}

/* --- theirs --- */

/* Where PyTorch failed we go on without. */
static enum tw_status give_up(const struct tw_bench_how *how, struct tw_allreduce_theirs *theirs,
			      struct tw_error *why)
{
	struct tw_torch none = { .fill = 0 };

	if (theirs->lost.status == TW_OK)
		return TW_OK;
	theirs->there = false;
	tw_ddp_close(&theirs->ddp);
	return tw_torch_notes_lost(how, &none, &theirs->lost, why);
}

static enum tw_status open_theirs(const struct tw_bench_how *how,
				  struct tw_allreduce_theirs *theirs, size_t parameters,
				  struct tw_error *why)
{
	struct tw_torch first;
	const char *python;
	double t;
	enum tw_status status = tw_torch_notes_open(how, &first, why);

	theirs->there = first.child.pid != 0;
	tw_torch_stop(&first); /* it has told what it is */
	if (status != TW_OK || !theirs->there)
		return status;
	python = json_string_value(json_object_get(json_object_get(how->facts, "torch"), "python"));
	theirs->there = tw_ddp_open(&theirs->ddp, python, &theirs->lost) == TW_OK &&
			tw_ddp_vector(&theirs->ddp, VECTOR, parameters, &theirs->lost) == TW_OK &&
			tw_ddp_steps(&theirs->ddp, VECTOR, 3, &t, &theirs->lost) == TW_OK;
	return give_up(how, theirs, why);
}

/* --- measuring --- */

static enum tw_status turn(const struct tw_bench_how *how, struct tw_allreduce_theirs *theirs,
			   size_t parameters, struct rounds *r, unsigned i, struct tw_error *why)
{
	/* what the actors say of their coming and going is no part of a bench */
	const struct tw_log quiet = { .sink = how->log->sink,
				      .arg = how->log->arg,
				      .level = TW_WARNING };
	struct tw_raw_memory memory = { 0 };
	enum tw_status status = TW_OK;

	for (int k = 0; k < KINDS && status == TW_OK; k++) {
		status = tw_raw_reduce(kinds[k].raw, parameters, TIMES, &r->raw[k][i], why);
		if (status == TW_OK)
			status = between_processes(k, parameters, &quiet, &r->ours[k][i], why);
	}
	if (status == TW_OK)
		status = tw_raw_memory(parameters, TIMES, &memory, why);
	if (status == TW_OK)
		status = in_threads(parameters, &quiet, &r->threads[i], why);
	r->sum[i] = memory.sum;
	r->update[i] = memory.update;
	r->memory[i] = memory.sum + memory.update;
	r->cpu += memory.cpu;
	r->wall += memory.wall;
	if (status == TW_OK && theirs->there) {
		theirs->there = tw_ddp_steps(&theirs->ddp, VECTOR, TIMES, &r->gloo[i],
					     &theirs->lost) == TW_OK;
		status = give_up(how, theirs, why);
	}
	return status;
}

/* --- reporting --- */

/* A case against another side of the same rounds; copies, for a median sorts. */
static enum tw_status compare(json_t *cases, const char *name, const double *ours,
			      const double *floor, unsigned rounds, json_t *more,
			      struct tw_error *why)
{
	double a[TW_BENCH_ROUNDS], b[TW_BENCH_ROUNDS] = { 0 };
	const double ratio = floor ? tw_paired(ours, floor, rounds) : 0.0;

	memcpy(a, ours, rounds * sizeof *a);
	if (floor)
		memcpy(b, floor, rounds * sizeof *b);
	return tw_bench_paired(cases, name, tw_median(a, rounds), "s per round",
			       tw_median(b, rounds), ratio, more, why);
}

static enum tw_status report(struct rounds *r, bool gloo, json_t *cases, struct tw_error *why)
{
	enum tw_status status = TW_OK;
	json_t *parts;

	for (int k = 0; k < KINDS && status == TW_OK; k++) {
		status = compare(cases, kinds[k].name, r->ours[k], gloo ? r->gloo : NULL, r->count,
				 json_pack("{s:f}", "target_most", kinds[k].target), why);
		if (status == TW_OK)
			status = compare(cases, kinds[k].raw_name, r->ours[k], r->raw[k], r->count,
					 NULL, why);
	}
	if (status != TW_OK)
		return status;
	parts = json_pack("{s:f, s:f, s:f}", "target_most", TARGET_THREADS, "floor_sum",
			  tw_median(r->sum, r->count), "floor_update",
			  tw_median(r->update, r->count));
	return compare(cases, "allreduce-threads", r->threads, r->memory, r->count, parts, why);
}

static enum tw_status say_how(const struct tw_bench_how *how, size_t parameters,
			      const struct rounds *r, struct tw_error *why)
{
	double update[TW_BENCH_ROUNDS];
	enum tw_status status;

	memcpy(update, r->update, sizeof update);
	status = tw_bench_note(
		how, why,
		"allreduce: two peers without a server (`strategy: {gate: bsp, topology: direct}`) "
		"with %zu parameters, whose gradients cost nothing.  What is timed of ours is a "
		"whole round, from gradient to gradient: the check of the gradient, the "
		"all-reduce, "
		"the word to and from the master, and the SGD update of each replica, which alone "
		"takes %.1f ms here when two threads make it at once.  allreduce-tcp: two "
		"processes "
		"and the master's over loopback; allreduce-pair: over socket pairs, as `train "
		"--processes`, each worker's on its share of the cores.  Their floor is the "
		"all-reduce of as many floats by PyTorch's Gloo "
		"between two processes, without an update",
		parameters, 1e3 * tw_median(update, r->count));
	if (status != TW_OK)
		return status;
	return tw_bench_note(
		how, why,
		"allreduce-tcp-raw, allreduce-pair-raw: the same times against a page of C that "
		"sends the same bytes over the same kind of socket and adds them, without an "
		"update.  allreduce-threads: two peers in threads; floor: two threads which add up "
		"one half each (for each value two reads and a write: floor_sum) and then update "
		"one replica each (two reads and a write for each replica: floor_update).  Ratios "
		"are medians over the rounds");
}

static enum tw_status measure(const struct tw_bench_how *how, struct tw_allreduce_theirs *theirs,
			      json_t *cases, struct tw_error *why)
{
	struct rounds r = { .count = how->rounds ? how->rounds : ROUNDS };
	const size_t parameters = how->size ? how->size : PARAMETERS;
	enum tw_status status = open_theirs(how, theirs, parameters, why);

	for (unsigned i = 0; i < r.count && status == TW_OK; i++) {
		tw_log_line(how->log, TW_DEBUG, "bench", "allreduce, round %u of %u", i + 1,
			    r.count);
		status = turn(how, theirs, parameters, &r, i, why);
	}
	if (status == TW_OK)
		status = report(&r, theirs->there, cases, why);
	if (status == TW_OK)
		status = say_how(how, parameters, &r, why);
	if (status == TW_OK)
		status = tw_bench_share(how, cases, "allreduce", r.cpu / r.wall, why);
	if (status == TW_OK)
		status = tw_allreduce_training(how, theirs, cases, why);
	return status == TW_OK ? give_up(how, theirs, why) : status;
}

static enum tw_status allreduce(const struct tw_bench_how *how, json_t *cases, struct tw_error *why)
{
	struct tw_allreduce_theirs theirs = { .there = false };
	enum tw_status status;

	if (how->world == TW_WORLD_MPI)
		return tw_allreduce_mpi(how, cases, why);
	status = measure(how, &theirs, cases, why);
	tw_ddp_close(&theirs.ddp);
	return status;
}

const struct tw_bench tw_bench_allreduce = {
	.name = "allreduce",
	.help = "the sum of 14.6 million values between two peers, compared with PyTorch's Gloo",
	.run = allreduce,
};
