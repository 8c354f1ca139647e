/* SPDX-License-Identifier: Apache-2.0 */
/* dealer.h - the seat of the one who deals: which samples a worker gets, and when.
 *
 * There is one holder per plan: the stream of leases (duty/deal), rounds (duty/round) or a
 * batch method (duty/batch).  It is chosen when the master opens; nobody asks the plan again.  What
 * is dealt, open and done is in the ledger, whoever deals.  NULL: nothing is to be done, or what
 * the comment says. */
#ifndef TW_NODE_KERNEL_DEALER_H
#define TW_NODE_KERNEL_DEALER_H

#include "actor/cluster.h"

struct master;

struct tw_dealer {
	const char *name;
	/* Give work to those who ask, and do whatever follows from what came home.  Called whenever
	 * something may have changed, while the run trains or drains. */
	void (*deal)(struct master *m, struct tw_context *ctx);
	/* May everybody pause here?  NULL: at any time. */
	bool (*border)(const struct master *m);
	/* The run is to stop.  Why it cannot get to a border, as a sentence; NULL: it can. */
	const char *(*strands)(const struct master *m);
	/* Nobody gets more work: what is held is to come home.  NULL: it does so by itself. */
	void (*recall)(struct master *m, struct tw_context *ctx);
	/* These positions are to be dealt again. */
	void (*came_back)(struct master *m, uint64_t from, uint64_t to);
	/* The lease of this member that began at this position is done, and closed. */
	void (*done)(struct master *m, struct tw_context *ctx, uint32_t slot, uint64_t from);
	/* This member asks for work, or does not any more (its appetite has changed). */
	void (*appetite)(struct master *m, uint32_t slot);
	/* It asked for work when it had heard of this lease: is one on its way that it has by now?
	 * Then it asks again after that. */
	bool (*crossed)(const struct master *m, uint32_t slot, uint32_t lease);
	/* This member goes; its leases are given back after this. */
	void (*left)(struct master *m, struct tw_context *ctx, uint32_t slot);
	/* A new generation begins: whatever this slot has, beside leases, is dealt again. */
	void (*undo)(struct master *m, struct tw_context *ctx, uint32_t slot);
	/* Its connection was made anew: say again, beside leases, what it may not have heard. */
	void (*resend)(struct master *m, struct tw_context *ctx, uint32_t slot);
	/* What a lease says of its steps (struct tw_body_lease: period). */
	uint32_t (*period)(struct master *m, uint32_t slot);
	/* Updates of the run so far, as people count them.  NULL: the shards count them. */
	double (*updates)(const struct master *m);
	/* Does an evaluation of this run have that number, too?  Else that of its views. */
	bool labels;
	/* Others, or the run, wait for the work of this member, while the run trains. */
	bool (*waits)(const struct master *m, uint32_t slot);
	/* ... and yet it may be somebody else's fault.  NULL: it never is. */
	bool (*excuses)(const struct master *m, uint32_t slot);
	/* Can anybody be waited for now?  NULL: always. */
	bool (*may_wait)(const struct master *m);
	/* The samples that a member works on; 0: on nothing.  NULL: those of its first lease. */
	uint64_t (*works_on)(const struct master *m, uint32_t slot);
	/* Of what it works on, in how many shards is its contribution?  UINT32_MAX: in all, or it
	 * works on nothing.  NULL: nobody knows. */
	uint32_t (*reached)(const struct master *m, uint32_t slot);
	/* Does it still compute what is over for all others?  NULL: nobody does. */
	bool (*is_behind)(const struct master *m, uint32_t slot);
	/* Is anything dealt of the round after this one?  NULL: it is not. */
	bool (*is_ahead)(const struct master *m);
	/* A number that changes when something is done.  NULL: what is done is a lease. */
	uint64_t (*progress)(const struct master *m);
	/* What a member is waited for, in words; NULL, here and there: its lease, or its score. */
	const char *(*work)(const struct master *m, uint32_t slot);
	/* What this shard is waited for while the run trains.  NULL: nothing. */
	const char *(*owes)(const struct master *m, uint32_t shard);
	bool renumbers; /* a lease that is sent again gets a new number: the old one is void */
	bool forgets;   /* what it was about to do dies with its master: begin at a checkpoint */
};

#endif
