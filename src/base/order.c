/* SPDX-License-Identifier: Apache-2.0 */
/* order.c - the order of samples where they are divided into subsets, or permuted by blocks. */
#include "base/order.h"

/* `total` in `count` parts, the first ones longer by one: where part k begins. */
static uint64_t part(uint64_t total, uint32_t count, uint32_t k)
{
	const uint64_t rest = total % count;

	return k * (total / count) + (k < rest ? k : rest);
}

uint64_t tw_subsets_start(const struct tw_subsets *s, uint32_t k)
{
	return part(s->samples, s->count, k);
}

uint64_t tw_subsets_size(const struct tw_subsets *s, uint32_t k)
{
	return part(s->samples, s->count, k + 1) - part(s->samples, s->count, k);
}

uint64_t tw_subsets_own(const struct tw_subsets *s, uint32_t k, uint64_t has)
{
	const uint64_t room = tw_subsets_size(s, k);

	return has && has < room ? has : room;
}

/* Cell k of this row of this epoch; it may be empty in the last row. */
static struct tw_cell cell_at(const struct tw_subsets *s, uint64_t epoch, uint64_t row, uint32_t k)
{
	const uint64_t full = s->samples / s->count / s->unit, begin = row * s->unit * s->count;
	const uint64_t left = s->samples - begin;
	const uint64_t from = row < full ? k * s->unit : part(left, s->count, k);
	const uint64_t to = row < full ? from + s->unit : part(left, s->count, k + 1);
	const uint64_t start = epoch * s->samples + begin;

	return (struct tw_cell){ k, start + from, start + to, row * s->unit };
}

/* The part of `total` that place `at` lies in. */
static uint32_t part_of(uint64_t total, uint32_t count, uint64_t at)
{
	const uint64_t even = total / count, rest = total % count;

	if (at < rest * (even + 1))
		return (uint32_t)(at / (even + 1));
	return (uint32_t)(rest + (at - rest * (even + 1)) / even);
}

struct tw_cell tw_subsets_cell(const struct tw_subsets *s, uint64_t position)
{
	const uint64_t epoch = position / s->samples, place = position % s->samples;
	const uint64_t full = s->samples / s->count / s->unit, width = s->unit * s->count;
	const uint64_t row = place / width < full ? place / width : full;
	const uint64_t at = place - row * width;

	return cell_at(s, epoch, row,
		       row < full ? (uint32_t)(at / s->unit)
				  : part_of(s->samples - row * width, s->count, at));
}

struct tw_cell tw_subsets_next(const struct tw_subsets *s, uint32_t k, uint64_t position)
{
	const uint64_t full = s->samples / s->count / s->unit, width = s->unit * s->count;
	uint64_t epoch = position / s->samples, row = position % s->samples / width;

	row = row < full ? row : full;
	for (;;) {
		const struct tw_cell c = cell_at(s, epoch, row, k);

		if (c.to > position && c.to > c.from)
			return c;
		epoch += row == full;
		row = row == full ? 0 : row + 1;
	}
}

struct tw_order tw_order_make(uint64_t seed, uint64_t samples)
{
	return (struct tw_order){ .shuffle = tw_rng_make(seed, TW_RNG_SHUFFLE),
				  .samples = samples };
}

/* Place i of the permutation of [0, size) with this key.  Keys count from 0 upwards, and those of
 * blocks downwards from the largest number: the two never meet. */
static uint64_t permuted(const struct tw_order *o, uint64_t key, uint64_t size, uint64_t i)
{
	const uint64_t most = o->block ? o->samples / o->block + 1 : 0; /* blocks of an epoch */
	uint64_t full, k;

	if (!o->block)
		return tw_rng_permute(&o->shuffle, key, size, i);
	full = size / o->block;
	k = i / o->block < full ? tw_rng_permute(&o->shuffle, key, full, i / o->block) : full;
	return k * o->block + tw_rng_permute(&o->shuffle, ~(key * most + k),
					     k < full ? o->block : size % o->block, i % o->block);
}

uint64_t tw_order_sample_of_block(const struct tw_order *o, uint64_t position)
{
	return permuted(o, position / o->samples, o->samples, position % o->samples);
}

/* Nobody deals a vacant place; whoever is given one all the same reads a sample of its own. */
static uint64_t own_sample(const struct tw_order *o, const struct tw_cell *c, uint64_t position)
{
	const struct tw_subsets *s = &o->subsets;
	const uint64_t has = tw_subsets_own(s, c->subset, o->own);

	return permuted(o, position / s->samples * s->count + c->subset, has,
			(c->first + (position - c->from)) % has);
}

uint64_t tw_order_sample_divided(const struct tw_order *o, uint64_t position)
{
	const struct tw_subsets *s = &o->subsets;
	const struct tw_cell c = tw_subsets_cell(s, position);
	const uint64_t epoch = position / s->samples;

	if (s->own)
		return own_sample(o, &c, position);

	const uint64_t at = tw_subsets_start(s, c.subset) + permuted(o, epoch * s->count + c.subset,
								     tw_subsets_size(s, c.subset),
								     c.first + (position - c.from));

	/* no epoch has this number */
	return o->blocks ? at : tw_rng_permute(&o->shuffle, UINT64_MAX, s->samples, at);
}
