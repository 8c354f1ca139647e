/* SPDX-License-Identifier: Apache-2.0 */
/* shard_clocks.h - how far each worker is, which is the slowest, and who is active: for gates that
 * hold, and for gates that wait for every active worker.
 *
 *  (1) a worker is active while it is here, is not idle and its clock is known.
 *  (2) `seen` has the number of active workers, the smallest of their clocks, and the lowest slot
 *      among those that stand there.  Without an active worker `least` says nothing.
 *  (3) one call changes one worker and takes time that grows with the logarithm of the number of
 *      workers; only tw_clocks_reset and tw_clocks_all_busy look at all of them.
 *  (4) a worker that becomes active is not behind `least`: it starts there.
 *  (5) `rose` is set when a request may be answered now that was held before: the least clock grew,
 *      or no worker is active any more.  The reader clears it. */
#ifndef TW_NODE_SHARD_SHARD_CLOCKS_H
#define TW_NODE_SHARD_SHARD_CLOCKS_H

#include "base/heap.h"
#include "strategy/gate.h"

/* How a shard knows a worker's clock: not at all, from others' clocks, or from its own word. */
enum clock_from { CLOCK_UNKNOWN, CLOCK_GUESSED, CLOCK_SAID };

struct shard_clock {
	uint64_t at;
	uint32_t place; /* in the heap, from 1; 0: not active */
	uint8_t from;   /* enum clock_from */
	bool idle;
};

struct shard_clocks {
	struct tw_clocks seen;
	struct shard_clock *of; /* by slot */
	uint32_t *heap; /* active slots, the least (clock, slot) first; heap[0] is not used */
	uint32_t slots;
	bool rose;
};

/* No worker is known.  TW_NO_MEMORY: nothing to release. */
enum tw_status tw_clocks_init(struct shard_clocks *c, struct tw_heap *heap, uint32_t slots);
void tw_clocks_release(struct shard_clocks *c, struct tw_heap *heap);
/* A new generation: no clock is known, no worker is active. */
void tw_clocks_reset(struct shard_clocks *c);

/* The worker says its clock; TW_CLOCK_MOST and more: it does not know.  An older word than its last
 * changes nothing. */
void tw_clocks_say(struct shard_clocks *c, uint32_t slot, uint64_t at, bool here);
/* The clock of this worker is unknown: it is taken to be that of the slowest. */
void tw_clocks_guess(struct shard_clocks *c, uint32_t slot);
/* Another worker has this slot now.  It counts as before until tw_clocks_see. */
void tw_clocks_forget(struct shard_clocks *c, uint32_t slot);
/* What (1) needs to know may have changed. */
void tw_clocks_see(struct shard_clocks *c, uint32_t slot, bool here);
/* No worker is idle; tw_clocks_see decides (1) for each. */
void tw_clocks_all_busy(struct shard_clocks *c);

#endif
