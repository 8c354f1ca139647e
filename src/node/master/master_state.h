/* SPDX-License-Identifier: Apache-2.0 */
/* master_state.h - what the master knows, in parts; each says what holds in it and who resets it.
 *
 * The files that change a part are named with it.  Sets and counts over members and shards are kept
 * as they change, so that no event walks over all of them.  Whether all shards have done something
 * is asked with tw_master_every_shard, from one on that had not: `lacks` is its number. */
#ifndef TW_NODE_MASTER_MASTER_STATE_H
#define TW_NODE_MASTER_MASTER_STATE_H

#include "node/slots.h"
#include "node/checkpoint_part.h"
#include "node/kernel/dealer.h"
#include "node/kernel/duty.h"
#include "node/kernel/pace.h"
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
	TIMER_STUCK,
	TIMER_COPY,
	TIMER_FIGURES,
	TIMER_STREAM
};

/* --- members ---------------------------------------------------------------------------------- */

struct open_lease {
	uint64_t id, from, to;
};

/* What a member holds.  Reset: tw_deal_return and tw_deal_forget close the leases; tw_master_admit
 * and tw_master_rejoin begin new numbers. */
struct holding {
	struct open_lease *lease;
	uint32_t count;
	size_t room;
	uint64_t next;       /* number of the lease given last */
	uint64_t confirmed;  /* newest lease that it reported done */
	uint64_t generation; /* it held its leases in, when it came to us from another master */
};

/* Does a member ask for work?  tw_deal_appetite alone changes it. */
enum appetite {
	APPETITE_NONE,   /* it has work, or is not here */
	APPETITE_HUNGRY, /* it asks for work, and the request was not looked at yet */
	APPETITE_DRY,    /* it was told that there is none: it is looked at when some comes back */
	APPETITE_EARLY,  /* the same, but because it is not its turn: see dealing.warm_until */
};

/* A member's replica of all shards (plan.topology): see duty/host. */
enum replica_state {
	REPLICA_NONE,
	REPLICA_ASKED, /* it was told to make one, or another to give it a copy */
	REPLICA_READY,
};
/* What each shard of a replica says once. */
enum replica_word {
	REPLICA_HOSTED,
	REPLICA_AGREED,
	REPLICA_HAS,
	REPLICA_PINNED,
	REPLICA_CALM,   /* it is settled, or has the mean of all replicas */
	REPLICA_VIEWED, /* it has the mean of all views */
	REPLICA_KEPT,   /* it has the view of the best evaluation */
	REPLICA_WORDS
};

struct replica {
	enum replica_state state;
	uint32_t attempt;              /* that it was asked for with */
	uint32_t heard[REPLICA_WORDS]; /* shards that have said so */
	uint64_t digest;               /* of the views that it keeps for the evaluation */
	/* host_takeover.c */
	bool outlived;              /* it has a life from before this master ... */
	bool torn;                  /* ... whose shards are not of one round and generation */
	uint32_t stated;            /* shards that have told their state, in order ... */
	uint64_t round, generation; /* ... which is this */
};

struct member {
	bool live;
	bool heard; /* it knows who it is */
	bool idle;  /* the shards of a gate that holds know that it has nothing to do */
	enum appetite appetite;
	uint32_t incarnation, node, boot;
	uint32_t next_at; /* the next one in membership.at_node */
	struct holding held;
	uint64_t steps, samples; /* it has reported since it joined */
	uint64_t own;            /* samples of its own, see duty/deal */
	int64_t asked;           /* when it was last given work, or finished some */
	struct replica replica;
	uint32_t barred_node,
		barred_boot; /* who was removed from this slot as stuck; boot 0: none */
};

/* A place for a cell of a worker whose model is cut into stages, see master_cells.c. */
struct cell_info {
	bool here; /* who has it has asked to join, or is a member's */
	uint32_t node, boot;
	uint32_t next_at; /* the next one in cell_book.at_node */
};

/* All of them.  tw_cells_put alone changes it. */
struct cell_book {
	struct cell_info *cell; /* by slot and cell; NULL: workers have no cells */
	uint32_t *at_node;      /* first places of chains, by node; UINT32_MAX: none */
	uint32_t mask;
	uint32_t *here;         /* by slot: how many of its cells are here */
	struct tw_slots *level; /* slots of which 0, 1, ... cells are here, and one is missing */
	struct tw_member *name; /* room for the cells of one worker */
};

/* Who is in.  `seat` and `unseat` in master_workers.c alone change live, at_node and next_at.
 *
 *  (1) `live` has exactly the slots whose member is live.
 *  (2) a live member is in the chain at_node[node & mask], once. */
struct membership {
	struct tw_slots live;
	uint32_t *at_node; /* first slots of chains, by node; TW_NO_SLOT: none */
	uint32_t mask;
	struct tw_slots barred; /* slots with a barred node */
	uint32_t incarnations;  /* given by this master */
	uint64_t views;         /* number of the last view */
	struct cell_book cells;
};

/* --- servers and shards ----------------------------------------------------------------------- */

enum shard_place {
	SHARD_HOMELESS, /* no server has it */
	SHARD_PENDING,  /* a server is chosen; HOST is to be sent when the cut was read */
	SHARD_ASSIGNED, /* HOST was sent */
	SHARD_HOSTED,
	SHARD_ADOPTED, /* hosted as it was when it outlived a master, or our belief in it */
	SHARD_PLACES
};

struct shard_info {
	enum shard_place place; /* tw_shard_put alone changes it */
	uint32_t node, incarnation;
	bool agreed, counted;
	bool steady;  /* it has said how much was in when nothing was left to deal */
	uint64_t had; /* samples, when the first were dealt; see struct steady */
	struct tw_spans applied, twice;
	uint64_t round;
	struct tw_member *set; /* its last committed set, or (tw_plan_judges) struct tw_judged */
	uint32_t set_count;
	struct tw_tally tally;
	struct tw_block *host; /* what HOST carries, kept to send again */
	uint64_t host_cut;
	uint32_t boot; /* where cells hold shards: of `node` when it was chosen; 0: it is gone */
};

static inline bool tw_shard_has_home(const struct shard_info *i)
{
	return i->place >= SHARD_HOSTED;
}

enum server_state {
	SERVER_AWAY,
	SERVER_HERE,
	SERVER_LEAVING, /* here; it asked to go, and its shards are not elsewhere yet */
};

struct server_info {
	enum server_state state;
	bool left; /* it was told that it may go */
	uint32_t boot;
	uint32_t hosted, stated; /* shards it says it holds; those that have reported */
	uint32_t load;           /* shards that it has or is to have: tw_host_assign counts */
};

/* What was dealt and applied before this generation. */
enum history {
	HISTORY_KNOWN,
	HISTORY_UNKNOWN,     /* the shards that outlived a master say, or the cut does */
	HISTORY_ROLLED_BACK, /* all shards are taken from the cut */
};

/* Shards of a server that leaves go elsewhere, from a cut that nothing followed. */
enum move {
	MOVE_NONE,
	MOVE_DUE,     /* that cut is made */
	MOVE_BEGUN,   /* they have no server now */
	MOVE_PUT_OFF, /* that cut could not be made: not again before TIMER_MOVE */
};

/* Shards [from, to). */
struct shard_range {
	uint32_t from, to;
};

/* The state to resume from.  tw_host_agreed makes the history known, and ends a move. */
struct restart {
	bool resume;              /* the world's clock continues from the cut's: release on time */
	bool begun;               /* training has begun in this generation or an earlier one */
	bool loading, looked;     /* looked: the newest cut's number is known */
	struct shard_range loads, /* whose parts are read with the heads of the newest cut, ... */
		reading;          /* ... and after these */
	enum history history;
	enum move move;
	int64_t release;        /* when training continues; 0: immediately */
	uint64_t generation;    /* see (11) in duty/host/README.md */
	uint64_t current;       /* that workers may know: every shard has agreed to it */
	uint64_t counter, asks; /* of generations and pins; of ASKs */
	uint32_t lacks;         /* that has not agreed */
};

/* What the master waits for (duty/watch).  `paused` follows the number of members; the others
 * are set once. */
struct waits {
	bool servers_due; /* servers had time to come */
	bool patient;     /* servers that are started by hand get cluster.wait to come */
	bool outlived;    /* a process is here that outlived an earlier master */
	bool came;        /* a worker has joined this master, or has told it that it leaves */
	bool lost;        /* a shard was hosted, and its server went */
	bool over;        /* one cluster.wait is over, and training has not begun */
	bool paused;      /* workers are fewer than cluster.min ... */
	int64_t since;    /* ... since then */
};

/* --- dealing ---------------------------------------------------------------------------------- */

/* What is dealt, and who asks (kernel/ledger.h, duty/deal).
 *
 *  (1) hungry, dry and early have exactly the slots of that appetite.
 *  (2) `again`: something came back since the dry ones were looked at; `turns`: ranks changed or
 *      the warm start is over, and so it is for the early ones.
 *  (3) open_leases is the number of all members' leases, open_samples that of their positions.
 *  (4) `frontier` is how many positions were taken at a time, at most. */
/* Of a stream (duty/deal/deal_arrivals.c). */
struct arrivals {
	uint64_t upto;       /* positions below it have arrived, as far as we have looked */
	uint64_t settled_at; /* ... when the stream was last told what is done with */
	uint64_t broken;     /* lines, when that was last said */
	bool settled, ended;
};
struct dealing {
	struct arrivals arrivals;
	uint64_t end; /* of positions; less than the plan's where a stream has ended */
	struct tw_spans taken;
	uint64_t frontier, open_leases, open_samples;
	struct tw_slots hungry, dry, early;
	uint32_t allowed; /* workers whose turn it was when somebody was last served */
	bool again, turns;
};

/* The round that is open, of a gate that has them (duty/round); of a batch method, the evaluation.
 * `number` of them were opened before. */
struct rounds {
	uint64_t number;
	bool open;
};

/* All replicas, where the plan has them.
 *
 *  (1) `ready` is the number of live members whose replica is READY; the replica of one who is not
 *      live is NONE.
 *  (2) full[w] is the number of live members all of whose shards have said w. */
struct replicas {
	uint32_t ready, full[REPLICA_WORDS];
	uint64_t *bits;   /* by slot, word and shard: who has said what */
	uint32_t words;   /* of 64 shards */
	uint32_t attempt; /* numbers of formations and copies given by this master */
	bool torn;        /* they differ, and somebody has gone since the generation began */
};

/* --- cuts ------------------------------------------------------------------------------------- */

/* What others than duty/checkpoint need to know of checkpoints. */
struct cuts {
	uint64_t last;    /* last complete one */
	uint32_t owed;    /* shards whose part of the one under way is not here */
	bool was_paused;  /* workers or shards were missing since the drained one before */
	int64_t draining; /* since when nobody gets work, for what follows a drain */
};

/* --- the end --------------------------------------------------------------------------------- */

/* What happened, as far as the master knows.  A cut restores redealt, dropped, refused and
 * lost_copies; steps and samples are the shards' when a generation is agreed on. */
struct counts {
	uint64_t steps, samples; /* applied */
	uint64_t redealt, dropped, refused;
	uint64_t lost_copies; /* own parameters that died with a worker */
	double loss_sum;
	uint64_t loss_samples;
	double train_loss;
};

/* How long work takes, for duty/watch. */
struct paces {
	struct tw_pace work, score; /* of everybody's work, and of chunks of evaluations */
	int64_t earliest;           /* nobody can be late before: see its README.md */
};

struct master {
	const struct tw_plan *plan;
	struct tw_heap *heap;
	enum phase phase;
	int64_t since; /* the phase, or the wait in it, began */
	struct restart restart;
	struct waits waits;
	uint32_t wish;         /* bits: enum tw_wish */
	struct member *member; /* by slot */
	struct membership members;
	struct shard_info *shard;
	uint32_t places[SHARD_PLACES];  /* shards in each place */
	struct server_info *server;     /* by server number (node - 1) */
	const struct tw_dealer *dealer; /* kernel/dealer.h */
	struct dealing dealing;
	struct rounds rounds;
	struct replicas replicas;
	struct cuts cuts;
	struct checkpoint_master *checkpoint; /* duty/checkpoint */
	struct eval_master *eval;             /* duty/eval */
	struct figures_master *figures;       /* duty/figures */
	struct batch_master *batch;           /* duty/batch; NULL: no batch method drives the run */
	struct mix_master *mix;               /* duty/mix; NULL: replicas do not differ */
	struct host_master *host;             /* duty/host */
	struct verdict_master *verdict;       /* duty/verdict; NULL: the master does not judge */
	struct deal_master *deal;             /* duty/deal */
	struct round_master *round;           /* duty/round; NULL: there are no rounds */
	struct finish_master *finish;         /* duty/finish */
	struct online_master *online;         /* duty/online; NULL: the run is not online */
	struct samples_master *samples;       /* duty/samples; NULL: workers have all samples */
	struct tw_duties duties;
	struct counts count;
	struct paces pace;
	struct watch_master *watch; /* duty/watch */
};

static inline void tw_shard_put(struct master *m, struct shard_info *i, enum shard_place place)
{
	m->places[i->place]--;
	m->places[place]++;
	i->place = place;
}

/* Shards that some node has, or HOST was sent for. */
static inline uint32_t tw_master_assigned(const struct master *m)
{
	return m->places[SHARD_ASSIGNED] + m->places[SHARD_HOSTED] + m->places[SHARD_ADOPTED];
}

/* Members that are in. */
static inline uint32_t tw_master_live(const struct master *m)
{
	return m->members.live.members;
}

static inline bool tw_master_has_replicas(const struct master *m)
{
	return tw_plan_has_peers(m->plan);
}

static inline bool tw_master_rounds(const struct master *m)
{
	return m->plan->gate->traits & TW_GATE_ROUNDS;
}

/* Do all shards go on from one state, whatever is lost? */
static inline bool tw_master_is_one(const struct master *m)
{
	return tw_master_rounds(m) || tw_master_has_replicas(m) || tw_plan_is_with_stage(m->plan);
}

/* Between a drained cut and its release nothing may take virtual time: a slow or lossy link would
 * put the release off in the run that was not stopped, and not in the one that resumes here. */
static inline uint32_t tw_master_untimed(const struct master *m)
{
	return m->restart.release ? TW_FLAG_FREE : 0;
}

#endif
