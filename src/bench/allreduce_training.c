/* SPDX-License-Identifier: Apache-2.0 */
/* allreduce_training.c - an MLP by two processes without a server, against PyTorch's DDP. */
#include "bench/allreduce.h"
#include "bench/harness/children.h"
#include "bench/harness/harness_peers.h"
#include "bench/harness/timed_engine.h"
#include "run/open_engine.h"
#include "base/machine/isa.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define ROUNDS        7
#define BLOCK         0.4 /* seconds of one side in one round */
#define STEPS         200 /* of one worker in one round; fewer where a round is short ... */
#define STEPS_LEAST   24  /* ... but this many */
#define WARM          8   /* of those, left out */
#define PATIENCE      120.0
#define TARGET_AVX512 4.0
#define TARGET        2.2

/* Shared by the processes of a run; the master's makes no gradients. */
struct clocked {
	struct tw_timed timed[TW_PEERS + 1];
	int64_t at[TW_PEERS + 1][STEPS];
};

struct training {
	struct tw_job *job;
	struct clocked *clocked;
};

static enum tw_status read_job(unsigned steps, struct tw_job **job, struct tw_error *why)
{
	char text[400];

	snprintf(text, sizeof text,
		 "data: {source: digits, count: 8192, tests: 64, batch: %u}\n"
		 "model: {name: %s, hidden: %s}\n"
		 "train: {epochs: 0, steps: %u, evaluate: 0}\n"
		 "update: {rule: sgd, rate: 0.001}\n"
		 "cluster: {workers: %d}\n"
		 "strategy: {gate: bsp, topology: direct}\n",
		 tw_ddp_net.batch, tw_ddp_net.zoo, tw_ddp_net.hidden, steps * TW_PEERS, TW_PEERS);
	return tw_job_read_text("bench", text, strlen(text), NULL, 0, NULL, TW_WORLD_TCP, job, why);
}

static enum tw_status open_engine(void *arg, uint32_t worker, struct tw_engine **out,
				  struct tw_error *why)
{
	struct training *t = arg;
	struct tw_engine *own = NULL;
	const enum tw_status status = tw_job_open_engine(t->job, &tw_heap_system, &own, why);

	if (status != TW_OK)
		return status;
	tw_timed_init(&t->clocked->timed[worker], own, t->clocked->at[worker], STEPS);
	*out = &t->clocked->timed[worker].engine;
	return TW_OK;
}

/* Samples per second of both. */
static enum tw_status measure(const struct tw_log *log, unsigned steps, double *out,
			      struct tw_error *why)
{
	struct training t = { .clocked = tw_shared_new(sizeof *t.clocked) };
	struct tw_harness_peers h = { .pair = true, .log = *log, .engine = open_engine, .arg = &t };
	enum tw_status status;

	if (!t.clocked)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the times");
	status = read_job(steps, &t.job, why);
	h.job = t.job;
	if (status == TW_OK)
		status = tw_harness_peers_run(&h, PATIENCE, why);
	if (status == TW_OK) {
		*out = tw_timed_rate(&t.clocked->timed[0], WARM, 1) * tw_ddp_net.batch * TW_PEERS;
		if (!(*out > 0.0))
			status = tw_fail(why, TW_BAD_BYTES, "only %zu steps were made",
					 atomic_load(&t.clocked->timed[0].calls));
	}
	tw_job_free(t.job);
	tw_shared_free(t.clocked, sizeof *t.clocked);
	return status;
}

/* The net in PyTorch's processes, warm; how many steps fill a block. */
static unsigned open_theirs(struct tw_allreduce_theirs *theirs, double block, size_t parameters)
{
	double t = 1.0;

	theirs->there =
		theirs->there &&
		tw_ddp_make(&theirs->ddp, &tw_ddp_net, parameters, &theirs->lost) == TW_OK &&
		tw_ddp_steps(&theirs->ddp, tw_ddp_net.name, 10, &t, &theirs->lost) == TW_OK;
	return (unsigned)fmin(fmax(2.0, block / t), 1e5);
}

/* The size of the net, by opening it. */
static enum tw_status count_parameters(size_t *out, struct tw_error *why)
{
	struct tw_engine *engine = NULL;
	struct tw_job *job = NULL;
	enum tw_status status = read_job(STEPS_LEAST, &job, why);

	if (status == TW_OK)
		status = tw_job_open_engine(job, &tw_heap_system, &engine, why);
	if (status == TW_OK) {
		*out = engine->trainable;
		engine->class->close(engine);
	}
	tw_job_free(job);
	return status;
}

static enum tw_status say_how(const struct tw_bench_how *how, struct tw_error *why)
{
	return tw_bench_note(
		how, why,
		"allreduce-ddp: 784-512-512-10, batches of %u, two processes connected by socket "
		"pairs, each on its share of the cores, and the master's process, `strategy: "
		"{gate: bsp, topology: direct}`, from "
		"gradient to gradient; floor: two processes of PyTorch's DDP over Gloo, one thread "
		"each",
		tw_ddp_net.batch);
}

enum tw_status tw_allreduce_training(const struct tw_bench_how *how,
				     struct tw_allreduce_theirs *theirs, json_t *cases,
				     struct tw_error *why)
{
	const unsigned rounds = how->rounds ? how->rounds : ROUNDS;
	const double block = how->block > 0.0 ? how->block : BLOCK;
	const unsigned steps = block < BLOCK ? STEPS_LEAST : STEPS;
	const double target = tw_isa() == TW_ISA_AVX512 ? TARGET_AVX512 : TARGET;
	const struct tw_log quiet = { .sink = how->log->sink,
				      .arg = how->log->arg,
				      .level = TW_WARNING };
	double ours[TW_BENCH_ROUNDS], ddp[TW_BENCH_ROUNDS], ratio = 0.0, t = 1.0;
	size_t parameters = 0;
	enum tw_status status = count_parameters(&parameters, why);
	const unsigned their_steps = open_theirs(theirs, block, parameters);

	for (unsigned i = 0; i < rounds && status == TW_OK; i++) {
		tw_log_line(how->log, TW_DEBUG, "bench", "allreduce-ddp, round %u of %u", i + 1,
			    rounds);
		status = measure(&quiet, steps, &ours[i], why);
		if (theirs->there)
			theirs->there = tw_ddp_steps(&theirs->ddp, tw_ddp_net.name, their_steps, &t,
						     &theirs->lost) == TW_OK;
		ddp[i] = TW_DDP_SIZE * tw_ddp_net.batch / t;
	}
	if (status != TW_OK)
		return status;
	if (theirs->there)
		ratio = tw_paired(ours, ddp, rounds);
	status = tw_bench_paired(cases, "allreduce-ddp", tw_median(ours, rounds), "samples/s",
				 theirs->there ? tw_median(ddp, rounds) : 0.0, ratio,
				 json_pack("{s:f}", "target", target), why);
	return status == TW_OK ? say_how(how, why) : status;
}
