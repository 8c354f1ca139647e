/* SPDX-License-Identifier: Apache-2.0 */
/* stages.h - which cuts make the stages of a model: those that somebody names, or those that make
 * its stages equally expensive. */
#ifndef TW_ENGINE_STAGES_H
#define TW_ENGINE_STAGES_H

#include "actor/engine.h"
#include "base/heap.h"

/* The cuts after `count` layers as people count them ("3", "4.2", "10.shortcut.1"), which must be
 * in order: cut[0..count).  TW_BAD_INPUT: *why says without place what is wrong, and after which
 * layers near it the model can be cut. */
enum tw_status tw_stages_find(const struct tw_engine *e, const char *const *after, size_t count,
			      uint32_t *cut, struct tw_error *why);

/* What `auto` chooses by.  Part k is the model between cuts k and k + 1; parts = cuts - 1. */
struct tw_stage_costs {
	const double *compute; /* of each part, at least 0 */
	const double *cross;   /* of each cut 0..parts, added to both of its stages; NULL: nothing.
				  Those of the first and the last are not looked at */
	const bool *counts; /* every stage has at least one part for which this is true; NULL: any
			       part will do */
	size_t parts;
	const uint32_t *lanes; /* of each stage, that share its cost; NULL: one each */
	const double *speed;   /* of the slowest of them; NULL: 1 */
};
/* Cut parts into `stages` runs so that the dearest costs least for each of its lanes; of several
 * such ways the one whose cuts are cheapest to cross in sum, then the one whose first cut is
 * earliest, and so on.  Writes stages - 1 cuts, each from 1 to parts - 1, ascending.  Pure: the
 * same costs give the same cuts.  TW_ABSENT: there are not so many stages in it.  TW_NO_MEMORY. */
enum tw_status tw_stages_balance(struct tw_heap *heap, const struct tw_stage_costs *costs,
				 uint32_t stages, uint32_t *cut);
/* Costs by operations, per sample: compute and counts (has parameters) of an engine's cuts - 1
 * parts, and what crosses its cuts, where moving a float forward or back counts as 20 operations:
 * that is what a core does in the time in which it moves one through memory. */
void tw_stages_flops(const struct tw_engine *e, double *compute, double *cross, bool *counts);

#endif
