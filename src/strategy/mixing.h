/* SPDX-License-Identifier: Apache-2.0 */
/* mixing.h - how replicas that differ stay close to each other.
 *
 * Every worker has a replica of all parameters, as in an all-reduce (reduction.h), but replicas
 * are not equal at all times.  A mixing says what passes between them:
 *
 *	SPREADS    a contribution goes to all replicas, and each applies it when it comes; else only
 *	           the replica of its own worker applies it, and the others count it
 *	partner    two replicas take the mean of their parameters now and then
 *	round      in every round a replica takes a mean with its neighbours
 *
 *  (1) functions are pure: they depend on their arguments alone, and cannot fail.
 *  (2) who answers never asks: if partner() names nobody for a rank, it names nobody for any
 *      number, and partners are ranks of that kind.  So no two replicas wait for each other.
 *  (3) the lists of `round` send and receive as those of a reduction do, but without TAKE and GIVE:
 *      what a replica has at the end is a sum of parameters, and the mean of it is its next
 *      version.  With i in the sum of k, k is in the sum of i, and all sums have the same length:
 *      so the mean of all replicas stays what it is. */
#ifndef TW_STRATEGY_MIXING_H
#define TW_STRATEGY_MIXING_H

#include "base/rng.h"
#include "strategy/reduction.h"

enum tw_mixing_trait {
	TW_MIXING_SPREADS = 1,
};

struct tw_mixing {
	TW_VARIANT;
	/* The rank that this one averages with in its exchange `number`; `peers`: it only answers.
	 * NULL: there are no such exchanges. */
	uint32_t (*partner)(const struct tw_rng *rng, uint32_t peers, uint32_t rank,
			    uint64_t number);
	const struct tw_reduction *round; /* NULL: there are no rounds */
	/* Bytes that a worker sends, and others receive, for one contribution: `vector` of the
	 * parameters, `message` of the contribution as it travels. */
	double (*bytes)(uint32_t peers, double vector, double message);
};

TW_REGISTRY(mixing, tw_mixing);

#endif
