/* SPDX-License-Identifier: Apache-2.0 */
/* master.h - the master's state, shared by master.c (phases), members.c (workers), gather.c
 * (servers and shards), deal.c (leases and rounds), cut.c (hosting, checkpoints) and score.c
 * (evaluation and the end). */
#ifndef TW_NODE_MASTER_H
#define TW_NODE_MASTER_H

#include "node/part.h"
#include "node/plan.h"

enum phase {
	PHASE_GATHER,  /* servers, shards and workers are not all there */
	PHASE_AGREE,   /* every shard confirms members and generation */
	PHASE_RELEASE, /* all is ready; it goes on at a certain time */
	PHASE_RUN,
	PHASE_DRAIN, /* no more leases; those open come home */
	PHASE_SNAP,  /* parts of a cut are on their way */
	PHASE_SAVE,  /* and are being written */
	PHASE_COUNT, /* final vectors and tallies are on their way */
	PHASE_SCORE, /* the final evaluation */
	PHASE_OVER,
};

enum {
	TIMER_GATHER = 1,
	TIMER_CUT,
	TIMER_LIMIT,
	TIMER_RELEASE,
	TIMER_PAUSE,
	TIMER_HOMELESS,
	TIMER_MOVE,
	TIMER_STUCK
};

/* How long somebody takes: the longest of the last 32 to 64 times. */
struct pace {
	int64_t longest[2]; /* of this 32, and of the 32 before */
	uint32_t count;
};

struct open_lease {
	uint64_t id, from, to;
};

struct member {
	bool live, hungry, dry, idle, behind;
	bool heard; /* it knows who it is */
	uint32_t incarnation, node, boot;
	struct open_lease *lease;
	uint32_t leases, room;
	uint64_t next_lease, confirmed;
	uint64_t steps, samples; /* it has reported since it joined */
	struct pace pace;        /* of its contributions, or leases */
	int64_t asked;           /* when it was last given work, or finished some */
	uint32_t barred_node,
		barred_boot; /* who was removed from this slot as stuck; boot 0: none */
	uint64_t generation; /* it held its leases in, when it came to us from another master */
	/* the round */
	bool planned, complete, refused;
	uint32_t have_count, round_incarnation, round_node;
	uint8_t *have; /* by shard */
	uint64_t from;
	uint32_t count, round_steps;
	double round_loss;
	/* evaluation */
	bool evaluating;
	uint32_t chunk;
	struct tw_block *part;    /* its part of the cut being made */
	struct tw_block *restore; /* its part of the cut we came from */
};

struct shard_info {
	uint32_t node, incarnation;
	bool hosted, assigned, pending, adopted; /* pending: HOST is to be sent */
	bool agreed, counted;
	bool pinned;             /* it keeps its view for the evaluation ... */
	struct tw_body_pin view; /* ... which has this */
	bool steady;             /* it has said how much was in when nothing was left to deal */
	struct tw_block *part, *vector;
	struct tw_spans applied, twice;
	uint64_t round;
	struct tw_member *set; /* its last committed set */
	uint32_t set_count;
	struct tw_tally tally;
	struct tw_block *host; /* what HOST carries, kept to send again */
	uint64_t host_cut;
};

struct server_info {
	bool live, leaving; /* leaving: it asked to go, and its shards are not elsewhere yet */
	bool left;          /* it was told that it may */
	uint32_t boot;
	uint32_t hosted, stated; /* shards it says it holds; those that have reported */
};

struct chunk {
	bool asked, done;
	uint32_t slot;
	int64_t since; /* when it was given to that member */
	double loss, correct;
	uint64_t samples;
};

/* The evaluation that is awaited or under way. */
struct evaluation {
	bool on;      /* shards were told to keep a view */
	bool hurried; /* those who have not kept one were told not to wait any longer */
	bool pinned;  /* all have: `label` and `at` are of these views */
	uint64_t pin;
	uint64_t number;         /* of the threshold, see (5) in score.c; 0: at the end */
	uint64_t round, samples; /* shards keep their view when they have so many */
	struct tw_point label;
	int64_t at;
};

/* For the throughput without the tail. */
struct steady {
	bool dealt, dry;    /* something was dealt; and a worker then found nothing left */
	int64_t began, end; /* when */
	double from, samples;
	uint64_t ask;  /* number of the count; 0: none was asked for */
	uint32_t left; /* shards that have not answered */
};

struct master {
	const struct tw_plan *plan;
	struct tw_heap *heap;
	bool resume;
	enum phase phase;
	bool begun; /* training has begun in this generation or an earlier one */
	bool rebuild, rolling_back;
	bool loading, looked; /* looked: the newest cut's number is known */
	uint64_t generation, views, asks, counter;
	uint32_t incarnations; /* given by this master */
	uint64_t current; /* the generation that workers may know: every shard has agreed to it */
	int64_t since, release;
	bool servers_due, paused;
	bool came;      /* a worker has joined this master */
	bool lost;      /* a shard was hosted, and its server went */
	bool wait_over; /* one cluster.wait is over, and training has not begun */
	bool counting_workers, counting_homes; /* TIMER_PAUSE, TIMER_HOMELESS are set */
	struct pace pace, score_pace;       /* of everybody's work, and of chunks of evaluations */
	int64_t stuck_checked, awake_since; /* see stuck.c (3) */
	bool outlived;                      /* somebody is here who outlived a master before us */
	bool patient;  /* servers that are started by hand get cluster.wait to come */
	bool moving;   /* shards of one who leaves go elsewhere, from a cut that nothing followed */
	bool move_off; /* that cut could not be made: not again before TIMER_MOVE */

	struct member *member; /* by slot */
	uint32_t live;
	struct shard_info *shard;
	struct server_info *server; /* by server number (node - 1) */

	/* dealing */
	struct tw_spans taken;
	uint64_t frontier, open_leases;
	uint64_t round;
	bool round_open;
	uint32_t planned;
	struct tw_member *set; /* last committed */
	uint32_t set_count;
	uint64_t set_round;
	bool set_sent;

	/* limits and wishes */
	bool want_cut, want_stop, want_finish, time_up;
	bool stopping; /* the last cut is kept: count, and end as interrupted */

	/* cuts */
	uint64_t cut, cuts_made; /* last complete cut; made by this master */
	uint64_t cut_making;     /* number of the one under way; 0 none */
	uint64_t cut_stored;     /* number of the last one given to the store */
	bool cut_running;        /* collected while training goes on */
	struct tw_spans closed;  /* at the SNAP */
	int64_t period;          /* between cuts, where checkpoint.every leaves no time to train */
	int64_t draining;        /* since when nobody gets work, for the cut being made */
	bool was_paused;         /* workers or shards were missing since the cut before */
	uint64_t closed_before;  /* positions closed in the drained cut before */

	/* evaluation */
	struct evaluation eval;
	bool final;
	struct chunk *chunk;
	uint32_t chunks, chunks_done;
	uint64_t evaluated_at; /* thresholds that evaluations were made for, or passed over */
	double loss, accuracy;
	struct tw_goal goal;
	struct steady steady;

	/* counts */
	uint64_t steps, samples; /* applied, as far as the master knows */
	uint64_t redealt, dropped, refused;
	double loss_sum;
	uint64_t loss_samples;
	double train_loss;
};

static inline bool tw_master_rounds(const struct master *m)
{
	return m->plan->gate->traits & TW_GATE_ROUNDS;
}

/* Between a drained cut and its release nothing may take virtual time: a slow or lossy link would
 * put the release off in the run that was not stopped, and not in the one that resumes here. */
static inline uint32_t tw_master_untimed(const struct master *m)
{
	return m->release ? TW_FLAG_FREE : 0;
}

/* master.c */
void tw_master_drive(struct master *m, struct tw_context *ctx);
uint64_t tw_master_new_generation(struct master *m, struct tw_context *ctx);
uint32_t tw_master_new_incarnation(struct master *m, struct tw_context *ctx);

/* Is the master waiting for this member? */
bool tw_master_waits_for(const struct master *m, uint32_t slot);

/* Somebody outlived a master before us: there is more to lose than time. */
void tw_master_heard_survivor(struct master *m);

/* members.c */
struct tw_msg *tw_master_to_worker(struct master *m, struct tw_context *ctx, uint32_t slot,
				   enum tw_type type);
/* Where the shards are, to one worker. */
void tw_master_places(struct master *m, struct tw_context *ctx, uint32_t slot, bool running);
/* Every member, and who of them has no work, to one shard. */
void tw_master_full_view(struct master *m, struct tw_context *ctx, uint32_t shard);
/* The slot of the member on this node; UINT32_MAX: none. */
uint32_t tw_master_slot_at(const struct master *m, uint32_t node);
/* Is it from a worker that is a member now?  One that is not is told so. */
bool tw_master_from_member(struct master *m, struct tw_context *ctx, const struct tw_msg *msg);
/* A worker that knows nothing. */
void tw_master_admit(struct master *m, struct tw_context *ctx, const struct tw_msg *msg);
/* A worker that outlived an earlier master, or whose connection was made anew. */
void tw_master_rejoin(struct master *m, struct tw_context *ctx, const struct tw_msg *msg);
void tw_master_reconnected(struct master *m, struct tw_context *ctx, uint32_t slot);
/* A worker goes: cleanly, to start over, or before it knew that it was in. */
void tw_master_leaves(struct master *m, struct tw_context *ctx, const struct tw_msg *msg);
/* A member is removed and told why. */
void tw_master_expel(struct master *m, struct tw_context *ctx, uint32_t slot, enum tw_refusal why);
/* A shard says of a worker that its contributions are not finite, again and again. */
void tw_master_let_go(struct master *m, struct tw_context *ctx, const struct tw_msg *msg);
/* A member that has not worked yet gets its part of a cut, as somebody new. */
void tw_master_welcome_again(struct master *m, struct tw_context *ctx, uint32_t slot);
void tw_master_remove(struct master *m, struct tw_context *ctx, uint32_t slot,
		      enum tw_member_state state);

/* gather.c */
struct tw_msg *tw_master_to_shard(struct master *m, struct tw_context *ctx, uint32_t shard,
				  enum tw_type type);
/* What a shard was told and may have lost, once more. */
void tw_master_resync_shard(struct master *m, struct tw_context *ctx, uint32_t shard);
uint32_t tw_master_servers_live(const struct master *m);
void tw_master_lose_shards(struct master *m, struct tw_context *ctx, uint32_t node);
/* A server asks to leave. */
void tw_master_server_leaves(struct master *m, struct tw_context *ctx, const struct tw_msg *msg);
/* Is a cut due, so that the shards of a server that leaves can go elsewhere? */
bool tw_master_must_move(const struct master *m);
/* That cut is complete: its shards have no server now. */
void tw_master_move(struct master *m, struct tw_context *ctx);
/* Servers that leave and host nothing any more may go; the last one does not go alone. */
void tw_master_servers_go(struct master *m, struct tw_context *ctx);
void tw_master_server_hello(struct master *m, struct tw_context *ctx, const struct tw_msg *msg);
void tw_master_shard_state(struct master *m, struct tw_context *ctx, const struct tw_msg *msg);
void tw_master_shard_hosted(struct master *m, struct tw_context *ctx, const struct tw_msg *msg);
/* PHASE_GATHER, until every shard is hosted and enough workers are here. */
void tw_master_gather(struct master *m, struct tw_context *ctx);
/* Steps and samples that the shards have applied, by their last word: the mean over shards. */
void tw_master_applied(const struct master *m, uint64_t *steps, uint64_t *samples);
/* PHASE_AGREE, until every shard has confirmed. */
void tw_master_agreed(struct master *m, struct tw_context *ctx);

/* deal.c */
void tw_deal(struct master *m, struct tw_context *ctx);
void tw_deal_release(struct member *e, struct tw_heap *heap);
/* Everything this worker holds goes back and is dealt again. */
void tw_deal_return(struct master *m, struct tw_context *ctx, uint32_t slot);
void tw_deal_done(struct master *m, struct tw_context *ctx, const struct tw_msg *msg);
void tw_deal_have(struct master *m, struct tw_context *ctx, const struct tw_msg *msg);
/* Say to one shard whether this member has work. */
bool tw_deal_idle_to(struct master *m, struct tw_context *ctx, uint32_t slot, uint32_t shard,
		     uint32_t flags);
/* Nobody gets more work: whoever has none is not to be waited for. */
void tw_deal_no_more(struct master *m, struct tw_context *ctx);
void tw_deal_resend(struct master *m, struct tw_context *ctx, uint32_t slot);
void tw_deal_commit_to(struct master *m, struct tw_context *ctx, uint32_t shard);
/* Are these leases that somebody may hold? */
bool tw_deal_adoptable(const struct master *m, const struct tw_range *list, size_t count);
bool tw_deal_adopt(struct master *m, struct tw_context *ctx, uint32_t slot,
		   const struct tw_range *list, size_t count);
bool tw_deal_exhausted(const struct master *m);
/* A new generation: nobody holds anything; what was held is dealt again. */
void tw_deal_forget(struct master *m, struct tw_context *ctx);
uint32_t tw_deal_unit(const struct master *m);

/* cut.c */
void tw_cut_assign(struct master *m, struct tw_context *ctx);
void tw_cut_host(struct master *m, struct tw_context *ctx, uint32_t shard);
void tw_cut_loaded(struct master *m, struct tw_context *ctx, uint64_t cut,
		   const struct tw_part *parts, size_t count, enum tw_status status);
void tw_cut_snap(struct master *m, struct tw_context *ctx);
void tw_cut_snap_shard(struct master *m, struct tw_context *ctx, uint32_t shard);
void tw_cut_snap_worker(struct master *m, struct tw_context *ctx, uint32_t slot);
void tw_cut_part(struct master *m, struct tw_context *ctx, const struct tw_msg *msg);
void tw_cut_check(struct master *m, struct tw_context *ctx);
void tw_cut_abort(struct master *m);
/* Are workers' parts in a cut, too? */
bool tw_cut_workers_keep_state(const struct master *m);
/* How long after one cut the next is due. */
int64_t tw_cut_period(const struct master *m);
void tw_cut_saved(struct master *m, struct tw_context *ctx, uint64_t cut, enum tw_status status);

/* stuck.c */
/* This member has work to do from now on. */
void tw_stuck_asked(struct member *e, struct tw_context *ctx);
/* It has finished what it was asked for last. */
void tw_stuck_finished(struct master *m, struct tw_context *ctx, struct member *e);
/* The same of a chunk of an evaluation. */
void tw_stuck_scored(struct master *m, struct tw_context *ctx, const struct chunk *c);
/* Set TIMER_STUCK, where somebody may be stuck at all. */
void tw_stuck_watch(struct master *m, struct tw_context *ctx);
/* TIMER_STUCK: remove members that others have waited for too long. */
void tw_stuck_check(struct master *m, struct tw_context *ctx);
/* Was this node removed for that, and has not been started again since? */
bool tw_stuck_barred(const struct master *m, uint32_t node, uint32_t boot);

/* score.c */
/* Training (re)starts: what was asked of shards before is asked again, or the first evaluation is
 * awaited. */
void tw_score_begin(struct master *m, struct tw_context *ctx);
/* Every shard has told its state: what is in, when a master knows no better. */
void tw_score_agreed(struct master *m, bool adopted);
/* A round was committed: evaluate it if another threshold is passed. */
void tw_score_committed(struct master *m, struct tw_context *ctx);
/* More contributions are in. */
void tw_score_more(struct master *m, struct tw_context *ctx, uint64_t samples, uint64_t steps);
/* Something is dealt; a worker finds nothing left to deal. */
void tw_score_dealt(struct master *m, struct tw_context *ctx);
void tw_score_dry(struct master *m, struct tw_context *ctx);
void tw_score_pin_shard(struct master *m, struct tw_context *ctx, uint32_t shard);
void tw_score_pinned(struct master *m, struct tw_context *ctx, const struct tw_msg *msg);
void tw_score_result(struct master *m, struct tw_context *ctx, const struct tw_msg *msg);
void tw_score_lost(struct master *m, struct tw_context *ctx, uint32_t slot);
void tw_score_deal(struct master *m, struct tw_context *ctx);
void tw_score_abort(struct master *m, struct tw_context *ctx);
void tw_score_count(struct master *m, struct tw_context *ctx);
void tw_score_count_shard(struct master *m, struct tw_context *ctx, uint32_t shard);
void tw_score_finish(struct master *m, struct tw_context *ctx, enum tw_status status);

#endif
