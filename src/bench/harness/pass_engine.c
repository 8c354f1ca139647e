/* SPDX-License-Identifier: Apache-2.0 */
/* pass_engine.c - an engine around another that can be cut: it notes when micro-batches have come
 * back to the first stage, and its passes may cost nothing. */
#include "bench/harness/pass_engine.h"

#include "bench/harness/timed_engine.h"
#include "metrics/progress.h"
#include "vec/vec.h"

#include <string.h>

/* Both ends of a buffer that is filled carry this value, which nothing else here produces. */
#define MARK 1.2345e-3f

static const struct tw_engine *inner_of(const struct tw_engine *e)
{
	return ((const struct tw_pass_engine *)e)->inner;
}

static void note(const struct tw_engine *engine, const struct tw_pass *p)
{
	struct tw_pass_times *t = ((const struct tw_pass_engine *)engine)->times;
	size_t k;

	if (p->kind != TW_PASS_BACKWARD || p->first != 0)
		return;
	k = atomic_fetch_add_explicit(&t->count, 1, memory_order_relaxed);
	if (k < TW_PASS_TIMES)
		t->at[k] = tw_clock();
}

static enum tw_status start(const struct tw_engine *e, size_t from, size_t n, float *out)
{
	return inner_of(e)->class->init(inner_of(e), from, n, out);
}

static enum tw_status gradient(const struct tw_engine *e, void *scratch, const struct tw_inputs *in,
			       float *out, struct tw_score *score)
{
	return inner_of(e)->class->gradient(inner_of(e), scratch, in, out, score);
}

static enum tw_status evaluate(const struct tw_engine *e, void *scratch, const struct tw_inputs *in,
			       struct tw_score *score)
{
	return inner_of(e)->class->evaluate(inner_of(e), scratch, in, score);
}

static enum tw_status needs(const struct tw_engine *e, uint32_t first, uint32_t last,
			    uint32_t count, struct tw_needs *out)
{
	return inner_of(e)->class->needs(inner_of(e), first, last, count, out);
}

static void leave(struct tw_engine *e) {}

static enum tw_status timed_run(const struct tw_engine *e, void *scratch,
				const struct tw_inputs *in, const struct tw_pass *p, float *change,
				struct tw_score *score)
{
	struct tw_pass_times *t = ((const struct tw_pass_engine *)e)->times;
	const int64_t began = tw_clock(), cpu = tw_timed_cpu();
	enum tw_status status;

	note(e, p);
	status = inner_of(e)->class->run(inner_of(e), scratch, in, p, change, score);
	atomic_fetch_add_explicit(&t->cpu_ns, tw_timed_cpu() - cpu, memory_order_relaxed);
	atomic_fetch_add_explicit(&t->wall_ns, tw_clock() - began, memory_order_relaxed);
	return status;
}

static void fill_once(float *x, size_t n)
{
	if (x && n && (x[0] != MARK || x[n - 1] != MARK))
		tw_vec_fill(x, MARK, n);
}

static enum tw_status idle_run(const struct tw_engine *e, void *scratch, const struct tw_inputs *in,
			       const struct tw_pass *p, float *change, struct tw_score *score)
{
	const uint32_t last = p->last ? p->last : (uint32_t)e->cuts - 1;
	const bool back = p->kind == TW_PASS_BACKWARD || p->kind == TW_PASS_GRADIENT;
	const bool scores = last + 1 == e->cuts && p->kind != TW_PASS_BACKWARD;

	note(e, p);
	if (back) {
		fill_once(p->dx, tw_model_cut_floats(&e->cut[p->first], in->count, true));
		memset(change, 0,
		       (e->cut[last].trainable - e->cut[p->first].trainable) * sizeof *change);
	} else {
		fill_once(p->y, tw_model_cut_floats(&e->cut[last], in->count, false));
	}
	*score = (struct tw_score){ .correct = scores ? -1.0 : 0.0,
				    .samples = scores ? in->count : 0 };
	return TW_OK;
}

static const struct tw_engine_class timed_class = {
	.name = "timed-passes",
	.init = start,
	.gradient = gradient,
	.evaluate = evaluate,
	.run = timed_run,
	.needs = needs,
	.close = leave,
};

static const struct tw_engine_class idle_class = {
	.name = "idle-passes",
	.init = start,
	.gradient = gradient,
	.evaluate = evaluate,
	.run = idle_run,
	.needs = needs,
	.close = leave,
};

void tw_pass_engine_init(struct tw_pass_engine *e, const struct tw_engine *inner,
			 struct tw_pass_times *times)
{
	*e = (struct tw_pass_engine){ .engine = *inner, .inner = inner, .times = times };
	e->engine.class = &timed_class;
}

void tw_pass_engine_idle(struct tw_pass_engine *e, const struct tw_engine *inner, uint32_t width,
			 struct tw_pass_times *times)
{
	tw_pass_engine_init(e, inner, times);
	e->engine.class = &idle_class;
	memcpy(e->cut, inner->cut, sizeof e->cut);
	e->cut[1].values = 1;
	e->cut[1].value[0] = (struct tw_model_cut_value){ .floats = width, .back = true };
	e->engine.cut = e->cut;
}

double tw_pass_period(const struct tw_pass_times *t, size_t warm, size_t count)
{
	if (count > TW_PASS_TIMES || atomic_load(&t->count) < count || count < warm + 2)
		return 0.0;
	return (double)(t->at[count - 1] - t->at[warm]) / (double)(count - 1 - warm) /
	       (double)TW_SECOND;
}
