/* SPDX-License-Identifier: Apache-2.0 */
/* cost_tools.c - a job's predicted cost beside what the simulator counts. */
#include "job/cost_tools.h"

#include "job/reading.h"
#include "job/trial.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

const char *const cost_models[] = {
	"data: {source: digits, count: 1600, tests: 10, batch: 2}\n"
	"model: {layers: [linear 512, relu, linear 512, relu, linear 10]}\n",
	"data: {source: digits, count: 1600, tests: 10, batch: 2}\n"
	"model: {layers: [conv 8 3, relu, maxpool 2, conv 16 3, relu, maxpool 2, linear 10]}\n",
	"data: {source: none, samples: 1280, batch: 2}\n"
	"model: {quadratic: {dimension: 5000}}\n",
	NULL
};

/* --- an engine of another's size, whose gradients are zeros --- */

static enum tw_status no_init(const struct tw_engine *e, size_t from, size_t n, float *out)
{
	(void)e, (void)from;
	memset(out, 0, n * sizeof *out);
	return TW_OK;
}

static enum tw_status no_gradient(const struct tw_engine *e, void *scratch,
				  const struct tw_inputs *in, float *gradient,
				  struct tw_score *score)
{
	(void)scratch;
	memset(gradient, 0, (e->trainable + e->buffers) * sizeof *gradient);
	*score = (struct tw_score){ .samples = in->count };
	return TW_OK;
}

static enum tw_status no_score(const struct tw_engine *e, void *scratch, const struct tw_inputs *in,
			       struct tw_score *score)
{
	(void)e, (void)scratch;
	*score = (struct tw_score){ .samples = in->count };
	return TW_OK;
}

/* Samples are as long as those of the engine in whose place it is. */
static const struct tw_engine *replaced;

static size_t no_bytes(const struct tw_engine *e, uint32_t count)
{
	(void)e;
	return replaced->class->given_bytes(replaced, count);
}

static enum tw_status no_samples(const struct tw_engine *e, uint64_t from, uint32_t count,
				 uint8_t *out)
{
	(void)from;
	memset(out, 0, no_bytes(e, count));
	return TW_OK;
}

static const struct tw_engine_class zeros = { .name = "zeros",
					      .init = no_init,
					      .gradient = no_gradient,
					      .evaluate = no_score,
					      .given_bytes = no_bytes,
					      .give = no_samples };

/* --- both sides --- */

static void open_job(struct trial *t, const struct cost_job *j, uint64_t steps)
{
	trial_open(t, TW_WORLD_SIM,
		   "%scluster: {workers: %u%s}\nstrategy: %s\nsim: %s\n"
		   "train: {steps: %llu, evaluate: 0, warm: {workers: 0, for: 0 "
		   "epochs}}\ncheckpoint: {every: 0s}\n",
		   j->model, j->workers, j->cluster, j->strategy, j->sim,
		   (unsigned long long)steps);
}

void cost_predict(const struct cost_job *j, struct tw_cost *out)
{
	struct trial t;

	open_job(&t, j, 1000000);
	tw_cost_predict(&t.job->plan, &t.job->sim, t.engine, 0, out);
	trial_close(&t);
}

static void run_one(const struct cost_job *j, uint32_t rounds, struct tw_ran *ran, double *batch)
{
	struct tw_engine *real, engine;
	struct trial t;

	open_job(&t, j, 1000000);
	rounds *= t.job->plan.traffic.push * t.job->plan.dealing.accumulate * j->workers;
	trial_close(&t);
	open_job(&t, j, rounds);
	real = t.engine;
	replaced = real;
	engine = *real;
	engine.class = &zeros;
	t.engine = &engine;
	if (trial_run(&t, &tw_heap_system, NULL, ran) != TW_OK)
		fail_msg("%s: %s", j->strategy, ran->error.text);
	*batch = t.job->plan.dealing.batch;
	t.engine = real;
	trial_close(&t);
}

void cost_count(const struct cost_job *j, struct cost_counted *out)
{
	struct tw_ran one, two;
	const struct tw_tally *a = &one.totals.tally, *b = &two.totals.tally;
	double batch, seconds, samples;

	run_one(j, j->rounds, &one, &batch);
	run_one(j, 2 * j->rounds, &two, &batch);
	seconds = (double)(two.virtual_ns - one.virtual_ns) / 1e9;
	samples = (double)(two.totals.samples - one.totals.samples);
	*out = (struct cost_counted){
		.samples_per_second = samples / seconds,
		.step = seconds * batch * j->workers / samples,
		.bytes_per_step =
			(double)(two.bytes_sent - one.bytes_sent) * batch * j->workers / samples,
		.staleness = (double)(b->staleness_sum - a->staleness_sum) /
			     (double)(b->staleness_count - a->staleness_count),
	};
	tw_totals_release(&one.totals);
	tw_totals_release(&two.totals);
}

bool cost_is_beyond(const char *strategy, uint32_t workers)
{
	static const char *const never[] = { "hogwild", "downpour",         "ringmaster", "rennala",
					     "malenia", "streaming-diloco", "strom" };

	for (size_t k = 0; k < sizeof never / sizeof never[0]; k++)
		if (strstr(strategy, never[k]))
			return true;
	return workers == 2 && strcmp(strategy, "backup") == 0;
}

double cost_compare(const struct cost_job *j, double most)
{
	struct cost_counted seen;
	struct tw_cost said;
	double off;

	cost_predict(j, &said);
	if (said.unknown)
		fail_msg("%s: not predicted: %s", j->strategy, said.unknown);
	cost_count(j, &seen);
	off = said.step / seen.step - 1;
	if (getenv("TW_COST_LOUD"))
		printf("%-40.40s %3u said %.4g seen %.4g %+6.1f %%  bytes %+6.1f %% staleness "
		       "%.2f %.2f  %s\n",
		       j->strategy, j->workers, said.step, seen.step, 100 * off,
		       100 * (said.busiest_bytes / seen.bytes_per_step - 1), said.staleness,
		       seen.staleness, tw_cost_limit_names[said.limit]);
	if (!(fabs(off) <= most))
		fail_msg("%s with %u workers, sim: %s: a step was predicted to take %g s and takes "
			 "%g s (%+.1f %%)",
			 j->strategy, j->workers, j->sim, said.step, seen.step, 100 * off);
	return off;
}
