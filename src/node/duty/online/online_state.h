/* SPDX-License-Identifier: Apache-2.0 */
/* online_state.h - what the master knows of predictions. */
#ifndef TW_NODE_DUTY_ONLINE_ONLINE_STATE_H
#define TW_NODE_DUTY_ONLINE_ONLINE_STATE_H

#include "node/master/master_state.h"

/* Sums over samples. */
struct online_sum {
	uint64_t samples;
	double loss, correct;
};

/* One score as a worker told it: the window is a ring of them. */
struct online_entry {
	double loss, correct;
	uint64_t samples;
};

struct online_master {
	struct tw_spans settled;      /* positions that are scored, or never will be (1) */
	struct online_sum all, since; /* since: the last report; while there is none since: */
	struct online_sum last;       /* ... what that one was of */
	uint64_t next;                /* count at which the next doubling report is due */
	bool judged;                  /* predictions can be right or wrong */
	struct online_entry *entry;   /* the ring: from `first`, `entries` of `room` */
	size_t first, entries, room;
	uint64_t windowed; /* samples in it */
};

#endif
