/* SPDX-License-Identifier: Apache-2.0 */
/* well_formed.h - what no actor of a job can have said, whatever has become of it. */
#ifndef TW_NODE_WELL_FORMED_H
#define TW_NODE_WELL_FORMED_H

#include "node/plan.h"

/* Every actor asks this of every message before it looks at its own state, and leaves one alone
 * that is not: lengths fit to what is counted, slots, shards, cells and nodes exist, enumerations
 * and truths are what they can be, ranges are in order, numbers of a master are not of one that
 * comes after it.  What only the state of the actor tells, handlers check; so they do with what is
 * counted against its sender: PUSH, SPREAD, REDUCE and MIX, and what cells say to each other. */
bool tw_well_formed(const struct tw_plan *p, const struct tw_msg *m);

#endif
