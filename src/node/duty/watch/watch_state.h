/* SPDX-License-Identifier: Apache-2.0 */
/* watch_state.h - what the master knows of those whom others wait for, for the files of this
 * folder. The numbers in brackets are those of README.md. */
#ifndef TW_NODE_DUTY_WATCH_WATCH_STATE_H
#define TW_NODE_DUTY_WATCH_WATCH_STATE_H

#include "node/duty/watch/watch.h"
#include "node/master/master.h"

/* Who holds up the others, as shards say.  See watch_stalled.c. */
struct stalled {
	uint32_t *whom;     /* by slot: for whom its replica waits; STALLED_* below ... */
	uint32_t *depth;    /* ... and how many others that one waits for first */
	uint32_t *votes;    /* by slot: servers' shards that wait for it; else room to count */
	uint64_t *applied;  /* by shard: contributions, as a server's shard says */
	uint32_t questions; /* asked about anything but a formation */
	uint32_t attempt;   /* of the last question: the formation, or its number */
	uint64_t round;     /* the answers are about these two */
	int64_t first;      /* when the first one said that it waits for somebody; 0: nobody has */
	bool asked;
	uint32_t left; /* shards that have not answered ... */
	int64_t at;    /* ... since it was asked */
};
#define STALLED_SILENT UINT32_MAX       /* it has not answered */
#define STALLED_NOBODY (UINT32_MAX - 1) /* it waits for nobody */

struct watch_master {
	int64_t checked, awake_since; /* (5) */
	enum phase phase;             /* that pace.earliest was found in (8) */
	struct stalled stalled;
	uint64_t stamp, pause_stamp;           /* what had been done (14) ... */
	int64_t moved, looked;                 /* ... at this time; when it was last looked at */
	uint32_t doubts;                       /* how often shards were asked since then */
	bool counting_workers, counting_homes; /* TIMER_PAUSE, TIMER_HOMELESS are set (1) */
};

/* --- watch_waiting.c -------------------------------------------------------------------------- */

/* Is the master waiting for this member? */
bool tw_watch_waits_for(const struct master *m, uint32_t slot);
/* Does it still compute what is over for all others? */
static inline bool tw_watch_is_behind(const struct master *m, uint32_t slot)
{
	return m->dealer->is_behind && m->dealer->is_behind(m, slot);
}
/* What this shard is waited for in this phase; NULL: nothing. */
const char *tw_watch_shard_owes(const struct master *m, uint32_t shard);
/* Who of this worker: itself, or, where it has cells, the one that the others wait for. */
struct tw_addr tw_watch_holds_up(const struct master *m, uint32_t slot);

/* --- watch_stuck.c ---------------------------------------------------------------------------- */

/* How long one may wait for work of this member: cluster.stuck, or ten times the median of what
 * others took for as many samples, if that is longer.  INT64_MAX: nobody has finished any. */
int64_t tw_watch_patience(const struct master *m, uint32_t slot);
/* The same for what it is doing in this phase: in an evaluation it may have a step to finish first,
 * and then a chunk to score. */
int64_t tw_watch_allowed(const struct master *m, uint32_t slot);
/* Name this member and remove it, or its cell at this node: others have waited for it for so long.
 */
void tw_watch_expel(struct master *m, struct tw_context *ctx, uint32_t slot, struct tw_addr who,
		    int64_t waited);
/* Time in which the master itself stood still does not count. */
void tw_watch_awake(struct master *m, struct tw_context *ctx);
/* Remove members that others have waited for too long. */
void tw_watch_check_stuck(struct master *m, struct tw_context *ctx);

/* --- watch_stalled.c -------------------------------------------------------------------------- */

enum tw_status tw_watch_stalled_open(struct master *m);
void tw_watch_stalled_close(struct master *m);
/* Whom does a shard wait for?  The answer to a question. */
void tw_watch_stalled_hear(struct master *m, struct tw_context *ctx, const struct tw_msg *msg);
/* A look at the round of replicas: ask, or remove who holds it up. */
void tw_watch_check_stalled(struct master *m, struct tw_context *ctx);
/* Outside of such rounds: ask all shards for whom they wait, and whether anything is applied. */
void tw_watch_stalled_ask(struct master *m, struct tw_context *ctx);
/* Where nobody has finished a lease or a round: who waits for another one has finished its step.
 * How long that other one, which was asked at `since`, may be waited for.  INT64_MAX: nobody says
 * that it waits. */
int64_t tw_watch_stalled_patience(const struct master *m, int64_t since);
/* Whom the answers to that lead to; TW_NO_SLOT: to nobody. */
uint32_t tw_watch_stalled_culprit(struct master *m);

/* --- watch_standstill.c ----------------------------------------------------------------------- */

/* If nothing has moved for too long, remove whom the run waits for. */
void tw_watch_check_standstill(struct master *m, struct tw_context *ctx);

#endif
