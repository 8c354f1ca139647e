/* SPDX-License-Identifier: Apache-2.0 */
/* deal_state.h - what the master knows of subsets and of speeds, for the files of this folder. */
#ifndef TW_NODE_DUTY_DEAL_DEAL_STATE_H
#define TW_NODE_DUTY_DEAL_DEAL_STATE_H

#include "node/quantile.h"
#include "node/duty/deal/deal.h"
#include "node/master/master.h"

/* How fast a worker computes: samples and nanoseconds, what was earlier counting less; and how many
 * steps between two pushes it was ever told to take (0: none). */
struct speed {
	double samples, busy;
	uint32_t least, most;
};

/* Subsets of slots without a worker, and how far each subset is dealt. (deal_subsets.c). */
struct orphans {
	uint64_t *next;         /* by slot */
	uint32_t *heap, *place; /* of slots without a worker; by slot */
	uint32_t count;
	uint64_t *lost; /* by slot: see (8) of README.md; NULL: samples are not own */
	struct passed passed;
};

struct deal_master {
	struct orphans orphans;
	struct speed *speed;       /* by slot; NULL: plan.traffic.adaptive does not ask for it */
	struct tw_quantile speeds; /* of the live members whose speed is known */
};

/* --- deal_next.c ---------------------------------------------------------------------------- */

/* How many workers may work now: in a warm start not all of them. */
uint32_t tw_deal_allowed(const struct master *m);

/* --- deal_arrivals.c ------------------------------------------------------------------------ */

/* Of a range that ends where the stream is now, whole pushes; false: there is none. */
bool tw_deal_whole(const struct master *m, uint64_t unit, struct tw_span *r);

/* --- deal_leases.c -------------------------------------------------------------------------- */

/* DONE: a lease is done, or given back. */
void tw_deal_done(struct master *m, struct tw_context *ctx, const struct tw_msg *msg);
/* Nobody gets more work: whoever has none is not to be waited for. */
void tw_deal_no_more(struct master *m, struct tw_context *ctx);

/* --- deal_speeds.c -------------------------------------------------------------------------- */

enum tw_status tw_speeds_open(struct master *m);
void tw_speeds_close(struct master *m);
/* A member computed so many samples in so many nanoseconds. */
void tw_speed_told(struct master *m, uint32_t slot, uint64_t samples, uint64_t busy);
/* The member is in, or out; one who is out has no speed that counts. */
void tw_speed_seat(struct master *m, uint32_t slot, bool in);
/* The most pushes that a lease of this member should last: its speed, and with it the next period,
 * is heard of when it is done. */
uint64_t tw_speed_units(const struct master *m, uint32_t slot);
/* Steps between two pushes of this member. */
uint32_t tw_speed_period(const struct master *m, uint32_t slot);

/* --- deal_subsets.c: with data.deal, else these do nothing ------------------------------------ */

enum tw_status tw_orphans_open(struct master *m);
void tw_orphans_close(struct master *m);
/* This slot has a worker now, or has none any more. */
void tw_orphans_seat(struct master *m, uint32_t slot, bool live);
/* The next free range below `end` for this worker, in one cell. */
bool tw_orphans_next_range(struct master *m, uint32_t slot, uint64_t end, uint64_t most,
			   struct tw_span *out);
/* May a worker that was told that there is nothing for it get something now? */
bool tw_orphans_may_help(struct master *m);

#endif
