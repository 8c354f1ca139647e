/* SPDX-License-Identifier: Apache-2.0 */
/* phase.h - what the run is to stop for, and when it may.
 *
 *  (1) a wish is a bit.  Those in m->wish are set, and taken back, by whoever has it; MOVE and
 *      EQUALISE follow from what servers and replicas do, and are not kept.
 *  (2) while there is a wish, no dealer begins anything new.  At the dealer's border, and when
 *      nothing is left to deal, the run drains.
 *  (3) it is drained when no lease is open and the dealer is at its border.  Then the first that
 *      wants it goes on: the list is in master_phases.c. */
#ifndef TW_NODE_KERNEL_PHASE_H
#define TW_NODE_KERNEL_PHASE_H

#include "node/master/master_state.h"

enum tw_wish {
	TW_WISH_CHECKPOINT = 1, /* one is due */
	TW_WISH_STOP = 2,       /* stop at a checkpoint */
	TW_WISH_TIME = 4,       /* the time of the run is up */
	TW_WISH_GOAL = 8,       /* an evaluation has reached train.until */
	TW_WISH_METHOD = 16,    /* the batch method that drives the run has ended */
	TW_WISH_MOVE = 32,      /* shards of a server that leaves are to go elsewhere */
	TW_WISH_EQUALISE = 64,  /* replicas are to be equal, because somebody joins or has gone */
};
#define TW_WISH_END (TW_WISH_TIME | TW_WISH_GOAL | TW_WISH_METHOD)

static inline void tw_wish_put(struct master *m, enum tw_wish what, bool is)
{
	m->wish = is ? m->wish | what : m->wish & ~(uint32_t)what;
}
static inline bool tw_wishes(const struct master *m, uint32_t any)
{
	return m->wish & any;
}
/* All of them, with those that are not kept. */
uint32_t tw_phase_wishes(const struct master *m);
/* (2) May a dealer begin something new? */
bool tw_phase_goes_on(const struct master *m);
/* May everybody pause here, as far as the dealer is concerned? */
bool tw_phase_at_border(const struct master *m);
/* (3) */
bool tw_phase_is_drained(const struct master *m);

#endif
