/* SPDX-License-Identifier: Apache-2.0 */
/* borders.c - how many shards a model has, and where its vector is cut into them. */
#include "spec/field.h"

#define MIB ((size_t)1 << 20)

/* The start of a tensor nearest to `cut`, at most `reach` away; else the cut itself. */
static size_t snap(const size_t *tensor, size_t tensors, size_t cut, size_t reach)
{
	size_t low = 0, high = tensors, best = cut, least = reach + 1;

	while (low < high) {
		const size_t mid = low + (high - low) / 2;

		if (tensor[mid] < cut)
			low = mid + 1;
		else
			high = mid;
	}
	for (size_t k = low ? low - 1 : 0; k <= low && k <= tensors; k++) {
		const size_t away = tensor[k] > cut ? tensor[k] - cut : cut - tensor[k];

		if (away < least) {
			least = away;
			best = tensor[k];
		}
	}
	return best;
}

/* Shards that tensors t.. fill when each takes as many whole ones as fit into `most`. */
static size_t needed(const size_t *tensor, size_t tensors, size_t t, size_t most)
{
	size_t shards = 0;

	while (t < tensors) {
		const size_t from = tensor[t];

		shards++;
		while (t < tensors && tensor[t + 1] - from <= most)
			t++;
	}
	return shards;
}

/* The least `most`, up to `limit`, with which `shards` are enough; 0: there is none. */
static size_t least(const size_t *tensor, size_t tensors, uint32_t shards, size_t limit)
{
	size_t low = 1, high = limit;

	for (size_t t = 0; t < tensors; t++)
		if (tensor[t + 1] - tensor[t] > low)
			low = tensor[t + 1] - tensor[t];
	if (low > limit || needed(tensor, tensors, 0, limit) > shards)
		return 0;
	while (low < high) {
		const size_t mid = low + (high - low) / 2;

		if (needed(tensor, tensors, 0, mid) <= shards)
			high = mid;
		else
			low = mid + 1;
	}
	return high;
}

static size_t apart(size_t a, size_t b)
{
	return a > b ? a - b : b - a;
}

/* Only whole tensors, so that nobody has to gather one; no shard is twice the even length.  Each
 * takes what brings it nearest to an even share of what is left. */
static bool cut_between(const size_t *tensor, size_t tensors, uint32_t shards, size_t *border)
{
	const size_t total = tensor[tensors];
	const size_t most =
		tensors < shards ? 0 : least(tensor, tensors, shards, 2 * (total / shards + 1));
	size_t t = 0;

	if (!most)
		return false;
	for (uint32_t k = 0; k < shards; k++) {
		const size_t after = shards - k - 1, from = tensor[t];
		const size_t aim = from + (total - from) / (after + 1);

		border[k] = from;
		t++; /* a shard has at least one */
		while (tensors - t > after && tensor[t + 1] - from <= most &&
		       (needed(tensor, tensors, t, most) > after ||
			apart(tensor[t + 1], aim) < apart(tensor[t], aim)))
			t++;
	}
	border[shards] = total;
	return t == tensors;
}

void tw_job_borders(const size_t *tensor, size_t tensors, uint32_t shards, size_t *border)
{
	const size_t total = tensor[tensors];
	const size_t even = total / shards, rest = total % shards;

	if (cut_between(tensor, tensors, shards, border))
		return;
	border[0] = 0;
	for (uint32_t k = 1; k < shards; k++)
		border[k] = snap(tensor, tensors, k * even + (k < rest ? k : rest), even / 4);
	border[shards] = total;
}

uint32_t tw_job_usual_shards(const struct tw_job *job, size_t total)
{
	const size_t bytes = total * sizeof(float);
	const size_t parts = job->strategy.fragments;
	size_t shards = bytes / MIB + (bytes % MIB != 0);

	if (tw_projection_is_ball(&job->plan.projection)) /* the norm is of the whole vector */
		return 1;
	shards = shards > 16 ? 16 : shards;
	shards = shards < job->cluster.servers ? job->cluster.servers : shards;
	/* fragments of equal numbers of shards */
	return (uint32_t)((shards + parts - 1) / parts * parts);
}
