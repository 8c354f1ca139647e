/* SPDX-License-Identifier: Apache-2.0 */
/* mix_state.h - what a replica knows of others that differ from it; the files of this folder share
 * it.
 *
 *	mix_shard.c   formations, waiting, the duty
 *	mix_spread.c  contributions that all replicas hear of
 *	mix_pair.c    two replicas take the mean of their parameters
 *	mix_mean.c    all replicas do, or of their views */
#ifndef TW_NODE_DUTY_MIX_MIX_STATE_H
#define TW_NODE_DUTY_MIX_MIX_STATE_H

#include "node/shard/shard_sum.h"

#define LOG_MOST 32 /* contributions that somebody has not confirmed */

/* A contribution of this node's worker that some replica has not confirmed. */
struct mix_entry {
	struct tw_body_push body; /* body.link: its number; they count from 1 in a generation */
	uint64_t seq;
	uint32_t flags, left;     /* left: replicas that have not confirmed it */
	struct tw_block *payload; /* a reference; NULL: others count it only ... */
	size_t at;
	uint32_t bytes; /* ... and so many of it count */
};

/* Another replica, as this one knows it. */
struct mix_peer {
	uint32_t place;          /* its rank + 1 in the formation; 0: it is not in it */
	uint64_t heard;          /* numbers of its contributions that are here */
	uint64_t confirmed;      /* of ours that it has */
	uint32_t unsaid;         /* of `heard` that it was not told about */
	float residual;          /* norm that its worker owes */
	uint64_t answered;       /* number of its exchange that was answered last; 0: none ... */
	struct tw_block *answer; /* ... with this */
};

/* An exchange of parameters that was begun here and is not answered; partner is a slot. */
struct mix_exchange {
	uint64_t number; /* of the last one */
	uint32_t partner;
	struct tw_block *asked; /* the parameters that the partner got; NULL: none is open */
};

/* (1) to (4) of README.md. */
struct mix_shard {
	uint32_t attempt;
	bool settling;           /* the master wants to know when all is confirmed ... */
	bool settled;            /* ... and was told */
	bool leaving;            /* its worker goes when all is confirmed */
	struct tw_block *member; /* struct tw_member by rank; NULL: not formed yet */
	uint32_t peers, rank;
	struct mix_peer *peer;
	struct mix_entry *log;
	size_t room;
	uint32_t count, head; /* a ring: entry k is log[(head + k) % room] */
	uint64_t first;       /* number of log[head], or of the next one */
	struct mix_exchange open;
	int64_t since; /* settling, or as many are not confirmed as there may be: since when */
	struct reducer *average, *views;         /* NULL: the shard is not hosted */
	uint32_t average_attempt, views_attempt; /* of their last formations, then */
};

static inline const struct tw_member *tw_mix_members(const struct mix_shard *p)
{
	return p->member ? (const void *)p->member->data : NULL;
}

static inline struct mix_entry *tw_mix_entry(const struct mix_shard *p, uint32_t k)
{
	return &p->log[(p->head + k) % p->room];
}

/* The most that others may have left unconfirmed when its worker is answered: (7), (11). */
static inline uint32_t tw_mix_most(const struct mix_shard *p)
{
	return p->leaving ? 0 : LOG_MOST - 1;
}

/* --- mix_spread.c --------------------------------------------------------------------------- */

/* A message to another replica; NULL: see tw_msg_to. */
struct tw_msg *tw_mix_message(struct shard *s, struct tw_context *ctx, const struct tw_member *to,
			      enum tw_type type);
/* Who sent this?  NULL: it is none of the replicas that act together. */
const struct tw_member *tw_mix_sender(const struct shard *s, const struct tw_msg *m);
/* HEARD; `again`: the other is to send again what is not confirmed; it asks for the same in return
 * if this one's worker leaves and `leaving` says so (11). */
void tw_mix_confirm(struct shard *s, struct tw_context *ctx, const struct tw_member *to, bool again,
		    bool leaving);
/* All that this replica has not confirmed. */
void tw_mix_send_log(struct shard *s, struct tw_context *ctx, const struct tw_member *to);
/* This replica has our contributions up to `number`. */
void tw_mix_confirmed(struct shard *s, struct tw_context *ctx, uint32_t slot, uint64_t number);
/* What all have is not kept any longer; the worker, or the master, may have waited for that. */
void tw_mix_prune(struct shard *s, struct tw_context *ctx);
/* Nothing is kept. */
void tw_mix_drop_log(struct mix_shard *p);
/* The memory that it needs from the first contribution or formation of a generation on. */
bool tw_mix_furnished(struct shard *s, struct tw_context *ctx);
/* HAVE, if all is settled; and the first time when it is. */
void tw_mix_tell_settled(const struct shard *s, struct tw_context *ctx);
void tw_mix_check_settled(struct shard *s, struct tw_context *ctx);
/* (11) A worker that leaves may have waited for the end of an exchange. */
void tw_mix_let_leave(struct shard *s, struct tw_context *ctx);
/* The push of this node's worker is applied, or refused: the others hear of it. */
void tw_mix_tell_others(struct shard *s, struct tw_context *ctx, const struct tw_msg *m,
			bool refused);
/* SPREAD */
void tw_mix_hear_spread(struct shard *s, struct tw_context *ctx, const struct tw_msg *m);

/* --- mix_pair.c ----------------------------------------------------------------------------- */

/* Its turn: ask a partner for the mean of both, if none was asked. */
void tw_mix_begin_exchange(struct shard *s, struct tw_context *ctx);
/* Ask the partner again, if this is the one. */
void tw_mix_ask_again(struct shard *s, struct tw_context *ctx, uint32_t slot);
void tw_mix_close_exchange(struct mix_shard *p);
/* MIX */
void tw_mix_hear_mix(struct shard *s, struct tw_context *ctx, const struct tw_msg *m);

/* --- mix_mean.c ----------------------------------------------------------------------------- */

enum tw_status tw_mix_open_means(struct shard *s);
void tw_mix_close_means(struct mix_shard *p);
/* The reducer of this kind; NULL: it is none of a mean. */
struct reducer *tw_mix_mean_of(const struct shard *s, uint32_t what);
void tw_mix_tell_means(const struct shard *s, struct tw_context *ctx);

#endif
