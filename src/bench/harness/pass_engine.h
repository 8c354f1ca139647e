/* SPDX-License-Identifier: Apache-2.0 */
/* pass_engine.h - an engine around another that can be cut: it notes when micro-batches have come
 * back to the first stage, and its passes may cost nothing. */
#ifndef TW_BENCH_PASS_ENGINE_H
#define TW_BENCH_PASS_ENGINE_H

#include "actor/engine.h"

#define TW_PASS_TIMES 4096

/* When the first stage began with its backwards, ns of CLOCK_MONOTONIC; may be shared by
 * processes, and all zeros at first. */
struct tw_pass_times {
	_Atomic size_t count;
	_Atomic int64_t cpu_ns, wall_ns; /* of passes that compute, which wait for nothing */
	int64_t at[TW_PASS_TIMES];
};

struct tw_pass_engine {
	struct tw_engine engine; /* must stay first; its figures are the inner one's */
	const struct tw_engine *inner;
	struct tw_pass_times *times;
	struct tw_model_cut cut[3];
};

/* Around an engine that stays the caller's: passes are the inner one's. */
void tw_pass_engine_init(struct tw_pass_engine *e, const struct tw_engine *inner,
			 struct tw_pass_times *times);
/* The same around an engine with one place for a cut: so many values of a sample cross there,
 * forward and back, and no pass computes anything.  What goes out is filled the first time that it
 * is seen and left alone afterwards. */
void tw_pass_engine_idle(struct tw_pass_engine *e, const struct tw_engine *inner, uint32_t width,
			 struct tw_pass_times *times);
/* Mean seconds from one backward of the first stage to the next, without the first `warm` of
 * `count`; 0.0: there were not as many. */
double tw_pass_period(const struct tw_pass_times *t, size_t warm, size_t count);

#endif
