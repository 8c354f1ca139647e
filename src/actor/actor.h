/* SPDX-License-Identifier: Apache-2.0 */
/* actor.h - the actor contract: a state machine without I/O, and the one door to its world.
 *
 * Handlers never wait, are entered by one thread at a time, and act only through the context.
 * Sends leave after the handler returns, in order.  An actor never reads a clock, draws from a
 * global random source, opens a file or a socket. */
#ifndef TW_ACTOR_ACTOR_H
#define TW_ACTOR_ACTOR_H

#include "actor/engine.h"
#include "actor/message.h"
#include "base/digest.h"
#include "base/heap.h"
#include "base/machine/log.h"
#include "actor/spans.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define TW_SECOND INT64_C(1000000000)

struct tw_actor; /* each class has its own */
struct tw_context;

/* Why an actor does not go on, for people and for the metrics. */
struct tw_wait {
	/* node, role, index; for workers `slot` names it, and `index` which cell of it */
	struct tw_addr whom;
	uint32_t slot;
	const char *why; /* "its push for round 7", static text */
	uint64_t step;
	int64_t since; /* ctx time when it began */
};

/* A computation.  The actor owns it and leaves it alone from tw_compute to `computed`.  A node has
 * one device: what its actors compute runs one after the other, in the order it was asked for. */
struct tw_compute {
	struct tw_pass pass; /* what to compute; an evaluation costs no virtual time */
	uint32_t again;      /* which computation on these samples; 0: the first, or only one */
	double share;        /* of a step's work, for the simulator's cost; 0 stands for 1 */
	size_t scratch;      /* bytes of scratch that it needs; 0: the engine's scratch_bytes */
	struct tw_inputs in; /* pieces stay valid until `computed`, as what `pass` points to */
	float *gradient;     /* out; trainable + buffers floats, of a stage only its own */
	/* out; not NULL: has the gradient instead, and others read it; a reference for the actor */
	struct tw_block *lent;
	struct tw_score score;   /* out */
	enum tw_status status;   /* out */
	uint64_t epoch_position; /* = in.from; what the simulator's cost is drawn for */
	_Atomic bool cancel;     /* set by tw_cancel only */
	void *world;             /* the world's */
	uint64_t id;             /* the actor's */
};

/* A sum over all nodes of the run that the world makes itself.  Each of them asks for the same
 * sums: those of one channel by growing keys.  One that some node does not ask for is never made,
 * and the world forgets it when a later one of its channel is. */
struct tw_sum {
	uint32_t channel;
	uint64_t key;
	struct tw_block *in;   /* floats from `at` on; NULL: what is in `out` */
	size_t at, n;          /* of floats */
	struct tw_block *out;  /* n floats: the sum */
	struct tw_block *more; /* floats that are added up in place, all of the block */
};

/* A thing that happened, for tests, metrics, traces and the progress line; and what of the head of
 * the note its kind fills.  "worker" is slot and incarnation, "samples" from and count. */
enum tw_note_kind {
	TW_NOTE_STEP,      /* a worker starts a step: worker, samples */
	TW_NOTE_GRADIENT,  /* a gradient is ready: slot, samples */
	TW_NOTE_APPLY,     /* a shard applied (or added) a contribution: all; one note per range */
	TW_NOTE_UPDATE,    /* a shard made an update: shard, version */
	TW_NOTE_COMMIT,    /* a shard committed a round: shard, version, round */
	TW_NOTE_DROP,      /* late samples were dropped: slot, samples; by a shard: shard, seq and,
			      if its gate has no rounds, life; by the master: round */
	TW_NOTE_REFUSED,   /* a contribution: shard, worker, seq */
	TW_NOTE_DEAL,      /* the master dealt: slot, samples */
	TW_NOTE_VIEW,      /* membership changed: worker */
	TW_NOTE_EVAL,      /* an evaluation */
	TW_NOTE_CUT,       /* a checkpoint is complete */
	TW_NOTE_ROLLBACK,  /* the cluster went back to a checkpoint */
	TW_NOTE_HOSTED,    /* a shard was taken: shard, life, version */
	TW_NOTE_PROGRESS,  /* the master: how far the run is: round */
	TW_NOTE_PINNED,    /* every shard keeps its view for the evaluation */
	TW_NOTE_SCORE,     /* predictions of an online run are reported */
	TW_NOTE_ITERATION, /* an optimiser accepted a point */
	TW_NOTE_TAKEOVER,  /* a new master goes on with replicas that have committed `round` rounds:
			      what was noted of later ones has reached nobody */
	TW_NOTE_STAGE,     /* a cell has made a backward, or has told the master what it has done:
			      worker */
	TW_NOTE_CELL,      /* the master: the place of a cell is taken, or vacant again: slot */
	TW_NOTE_SENT,      /* the master has sent samples: slot, samples */
};

/* A point of the learning curve: what the parameters have seen, means over the shards. */
struct tw_point {
	double samples, steps, updates; /* applied */
	double staleness;               /* mean of the contributions so far; NAN: none */
	double rate;                    /* of learning, now */
	double train_loss;              /* mean over recent samples, about an epoch; NAN: none */
};

/* What an optimiser has done. */
struct tw_optimised {
	uint64_t iterations, evaluations, restarts;
	uint64_t backups;            /* portions that were dealt twice, by this master */
	double loss, gradient, step; /* of the point accepted last: loss, norm; step to it */
	const char *why;             /* static text: why it ended; NULL: there was no optimiser */
};

/* Predictions of samples before they were learnt from (train.mode online): means over all of them,
 * over those since the last report, and over the last ones that fill the window.  NAN: of none;
 * accuracy -1: there is no such thing. */
struct tw_progressive {
	uint64_t samples, unscored; /* unscored: that may have been learnt from before */
	uint64_t window;            /* samples in the window */
	double loss, loss_since, loss_window;
	double accuracy, accuracy_since, accuracy_window;
};

/* What a cell of a worker has done so far, since it got this identity. */
struct tw_stage_note {
	uint32_t cell, pad;  /* pad: 0, so that notes can be compared as bytes */
	int64_t first, last; /* when its first move began, and its last ended */
	struct tw_stage_work work;
};

/* A head says what a note is about (0 where its kind is about none), and the member of its kind the
 * rest.  What is pointed to is valid during the call only. */
struct tw_note {
	enum tw_note_kind kind;
	uint32_t slot, incarnation; /* a worker */
	uint32_t shard, life;       /* a shard and its incarnation; UINT32_MAX: the master drops */
	uint32_t count;             /* so many samples ... */
	uint64_t from;              /* ... at the positions from here on */
	uint64_t seq;               /* a contribution of the worker */
	uint64_t version, round;    /* of the shard; number of a round */
	int64_t at;                 /* filled by the context */
	uint64_t bytes;             /* filled by the context for PINNED and PROGRESS: sent so far
				       by this process, in sim by all */
	union {
		struct {
			uint64_t clock; /* STEP: contributions that the worker has closed */
			double loss;    /* GRADIENT: sum over the samples */
		} step;
		struct {
			uint64_t tau;
			const struct tw_body_push *push; /* NULL: the master tells of it */
			size_t n, values_sent;           /* trainable values; of these were sent */
			/* plan.gaps: n parameters, and what the worker was sent of them */
			const float *before, *sent;
			const struct tw_tally *tally; /* of its shard; NULL: not known */
		} apply;
		struct {
			double rate;
		} update;
		struct {
			uint32_t contributions;
		} commit;
		struct {
			bool fenced; /* it is of an earlier life of the shard */
		} refused;
		struct {
			uint64_t number;
			uint32_t live;              /* workers */
			enum tw_member_state state; /* of this one */
		} view;
		struct {
			uint64_t pin;          /* PINNED, too */
			double loss, accuracy; /* accuracy -1: none */
			struct tw_point point; /* what its view has */
			const char *digest;    /* of its parameters, if it is the best; else NULL */
			bool final;            /* it is the last of the run */
		} eval;
		struct {
			uint64_t number; /* of the checkpoint: CUT, ROLLBACK */
			uint64_t closed; /* CUT: positions that are done with */
			bool all;        /* ROLLBACK: all go back, not one shard alone */
		} cut;
		struct {
			uint64_t cut;   /* from which checkpoint; 0: none */
			size_t from, n; /* which parameters ... */
			const float *w; /* ... and what they are */
		} hosted;
		struct {
			uint64_t dealt;        /* positions */
			uint32_t live;         /* workers */
			struct tw_point point; /* what is in; updates: under rounds, else NAN */
		} progress;
		struct tw_optimised iteration;
		struct tw_progressive score;
		struct {
			uint32_t number, node;
			bool taken;
		} cell;
		const struct tw_stage_note *stage;
		struct {
			uint64_t bytes; /* of these samples */
		} sent;
	};
};

/* The end of a run, from the master. */
#define TW_HISTOGRAM 128
struct tw_tally { /* what a shard counts; summed by the master */
	uint64_t updates, contributions, staleness_sum, staleness_max, staleness_count;
	uint64_t refused, fenced, dropped_pushes;
	uint64_t dropped_samples; /* by a gate without rounds; the master counts a round's */
	uint64_t steps, samples;  /* in the contributions; the master may not live to count them */
	uint64_t cached;          /* contributions computed on a cached copy (strategy.cache) */
	/* slices before and after the codecs, of contributions that were accepted and of
	 * answers: how many, and their bytes; trainable values of the former, all and sent */
	uint64_t up_slices, up_raw, up_encoded, up_values, up_sent;
	uint64_t down_slices, down_raw, down_encoded;
	/* what contributions tell of themselves: see struct tw_body_push */
	uint64_t own_steps, skipped;
	double drift, drift_most, residual, residual_most; /* sums, and the largest */
	double residual_lost;    /* that workers owed when they died ... */
	uint64_t residuals_lost; /* ... so many of them */
	/* plan.gaps: squares of what a worker was sent less the parameters its contribution was
	 * applied to: their sum, of how many values, and the largest mean of a contribution */
	double gap;
	uint64_t gap_values;
	double gap_most;
	uint64_t histogram[TW_HISTOGRAM]; /* staleness 0..126, then the rest */
};
/* The first evaluation that train.until asked for. */
struct tw_goal {
	bool reached;
	double samples, updates; /* applied, mean over the shards */
	double loss, accuracy;   /* accuracy -1 if none */
	int64_t at;              /* world's clock when its view was kept */
};
/* From the first deal to the moment when a worker first found nothing left to deal. */
struct tw_steady {
	/* applied meanwhile and not lost with a server, mean over the shards; NAN: there was no
	 * such moment */
	double samples;
	int64_t lasted; /* ns of the world's clock */
};
struct tw_totals {
	struct tw_tally tally;
	uint64_t steps, samples, dealt, dropped, redealt, repeated, lost_updates, refused;
	uint64_t lost_copies; /* own parameters (merge: elastic, mix) that died with a worker */
	uint64_t unreachable, vacant; /* data.placement own: places of no sample that is here */
	uint64_t sent_samples, sent_bytes; /* data.placement on-demand: by this master */
	double updates, epochs;            /* epochs: dealt */
	double applied;                    /* samples, mean over the shards; NAN: not known */
	struct tw_goal goal;
	struct tw_kept kept;  /* whose parameters are the result; pin 0: those at the end are */
	bool out_of_patience; /* it ended because no evaluation was better for long */
	double held_loss, held_accuracy; /* of the second set, as loss and accuracy; NAN: none */
	struct tw_steady steady;
	struct tw_optimised optimised;
	struct tw_progressive progressive; /* train.mode online; else 0 */
	double loss, accuracy; /* last evaluation; NAN before the first, accuracy -1 if none */
	double train_loss;     /* mean over the last epoch's samples */
	uint32_t workers, shards;
	uint32_t least_period, most_period; /* that workers were told; 0: none was */
	uint64_t cut;                       /* last complete checkpoint, 0 none */
	/* The evaluated vector per shard, references; shards of them.  NULL: there is none, or it
	 * was too large, and there are only digests of it ("": none). */
	struct tw_block **vector;
	char parameters_digest[TW_DIGEST_TEXT], buffers_digest[TW_DIGEST_TEXT];
	struct tw_heap *vector_heap; /* where `vector` itself came from */
	enum tw_status status;       /* TW_OK, TW_INTERRUPTED, or why it failed */
	char text[400];              /* the sentence when status is not TW_OK */
};

/* What a store keeps: named parts of a numbered cut. */
struct tw_part {
	char name[48]; /* "shard 0", "worker 3", "master": the store may name files differently */
	struct tw_block *bytes; /* a reference */
};

struct tw_actor_class {
	const char *name;
	/* Make one; `arg` is what the cast says.  NULL without memory. */
	struct tw_actor *(*new)(struct tw_heap *heap, const void *arg);
	void (*free)(struct tw_actor *a);
	void (*start)(struct tw_actor *a, struct tw_context *ctx);
	/* The handler borrows m; to keep tail or payload it takes a reference. */
	void (*message)(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m);
	void (*timer)(struct tw_actor *a, struct tw_context *ctx, uint32_t timer);
	void (*computed)(struct tw_actor *a, struct tw_context *ctx, struct tw_compute *c);
	/* A sum that was asked for is made.  The blocks are borrowed, and nobody else's now. */
	void (*summed)(struct tw_actor *a, struct tw_context *ctx, uint64_t key,
		       struct tw_block *sum, struct tw_block *more);
	void (*saved)(struct tw_actor *a, struct tw_context *ctx, uint64_t cut,
		      enum tw_status status);
	/* The newest complete cut, or cut 0 and no parts.  Parts are borrowed. */
	void (*loaded)(struct tw_actor *a, struct tw_context *ctx, uint64_t cut,
		       const struct tw_part *parts, size_t count, enum tw_status status);
	/* The node is out of reach for good (until `up`): messages to it vanish. */
	void (*down)(struct tw_actor *a, struct tw_context *ctx, uint32_t node);
	/* The node can be reached (again).  What was on its way may have arrived, may be lost,
	 * may still arrive late.  Another `boot` than before: it has lost its memory. */
	void (*up)(struct tw_actor *a, struct tw_context *ctx, uint32_t node, uint32_t boot);
	/* The run was asked to stop (SIGINT, --checkpoints): checkpoint and end. */
	void (*interrupt)(struct tw_actor *a, struct tw_context *ctx);
	/* Does it wait for another actor?  Called by the world at times, entered like a handler. */
	bool (*waiting)(const struct tw_actor *a, struct tw_wait *out);
	/* This message, or where it is NULL the end of a computation, will be handed over soon, and
	 * `bytes` of the actor are in the cache.  Only a hint: fetch what will be touched besides
	 * (base/fetch.h), and change nothing. */
	size_t bytes;
	void (*soon)(const struct tw_actor *a, const struct tw_msg *m);
	/* LOCKFREE shards only: like message, but entered by many threads at a time. */
	void (*shared)(struct tw_actor *a, struct tw_context *ctx, struct tw_msg *m);
};

/* What a world does for an actor; the table is the world's. */
struct tw_world {
	const char *name;
	struct tw_msg *(*msg_new)(struct tw_context *ctx); /* zeroed; NULL without memory */
	void (*msg_free)(struct tw_context *ctx, struct tw_msg *m); /* one that was not sent */
	void (*send)(struct tw_context *ctx, struct tw_msg *m);     /* takes m */
	/* Fire once, `after` ns from now; setting a timer again moves it; after < 0 clears it. */
	void (*timer)(struct tw_context *ctx, uint32_t timer, int64_t after);
	int64_t (*now)(struct tw_context *ctx);
	void (*compute)(struct tw_context *ctx, struct tw_compute *c);
	/* Ask for it to end soon with TW_CANCELLED (or a result, if it was done): `computed` comes
	 * in any case, as soon as the world can. */
	void (*cancel)(struct tw_context *ctx, struct tw_compute *c);
	/* Make the sum; `summed` answers.  Takes the references of its blocks.  NULL: this world
	 * makes none. */
	void (*sum)(struct tw_context *ctx, const struct tw_sum *sum);
	/* Keep the parts (references are taken) as cut number `cut`; `saved` answers.  Those
	 * without bytes were put before. */
	void (*save)(struct tw_context *ctx, uint64_t cut, const struct tw_part *parts,
		     size_t count);
	/* Keep one part of a cut that a later save completes; `saved` answers. */
	void (*put)(struct tw_context *ctx, uint64_t cut, const struct tw_part *part);
	/* Read the newest complete cut; `loaded` answers, in the order of the questions.  Of those
	 * parts of shards that hold none of the parameters from..to it may give only the head
	 * (node/checkpoint_part.h); from and to 0: of all of them. */
	void (*look)(struct tw_context *ctx, uint64_t from, uint64_t to);
	void (*note)(struct tw_context *ctx, struct tw_note *note);
	void (*log)(struct tw_context *ctx, enum tw_level level, const char *line);
	/* The run is over (master), or this node cannot go on (anybody, status not TW_OK).  The
	 * totals are copied; references in `vector` are taken over.  totals may be NULL. */
	void (*finish)(struct tw_context *ctx, enum tw_status status, struct tw_totals *totals);
	/* This actor has left the cluster for good, and what it sent says so: where it is alone in
	 * its process, that may end once these messages are out. */
	void (*gone)(struct tw_context *ctx);
	/* A worker: the master has given me this slot, as this incarnation.  Called once for each
	 * welcome that is taken.  From now on people read of this worker under that number. */
	void (*named)(struct tw_context *ctx, uint32_t slot, uint32_t incarnation);
	/* A master or a shard: the master counts these workers as members, or does so no more
	 * (enum tw_member_state).  A master says so before it tells the worker, a shard when it
	 * hears it.  A world that is asked whether a process speaks for a worker goes by this.
	 * Where a worker is several cells, a master lists the cells of one, in order; and so does
	 * the worker itself, before `named`. */
	void (*members)(struct tw_context *ctx, const struct tw_member *list, size_t count);
};

struct tw_context {
	const struct tw_world *world;
	struct tw_addr self;
	uint32_t boot; /* of this node */
	bool noting;   /* somebody reads notes */
	struct tw_heap *heap;
	const struct tw_engine *engine;
};

/* One actor of the cast: the world makes it when its node starts, and again when it restarts. */
struct tw_seat {
	struct tw_addr addr;
	const struct tw_actor_class *class;
	const void *arg;
};

/* A message of `type` to `to`, with magic and type filled.  Without memory it ends the run by
 * tw_give_up and returns NULL. */
static inline struct tw_msg *tw_msg_to(struct tw_context *ctx, struct tw_addr to,
				       enum tw_type type);
/* Give the message a tail of `bytes` (not cleared); NULL: as above, and the message is freed. */
void *tw_msg_tail(struct tw_context *ctx, struct tw_msg *m, size_t bytes);
/* End the run: this node cannot go on. */
void tw_give_up(struct tw_context *ctx, enum tw_status status, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void tw_say(struct tw_context *ctx, enum tw_level level, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Does this actor hear such a message from such an actor (message_kinds.c)?  What it may not hear,
 * it ignores. */
static inline bool tw_hears(const struct tw_context *ctx, const struct tw_msg *m)
{
	return tw_may_say(m->h.type, m->from.role, ctx->self.role, m->from.node == ctx->self.node);
}
static inline struct tw_msg *tw_msg_to(struct tw_context *ctx, struct tw_addr to, enum tw_type type)
{
	struct tw_msg *m = ctx->world->msg_new(ctx);

	if (!m) {
		tw_give_up(ctx, TW_NO_MEMORY, "no memory for a message");
		return NULL;
	}
	m->to = to;
	m->from = ctx->self;
	m->h.magic = TW_WIRE_MAGIC;
	m->h.major = TW_WIRE_MAJOR;
	m->h.minor = TW_WIRE_MINOR;
	m->h.type = (uint16_t)type;
	return m;
}
static inline void tw_send(struct tw_context *ctx, struct tw_msg *m)
{
	ctx->world->send(ctx, m);
}
static inline void tw_gone(struct tw_context *ctx)
{
	ctx->world->gone(ctx);
}
static inline void tw_named(struct tw_context *ctx, uint32_t slot, uint32_t incarnation)
{
	ctx->world->named(ctx, slot, incarnation);
}
static inline void tw_members(struct tw_context *ctx, const struct tw_member *list, size_t count)
{
	ctx->world->members(ctx, list, count);
}
static inline int64_t tw_now(struct tw_context *ctx)
{
	return ctx->world->now(ctx);
}
static inline void tw_timer(struct tw_context *ctx, uint32_t timer, int64_t after)
{
	ctx->world->timer(ctx, timer, after);
}
static inline void tw_note(struct tw_context *ctx, struct tw_note *note)
{
	if (ctx->noting)
		ctx->world->note(ctx, note);
}

#endif
