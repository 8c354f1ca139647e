/* SPDX-License-Identifier: Apache-2.0 */
/* session.c - what a caller's own loop costs: a step through thalweg_next and thalweg_done, against
 * the same job with an engine of the library's.
 *
 * One worker in this process, gradients that cost nothing on either side.  The large model lies in
 * 16 shards, so its parameters are put together for the caller: one pass.  Its floor is the
 * built-in step plus 1.2 copies of the vector, all timed in the same rounds.  Copies are counted by
 * the desk.  The tiny model shows what the calls themselves take. */
#include "bench/bench.h"

#include "api/session.h"
#include "base/machine/clock.h"
#include "bench/harness/harness_threads.h"
#include "bench/harness/null_engine.h"
#include "vec/vec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGE       ((size_t)14600000)
#define SHARDS      16
#define TINY        10
#define STEPS       40   /* of the large model, in a round */
#define TINY_STEPS  4000 /* at most TW_IDLE_CALLS */
#define WARM        8
#define ROUNDS      5
#define FLOOR_SHARE 1.2 /* copies of the vector that a session may cost */

static const char strategy[] = "asgd";

struct side {
	size_t parameters;
	uint32_t shards, steps;
};

/* --- the built-in engine ---------------------------------------------------------------------- */

static enum tw_status built_in(const struct side *q, const struct tw_log *log, double *seconds,
			       struct tw_error *why)
{
	const struct tw_null_job request = { .parameters = q->parameters,
					     .workers = 1,
					     .steps = q->steps,
					     .strategy = strategy,
					     .shards = q->shards };
	struct tw_null_engine *e = tw_heap_zeros(&tw_heap_system, sizeof *e);
	struct tw_job *job = NULL;
	enum tw_status st = e ? TW_OK : tw_fail(why, TW_NO_MEMORY, "no memory for an engine");

	if (st == TW_OK)
		st = tw_null_job_read(&request, TW_WORLD_THREADS, &job, why);
	if (st == TW_OK) {
		tw_null_engine_init(e, q->parameters, q->steps);
		st = tw_harness_threads_run(job, &e->engine, &tw_heap_system, log, why);
	}
	if (st == TW_OK)
		*seconds = tw_null_engine_period(e, 1, WARM, q->steps);
	tw_job_free(job);
	tw_heap_system.put(&tw_heap_system, e);
	return st;
}

/* --- the session ------------------------------------------------------------------------------ */

struct copies {
	uint64_t parameters, vectors; /* of a step */
};

/* The loop of a program; `at` gets the time of each task. */
static uint32_t serve(struct thalweg_session *s, size_t parameters, uint32_t steps, int64_t *at,
		      struct thalweg_error *said)
{
	const struct thalweg_answer answer = { .loss = 1, .correct = -1 };
	struct thalweg_task t;
	enum thalweg_got got;
	uint32_t n = 0;

	while ((got = thalweg_next(s, 100, NULL, &t, said)) != THALWEG_END) {
		if (got != THALWEG_TASK)
			continue;
		if (t.work == THALWEG_STEP) {
			/* a buffer is filled the first time that it is seen, as by the engine */
			if (t.vector[0] != 1.0f || t.vector[parameters - 1] != 1.0f)
				tw_vec_fill(t.vector, 1.0f, parameters);
			if (n < steps)
				at[n++] = tw_clock();
		}
		thalweg_done(s, &t, &answer, NULL);
	}
	return n;
}

static enum tw_status time_session(const struct side *q, struct thalweg_session *s, double *seconds,
				   struct copies *copies, struct tw_error *why)
{
	int64_t *at = calloc(q->steps, sizeof *at);
	double *gap = calloc(q->steps, sizeof *gap);
	struct thalweg_error said = { 0 };
	uint32_t n = 0;

	if (at && gap)
		n = serve(s, q->parameters, q->steps, at, &said);
	else
		tw_fail(why, TW_NO_MEMORY, "no memory for times");
	if (said.status != THALWEG_OK)
		tw_fail(why, TW_REFUSED, "the session ended: %s", said.text);
	else if (n <= WARM + 1 && why->status == TW_OK)
		tw_fail(why, TW_REFUSED, "the session had only %u steps", n);
	for (uint32_t k = WARM; k + 1 < n; k++)
		gap[k - WARM] = (double)(at[k + 1] - at[k]) / (double)TW_SECOND;
	if (why->status == TW_OK) {
		const uint32_t gaps = n - 1 - WARM;

		*seconds = tw_median(gap, gaps);
		tw_desk_copied(s->desk, &copies->parameters, &copies->vectors);
		copies->parameters = (copies->parameters + n / 2) / n;
	}
	free(gap);
	free(at);
	return why->status;
}

static enum tw_status session(const struct side *q, double *seconds, struct copies *copies,
			      struct tw_error *why)
{
	char text[300];
	const struct thalweg_request job = { .text = text, .verbosity = -1 };
	const struct thalweg_session_request request = {
		.size = sizeof request,
		.job = &job,
		.layout = { .parameters = q->parameters, .samples = q->steps },
	};
	struct thalweg_session *s = NULL;
	struct thalweg_error said = { 0 };
	enum tw_status st;

	snprintf(text, sizeof text,
		 "data: {batch: 1}\ntrain: {epochs: 1}\nupdate: {rate: 0.001}\n"
		 "cluster: {workers: 1, shards: %u}\nstrategy: %s\n"
		 "checkpoint: {every: 0s}\n",
		 q->shards, strategy);
	if (thalweg_session_open(&request, &s, &said) != THALWEG_OK)
		return tw_fail(why, TW_REFUSED, "no session: %s", said.text);
	st = time_session(q, s, seconds, copies, why);
	thalweg_session_close(s, NULL);
	return st;
}

/* --- copies ----------------------------------------------------------------------------------- */

/* The median of one memcpy of the vector. */
static enum tw_status copying(size_t parameters, double *seconds, struct tw_error *why)
{
	const size_t bytes = parameters * sizeof(float);
	float *from = tw_heap_system.get(&tw_heap_system, bytes);
	float *to = tw_heap_system.get(&tw_heap_system, bytes);
	double time[9];

	if (!from || !to) {
		tw_heap_system.put(&tw_heap_system, from);
		tw_heap_system.put(&tw_heap_system, to);
		return tw_fail(why, TW_NO_MEMORY, "no memory for two vectors");
	}
	tw_vec_fill(from, 1.0f, parameters);
	tw_vec_fill(to, 2.0f, parameters);
	for (int k = 0; k < 9; k++) {
		const int64_t began = tw_clock();

		memcpy(to, from, bytes);
		time[k] = (double)(tw_clock() - began) / (double)TW_SECOND;
		from[k % parameters] += to[k % parameters]; /* it is used */
	}
	tw_heap_system.put(&tw_heap_system, from);
	tw_heap_system.put(&tw_heap_system, to);
	*seconds = tw_median(time, 9);
	return TW_OK;
}

/* --- cases ------------------------------------------------------------------------------------ */

struct rounds {
	double session[TW_BENCH_ROUNDS], built_in[TW_BENCH_ROUNDS], copy[TW_BENCH_ROUNDS],
		floor[TW_BENCH_ROUNDS];
	struct copies copies;
};

static enum tw_status measure(const struct tw_bench_how *how, const struct side *q, double share,
			      size_t rounds, struct rounds *r, struct tw_error *why)
{
	enum tw_status st = TW_OK;

	for (size_t k = 0; k < rounds && st == TW_OK; k++) {
		tw_log_line(how->log, TW_DEBUG, "bench", "session with %zu parameters, round %zu",
			    q->parameters, k + 1);
		st = built_in(q, how->log, &r->built_in[k], why);
		if (st == TW_OK)
			st = session(q, &r->session[k], &r->copies, why);
		if (st == TW_OK)
			st = copying(q->parameters, &r->copy[k], why);
		r->floor[k] = r->built_in[k] + share * r->copy[k];
	}
	return st;
}

static enum tw_status put_case(const char *name, struct rounds *r, size_t rounds, json_t *cases,
			       struct tw_error *why)
{
	json_t *more = json_pack("{s:f, s:f, s:I, s:I}", "built_in", tw_median(r->built_in, rounds),
				 "memcpy", tw_median(r->copy, rounds), "parameter_copies",
				 (json_int_t)r->copies.parameters, "gradient_copies",
				 (json_int_t)r->copies.vectors);
	const double ratio = tw_paired(r->session, r->floor, rounds);

	return tw_bench_paired(cases, name, tw_median(r->session, rounds), "s",
			       tw_median(r->floor, rounds), ratio, more, why);
}

static enum tw_status sessions(const struct tw_bench_how *how, json_t *cases, struct tw_error *why)
{
	const struct side large = { how->size ? how->size : LARGE, SHARDS, STEPS };
	const struct side tiny = { TINY, 1, TINY_STEPS };
	const size_t rounds = how->rounds ? how->rounds : ROUNDS;
	struct rounds r = { .session = { 0 } };
	enum tw_status st = measure(how, &large, FLOOR_SHARE, rounds, &r, why);

	if (st == TW_OK)
		st = put_case("session-step", &r, rounds, cases, why);
	if (st == TW_OK)
		st = measure(how, &tiny, 0.0, rounds, &r, why);
	return st == TW_OK ? put_case("session-tiny", &r, rounds, cases, why) : st;
}

const struct tw_bench tw_bench_session = {
	.name = "session",
	.help = "a step of a caller's own loop, against the built-in engine",
	.run = sessions,
};
