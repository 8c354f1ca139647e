/* SPDX-License-Identifier: Apache-2.0 */
/* worker.h - a worker's state as parts, and who changes which:
 *
 *	membership    worker_membership.c    who it is, and whether it belongs to the cluster
 *	leases        worker_lease.c                what it may work on, and what is done
 *	exchange      exchange.c             what it sends to shards, and what they answer
 *	step          worker_step.c                 the computation under way
 *	building      worker_contribution.c  what is computed and not pushed yet
 *	kept          worker_state.c         what survives it in a checkpoint
 *	              worker_own_steps.c     ... and its own copy of the parameters
 *	duties        kernel/duty.h          protocols with a folder of their own
 *
 * worker_answer.c hears the shards and decides what is next.
 *
 * A new generation (tw_worker_reset) empties leases, exchange and building, abandons the step, and
 * leaves membership, evaluations and what is kept as they are.  A new identity (WELCOME) does the
 * same, and restores what is kept from the slot's part of a checkpoint, if there is one. */
#ifndef TW_NODE_WORKER_WORKER_H
#define TW_NODE_WORKER_WORKER_H

#include "node/exchange.h"
#include "node/kernel/driver.h"
#include "node/kernel/duty.h"
#include "node/kernel/leasing.h"
#include "node/duty/stage/stage.h"
#include "node/exchange.h"

#define TW_FAREWELLS 8 /* how often a leaver tries to have taken what its codec owes */

/* --- membership --------------------------------------------------------------------------- */

enum worker_presence {
	WORKER_OUTSIDE, /* it has asked to join, or will */
	WORKER_WAITING, /* ... and the cluster has no place for it now */
	WORKER_MEMBER,
	WORKER_LEAVING, /* a member that was asked to go: it gives back what it holds first */
	WORKER_LEFT,    /* for good */
	WORKER_OVER,    /* the run is over, or it was removed: only a newer master changes that */
};

struct worker_membership {
	enum worker_presence state, was; /* was: before WORKER_OVER */
	struct tw_identity id;
	uint32_t index;       /* the slot it asks for */
	uint32_t cell;        /* of its worker; until it has a place, the one it wishes for */
	uint32_t lane, lanes; /* of its stage */
	uint32_t term;        /* boot of the newest master heard of */
	uint32_t bye;         /* WORKER_LEFT: flags of its last word */
	uint64_t view;        /* number of the newest view heard of */
};

/* --- leases ------------------------------------------------------------------------------- */

struct held {
	uint64_t id, from, to, next, round, closing; /* closing: seq that carries its last sample */
	uint32_t batch;
	uint32_t period; /* steps between two pushes, if not the plan's; 0: the plan's.  A portion:
			    number of its batch */
	double nominal;
	bool over; /* nothing more will be computed for it */
};

struct done {
	uint64_t id, upto;
};

/* Positions of a lease whose contribution every shard dropped as late. */
struct given_back {
	uint64_t id, from;
	uint32_t count;
};

struct worker_leases {
	struct held *held; /* in the order in which they were given */
	uint32_t count;
	size_t room;
	struct done *done; /* told, not confirmed */
	uint32_t done_count;
	size_t done_room;
	struct given_back *again; /* told with the lease that is done, until it is confirmed */
	uint32_t again_count;
	size_t again_room;
	uint64_t last;    /* id of the newest one heard of */
	uint32_t in_vain; /* so often in a row what it computed was too late */
	bool asked;       /* for more, and none has come since */
	bool dry;         /* the master has nothing for us */
	bool draining;    /* the master wants back what is not begun */
};

/* --- the step under way ------------------------------------------------------------------- */

enum worker_stepping {
	STEP_IDLE,
	STEP_COMPUTING,
	STEP_ABANDONED, /* the computation continues, but its result is not wanted any more */
};

struct worker_step {
	enum worker_stepping state;
	struct tw_compute compute;
	struct tw_piece *piece; /* by holder: what it reads */
	struct tw_pool *pool;   /* blocks as long as the whole vector */
	struct tw_block *gradient;
	uint32_t again; /* so often this batch was begun and given up as too late */
	uint32_t pasts; /* sim.delay: views that are kept of each holder */
	int64_t began;  /* plan.traffic.adaptive: when the computation was asked for */
};

/* --- what is not pushed yet --------------------------------------------------------------- */

struct worker_building {
	struct tw_block *group; /* batches of one gradient, summed ... */
	uint32_t micros;        /* ... so many ... */
	float weight;           /* ... that weigh this ... */
	uint64_t group_from;    /* ... whose first sample is at this position ... */
	uint32_t group_before;  /* ... behind so many that are not pushed either */
	struct tw_block *sum;   /* gradients of several steps, summed ... */
	uint32_t summed;        /* ... so many (send: delta: own steps) */
	struct tw_range range[TW_RANGES];
	uint32_t ranges;
	struct tw_account account; /* without weight and divide; drift: of the last push */
	double nominal;            /* samples of a full batch */
	uint64_t round;            /* of what was computed last */
	uint64_t cycle;       /* gradients (send: delta: pushes) made: push and fetch count these */
	bool elastic_due;     /* parameters are to be read, and the difference from them pushed */
	uint32_t own;         /* own contributions already in the local parameters ... */
	uint64_t own_samples; /* ... and their samples: pushed, and not in the last answer */
	bool transmitted;     /* something was pushed in this generation */
	bool fetch_due;       /* new parameters are to be asked for */
	bool merge_due;     /* ... have come, and are not merged yet: a step was computed on the old
			       ones, or plan.traffic.delay */
	uint64_t pushed;    /* round of the last push, and 1; 0: none in this generation */
	uint32_t farewells; /* pushes that took along all that the codec owes */
	bool reads_again;   /* the parameters that the next push needs are asked for */
	uint64_t looked; /* the lease that all holders were last looked at for (10 in exchange.h) */
};

/* --- what is kept ------------------------------------------------------------------------- */

/* `momentum`, `array` (unless it is averaged) and `count` survive in a checkpoint, and so does what
 * the codec owes (7 in exchange.h), and `parameters` where they outlive a fetch
 * (tw_plan_own_parameters).  Everything else starts again with every generation. */
struct worker_kept {
	float *momentum;   /* plan.near: the worker's half of the update; NULL none */
	float *parameters; /* own copy, where it steps by itself; NULL none ... */
	float *drift;      /* plan.local: ... own steps in it that are not pushed */
	float *base;       /* send: delta: ... what it was after the last merge or push */
	float *shown;      /* ... what it computes on, if its rule shows another vector */
	bool own;          /* `parameters` are to be kept or mixed at the next fetch */
	bool rejoined;     /* ... but all views are forgotten: the next fetch says what is known */
	float *array[TW_RULE_ARRAYS];
	uint64_t count;             /* local steps so far */
	struct tw_pool *with_state; /* average_state: blocks as long as what is pushed */
};

/* --- by holder of the exchange ------------------------------------------------------------ */

/* What this worker was sent, at an earlier fetch (sim.delay). */
struct past {
	struct tw_block *view;
	struct tw_version version;
};

struct worker_shard {
	struct tw_block *using; /* the view that the computation reads */
	struct tw_stamp base;   /* ... and what it is */
	struct tw_stamp merged; /* what was last merged into the worker's own copy */
	float rate;             /* of the last own step, or that the momentum was last prepared
				    with; 0: there was none */
	struct past *past;      /* newest first */
};

/* --- the whole ---------------------------------------------------------------------------- */

struct worker {
	const struct tw_plan *plan;
	struct tw_heap *heap;
	struct worker_membership me;
	const struct tw_driver *driver;   /* kernel/driver.h */
	const struct tw_leasing *leasing; /* kernel/leasing.h */
	struct worker_leases leases;
	struct exchange exchange;
	struct worker_step step;
	struct worker_building building;
	struct worker_kept kept;
	struct eval_worker *eval;       /* duty/eval */
	struct figures_worker *figures; /* duty/figures; NULL: it computes the whole model */
	struct samples_worker *given;   /* duty/samples; NULL: it has all samples */
	struct tw_duties duties;
	struct worker_shard *shard; /* by holder of the exchange */
	const struct tw_stage
		*part; /* what it computes of the model; NULL: all, or it has no place */
	struct stage_worker *stage; /* duty/stage; NULL: it computes the whole model */
	uint64_t steps, samples;    /* since it joined */
	double loss;                /* of samples that no DONE has told yet ... */
	uint64_t losses;            /* ... so many ... */
	int64_t busy;               /* ... which took so long to compute */
	uint64_t bad, bad_seq;      /* contributions refused for their numbers; the last of them */
	int64_t since;              /* when it last began to wait */
};

static inline bool tw_worker_rounds(const struct worker *w)
{
	return w->plan->gate->traits & TW_GATE_ROUNDS;
}
static inline bool tw_worker_is_member(const struct worker *w)
{
	return w->me.state == WORKER_MEMBER || w->me.state == WORKER_LEAVING;
}
static inline bool tw_worker_deltas(const struct worker *w)
{
	return w->plan->traffic.delta;
}
static inline bool tw_worker_busy(const struct worker *w)
{
	return w->step.state != STEP_IDLE;
}
/* What the next computation tells those who compute outside. */
static inline struct tw_about tw_worker_about(const struct worker *w, struct tw_context *ctx)
{
	const struct tw_stamp *base = &w->shard[0].base;

	return (struct tw_about){ .worker = w->me.id.slot,
				  .version = base->version.n,
				  .applied = base->applied,
				  .now = tw_now(ctx) };
}
/* Floats of the whole vector, or of a cell's stage. */
static inline size_t tw_worker_total(const struct worker *w)
{
	return w->part ? w->part->floats : w->plan->problem.trainable + w->plan->problem.buffers;
}

/* Floats of what it pushes: with the state of its rule, if that is averaged. */
static inline size_t tw_worker_pushes(const struct worker *w)
{
	return tw_worker_total(w) * (1 + tw_plan_state_arrays(w->plan));
}

/* --- worker_parts.c ----------------------------------------------------------------------- */

/* TW_NO_MEMORY leaves what close gives back. */
enum tw_status tw_worker_open_parts(struct worker *w);
void tw_worker_close_parts(struct worker *w);

/* --- kernel/worker_post.c ----------------------------------------------------------------- */

/* A message to the master with what all of a worker's have in its header; NULL: see tw_msg_to. */
struct tw_msg *tw_worker_to_master(struct worker *w, struct tw_context *ctx, enum tw_type type);

/* --- kernel/worker_ledger.c --------------------------------------------------------------- */

/* False: the run is given up. */
/* These positions of a lease were computed for nothing: they are told when it is done. */
bool tw_ledger_again(struct worker *w, struct tw_context *ctx, const struct tw_range *r);
/* A lease is done up to here: told until the master confirms it. */
bool tw_ledger_done(struct worker *w, struct tw_context *ctx, struct done d);
/* Leases up to this one are. */
void tw_ledger_confirmed(struct worker_leases *l, uint64_t upto);

/* --- kernel/worker_waits.c ---------------------------------------------------------------- */

/* What does it wait for?  False: it does not wait. */
bool tw_worker_waits(const struct worker *w, struct tw_wait *out);

/* --- worker_membership.c ------------------------------------------------------------------ */

/* From FIGURES on they are duties'. */
enum { TW_TIMER_LOST = 1, TW_TIMER_PLACE, TW_TIMER_HEARD, TW_TIMER_FIGURES };

/* Fresh: I know nothing.  Otherwise: I am still here, and these leases are mine. */
void tw_worker_hello(struct worker *w, struct tw_context *ctx, bool fresh);
/* What the master may not have heard, once more. */
void tw_worker_resend(struct worker *w, struct tw_context *ctx);
/* Forget everything but our identity and what we keep, and continue in this generation. */
void tw_worker_reset(struct worker *w, struct tw_context *ctx, uint64_t generation);
/* Leave immediately: nothing of ours is on its way. */
void tw_worker_go(struct worker *w, struct tw_context *ctx);
/* We have left, and the master may not have heard it. */
void tw_worker_leave_again(struct worker *w, struct tw_context *ctx);
/* The master counts us among its members although we have left: our last word was lost, or was
 * overtaken by an earlier one. */
void tw_worker_still_member(struct worker *w, struct tw_context *ctx, const struct tw_msg *m);
/* It is not a member any more.  True: it wanted to leave, and is gone. */
bool tw_worker_drop_out(struct worker *w, struct tw_context *ctx);
/* ... and joins again with a new identity. */
void tw_worker_start_again(struct worker *w, struct tw_context *ctx);
/* It is over for us. */
void tw_worker_stop(struct worker *w, struct tw_context *ctx);
/* WELCOME, REFUSE, VIEW. */
void tw_worker_welcome(struct worker *w, struct tw_context *ctx, const struct tw_msg *m);
void tw_worker_refused(struct worker *w, struct tw_context *ctx, const struct tw_msg *m);
void tw_worker_view(struct worker *w, struct tw_context *ctx, const struct tw_msg *m);

/* --- worker_answer.c ---------------------------------------------------------------------- */

/* Do what is next, if anything is. */
static inline void tw_worker_advance(struct worker *w, struct tw_context *ctx)
{
	if (tw_worker_is_member(w))
		w->driver->advance(w, ctx);
}
/* A step after the other, of the whole model. */
extern const struct tw_driver tw_driver_step;
/* PARAMS, UNCHANGED, ACK. */
void tw_worker_params(struct worker *w, struct tw_context *ctx, const struct tw_msg *m);
void tw_worker_ack(struct worker *w, struct tw_context *ctx, const struct tw_msg *m);

/* --- worker_lease.c ------------------------------------------------------------------------------
 * */

void tw_worker_reset_leases(struct worker_leases *l);
void tw_worker_want(struct worker *w, struct tw_context *ctx);
void tw_worker_lease(struct worker *w, struct tw_context *ctx, const struct tw_msg *m);
/* The lease to work on; NULL: none. */
static inline struct held *tw_worker_current(struct worker *w)
{
	for (uint32_t k = 0; k < w->leases.count; k++)
		if (w->leases.held[k].next < w->leases.held[k].to && !w->leases.held[k].over)
			return &w->leases.held[k];
	return NULL;
}
/* The next step of a lease: its samples, and the position of the first of them. */
static inline uint32_t tw_worker_next_step(const struct worker *w, const struct held *lease,
					   uint64_t *from)
{
	const uint64_t samples = w->plan->problem.samples;
	const uint64_t left = lease->to - lease->next;
	uint64_t most;

	*from = tw_plan_position(w->plan, lease->next, lease->period);
	most = samples - *from % samples; /* no batch is of two epochs */
	most = most < left ? most : left;
	return most < lease->batch ? (uint32_t)most : lease->batch;
}
/* The lease with this id; NULL: it is not held. */
static inline struct held *tw_worker_held(struct worker *w, uint64_t id)
{
	for (uint32_t k = 0; k < w->leases.count; k++)
		if (w->leases.held[k].id == id)
			return &w->leases.held[k];
	return NULL;
}
/* The round of the lease to work on; NULL: there is none. */
const uint64_t *tw_worker_round(struct worker *w);
uint64_t tw_worker_positions_left(const struct worker *w);
/* Contribution `seq` carries the last samples of leases that are computed to their end. */
static inline void tw_worker_close_leases(struct worker *w, uint64_t seq)
{
	for (uint32_t k = 0; !w->stage && k < w->leases.count; k++)
		if (!w->leases.held[k].closing && w->leases.held[k].next == w->leases.held[k].to)
			w->leases.held[k].closing = seq;
}
/* Leases of a stream, and of rounds. */
extern const struct tw_leasing tw_leasing_stream, tw_leasing_round;
/* A round that is over needs nothing more, unless it is being computed still. */
void tw_worker_end_rounds(struct worker *w, struct tw_context *ctx);
/* Leases of rounds before this one are void, but not the one that is being computed. */
void tw_worker_void_leases(struct worker *w, uint64_t round);
void tw_worker_drop_lease(struct worker *w, struct held *h);
/* Something came too late, or would have (2). */
void tw_worker_was_late(struct worker *w);
/* Leases whose contributions every shard has closed are told, and what came too late of them. */
void tw_worker_closings(struct worker *w, struct tw_context *ctx);
/* What the master may not have heard of our leases, once more. */
void tw_worker_resend_leases(struct worker *w, struct tw_context *ctx);
void tw_worker_resend_done(struct worker *w, struct tw_context *ctx);
/* Draining or leaving: push what is computed, give back the rest; if leaving, go then. */
void tw_worker_give_back(struct worker *w, struct tw_context *ctx);

/* --- worker_step.c -------------------------------------------------------------------------------
 * */

enum tw_status tw_step_open(struct worker *w);
void tw_step_close(struct worker *w);
/* Its result is not wanted any more. */
void tw_step_abandon(struct worker *w, struct tw_context *ctx);
/* A block for a gradient that nobody else has a reference to: step.gradient; false: no memory. */
bool tw_step_take_gradient(struct worker *w);
void tw_step_start(struct worker *w, struct tw_context *ctx, struct held *lease);
/* The computation of a step is made: what comes of it is contributed. */
void tw_step_made(struct worker *w, struct tw_context *ctx);
/* A gradient is ready: its samples are in what is contributed. */
void tw_step_count(struct worker *w, struct tw_context *ctx, uint64_t from, uint32_t count,
		   double loss);
void tw_step_computed(struct tw_actor *a, struct tw_context *ctx, struct tw_compute *c);
/* Is it time to merge the answer to the last push (plan.traffic.delay)?  After so many steps of the
 * next lease, or before its last one. */
bool tw_step_merges(const struct worker *w, const struct held *lease);
/* New parameters have come from all shards. */
void tw_step_fetched(struct worker *w);
void tw_step_forget_past(struct worker *w);

/* --- worker_contribution.c ---------------------------------------------------------------- */

void tw_worker_reset_building(struct worker_building *b);
/* Batches of a stripe whose round closed without it. */
void tw_worker_forget_group(struct worker_building *b);
/* What is computed and not pushed is of no use: its positions are given back. */
void tw_worker_forget_building(struct worker *w, struct tw_context *ctx);
/* What a gradient is of. */
struct tw_computed {
	uint64_t position; /* of its first sample */
	uint64_t lease, round;
	double nominal; /* samples that weigh 1 */
	double loss;    /* sum over the samples */
	uint32_t count; /* samples */
	bool last;      /* its lease is computed to the end */
};
/* A gradient as it was computed: push it, or add it to what is pushed later. */
void tw_worker_contribute(struct worker *w, struct tw_context *ctx, const struct tw_computed *done,
			  struct tw_block *gradient);
/* Push what is not pushed yet, or ask for what that needs. */
void tw_worker_flush(struct worker *w, struct tw_context *ctx);
/* Is a last push due before it leaves? */
bool tw_worker_owes(const struct worker *w);
/* The last push of a worker that leaves cleanly: momentum, and what the codec owes. */
void tw_worker_farewell(struct worker *w, struct tw_context *ctx);
/* Ask all shards for their parameters, once per push; true: they are here. */
bool tw_worker_read_again(struct worker *w, struct tw_context *ctx);
/* building.elastic_due: ask for the parameters as they are now, and when they are here push the
 * difference from them.  False: it is still due, and nothing else may begin. */
bool tw_worker_elastic(struct worker *w, struct tw_context *ctx);

/* --- worker_own_steps.c -------------------------------------------------------------------- */

/* plan.local: one step on the worker's own parameters; new parameters merged into them. */
void tw_kept_local_step(struct worker *w, const float *g);
/* plan.traffic.cache: what the shards make of this push, in the worker's own copy, at the rate for
 * what was applied there at the last answer, and own pushes since.  An answer to a later push has
 * it, too, and takes the place of the copy. */
void tw_kept_add_update(struct worker *w, const float *g);
void tw_kept_merge(struct worker *w);
/* merge: elastic: parameters get back what was refused, dropped or lost with a server (8 in
 * exchange.h); not while a computation reads them. */
void tw_kept_take_back(struct worker *w);
/* send: delta: one step of the near rule with a mean gradient, which it may change.  Its rate is
 * for what was applied by the answers that the worker's copy has, and for its own steps since; in a
 * round, for its samples' position.  False: it is not finite, and nothing was done. */
bool tw_kept_own_step(struct worker *w, float *g);
/* ... so many samples, for a step that begins at this position (of the first shard). */
uint64_t tw_kept_progress(const struct worker *w, uint64_t position);
/* What these steps have led to since the last fetch or push, as it is pushed; it counts as pushed
 * then.  Of a vector that is pushed in parts, only those of this round. */
void tw_kept_delta(struct worker *w, uint64_t round, float *out);
/* A new generation: views are forgotten.  `open`: something was begun, and will be dealt again. */
void tw_kept_rejoin(struct worker *w, bool open);

/* --- worker_state.c ----------------------------------------------------------------------- */

enum tw_status tw_kept_open(struct worker *w);
void tw_kept_close(struct worker *w);
/* Own steps are pushed, or void. */
void tw_kept_forget_drift(struct worker *w);
/* plan.near on a mean gradient, in place. */
void tw_kept_prepare(struct worker *w, float *g);
/* Decay, where shards only subtract. */
void tw_kept_decay(struct worker *w, float *g);
/* Everything that is kept starts at zero, and the next fetch replaces the worker's copy. */
void tw_kept_blank(struct worker *w);
void tw_kept_forget_momentum(struct worker *w);
/* The worker's part of a checkpoint; NULL without memory. */
struct tw_block *tw_kept_part(struct worker *w);
/* TW_BAD_BYTES: the part is not of this plan; then nothing of it is used. */
enum tw_status tw_kept_restore(struct worker *w, const uint8_t *bytes, size_t len);

#endif
