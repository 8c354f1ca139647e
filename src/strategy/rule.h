/* SPDX-License-Identifier: Apache-2.0 */
/* rule.h - what does a gradient do to the parameters, and what do workers see?
 *
 * Works on one tile of a shard at a time, in plain float loops (see vec/clone.h).  Only the rule
 * multiplies with the rate. */
#ifndef TW_STRATEGY_RULE_H
#define TW_STRATEGY_RULE_H

#include "base/status.h"
#include "base/variant.h"

#include <float.h>
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
	TW_RULE_NORMALISES = 64, /* divides by the size of the gradients it has seen, so a factor on
				    all of them changes nothing */
	TW_RULE_VIEW_MINE = 128, /* `view` reads `mine`: each worker sees a vector of its own */
	TW_RULE_TOTAL = 256,     /* takes the total of what an update collects, not the mean */
	TW_RULE_ONE_BY_ONE = 512, /* each contribution must be an update of its own */
	TW_RULE_PREDICTS = 1024,  /* `view` reads `horizon`: it is for stages that are late */
	TW_RULE_OUTSIDE = 2048,   /* `g` has the new values of the parameters: whoever computed it
				     took the step, and has the state of it */
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
	float before;     /* TW_RULE_PER_WORKER: the rate of this worker's update before this one; 0
			   if there was none */
	float decay;      /* weight decay, for TW_RULE_OWN_DECAY only; else 0 */
	uint64_t count;   /* updates so far on this shard, this one included */
	uint32_t workers; /* of the job; at least 1 */
	uint32_t horizon; /* view: updates by which gradients computed on it come late */
	bool stream;      /* `out` will not be read soon: it may be written past the caches */
};

/* The worker's half of one contribution to one shard.  Pointers are to n floats; `u` may be `g`. */
struct tw_prepare {
	float *v;       /* the worker's array, zero when it joined */
	const float *g; /* finite; a mean, decayed */
	float *u;       /* out: what it pushes, and the shard does w = w - u */
	size_t n;
	float rate;   /* stamped in the answer that g was computed on */
	float before; /* the rate of the contribution before this one; 0 if there was none */
};

/* Rates that a rule takes with networks: what it has where the job says none, and the range in
 * which those of papers and of other programs' defaults lie.  A rule that reads no rate has zeros.
 */
struct tw_usual_rate {
	double standard, low, high;
};

struct tw_rule {
	TW_VARIANT; /* traits: of enum tw_rule_traits */
	struct tw_usual_rate rate;
	uint32_t arrays;                /* of the shard's length */
	const char *const *array_names; /* `arrays` of them, for checkpoints ("momentum") */

	void (*apply)(const void *options, const struct tw_apply *a);
	/* TW_RULE_OWN_VIEW: out = what workers see.  Reads w, array, rate and n of *a only,
	 * `mine` of the worker that will see it (TW_RULE_VIEW_MINE), and horizon and count, here
	 * the updates made (TW_RULE_PREDICTS). */
	void (*view)(const void *options, const struct tw_apply *a, float *out);
	/* TW_RULE_OWN_VIEW: do workers see `view` with these options?  NULL: always. */
	bool (*shows)(const void *options);
	/* TW_RULE_OWN_VIEW: the name of what is kept and evaluated where workers see another
	 * vector ("theta (nag)"). */
	const char *kept;
	/* TW_RULE_PER_WORKER: the worker whose array is `mine` goes for good. */
	void (*leave)(const void *options, float *const *array, float *mine, size_t n);

	/* The worker's half (`send: momentum`), NULL if it has none. */
	void (*prepare)(const void *options, const struct tw_prepare *p);
	/* The worker leaves: u is its last push. */
	void (*farewell)(const void *options, const float *v, float *u, size_t n);
	const char *kept_sent; /* like `kept`, where workers do their half */
};

/* Do workers see another vector than the one that is kept? */
static inline bool tw_rule_shows(const struct tw_rule *rule, const void *options)
{
	return (rule->traits & TW_RULE_OWN_VIEW) && (!rule->shows || rule->shows(options));
}

/* Momentum correction (Goyal et al. 2017): what a velocity with the rate inside is multiplied with
 * when the rate is not the one of the update before; exactly 1 where it is. */
static inline float tw_rate_ratio(float rate, float before)
{
	const float r = before > 0.0f ? rate / before : 0.0f;

	return r <= FLT_MAX ? r : 0.0f;
}

/* The far half where the worker does the whole update: w = w - what it pushed.  No job names it. */
extern const struct tw_rule tw_rule_subtract;

TW_REGISTRY(rule, tw_rule);

/* The rate over the course of a run; progress is applied samples / size, in epochs. */
enum tw_schedule_kind {
	TW_SCHEDULE_CONSTANT,
	TW_SCHEDULE_STEP,
	TW_SCHEDULE_COSINE,
	TW_SCHEDULE_LINEAR,
	TW_SCHEDULE_INVERSE_ROOT, /* 1 / sqrt(number of the update, from 1) */
	TW_SCHEDULE_INVERSE,      /* 1 / number of the update */
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
	double update;      /* inverse, inverse-root: epochs of an update */
	double final;       /* cosine, linear: last rate as a factor of the base rate */
};
/* Does the rate follow from the number of the update? */
static inline bool tw_schedule_by_update(uint32_t kind)
{
	return kind == TW_SCHEDULE_INVERSE_ROOT || kind == TW_SCHEDULE_INVERSE;
}
float tw_schedule_rate(const struct tw_schedule *s, double progress);
/* The largest rate the schedule ever gives. */
float tw_schedule_largest(const struct tw_schedule *s);

#endif
