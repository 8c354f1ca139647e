/* SPDX-License-Identifier: Apache-2.0 */
/* exchange.h - what one sender exchanges with the holders of the parameters: contributions there,
 * views back.
 *
 * A holder is an address, a range of the vector and a link.  The list of holders is given once, and
 * need not be all shards of the plan: nothing here counts shards.  Holders are numbered by their
 * place in the list; `shard` is what their range is called in messages.
 *
 *  (1) A contribution has one seq (1, 2, 3 ...) and, on each link that carries a slice of it, a
 *      number of that link (1, 2, 3 ...).  Holders find duplicates and gaps by the link's number.
 *      Both counts restart with a new identity of the sender, and only then.
 *  (2) A contribution is kept as it was encoded until every link has closed it.  At most TW_CREDITS
 *      are kept, oldest first; check tw_exchange_has_credit before contributing.
 *  (3) When a connection is replaced, and when a holder moves, everything that is open on its link
 *      (where the master judges: on any link) is sent again: the same bytes, in the order of the
 *      numbers, then the open request.  Nothing is sent again because of time alone.
 *  (4) A new incarnation of a holder knows nothing.  It refuses what was computed on the one
 *      before, and closes it.  An answer of an older incarnation is ignored.
 *  (5) An answer is taken only if it has the number of the newest request on its link.  The view
 *      that it replaces lives on while there are references to it.
 *  (6) tw_exchange_reset (a new generation) forgets contributions, requests and views.  Numbers
 *      continue: each link counts as closed, and the next PULL says so.  Places stay known.
 *      tw_exchange_renew (a new identity) does the same, and restarts (1).
 *  (7) What a codec owes to a link, its residual, is what was contributed there less what the
 *      holder applied, or may still apply.  So a contribution that is closed and was not applied
 *      comes back: whole, if its samples are done with (4); less its own gradient, if they are
 *      dealt again or dropped on purpose (refused, late, or open at a reset).  Later contributions
 *      may have been encoded meanwhile, so nothing is set back: the difference is added.
 *      What is not finite is never owed: a slice that is not goes as it is, to be refused, and a
 *      residual that grew so large that it cannot be sent restarts at 0.
 *      A new identity owes nothing, until tw_exchange_restore.
 *  (8) A contribution that was dropped as late was computed for nothing: its positions are in
 *      `again` until the owner has taken them out, which it does after each tw_exchange_acked.
 *      Holders agree on that, unless one was lost meanwhile: what some holder has applied is done
 *      with.  `outdated` says that one was dropped whose sender did not ask for new parameters:
 *      without them the next one would be late, too.
 *  (9) An elastic contribution was taken from the sender's own parameters (merge: elastic).  What
 *      comes back of it, unless it is owed by (7), is collected in `returned`, and the owner takes
 *      it from there when nothing reads its parameters.  A slice that is not finite was not taken
 *      from them.
 * (10) Nothing here walks over all holders because one of them has spoken.  Its owner need not,
 *      either: since tw_exchange_looked, only holders from `changed` to below `unchanged` have
 *      been placed, have answered, or have had a request withdrawn. */
#ifndef TW_NODE_EXCHANGE_H
#define TW_NODE_EXCHANGE_H

#include "node/checkpoint_part.h"
#include "node/plan.h"

/* For whom an exchange speaks; its owner changes it. */
struct tw_identity {
	uint32_t slot, incarnation;
	uint64_t generation;
};

/* A range of the vector; the first `trainable` values of it are not buffers.  What is pushed has
 * `all` floats of it from `at` on: the values, then those of each array of the state
 * (tw_plan_state_arrays); without one that is the vector itself. */
struct tw_holding {
	size_t from, n, trainable, at, all;
};

/* The version that something was computed on, the samples applied there by then, and the rate that
 * the schedule gives for that. */
struct tw_stamp {
	struct tw_version version;
	uint64_t applied;
	float rate;
};

/* What is open on a link besides contributions: nothing, the answer to a push, or a PULL. */
enum tw_request { TW_REQUEST_NONE, TW_REQUEST_PUSH, TW_REQUEST_PULL };

struct holder {
	uint32_t shard;
	struct tw_holding range;

	/* where it is */
	bool known, down;
	struct tw_addr addr;
	uint32_t incarnation;

	uint64_t sent, closed; /* (1): the last number, and the last that is closed there */
	struct tw_stamp base;  /* what the next contribution was computed on: the owner says */

	/* (5) */
	enum tw_request request;
	uint64_t number;       /* of the newest request */
	struct tw_block *view; /* what it was sent, decoded; NULL before the first answer */
	struct tw_stamp seen;  /* of the view */
	uint64_t round;        /* that the view belongs to */
	uint64_t least;        /* clock of the slowest worker there */
	uint32_t count;        /* steps that the state in the view has seen */
	double statistic;      /* of the staleness policy there */

	void *state; /* of the codec, the residual first; NULL: it keeps none */
	size_t state_bytes;
};

/* What one link carries of a contribution. */
struct carried {
	uint64_t link;   /* its number; 0: this link carries nothing of it */
	uint64_t number; /* of the request that comes with it; 0 none */
	struct tw_stamp base;
	struct tw_block *payload; /* NULL: skipped, or of other holders only */
	size_t at, bytes;
	bool plain;   /* floats, not the codec's bytes */
	bool returns; /* (7): comes back if it is not applied */
	bool late;    /* (8): the holder dropped it ... */
	bool unmade;  /* ... or did not apply it for any other reason */
};

/* A contribution that is not closed on every link. */
struct outgoing {
	uint64_t seq;
	uint32_t flags;
	struct tw_body_push body;
	struct tw_block *vector; /* (7), (9): as it was contributed; NULL where nothing returns */
	uint32_t open;           /* links that carry it and have not closed it */
	struct carried *slice;   /* by holder */
};

struct exchange {
	const struct tw_plan *plan;
	const struct tw_identity *who;
	uint32_t lane, lanes; /* which of how many senders of this identity it is */
	struct tw_heap *heap;
	struct holder *holder;
	uint32_t holders;
	uint32_t asked, blind,
		downs; /* holders with an open request; without a view; out of reach */
	uint32_t changed, unchanged; /* (10): from this one to below that one */
	bool *node_down;             /* by node of a server */
	struct outgoing out[TW_CREDITS];
	uint32_t outs;                                 /* oldest first */
	struct tw_range again[TW_CREDITS * TW_RANGES]; /* (8) */
	uint32_t agains;                               /* so many */
	bool outdated;                                 /* (8) */
	bool landed;       /* one was closed that not all have dropped; the owner clears it */
	uint64_t seq;      /* last contribution made */
	uint64_t requests; /* number of the last request */
	uint64_t clock;    /* contributions made, and what it began with: the same on all links */
	bool clock_known;  /* false: to be taken from the next answers */
	bool leaves;     /* its last pulls: answers come when the other replicas have all of its */
	float *scratch;  /* (7): as long as the longest range; NULL where no codec remembers */
	float *returned; /* (9): to be subtracted from the own parameters; NULL never */
	bool has_returned;      /* ... and not all of it is 0 */
	struct carried *slices; /* of all `out` */
	uint8_t *states;        /* of all holders */
};

/* What is contributed. */
struct tw_offer {
	struct tw_block *vector;  /* all of it, by tw_holding; a reference is kept where that saves
				     a copy */
	struct tw_body_push body; /* what is the same for all holders */
	uint32_t first, count;    /* holders that get a slice of it; count 0: all */
	bool in_part;             /* only what tw_plan_carries says of its round; others hear it */
	bool skips;               /* the holders apply the one before again (B-FASGD) */
	bool reads;               /* answers are asked for */
	bool plain;               /* with all that is owed, as floats: nothing is owed after it */
};

/* --- exchange.c --------------------------------------------------------------------------- */

/* Over `shards` of the plan, `count` of them; NULL: the first `count`.  `who` must outlive it. */
enum tw_status tw_exchange_open(struct exchange *x, struct tw_heap *heap,
				const struct tw_plan *plan, const struct tw_identity *who,
				const uint32_t *shards, uint32_t count);
void tw_exchange_close(struct exchange *x); /* one that is all zero is closed already */
void tw_exchange_reset(struct exchange *x); /* (6) */
void tw_exchange_renew(struct exchange *x); /* (6) */

/* The holder of this range; NULL: it is not in the list. */
struct holder *tw_exchange_find(struct exchange *x, uint32_t shard);
static inline uint32_t tw_exchange_index(const struct exchange *x, const struct holder *h)
{
	return (uint32_t)(h - x->holder);
}
static inline bool tw_exchange_has_credit(const struct exchange *x)
{
	return x->outs < TW_CREDITS;
}
/* The last contribution that every link has closed. */
static inline uint64_t tw_exchange_closed(const struct exchange *x)
{
	return x->seq - x->outs;
}

/* Contribute; TW_NO_MEMORY: the run cannot continue. */
enum tw_status tw_exchange_push(struct exchange *x, struct tw_context *ctx,
				const struct tw_offer *offer);
/* A request of its own, for parameters of this round or later. */
void tw_exchange_pull(struct exchange *x, struct tw_context *ctx, struct holder *h, uint64_t round);
/* Requests of its own are not wanted any more: their round will not come. */
void tw_exchange_withdraw(struct exchange *x);
/* Before it leaves replicas that differ: have the other replicas everything that it contributed?
 * The first call asks; call again when an answer has come. */
bool tw_exchange_is_spread(struct exchange *x, struct tw_context *ctx);
/* A request for the view that is pinned for an evaluation: it costs no time, and is no request of
 * (5).  False: there is no memory. */
bool tw_exchange_pull_pinned(struct exchange *x, struct tw_context *ctx, const struct holder *h,
			     uint64_t pin);
/* Is every view there, and no request open? */
static inline bool tw_exchange_has_all(const struct exchange *x)
{
	return !x->asked && !x->blind;
}
/* Is any request open? */
static inline bool tw_exchange_asks(const struct exchange *x)
{
	return x->asked;
}
/* The owner has looked at all that changed (10). */
static inline void tw_exchange_looked(struct exchange *x)
{
	x->changed = x->holders;
	x->unchanged = 0;
}

/* Where a range is now (3, 4); `round`: the sender's, NULL if it has none.  False: nothing new, or
 * not a holder of this list. */
bool tw_exchange_place(struct exchange *x, struct tw_context *ctx, const struct tw_place *p,
		       const uint64_t *round);
void tw_exchange_forget_places(struct exchange *x);
/* Is any holder of this node, or (UINT32_MAX) of any node, out of reach? */
bool tw_exchange_is_down(const struct exchange *x, uint32_t node);
void tw_exchange_down(struct exchange *x, uint32_t node);
/* Its connection was replaced (3).  False: no holder is there. */
bool tw_exchange_up(struct exchange *x, struct tw_context *ctx, uint32_t node,
		    const uint64_t *round);

/* A holder says how far its link is closed: what was not applied comes back (7), and what every
 * link has closed is let go. */
void tw_exchange_acked(struct exchange *x, struct holder *h, uint64_t link, uint32_t unapplied,
		       uint32_t late, uint32_t incarnation);
/* The contribution that number `link` carries to this holder; 0: it is closed everywhere. */
uint64_t tw_exchange_seq_at(const struct exchange *x, const struct holder *h, uint64_t link);
/* Does this answer come from a new life of the holder that does not know what has been closed?  An
 * acknowledgement of the life before came after the request.  The holder would wait for what is not
 * sent any more; the request, sent again, tells it. */
bool tw_exchange_unknown_to(const struct holder *h, const struct tw_body_params *b);
void tw_exchange_ask_again(struct exchange *x, struct tw_context *ctx, struct holder *h,
			   const uint64_t *round);
/* PARAMS or UNCHANGED (5).  TW_ABSENT: not the answer that is waited for.  TW_BAD_BYTES: it is
 * malformed, and the request stays open. */
enum tw_status tw_exchange_answered(struct exchange *x, struct holder *h, const struct tw_msg *m);

/* Decode a holder's answer; on success it takes the place of *place. */
enum tw_status tw_exchange_decode(struct exchange *x, const struct holder *h,
				  const struct tw_msg *m, struct tw_block **place);

/* --- exchange_codec.c --------------------------------------------------------------------- */

/* Codec states of all holders, blank; TW_NO_MEMORY leaves what there is to tw_exchange_close. */
enum tw_status tw_exchange_open_codec(struct exchange *x);
/* The vector's own memory, as it is. */
static inline void tw_exchange_refer(struct carried *s, struct tw_block *vector,
				     const struct tw_holding *r)
{
	s->payload = tw_block_keep(vector);
	s->at = r->at * sizeof(float);
	s->bytes = r->all * sizeof(float);
}
/* Encode slice `k` of the offer into o->slice[k]; not for codecs that send floats as they are. */
enum tw_status tw_exchange_encode(struct exchange *x, struct outgoing *o,
				  const struct tw_offer *offer, uint32_t k);
/* (7), (9): slice `k` of o is not applied and will not be; `keeps`: its samples are done with. */
void tw_exchange_return(struct exchange *x, const struct outgoing *o, uint32_t k, bool keeps);
/* Is anything owed to any link? */
bool tw_exchange_owes(const struct exchange *x);
/* The norm of what is owed to all links, as a push tells it. */
float tw_exchange_owed(const struct exchange *x);
void tw_exchange_blank(struct exchange *x);
/* The residual as one array over the trainable parameters, and what else codecs keep of each range:
 * appended to the list; what it points to is in *room, the caller's to put back.  At most
 * 1 + holders arrays; none where the codec does not remember. */
enum tw_status tw_exchange_pack(struct exchange *x, struct tw_array *list, size_t *count,
				float **room);
/* From such arrays; borders may be others now.  TW_BAD_BYTES leaves it for the caller to blank. */
enum tw_status tw_exchange_restore(struct exchange *x, const struct tw_array *list, size_t count);

#endif
