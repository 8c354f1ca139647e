/* SPDX-License-Identifier: Apache-2.0 */
/* last_good_checkpoint.h - the checkpoint from which a diverged run can resume. */
#ifndef TW_CHECKPOINT_LAST_GOOD_CHECKPOINT_H
#define TW_CHECKPOINT_LAST_GOOD_CHECKPOINT_H

#include "actor/engine.h"
#include "base/heap.h"
#include "base/machine/log.h"

/* Evaluate the checkpoints under `dir`, the newest first.  A good one has a loss on the test set
 * that is finite and not above that of the initial weights.  Those before a good one are trusted;
 * those after it lose their name (ckpt-<n>.refused), so that none of them is taken for the newest.
 * *cut: the good one, 0: none.  Where nothing can be evaluated, none is good.  TW_IO, TW_NO_MEMORY:
 * one cannot be read now, and keeps its name.  The caller holds the directory's lock. */
enum tw_status tw_last_good_checkpoint(const char *dir, const struct tw_engine *engine,
				       const struct tw_log *log, uint64_t *cut);

#endif
