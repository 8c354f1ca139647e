/* SPDX-License-Identifier: Apache-2.0 */
/* shard.h - a shard's state, shared by shard.c (who may do what, and the rules of all this),
 * shard_members.c (whom it knows), shard_pin.c (views for evaluations), shard_host.c (how a range
 * is taken and cut) and line.c (the arithmetic). */
#ifndef TW_NODE_SHARD_H
#define TW_NODE_SHARD_H

#include "node/plan.h"

#define TW_TILE 8192 /* floats: 32 KiB, stays in cache from hook to hook */

/* A snapshot that a worker was sent, as the worker decodes it. */
struct sent {
	uint64_t n; /* version */
	struct tw_block *block;
};

/* How a shard knows a worker's clock: not at all, from others' clocks, or from its own word. */
enum clock_from { CLOCK_UNKNOWN, CLOCK_GUESSED, CLOCK_SAID };

/* How far an incarnation's contributions are closed. */
struct mark {
	uint32_t incarnation;
	uint64_t seq;
};

/* One worker as this shard knows it. */
struct guest {
	struct tw_addr addr;
	uint32_t incarnation, node; /* node: nobody else speaks for it */
	uint8_t state;              /* enum tw_member_state; TW_GONE also before it came */
	bool claimed;               /* known from its own word only: no view has named it yet */
	uint8_t clock_from;         /* enum clock_from */
	bool parked;
	uint64_t seq;      /* last contribution closed: applied, collected, dropped or refused */
	struct mark other; /* of who was here before, in case that the claim is not true */
	uint64_t bad_seq;  /* last contribution that was refused for its numbers; 0 none */
	uint32_t strikes;  /* refused for their numbers in a row ... */
	uint64_t others;   /* ... since so many contributions of others were applied */
	uint64_t applied;  /* its own */
	uint64_t number, round; /* of the parked request */
	int64_t since;
	struct sent *sent;       /* newest first; shard->memory of them */
	struct tw_block *mine;   /* the rule's array for this worker ... */
	float before;            /* ... and the rate of its last update; 0: there was none */
	struct tw_block *last;   /* its last gradient (B-FASGD's skipped pushes) */
	struct tw_block *staged; /* its slice for the round ... */
	const float *staged_at;  /* ... where in the block */
	uint32_t staged_incarnation;
	const float *last_at;
	struct tw_body_push push; /* of what is staged, or of `last` */
	uint64_t staged_seq;
};

/* One contribution on its way through the line. */
struct contribution {
	uint32_t slot, incarnation;
	uint64_t seq, tau;
	struct tw_block *block; /* a reference ... */
	const float *g;         /* ... to what holds these n floats */
	struct tw_body_push push;
};

/* The view that is kept for an evaluation, or will be. */
struct pinning {
	bool awaited;            /* round or samples of `want` are not there yet */
	struct tw_body_pin want; /* as the master said it; number 0: none yet */
	struct tw_body_pin has;  /* what the view has, once it is kept */
	struct tw_block *view;   /* NULL: none is kept */
};

struct shard {
	const struct tw_plan *plan;
	struct tw_heap *heap;
	uint32_t index, memory;
	bool hosted, streams;
	bool moved;                /* what workers see is not what this version showed before */
	bool at_zero;              /* clocks began here at 0, as they did everywhere */
	size_t from, n, trainable; /* its slice; the first `trainable` of it are not buffers */
	uint32_t live;

	struct tw_version version;
	uint64_t generation, round, term;
	uint64_t view;      /* number of the last full view: what is older says nothing new */
	uint32_t view_term; /* boot of the master that sent it */
	uint64_t corrections, contributions;
	double progress, statistic;
	float rate_max;

	struct tw_pool *pool;     /* blocks of n floats */
	struct tw_block *w;       /* what the rule keeps */
	struct tw_block *shown;   /* what all see; == w unless the rule has its own view */
	struct tw_block *wire;    /* shown, encoded; NULL until somebody asks */
	struct tw_block *decoded; /* what workers decode from wire */
	struct pinning pin;
	struct tw_block *prepared; /* the next version, made while a slice was checked; or NULL */
	float *array[TW_RULE_ARRAYS], *policy[TW_STALENESS_ARRAYS];
	float *tile; /* 4 tiles of scratch */

	struct guest *guest; /* by slot */
	uint64_t *clock;
	bool *active, *idle;
	struct tw_clocks clocks;
	uint32_t at_least;           /* active workers whose clock is the least */
	uint32_t *queue, queued;     /* parked slots, oldest first */
	struct contribution *bucket; /* collected, not applied yet */
	uint32_t collected;
	struct tw_member *last_set; /* of the last committed round */
	uint32_t last_count;

	struct tw_spans applied, twice;
	struct tw_tally tally;
};

/* Is the slice of a push finite?  TW_BAD_BYTES: no.  Where the line is no more than w - rate * g,
 * the next version is made by the same pass over memory and kept as `prepared` until the update, or
 * until dropped. */
enum tw_status tw_line_check(struct shard *s, const struct tw_body_push *push, const float *g);
void tw_line_unprepare(struct shard *s);
/* Run contributions through the line as one update; references in c stay the caller's.  On
 * TW_NO_MEMORY nothing has changed. */
enum tw_status tw_line_update(struct shard *s, struct tw_context *ctx, const struct contribution *c,
			      uint32_t count);
/* The books of one contribution that was applied elsewhere: counts, history, version. */
enum tw_status tw_line_count(struct shard *s, struct tw_context *ctx, const struct contribution *c);
/* Does each worker see another vector? */
bool tw_line_shows_each(const struct shard *s);
/* What this worker sees now, where each sees another vector; NULL without memory.  The reference is
 * the caller's. */
struct tw_block *tw_line_shown_to(struct shard *s, const struct guest *g);
/* What all workers see now; NULL without memory.  The reference stays the shard's. */
struct tw_block *tw_line_shown(struct shard *s);
/* Forget what was made from the version before. */
void tw_line_changed(struct shard *s);
/* The rate an answer is stamped with now. */
float tw_line_rate(const struct shard *s);

static inline bool tw_shard_rounds(const struct shard *s)
{
	return s->plan->gate->traits & TW_GATE_ROUNDS;
}

/* Was the last contribution of this worker refused for its numbers? */
static inline bool tw_guest_is_bad(const struct guest *g)
{
	return g->bad_seq && g->bad_seq == g->seq;
}

static inline bool tw_shard_lockfree(const struct shard *s)
{
	return s->plan->gate->traits & TW_GATE_LOCKFREE;
}

/* --- shard.c ------------------------------------------------------------------------------- */

/* Say to one who is not a member, as far as we know, that it has to join again. */
void tw_shard_turn_away(struct tw_context *ctx, struct tw_addr whom, uint32_t incarnation);

/* Apply what is collected as one update. */
void tw_shard_flush(struct shard *s, struct tw_context *ctx);

/* --- shard_answer.c ------------------------------------------------------------------------ */

/* Send the worker what it sees now, as the answer to its request `number`, and remember it. */
void tw_shard_answer(struct shard *s, struct tw_context *ctx, uint32_t slot, uint64_t number,
		     uint32_t flags);
/* Say only how far its contributions are closed. */
void tw_shard_acknowledge(struct shard *s, struct tw_context *ctx, uint32_t slot, uint32_t flags);
/* The body of an answer, and the header's fields that go with it. */
void tw_shard_fill(struct shard *s, const struct guest *g, struct tw_msg *m, uint64_t number);
/* A worker that computes on `base` will never again compute on what it was sent before. */
void tw_shard_forget_sent(struct shard *s, struct guest *g, uint64_t base);
/* A new reference to the parameters as they are now, a copy if workers write them lock-free; NULL
 * without memory. */
struct tw_block *tw_shard_snapshot(struct shard *s);
/* Is this request older than the one the worker has parked here?  It was late on its way. */
bool tw_shard_outdated(const struct guest *g, uint64_t number);
/* May the worker read when `round` rounds are committed, and if not, for whom does it wait?  *whom
 * is UINT32_MAX when it is the master. */
bool tw_shard_may_read(const struct shard *s, uint32_t slot, uint64_t round, uint32_t *whom);
/* Keep the request until it may be answered. */
void tw_shard_park(struct shard *s, struct tw_context *ctx, uint32_t slot, uint64_t number,
		   uint64_t round);
/* The request of this worker, if one is parked, will not be answered. */
void tw_shard_unpark(struct shard *s, uint32_t slot);
/* Answer every parked request that may go now, oldest first. */
void tw_shard_release(struct shard *s, struct tw_context *ctx);

/* --- shard_pin.c ---------------------------------------------------------------------------- */

/* TW_PIN: keep a view when it has what is asked for, let it go, or count only. */
void tw_shard_pin(struct shard *s, struct tw_context *ctx, const struct tw_msg *m);
/* After every change of rounds or samples: keep the view that is waited for. */
void tw_shard_keep_view(struct shard *s, struct tw_context *ctx);

/* --- shard_members.c ------------------------------------------------------------------------ */

/* The worker says its clock (gates that hold only). */
void tw_shard_clock(struct shard *s, uint32_t slot, uint64_t clock);
/* What its own first message says of a worker that no view has named yet. */
void tw_shard_claim(struct shard *s, struct tw_context *ctx, uint32_t slot, uint32_t incarnation,
		    uint32_t node);
void tw_shard_view(struct shard *s, struct tw_context *ctx, const struct tw_msg *m);
void tw_shard_idle(struct shard *s, struct tw_context *ctx, const struct tw_msg *m);
/* The rule's array for this worker, zeros, if the rule wants one and it is not there. */
enum tw_status tw_shard_make_mine(struct shard *s, struct guest *g);
/* Give back what is kept for a worker, except what it staged. */
void tw_shard_clear(struct shard *s, struct guest *g);
/* Give back what it staged. */
void tw_shard_unstage(struct guest *g);

/* --- shard_host.c --------------------------------------------------------------------------- */

void tw_shard_host(struct shard *s, struct tw_context *ctx, const struct tw_msg *m);
/* Give back all memory but the shard itself; only its generation and its term stay known. */
void tw_shard_let_go(struct shard *s);
/* Tell the master what is applied, or will be; `asked` is the number of its question, or 0. */
void tw_shard_state(struct shard *s, struct tw_context *ctx, uint64_t asked, uint32_t flags);
/* Flush the bucket, send the part of a cut, or both: what TW_SNAP says. */
void tw_shard_snap(struct shard *s, struct tw_context *ctx, const struct tw_msg *m);

#endif
