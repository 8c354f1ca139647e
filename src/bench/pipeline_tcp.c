/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline_tcp.c - two stages in two processes: their activations against the same bytes over a
 * bare socket, and their samples per second against one process. */
#include "base/heap.h"
#include "bench/harness/children.h"
#include "bench/harness/harness_peers.h"
#include "bench/harness/pass_engine.h"
#include "bench/pipeline.h"
#include "bench/baseline/raw_activations.h"
#include "run/open_engine.h"

#include <stdio.h>
#include <string.h>

#define ROUNDS   5
#define MOVES    1024 /* micro-batches of a round that only moves them ... */
#define FIRST    64   /* ... and of these, left out */
#define WINDOW   2    /* micro-batches between two stages of `pipedream` */
#define PATIENCE 120.0
#define WIDEST   65536u
#define NEAR     1.3 /* times the floor, at most */
#define FASTER   1.4 /* times one process, at least */

/* One run: a master, and a process for each stage. */
struct staged {
	struct tw_job *job;
	struct tw_pass_engine engine; /* each process has its own */
	struct tw_pass_times *times;  /* shared */
	uint32_t idle;                /* values of a sample that cross; 0: passes compute */
	double share;                 /* out: of a core, that passes got; 0: they do not compute */
};

static enum tw_status open_engine(void *arg, uint32_t worker, struct tw_engine **out,
				  struct tw_error *why)
{
	struct staged *s = arg;
	struct tw_engine *own = NULL;
	const enum tw_status status = tw_job_open_engine(s->job, &tw_heap_system, &own, why);

	(void)worker;
	if (status != TW_OK)
		return status;
	if (s->idle)
		tw_pass_engine_idle(&s->engine, own, s->idle, s->times);
	else
		tw_pass_engine_init(&s->engine, own, s->times);
	*out = &s->engine.engine;
	return TW_OK;
}

/* Run the job, which is the caller's; seconds of a micro-batch. */
static enum tw_status measure(struct staged *s, const struct tw_log *log, size_t warm, size_t count,
			      double *out, struct tw_error *why)
{
	struct tw_harness_peers h = { .job = s->job, .log = *log, .engine = open_engine, .arg = s };
	enum tw_status status;

	s->times = tw_shared_new(sizeof *s->times);
	if (!s->times)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the times");
	status = tw_harness_peers_run(&h, PATIENCE, why);
	*out = tw_pass_period(s->times, warm, count);
	if (atomic_load(&s->times->wall_ns) > 0)
		s->share = (double)s->times->cpu_ns / (double)s->times->wall_ns;
	if (status == TW_OK && !(*out > 0.0))
		status = tw_fail(why, TW_BAD_BYTES, "only %zu of %zu micro-batches came back",
				 atomic_load(&s->times->count), count);
	tw_shared_free(s->times, sizeof *s->times);
	return status;
}

/* --- only activations --- */

/* Few parameters, so that updates cost nothing either; how wide the cut is, the engine says. */
static enum tw_status read_moves(struct tw_job **job, struct tw_error *why)
{
	char text[400];

	snprintf(text, sizeof text,
		 "model: {quadratic: {dimension: 32, stages: 2}}\n"
		 "data: {source: none, samples: %d, batch: %d}\n"
		 "train: {epochs: 1, evaluate: 0}\n"
		 "update: {rule: sgd, rate: 0.001}\n"
		 "cluster: {workers: 1, stages: 2, place: with-stage}\n"
		 "strategy: pipedream\n",
		 MOVES * TW_PIPELINE_BATCH, TW_PIPELINE_BATCH);
	return tw_job_read_text("bench", text, strlen(text), NULL, 0, NULL, TW_WORLD_TCP, job, why);
}

static enum tw_status move_ours(const struct tw_log *log, size_t width, double *out,
				struct tw_error *why)
{
	struct staged s = { .idle = (uint32_t)width };
	enum tw_status status = read_moves(&s.job, why);

	if (status == TW_OK)
		status = measure(&s, log, FIRST, MOVES, out, why);
	tw_job_free(s.job);
	return status;
}

static enum tw_status move_raw(size_t width, double *out, struct tw_error *why)
{
	const struct tw_raw_activations q = { .bytes = width * TW_PIPELINE_BATCH * sizeof(float),
					      .window = WINDOW,
					      .warm = FIRST,
					      .count = MOVES };

	return tw_raw_activations(&q, out, why);
}

/* --- training --- */

static enum tw_status train_two(const struct tw_log *log, size_t width, double *rate, double *share,
				struct tw_error *why)
{
	const struct tw_pipeline_job q = { .world = TW_WORLD_TCP,
					   .strategy = "pipedream",
					   .accumulate = 1,
					   .width = width,
					   .with_stages = true };
	struct staged s = { .idle = 0 };
	double seconds = 0.0;
	enum tw_status status = tw_pipeline_job_read(&q, &s.job, why);

	if (status == TW_OK)
		status = measure(&s, log, TW_PIPELINE_WARM, TW_PIPELINE_STEPS, &seconds, why);
	if (status == TW_OK)
		*rate = TW_PIPELINE_BATCH / seconds;
	*share = s.share;
	tw_job_free(s.job);
	return status;
}

/* --- both --- */

struct rounds {
	double ours[TW_BENCH_ROUNDS], raw[TW_BENCH_ROUNDS]; /* seconds of a micro-batch */
	double two[TW_BENCH_ROUNDS], one[TW_BENCH_ROUNDS];  /* samples per second */
	double share[TW_BENCH_ROUNDS];                      /* of a core, for each stage */
};

static enum tw_status run_round(const struct tw_bench_how *how, size_t width, struct rounds *r,
				unsigned k, struct tw_error *why)
{
	/* what the actors say of their coming and going is no part of a bench */
	const struct tw_log quiet = { .sink = how->log->sink,
				      .arg = how->log->arg,
				      .level = TW_WARNING };
	struct tw_bench_how calm = *how;
	enum tw_status status = move_raw(width, &r->raw[k], why);

	calm.log = &quiet;
	if (status == TW_OK)
		status = move_ours(&quiet, width, &r->ours[k], why);
	if (status == TW_OK)
		status = tw_pipeline_alone(&calm, width, &r->one[k], why);
	return status == TW_OK ? train_two(&quiet, width, &r->two[k], &r->share[k], why) : status;
}

static enum tw_status report(struct rounds *r, unsigned rounds, json_t *cases, struct tw_error *why)
{
	const double far = tw_paired(r->ours, r->raw, rounds);
	const double faster = tw_paired(r->two, r->one, rounds);
	enum tw_status status = tw_bench_paired(
		cases, "pipeline-activations", tw_median(r->ours, rounds), "s per micro-batch",
		tw_median(r->raw, rounds), far, json_pack("{s:f}", "target_most", NEAR), why);

	if (status != TW_OK)
		return status;
	return tw_bench_paired(cases, "pipeline-two-processes", tw_median(r->two, rounds),
			       "samples/s", tw_median(r->one, rounds), faster,
			       json_pack("{s:f}", "target", FASTER), why);
}

static enum tw_status say_how(const struct tw_bench_how *how, size_t width, struct tw_error *why)
{
	return tw_bench_note(
		how, why,
		"pipeline between two processes over loopback, `pipedream` in two stages, "
		"parameters with their stage, micro-batches of %d: pipeline-activations moves "
		"what crosses the cut of an MLP 784-%zu-%zu-%zu-10 (%zu bytes forward, as many "
		"back) with passes that cost nothing; its floor is a page of C that sends the same "
		"bytes by plain send and recv, with as many micro-batches (%d) on their way, each "
		"in memory of its own.  "
		"pipeline-two-processes trains that MLP; its floor is one worker in one process.  "
		"Ratios are medians over the rounds",
		TW_PIPELINE_BATCH, width, width, width, width * TW_PIPELINE_BATCH * sizeof(float),
		WINDOW);
}

enum tw_status tw_pipeline_tcp(const struct tw_bench_how *how, json_t *cases, struct tw_error *why)
{
	const unsigned rounds = how->rounds ? how->rounds : ROUNDS;
	const size_t width = how->size ? how->size : TW_PIPELINE_WIDTH;
	struct rounds r = { 0 };
	enum tw_status status = TW_OK;

	if (width > WIDEST)
		return tw_fail(why, TW_BAD_INPUT, "layers of %zu are too wide; use at most %u",
			       width, WIDEST);
	for (unsigned k = 0; k < rounds && status == TW_OK; k++) {
		tw_log_line(how->log, TW_INFO, "bench", "pipeline: round %u of %u", k + 1, rounds);
		status = run_round(how, width, &r, k, why);
	}
	if (status == TW_OK)
		status = report(&r, rounds, cases, why);
	if (status == TW_OK)
		status = tw_bench_share(how, cases, "pipeline", tw_median(r.share, rounds), why);
	return status == TW_OK ? say_how(how, width, why) : status;
}
