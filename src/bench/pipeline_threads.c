/* SPDX-License-Identifier: Apache-2.0 */
/* pipeline_threads.c - a large network in two stages against one worker, and what a pipeline does
 * against what its schedule says it does. */
#include "bench/pipeline.h"

#include "cost/stages.h"
#include "run/open_engine.h"
#include "run/run.h"
#include "strategy/pipeline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 3
#define STEPS  TW_PIPELINE_STEPS
#define WARM   TW_PIPELINE_WARM
#define BATCH  TW_PIPELINE_BATCH
#define MICROS 8
#define STAGES 2
#define GROUPS (STEPS / MICROS)
#define TARGET 1.5

/* When gradients were ready. */
struct seen {
	int64_t at[STEPS];
	unsigned count;
};

/* What one run of a schedule came to. */
struct piped {
	double bubble, predicted; /* shares */
	double memory[STAGES], planned[STAGES];
};

static bool observe(void *arg, const struct tw_note *n)
{
	struct seen *s = arg;

	if (n->kind == TW_NOTE_GRADIENT && s->count < STEPS)
		s->at[s->count++] = n->at;
	return true;
}

enum tw_status tw_pipeline_job_read(const struct tw_pipeline_job *q, struct tw_job **job,
				    struct tw_error *why)
{
	char text[500];

	snprintf(text, sizeof text,
		 "data: {source: digits, count: %d, tests: 16, batch: %d, accumulate: %u}\n"
		 "model: {name: mlp, hidden: [%zu, %zu, %zu]}\n"
		 "train: {epochs: 1, evaluate: 0}\n"
		 "update: {rule: sgd, rate: 0.001}\n"
		 "cluster: {workers: 1%s}\n"
		 "strategy: %s\n",
		 STEPS * BATCH, BATCH, q->accumulate, q->width, q->width, q->width,
		 q->with_stages ? ", stages: 2, place: with-stage" : "", q->strategy);
	return tw_job_read_text("bench", text, strlen(text), NULL, 0, NULL, q->world, job, why);
}

static enum tw_status read_job(const char *strategy, uint32_t accumulate, size_t width,
			       struct tw_job **job, struct tw_error *why)
{
	const struct tw_pipeline_job q = { .world = TW_WORLD_THREADS,
					   .strategy = strategy,
					   .accumulate = accumulate,
					   .width = width };

	return tw_pipeline_job_read(&q, job, why);
}

/* Samples per second, without the first ones. */
static double rate_of(const struct seen *s)
{
	const double ns = (double)(s->at[s->count - 1] - s->at[WARM - 1]);

	return (double)(s->count - WARM) * BATCH * 1e9 / ns;
}

static enum tw_status run_job(const struct tw_bench_how *how, struct tw_job *job, double *rate,
			      json_t **result, struct tw_error *why)
{
	struct seen seen = { .count = 0 };
	const struct tw_run_request r = { .log = how->log,
					  .observer = observe,
					  .observer_arg = &seen };
	enum tw_status st = tw_run(&r, job, result, why);

	if (st == TW_OK && seen.count < STEPS)
		st = tw_fail(why, TW_BAD_BYTES, "the run made only %u steps", seen.count);
	if (st == TW_OK)
		*rate = rate_of(&seen);
	return st;
}

static double of_cell(const json_t *result, uint32_t stage, const char *name)
{
	const json_t *cells = json_object_get(json_object_get(result, "pipeline"), "cells");

	return json_number_value(json_object_get(json_array_get(cells, stage), name));
}

/* The idle share that the schedule has with the times that were measured in this run. */
static enum tw_status predict(const struct tw_plan *p, const json_t *result, double *bubble)
{
	static struct tw_pipe_move move[STAGES][3 * STEPS];
	static double done[TW_DEEDS * STAGES * STEPS];
	const struct tw_pipe_shape shape = tw_plan_pipe_shape(p);
	const struct tw_pipe_move *list[STAGES];
	struct tw_pipe_times times[STAGES];
	struct tw_pipe_cell cell[STAGES];
	struct tw_pipe_played played;
	size_t count[STAGES];
	double busy = 0;
	enum tw_status st;

	for (uint32_t s = 0; s < STAGES; s++) {
		count[s] =
			tw_pipeline_list(p->staging.schedule, &shape, s, STEPS, move[s], 3 * STEPS);
		list[s] = move[s];
		times[s] = (struct tw_pipe_times){ .forward_link = 0 };
		times[s].deed[TW_FORWARD] = of_cell(result, s, "forward_seconds");
		times[s].deed[TW_BACKWARD] = of_cell(result, s, "backward_seconds");
		times[s].deed[TW_UPDATE] = of_cell(result, s, "update_seconds");
		busy += STEPS * (times[s].deed[TW_FORWARD] + times[s].deed[TW_BACKWARD]);
	}
	st = tw_pipeline_play(&(struct tw_pipe_lists){ list, count, STAGES, STAGES, STEPS, NULL },
			      times, done, cell, NULL, &played, NULL, NULL);
	*bubble = 1 - busy / (STAGES * played.makespan);
	return st;
}

static enum tw_status run_piped(const struct tw_bench_how *how, const char *strategy,
				uint32_t accumulate, double *rate, struct piped *out,
				struct tw_error *why)
{
	struct tw_job *job = NULL;
	json_t *result = NULL;
	enum tw_status st = read_job(strategy, accumulate, TW_PIPELINE_WIDTH, &job, why);

	if (st == TW_OK)
		st = run_job(how, job, rate, &result, why);
	if (st == TW_OK)
		st = predict(&job->plan, result, &out->predicted);
	for (uint32_t s = 0; st == TW_OK && s < STAGES; s++) {
		const struct tw_stage_memory m = tw_cost_stage_memory(&job->plan, s);

		out->memory[s] = of_cell(result, s, "memory_bytes");
		out->planned[s] = m.versions + m.activations;
	}
	if (st == TW_OK)
		out->bubble = json_number_value(
			json_object_get(json_object_get(result, "pipeline"), "bubble"));
	json_decref(result);
	tw_job_free(job);
	return st;
}

enum tw_status tw_pipeline_alone(const struct tw_bench_how *how, size_t width, double *rate,
				 struct tw_error *why)
{
	struct tw_job *job = NULL;
	json_t *result = NULL;
	enum tw_status st = read_job("asgd", 1, width, &job, why);

	if (st == TW_OK)
		st = run_job(how, job, rate, &result, why);
	json_decref(result);
	tw_job_free(job);
	return st;
}

static enum tw_status report_memory(json_t *cases, const char *what, const struct piped *p,
				    struct tw_error *why)
{
	enum tw_status st = TW_OK;
	char name[80];

	for (uint32_t s = 0; st == TW_OK && s < STAGES; s++) {
		snprintf(name, sizeof name, "%s: most memory of stage %u, against its plan", what,
			 s);
		st = tw_bench_case(cases, name, p->memory[s], "bytes", p->planned[s], why);
	}
	return st;
}

enum tw_status tw_pipeline_threads(const struct tw_bench_how *how, json_t *cases,
				   struct tw_error *why)
{
	const unsigned rounds = how->rounds ? how->rounds : ROUNDS;
	double alone[TW_BENCH_ROUNDS], two[TW_BENCH_ROUNDS], flush[TW_BENCH_ROUNDS];
	double bubble[TW_BENCH_ROUNDS], predicted[TW_BENCH_ROUNDS];
	struct piped dream, gpipe;
	enum tw_status st = TW_OK;
	double ratio;

	for (unsigned k = 0; st == TW_OK && k < rounds; k++) {
		tw_log_line(how->log, TW_INFO, "bench", "pipeline: round %u of %u", k + 1, rounds);
		st = tw_pipeline_alone(how, TW_PIPELINE_WIDTH, &alone[k], why);
		if (st == TW_OK)
			st = run_piped(how, "{name: pipedream}", 1, &two[k], &dream, why);
		if (st == TW_OK)
			st = run_piped(how, "{name: gpipe}", MICROS, &flush[k], &gpipe, why);
		bubble[k] = gpipe.bubble;
		predicted[k] = gpipe.predicted;
	}
	if (st != TW_OK)
		return st;
	ratio = tw_paired(two, alone, rounds);
	st = tw_bench_paired(cases, "pipedream, 2 stages, against one worker",
			     tw_median(two, rounds), "samples/s", tw_median(alone, rounds), ratio,
			     json_pack("{s:f}", "target", TARGET), why);
	if (st == TW_OK)
		st = tw_bench_paired(cases, "gpipe, 2 stages, 8 micro-batches, against one worker",
				     tw_median(flush, rounds), "samples/s",
				     tw_median(alone, rounds), tw_paired(flush, alone, rounds),
				     NULL, why);
	ratio = tw_paired(bubble, predicted, rounds);
	if (st == TW_OK)
		st = tw_bench_paired(cases, "gpipe: idle share, against its schedule",
				     tw_median(bubble, rounds), "share",
				     tw_median(predicted, rounds), ratio, NULL, why);
	if (st == TW_OK)
		st = report_memory(cases, "pipedream", &dream, why);
	return st == TW_OK ? report_memory(cases, "gpipe", &gpipe, why) : st;
}
