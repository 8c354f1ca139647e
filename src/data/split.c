/* SPDX-License-Identifier: Apache-2.0 */
/* split.c - samples are held out by a permutation of the seed's, and the rest moves together.
 *
 * The first places of the permutation are the test set, the next the validation set, the next the
 * training set; who is left (with `samples`) is dropped.  Within each set the source's order
 * stays, and only what is held out is copied. */
#include "data/split.h"
#include "data/data_memory.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { TO_DROP, TO_TRAIN, TO_TEST, TO_VALIDATION };

static uint64_t share_of(double share, uint64_t n)
{
	const double k = floor(share * (double)n + 0.5);

	return share <= 0 ? 0 : k < 1 ? 1 : (uint64_t)k;
}

static size_t width_of(const struct tw_data *d)
{
	return d->features * (d->kind == TW_VALUE_U8 ? 1 : sizeof(float));
}

/* Room for n samples of a set. */
static enum tw_status new_set(struct tw_data *d, uint64_t n, struct tw_samples *s,
			      struct tw_error *why)
{
	void *value = NULL, *answer = NULL;
	enum tw_status st;

	if (n == 0)
		return TW_OK;
	st = tw_data_keep_room(d, n, width_of(d), &value, why);
	if (st == TW_OK)
		st = tw_data_keep_room(d, n, (uint64_t)(d->targets ? d->targets : 1) * 4, &answer,
				       why);
	s->value = value;
	if (d->targets)
		s->target = answer;
	else
		s->label = answer;
	return st;
}

/* Sample i of `from` becomes the next of `to`; both may be the same set. */
static void move(const struct tw_data *d, const struct tw_samples *from, uint64_t i,
		 struct tw_samples *to)
{
	const size_t width = width_of(d), k = to->count++;
	uint8_t *value = (uint8_t *)to->value; /* ours: nobody else has seen it yet */
	float *target = (float *)to->target;

	memmove(value + k * width, (const uint8_t *)from->value + i * width, width);
	if (d->targets)
		memmove(target + k * d->targets, from->target + i * d->targets,
			d->targets * sizeof(float));
	else
		((uint32_t *)to->label)[k] = from->label[i];
}

static void deal(struct tw_data *d, const uint8_t *fate, uint64_t n)
{
	const struct tw_samples all = d->train;

	d->train.count = 0;
	for (uint64_t i = 0; i < n; i++) {
		if (fate[i] == TO_TRAIN)
			move(d, &all, i, &d->train);
		else if (fate[i] == TO_TEST)
			move(d, &all, i, &d->test);
		else if (fate[i] == TO_VALIDATION)
			move(d, &all, i, &d->validation);
	}
}

enum tw_status tw_split(struct tw_data *d, const struct tw_data_options *o, bool splits,
			uint64_t seed, struct tw_error *why)
{
	const struct tw_rng rng = tw_rng_make(seed, TW_RNG_SPLIT);
	const uint64_t n = d->train.count;
	const uint64_t tests = splits && d->test.count == 0 ? share_of(o->test, n) : 0;
	const uint64_t checks = tests < n ? share_of(o->validation, n - tests) : 0;
	const uint64_t held = tests + checks, kept = o->samples ? o->samples : n - held;
	uint8_t *fate;
	enum tw_status st;

	if (held >= n)
		return tw_fail(why, TW_BAD_INPUT,
			       "test, validation: hold out %" PRIu64 " of %" PRIu64
			       " samples; at least one must be left for training",
			       held, n);
	if (kept > n - held)
		return tw_fail(why, TW_BAD_INPUT,
			       "samples: there are %" PRIu64 " for training, not %" PRIu64
			       "; 0 takes them all",
			       n - held, kept);
	if (kept == n)
		return TW_OK;
	st = new_set(d, tests, &d->test, why);
	if (st == TW_OK)
		st = new_set(d, checks, &d->validation, why);
	if (st != TW_OK)
		return st;
	fate = d->heap->get(d->heap, n);
	if (!fate)
		return tw_data_keep_no_memory(why, "data", n);
	for (uint64_t i = 0; i < n; i++) {
		const uint64_t place = tw_rng_permute(&rng, 0, n, i);

		fate[i] = place < tests         ? TO_TEST
			  : place < held        ? TO_VALIDATION
			  : place < held + kept ? TO_TRAIN
						: TO_DROP;
	}
	deal(d, fate, n);
	d->heap->put(d->heap, fate);
	return TW_OK;
}
