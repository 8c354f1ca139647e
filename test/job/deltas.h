/* SPDX-License-Identifier: Apache-2.0 */
/* deltas.h - serial loops for workers that step by themselves and push where that led.
 *
 * There are two, both over whole vectors and written from the formulas of the literature.  The one
 * for rounds of all workers needs nothing but the job's numbers; the other follows the order in
 * which things happened in a run.  Both must end with the same bits as the actors, and must have
 * computed every gradient at the same bits. */
#ifndef TW_TEST_JOB_DELTAS_H
#define TW_TEST_JOB_DELTAS_H

#include "job/serial.h"

enum near_rule { NEAR_SGD, NEAR_MOMENTUM, NEAR_NAG, NEAR_ADAMW };
enum outer_rule { OUTER_AVERAGE, OUTER_ADD, OUTER_BMUF, OUTER_NESTEROV, OUTER_DELAYED };
enum merge_rule { MERGE_REPLACE, MERGE_ELASTIC, MERGE_MIX };

/* What a result should say. */
struct delta_figures {
	uint64_t pushes, steps;
	double drift, drift_most; /* norms of own - centre before each push: sum, largest */
};

/* What a job should mean. */
struct delta_formula {
	enum near_rule near;
	double rate;
	float momentum, decay, clip; /* near */
	bool cosine;                 /* down to 0; else, if drop > 0, times 0.3 at that epoch */
	double drop;
	uint32_t push, fetch; /* steps; fetch 0: as push */
	double push_after;    /* epochs with push 1 before */

	enum outer_rule outer;
	float outer_rate, outer_momentum; /* outer_rate of add: the scale */
	bool nesterov;                    /* bmuf */
	enum merge_rule merge;
	float alpha;
	double power;       /* a contribution counts (1 + tau)^-power */
	bool average_state; /* the near rule's state is a mean by samples after each round */
	struct delta_figures *figures; /* in rounds: filled in; may be NULL */
	uint32_t fragments, delay;     /* fragments 0: all parameters at once, and at once */
};

/* The vectors that gradients were computed at, by first position. */
struct path {
	float **at;
	uint64_t positions;
	size_t n;
};

void path_init(struct path *p, const struct outcome *o);
void path_release(struct path *p);

/* An engine that keeps what it is asked; `real` does the work. */
struct spy {
	struct tw_engine engine; /* must stay first */
	struct tw_engine_class class;
	struct tw_engine *real;
	struct path path;
};

/* Put a spy in the place of the engine of `o`, which must be open and not have run. */
void spy_open(struct spy *s, struct outcome *o);
void spy_close(struct spy *s, struct outcome *o);

/* Rounds of all workers, who all live: from the formulas alone.  Fills `path` (may be NULL) and
 * `w`. */
void rounds_alone(const struct outcome *o, const struct delta_formula *f, struct path *path,
		  float *w);

/* The same, where a round exchanges every `fragments`-th shard's parameters only, and the answer is
 * merged `delay` steps later. */
void rounds_streaming(const struct outcome *o, const struct delta_formula *f, struct path *path,
		      float *w);

/* Without rounds, or where some come too late for theirs: a loop that follows a run. */
struct replay;
struct replay *replay_new(const struct outcome *o, const struct delta_formula *f);
void replay_free(struct replay *z);
bool replay_note(void *z, const struct tw_note *note);
void replay_hears(void *z, uint32_t slot, const struct tw_msg *m);

/* Run `text` and the loop for it; fails the test, naming `label`, if a bit differs.  Returns the
 * largest staleness, or in rounds how many stripes were begun in vain. */
uint64_t deltas_agree(const char *label, const char *text, const struct delta_formula *f);

/* The first difference between the job's result or path and the loop's, or NULL; the text lives
 * until the next call.  `stale` may be NULL. */
const char *deltas_differ(const char *text, const struct delta_formula *f, uint64_t *stale);

#endif
