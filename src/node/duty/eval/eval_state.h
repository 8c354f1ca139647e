/* SPDX-License-Identifier: Apache-2.0 */
/* eval_state.h - what the master knows of the evaluation that is awaited or under way. */
#ifndef TW_NODE_DUTY_EVAL_EVAL_STATE_H
#define TW_NODE_DUTY_EVAL_EVAL_STATE_H

#include "base/constants.h"
#include "node/master/master_state.h"

/* A chunk of the test samples. */
struct chunk {
	bool asked, done;
	uint32_t slot;
	int64_t since; /* when it was given to that member */
	double loss, correct;
	uint64_t samples;
};

#define NO_CHUNK UINT32_MAX

enum eval_state {
	EVAL_OFF,
	EVAL_AWAITED,  /* shards were told to keep a view */
	EVAL_HURRIED,  /* those who have not kept one were told not to wait any longer */
	EVAL_COMPLETE, /* all views are kept; the master looks at them when it drives */
	EVAL_VIEWING,  /* replicas take the mean of their views, which differ */
	EVAL_PINNED,   /* workers score: `label` and `at` are of these views */
	EVAL_SCORED,   /* all chunks are: it may be the best (10) */
	EVAL_KEEPING,  /* shards keep its views, and show them for the digest */
};

/* What views have, added up. */
struct view_sums {
	double samples, steps, updates, contributions;
	uint32_t views;
};

/* The evaluation that is awaited or under way.  `start` resets it. */
struct evaluation {
	enum eval_state state;
	uint64_t pin;
	uint64_t number;         /* of the threshold, see (5); 0: at the end */
	uint64_t round, samples; /* shards keep their view when they have so many */
	struct view_sums has;    /* of all views that are kept so far, of all replicas */
	struct tw_point label;
	int64_t at;
	uint32_t lacks; /* that keeps no view */
};

/* Chunks of the evaluation under way, results of those before, and thresholds that shards were told
 * of ahead of time: see (6). */
struct scores {
	struct chunk *chunk;
	uint32_t chunks, held; /* of the tests; of the samples that are scored at the end */
	uint32_t done;
	uint64_t evaluated_at; /* thresholds up to this one have an evaluation */
	uint64_t told;         /* shards keep views for those up to this one ... */
	uint64_t *pin;         /* ... under these numbers: threshold k has pin[k % pins] */
	uint32_t pins;
	double loss, accuracy, held_loss, held_accuracy;
	struct tw_point seen; /* label of the last evaluation */
	struct tw_goal goal;
	uint64_t delivers; /* the views of this pin reached train.until: they are the result; 0:
			      what shards have at the end is */
};

/* What the speaker of a shard has told of its view, and of the best one that it keeps. */
struct kept_view {
	bool kept;
	struct tw_body_pin has;
	bool told; /* best.asked */
	struct tw_kept best;
};

/* The evaluation of what is there at the end, before the last cut: see (12). */
enum ending { ENDING_NONE, ENDING_MADE_NOW, ENDING_MADE };

/* The best evaluation (10), as all shards keep it. */
struct best {
	struct tw_kept kept; /* pin 0: none */
	struct tw_kept next; /* KEEPING: what takes its place ... */
	uint32_t shown;      /* ... the views of so many shards are digested */
	struct tw_digest *digest;
	struct tw_mingling model; /* what was digested of it, with its constants */
	uint64_t asked;           /* shards were asked under this number what they keep; 0: known */
	uint32_t lacks;           /* that has not told */
	bool out_of_patience;
	enum ending ending;
};

/* chunk_of[k] is c exactly if chunk c is asked for, not done, and its slot is k. */
struct eval_master {
	struct evaluation now;
	struct scores scores;
	uint32_t *chunk_of;     /* by slot; NO_CHUNK: none */
	struct kept_view *view; /* by shard */
	struct best best;
	bool final_made;
};

/* eval_due.c */
/* (5): the samples of threshold k; the last threshold that so many samples reach. */
uint64_t tw_eval_due_threshold(const struct master *m, uint64_t k);
uint64_t tw_eval_due_reached(const struct master *m, uint64_t samples);
/* Is there a threshold number k before the end?  What was dealt again may be applied again. */
bool tw_eval_due_has(const struct master *m, uint64_t k);
/* (6): are shards told of thresholds ahead of time? */
bool tw_eval_due_tells_ahead(const struct master *m);
/* Does no round follow the one that was committed?  It is evaluated at the end. */
bool tw_eval_due_is_last_round(const struct master *m);

/* eval_views.c */
/* Ask every shard to keep its view when it has so much; this shard once more. */
void tw_eval_views_start(struct master *m, struct tw_context *ctx, uint64_t number, uint64_t round,
			 uint64_t samples);
void tw_eval_views_pin(struct master *m, struct tw_context *ctx, uint32_t shard);
void tw_eval_views_pin_awaited(struct master *m, struct tw_context *ctx);
void tw_eval_views_begin(struct master *m, struct tw_context *ctx);
/* More samples are applied. */
void tw_eval_views_count_more(struct master *m, struct tw_context *ctx);
/* Are all evaluations made that were due before the end?  Those that are not are hurried. */
bool tw_eval_views_are_even(struct master *m, struct tw_context *ctx);
void tw_eval_views_add(struct view_sums *sum, const struct tw_body_pin *v);
bool tw_eval_views_all_kept(struct master *m);
/* All views are here, for the first time: what is due then is done when the master drives. */
void tw_eval_views_kept(struct master *m, struct tw_context *ctx);
/* There is an evaluation for this threshold and for all others that its view has passed.  It is let
 * go; then: what is next. */
void tw_eval_views_settle(struct master *m, struct tw_context *ctx);
void tw_eval_views_go_on(struct master *m, struct tw_context *ctx);

/* The last threshold that the evaluation under way has passed; at least its own. */
uint64_t tw_eval_views_passed(const struct master *m);
uint64_t tw_eval_views_new_pin(struct master *m, struct tw_context *ctx);
void tw_eval_views_send(struct tw_context *ctx, struct tw_msg *msg, const struct tw_body_pin *what);

/* eval_best.c */
/* (10), (11): what this shard was told of the best evaluation, and has not answered. */
void tw_eval_best_tell(struct master *m, struct tw_context *ctx, uint32_t shard);
/* (11): a generation begins. */
void tw_eval_best_begin(struct master *m, struct tw_context *ctx);
/* Must this shard still say or show what it keeps? */
bool tw_eval_best_owes(const struct master *m, uint32_t shard);
void tw_eval_best_take(struct master *m, struct tw_context *ctx, const struct tw_msg *msg);
void tw_eval_best_hear(struct master *m, struct tw_context *ctx, const struct tw_msg *msg);

/* eval_scores.c */
/* The result is there; `digest` of its parameters where it is the best so far, else NULL. */
void tw_eval_scores_conclude(struct master *m, struct tw_context *ctx, const char *digest);
/* Does the last evaluation reach what train.until asks for? */
bool tw_eval_scores_are_enough(const struct master *m);
/* Loss and accuracy of these chunks. */
void tw_eval_scores_add_up(const struct chunk *chunk, uint32_t count, double *loss,
			   double *accuracy);
/* Give chunks that nobody works on to workers that work on none. */
void tw_eval_scores_deal(struct master *m, struct tw_context *ctx);
void tw_eval_scores_hear_view(struct master *m, struct tw_context *ctx, const struct tw_msg *msg);
void tw_eval_scores_hear(struct master *m, struct tw_context *ctx, const struct tw_msg *msg);
/* (2) */
void tw_eval_scores_take_from(struct master *m, struct tw_context *ctx, uint32_t slot);

#endif
