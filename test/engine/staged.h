/* SPDX-License-Identifier: Apache-2.0 */
/* staged.h - an engine computed stage by stage, each in memory of its own with fences around it. */
#ifndef TEST_ENGINE_STAGED_H
#define TEST_ENGINE_STAGED_H

#include "actor/engine.h"

#define STAGES_MAX 8
#define MICROS_MAX 8

enum staged_way {
	STAGED_RECOMPUTES, /* backwards compute forward again */
	STAGED_STASHES,    /* every stage keeps a stash, the last one too */
	STAGED_FUSES,      /* stashes, and the last stage does both passes at once */
	STAGED_WAYS,
};
extern const char *const staged_names[];

/* Which cuts: cut[0] = 0 < cut[1] < ... < cut[stages] = the last. */
struct staged {
	const struct tw_engine *e;
	uint32_t cut[STAGES_MAX + 1], stages;
	enum staged_way way;
};

/* The engine whole, or cut once after cut k of its list. */
struct staged staged_whole(const struct tw_engine *e, enum staged_way way);
struct staged staged_once(const struct tw_engine *e, uint32_t k, enum staged_way way);

/* The gradient by the engine's own function; g has trainable + buffers floats. */
struct tw_score fused_gradient(const struct tw_engine *e, const float *w, uint64_t from,
			       uint32_t count, float *g);
/* `micros` batches, all forwards, then all backwards, so that all of them are on their way at once;
 * g has as many whole vectors.  w: a vector for each stage, of which it sees its own elements only;
 * or the same for all. */
void staged_gradients(const struct staged *s, const float *const *w, uint64_t from, uint32_t count,
		      uint32_t micros, float *g, struct tw_score *score);
/* Test samples through the stages; `prediction` (may be NULL) is that of the last. */
struct tw_score staged_score(const struct staged *s, const float *w, uint64_t from, uint32_t count,
			     float *prediction);

/* Fail with both numbers at the first difference. */
void same_floats(const float *a, const float *b, size_t n, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
void same_score(struct tw_score a, struct tw_score b, const char *what);
/* Initial parameters, moved a little so that nothing is exactly 0. */
float *some_parameters(const struct tw_engine *e);

#endif
