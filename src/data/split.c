/* SPDX-License-Identifier: Apache-2.0 */
/* split.c - samples are held out by a permutation of the seed's.
 *
 * The first places of the permutation are the test set, the next the validation set, the next the
 * training set; who is left (with `samples`) is dropped.  Within each set the source's order
 * stays.  Of samples in memory, what is held out is copied and the rest moves together; of those
 * that a supply gives, each set is a list of positions.
 *
 * With folds the places are turned, so that those of the fold come first: every place is in one
 * fold, and what follows it is validation and training as ever.  Folds of the training set divide
 * what lies behind the test set, which is dropped. */
#include "data/split.h"
#include "data/data_memory.h"
#include "data/chosen.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TO_DROP, TO_TRAIN, TO_TEST, TO_VALIDATION };

static uint64_t share_of(double share, uint64_t n)
{
	const double k = floor(share * (double)n + 0.5);

	return share <= 0 ? 0 : k < 1 ? 1 : (uint64_t)k;
}

/* Fold `at` (from 0) of `of`; of 0: a share is held out.  `apart`: samples that a test set would
 * have, which are in no fold. */
struct fold {
	uint32_t at, of;
	uint64_t apart;
};

bool tw_split_in_parts(const struct tw_data *d)
{
	return d->hold == TW_HOLD_PARTS || (d->hold == TW_HOLD_FILE && d->tokens);
}

static bool by_rows(const struct tw_data *d)
{
	return tw_split_in_parts(d) || (d->hold != TW_HOLD_RANDOM && d->hold != TW_HOLD_FILE);
}

static enum tw_status read_fold(const struct tw_data *d, const struct tw_data_options *o,
				bool splits, struct fold *out, struct tw_error *why)
{
	const char *text = o->fold ? o->fold : "", *rest = text + strspn(text, "0123456789/");
	const bool train = strcmp(rest, " of train") == 0;
	unsigned at = 0, of = 0;
	int n = 0;

	*out = (struct fold){ .of = 0 };
	if (!*text)
		return TW_OK;
	if ((*rest && !train) || sscanf(text, "%6u/%6u%n", &at, &of, &n) != 2 || text + n != rest ||
	    at < 1 || at > of || of < 2)
		return tw_fail(why, TW_BAD_INPUT,
			       "fold: needs a fold and how many there are, such as 1/5 to 5/5, or "
			       "1/5 of train, not '%.40s'",
			       text);
	if (!splits || d->test.count)
		return tw_fail(
			why, TW_BAD_INPUT,
			"fold: the data has a test set of its own, and is not divided; leave "
			"this out");
	if (d->hold == TW_HOLD_TIME || d->hold == TW_HOLD_COLUMN)
		return tw_fail(why, TW_BAD_INPUT,
			       "fold: hold.by says which rows are the test set, so there are no "
			       "folds; use hold.by class or group, or leave one of them out");
	if (d->hold == TW_HOLD_PARTS)
		return tw_fail(why, TW_BAD_INPUT,
			       "fold: a text is divided into parts that lie together, and has no "
			       "folds; leave this out");
	if (o->samples)
		return tw_fail(
			why, TW_BAD_INPUT,
			"fold: cannot be combined with samples, which leaves some out; leave "
			"one of them out");
	if (train && by_rows(d))
		return tw_fail(why, TW_BAD_INPUT,
			       "fold: 'of train' divides samples at random, and hold.by says "
			       "otherwise; leave one of the two out");
	*out = (struct fold){ at - 1, of, train ? share_of(o->test, d->train.count) : 0 };
	if (of > d->train.count - out->apart)
		return tw_fail(why, TW_BAD_INPUT,
			       "fold: there are only %" PRIu64 " samples for %u folds",
			       d->train.count - out->apart, of);
	return TW_OK;
}

/* Where the fold begins among n places, and how many it has. */
static uint64_t fold_start(const struct fold *f, uint64_t n)
{
	return n * f->at / f->of;
}
static uint64_t fold_count(const struct fold *f, uint64_t n)
{
	return n * (f->at + 1) / f->of - fold_start(f, n);
}

/* Sample i of `from` becomes the next of `to`; both may be the same set. */
static void move(const struct tw_data *d, const struct tw_samples *from, uint64_t i,
		 struct tw_samples *to)
{
	const size_t width = tw_samples_width(d), labels = tw_data_labels(d), k = to->count++;
	uint8_t *value = (uint8_t *)to->value; /* ours: nobody else has seen it yet */
	float *target = (float *)to->target;

	memmove(value + k * width, (const uint8_t *)from->value + i * width, width);
	if (d->targets)
		memmove(target + k * d->targets, from->target + i * d->targets,
			d->targets * sizeof(float));
	else
		memmove((uint32_t *)to->label + k * labels, from->label + i * labels,
			labels * sizeof *to->label);
	if (to->weight)
		((float *)to->weight)[k] = from->weight[i];
}

/* Samples whose fate it is, as a list of positions; none: there is no such set. */
static enum tw_status choose(struct tw_data *d, const struct tw_samples *all, const uint8_t *fate,
			     uint8_t which, struct tw_samples *out, struct tw_error *why)
{
	uint64_t count = 0, *position;
	enum tw_status st;

	for (uint64_t i = 0; i < all->count; i++)
		count += fate[i] == which;
	if (count == 0)
		return TW_OK;
	st = tw_chosen_new(d, all, count, out, &position, why);
	for (uint64_t i = 0, k = 0; st == TW_OK && i < all->count; i++)
		if (fate[i] == which)
			position[k++] = i;
	return st;
}

static enum tw_status deal(struct tw_data *d, const uint8_t *fate, uint64_t n,
			   const uint64_t *count, struct tw_error *why)
{
	const struct tw_samples all = d->train;
	enum tw_status st = TW_OK;

	if (!all.value) {
		st = choose(d, &all, fate, TO_TRAIN, &d->train, why);
		if (st == TW_OK)
			st = choose(d, &all, fate, TO_TEST, &d->test, why);
		return st == TW_OK ? choose(d, &all, fate, TO_VALIDATION, &d->validation, why) : st;
	}
	if (count[TO_TEST])
		st = tw_hold_room(d, count[TO_TEST], &d->test, why);
	if (st == TW_OK)
		st = tw_hold_room(d, count[TO_VALIDATION], &d->validation, why);
	if (st != TW_OK)
		return st;
	d->train.count = 0;
	for (uint64_t i = 0; i < n; i++) {
		if (fate[i] == TO_TRAIN)
			move(d, &all, i, &d->train);
		else if (fate[i] == TO_TEST)
			move(d, &all, i, &d->test);
		else if (fate[i] == TO_VALIDATION)
			move(d, &all, i, &d->validation);
	}
	return TW_OK;
}

/* --- by what the rows say --------------------------------------------------------------------- */

/* How many are held out, and how far that has come. */
struct counts {
	uint64_t tests, checks;
	uint64_t all, start, seen; /* of a class: samples, where its fold begins, so far */
};

/* Rows in the order of their places. */
static enum tw_status in_order(struct tw_data *d, uint64_t seed, uint64_t n, uint64_t **out,
			       struct tw_error *why)
{
	const struct tw_rng rng = tw_rng_make(seed, TW_RNG_SPLIT);
	uint64_t *row = d->heap->get(d->heap, n * sizeof *row);

	if (!row)
		return tw_data_keep_no_memory(why, "data", n * sizeof *row);
	for (uint64_t i = 0; i < n; i++)
		row[tw_rng_permute(&rng, 0, n, i)] = i;
	*out = row;
	return TW_OK;
}

/* The same share of each class; a class of one sample is trained on.  Folds of different classes
 * are shifted against each other, so that what is left over goes to all of them. */
static enum tw_status by_class(struct tw_data *d, const struct tw_data_options *o, bool tests,
			       const struct fold *fold, uint64_t seed, uint8_t *fate,
			       struct tw_error *why)
{
	const uint64_t n = d->train.count;
	uint64_t *row = NULL;
	struct counts *of = tw_heap_zeros(d->heap, d->classes * sizeof *of);
	enum tw_status st = of ? in_order(d, seed, n, &row, why)
			       : tw_data_keep_no_memory(why, "data", d->classes * sizeof *of);

	for (uint64_t i = 0; st == TW_OK && i < n; i++)
		of[d->train.label[i]].all++;
	for (uint32_t c = 0; st == TW_OK && c < d->classes; c++) {
		const struct fold own = { fold->of ? (fold->at + c) % fold->of : 0, fold->of, 0 };
		const uint64_t all = of[c].all;

		if (fold->of) {
			of[c].start = fold_start(&own, all);
			of[c].tests = fold_count(&own, all);
		} else {
			of[c].tests = tests && all > 1 ? share_of(o->test, all) : 0;
		}
		of[c].checks =
			all > of[c].tests + 1 ? share_of(o->validation, all - of[c].tests) : 0;
	}
	for (uint64_t i = 0; st == TW_OK && i < n; i++) {
		struct counts *c = &of[d->train.label[row[i]]];
		const uint64_t place = (c->seen++ + c->all - c->start) % c->all;

		fate[row[i]] = place < c->tests               ? TO_TEST
			       : place < c->tests + c->checks ? TO_VALIDATION
							      : TO_TRAIN;
	}
	d->heap->put(d->heap, row);
	d->heap->put(d->heap, of);
	return st;
}

/* More than there are rows, maybe: rows that were dropped had groups, too. */
static uint64_t groups_of(const struct tw_data *d)
{
	uint64_t groups = 0;

	for (uint64_t i = 0; i < d->train.count; i++)
		if ((uint64_t)d->hold_key[i] >= groups)
			groups = (uint64_t)d->hold_key[i] + 1;
	return groups;
}

/* A group is in the fold in which its first sample would stand if groups stood one after the other.
 * Returns how many samples the fold has. */
static uint64_t group_fold(const struct tw_data *d, const uint64_t *row, const uint64_t *size,
			   const struct fold *fold, uint8_t *group)
{
	const uint64_t n = d->train.count;
	uint64_t before = 0, held = 0;

	for (uint64_t i = 0; i < n; i++) {
		const uint64_t g = (uint64_t)d->hold_key[row[i]];

		if (group[g])
			continue;
		group[g] = before * fold->of / n == fold->at ? TO_TEST : TO_TRAIN;
		held += group[g] == TO_TEST ? size[g] : 0;
		before += size[g];
	}
	for (uint64_t i = 0; i < n; i++)
		if (group[(uint64_t)d->hold_key[i]] == TO_TRAIN)
			group[(uint64_t)d->hold_key[i]] = 0;
	return held;
}

/* Whole groups, in the order of the first place of each, until enough is held out. */
static enum tw_status by_group(struct tw_data *d, const struct counts *want,
			       const struct fold *fold, uint64_t seed, uint8_t *fate,
			       struct tw_error *why)
{
	const uint64_t n = d->train.count, groups = groups_of(d);
	uint64_t *row = NULL, *size, held = 0, tests = want->tests;
	uint8_t *group;
	enum tw_status st = in_order(d, seed, n, &row, why);

	if (st != TW_OK)
		return st;
	size = tw_heap_zeros(d->heap, groups * sizeof *size);
	group = tw_heap_zeros(d->heap, groups);
	if (!size || !group)
		st = tw_data_keep_no_memory(why, "data", groups * sizeof *size);
	for (uint64_t i = 0; st == TW_OK && i < n; i++)
		size[(uint64_t)d->hold_key[i]]++;
	if (st == TW_OK && fold->of)
		tests = held = group_fold(d, row, size, fold, group);
	for (uint64_t i = 0; st == TW_OK && i < n; i++) {
		const uint64_t g = (uint64_t)d->hold_key[row[i]];

		if (group[g] || held + size[g] >= n)
			continue;
		group[g] = held < tests ? TO_TEST : held < tests + want->checks ? TO_VALIDATION : 0;
		held += group[g] ? size[g] : 0;
	}
	for (uint64_t i = 0; st == TW_OK && i < n; i++) {
		const uint8_t g = group[(uint64_t)d->hold_key[i]];

		fate[i] = g ? g : TO_TRAIN;
	}
	d->heap->put(d->heap, group);
	d->heap->put(d->heap, size);
	d->heap->put(d->heap, row);
	return st;
}

struct moment {
	double key;
	uint64_t row;
};

static int later(const void *a, const void *b)
{
	const struct moment *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return (x->row > y->row) - (x->row < y->row);
}

/* The last rows are the test set, those before it the validation set. */
static enum tw_status by_time(struct tw_data *d, const struct counts *want, uint8_t *fate,
			      struct tw_error *why)
{
	const uint64_t n = d->train.count;
	struct moment *at = d->heap->get(d->heap, n * sizeof *at);

	if (!at)
		return tw_data_keep_no_memory(why, "data", n * sizeof *at);
	for (uint64_t i = 0; i < n; i++)
		at[i] = (struct moment){ d->hold_key[i], i };
	qsort(at, n, sizeof *at, later);
	for (uint64_t i = 0; i < n; i++)
		fate[at[i].row] = i >= n - want->tests                  ? TO_TEST
				  : i >= n - want->tests - want->checks ? TO_VALIDATION
									: TO_TRAIN;
	d->heap->put(d->heap, at);
	return TW_OK;
}

/* By their own order. */
static void by_place(const struct tw_data *d, const struct counts *want, uint8_t *fate)
{
	const uint64_t n = d->train.count, checks = n - want->tests - want->checks;

	for (uint64_t i = 0; i < n; i++)
		fate[i] = i >= n - want->tests ? TO_TEST : i >= checks ? TO_VALIDATION : TO_TRAIN;
}

static void by_column(const struct tw_data *d, uint8_t *fate)
{
	static const uint8_t to[] = {
		[TW_SET_TEST] = TO_TEST,
		[TW_SET_VALIDATION] = TO_VALIDATION,
		[TW_SET_TRAIN] = TO_TRAIN,
	};

	for (uint64_t i = 0; i < d->train.count; i++)
		fate[i] = to[(int)d->hold_key[i]];
}

static enum tw_status decide(struct tw_data *d, const struct tw_data_options *o, bool tests,
			     const struct fold *fold, uint64_t seed, uint8_t *fate,
			     struct tw_error *why)
{
	const uint64_t n = d->train.count;
	struct counts want = { .tests = fold->of ? fold_count(fold, n)
					: tests  ? share_of(o->test, n)
						 : 0 };

	want.checks = want.tests < n ? share_of(o->validation, n - want.tests) : 0;
	if (d->hold == TW_HOLD_CLASS)
		return by_class(d, o, tests, fold, seed, fate, why);
	if (d->hold == TW_HOLD_GROUP)
		return by_group(d, &want, fold, seed, fate, why);
	if (d->hold == TW_HOLD_TIME && want.tests + want.checks < n)
		return by_time(d, &want, fate, why);
	if (tw_split_in_parts(d) && want.tests + want.checks < n)
		by_place(d, &want, fate);
	if (d->hold == TW_HOLD_COLUMN)
		by_column(d, fate);
	return TW_OK;
}

static enum tw_status split_by(struct tw_data *d, const struct tw_data_options *o, bool tests,
			       const struct fold *fold, uint64_t seed, struct tw_error *why)
{
	const uint64_t n = d->train.count;
	uint64_t count[4] = { 0 };
	uint8_t *fate = tw_heap_zeros(d->heap, n);
	enum tw_status st = fate ? decide(d, o, tests, fold, seed, fate, why)
				 : tw_data_keep_no_memory(why, "data", n);

	for (uint64_t i = 0; st == TW_OK && i < n; i++)
		count[fate[i]]++;
	if (st == TW_OK && count[TO_TRAIN] == 0 && tw_split_in_parts(d))
		st = tw_fail(why, TW_BAD_INPUT,
			     "test, validation: hold out all of %" PRIu64
			     " samples; at least one must be left for training: use a smaller "
			     "length, or a longer text",
			     n);
	else if (st == TW_OK && count[TO_TRAIN] == 0)
		st = tw_fail(why, TW_BAD_INPUT,
			     "hold.by: no sample is left for training; hold out less");
	if (st == TW_OK && fold->of && count[TO_TEST] == 0)
		st = tw_fail(why, TW_BAD_INPUT,
			     "fold: there are too few groups for %u folds: this one has none",
			     fold->of);
	if (st == TW_OK && d->hold == TW_HOLD_COLUMN && d->test.count && count[TO_TEST])
		st = tw_fail(why, TW_BAD_INPUT,
			     "hold.by: the column says test, and test_file gives a test set, too; "
			     "leave one of them out");
	if (st == TW_OK)
		st = deal(d, fate, n, count, why);
	d->heap->put(d->heap, fate);
	return st;
}

/* --- at random -------------------------------------------------------------------------------- */

enum tw_status tw_split(struct tw_data *d, const struct tw_data_options *o, bool splits,
			uint64_t seed, struct tw_error *why)
{
	const struct tw_rng rng = tw_rng_make(seed, TW_RNG_SPLIT);
	const uint64_t all = d->train.count;
	uint64_t n, tests, checks, held, kept, start, count[4] = { 0 };
	struct fold fold;
	uint8_t *fate;
	enum tw_status st = read_fold(d, o, splits, &fold, why);

	if (st != TW_OK)
		return st;
	n = all - fold.apart;
	start = fold.of ? fold_start(&fold, n) : 0;
	tests = fold.of                        ? fold_count(&fold, n)
		: splits && d->test.count == 0 ? share_of(o->test, n)
					       : 0;
	checks = tests < n ? share_of(o->validation, n - tests) : 0;
	held = tests + checks;
	kept = o->samples ? o->samples : n - held;
	if (by_rows(d)) {
		if (o->samples)
			return tw_fail(why, TW_BAD_INPUT,
				       tw_split_in_parts(d)
					       ? "samples: a text is trained on whole; leave this "
						 "out, or name a shorter file"
					       : "samples: cannot be combined with hold.by; leave "
						 "one out");
		return split_by(d, o, splits && d->test.count == 0, &fold, seed, why);
	}
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
	if (kept == all)
		return TW_OK;
	fate = d->heap->get(d->heap, all);
	if (!fate)
		return tw_data_keep_no_memory(why, "data", all);
	for (uint64_t i = 0; i < all; i++) {
		const uint64_t at = tw_rng_permute(&rng, 0, all, i);
		const uint64_t place = (at - fold.apart + n - start) % n;

		fate[i] = at < fold.apart       ? TO_DROP
			  : place < tests       ? TO_TEST
			  : place < held        ? TO_VALIDATION
			  : place < held + kept ? TO_TRAIN
						: TO_DROP;
	}
	count[TO_TEST] = tests;
	count[TO_VALIDATION] = checks;
	st = deal(d, fate, all, count, why);
	d->heap->put(d->heap, fate);
	return st;
}
