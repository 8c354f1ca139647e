/* SPDX-License-Identifier: Apache-2.0 */
/* reducer.h - adds up one vector over several nodes: who takes part, which pieces move, in which
 * order.
 *
 * Each member of a formation has a vector.  The reduction of the plan (strategy/reduction.h) says
 * who sends which piece to whom; REDUCE carries the pieces.  Whose vector it is and what becomes of
 * the sum, the client says.  README.md has the rules; numbers in brackets are those of README.md.
 *
 * One thread at a time enters a reducer. */
#ifndef TW_NODE_REDUCER_REDUCER_H
#define TW_NODE_REDUCER_REDUCER_H

#include "node/slice_update.h"
#include "strategy/reduction.h"

struct reducer;

/* What a member adds, and what is said of it. */
struct reducer_input {
	struct tw_block *block;
	const float *at;
	struct tw_body_reduce has;
	struct tw_block *wire; /* as its worker's codec wrote it (8); NULL: floats, or not known */
	size_t wire_at, wire_bytes;
	bool unchecked; /* nobody has looked yet whether it is finite */
	bool own;       /* it is of this node's worker */
	bool mine;      /* nobody else reads the block */
};

/* What is added up, and for whom.  `who` is the client; functions may be NULL where the comment
 * says so. */
struct reducer_client {
	uint16_t what; /* enum tw_form_what, as REDUCE says it */
	/* Sums have numbers: what is of an earlier one is void, what is of a later one waits.  Else
	 * only formations are told apart. */
	bool numbered;
	/* Vectors are parameters.  Everybody has them, they count once each, and they travel as
	 * floats.  Else they are contributions. */
	bool parameters;
	/* The mean is wanted: a vector that is not finite is left out (5). */
	bool mean;
	/* A formation holds at once.  Else from the sum on whose number it says: it waits for that
	 * one. */
	bool at_once;
	uint32_t flags;  /* of each REDUCE */
	const char *why; /* for what a member is waited for, in words */
	/* An empty REDUCE to the reducer of the same vector on this node; NULL: see tw_msg_to. */
	struct tw_msg *(*message)(const void *who, struct tw_context *ctx, uint32_t node);
	/* What this member adds; false: it is not here yet. */
	bool (*input)(const void *who, struct reducer_input *out);
	/* Can honest members say this of one contribution, or of several? */
	bool (*plausible)(const void *who, const struct tw_body_reduce *b);
	/* For codecs: how far the run is; bytes of a contribution into n floats (8).  NULL: vectors
	 * are parameters. */
	double (*progress)(const void *who);
	enum tw_status (*decode)(const void *who, const uint8_t *bytes, size_t len, float *to);
	/* This part of the sum is complete.  True: its values are not needed any more.  Then
	 * `unstage`: the sum begins again.  NULL: the client waits for the whole sum. */
	bool (*part)(void *who, const struct slice_part *part, const struct tw_account *account);
	void (*unstage)(void *who);
	/* What this member adds is not finite: this sum will never be complete here (4).  NULL:
	 * that cannot be. */
	void (*refused)(void *who, struct tw_context *ctx);
	/* A step could not be made: TW_NO_MEMORY, or TW_BAD_BYTES if the codec cannot write it. */
	void (*failed)(void *who, struct tw_context *ctx, enum tw_status st);
	/* The sum is complete here. */
	void (*complete)(void *who, struct tw_context *ctx);
};

/* The vector, and how it travels.  It is the same for all members. */
struct reducer_vector {
	const struct tw_reduction *reduction;
	const struct tw_traffic *traffic;
	struct tw_pool *pool; /* blocks that are at least as long as it */
	size_t from;          /* value of the whole model that it begins with */
	size_t n, coded;      /* values; the codec writes the first `coded`, the rest are floats */
	struct tw_rng rng;    /* that codecs draw from */
	bool gathers;         /* (8) */
	uint32_t most;        /* members of a formation, at most */
	uint32_t channel;     /* of sums that the world makes */
	const uint64_t *number; /* of the sum that is made now; the client counts */
	uint64_t *refused;      /* counts what was turned down */
};

/* Who adds up together.  peers 0: nobody does. */
struct reducer_formation {
	uint32_t attempt; /* number of the newest one: what is of an earlier one is void */
	uint32_t peers, rank;
	const struct tw_member *member; /* by rank */
	bool contributes;               /* this member has something to add */
	int64_t since;
};

/* Without members; NULL: no memory.  `attempt`: what is of this formation or an earlier one is
 * void. */
struct reducer *tw_reducer_new(struct tw_heap *heap, const struct reducer_client *by, void *who,
			       const struct reducer_vector *of, uint32_t attempt);
void tw_reducer_free(struct reducer *r);
/* No formation holds any more, and nobody came early; only the number of the last one is kept. */
void tw_reducer_forget(struct reducer *r);
/* Nobody adds up together until the next formation. */
void tw_reducer_disband(struct reducer *r);

/* FORM: who adds up from now on.  If this node is not among them, they do without it. */
void tw_reducer_form(struct reducer *r, struct tw_context *ctx, const struct tw_msg *m);
/* The sum was made use of: what was added up is let go. */
void tw_reducer_empty(struct reducer *r);
/* The number is that of the next sum: a formation that waited for it holds, and all moves that can
 * be made are made, with what came early. */
void tw_reducer_next(struct reducer *r, struct tw_context *ctx);
/* The same, for a client that makes another use of numbers: only the formation is looked at. */
void tw_reducer_form_late(struct reducer *r, struct tw_context *ctx);
/* A piece from another member. */
void tw_reducer_hear(struct reducer *r, struct tw_context *ctx, const struct tw_msg *m);
/* What this member adds is here.  TW_REFUSED: it was not finite, and the client was told (4). */
enum tw_status tw_reducer_input_came(struct reducer *r, struct tw_context *ctx);
/* Would it be checked piece by piece as moves make use of it? */
bool tw_reducer_checks(const struct reducer *r);
/* A sum that the world was asked for is made (tw_actor_class.summed). */
void tw_reducer_summed(struct reducer *r, struct tw_context *ctx, uint64_t key,
		       struct tw_block *sum, struct tw_block *more);
/* The node can be reached again: what was sent there may be lost. */
void tw_reducer_send_again(struct reducer *r, struct tw_context *ctx, uint32_t node);

const struct reducer_formation *tw_reducer_formation(const struct reducer *r);
/* There is a formation, and its sum is complete here. */
bool tw_reducer_is_complete(const struct reducer *r);
/* What is said of the sum.  has_sum: somebody has added something to it. */
struct tw_body_reduce tw_reducer_has(const struct reducer *r);
bool tw_reducer_has_sum(const struct reducer *r);
/* Where the sum lies, in order, until the next one begins; at NULL: the client had this part. */
const struct slice_part *tw_reducer_parts(struct reducer *r, uint32_t *count);
/* By rank, what its codec owes after this sum (8); NULL: nothing is owed. */
const float *tw_reducer_owed(const struct reducer *r);
/* The sum divided, in a new block; NULL: no memory. */
struct tw_block *tw_reducer_mean(const struct reducer *r);

/* The rank that is waited for; of several, the one that waits for the fewest others, which are
 * *depth.  peers: nobody is, or nobody knows. */
uint32_t tw_reducer_awaits(const struct reducer *r, uint32_t *depth);
/* The same, as a sentence; false: nobody is waited for. */
bool tw_reducer_waits(const struct reducer *r, struct tw_wait *out);

#endif
