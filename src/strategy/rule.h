/* SPDX-License-Identifier: Apache-2.0 */
/* rule.h - what does a gradient do to the parameters, and what do workers see?
 *
 * Works on one tile of a shard at a time, in plain float loops (see vec/clone.h).  Only the rule
 * multiplies with the rate. */
#ifndef TW_STRATEGY_RULE_H
#define TW_STRATEGY_RULE_H

#include "base/option.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TW_RULE_ARRAYS 4

enum tw_rule_traits {
	TW_RULE_PER_WORKER = 1, /* an array per worker: each contribution must be applied alone */
	TW_RULE_OWN_VIEW = 2,   /* workers see `view`, not w */
	TW_RULE_OWN_DECAY = 4,  /* decays by itself (adamw): the line must not */
	TW_RULE_STAMPED = 8, /* uses the rate stamped in the answer the gradient was computed on */
	TW_RULE_LINEAR = 16, /* the update is linear in the gradients */
	TW_RULE_PLAIN = 32,  /* it is tw_vec_sgd and nothing else: whoever has the gradient in hand
				may do it in the rule's place */
};

/* One tile of one update.  Pointers are to n floats; `out` may be `w`. */
struct tw_apply {
	const float *w;
	float *out;
	const float *g;   /* corrected, divided, decayed */
	float *direction; /* out: what is multiplied with the rate; NULL if nobody asks */
	float *array[TW_RULE_ARRAYS]; /* the rule's own, zero at the start */
	float *mine;                  /* the array of the contribution's worker, zero when it joined
				 (TW_RULE_PER_WORKER) */
	size_t n;
	float rate;
	float decay;    /* weight decay, for TW_RULE_OWN_DECAY only; else 0 */
	uint64_t count; /* updates so far on this shard, this one included */
	bool stream;    /* `out` will not be read soon: it may be written past the caches */
};

struct tw_rule {
	const char *name, *help;
	const struct tw_option *options;
	size_t options_bytes;
	uint32_t traits;
	uint32_t arrays;                /* of the shard's length */
	const char *const *array_names; /* `arrays` of them, for checkpoints ("momentum") */

	void (*apply)(const void *options, const struct tw_apply *a);
	/* TW_RULE_OWN_VIEW: out = what workers see.  Reads w, array, rate and n of *a only. */
	void (*view)(const void *options, const struct tw_apply *a, float *out);
	/* TW_RULE_PER_WORKER: the worker whose array is `mine` goes for good. */
	void (*leave)(const void *options, float *const *array, float *mine, size_t n);

	/* The worker's half (`send: momentum`), NULL if it has none: v is the worker's array; u
	 * is what it pushes, and the shard does w = w - u. */
	void (*prepare)(const void *options, float *v, const float *g, float rate, float *u,
			size_t n);
	/* The worker leaves: u is its last push. */
	void (*farewell)(const void *options, const float *v, float *u, size_t n);
};

extern const struct tw_rule *const tw_rule_all[];
const struct tw_rule *tw_rule_find(const char *name);

/* The rate over the course of a run; progress is dealt position / size, in epochs. */
enum tw_schedule_kind {
	TW_SCHEDULE_CONSTANT,
	TW_SCHEDULE_STEP,
	TW_SCHEDULE_COSINE,
	TW_SCHEDULE_LINEAR
};
struct tw_schedule {
	uint32_t kind;
	double rate;        /* the base rate */
	double warmup;      /* epochs of linear warm-up; 0 none */
	double warmup_from; /* factor of the rate at progress 0 of the warm-up */
	double factor;      /* step: multiply by this ... */
	struct tw_f64s at;  /* ... at each of these epochs, ascending */
	double every;       /* ... or every so many epochs (0: use `at`) */
	double epochs;      /* cosine, linear: the length of the run */
	double final;       /* cosine, linear: last rate as a factor of the base rate */
};
float tw_schedule_rate(const struct tw_schedule *s, double progress);
/* The largest rate the schedule ever gives. */
float tw_schedule_largest(const struct tw_schedule *s);

#endif
