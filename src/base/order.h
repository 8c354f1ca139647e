/* SPDX-License-Identifier: Apache-2.0 */
/* order.h - which sample stands at a position of the endless row of shuffled epochs, and whose it
 * is where the samples are divided among the slots of workers.
 *
 * Position p is place p % samples of epoch p / samples.  Without subsets each epoch is a
 * permutation of its own of all samples.  With subsets, each has a fixed part of the samples, as
 * equal in size as possible, and an epoch is a permutation of every part.  Its places are rows of
 * *cells*: `unit` places for subset 0, then `unit` for subset 1, and so on; the last row has what
 * is left, again in equal parts.  So every beginning of the row of epochs has almost as much of one
 * subset as of another.
 *
 * With a `block`, a permutation of many samples is one of their blocks, which are ranges of `block`
 * samples as they are stored, and then one within each block.  So whoever reads a part of the
 * places in a row reads a few ranges.  Samples behind the last full block are a shorter one, which
 * is the last of every epoch: so places of one block begin at multiples of `block`.
 *
 * Samples that are *stored* in the order in which they are wanted stand there in every epoch.
 *
 * Subsets that are *own* are of nobody else's samples: each has room for a part of the places, and
 * whoever has the slot has so many samples, numbered from 0, or fewer.  Places behind its last
 * sample are vacant in every epoch. */
#ifndef TW_BASE_ORDER_H
#define TW_BASE_ORDER_H

#include "base/rng.h"

#include <stdbool.h>

struct tw_subsets {
	uint64_t samples; /* of an epoch, at least `count` */
	uint64_t unit;    /* places of a full cell, at most samples / count */
	uint32_t count;   /* 0: the samples are not divided, and nothing below may be asked */
	bool own;         /* a subset has samples of its own */
};

struct tw_cell {
	uint32_t subset;
	uint64_t from, to; /* positions */
	uint64_t first;    /* number of place `from` within its subset and epoch */
};

struct tw_order {
	struct tw_rng shuffle;
	uint64_t samples;
	struct tw_subsets subsets;
	uint64_t block; /* samples of a block; 0: there are none.  Not with drawn subsets */
	bool stored;    /* places are samples as they are stored, whatever else is said here */
	bool blocks;    /* a subset is a range of the data as it was read, not drawn at random */
	uint64_t own;   /* subsets.own: samples of who computes here; 0: all there is room for */
};

/* Samples of subset k, and how many samples the subsets before it have. */
uint64_t tw_subsets_size(const struct tw_subsets *s, uint32_t k);
uint64_t tw_subsets_start(const struct tw_subsets *s, uint32_t k);
/* How many of `has` own samples of subset k there is room for; 0 stands for all. */
uint64_t tw_subsets_own(const struct tw_subsets *s, uint32_t k, uint64_t has);
/* The cell that a position lies in. */
struct tw_cell tw_subsets_cell(const struct tw_subsets *s, uint64_t position);
/* The first cell of subset k that ends after this position. */
struct tw_cell tw_subsets_next(const struct tw_subsets *s, uint32_t k, uint64_t position);

/* Not divided, without blocks. */
struct tw_order tw_order_make(uint64_t seed, uint64_t samples);
uint64_t tw_order_sample_divided(const struct tw_order *o, uint64_t position);
uint64_t tw_order_sample_of_block(const struct tw_order *o, uint64_t position);
static inline uint64_t tw_order_sample(const struct tw_order *o, uint64_t position)
{
	if (o->stored)
		return position % o->samples;
	if (o->subsets.count)
		return tw_order_sample_divided(o, position);
	if (o->block)
		return tw_order_sample_of_block(o, position);
	return tw_rng_permute(&o->shuffle, position / o->samples, o->samples,
			      position % o->samples);
}

#endif
