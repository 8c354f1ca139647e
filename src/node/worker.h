/* SPDX-License-Identifier: Apache-2.0 */
/* worker.h - a worker's state, shared by worker.c (whom it talks to), lease.c (what it may work
 * on), eval.c (evaluation) and step.c (what it computes and pushes). */
#ifndef TW_NODE_WORKER_H
#define TW_NODE_WORKER_H

#include "node/plan.h"

#define TW_CREDITS 2 /* contributions that may be on their way without an answer */

/* A shard as this worker knows it. */
struct link {
	struct tw_addr addr;
	uint32_t incarnation;
	bool known, wants;     /* wants: a request for parameters is open ... */
	uint64_t number;       /* ... with this number */
	bool asked;            /* ... as a PULL of its own (else as the answer to a push) */
	struct tw_block *view; /* what it was sent, decoded; NULL before the first answer */
	struct tw_version version;
	uint64_t round, acked; /* acked: contributions up to it are closed there */
	uint64_t least;        /* clock of the slowest worker there, as the last answer says */
	float rate;
	double statistic;
	bool down;
};

/* A contribution that is not closed on every shard: kept to be sent again. */
struct outgoing {
	uint64_t seq;
	uint32_t flags;
	struct tw_body_push body;
	struct tw_version *base; /* per shard */
	uint64_t *number;        /* per shard */
	float *rate;             /* per shard: stamped in the answer it was computed on */
	struct tw_block **payload;
	size_t *at, *bytes; /* per shard */
};

struct held {
	uint64_t id, from, to, next, round, closing; /* closing: seq that carries its last sample */
	uint32_t batch;
	double nominal;
	bool over; /* nothing more will be computed for it */
};

struct done {
	uint64_t id, upto;
};

struct worker {
	const struct tw_plan *plan;
	struct tw_heap *heap;
	uint32_t index;

	/* membership */
	bool welcomed, over, leaving, left;
	bool full;    /* the cluster has no place for it now */
	uint32_t bye; /* flags of the last word of one who has left */
	uint32_t slot, incarnation;
	uint32_t term; /* boot of the newest master heard of */
	uint64_t generation, view_number, last_lease;
	struct link *link; /* by shard */
	bool *node_down;   /* by node of a server */

	/* leases */
	struct held *held;
	uint32_t held_count, held_room;
	struct done *done; /* told, not confirmed */
	uint32_t done_count, done_room;
	bool asked_lease, draining, dry; /* dry: the master has nothing for us */
	bool fetch_due;                  /* new parameters are to be asked for */

	/* the step under way */
	struct tw_compute compute;
	bool busy, stale; /* stale: its result is not wanted any more */
	struct tw_piece *piece;
	struct tw_block **using; /* per shard: views the computation reads */
	struct tw_version *base; /* per shard: versions it was computed on */
	float *base_rate;        /* per shard: rates stamped in those answers */
	struct tw_pool *pool;
	struct tw_block *gradient;

	/* what is not pushed yet */
	struct tw_block *group;  /* batches of one gradient, summed */
	struct tw_block *sum;    /* gradients of several steps, summed */
	uint32_t micros, summed; /* how many are in each */
	float group_weight;
	struct tw_range range[TW_RANGES];
	uint32_t ranges, range_samples, range_steps;
	double range_loss;
	struct tw_version *group_base; /* base of the first gradient that is not pushed */
	float *group_rate;
	uint64_t cycle;   /* gradients made since the start: push and fetch count these */
	uint64_t seq;     /* last contribution made */
	uint64_t clock;   /* contributions closed, and what it began with: the same on all shards */
	bool clock_known; /* false: to be taken from the next answers */
	uint32_t own;     /* own contributions already in the local parameters */
	bool transmitted;
	struct outgoing out[TW_CREDITS];
	uint32_t outs; /* oldest first */
	uint64_t numbers;

	/* worker-side state */
	float *momentum;      /* send: momentum ... */
	float *momentum_rate; /* ... and, per shard, the rate it was last prepared with; 0: never */
	float *local, *drift; /* local parameters; own steps not pushed yet */
	float *local_array[TW_RULE_ARRAYS];
	uint64_t local_count;
	void *residual; /* per shard codec states, one after the other */
	size_t *residual_at;
	struct tw_block **past; /* sim.delay: views per fetch and shard, newest first */
	struct tw_version *past_version;
	uint32_t pasts;

	/* evaluation */
	struct tw_compute eval;
	bool eval_busy, eval_wanted;
	struct tw_body_eval eval_what;
	uint32_t eval_incarnation; /* of us, when we were asked */
	struct tw_block **eval_view;
	struct tw_piece *eval_piece;

	uint64_t bad, bad_seq; /* contributions refused for their numbers; the last of them */
	uint64_t steps, samples, losses;
	double loss;
	int64_t since; /* when it last began to wait */
};

static inline bool tw_worker_rounds(const struct worker *w)
{
	return w->plan->gate->traits & TW_GATE_ROUNDS;
}

/* How many of a shard's values are trainable; the rest are buffers. */
static inline size_t tw_worker_trainable(const struct worker *w, uint32_t shard)
{
	const size_t from = w->plan->problem.border[shard], to = w->plan->problem.border[shard + 1];

	if (w->plan->problem.trainable <= from)
		return 0;
	return (w->plan->problem.trainable < to ? w->plan->problem.trainable : to) - from;
}

/* worker.c */
struct tw_msg *tw_worker_to_master(struct worker *w, struct tw_context *ctx, enum tw_type type);
void tw_worker_advance(struct worker *w, struct tw_context *ctx);
void tw_worker_send_push(struct worker *w, struct tw_context *ctx, const struct outgoing *o,
			 uint32_t shard);
/* Forget everything but who we are, and go on in this generation. */
void tw_worker_reset(struct worker *w, struct tw_context *ctx, uint64_t generation);
/* Decode a shard's answer; on success it takes the place of *place. */
enum tw_status tw_worker_take_view(struct worker *w, uint32_t shard, const struct tw_msg *m,
				   struct tw_block **place);

/* lease.c */
void tw_worker_want(struct worker *w, struct tw_context *ctx);
void tw_worker_lease(struct worker *w, struct tw_context *ctx, const struct tw_msg *m);
/* The lease to work on; NULL: none. */
struct held *tw_worker_current(struct worker *w);
uint64_t tw_worker_positions_left(const struct worker *w);
void tw_worker_drop_held(struct worker *w, uint32_t k);
/* Contributions that every shard has closed are let go; leases they end are told. */
void tw_worker_closings(struct worker *w, struct tw_context *ctx);
/* What the master may not have heard of our leases, once more. */
void tw_worker_resend_leases(struct worker *w, struct tw_context *ctx);
/* Draining or leaving: push what is computed, give back the rest; one who leaves then goes. */
void tw_worker_give_back(struct worker *w, struct tw_context *ctx);
/* Leave at once: nothing of ours is on its way. */
void tw_worker_go(struct worker *w, struct tw_context *ctx);
/* We have left, and the master may not have heard it. */
void tw_worker_leave_again(struct worker *w, struct tw_context *ctx);

/* eval.c */
void tw_worker_evaluate(struct worker *w, struct tw_context *ctx, const struct tw_msg *m);
/* Ask all shards for the pinned version, if one is wanted and no evaluation is under way. */
void tw_worker_ask_pinned(struct worker *w, struct tw_context *ctx);
/* A shard's answer to that. */
void tw_worker_pinned(struct worker *w, struct tw_context *ctx, const struct tw_msg *m);
void tw_worker_evaluated(struct worker *w, struct tw_context *ctx);

/* step.c */
enum tw_status tw_step_open(struct worker *w);
void tw_step_close(struct worker *w);
/* Forget everything about the generation before, but not the worker's own momentum. */
void tw_step_reset(struct worker *w);
void tw_step_start(struct worker *w, struct tw_context *ctx, struct held *lease);
void tw_step_computed(struct worker *w, struct tw_context *ctx);
/* Push what is not pushed yet; true if there was something. */
bool tw_step_flush(struct worker *w, struct tw_context *ctx);
/* The last push of one who leaves cleanly (send: momentum). */
void tw_step_farewell(struct worker *w, struct tw_context *ctx);
/* New parameters have come from all shards. */
void tw_step_fetched(struct worker *w, struct tw_context *ctx);
void tw_outgoing_clear(struct worker *w, struct outgoing *o);
struct tw_block *tw_step_part(struct worker *w); /* NULL without memory */
enum tw_status tw_step_restore(struct worker *w, const uint8_t *bytes, size_t len);
bool tw_step_has_state(const struct worker *w);
/* What a worker keeps itself, momentum and the state of its local rule, begins anew. */
void tw_step_blank(struct worker *w);
/* Only its momentum does. */
void tw_step_forget_momentum(struct worker *w);

#endif
