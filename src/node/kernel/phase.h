/* SPDX-License-Identifier: Apache-2.0 */
/* phase.h - what the run is to stop for. */
#ifndef TW_NODE_KERNEL_PHASE_H
#define TW_NODE_KERNEL_PHASE_H

#include "node/master/master_state.h"

/* Is a cut due, so that the shards of a server that leaves can go elsewhere? */
bool tw_master_must_move(const struct master *m);

#endif
