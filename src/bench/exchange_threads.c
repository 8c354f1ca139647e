/* SPDX-License-Identifier: Apache-2.0 */
/* exchange_threads.c - push + apply + pull through the real actors in threads, against one SGD pass
 * plus one memcpy over the same bytes by one thread. */
#include "bench/exchange.h"

#include "bench/harness/harness_threads.h"
#include "metrics/progress.h"
#include "vec/vec.h"

#include <stdlib.h>
#include <string.h>

#define PARAMETERS 14600000u
#define ROUNDS     7
#define STEPS      60 /* exchanges of one worker in one round */
#define WARM       TW_EXCHANGE_WARM

static double seconds_since(int64_t began)
{
	return (double)(tw_clock() - began) / (double)TW_SECOND;
}

/* --- the floor --- */

struct floor {
	float *w, *g, *copy;
};

static enum tw_status floor_open(struct floor *f)
{
	const size_t bytes = (size_t)PARAMETERS * sizeof(float);

	f->w = tw_heap_system.get(&tw_heap_system, bytes);
	f->g = tw_heap_system.get(&tw_heap_system, bytes);
	f->copy = tw_heap_system.get(&tw_heap_system, bytes);
	if (!f->w || !f->g || !f->copy)
		return TW_NO_MEMORY;
	tw_vec_fill(f->w, 0.5f, PARAMETERS);
	tw_vec_fill(f->g, 1e-3f, PARAMETERS);
	tw_vec_fill(f->copy, 0.0f, PARAMETERS);
	return TW_OK;
}

static void floor_close(struct floor *f)
{
	tw_heap_system.put(&tw_heap_system, f->w);
	tw_heap_system.put(&tw_heap_system, f->g);
	tw_heap_system.put(&tw_heap_system, f->copy);
}

static double floor_once(const struct floor *f)
{
	const int64_t began = tw_clock();

	tw_vec_sgd(f->w, f->w, f->g, 0.01f, PARAMETERS, false);
	memcpy(f->copy, f->w, (size_t)PARAMETERS * sizeof(float));
	/* keep the copy: nobody reads it */
	__asm__ volatile("" : : "r"(f->copy) : "memory");
	return seconds_since(began);
}

static double floor_median(const struct floor *f)
{
	double x[9];

	for (size_t i = 0; i < 9; i++)
		x[i] = floor_once(f);
	return tw_median(x, 9);
}

/* --- the exchange --- */

enum tw_status tw_exchange_job(enum tw_world_kind world, uint32_t workers, uint32_t steps,
			       size_t parameters, struct tw_job **job, struct tw_error *why)
{
	const struct tw_null_job q = {
		.parameters = parameters, .workers = workers, .steps = steps, .strategy = "asgd"
	};

	return tw_null_job_read(&q, world, job, why);
}

static int ascending(const void *a, const void *b)
{
	const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y ? 1 : 0;
}

/* Seconds from one gradient to the next, of all workers together: the slowest part of an exchange
 * that costs nothing but itself.  Without the warm-up and without the end, where one worker may be
 * alone. */
static double period(struct tw_null_engine *idle, uint32_t workers)
{
	size_t n = atomic_load(&idle->calls), from, to;

	if (n > TW_IDLE_CALLS)
		n = TW_IDLE_CALLS;
	qsort(idle->at, n, sizeof idle->at[0], ascending);
	from = WARM * workers;
	to = n - 1 - workers;
	return (double)(idle->at[to] - idle->at[from]) / (double)(to - from) / (double)TW_SECOND;
}

static enum tw_status measure(uint32_t workers, const struct tw_log *log, double *out,
			      struct tw_error *why)
{
	struct tw_null_engine *idle = malloc(sizeof *idle);
	struct tw_job *job = NULL;
	enum tw_status status;

	if (!idle)
		return tw_fail(why, TW_NO_MEMORY, "no memory for the engine");
	tw_null_engine_init(idle, PARAMETERS, (uint64_t)STEPS * workers);
	status = tw_exchange_job(TW_WORLD_THREADS, workers, STEPS, PARAMETERS, &job, why);
	if (status == TW_OK)
		status = tw_harness_threads_run(job, &idle->engine, &tw_heap_system, log, why);
	if (status == TW_OK && atomic_load(&idle->calls) < STEPS * workers)
		status = tw_fail(why, TW_BAD_BYTES, "only %zu of %u exchanges happened",
				 atomic_load(&idle->calls), STEPS * workers);
	if (status == TW_OK)
		*out = period(idle, workers);
	tw_job_free(job);
	free(idle);
	return status;
}

enum tw_status tw_exchange_threads(const struct tw_bench_how *how, json_t *cases,
				   struct tw_error *why)
{
	const struct tw_log *log = how->log;
	double floors[ROUNDS], one[ROUNDS], two[ROUNDS];
	/* what the actors say of their coming and going is no part of a bench */
	const struct tw_log quiet = { .sink = log->sink, .arg = log->arg, .level = TW_WARNING };
	struct floor f = { NULL };
	enum tw_status status;

	status = floor_open(&f);
	if (status != TW_OK)
		tw_fail(why, status, "no memory for the floor");
	for (size_t i = 0; i < ROUNDS && status == TW_OK; i++) {
		tw_log_line(log, TW_DEBUG, "bench", "exchange, round %zu of %d", i + 1, ROUNDS);
		floors[i] = floor_median(&f);
		status = measure(1, &quiet, &one[i], why);
		if (status == TW_OK)
			status = measure(2, &quiet, &two[i], why);
	}
	if (status == TW_OK) {
		const double alone = tw_median(one, ROUNDS);

		status = tw_bench_case(cases, "exchange-1", alone, "s per exchange",
				       tw_median(floors, ROUNDS), why);
		if (status == TW_OK)
			status = tw_bench_case(cases, "exchange-2", 1.0 / tw_median(two, ROUNDS),
					       "exchanges/s", 1.0 / alone, why);
	}
	floor_close(&f);
	return status;
}
