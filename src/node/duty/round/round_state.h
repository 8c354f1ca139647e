/* SPDX-License-Identifier: Apache-2.0 */
/* round_state.h - what the master knows of the round that is open, for the files of this folder.
 * Its number, and whether it is open, everybody may ask: struct rounds in master_state.h. */
#ifndef TW_NODE_DUTY_ROUND_ROUND_STATE_H
#define TW_NODE_DUTY_ROUND_ROUND_STATE_H

#include "node/duty/round/round.h"
#include "node/master/master.h"

/* A member's stripe of the round.  tw_round_put alone changes the state. */
enum stripe_state {
	STRIPE_NONE,
	STRIPE_STAGING,  /* not on every shard yet */
	STRIPE_COMPLETE, /* on every shard: it counts, even if its worker goes */
	STRIPE_REFUSED,  /* some shard found it not finite */
	STRIPE_BEHIND,   /* too late for its round; its worker still computes it.  It is live */
	STRIPE_STATES
};

struct stripe {
	enum stripe_state state;
	uint32_t have;              /* shards that have it */
	uint32_t incarnation, node; /* who computes it */
	uint32_t count, steps;
	uint64_t from, lease; /* lease: its id */
	double loss;
};

/* plan.traffic.delay: the stripe of the round after this one, which a member has already; count 0:
 * none. */
struct stripe_ahead {
	uint64_t from, lease;
	uint32_t count;
};

/* The set that was committed last, in case a shard has not heard of it. */
struct commit {
	bool sent; /* there is one */
	uint64_t round;
	uint32_t count;
	struct tw_member *set;
	uint32_t attempt;      /* replicas: whose sum it is ... */
	uint64_t steps;        /* ... its steps, where they mix, ... */
	struct tw_spans spans; /* ... and its positions */
};

/* Who adds up the round, where replicas do.  `form` is the formation as it was told last, of this
 * generation; `formed`: it is that of the round which is open, and nobody in it has gone. */
struct formation {
	uint32_t forming; /* its number */
	uint64_t told;    /* generation that it was told in; 0: it is to be told again */
	struct tw_member *form;
	uint32_t count;
	bool formed;
	bool settled;   /* all survivors have the sum: it counts, although somebody has gone */
	uint32_t steps; /* of the sum */
	double loss, rate;
	int64_t since; /* when the formation was told, or the round began with the one before */
};

/* (10) to (12) of README.md. */
struct round_master {
	struct stripe *stripe;      /* by slot */
	struct stripe_ahead *ahead; /* by slot */
	uint32_t stripes[STRIPE_STATES];
	struct tw_slots back;
	uint64_t border; /* end of the epoch that its stripes lie in, or of the steps one by one */
	uint64_t begins; /* its first position, which says how long its stripes are */
	uint64_t *have;  /* bits by slot and shard: who has which stripe */
	uint32_t words;  /* of 64 shards, per slot */
	struct commit commit;
	struct formation formation;
};

/* Members that have a stripe in the round that is open. */
static inline uint32_t tw_round_all_planned(const struct round_master *r)
{
	return r->stripes[STRIPE_STAGING] + r->stripes[STRIPE_COMPLETE] +
	       r->stripes[STRIPE_REFUSED];
}

/* --- round_stripes.c: what members have of rounds --------------------------------------------- */

enum tw_status tw_round_stripes_open(struct master *m);
void tw_round_stripes_close(struct master *m);
/* The stripe of this slot is in this state from now on. */
void tw_round_put(struct master *m, uint32_t slot, enum stripe_state to);
/* It has a stripe of the round that is open, as said here, and nobody has it yet. */
void tw_round_begin_stripe(struct master *m, struct tw_context *ctx, uint32_t slot,
			   const struct stripe_ahead *what);
/* The stripe of the next round is sent; or is taken back: TW_NO_MEMORY, the run cannot go on. */
void tw_round_send_ahead(struct master *m, struct tw_context *ctx, uint32_t slot);
enum tw_status tw_round_withdraw(struct master *m, uint32_t slot);
/* HAVE of a shard of a server: a contribution is there, or was refused. */
void tw_round_have(struct master *m, struct tw_context *ctx, const struct tw_msg *msg);
/* As kernel/dealer.h says. */
void tw_round_appetite(struct master *m, uint32_t slot);
void tw_round_left(struct master *m, struct tw_context *ctx, uint32_t slot);
void tw_round_undo(struct master *m, struct tw_context *ctx, uint32_t slot);
void tw_round_resend(struct master *m, struct tw_context *ctx, uint32_t slot);
bool tw_round_crossed(const struct master *m, uint32_t slot, uint32_t lease);
uint64_t tw_round_works_on(const struct master *m, uint32_t slot);
bool tw_round_is_behind(const struct master *m, uint32_t slot);
uint32_t tw_round_reached(const struct master *m, uint32_t slot);
bool tw_round_is_ahead(const struct master *m);
/* Has its contribution reached some shard, and not all?  Where it has cells: that of the one that
 * holds up the others, and shards of its stage. */
bool tw_round_is_under_way(const struct master *m, uint32_t slot);

/* --- round_form.c: of replicas, who adds up the round; elsewhere these do nothing ------------- */

enum tw_status tw_round_form_open(struct master *m);
void tw_round_form_close(struct master *m);
/* Form for the round that is open; everybody is told where that has changed. */
void tw_round_form(struct master *m, struct tw_context *ctx);
/* HAVE of a replica: the sum is complete on one shard, or its contribution was refused there. */
void tw_round_form_have(struct master *m, struct tw_context *ctx, const struct tw_msg *msg);
/* Is the sum of the round complete on all?  Does this member's replica have it? */
bool tw_round_form_is_complete(const struct master *m);
bool tw_round_form_has_sum(const struct master *m, uint32_t slot);
/* The round is over: contributions that are in the sum are complete. */
void tw_round_form_settle(struct master *m, struct tw_context *ctx);

/* --- round_commit.c: the set of the round, and of the last one -------------------------------- */

enum tw_status tw_round_commit_open(struct master *m);
void tw_round_commit_close(struct master *m);
/* Commit the round that is open, with what is complete. */
void tw_round_commit(struct master *m, struct tw_context *ctx);

#endif
