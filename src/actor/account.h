/* SPDX-License-Identifier: Apache-2.0 */
/* account.h - what a contribution says of itself: the whole contribution, not one slice of it.
 *
 * It is filled while the contribution is built, travels in PUSH, SPREAD and REDUCE as these bytes,
 * and is added to the tally of every shard that applies it. */
#ifndef TW_ACTOR_ACCOUNT_H
#define TW_ACTOR_ACCOUNT_H

#include <stdint.h>

struct tw_account {
	double loss;                 /* sum of the samples' losses */
	uint32_t steps, samples;     /* in it */
	uint32_t own_steps, skipped; /* send: delta: own steps in it, gradients left out because
					they were not finite */
	float weight, divide; /* how much it counts among others; vector / divide is the mean */
	float drift;          /* send: delta: norm of the worker's parameters - the centre; a sum */
	float residual; /* norm of what its codec owes after it; of one contribution, sums have none
			 */
};
_Static_assert(sizeof(struct tw_account) == 40, "account");

/* `to` becomes that of both, whose vectors are added as shares of their means. */
static inline void tw_account_add(struct tw_account *to, const struct tw_account *a)
{
	to->loss += a->loss;
	to->steps += a->steps;
	to->samples += a->samples;
	to->own_steps += a->own_steps;
	to->skipped += a->skipped;
	to->drift += a->drift;
	to->weight += a->weight;
	to->divide = to->weight;
}

#endif
