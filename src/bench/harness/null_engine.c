/* SPDX-License-Identifier: Apache-2.0 */
/* null_engine.c - an engine whose gradients cost nothing, so that what is left is the exchange. */
#include "bench/harness/null_engine.h"

#include "bench/bench.h"
#include "metrics/progress.h"
#include "vec/vec.h"

#include <stdio.h>
#include <string.h>

/* Both ends of a buffer that is filled carry this value, which nothing else here produces. */
#define MARK 1.2345e-3f

static enum tw_status idle_start(const struct tw_engine *e, size_t from, size_t n, float *out)
{
	tw_vec_fill(out, 0.5f, n);
	return TW_OK;
}

static enum tw_status idle_gradient(const struct tw_engine *engine, void *scratch,
				    const struct tw_inputs *in, float *gradient,
				    struct tw_score *score)
{
	struct tw_null_engine *e = (struct tw_null_engine *)engine;
	const size_t n = engine->trainable;
	const size_t call = atomic_fetch_add_explicit(&e->calls, 1, memory_order_relaxed);

	if (gradient[0] != MARK || gradient[n - 1] != MARK)
		tw_vec_fill(gradient, MARK, n);
	if (call < TW_IDLE_CALLS)
		e->at[call] = tw_clock();
	*score = (struct tw_score){ .correct = -1.0, .samples = in->count };
	return TW_OK;
}

static enum tw_status idle_evaluate(const struct tw_engine *e, void *scratch,
				    const struct tw_inputs *in, struct tw_score *score)
{
	*score = (struct tw_score){ .correct = -1.0, .samples = in->count };
	return TW_OK;
}

static void idle_close(struct tw_engine *e) {}

static const struct tw_engine_class idle_class = {
	.name = "idle",
	.init = idle_start,
	.gradient = idle_gradient,
	.evaluate = idle_evaluate,
	.close = idle_close,
};

void tw_null_engine_init(struct tw_null_engine *e, size_t parameters, uint64_t samples)
{
	*e = (struct tw_null_engine){
		.engine = {
			.class = &idle_class,
			.trainable = parameters,
			.tensors = 1,
			.samples = samples,
			.tests = 1,
			.cost = 1.0,
		},
		.tensor = { 0, parameters },
	};
	e->engine.tensor = e->tensor;
}

enum tw_status tw_null_job_read(const struct tw_null_job *q, enum tw_world_kind world,
				struct tw_job **job, struct tw_error *why)
{
	char text[400], shards[40] = "";

	if (q->shards)
		snprintf(shards, sizeof shards, ", shards: %u", q->shards);
	snprintf(text, sizeof text,
		 "model: {quadratic: {dimension: %zu}}\n"
		 "data: {source: none, samples: %u, batch: 1}\n"
		 "train: {epochs: 1}\n"
		 "update: {rule: sgd, rate: 0.01}\n"
		 "cluster: {workers: %u%s}\n"
		 "strategy: %s\n",
		 q->parameters, q->steps * q->workers, q->workers, shards, q->strategy);
	return tw_job_read_text("bench", text, strlen(text), NULL, 0, NULL, world, job, why);
}

double tw_null_engine_period(const struct tw_null_engine *e, size_t each, size_t warm, size_t steps)
{
	const int64_t *at = e->at + warm * each;
	double x[TW_IDLE_CALLS];

	if (atomic_load(&e->calls) < steps * each || steps * each > TW_IDLE_CALLS)
		return 0.0;
	for (size_t i = 0; i + 1 < steps - warm; i++)
		x[i] = (double)(at[(i + 1) * each] - at[i * each]) / (double)TW_SECOND;
	return tw_median(x, steps - warm - 1);
}
