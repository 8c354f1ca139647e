/* SPDX-License-Identifier: Apache-2.0 */
/* stage_state.h - what a cell of a worker knows, and what the files of this folder do for one
 * another.  The numbers in brackets are those of README.md. */
#ifndef TW_NODE_DUTY_STAGE_STAGE_STATE_H
#define TW_NODE_DUTY_STAGE_STAGE_STATE_H

#include "node/duty/stage/stage.h"
#include "node/kernel/early.h"
#include "node/worker/worker.h"

/* A micro-batch, from what has come for it first until its BACKWARD. */
struct flight {
	bool known;     /* `what` is */
	bool forwarded; /* FORWARD is made */
	struct tw_body_act what;
	double loss;
	struct tw_block *x, *dy, *stash;
	struct tw_block **view; /* by holder: that FORWARD read; NULL where BACKWARD takes others */
	struct tw_stamp *base;  /* ... and what they are */
};

/* Views of one version (4). */
struct stage_version {
	uint64_t number;
	struct tw_block **view; /* by holder; [0] NULL: none is kept here */
	struct tw_stamp *base;
};

/* What the computation under way touches (3). */
struct stage_run {
	const struct flight *of;
	uint64_t own;                          /* number of its micro-batch among the cell's own */
	struct tw_block *x, *dy, *stash, *out; /* out: y or dx */
	struct tw_block **view;
	bool back;
	int64_t began;
};

/* What was said to a cell (8). */
struct said {
	uint16_t type; /* ACT or GRAD */
	uint64_t number;
	union {
		struct tw_body_act act;
		struct tw_body_grad grad;
	};
	struct tw_block *block; /* NULL: without a payload */
	uint32_t bytes;
	bool plain; /* floats, whatever the codec is */
};

/* The connection to another cell (8). */
struct cell_link {
	struct said *said;            /* numbers held + 1 to last, by number modulo room */
	uint64_t last, held;          /* said; of these it has told that it has */
	uint64_t got, told;           /* it has said; of these it was told that they came */
	struct said test;             /* of an evaluation; number 0: none is kept */
	uint32_t test_last, test_got; /* said; heard */
};

/* First cell: a micro-batch that is dealt, as it was told (9). */
struct dealt {
	struct tw_body_act what;
	bool back;
};

/* Where a cell of this worker is (7). */
struct cell_place {
	uint32_t node, boot;
};

struct stage_worker {
	uint32_t cells;
	struct cell_place *roster; /* by cell */
	struct tw_member *named;   /* room to tell the world of it */
	bool moves;                /* it asks to join when what it computes is done (7) */
	struct cell_link *link;    /* by cell (8) */
	bool idle_set;             /* its timer is */
	uint32_t liar;             /* this cell says what cannot be; UINT32_MAX: none does */
	struct tw_pipe_shape shape;
	struct tw_pipe_post post; /* what this cell is in it */

	/* (1) */
	uint64_t stream,
		total; /* total: micro-batches of the stream; UINT64_MAX: no end is known */
	uint64_t next; /* number of the next move of the endless list */
	uint64_t forwards, backwards;
	struct stage_dealing {       /* first cell (9) */
		uint64_t next, back; /* micro-batches of the stream dealt; all before are back */
		struct dealt *of;    /* by micro-batch modulo span */
		uint32_t span;
		uint32_t ranges;      /* leases that the group has samples of ... */
		uint64_t range_lease; /* ... the last of them */
	} deal;

	struct flight *flight; /* by micro-batch of its own modulo window (2) */
	uint32_t window;
	struct stage_version *version; /* (4): the newest first */
	uint32_t versions;             /* room for them */
	uint64_t newest;
	bool waits_version;   /* an answer that is awaited makes the next version ... */
	int64_t waits_since;  /* ... since then */
	struct stage_run run; /* (3) */
	struct tw_early early;
	uint32_t early_room; /* the most that a cell can say before it needs an answer */

	struct tw_pool *stashes, *outs, *backs;
	/* strategy.codec.act, forward and back: what is sent, what came; NULL: as they are */
	struct tw_pool *coded[2], *decoded[2];

	/* (10) */
	uint64_t mark[TW_CREDITS + 1]; /* behind a contribution, by its number modulo this */
	uint64_t told;                 /* closed, as the first cell was told */
	uint64_t *closed;              /* first cell: ... as others told it, by cell */
	uint32_t group;                /* rounds: micro-batches of the group that is contributed */

	/* evaluation: inputs of the stage */
	struct tw_block *test_x;

	void *room; /* of the arrays above but `early`, `roster`, `named`, `link` */
};

/* --- stage_memory.c ---------------------------------------------------------------- */

/* Up to here this cell is closed, as a mark (10). */
uint64_t tw_stage_own_closed(const struct worker *w);
void tw_stage_drop_views(struct tw_block **view, uint32_t holders);
/* A flight has ended, or is void. */
void tw_stage_land(struct flight *f, uint32_t holders);
/* Nothing reads or writes what the computation touched (3). */
void tw_stage_end_run(struct worker *w);
/* Nothing is in flight; the next stream begins. */
void tw_stage_begin_stream(struct stage_worker *s);
/* Ask for what a micro-batch of this round needs; true: the newest is here. */
bool tw_stage_has_newest(struct worker *w, struct tw_context *ctx, uint64_t round);
/* The views that FORWARD of a micro-batch reads, into its flight.  False: they are not here yet. */
bool tw_stage_look(struct worker *w, struct tw_context *ctx, struct flight *f);

/* Memory of a cell without a place. */
enum tw_status tw_stage_open(struct worker *w);
/* What depends on the cell (7); nothing is computed, and what was made for another is gone. */
enum tw_status tw_stage_take(struct worker *w, uint32_t cell);
void tw_stage_leave(struct worker *w);
/* A new generation or identity: everything in flight is void. */
void tw_stage_reset(struct worker *w);
/* All shards have answered. */
void tw_stage_fetched(struct worker *w, struct tw_context *ctx);
/* What it holds. */
struct tw_stage_held tw_stage_holds(const struct worker *w);

/* --- stage_worker.c ----------------------------------------------------------------------- */

/* (10): a mark as a number, which is larger for later ones. */
static inline uint64_t tw_stage_mark(uint64_t stream, uint64_t micro)
{
	return stream << 40 | micro;
}
/* Is anything in flight, or not told yet? */
bool tw_stage_is_busy(const struct worker *w);

/* --- stage_deal.c ------------------------------------------------------------------------ */

/* First cell: the next samples into `f`, the flight of this micro-batch; false: not now. */
bool tw_stage_take_samples(struct worker *w, struct tw_context *ctx, uint64_t micro,
			   struct flight *f);
/* The flight begins: its samples are not to be taken again. */
void tw_stage_samples_begun(struct worker *w, struct tw_context *ctx,
			    const struct tw_body_act *what);
/* Micro-batches of other lanes that can be dealt now are. */
void tw_stage_deal_others(struct worker *w, struct tw_context *ctx);
/* The backward of a micro-batch is made.  False: that cannot be. */
bool tw_stage_is_back(struct worker *w, struct tw_context *ctx, uint64_t micro, double loss);
/* It neither begins something nor waits for more of it. */
bool tw_stage_stops(const struct worker *w);

/* --- stage_act.c ------------------------------------------------------------------------- */

/* What crosses a cut with one micro-batch. */
struct tw_stage_load {
	uint64_t position; /* of its first sample */
	size_t floats;
	uint32_t stage; /* that it goes to */
	bool back;      /* gradients */
	bool tests;     /* of an evaluation */
};

/* With the stage, and after it; the second call may follow a failure of the first. */
enum tw_status tw_stage_open_codec(struct worker *w);
void tw_stage_close_codec(struct worker *w);
/* The values become what is said, with a reference for the caller.  False: there is no memory. */
bool tw_stage_carry(struct worker *w, struct tw_context *ctx, const struct tw_stage_load *c,
		    struct tw_block *values, struct said *out);
/* The values of a payload, with a reference for the caller; NULL: it is not what is expected. */
struct tw_block *tw_stage_unpack(struct worker *w, struct tw_context *ctx,
				 const struct tw_header *h, struct tw_block *payload,
				 const struct tw_stage_load *c);

/* --- stage_delivery.c -------------------------------------------------------------------- */

enum tw_status tw_links_open(struct worker *w);
void tw_links_close(struct worker *w);
/* A new generation; a new identity. */
void tw_links_reset(struct worker *w);
void tw_links_renew(struct worker *w);
/* Number it, keep it and send it.  `what` stays the caller's. */
void tw_link_say(struct worker *w, struct tw_context *ctx, uint32_t cell, const struct said *what);
/* The connection was made anew. */
void tw_link_again(struct worker *w, struct tw_context *ctx, uint32_t cell);
/* It has what was said to it up to this number; and of evaluations. */
void tw_link_confirmed(struct worker *w, uint32_t cell, uint64_t upto);
void tw_link_test_confirmed(struct worker *w, uint32_t cell, uint32_t number);
/* Tell a cell now what has come from it. */
void tw_link_tell(struct worker *w, struct tw_context *ctx, uint32_t cell);
/* Is this the next one?  Then it counts as heard.  Of evaluations only the newest one counts. */
bool tw_link_takes(struct worker *w, struct tw_context *ctx, uint32_t cell, uint64_t number);
bool tw_link_takes_test(struct worker *w, struct tw_context *ctx, uint32_t cell, uint64_t number);

/* --- stage_cells.c ----------------------------------------------------------------------- */

/* A message to another cell of this worker. */
struct tw_msg *tw_stage_message(struct worker *w, struct tw_context *ctx, uint32_t cell,
				enum tw_type type);
/* A cell has said what cannot be: the master is told, and this one joins again as somebody new. */
void tw_stage_accuse(struct worker *w, struct tw_context *ctx);
/* WELCOME: where the cells of this worker are; the world is told, too. */
void tw_stage_roster(struct worker *w, struct tw_context *ctx, const struct tw_msg *m);
/* Messages that came too early, once more. */
void tw_stage_hear_early(struct worker *w, struct tw_context *ctx);
/* To the cell that has this micro-batch in the next stage: activations. */
void tw_stage_send_act(struct worker *w, struct tw_context *ctx, const struct tw_body_act *what,
		       struct tw_block *y);
/* What crosses the cut before a stage forward, or the one after it back. */
struct tw_stage_load tw_stage_crossing(const struct tw_model_cut *cut, uint32_t stage,
				       uint64_t from, uint32_t count, bool back);
/* First cell, to the lane of its stage that has this micro-batch (9). */
void tw_stage_send_samples(struct worker *w, struct tw_context *ctx,
			   const struct tw_body_act *what);
/* First lane of a stage: where the stream ends (9). */
void tw_stage_send_end(struct worker *w, struct tw_context *ctx);
/* To the cell that has this micro-batch in the stage before, or the first cell (9). */
void tw_stage_send_grad(struct worker *w, struct tw_context *ctx, const struct flight *f,
			struct tw_block *dx);
/* What shards have closed may have grown. */
void tw_stage_tell_closed(struct worker *w, struct tw_context *ctx);

#endif
