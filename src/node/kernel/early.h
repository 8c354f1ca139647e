/* SPDX-License-Identifier: Apache-2.0 */
/* early.h - what the door of an actor says of a message, and messages that come too early.
 *
 * A message belongs to an identity, a generation, a formation or a stream.  The news of these comes
 * from the master, and the message from somebody else, over another connection: either may be
 * first.  The door answers NOW, VOID (what it belongs to is over, or never was) or EARLY (what it
 * belongs to is yet to come).
 *
 *  (1) who comes early waits, in the order of arrival, until it is looked at again.
 *  (2) one node has at most `each` messages waiting, so nobody takes up the room of the others, and
 *      all together have at most that many for each node there is.  `each` is more than an honest
 *      node can have said before it needs an answer.
 *  (3) what does not fit is let go, and `lost` says so until all that waited was looked at: who
 *      hears the news has to ask for it again. */
#ifndef TW_NODE_KERNEL_EARLY_H
#define TW_NODE_KERNEL_EARLY_H

#include "actor/cluster.h"

enum tw_door {
	TW_DOOR_NOW,
	TW_DOOR_VOID,
	TW_DOOR_EARLY,
};

struct tw_early {
	struct tw_msg *first, *last; /* own copies, which refer to the same blocks */
	uint16_t *held;              /* by node, modulo `nodes`; NULL: nobody has come early yet */
	uint32_t count, each, nodes;
	bool lost;
};

/* Nobody waits.  There are about so many nodes: those with the same number modulo that share what
 * one of them may have. */
void tw_early_init(struct tw_early *q, uint32_t nodes, uint32_t each);
/* Nobody waits any more; what was allocated is given back. */
void tw_early_forget(struct tw_early *q, struct tw_heap *heap);
/* (2), (3).  False: it was let go. */
bool tw_early_keep(struct tw_early *q, struct tw_heap *heap, const struct tw_msg *m);
/* Something has changed: those that are not early any more are heard, or are void. */
void tw_early_hear(struct tw_early *q, struct tw_heap *heap, void *actor, struct tw_context *ctx,
		   enum tw_door (*door)(const void *actor, const struct tw_msg *m),
		   void (*hear)(void *actor, struct tw_context *ctx, const struct tw_msg *m));

#endif
