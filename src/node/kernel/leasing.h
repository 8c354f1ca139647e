/* SPDX-License-Identifier: Apache-2.0 */
/* leasing.h - the seat of the dealer at a worker: how leases follow each other.
 *
 * There is one holder per plan, chosen when the worker opens: leases of a stream, of rounds
 * (worker_lease.c) or portions of an evaluation (duty/batch). */
#ifndef TW_NODE_KERNEL_LEASING_H
#define TW_NODE_KERNEL_LEASING_H

#include "actor/cluster.h"

struct worker;

struct tw_leasing {
	const char *name;
	/* A lease comes: let go those that it replaces.  True: it is held already, by another
	 * number, and is not to be held twice.  NULL: it replaces nothing. */
	bool (*replaces)(struct worker *w, struct tw_context *ctx, const struct tw_body_lease *b);
	bool gapless; /* numbers follow each other: one after a gap waits until it is sent again */
	bool closes;  /* a lease is done when shards have closed its contributions, and the next one
			 is asked for before that; else it ends with its round */
	bool fetches; /* a push may ask for the parameters after it */
};

#endif
