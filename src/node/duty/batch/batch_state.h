/* SPDX-License-Identifier: Apache-2.0 */
/* batch_state.h - what the master knows of the iteration, and of the evaluation under way. */
#ifndef TW_NODE_DUTY_BATCH_BATCH_STATE_H
#define TW_NODE_DUTY_BATCH_BATCH_STATE_H

#include "node/kernel/ledger.h"
#include "node/master/master_state.h"

/* A portion of an evaluation; holder[1] has a backup task.  (4) of README.md. */
struct portion {
	uint32_t holder[2]; /* slots; UINT32_MAX: nobody */
	uint32_t before, after;
	bool listed, done;
};
struct portions {
	struct portion *at;
	uint32_t count, done;
	uint32_t low;         /* the first that is not done */
	uint32_t first, last; /* out with one worker, in the order in which they were dealt */
	uint64_t backups;
};

enum batch_state {
	BATCH_RESTS,     /* at a point that was accepted */
	BATCH_COMMANDS,  /* shards carry out a list */
	BATCH_EVALUATES, /* workers evaluate */
};

/* `left` shards have not answered list `number`. */
struct batch_master {
	enum batch_state state;
	struct tw_descent descent;
	void *own; /* state of the method */
	size_t own_bytes;
	uint64_t number, batch; /* of the last list; of the batch that is evaluated */
	struct tw_commands list;
	double *result; /* by shard: list.room of each */
	double *sum;    /* over shards */
	bool *answered; /* by shard */
	uint32_t left;
	struct portions portions;
};

/* batch_portions.c: the evaluation under way */
enum tw_status tw_batch_portions_init(struct master *m);
void tw_batch_portions_release(struct master *m);
void tw_batch_portions_forget(struct master *m);
void tw_batch_portions_open(struct master *m);
bool tw_batch_portions_complete(const struct master *m);
void tw_batch_portions_serve(struct master *m, struct tw_context *ctx);
/* A worker reports the lease that begins at this position done. */
void tw_batch_portions_done(struct master *m, struct tw_context *ctx, uint32_t slot, uint64_t from);
/* A worker goes: what somebody else computes as well is not given back. */
void tw_batch_portions_left(struct master *m, struct tw_context *ctx, uint32_t slot);

#endif
