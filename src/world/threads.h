/* SPDX-License-Identifier: Apache-2.0 */
/* threads.h - the world of one process: a compute thread per worker, passive shards.
 *
 * A worker's own thread enters the master and the shards it talks to, under their locks, on memory
 * in place; where a lock is taken the message is left in the actor's mailbox, whose holder empties
 * it before it lets go; threads that wait for an answer help with mailboxes that nobody empties.
 * The caller's thread is the housekeeper: it enters actors for timers and says who waits for whom;
 * one more thread talks to the store, so that a slow disk stops neither training nor timers. */
#ifndef TW_WORLD_THREADS_H
#define TW_WORLD_THREADS_H

#include "actor/cluster.h"

struct tw_threads_options {
	bool hash; /* check hashes although nothing crosses a wire (tests); not with lockfree */
	/* PUSH and PULL from a worker to an actor whose class has `shared` enter it without its
	 * lock, many at a time; there it may send, note, log and finish, and nothing else. */
	bool lockfree;
};

/* Run the cluster until its master finishes.  The return value is ran->error.status.  `options`
 * may be NULL.  A cluster that cannot run (no master, two seats at one address, a node beyond
 * `nodes`) is TW_BAD_INPUT. */
enum tw_status tw_threads_run(const struct tw_cluster *cluster,
			      const struct tw_threads_options *options, struct tw_ran *ran);

#endif
